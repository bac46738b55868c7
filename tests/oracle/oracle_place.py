"""Where a run acts: some directories with a few files each, of few contents, so that states come again.

Some of it lies outside of the watched root: other names of the same files, and what links lead to. An act tells what it
touches by tokens (`oracle_eyes`), so that questions can be counted by what happened to their dependencies.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import shutil
import stat
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from oracle_eyes import Token, content, identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

DIRECTORIES: Final = ("a", "a/b", "a/b/c", "d", "d/e", "x", "x/y")
FILES: Final = 4
LINKS: Final = "s"
"""The directory of links to files and of chains of them."""
HARD: Final = "h"
"""The directory of second names."""
ODD: Final = "q"
"""The directory of odd names."""
CURRENT: Final = "current"
"""A link to a directory."""
PAGE: Final = 4096
SIZES: Final = (10, 10, 10, 5000)
ODD_NAMES: Final = (
    "with space",
    "new\nline",
    "tab\t",
    "\udcff\udcfe",
    "quote'\"",
    "[x]",
    "*",
    "?",
    ".hidden",
    "-n",
    "é",
    "back\\slash",
    "file:colon",
    "#",
    "L" * 255,
    "\x1b[31m",
    "~",
)
LIBC: Final = ctypes.CDLL(None, use_errno=True)
CONTENT: Final = ("file", "absent", "glob", "tree", "entry")
"""What a change of a file's content can touch."""
NAME: Final = ("file", "absent", "dir", "names", "glob", "tree", "entry")
"""What a change of a name can touch."""
_HERE: Final = -100
_EXCHANGE: Final = 2
_FICLONE: Final = 0x40049409
COLLAPSE: Final = 8
_FAVOURED: Final = 0.4
_BACK: Final = 0.25
_NOTABLE: Final = 10


class Act(NamedTuple):
    """One kind of mutation: what does it, and which kinds of dependencies it can touch."""

    do: Callable[[Place], None]
    reach: tuple[str, ...]
    needs: str = ""  # "mounts", "bars", "reflinks" or "ranges": what the place must have


ACTS: Final[dict[str, Act]] = {}
"""All kinds, by the name of their row in the table."""


def acting(
    name: str, reach: tuple[str, ...], needs: str = ""
) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Registers a kind of mutation."""

    def register(do: Callable[[Place], None]) -> Callable[[Place], None]:
        assert name not in ACTS, name
        ACTS[name] = Act(do, reach, needs)
        return do

    return register


def libc(name: str, *arguments: object) -> None:
    """A call of the C library; raises OSError."""
    if getattr(LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def allocate(descriptor: int, mode: int, start: int, size: int) -> None:
    """fallocate(2); raises OSError."""
    libc("fallocate", descriptor, mode, ctypes.c_long(start), ctypes.c_long(size))


def reflink(source: int, target: int) -> None:
    """One file shares the other's blocks; raises OSError."""
    fcntl.ioctl(target, _FICLONE, source)


