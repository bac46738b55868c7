"""Makes the tree of watched directories what the disk holds: looks at slots, enters directories.

Rule: a slot is a name in a watched directory. It is looked at after the last event about it, and what is found there
decides, whatever the events said; so every odd order of renames ends well. A directory is pinned by a descriptor
while it is looked at: watch, identity and listing are of one inode.
"""

from __future__ import annotations

import contextlib
import os
import stat

import msgspec

from provd.core.notice import Touched, What
from provd.watch.arrival import (
    PIN,
    READ,
    Directory,
    evidence,
    is_refusal,
    is_symlink,
    must_be_sayable,
    reason_of,
    subdirectories,
)
from provd.watch.filesystems import backend_of_type
from provd.watch.mounted import Mount, MountPoints
from provd.watch.slots import AGAIN, CAME, FOUND, IS_DIR, QUIET, How, Slots, Work
from provd.watch.syscalls import WHOLE
from provd.watch.tree import Node, Root, is_at_or_above, subtree


class Places(Slots):
    """The tree, with what makes it true."""

    def step(self, work: Work, budget: int) -> bool:
        """Looks at about `budget` directories; whether there are more."""
        for _ in range(budget):
            if work.slots:
                (node, name), how = work.slots.popitem()
                self._look(work, node, name, how)
            elif work.rules:
                self._apply_rules(work, *work.rules.popleft())
            elif work.lists:
                self._list(work, *work.lists.popleft())
            else:
                return False
        return bool(work)

    def _look(self, work: Work, node: Node, name: bytes, how: How) -> None:
        prefix = self.tree.prefix(node)
        if prefix is None or node.root is None:
            return
        path = prefix + name
        root = self.live.get(path) or node.root
        mount = self._mounted(path, name) if name in self.mounts.names else None
        if mount is not None and (why := backend_of_type(mount.kind)[1]):
            self.vacate(node, name, tell=False)
            # Nobody can look whether it is a directory, and some rules are only for those.
            if root.leaves_out(path) and root.ignored(path, False):  # noqa: FBT003
                self._leave_out(node, name, root, path)
            else:
                self.blind(node, name, f"another file system is mounted there: {why}", how)
            return
        with Directory(prefix, PIN) as parent:
            if parent.error is not None and is_refusal(parent.error):
                self.blind(node, name, reason_of(parent.error), how)
                return
            if not parent.is_inode(node.dev, node.ino):
                work.defer(node, name, how)
                return
            with Directory(name, READ, parent.fd) as found:
                if found.error is not None:
                    self._look_closed(node, name, parent, found.error, root, how)
                elif root.leaves_out(path):
                    self._leave_out(node, name, root, path)
                else:
                    self.settle(work, node, name, found, root, how)

    def _mounted(self, path: bytes, name: bytes) -> Mount | None:
        """What is mounted at a path. With a directory above a mount its point gets another name, which nobody tells."""
        found = self.mounts.at(path)
        if found is None and any(
            point.endswith(b"/" + name) and backend_of_type(mounts[-1].kind)[1]
            for point, mounts in self.mounts.points.items()
        ):
            with contextlib.suppress(OSError):  # then what was known is known still
                self.mounts = MountPoints.read()
            found = self.mounts.at(path)
        return found

    def _look_closed(self, node: Node, name: bytes, parent: Directory, error: OSError, root: Root, how: How) -> None:
        """What cannot be opened as a directory: none, or one that may not be read; of no matter where it is ignored."""
        try:
            status = None if isinstance(error, (FileNotFoundError, NotADirectoryError)) else parent.member(name)
        except OSError:  # nobody may look: what stood there may stand there still
            self.blind(node, name, reason_of(error), how)
            return
        if status is not None and not is_symlink(status):
            path = self.path(node, name)
            if stat.S_ISDIR(status.st_mode) and root.leaves_out(path):
                self._leave_out(node, name, root, path)
                return
            if node.skipped is not None:
                node.skipped.discard(name)
            child = node.children.get(name)
            if child is None or (status.st_dev, status.st_ino) != (child.dev, child.ino):
                self.vacate(node, name)
            self.blind(node, name, reason_of(error), how)  # where it has a watch, who is told cannot look
            return
        self.vacate(node, name)
        if node.skipped is not None:
            node.skipped.discard(name)
        if name in self.mounts.names and self.mounts.at(self.path(node, name)) is not None:
            self.blind(node, name, "a file from elsewhere is mounted there", how)
        else:
            self.see(node, name, how, there=False)

    def _leave_out(self, node: Node, name: bytes, root: Root, path: bytes) -> None:
        """Does not enter an ignored directory, but keeps the way to a root that lies in it."""
        if node.skipped is None:
            node.skipped = set()
        node.skipped.add(name)
        child = node.children.get(name)
        if child is not None and child.holds:
            self.demote(child)
        else:
            self.vacate(node, name, tell=False)
        self.see(node, name, QUIET, there=False)
        at: Root | None = root
        while at is not None and at.path != b"/" and not root.differs:  # a set at any root around this one may hold it
            at = self.governing(os.path.dirname(at.path))
            root.differs = at is not None and not at.leaves_out(path)

    def settle(self, work: Work, node: Node, name: bytes, found: Directory, root: Root, how: How) -> None:
        """Puts the opened directory `found` into its slot, with its watch and all that is in it."""
        path = (self.tree.prefix(node) or b"/") + name
        child = node.children.get(name)
        try:
            must_be_sayable(path)  # its descriptor could be watched, but nobody could look at what is told of it
            watch = self.kernel.add(self.fd, path, WHOLE, found.fd)
        except OSError as error:
            if child is not None and not found.is_inode(child.dev, child.ino):
                self.vacate(node, name)
            self.blind(node, name, reason_of(error), how)
            return
        if node.skipped is not None:
            node.skipped.discard(name)
        known = self.tree.nodes.get(watch)
        if known is None:
            self.vacate(node, name)
            owner = self.live.get(path) or node.root
            if owner is not root:  # the root that stood here went with the directory that was vacated
                work.rules.append((node, False))
            self._enter(work, self.new(watch, found, owner, node, name), found, how)
        elif known is child:
            self._known(work, child, found, root, how)
        elif self.tree.prefix(known) is None:
            self.vacate(node, name)
            self.tree.lift(known)
            self._put_back(work, known, node, name, how)
        else:
            self._relocate(work, known, node, name, found, how)

    def _known(self, work: Work, child: Node, found: Directory, root: Root, how: How) -> None:
        """The directory that stands in the slot already is there."""
        assert child.parent is not None
        was = child.root
        was_blind = child.name in (child.parent.blind or ())  # then it was not listed, or what changed in it was not
        child.dev, child.ino = found.dev, found.ino
        self.see(child.parent, child.name, how)
        self.tree.govern(child, root)
        if was is None:  # it only led to a root until now
            self._enter(work, child, found, how)
        elif how.again or was is not root or was_blind:
            work.lists.append((child, AGAIN if was_blind and not how.quiet else how))

    def new(self, watch: int, found: Directory, root: Root | None, parent: Node, name: bytes) -> Node:
        """A node for a directory that is watched from now on."""
        node = Node(watch, found.dev, found.ino)
        self.tree.know(node)
        self.tree.place(node, parent, name)
        self.tree.govern(node, root)
        return node

    def _enter(self, work: Work, node: Node, found: Directory, how: How) -> None:
        """Tells of a new directory, and looks at those in it."""
        prefix = self.tree.prefix(node) or b"/"
        path = prefix[:-1]
        assert node.parent is not None
        self.see(node.parent, node.name, how)
        try:
            changed = os.fstat(found.fd).st_mtime_ns
            names, below = subdirectories(found.fd, prefix, self.mounts)
        except OSError as error:
            self.blind(node.parent, node.name, reason_of(error), how)
            return
        if not how.quiet:
            if not how.told:
                self.told.append(Touched(path, What.CREATED, IS_DIR))
            missed = evidence(self.kernel, found.fd, changed, names) if how.missed is None else how.missed
            self.appear(node, missed)
        for name in node.children.keys() - set(below):  # it only led to a root until now, which went
            work.ask(node, name, FOUND)
        inside = how if how.told else msgspec.structs.replace(how, told=True)
        for name in below:
            work.ask(node, name, inside)

    def _put_back(self, work: Work, node: Node, parent: Node, name: bytes, how: How) -> None:
        """Gives a directory without a place a new one: all in it is there, but what was told of it is not."""
        self.parked.pop(node, None)
        self.tree.place(node, parent, name)
        self.tree.govern(node, self.live.get((self.tree.prefix(parent) or b"/") + name) or parent.root)
        self.see(parent, name, how)
        if not how.quiet:
            path = self.tree.path(node) or b"/"
            self.told.append(Touched(path, What.CREATED, IS_DIR))
            for each in subtree(node):
                self.appear(each, "it changed while it was moved" if each.stirred else "")
        for each in subtree(node):
            each.stirred = False
        work.rules.append((node, False))
        work.lists.append((node, AGAIN))

    def _relocate(self, work: Work, known: Node, node: Node, name: bytes, found: Directory, how: How) -> None:
        """A directory that the tree has elsewhere stands in this slot."""
        old = self.tree.path(known)
        if old is not None and found.is_also(old):
            self.vacate(node, name)
            shown = old.decode("utf-8", "backslashreplace")
            self.blind(node, name, f"the same directory is mounted twice, and watched as {shown}", how)
        elif known.parent is None or is_at_or_above(known, node):
            work.defer(node, name, how)
            if known.parent is not None:
                work.ask(known.parent, known.name, FOUND)
        elif known.root is None:  # it led to roots, and is not watched for what is in it
            above = known.parent
            self.vacate(above, known.name, tell=False)
            self.drop(known)
            self.prune(above)
            work.ask(node, name, how)
        else:
            above, was = known.parent, known.name
            self.move(known, node, name)
            work.ask(above, was, FOUND)
            self.see(node, name, how)
            work.lists.append((known, AGAIN))

    def _list(self, work: Work, node: Node, how: How) -> None:
        """Compares the directories in a directory with the tree."""
        prefix = self.tree.prefix(node)
        if prefix is None or node.root is None:
            return
        with Directory(prefix, READ) as found:
            try:
                if found.error is not None:
                    raise found.error
                _, below = subdirectories(found.fd, prefix, self.mounts)
            except (FileNotFoundError, NotADirectoryError):
                below = None
            except OSError as error:
                self._unlisted(node, reason_of(error), how)
                return
        if below is None or not found.is_inode(node.dev, node.ino):
            work.defer(node, None, how)
            if node.parent is not None:
                work.ask(node.parent, node.name, FOUND)
            return
        for name in node.children.keys() - set(below):
            work.ask(node, name, FOUND)
        for name in node.blind or ():
            work.ask(node, name, how)
        for name in below:
            if how.again or name not in node.children:
                work.ask(node, name, how)

    def _unlisted(self, node: Node, why: str, how: How) -> None:
        """A directory that is watched cannot be listed: a root is looked for again, any other is uncovered."""
        if node.root is not None and node.root.node is node:
            self.lose(node, why)
        elif node.parent is not None:
            self.blind(node.parent, node.name, why, how)

    def _apply_rules(self, work: Work, node: Node, everything: bool) -> None:
        """Whose rules hold in a directory that was moved, and what they leave out there.

        What was told of it lately may have been looked for in vain, since it was moved already: it is to be listed.
        """
        prefix = self.tree.prefix(node)
        root = None if prefix is None else self._owner(work, node)
        if prefix is None or root is None:
            return
        below = everything or self.is_recent(node.listed)
        if everything or self.is_recent(node.said):
            self.appear(node, "")
        for name, child in list(node.children.items()):
            if child.root is not None and child.root.node is child:
                continue
            if root.leaves_out(prefix + name):
                self._leave_out(node, name, root, prefix + name)
            elif child.root is None:
                work.ask(node, name, CAME)
            else:
                work.rules.append((child, below))
        for name in list(node.skipped or ()):
            if not root.leaves_out(prefix + name):
                work.ask(node, name, CAME)

    def _owner(self, work: Work, node: Node) -> Root | None:
        """Says whose rules hold in a directory where it is now."""
        above = node.parent
        if above is None or (node.root is not None and node.root.node is node):
            return node.root
        if node.root is not None:
            self.tree.govern(node, above.root)
        elif above.root is not None:  # it is not watched for what is in it
            work.ask(above, node.name, CAME)
        return node.root
