"""How a path was resolved, and whether it went the same way all the time.

Rule: that a file is the same before and after proves nothing of the path to it: a link or a directory on the way may
have pointed elsewhere and back. A name stood still if it names the same inode, and either its directory or that
inode has not changed: whoever renames, exchanges, links or unlinks moves the times of both. (A busy directory such
as /tmp changes all the time; what lies in it need not.) A name that was absent stood still if its directory did.

An unchanged `stat` says so only where the first look was sure to set a later change apart (`Stamps`). Where neither of
the two says it, since both changed within the last tick, a thread that may wait lets the tick pass and looks again,
before anything is read; so what was just created is not taken to be moving.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Final

import msgspec

from provd.core.reading import Signature
from provd.disk.files import NotQuick, coarse_clock, is_young, signature
from provd.disk.stamps import Stamps

_LINKS: Final = 40
"""Links that the kernel follows in one path."""
_NAP: Final = 25_000_000
"""Nanoseconds after which every tick has passed."""


class _Look(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the first `lstat` of a path said, and the coarse clock just before it.

    `tells`: whether an equal one later shows that nothing happened to it.
    """

    signature: Signature | None
    at: int
    tells: bool


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One name on the way: `path` in the directory `parent`, both without links, and what they were.

    `by_parent` and `by_itself`: which of the two shows, where it is unchanged, that the name stood still.
    """

    parent: bytes
    path: bytes
    parent_was: Signature | None
    was: Signature | None
    by_parent: bool
    by_itself: bool


class Way(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The way to one path: that to what is `above`, and the steps from there, of which a link makes several.

    It ends `at` a path without links, or nowhere: what is absent or no directory leads no further.
    """

    above: Way | None
    steps: tuple[Step, ...]
    at: bytes | None
    links: int = 0


_QUICK_LOOKS: Final = 512
"""Looks that a quick job may take."""


class Trails:
    """The first and the second looks of one job at all that lies on its ways, each made once a round.

    Any number of threads share them: a first look may be older than it need be, which proves more, and a second one
    is made after everything was read.
    """

    def __init__(self, stamps: Stamps, *, may_wait: bool = True) -> None:
        self._stamps = stamps
        self._may_wait = may_wait
        self._start = Way(None, (), b"/")
        self.again()

    def again(self) -> None:
        """Begins a round: looks that were made before count no more."""
        self._first: dict[bytes, _Look] = {}
        self._ways: dict[bytes, Way] = {b"": self._start}
        self._may_nap = True  # once a round
        self.end()

    def end(self) -> None:
        """Begins the second looks of a round."""
        self._second: dict[bytes, Signature | None] = {}
        self._held: set[Way] = {self._start}

    def take(self, path: bytes, *, follow: bool = True) -> Way:
        """The way by which the absolute `path` is resolved now; raises OSError where that cannot be seen.

        Without `follow` a link at its end is not followed. Raises NotQuick where a tick has to pass and may not.
        """
        directory, _, name = path.rpartition(b"/")
        ways = self._ways
        way = ways.get(directory)
        if way is None:
            end = 0
            way = self._start
            while end != len(directory):
                begin, end = end + 1, directory.find(b"/", end + 1)
                if end < 0:
                    end = len(directory)
                known = ways.get(directory[:end])
                way = ways[directory[:end]] = self._onward(way, directory[begin:end]) if known is None else known
        return self._onward(way, name, follow=follow)

    def _onward(self, way: Way, name: bytes, *, follow: bool = True) -> Way:
        """The way that goes on with one name of a path."""
        if name in {b"", b"."} or way.at is None:
            return way
        if name == b"..":
            return Way(way, (), os.path.dirname(way.at), way.links)
        at, todo, links = way.at, [name], way.links  # the kernel counts the links of a whole path
        steps: list[Step] = []
        while todo:
            name = todo.pop()
            if name in {b"", b"."}:
                continue
            if name == b"..":
                at = os.path.dirname(at)
                continue
            step = self._step(at, at + name if at == b"/" else at + b"/" + name)
            steps.append(step)
            if step.was is not None and stat.S_ISDIR(step.was.mode):
                at = step.path
                continue
            links += 1
            if step.was is None or not stat.S_ISLNK(step.was.mode) or not follow or links > _LINKS:
                return Way(way, tuple(steps), None, links)
            target = os.readlink(step.path)
            at = b"/" if target.startswith(b"/") else at
            todo += target.split(b"/")[::-1]
        return Way(way, tuple(steps), at, links)

    def _step(self, parent: bytes, path: bytes) -> Step:
        step = self._seen(parent, path)
        if not (step.by_parent or step.by_itself) and self._may_nap and self._tick_would_help(parent, path):
            if not self._may_wait:
                raise NotQuick
            self._may_nap = False
            time.sleep(_NAP / 1e9)
            self._first.pop(parent, None)
            self._first.pop(path, None)
            step = self._seen(parent, path)
        return step

    def _seen(self, parent: bytes, path: bytes) -> Step:
        """A step as it is now. The directory is looked at before the name: what it tells holds from then on."""
        above, here = self._look(parent), self._look(path)
        was = here.signature
        by_itself = was is not None and here.tells and self._stamps.follow_names(was, path)
        return Step(parent, path, above.signature, was, above.tells, by_itself)

    def _tick_would_help(self, parent: bytes, path: bytes) -> bool:
        """Whether a name or its directory will be old enough after a nap (unless it goes on to change)."""
        looks = (self._look(parent), self._look(path))
        return any(look.signature and not is_young(look.signature, look.at + _NAP) for look in looks)

    def _look(self, path: bytes) -> _Look:
        look = self._first.get(path)
        if look is None:
            if not self._may_wait and len(self._first) >= _QUICK_LOOKS:
                raise NotQuick
            at = coarse_clock()
            found = _lstat(path)
            tells = found is not None and (self._stamps.fine(found, path) or not is_young(found, at))
            look = self._first[path] = _Look(found, at, tells)
        return look

    def departure(self, way: Way) -> bytes | None:
        """The name on the way that did not stand still since it was taken, if there is one."""
        seen = []
        node: Way | None = way
        while node is not None and node not in self._held:
            for step in node.steps:
                if not self._stood_still(step):
                    return step.path
            seen.append(node)
            node = node.above
        self._held.update(seen)
        return None

    def _stood_still(self, step: Step) -> bool:
        try:
            now = self._look_again(step.path)
            if now is None or step.was is None:
                return now is step.was and step.by_parent and self._look_again(step.parent) == step.parent_was
            if (now.dev, now.ino, stat.S_IFMT(now.mode)) != (step.was.dev, step.was.ino, stat.S_IFMT(step.was.mode)):
                return False
            if step.by_itself and now == step.was:
                return True
            return step.by_parent and self._look_again(step.parent) == step.parent_was
        except OSError:
            return False

    def _look_again(self, path: bytes) -> Signature | None:
        if path not in self._second:
            self._second[path] = _lstat(path)
        return self._second[path]


def _lstat(path: bytes) -> Signature | None:
    try:
        return signature(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
