"""What happens to slots: a directory gets a place, moves, loses it, is uncovered; and each of these is told.

Rule: nothing here looks at the disk. Each change of the tree goes with the notice that tells it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Touched, What
from provd.watch.arrival import LIMIT, PIN, Directory
from provd.watch.mounted import NOTHING, MountPoints
from provd.watch.syscalls import PASSAGE, Kernel
from provd.watch.tree import LONG_AGO, Node, Root, Tree, add_up, roots_below, subtree

IS_DIR: Final = True


class How(msgspec.Struct, frozen=True):
    """Why a slot is looked at, which decides what is told of a directory that is new there.

    `told`: that it exists was told. `missed`: why things in it may have been missed, None to look for signs of that.
    `quiet`: nothing is told. `again`: directories that are known are listed again too, with all below.
    """

    told: bool = True
    missed: str | None = ""
    quiet: bool = False
    again: bool = False


MADE: Final = How(missed=None)
CAME: Final = How(missed="it was moved in")
FOUND: Final = How(told=False, missed="it was found only afterwards")
AGAIN: Final = How(told=False, missed="it was found only afterwards", again=True)
QUIET: Final = How(quiet=True, again=True)


def is_limit(why: str) -> bool:
    """Whether a place is uncovered for want of watches."""
    return why.startswith(LIMIT)


class Work:
    """What is to be looked at: slots, whole directories (`lists`), and directories that were moved (`rules`).

    Of the latter each goes with whether all below is to be told anew.
    """

    def __init__(self) -> None:
        self.slots: dict[tuple[Node, bytes], How] = {}
        self.lists: deque[tuple[Node, How]] = deque()
        self.rules: deque[tuple[Node, bool]] = deque()
        self._deferred: list[tuple[Node, bytes | None, How]] = []

    def ask(self, node: Node, name: bytes, how: How) -> None:
        """Puts a slot on the list; the last word counts, but what is to be listed again stays so."""
        before = self.slots.get((node, name))
        if before is None:
            self.slots[node, name] = how
        elif how is not FOUND:
            again = before.again and not how.again
            self.slots[node, name] = msgspec.structs.replace(how, again=True) if again else how

    def defer(self, node: Node, name: bytes | None, how: How) -> None:
        """Keeps a slot (or a whole directory) for later.

        Its directory is not where the tree has it, so another slot or an event will say where it went.
        """
        self._deferred.append((node, name, how))

    def resume(self) -> None:
        """Brings back what was deferred."""
        deferred, self._deferred = self._deferred, []
        for node, name, how in deferred:
            if name is None:
                self.lists.append((node, how))
            else:
                self.ask(node, name, how)

    @property
    def waits(self) -> bool:
        """Whether something was deferred."""
        return bool(self._deferred)

    def __bool__(self) -> bool:
        return bool(self.slots or self.lists or self.rules)

    def places(self) -> list[tuple[Node, bytes | None]]:
        """All that is to be looked at, as directory and name (None for all of it)."""
        return [*self.slots, *self.directories()]

    def leading_to(self, node: Node | None, name: bytes) -> list[tuple[Node, bytes | None]]:
        """The same, without the slots that do not lie on the way to `name` in a directory."""
        places = self.directories()
        while node is not None:
            if (node, name) in self.slots:
                places.append((node, name))
            name = node.name
            node = node.parent
        return places

    def directories(self) -> list[tuple[Node, bytes | None]]:
        """What is to be looked at beside slots."""
        places: list[tuple[Node, bytes | None]] = [(node, None) for node, _ in self.lists]
        places += [(node, None) for node, _ in self.rules]
        places += [(node, name) for node, name, _ in self._deferred]
        return places


class Slots:
    """The tree and what was told of it. `told` collects notices in order; `live` has the roots that are in place."""

    def __init__(self, kernel: Kernel, fd: int, live: dict[bytes, Root]) -> None:
        self.kernel = kernel
        self.fd = fd
        self.live = live
        self.tree = Tree()
        self.told: list[Notice] = []
        self.mounts: MountPoints = NOTHING
        self.work = Work()
        self.parked: dict[Node, None] = {}
        """Directories without a place; each keeps its watch until all slots were looked at."""
        self.blinds: dict[tuple[Node, bytes], str] = {}
        self.adrift: dict[Root, None] = {}
        """Roots of which nobody knows whether they are where they were."""
        self.round = 0
        """Counts how often all was told that there was."""
        self._lost = -LONG_AGO
        self.losses = 0
        """How often something was lost, or is watched no more."""
        self.freed = False
        """Whether a watch was given up, so that another may be had."""

    def governing(self, path: bytes) -> Root | None:
        """The longest root in place at or above the absolute `path`."""
        live = self.live
        while path not in {b"", b"/"}:
            root = live.get(path)
            if root is not None:
                return root
            path = path.rpartition(b"/")[0]
        return live.get(b"/")

    def path(self, node: Node, name: bytes) -> bytes:
        """The path of a slot in a directory that has a place."""
        prefix = self.tree.prefix(node)
        assert prefix is not None
        return prefix + name

    def vacate(self, node: Node, name: bytes, *, tell: bool = True) -> None:
        """The directory in this slot is not there any more: it and all below lose their place."""
        child = node.children.get(name)
        if child is None:
            return
        if child.holds:
            self.lose(child, "the root or a directory above it was moved or removed")
        prefix = self.tree.prefix(node)
        self.tree.lift(child)
        self.parked[child] = None
        if tell and node.root is not None and prefix is not None:
            self.told.append(Touched(prefix + name, What.DELETED, IS_DIR))

    def move(self, child: Node, node: Node, name: bytes) -> None:
        """Moves a directory with all below to another slot, from where who stands there is vacated."""
        self.vacate(node, name)
        if child.holds:
            self.lose(child, "the root or a directory above it was moved")
        old, above = self.tree.path(child), child.parent
        everything = self.is_recent(max(self._lost, child.listed, -LONG_AGO if above is None else above.listed))
        self.work.rules.append((child, everything))
        child.listed = self.round
        self.tree.lift(child)
        self.parked.pop(child, None)
        self.tree.place(child, node, name)
        if old is not None:
            self.told.append(Moved(old, self.path(node, name), IS_DIR))

    def appear(self, node: Node, missed: str) -> None:
        """Tells that a directory is to be listed."""
        node.said = node.listed = self.round
        self.told.append(Appeared(self.tree.path(node) or b"/", missed))

    def lost(self, path: bytes, reason: str) -> None:
        """Tells a loss; who hears of it looks at the whole tree."""
        self._lost = self.round
        self.losses += 1
        self.told.append(Lost(path, reason))

    def is_recent(self, told: int) -> bool:
        """Whether who heard of something in the round `told` may have looked when the disk was ahead of the notices.

        Who takes notices looks at the paths before taking more. What is told of in one round, until nothing is left,
        may lie elsewhere by then; the event that says so is told in the next round at the latest.
        """
        return told >= self.round - 1

    def lose(self, node: Node, reason: str) -> None:
        """The roots at or below a directory lose their place."""
        for root in roots_below(node):
            self.lost(root.path, reason)
            self.unhold(root)
            self.live.pop(root.path, None)
            self.adrift[root] = None

    def unhold(self, root: Root) -> None:
        """A root does not stand anywhere in the tree any more."""
        if root.node is not None:
            add_up(root.node, -1, 0)
            root.node = None

    def blind(self, node: Node, name: bytes, why: str, how: How) -> None:
        """A slot cannot be watched."""
        self.losses += 1
        if node.blind is None:
            node.blind = {}
        before = node.blind.get(name)
        node.blind[name] = why
        self.blinds[node, name] = why
        if before is None:
            add_up(node, 0, 1)
        if before != why and not how.quiet:
            self.told.append(Covered(self.path(node, name), "none", why))

    def see(self, node: Node, name: bytes, how: How, *, there: bool = True) -> None:
        """A slot is watched, or there is nothing to be watched in it."""
        if node.blind is None or name not in node.blind:
            return
        del node.blind[name]
        if is_limit(self.blinds.pop((node, name), "")):
            self.freed = True  # where there was room for one, there may be for another
        add_up(node, 0, -1)
        if not node.blind:
            node.blind = None
        if there and not how.quiet:
            path = self.path(node, name)
            self.told.append(Covered(path, "whole"))
            self.lost(path, "it was not watched before")

    def demote(self, node: Node) -> None:
        """What is in a directory is of no interest any more, but for the ways to roots below."""
        for child in list(node.children.values()):
            if not child.holds:
                self.tree.lift(child)
                self.parked[child] = None
            elif child.root is None or child.root.node is not child:
                self.demote(child)
        for name in list(node.blind or ()):
            self.see(node, name, QUIET)
        node.skipped = None
        self.losses += 1
        self.tree.govern(node, None)
        path = self.tree.path(node)
        if node.watch >= 0 and node.holds and path is not None:
            self._watch_less(node, path)

    def _watch_less(self, node: Node, path: bytes) -> None:
        with Directory(path, PIN) as found:  # another directory that stands there by now would lose its events
            if not found.is_inode(node.dev, node.ino):  # it moved, and the event that says so is to come
                return
            try:
                watch = self.kernel.add(self.fd, path, PASSAGE, found.fd)
            except OSError:
                return
        if watch not in self.tree.nodes:
            self.tree.newest = max(self.tree.newest, watch)
            self.kernel.remove(self.fd, watch)

    def prune(self, node: Node | None) -> None:
        """Gives up a directory that leads to no root any more, and those above it that did so only for it."""
        while node is not None and node.root is None and not node.holds and node is not self.tree.top:
            above = node.parent
            self.tree.lift(node)
            self.parked[node] = None
            node = above

    def release(self, budget: int) -> bool:
        """Gives up the watches of about `budget` directories that have no place; whether there are more."""
        for _ in range(budget):
            if not self.parked:
                return False
            node, _ = self.parked.popitem()
            for child in list(node.children.values()):
                self.tree.lift(child)
                self.parked[child] = None
            self.forget(node)
        return bool(self.parked)

    def drop(self, node: Node) -> None:
        """Gives up all watches at and below a directory without a place, at once."""
        self.parked.pop(node, None)
        for each in reversed(list(subtree(node))):
            self.tree.lift(each)
            self.forget(each)

    def forget(self, node: Node) -> None:
        """Gives up the watch of a directory without a place and without children."""
        for name in list(node.blind or ()):
            self.blinds.pop((node, name), None)
        self.tree.govern(node, None)
        if node.watch >= 0:
            self.tree.nodes.pop(node.watch, None)
            self.kernel.remove(self.fd, node.watch)
            node.watch = -1
            self.freed = True
