"""Putting entries in every way: with digests, by a clock alone, `as_of`, late, `based_on`, again by `op`, by `sums`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from oracle_acts_ways import CHAIN, TARGETS
from oracle_declared import OBJECTS
from oracle_eyes import SPECIAL
from oracle_model import Dep
from oracle_place import CURRENT, DIRECTORIES, FILES, HARD, LINKS, ODD, ODD_NAMES
from oracle_table import KINDS
from support import HANG, clean_environment, digest, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from oracle_eyes import Eyes
    from oracle_place import Place
    from support import Json

WAYS: Final = ("digests",) * 6 + ("blake2b",) + ("clock",) * 3 + ("as_of",) * 3
_DIRECTORIES: Final = (*DIRECTORIES, *DIRECTORIES, "d/y", "d/e/c", CURRENT, LINKS, HARD, ODD)
_VALUES: Final[tuple[dict[str, Json], ...]] = ({"value": 1}, {"value": 2}, {"value": [None]}, {})
_ESCAPED: Final = {"[": "[[]", "*": "[*]", "?": "[?]"}


class Prepared(NamedTuple):
    """A put whose sources were read, to be sent now or later. `position` is that of the clock."""

    key: str
    deps: list[Dep]
    way: str
    clock: str
    position: int


def depth(key: str) -> int:
    """The number of a key: an entry rests only on those of lower ones, so that nothing goes round."""
    return int(key[1:])


class Putting:
    """Chooses what is put and how. Entries under `plain` keys rest on paths and objects, `chained` ones on others."""

    def __init__(self, place: Place, plain: int, chained: int) -> None:
        self._place, self._random = place, place.random
        self.plain = [f"p{number}" for number in range(plain)]
        self.chained = [f"c{plain + number}" for number in range(chained)]

    def prepare(self, key: str, eyes: Eyes, clock: str, tick: int, version: Callable[[str], int | None]) -> Prepared:
        """Reads what an entry will be made from. `version` tells that of what stands under a key."""
        deps: dict[str, Dep] = {}
        kinds = self._kinds(key)
        while kinds:
            kind = kinds.pop()
            name = self.dependency(kind, key)
            if kind == "entry":
                known = version(name.partition(":")[2])
                if known is not None:
                    deps[name] = Dep(name, known, tick)
            elif kind == "object":
                deps[name] = Dep(name, "", tick)
            else:
                look = eyes.look(name)
                if not look.barred and look.digest != SPECIAL:
                    deps[name] = Dep(name, look.digest, tick)
            if not kinds and not deps:  # nothing of it can be kept: another
                kinds = self._kinds(key)[:1] if kind != "entry" else ["file"]
        position = int(clock.rpartition(":")[2])
        return Prepared(key, list(deps.values()), self._random.choice(WAYS), clock, position)

    def _kinds(self, key: str) -> list[str]:
        """Mostly of one kind, so that each question is about that kind."""
        kind = "entry" if key.startswith("c") else self._random.choice(KINDS[:-1])
        kinds = [kind] * self._random.choice((1, 1, 1, 2, 3))
        if self._random.random() < 0.15:
            kinds += self._random.choices(KINDS[:-1], k=2)
        return kinds

    def dependency(self, kind: str, key: str) -> str:
        """A dependency of this kind, for an entry under this key."""
        choice, root = self._random.choice, self._place.root
        directory = choice(_DIRECTORIES)
        match kind:
            case "entry":
                return f"entry:{choice([*self.plain, *self.chained][: depth(key)])}"
            case "object":
                return f"object:o{self._random.randrange(OBJECTS)}"
            case "absent":
                return f"file:{os.path.relpath(self._place.missing(), root)}"
            case "file":
                return f"file:{self._file()}"
            case "names" | "glob":
                pattern = choice((f"{directory}/*", f"{directory}/**/f*", f"{directory}/f*", "*/*/f*", self._odd()))
                return f"{kind}:{pattern}"
            case _:
                return f"{kind}:{directory}" if self._random.random() < 0.9 else f"{kind}:{root}/{directory}"

    def _file(self) -> str:
        choice, number = self._random.choice, self._random.randrange
        way = self._random.random()
        if way < 0.3 and self._place.notable:
            return os.path.relpath(choice(self._place.notable), self._place.root)
        if way < 0.6:
            return f"{choice(DIRECTORIES)}/f{number(FILES)}"
        return choice(
            (
                f"{LINKS}/t{number(TARGETS)}",
                f"{LINKS}/c{number(CHAIN)}",
                f"{CURRENT}/f{number(FILES)}",
                f"{HARD}/l{number(FILES)}",
                f"{ODD}/{choice(ODD_NAMES)}",
                choice(DIRECTORIES),
            )
        )

    def _odd(self) -> str:
        """A pattern that one odd name matches to the letter."""
        name = self._random.choice(ODD_NAMES)
        return f"{ODD}/" + "".join(_ESCAPED.get(letter, letter) for letter in name)

    def question(self, deps: list[Dep]) -> list[Json]:
        """The same dependencies for a `deps.check`; none where digests alone do not say what they are."""
        if any(dep.unproven or dep.kind in {"object", "entry"} for dep in deps):
            return []
        return [{"dep": wire(dep.name), "digest": dep.made_from} for dep in deps]

    def value(self) -> dict[str, Json]:
        """One of few values, or none."""
        return dict(self._random.choice(_VALUES))

    def request(self, prepared: Prepared) -> dict[str, Json]:
        """The parameters of an `entry.put`, but for the value."""
        deps: list[Json] = []
        clocked = prepared.way == "clock"
        for dep in prepared.deps:
            name = wire(dep.name)
            if dep.kind == "entry" and prepared.way == "digests" and dep.made_from:
                deps.append({"dep": name, "digest": f"version:{dep.made_from}"})
            elif dep.kind in {"object", "entry"}:
                deps.append({"dep": name} if isinstance(name, dict) else name)
                clocked = True
            elif prepared.way in {"clock", "as_of"}:
                deps.append({"dep": name})
            elif prepared.way == "blake2b":
                deps.append({"dep": name, "digest": digest(dep.name, self._place.root, "blake2b")})
            else:
                deps.append({"dep": name, "digest": dep.made_from})
        asked: dict[str, Json] = {"key": prepared.key, "deps": deps, "root": self._place.root}
        if prepared.way == "as_of":
            asked["as_of"] = "put"
        if clocked or self._random.random() < 0.5:
            asked["fetched_at"] = prepared.clock
        return asked


def put_by_sums(socket: str, home: str, root: str, key: str, deps: list[Dep]) -> None:
    """`provd put --sums`, of files that were there."""
    sums = "".join(f"{str(dep.made_from).partition(':')[2]}  {dep.rest}\n" for dep in deps)
    subprocess.run(
        [sys.executable, "-m", "provd", "put", key, "--value", "sums", "--sums", "-", "--root", root],
        env=clean_environment(home, {"PROVD_SOCKET": socket}),
        cwd=root,
        input=sums.encode(),
        capture_output=True,
        timeout=HANG,
        check=True,
    )
