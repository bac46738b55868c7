"""The watched directories: which watch stands for which path.

Rule: a directory that is renamed moves one node, whatever lies below. The tree changes in step with the notices: it
is at every moment what the notices have told so far, never what the disk holds by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from provd.watch.mounted import Mount

LONG_AGO: Final = 9

Ignored = Callable[[bytes, bool], bool]


class Root:
    """A root: its path, which directory that was when it was added, and how it is watched."""

    __slots__ = (
        *("absent", "dev", "differs", "directories", "ignored", "ino", "mount"),
        *("node", "path", "scanning", "weak", "why"),
    )

    def __init__(self, path: bytes, ignored: Ignored) -> None:
        self.path = path
        self.ignored = ignored
        self.dev = self.ino = -1
        self.mount: Mount | None = None
        """On what it lay when it was added."""
        self.node: Node | None = None
        self.scanning = False
        self.why = ""
        """Why nothing of it is watched."""
        self.absent = False
        """Whether that is because it is not there."""
        self.weak = ""
        """Why its silence proves nothing, though it is watched."""
        self.differs = False
        """Whether it leaves out what a root around it would not."""
        self.directories = 0

    def leaves_out(self, path: bytes) -> bool:
        """Whether the directory `path` is not to be entered; the root itself always is."""
        return path != self.path and self.ignored(path, True)  # noqa: FBT003


class Node:
    """One directory that has a watch.

    `root` is whose rules hold for what is in it; None for one that only leads to a root. `holds` counts the roots and
    `blinds` the uncovered places at or below. `blind` says why a name in it is not watched, `skipped` which names of
    directories are ignored. `stirred`: something happened in it while it had no place. `said` and `listed` number the
    round in which something in it was told, and in which it was told to be listed.
    """

    __slots__ = (
        *("blind", "blinds", "children", "dev", "generation", "holds", "ino", "listed"),
        *("name", "parent", "prefix", "root", "said", "skipped", "stirred", "watch"),
    )

    def __init__(self, watch: int, dev: int, ino: int) -> None:
        self.watch = watch
        self.dev = dev
        self.ino = ino
        self.parent: Node | None = None
        self.name = b""
        self.children: dict[bytes, Node] = {}
        self.root: Root | None = None
        self.holds = 0
        self.blinds = 0
        self.blind: dict[bytes, str] | None = None
        self.skipped: set[bytes] | None = None
        self.stirred = False
        self.said = self.listed = -LONG_AGO
        self.prefix: bytes | None = None
        self.generation = -1


class Tree:
    """All nodes, from the directory `/` down."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.top: Node | None = None
        self.changes = 0
        """How often something got a place or lost it."""
        self.lifts = 0
        """How often something lost its place."""
        self.newest = 0
        """The highest watch that there ever was; the kernel counts upwards."""
        self._generation = 0

    def prefix(self, node: Node) -> bytes | None:
        """What stands before a name in the directory, ending in a slash; None where the directory has no place now."""
        if node.generation == self._generation:
            return node.prefix
        stale = []
        at: Node | None = node
        while at is not None and at.generation != self._generation:
            stale.append(at)
            at = at.parent
        prefix = None if at is None else at.prefix
        for each in reversed(stale):
            if each is self.top:
                prefix = b"/"
            elif prefix is not None:
                prefix = prefix + each.name + b"/"
            each.prefix, each.generation = prefix, self._generation
        return prefix

    def path(self, node: Node) -> bytes | None:
        """The path of a directory; None where it has no place now."""
        prefix = self.prefix(node)
        return prefix if prefix is None or prefix == b"/" else prefix[:-1]

    def know(self, node: Node) -> None:
        """Remembers the node of a new watch."""
        self.nodes[node.watch] = node
        self.newest = max(self.newest, node.watch)

    def place(self, node: Node, parent: Node, name: bytes) -> None:
        """Puts a node without a place, and all below it, into the free slot `name`."""
        node.parent, node.name = parent, name
        parent.children[name] = node
        self.changes += 1
        if node.children:
            self._generation += 1
        else:
            node.generation = -1
        add_up(parent, node.holds, node.blinds)

    def lift(self, node: Node) -> None:
        """Takes a node, with all below it, out of its slot."""
        parent = node.parent
        if parent is None:
            return
        del parent.children[node.name]
        self.changes += 1
        self.lifts += 1
        add_up(parent, -node.holds, -node.blinds)
        node.parent = None
        if node.children:
            self._generation += 1
        else:
            node.generation = -1

    def govern(self, node: Node, root: Root | None) -> None:
        """Says whose rules hold in a directory."""
        if node.root is not root:
            if node.root is not None:
                node.root.directories -= 1
            if root is not None:
                root.directories += 1
            node.root = root

    def find(self, path: bytes) -> tuple[Node | None, list[bytes]]:
        """The deepest node on the way to the absolute `path`, and the names that are left."""
        names = [name for name in path.split(b"/") if name]
        node = self.top
        if node is None:
            return None, names
        for index, name in enumerate(names):
            child = node.children.get(name)
            if child is None:
                return node, names[index:]
            node = child
        return node, []


def add_up(node: Node | None, holds: int, blinds: int) -> None:
    """Counts roots and uncovered places in a directory and all above it."""
    if holds or blinds:
        while node is not None:
            node.holds += holds
            node.blinds += blinds
            node = node.parent


def subtree(node: Node) -> Iterator[Node]:
    """A node and all below it, parents first; what is yielded may be moved, not what is to come."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        waiting.extend(each.children.values())
        yield each


def is_at_or_above(above: Node, node: Node | None) -> bool:
    """Whether `above` is `node` or on the way to it."""
    while node is not None:
        if node is above:
            return True
        node = node.parent
    return False


def roots_below(node: Node) -> list[Root]:
    """The roots that are watched at or below a directory."""
    found: list[Root] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.holds:
            if each.root is not None and each.root.node is each:
                found.append(each.root)
            waiting.extend(each.children.values())
    return found
