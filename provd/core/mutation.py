"""Folding notices: what a batch of them says of each path, and what kind of mutation that is.

Rule: every path that a notice names is named by what comes out, except the daemon's own. Only notices of one path
between which nothing moved become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from provd.core.dependency import is_under
from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Scan, Touched, What
from provd.core.records import MutationKind

FILE: Final = "f"
DIRECTORY: Final = "d"
LINK: Final = "l"
SPECIAL: Final = "s"


class State(msgspec.Struct, frozen=True, array_like=True):
    """What one `lstat` said of a path. `sort` is one of `f d l s`, as in the digests of sets.

    A directory has no size and no times here: they follow what is in it, and each of its names is known by itself.
    """

    sort: str
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int


class Change(msgspec.Struct, frozen=True):
    """All that happened to one path; `whats` are in the order in which each happened last."""

    path: bytes
    whats: tuple[What, ...]
    is_dir: bool = False


class Listed(msgspec.Struct, frozen=True):
    """The directory `path` is to be listed; the names in `but` have a Change of their own beside it."""

    path: bytes
    missed: str = ""
    but: frozenset[bytes] = frozenset()


Step = Change | Moved | Listed | Lost | Covered | Scan


def fold(notices: Iterable[Notice], own: Sequence[bytes] = ()) -> list[Step]:
    """What the notices say, in an order that is as true as theirs; nothing at or below the paths `own` is in it."""
    folding = _Folding()
    inside = tuple(place.rstrip(b"/") + b"/" for place in own)
    for notice in notices:
        match _outside(notice, own, inside):
            case Touched() as touched:
                folding.touch(touched)
            case Moved() as moved:
                folding.bar(moved.source, below=moved.is_dir)
                folding.bar(moved.path, below=moved.is_dir)
                folding.steps.append(moved)
            case Appeared() as appeared:
                folding.appear(appeared)
            case None:
                pass
            case other:
                if other not in folding.steps[-1:]:
                    folding.steps.append(other)
    return folding.done()


class _Folding:
    """The steps so far, and which of them may still take more in."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._changes: dict[bytes, int] = {}
        self._lists: dict[bytes, int] = {}
        self._names: dict[bytes, set[bytes]] = {}  # names in each directory that have an open change
        self._but: dict[int, set[bytes]] = {}

    def touch(self, touched: Touched) -> None:
        path, what = touched.path, touched.what
        if what is What.DELETED and touched.is_dir and self.bar_below(path):
            self.bar(path, below=False)  # what was below comes first
        at = self._changes.get(path)
        if at is not None:
            change = self.steps[at]
            assert isinstance(change, Change)
            whats = (*(w for w in change.whats if w is not what), what)
            self.steps[at] = Change(path, whats, touched.is_dir)
            return
        self._changes[path] = len(self.steps)
        self.steps.append(Change(path, (what,), touched.is_dir))
        directory, _, name = path.rpartition(b"/")
        directory = directory or b"/"
        self._names.setdefault(directory, set()).add(name)
        listed = self._lists.get(directory)
        if listed is not None:
            self._but[listed].add(name)

    def appear(self, appeared: Appeared) -> None:
        at = self._lists.get(appeared.path)
        if at is not None:
            known = self.steps[at]
            assert isinstance(known, Listed)
            if not known.missed:
                self.steps[at] = Listed(appeared.path, appeared.missed)
            return
        self._lists[appeared.path] = len(self.steps)
        self._but[len(self.steps)] = set(self._names.get(appeared.path, ()))
        self.steps.append(Listed(appeared.path, appeared.missed))

    def bar(self, path: bytes, *, below: bool) -> None:
        """What comes of `path` from here on is apart from what came before."""
        if self._changes.pop(path, None) is not None:
            directory, _, name = path.rpartition(b"/")
            self._names[directory or b"/"].discard(name)
        if below:
            self._lists.pop(path, None)
            self.bar_below(path)

    def bar_below(self, directory: bytes) -> bool:
        """The same for all below a directory; whether there was anything."""
        prefix = directory.rstrip(b"/") + b"/"
        self._lists.pop(directory, None)
        below = [p for p in self._changes if p.startswith(prefix)]
        for path in below:
            self.bar(path, below=False)
        for path in [p for p in self._lists if p.startswith(prefix)]:
            del self._lists[path]
        return bool(below)

    def done(self) -> list[Step]:
        for at, names in self._but.items():
            listed = self.steps[at]
            assert isinstance(listed, Listed)
            self.steps[at] = Listed(listed.path, listed.missed, frozenset(names))
        return self.steps


def _outside(notice: Notice, own: Sequence[bytes], inside: tuple[bytes, ...]) -> Notice | None:
    """The notice as far as it concerns others than the daemon itself; what is `inside` its places begins so.

    That the places are there at all concerns who listed the directory that holds them.
    """
    if not own:
        return notice
    if isinstance(notice, Moved):
        ours, theirs = notice.source.startswith(inside), notice.path.startswith(inside)
        if ours and theirs:
            return None
        if ours:
            return Touched(notice.path, What.CREATED, notice.is_dir)
        return Touched(notice.source, What.DELETED, notice.is_dir) if theirs else notice
    if isinstance(notice, Touched):
        return None if notice.path.startswith(inside) else notice
    return None if any(is_under(notice.path, place) for place in own) else notice


def kind_of(whats: Sequence[What], now: State | None, was: State | None) -> MutationKind:
    """What became of a path to which `whats` happened: it is `now` (None: absent) and `was` what it was known as."""
    deleted, created = What.DELETED in whats, What.CREATED in whats
    if now is None:
        if deleted:
            return MutationKind.DELETED
        if created:
            return MutationKind.CREATED
        return MutationKind.ATTRIB if tuple(whats) == (What.ATTRIB,) else MutationKind.MODIFIED
    if whats[-1] is What.DELETED:  # what is there now is told by the notices that come
        return MutationKind.DELETED
    if was is None:
        return MutationKind.CREATED if created or deleted else MutationKind.MODIFIED
    if was.sort != now.sort:
        return MutationKind.CREATED
    if deleted:
        return MutationKind.CREATED if now.sort == DIRECTORY else MutationKind.MODIFIED
    if created:
        return MutationKind.CREATED if was.ino == now.ino else MutationKind.MODIFIED
    same = (was.size, was.mtime_ns) == (now.size, now.mtime_ns)
    return MutationKind.ATTRIB if tuple(whats) == (What.ATTRIB,) and same else MutationKind.MODIFIED
