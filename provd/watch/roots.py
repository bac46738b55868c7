"""The roots: which directory each is, the way to it from `/`, and whether both are what they were.

Rule: a root is a path and an inode. Each directory on the way is watched for being moved, so that a root that went and
came back is never silent; what a mount hides tells of itself nowhere, so changes of the mount table count as losses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

from provd.core.notice import Covered
from provd.watch.arrival import READ, Directory, reason_of
from provd.watch.filesystems import backend_of_type
from provd.watch.placing import Places
from provd.watch.slots import AGAIN, FOUND, QUIET, How, Work
from provd.watch.syscalls import KEEP, PASSAGE, WHOLE
from provd.watch.tree import Ignored, Node, Root, add_up, roots_below, subtree

_STEP: Final = 64


class Unseen(OSError):
    """A root cannot be looked at."""


class Roots(Places):
    """The tree, with its roots. `roots` has all of them, `live` those that are in place."""

    roots: dict[bytes, Root]

    def begin(self, path: bytes, ignored: Ignored) -> Iterator[None]:
        """Watches a root, some directories a step; one that is there already by new rules.

        Raises Unseen where nobody can say what stands there; then all is as before.
        """
        stands = _standing(path)
        root = self.roots.get(path)
        if root is None:
            root = self.roots[path] = Root(path, ignored)
        root.ignored = ignored
        self.losses += 1
        root.differs = False
        root.scanning = True
        work = Work()
        root.mount = self.mounts.holding(path)
        root.dev, root.ino = stands
        self._attach_or_say(root, work, QUIET)
        yield
        while self.roots.get(path) is root and self.step(work, _STEP):
            yield
        self._compare_rules(root)
        root.scanning = False

    def end(self, path: bytes) -> None:
        """Ends watching a root; what another root needs stays."""
        root = self.roots.pop(path, None)
        if root is None:
            return
        self.adrift.pop(root, None)
        self.live.pop(path, None)
        node = root.node
        if node is None:
            return
        self.unhold(root)
        above = node.parent
        if above is not None and above.root is not None and not above.root.leaves_out(path):
            self.tree.govern(node, above.root)
            self.work.rules.append((node, False))
        else:
            self._let_go(node)

    def _let_go(self, node: Node) -> None:
        self.demote(node)
        if node is self.tree.top and not node.holds:
            self.tree.top = None
            self.parked[node] = None
        else:
            self.prune(node)

    def place_root(self, root: Root, work: Work, how: How) -> None:
        """Gives a root its node, and each directory above it one; raises OSError where that cannot be."""
        self.unhold(root)
        weak, root.weak = root.weak, ""
        names = [name for name in root.path.split(b"/") if name]
        node = self._top()
        for name in names[:-1]:
            node = self._passage(node, name, root)
        with Directory(root.path, READ) as found:
            if found.error is not None:
                raise found.error
            if not found.is_inode(root.dev, root.ino):
                raise FileNotFoundError(errno.ENOENT, "another directory stands there")
            self.live[root.path] = root
            if names:
                node = self._settle_root(root, work, node, names[-1], found, how)
            else:
                self._watch_top(root, found)
                work.lists.append((node, how))
        root.node = node
        add_up(node, 1, 0)
        if weak and not root.weak:
            self.lost(root.path, "the directories above it are watched again")

    def _settle_root(self, root: Root, work: Work, node: Node, name: bytes, found: Directory, how: How) -> Node:
        self.settle(work, node, name, found, root, how)
        settled = node.children.get(name)
        if settled is not None and settled.root is root:
            return settled
        why = (node.blind or {}).get(name, "it is being moved")
        if node.root is None:  # this place is the root's alone, which tells of it itself
            self.see(node, name, QUIET)
        raise OSError(why)

    def _watch_top(self, root: Root, found: Directory) -> None:
        top = self._top()
        self.kernel.add(self.fd, b"/", WHOLE, found.fd)
        self.tree.govern(top, root)

    def _top(self) -> Node:
        if self.tree.top is None:
            found = os.lstat(b"/")
            watch = self.kernel.add(self.fd, b"/", PASSAGE | KEEP)
            known = self.tree.nodes.get(watch)
            if known is not None:
                self.parked.pop(known, None)
                self.tree.top = known
            else:
                self.tree.top = Node(watch, found.st_dev, found.st_ino)
                self.tree.know(self.tree.top)
        return self.tree.top

    def _passage(self, node: Node, name: bytes, root: Root) -> Node:
        """The directory `name` on the way to a root, watched for being moved."""
        path = self.path(node, name)
        child = node.children.get(name)
        while True:
            try:
                watch = self.kernel.add(self.fd, path, PASSAGE | KEEP)
            except (FileNotFoundError, NotADirectoryError):
                raise
            except OSError as error:
                shown = path.decode("utf-8", "backslashreplace")
                root.weak = f"{shown} above it: {reason_of(error)}"
                self.losses += 1
                watch = -1
            known = self.tree.nodes.get(watch)
            if known is None or known is child:
                break
            old = self.tree.path(known)
            found = os.lstat(path)
            if old is not None and (os.stat(old).st_dev, os.stat(old).st_ino) == (found.st_dev, found.st_ino):
                shown = old.decode("utf-8", "backslashreplace")
                raise OSError(f"a directory above it is mounted twice, and watched as {shown}")
            if known.parent is not None:
                self.vacate(known.parent, known.name)
            self.drop(known)
        if child is not None and (known is child or child.watch < 0):
            return child
        self.vacate(node, name)
        found = os.lstat(path)
        child = Node(watch, found.st_dev, found.st_ino)
        if watch >= 0:
            self.tree.know(child)
        self.tree.place(child, node, name)
        return child

    def _compare_rules(self, root: Root) -> None:
        """Finds the roots within this one that leave out what this one would not."""
        if root.node is None:
            return
        for inner in roots_below(root.node):
            if inner is not root and inner.node is not None:
                inner.differs = inner.differs or any(
                    not root.leaves_out(self.path(node, name))
                    for node in subtree(inner.node)
                    if node.root is inner
                    for name in node.skipped or ()
                )

    # -- whether they are what they were

    def doubt(self, node: Node, reason: str) -> None:
        """The roots at or below a directory may be elsewhere by now; of those that are, nothing more is told."""
        for root in list(roots_below(node)):
            self.lost(root.path, reason)
            why = self.absence(root)
            if why:
                self.away(root, root.node, why, absent=True)
            else:
                self.adrift[root] = None

    def look_for(self, root: Root) -> None:
        """Looks whether a root is where it was, and watches it again or says that it is gone."""
        why = self.absence(root)
        if not why:
            self._attach_or_say(root, self.work, AGAIN, tell=True)
            return
        self.away(root, root.node, why, absent=True)

    def absence(self, root: Root) -> str:
        """Why a root is not there, "" where it is. What was mounted over it and may hang is not looked at."""
        mount = self.mounts.holding(root.path)
        if mount is not None and mount.is_other(root.mount) and (kind := backend_of_type(mount.kind)[1]):
            return f"another file system is mounted over the root: {kind}"
        try:
            found = os.lstat(root.path)
        except (FileNotFoundError, NotADirectoryError):
            return "the root does not exist: put it back, or make it anew and add it, or remove it"
        except OSError as error:
            return f"the root cannot be looked at: {error.strerror}"
        if (found.st_dev, found.st_ino) == (root.dev, root.ino):
            return ""
        return "something else stands at the root's path: add it again to watch that, or remove it"

    def _attach_or_say(self, root: Root, work: Work, how: How, *, tell: bool = False) -> None:
        node, weak = root.node, root.weak
        try:
            if root.ino < 0:
                raise FileNotFoundError(errno.ENOENT, "it is not there")
            self.place_root(root, work, how)
        except OSError as error:
            gone = self.absence(root)
            why = gone or (reason_of(error) if error.errno is not None else str(error))
            self.away(root, node, why, absent=bool(gone), tell=tell)
            return
        if tell and (root.why or root.weak != weak):
            self.told.append(Covered(root.path, "partial" if root.weak else "whole", root.weak))
        if root.why and tell:
            self.lost(root.path, "the root is there again")
        root.why, root.absent = "", False

    def away(self, root: Root, node: Node | None, why: str, *, absent: bool, tell: bool = True) -> None:
        """A root cannot be watched; `node` is where it stood."""
        self.live.pop(root.path, None)
        self.unhold(root)
        if node is not None and self.tree.prefix(node) is not None:
            above, name = node.parent, node.name
            if above is not None and above.root is not None:
                self.work.rules.append((node, False))
                self.work.ask(above, name, FOUND)
            else:
                self._let_go(node)
        self.prune(self.tree.find(root.path)[0])
        if tell and root.why != why:
            self.lost(root.path, why)
            self.told.append(Covered(root.path, "none", why))
        root.why, root.absent = why, absent
        self.losses += 1

    def check_roots(self) -> None:
        """Looks at each root once."""
        for root in list(self.roots.values()):
            if root in self.adrift:
                continue
            why = self.absence(root)
            if root.weak and not why and self._can_be_strong(root):
                self.adrift[root] = None
            if why != root.why:
                self.adrift[root] = None
                if not root.why:
                    self.lost(root.path, why)

    def _can_be_strong(self, root: Root) -> bool:
        """Whether each directory above a root can be watched by now."""
        node = None if root.node is None else root.node.parent
        while node is not None:
            path = self.tree.path(node)
            if node.watch < 0 and path is not None and not self._can_be_watched(path):
                return False
            node = node.parent
        return True

    def _can_be_watched(self, path: bytes) -> bool:
        try:
            watch = self.kernel.add(self.fd, path, PASSAGE | KEEP)
        except OSError:
            return False
        if watch not in self.tree.nodes:  # who asked will have it watched for good
            self.tree.newest = max(self.tree.newest, watch)
            self.kernel.remove(self.fd, watch)
        return True

    def check_mounts(self, changed: list[bytes]) -> None:
        """Something was mounted or unmounted at each of the paths.

        Where there is none the table changed and reads as before: what came and went, and where, nobody knows.
        """
        if not changed:
            for root in self.roots.values():
                self.lost(
                    root.path,
                    "the table of mounts changed since the last look, and reads as it did then or cannot be read",
                )
                self.adrift[root] = None
        for point in changed:
            shown = point.decode("utf-8", "backslashreplace")
            inside = point.rstrip(b"/") + b"/"
            for root in self.roots.values():
                if root.path == point or root.path.startswith(inside):
                    self.lost(root.path, f"something was mounted or unmounted at {shown}")
                    self.adrift[root] = None
            self._check_mount_below(point)

    def _check_mount_below(self, point: bytes) -> None:
        above, _, name = point.rpartition(b"/")
        node, rest = self.tree.find(above)
        if not name or node is None or rest or node.root is None or point in self.live:
            return
        if node.skipped is None or name not in node.skipped:
            self.lost(point, "something was mounted or unmounted here")
            self.work.ask(node, name, AGAIN)


def _standing(path: bytes) -> tuple[int, int]:
    """Device and inode of what stands at a path, which is taken for the root; -1 each where nothing does."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return -1, -1
    except Exception as error:  # whatever it is: what is taken later may be another directory
        raise Unseen(f"the root cannot be looked at: {getattr(error, 'strerror', None) or error!r}") from error
    return found.st_dev, found.st_ino
