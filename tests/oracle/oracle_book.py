"""What rests on what, as it was seen last: which entries a mutation touched, and by which of their dependencies."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oracle_eyes import Eyes, Look, Token
    from oracle_model import Dep, Entry, Oracle


class Book:
    """Keeps the oracle's entries together with an index of them."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._seen: dict[str, Look] = {}
        self._index: defaultdict[Token, set[str]] = defaultdict(set)

    def version(self, key: str) -> int | None:
        """The version of what stands under a key."""
        entry = self._oracle.entries.get(key)
        return entry.version if entry else None

    def keep(self, key: str, entry: Entry, looks: dict[str, Look]) -> None:
        """An entry was put."""
        self.forget(key)
        self._oracle.entries[key] = entry
        for dep in entry.deps:
            self._users[dep.name].add(key)
            if dep.name in looks:
                self._saw(dep.name, looks[dep.name])

    def forget(self, key: str) -> None:
        """Nothing stands under a key any more."""
        gone = self._oracle.entries.pop(key, None)
        for dep in gone.deps if gone else ():
            users = self._users[dep.name]
            users.discard(key)
            if not users:
                del self._users[dep.name]
                self._unsee(dep.name)

    def looks(self, deps: Iterable[Dep], eyes: Eyes) -> dict[str, Look]:
        """How the paths are that these dependencies rest on, through other entries too, at this moment."""
        found: dict[str, Look] = {}
        for dep in deps:
            kind, _, rest = dep.name.partition(":")
            if kind == "entry":
                if rest in self._oracle.entries:
                    found.update(self.looks(self._oracle.entries[rest].deps, eyes))
            elif kind != "object":
                look = found[dep.name] = eyes.look(dep.name)
                if dep.name in self._users:
                    self._saw(dep.name, look)
        return found

    def mark_tokens(self, mutation: str, tokens: frozenset[Token], eyes: Eyes) -> None:
        """A mutation of paths happened; `eyes` is the moment after it."""
        near: set[str] = set()
        for token in tokens:
            near |= self._index.get(token, set())
        real = frozenset(token for token in tokens if token[0] != "l")
        touched = []
        for name in near:
            before, after = self._seen[name], eyes.look(name)
            if not real.isdisjoint(before.rests) or not real.isdisjoint(after.rests):
                touched.append(name)
            self._saw(name, after)
        self.mark_names(mutation, touched)

    def mark_names(self, mutation: str, names: Iterable[str]) -> None:
        """A mutation touched these dependencies: all entries that rest on them, and those that rest on these."""
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        left = [(name, key) for name in names for key in self._users.get(name, ())]
        done = set(left)
        while left:
            name, key = left.pop()
            kinds[key].update(dep.kind for dep in self._oracle.entries[key].deps if dep.name == name)
            above = f"entry:{key}"
            onward = {(above, user) for user in self._users.get(above, ())} - done
            done |= onward
            left += onward
        for key, columns in kinds.items():
            self._oracle.entries[key].mark = (mutation, columns)

    def _saw(self, name: str, look: Look) -> None:
        before = self._seen.get(name)
        if before is not None and before.rests == look.rests:
            return
        for token in before.rests - look.rests if before else ():
            self._index[token].discard(name)
        for token in look.rests - before.rests if before else look.rests:
            self._index[token].add(name)
        self._seen[name] = look

    def _unsee(self, name: str) -> None:
        look = self._seen.pop(name, None)
        for token in look.rests if look else ():
            users = self._index[token]
            users.discard(name)
            if not users:
                del self._index[token]
