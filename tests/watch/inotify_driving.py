"""Drives a watcher by hand, and keeps what its notices tell: a mirror of the disk, as the log's keeper has one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Callable, Iterator
from typing import TypeVar

from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Touched, What
from provd.watch.inotify import InotifyWatcher
from provd.watch.syscalls import Kernel

Status = tuple[int, ...]


def nothing_ignored(path: bytes, is_dir: bool) -> bool:
    return False


def add(watcher: InotifyWatcher, root: bytes, ignored: Callable[[bytes, bool], bool] = nothing_ignored) -> None:
    for _ in watcher.add(root, ignored):
        pass


def drain(watcher: InotifyWatcher, limit: int = 512) -> list[Notice]:
    """Everything that there is to tell."""
    told: list[Notice] = []
    while True:
        watcher.read()
        notices = watcher.take(limit)
        told += notices
        if not notices and not watcher.busy and watcher.read() == 0:
            return told


@contextlib.contextmanager
def watching(*roots: bytes, kernel: Kernel | None = None) -> Iterator[InotifyWatcher]:
    """A watcher of roots, with nothing left to tell."""
    watcher = InotifyWatcher(kernel)
    try:
        for root in roots:
            add(watcher, root)
        drain(watcher)
        yield watcher
    finally:
        watcher.close()


def touched(told: list[Notice]) -> list[tuple[bytes, What]]:
    return [(each.path, each.what) for each in told if isinstance(each, Touched)]


Kind = TypeVar("Kind")


def of(kind: type[Kind], told: list[Notice]) -> list[Kind]:
    return [each for each in told if isinstance(each, kind)]


def named(path: bytes, told: list[Notice]) -> bool:
    """Whether notices say that the path may have changed."""
    for each in told:
        match each:
            case Touched():
                within = each.is_dir and each.what is What.DELETED
                if each.path == path or (within and path.startswith(each.path + b"/")):
                    return True
            case Moved():
                if path in {each.path, each.source} or path.startswith((each.path + b"/", each.source + b"/")):
                    return True
            case Appeared():
                if os.path.dirname(path) == each.path:
                    return True
            case Lost():
                if path == each.path or path.startswith(each.path + b"/"):
                    return True
            case _:
                pass
    return False


def mkdir(*paths: bytes) -> None:
    for path in paths:
        os.makedirs(path, exist_ok=True)


def write(path: bytes, content: bytes = b"one\n") -> bytes:
    with open(path, "ab") as file:
        file.write(content)
    return path


_AT_FDCWD = -100
_EXCHANGE = 2


def exchange(one: bytes, other: bytes) -> None:
    """Two names change what they name, in one moment."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def status_of(path: bytes) -> Status | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return (stat.S_IFDIR, found.st_dev, found.st_ino)
    return (stat.S_IFMT(found.st_mode), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def disk(root: bytes) -> dict[bytes, Status]:
    """All that is below a root."""
    found: dict[bytes, Status] = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(directory, name)
            status = status_of(path)
            assert status is not None
            found[path] = status
    return found


def directories(watcher: InotifyWatcher, root: bytes) -> set[bytes]:
    """The directories that have a watch, below a root."""
    tree = watcher._places.tree
    paths = {tree.path(node) for node in tree.nodes.values() if node.root is not None}
    return {path for path in paths if path is not None and path.startswith(root + b"/")}


class Mirror:
    """What is known of some trees from notices and from looking only where they say."""

    def __init__(self, *roots: bytes) -> None:
        self.known: dict[bytes, Status] = {}
        self.lost: list[Lost] = []
        for root in roots:
            self.known |= disk(root)

    def apply(self, told: list[Notice]) -> None:
        for each in told:
            match each:
                case Touched():
                    if each.is_dir and each.what is What.DELETED:
                        self._remove_below(each.path)
                        self.known.pop(each.path, None)
                    self._look(each.path)
                case Moved():
                    self._move(each.source, each.path)
                case Appeared():
                    self._list(each.path)
                case Lost():
                    self.lost.append(each)
                    self._remove_below(each.path)
                    self.known |= disk(each.path)
                    self._look(each.path)
                case Covered():
                    pass
                case _:
                    raise AssertionError(each)

    def below(self, root: bytes) -> dict[bytes, Status]:
        return {path: status for path, status in self.known.items() if path.startswith(root + b"/")}

    def _remove_below(self, path: bytes) -> None:
        for each in [known for known in self.known if known.startswith(path + b"/")]:
            del self.known[each]

    def _look(self, path: bytes) -> None:
        """What is there now. A directory that is not stays until its own notice says what became of it."""
        status = status_of(path)
        before = self.known.get(path)
        if status is not None:
            if status[0] != stat.S_IFDIR:
                self._remove_below(path)
            self.known[path] = status
        elif before is not None and before[0] != stat.S_IFDIR:
            del self.known[path]

    def _move(self, source: bytes, path: bytes) -> None:
        self._remove_below(path)
        for each in [known for known in self.known if known.startswith(source + b"/")]:
            self.known[path + each[len(source) :]] = self.known.pop(each)
        self.known.pop(source, None)
        self._look(source)
        self._look(path)

    def _list(self, directory: bytes) -> None:
        self._look(directory)
        try:
            names = os.listdir(directory)
        except OSError:
            return
        here = {os.path.join(directory, name) for name in names}
        for path in {known for known in self.known if os.path.dirname(known) == directory} - here:
            self._remove_below(path)
            del self.known[path]
        for path in here:
            self._look(path)
