"""The oracle: what each value was made from, what actions declared, and what an answer is worth.

Rule: it is pure. It is given digests of what was read by hand, never asks the disk, and knows nothing of provd but the
words of its answers. Times are ticks: everything that it is told happens one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from oracle_eyes import ABSENT, SPECIAL
from oracle_table import Finding
from support import unwire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oracle_eyes import Look
    from support import Json

FRESH, DIRTY, UNKNOWN = "fresh", "dirty", "unknown"
_ANY: Final = 1 << 62


@dataclass
class Dep:
    """A dependency of an entry, as it was put.

    `made_from` is the digest of the bytes that the value was made from, for an `entry:` its version. `unproven`: the
    daemon said that it keeps none. `tick`: when the sources were read.
    """

    name: str
    made_from: str | int
    tick: int
    unproven: bool = False

    @property
    def kind(self) -> str:
        """The column of the table."""
        kind = self.name.partition(":")[0]
        return "absent" if kind == "file" and self.made_from == ABSENT else kind

    @property
    def rest(self) -> str:
        """What stands behind the kind."""
        return self.name.partition(":")[2]


@dataclass
class Entry:
    """What stands under a key. `mark` is the newest mutation and the columns that it touched."""

    version: int
    value: Json
    deps: list[Dep]
    step: int
    clock: int | None  # the position of its clock, where the put told one
    mark: tuple[str, set[str]] | None = None


@dataclass
class Object:
    """What is known of an object: when its last write ended, who writes it now, when nobody knew."""

    written: int = -1
    unsure: int = -1
    open: set[int] = field(default_factory=set)


class Oracle:
    """Knows all entries that stand, all objects, and what time it is."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.objects: dict[str, Object] = {}
        self.gap = -1
        """The last gap for all."""
        self.tick = 0

    def now(self) -> int:
        """A new tick."""
        self.tick += 1
        return self.tick

    def object(self, name: str) -> Object:
        """What is known of an object."""
        return self.objects.setdefault(name, Object())

    def paths(self, key: str) -> set[str]:
        """All path dependencies that an entry rests on, through others too."""
        found: set[str] = set()
        for dep in self.entries[key].deps if key in self.entries else ():
            if dep.kind == "entry":
                found |= self.paths(dep.rest)
            elif dep.kind != "object":
                found.add(dep.name)
        return found

    def may_be(self, deps: list[Dep], now: Mapping[str, Look]) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
        """The verdicts that are right for these dependencies, and for each of them."""
        each = {dep.name: self._may_be(dep, now) for dep in deps}
        right: set[str] = set()
        if any(DIRTY in may for may in each.values()):
            right.add(DIRTY)
        if all(DIRTY not in may or len(may) > 1 for may in each.values()):
            if any(UNKNOWN in may for may in each.values()):
                right.add(UNKNOWN)
            if all(FRESH in may for may in each.values()):
                right.add(FRESH)
        return frozenset(right), each

    def of_key(self, key: str, now: Mapping[str, Look]) -> frozenset[str]:
        """The verdicts that are right for what stands under a key."""
        if key not in self.entries:
            return frozenset({UNKNOWN})
        return self.may_be(self.entries[key].deps, now)[0]

    def _may_be(self, dep: Dep, now: Mapping[str, Look]) -> frozenset[str]:
        kind, _, rest = dep.name.partition(":")
        if kind == "object":
            return frozenset({self._object(self.object(rest), dep.tick)})
        if kind == "entry":
            return self._entry(dep, rest, now)
        if dep.unproven:
            return frozenset({UNKNOWN, DIRTY})
        look = now[dep.name]
        differs = look.digest != dep.made_from or look.digest == SPECIAL
        if look.barred:
            return frozenset({UNKNOWN, DIRTY} if differs else {UNKNOWN})
        return frozenset({DIRTY if differs else FRESH})

    def _object(self, known: Object, tick: int) -> str:
        if known.open or known.written > tick:
            return DIRTY
        return UNKNOWN if max(known.unsure, self.gap) > tick else FRESH

    def _entry(self, dep: Dep, key: str, now: Mapping[str, Look]) -> frozenset[str]:
        there = self.entries.get(key)
        if dep.unproven:
            return frozenset({UNKNOWN, DIRTY})
        if there is None or there.version != dep.made_from:
            return frozenset({DIRTY})
        return self.may_be(there.deps, now)[0]

    def judge(
        self, deps: list[Dep], answer: Mapping[str, Json], now: Mapping[str, Look], *, strict: bool = False
    ) -> Finding:
        """What an answer about these dependencies is worth, as they are now.

        By the strict rule what was touched is dirty, though it be the same again; then only `fresh` can be false.
        """
        right, each = self.may_be(deps, now)
        said = answer["verdict"]
        if said == FRESH:
            return Finding.RIGHT if FRESH in right else Finding.FALSE_FRESH
        if strict:
            return Finding.RIGHT
        if said not in right:
            return Finding.FALSE_DIRTY if said == DIRTY else Finding.NEEDLESS
        if said == DIRTY and not answer.get("more"):
            named = {_name(item["dep"]) for item in answer["evidence"] if item["why"] not in _UNKNOWN_WHY}
            surely = {name for name, may in each.items() if may == {DIRTY}}
            maybe = {name for name, may in each.items() if DIRTY in may}
            if not surely <= named <= maybe:
                return Finding.WRONG_EVIDENCE
        return Finding.RIGHT


_UNKNOWN_WHY: Final = frozenset(
    {"unproven", "gap", "entry-unknown", "too-deep", "unreadable", "timeout", "moving", "namespace"}
)


def _name(dep: Json) -> str:
    raw = unwire(dep)
    return raw.decode(errors="surrogateescape")
