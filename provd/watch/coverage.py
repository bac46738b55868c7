"""Of which places silence proves something.

Rule: a place counts as watched only if it was reached: there is a watch for each directory down to it, none of them
waits to be looked at, and nothing at or below it could not be watched.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from provd.watch.base import RootState, Uncovered
from provd.watch.roots import Roots
from provd.watch.tree import Node, Root, roots_below

_MANY: Final = 256
_SHOWN: Final = 100
_FEW: Final = 16
_PENDING: Final = "it was not looked at yet"


def is_within(path: bytes, above: bytes) -> bool:
    """Whether `path` is `above` or lies below it."""
    return path == above or path.startswith(above if above == b"/" else above + b"/")


class Coverage(Roots):
    """The tree with its roots, and what is said of it."""

    def root_of(self, path: bytes) -> Root | None:
        """The longest root at or above the absolute `path`, in place or not."""
        while path not in {b"", b"/"}:
            root = self.roots.get(path)
            if root is not None:
                return root
            path = path.rpartition(b"/")[0]
        return self.roots.get(b"/")

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below `path` that are not watched, the first 256 of them; [] where all of it is."""
        root = self.root_of(path)
        if root is None:
            return [Uncovered(path, "it lies outside every root")]
        if root.why or root.node is None:
            return [Uncovered(root.path, root.why or _PENDING)]
        if root.scanning:
            return [Uncovered(root.path, "not scanned yet")]
        if root.weak:
            return [Uncovered(root.path, root.weak)]
        if root in self.adrift:
            return [Uncovered(root.path, _PENDING)]
        return self._pending(path) or self._on_the_way(path, root)

    def _on_the_way(self, path: bytes, root: Root) -> list[Uncovered]:
        node = root.node
        assert node is not None
        at = root.path
        names = [name for name in path[len(at) :].split(b"/") if name]
        for index, name in enumerate(names):
            at = at.rstrip(b"/") + b"/" + name
            if node.blind is not None and name in node.blind:
                return [Uncovered(at, node.blind[name])]
            child = node.children.get(name)
            if child is None:
                return self._beyond(node, name, at, root, last=index == len(names) - 1)
            if child.root is None:
                return [Uncovered(at, "ignored")]
            node = child
        return self._below(node)

    @staticmethod
    def _beyond(node: Node, name: bytes, at: bytes, root: Root, *, last: bool) -> list[Uncovered]:
        """A name without a watch: fine where it is no directory."""
        if (node.skipped is not None and name in node.skipped) or root.ignored(at, True):  # noqa: FBT003
            return [Uncovered(at, "ignored")]
        if last and root.ignored(at, False):  # noqa: FBT003
            return [Uncovered(at, "ignored")]
        try:
            status = os.lstat(at)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            return [Uncovered(at, error.strerror or "it cannot be looked at")]
        return [Uncovered(at, _PENDING)] if stat.S_ISDIR(status.st_mode) else []

    def _below(self, node: Node) -> list[Uncovered]:
        found: list[Uncovered] = []
        if node.holds:
            for root in roots_below(node):
                if root.node is not node:
                    self._say_of_inner(root, found)
        waiting = [node]
        while waiting and len(found) < _MANY:
            each = waiting.pop()
            if each.blinds:
                prefix = self.tree.prefix(each) or b""
                found += (Uncovered(prefix + name, why) for name, why in (each.blind or {}).items())
                waiting.extend(each.children.values())
        return found

    def _say_of_inner(self, root: Root, found: list[Uncovered]) -> None:
        if root.scanning or root in self.adrift:
            found.append(Uncovered(root.path, "not scanned yet"))
        elif root.weak:
            found.append(Uncovered(root.path, root.weak))
        elif root.differs:
            found.append(Uncovered(root.path, "the rules of this root ignore places in it"))

    def _pending(self, path: bytes) -> list[Uncovered]:
        """The directories at, above or below that wait to be looked at."""
        found: list[Uncovered] = []
        if not self.work and not self.work.waits:
            return found
        at, names = self.tree.find(path)
        # Nothing lies below what has no watch: most questions are about files, and thousands of slots may wait.
        places = self.work.leading_to(at, names[0]) if at is not None and names else self.work.places()
        for node, name in places:
            prefix = self.tree.prefix(node)
            if prefix is None:
                continue
            place = prefix + name if name is not None else prefix[:-1] or b"/"
            if is_within(place, path) or is_within(path, place):
                found.append(Uncovered(place, _PENDING))
                if len(found) >= _FEW:
                    break
        return list(dict.fromkeys(found))

    def state(self, path: bytes) -> RootState:
        """How the root `path` is watched."""
        root = self.roots.get(path)
        if root is None:
            return RootState("inotify", "gone", "none", (Uncovered(path, "it is no root"),))
        places = self.uncovered(path)
        if (
            root.weak and root.node is not None and not root.scanning
        ):  # doubted as a whole: that answers, and hides these
            places += self._on_the_way(path, root)
        shown = tuple(places[:_SHOWN])
        blinds = 0 if root.node is None else root.node.blinds  # `uncovered` names only the first of them
        more = 0 if len(places) <= _SHOWN else max(len(places), blinds) - _SHOWN
        if root.why:
            return RootState("inotify", "gone" if root.absent else "degraded", "none", shown, more)
        if root.scanning:
            return RootState("inotify", "scanning", "none", shown, more, root.directories)
        state, coverage = ("degraded", "partial") if places else ("watching", "whole")
        return RootState("inotify", state, coverage, shown, more, root.directories)
