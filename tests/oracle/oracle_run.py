"""One run: at random something is done, put, or asked, and each answer is judged by what the disk says to our own eyes.

Nothing happens between a question and the look at the disk: so all is at rest, and a false `dirty` has no excuse.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from oracle_actions import Actions
from oracle_model import FALSE, Finding, Oracle, State
from support import digest

if TYPE_CHECKING:
    from support import Json, Rpc

_KEYS: Final = 30
_SETS: Final = ("tree:{}", "glob:{}/**/f*", "glob:{}/*", "dir:{}", "names:{}/*")
_PATIENCE_MS: Final = 60_000
_QUESTIONS: Final[tuple[dict[str, Json], ...]] = (*({},) * 8, {"verify": "content"}, {"revalidate": False})
"""Most ask as everybody does; some want all to be read, some nothing."""


class Wrong(Exception):
    """An answer was false; says which, of which seed, and all steps since its entry was put."""


class Run:
    """Random steps from a seed, in two new directories, with a daemon that watches `root`."""

    def __init__(self, rpc: Rpc, root: str, outside: str, seed: int) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.steps: list[str] = []
        self._rpc, self._root = rpc, root
        self._random = Random(seed)
        os.makedirs(outside)
        self._actions = Actions(root, outside, self._random)
        self._oracle = Oracle()
        for number in range(_KEYS):
            self._put(f"k{number}")

    def step(self) -> None:
        """Some actions, sometimes a put, then questions; raises Wrong at the first false `fresh`."""
        for _ in range(self._random.choice((0, 0, 1, 1, 2, 5))):
            self.steps.append(self._actions.act())
        for _ in range(self._random.choice((0, 0, 10, 50, 200))):  # time passes
            self._rpc("daemon.hello", protocol=1)
        for _ in range(self._random.choice((0, 0, 1, 3))):
            self._put(f"k{self._random.randrange(_KEYS)}")
        now: dict[str, str] = {}  # what one set of questions is judged by: nothing happens meanwhile
        for _ in range(self._random.choice((1, 5, 20))):
            self._ask(now)

    def close(self) -> None:
        """Lets go of what the actions hold."""
        self._actions.close()

    def _put(self, key: str) -> None:
        deps = dict.fromkeys(self._dependency() for _ in range(self._random.choice((1, 1, 2, 4, 10))))
        state = {dep: digest(dep, self._root) for dep in deps}
        if any(each.startswith("type:special") for each in state.values()):
            return  # never equal
        self.steps.append(f"put {key} {' '.join(deps)}")
        given = [{"dep": dep, "digest": each} for dep, each in state.items()]
        told = self._rpc("entry.put", key=key, value=1, deps=given, root=self._root)
        if told.get("late") or told["verdict"]["verdict"] != "fresh":
            raise Wrong(self._account(f"what was just read is not fresh when put: {str(told)[:1000]}", 0))
        self._oracle.put(key, state, len(self.steps) - 1)
        self.counts["put"] += 1

    def _dependency(self) -> str:
        if self._random.random() < 0.5:
            return f"file:{self._actions.file()}"
        return self._random.choice(_SETS).format(self._actions.directory())

    def _ask(self, seen: dict[str, str]) -> None:
        keys = self._random.sample(sorted(self._oracle.entries), self._random.choice((1, 1, 1, 3)))
        how = self._random.choice(_QUESTIONS)
        asked: dict[str, Json] = {"keys": keys} if len(keys) > 1 else {"key": keys[0]}
        told = self._rpc("entry.check", root=self._root, timeout_ms=_PATIENCE_MS, **asked, **how)
        for key, answer in (told["verdicts"] if len(keys) > 1 else {keys[0]: told}).items():
            finding = self._oracle.judge(key, answer, self._now(key, seen), strict="revalidate" in how)
            self._count(answer, finding)
            if finding in FALSE:
                words = f"{finding} of {key}, asked {asked} {how}: {str(answer)[:2000]}"
                account = self._account(words, self._oracle.entries[key].step)
                if finding is Finding.FALSE_FRESH:
                    raise Wrong(account)
                self.steps.append(account.splitlines()[0])

    def _now(self, key: str, seen: dict[str, str]) -> State:
        for dep in self._oracle.entries[key].state:
            if dep not in seen:
                seen[dep] = digest(dep, self._root)
        return seen

    def _count(self, answer: Json, finding: Finding) -> None:
        self.counts["asked"] += 1
        self.counts[answer["verdict"]] += 1
        self.counts[f"by {answer['checked']}"] += 1
        if finding is Finding.UNKNOWN:
            self.counts[f"unknown: {answer['why']}"] += 1
        elif finding in FALSE:
            self.counts[finding] += 1

    def _account(self, words: str, start: int) -> str:
        steps = "\n".join(f"  {number}: {step}" for number, step in enumerate(self.steps[start:], start))
        return f"{words}\nseed {self.seed}, steps since:\n{steps}"
