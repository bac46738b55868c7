"""What each event of inotify says, as notices and as slots to look at.

Rule: an event about a file is told as it is. An event about a directory moves what the tree has, so that what follows
is told by the right paths, and what became of its slot is looked at later.
"""

from __future__ import annotations

from typing import Final

from provd.core.notice import Moved, Touched, What
from provd.watch import syscalls as sys
from provd.watch.coverage import Coverage
from provd.watch.events import Event, Memory
from provd.watch.slots import CAME, FOUND, IS_DIR, MADE
from provd.watch.tree import Node, is_at_or_above

_FILES: Final = {
    sys.MODIFY: What.MODIFIED,
    sys.CLOSE_WRITE: What.MODIFIED,
    sys.ATTRIB: What.ATTRIB,
    sys.CREATE: What.CREATED,
    sys.DELETE: What.DELETED,
}
_NAMES: Final = sys.CREATE | sys.DELETE
_ITSELF: Final = sys.IGNORED | sys.UNMOUNT | sys.MOVE_SELF | sys.DELETE_SELF
_MOVED_ROOT: Final = "the root or a directory above it was moved or removed"


class Events:
    """Makes notices of events, in `places.told`."""

    def __init__(self, places: Coverage, memory: Memory) -> None:
        self._places = places
        self._memory = memory
        self._last: tuple[int, Node, bytes, Node, bytes] | None = None
        self._said: tuple[int, bytes, What] | None = None

    def taken(self) -> None:
        """The notices were taken: what comes next is not folded into them."""
        self._said = None

    def handle(self, event: Event) -> None:
        """Tells of one event."""
        watch, mask, _, name = event
        places = self._places
        node = places.tree.nodes.get(watch)
        if node is None:
            self._of_no_node(watch, mask)
            return
        what = _FILES.get(mask)
        prefix = places.tree.prefix(node)
        if prefix is None:
            node.stirred = node.stirred or bool(name)
            if mask & sys.IGNORED:
                self._ended(node)
        elif what is not None and name and node.root is not None:
            said = (watch, name, what)
            if said != self._said:
                self._said = said
                if mask & _NAMES and name in node.children:
                    self._of_no_directory(node, name)
                node.said = places.round
                places.told.append(Touched(prefix + name, what))
        else:
            self._said = None
            node.said = places.round
            self._of_directory(event, node, prefix)

    def _of_no_node(self, watch: int, mask: int) -> None:
        places = self._places
        if mask & sys.Q_OVERFLOW:
            self._lost("events lost: the kernel's queue overflowed")
        elif watch > places.tree.newest or watch < 0:
            self._lost("an event of an unknown watch")
        # else the watch was given up: the last events of it may come even after its IGNORED

    def _lost(self, reason: str) -> None:
        """Events of all roots were lost: all directories are looked at again."""
        places = self._places
        places.work.lists.clear()  # all of it is listed again
        for root in places.roots.values():
            if not root.why:
                places.lost(root.path, reason)
                places.adrift[root] = None

    def _ended(self, node: Node) -> None:
        """The kernel gave up a watch by itself: its directory was removed, or its file system."""
        places = self._places
        places.tree.nodes.pop(node.watch, None)
        places.losses += 1
        node.watch = -1
        if places.tree.prefix(node) is None:
            return
        if node.holds:
            places.doubt(node, _MOVED_ROOT)
        if node.parent is not None:
            places.work.ask(node.parent, node.name, FOUND)

    def _of_directory(self, event: Event, node: Node, prefix: bytes) -> None:
        """An event of the watched directory itself, or of a directory in it, or a move."""
        _, mask, _, name = event
        places = self._places
        if mask & _ITSELF:
            self._of_itself(mask, node, prefix)
        elif node.root is None:
            return
        elif mask & sys.MOVED_FROM:
            self._moved(event, node, prefix)
        elif mask & sys.MOVED_TO:
            self._arrived(mask, node, name, prefix + name)
        elif not name:
            if mask & sys.ATTRIB and node.root.node is node:
                places.told.append(Touched(prefix[:-1] or b"/", What.ATTRIB, IS_DIR))
                places.work.lists.append((node, FOUND))  # it may be closed now
        elif mask & sys.CREATE:
            self._told_of(node, name, prefix, What.CREATED)
            places.work.ask(node, name, MADE)
        elif mask & sys.DELETE:
            self._left(mask, node, name, prefix + name)
        elif mask & sys.ATTRIB:
            self._told_of(node, name, prefix, What.ATTRIB)
            places.work.ask(node, name, FOUND)  # it may be closed now, or open again

    def _told_of(self, node: Node, name: bytes, prefix: bytes, what: What) -> None:
        """Tells of a directory in a directory; who looks may find something else there, and forget all below."""
        child = node.children.get(name)
        if child is not None:
            child.listed = self._places.round
        self._places.told.append(Touched(prefix + name, what, IS_DIR))

    def _of_itself(self, mask: int, node: Node, prefix: bytes) -> None:
        places = self._places
        if mask & sys.IGNORED:
            self._ended(node)
        elif mask & sys.UNMOUNT:
            places.lost(prefix[:-1] or b"/", "its file system was unmounted")
        elif node.holds:
            places.doubt(node, _MOVED_ROOT)

    def _of_no_directory(self, node: Node, name: bytes) -> None:
        """An event of a file where the tree has a directory."""
        self._places.vacate(node, name)
        self._places.work.ask(node, name, FOUND)

    def _left(self, mask: int, node: Node, name: bytes, path: bytes) -> None:
        """A name was removed, or moved to where nobody watches."""
        places = self._places
        if name in node.children:
            self._of_no_directory(node, name)
            if mask & sys.ISDIR:
                return
        elif mask & sys.ISDIR:
            places.work.ask(node, name, FOUND)
        places.told.append(Touched(path, What.DELETED, bool(mask & sys.ISDIR)))

    def _arrived(self, mask: int, node: Node, name: bytes, path: bytes) -> None:
        """A name was moved here from where nobody watches."""
        places = self._places
        if name in node.children:
            self._of_no_directory(node, name)
        is_dir = bool(mask & sys.ISDIR)
        places.told.append(Touched(path, What.CREATED, is_dir))
        if is_dir:
            places.work.ask(node, name, CAME)

    def _moved(self, event: Event, node: Node, prefix: bytes) -> None:
        _, mask, cookie, name = event
        places = self._places
        other = self._memory.arrival(cookie)
        target = None if other is None else places.tree.nodes.get(other[0])
        new_prefix = None if target is None else places.tree.prefix(target)
        if other is None or target is None or new_prefix is None or target.root is None:
            if target is not None:
                target.stirred = True
            self._left(mask, node, name, prefix + name)
            return
        new_name = other[3]
        target.said = places.round
        if not mask & sys.ISDIR:
            for place, each in ((node, name), (target, new_name)):
                if each in place.children:
                    self._of_no_directory(place, each)
            places.told.append(Moved(prefix + name, new_prefix + new_name))
            return
        self._moved_directory(cookie, node, name, target, new_name)

    def _moved_directory(self, cookie: int, node: Node, name: bytes, target: Node, new_name: bytes) -> None:
        places = self._places
        child = node.children.get(name)
        exchanged = self._last == ((cookie - 1) & 0xFFFFFFFF, target, new_name, node, name)
        self._last = None
        how = places.work.slots.get((node, name), CAME)
        if exchanged:  # the second half of an exchange: who stood in the way of the first is found by looking
            child = None
        elif child is not None and new_name in target.children:
            self._last = (cookie, node, name, target, new_name)
        if child is not None and not is_at_or_above(child, target):
            places.move(child, target, new_name)
            how = FOUND
        else:
            old, new = places.path(node, name), places.path(target, new_name)
            places.vacate(target, new_name)
            if not exchanged:
                places.vacate(node, name)
                places.told.append(Touched(old, What.DELETED, IS_DIR))
            places.told.append(Touched(new, What.CREATED, IS_DIR))
            how = CAME if how is FOUND else how
        places.work.ask(node, name, FOUND)
        places.work.ask(target, new_name, how)