class Place:
    """Two directories of one file system below `home`, and what acts hold open. All acts go through it."""

    def __init__(self, home: str, root: str, outside: str, random: Random, *, mounts: bool, bars: bool) -> None:
        self.home, self.root, self.outside, self.random = home, root, outside, random
        self.mounts, self.bars = mounts, bars
        self.mappings: list[mmap.mmap] = []
        self.mapped: list[Token] = []
        self.descriptors: list[int] = []
        self.mounted = ""
        self.barred = -1
        self.bound: list[str] = []
        self.touched: set[Token] = set()
        self.said: list[str] = []
        """Paths that the act told of, for whoever must do it again by hand."""
        self.notable: deque[str] = deque(maxlen=_NOTABLE)
        """Files that somebody may write unseen: mapped, held open, or with another name. Entries are put on them."""
        self.favoured: Callable[[], str] = self.file
        """The path of a file that something rests on which is seldom touched."""
        self.nudge: Callable[[], None] = lambda: None
        """Asks something, so that what is there now is read."""
        for directory in (*DIRECTORIES, LINKS, HARD, ODD):
            os.makedirs(os.path.join(root, directory))
        os.makedirs(outside)
        for directory in DIRECTORIES:
            for number in range(FILES):
                self.write(os.path.join(root, directory, f"f{number}"), b"ABC"[number % 3 :][:1] * SIZES[0])
        self.touched.clear()
        self._has = {"", *(("mounts",) if mounts else ()), *(("bars",) if bars else ()), *self._probed()}

    def _probed(self) -> list[str]:
        """What this file system can do that not all can."""
        source, target = (os.open(os.path.join(self.outside, name), os.O_RDWR | os.O_CREAT) for name in ("p0", "p1"))
        try:
            has = []
            os.write(source, b"x" * 4 * PAGE)
            with contextlib.suppress(OSError):
                reflink(source, target)
                has.append("reflinks")
            with contextlib.suppress(OSError):
                allocate(source, COLLAPSE, PAGE, PAGE)
                has.append("ranges")
            return has
        finally:
            os.close(source)
            os.close(target)

    def act(self, name: str) -> bool:
        """Does one thing; false where the system refused it. What it touched is in `touched`."""
        self.touched.clear()
        self.said.clear()
        try:
            ACTS[name].do(self)
        except OSError as error:
            self.said.append(f"refused: {error.strerror}")
            return False
        return bool(self.touched)

    def acts(self) -> list[str]:
        """The kinds of mutation that this place knows."""
        return [name for name, act in ACTS.items() if act.needs in self._has]

    def lacks(self) -> bool:
        """Whether a directory is missing that there should be."""
        return not all(os.path.isdir(os.path.join(self.root, name)) for name in DIRECTORIES)

    def close(self) -> None:
        """Lets go of all that is held, and of what was mounted."""
        for mapping in self.mappings:
            mapping.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        if self.barred >= 0:
            os.fchmod(self.barred, 0o755)
            os.close(self.barred)
            self.barred = -1
        self.mappings.clear()
        self.mapped.clear()
        self.descriptors.clear()
        for path in filter(None, (self.mounted, *self.bound)):
            with contextlib.suppress(OSError):
                unmount(path)
        self.mounted = ""
        self.bound.clear()

    # -- names

    def directory(self) -> str:
        """The path of a directory, which may be away or a link."""
        return os.path.join(self.root, self.random.choice(DIRECTORIES))

    def file(self) -> str:
        """The path of a file, which may be there or not."""
        return os.path.join(self.directory(), f"f{self.random.randrange(FILES)}")

    def present(self) -> str:
        """The path of a file that is there, if one is found soon."""
        path = self.file()
        for _ in range(20):
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.stat(path).st_mode):
                    break
            path = self.favoured() if self.random.random() < _FAVOURED else self.file()
        return path

    def missing(self) -> str:
        """A path of a file where nothing is, if one is found soon; its directory is there."""
        path = self.file()
        for _ in range(20):
            if not os.path.lexists(path) and os.path.isdir(os.path.dirname(path)):
                break
            path = self.file()
        return path

    def beside(self, name: str, count: int) -> str:
        """A path outside of the root."""
        return os.path.join(self.outside, f"{name}{self.random.randrange(count)}")

    # -- what is told

    def content(self, path: str | int) -> None:
        """This act changes what is in a file, or who may read it."""
        if isinstance(path, str):
            self.said.append(path)
        self.touched.add(content(os.stat(path)))

    def name(self, path: str) -> None:
        """This act changes what a name means."""
        self.said.append(path)
        there = identity(os.stat(os.path.dirname(path)))
        self.touched.update((("n", *there, os.path.basename(path)), ("l", *there)))

    # -- what is done

    def letter(self) -> bytes:
        """One of few contents."""
        return self.random.choice("ABC").encode()

    def some_bytes(self) -> bytes:
        """What a file may hold."""
        return self.letter() * self.random.choice(SIZES)

    def write(self, path: str, data: bytes | None = None) -> None:
        """Opens, cuts and writes, through links; never waits for a FIFO's reader."""
        if not os.path.exists(path):
            self.name(os.path.realpath(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)
        try:
            self.content(descriptor)
            os.write(descriptor, self.some_bytes() if data is None else data)
        finally:
            os.close(descriptor)

    def open(self, path: str, flags: int = os.O_RDWR) -> int:
        """A descriptor of a regular file that is there; this act changes what is in it."""
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileNotFoundError(path)
        self.said.append(path)
        descriptor = os.open(path, flags)
        self.content(descriptor)
        return descriptor

    def overwrite(self, path: str) -> None:
        """Other bytes, as many as there are; sometimes the old ones come back at once."""
        descriptor = self.open(path)
        try:
            before = os.pread(descriptor, max(SIZES), 0)
            os.pwrite(descriptor, self.letter() * len(before), 0)
            if self.random.random() < _BACK:
                os.pwrite(descriptor, before, 0)
        finally:
            os.close(descriptor)

    def rename(self, one: str, other: str) -> None:
        """Moves; both names change."""
        self.name(one)
        self.name(other)
        os.rename(one, other)

    def exchange(self, one: str, other: str) -> None:
        """RENAME_EXCHANGE."""
        self.name(one)
        self.name(other)
        libc("renameat2", _HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)

    def remove(self, path: str) -> None:
        """Whatever is there goes."""
        self.name(path)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def clear(self, path: str) -> None:
        """Nothing is there afterwards."""
        if os.path.lexists(path):
            self.remove(path)

    def link(self, target: str, path: str) -> None:
        """A symbolic link in place of whatever is there."""
        self.clear(path)
        self.name(path)
        os.symlink(target, path)


def mount(source: str, path: str, kind: str | None, options: int, data: str = "") -> None:
    """Mounts (the system call); raises OSError."""
    libc("mount", os.fsencode(source), os.fsencode(path), kind and kind.encode(), options, data.encode())


def unmount(path: str) -> None:
    """Lets go of a mount at once; raises OSError."""
    detach = 2
    libc("umount2", os.fsencode(path), detach)
