"""What is done to the files: some directories with a few files each, of few contents, so that states come again.

Some is done from outside of the watched root: to other names of the same files, and to what links lead to. Mappings
are kept, since a store through one makes no event, and mostly moves no time.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

DIRECTORIES: Final = ("a", "a/b", "a/b/c", "d", "d/e", "x", "x/y")
_FILES: Final = 4
_LETTERS: Final = "ABC"
_SIZES: Final = (10, 10, 5000)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_HERE: Final = -100
_EXCHANGE: Final = 2
_MAPPINGS: Final = 50


class Actions:
    """Acts at random below `root` and `outside`, which are two directories of one file system."""

    def __init__(self, root: str, outside: str, random: Random) -> None:
        self._root, self._outside, self._random = root, outside, random
        self._mappings: list[mmap.mmap] = []
        for directory in DIRECTORIES:
            os.makedirs(os.path.join(root, directory))
            for number in range(_FILES):
                self._write(os.path.join(root, directory, f"f{number}"))

    def act(self) -> str:
        """Does one thing; says which, and that the system refused it where it did."""
        act = self._random.choice(_ACTS)
        try:
            return f"{act.__name__} {act(self) or ''}".rstrip()
        except OSError as error:
            return f"{act.__name__}: {error.strerror}"

    def file(self) -> str:
        """The path of a file, which may be there or not."""
        return os.path.join(self.directory(), f"f{self._random.randrange(_FILES)}")

    def directory(self) -> str:
        """The path of a directory, which may be away or a link."""
        return os.path.join(self._root, self._random.choice(DIRECTORIES))

    def close(self) -> None:
        """Lets go of all mappings."""
        for mapping in self._mappings:
            mapping.close()
        self._mappings.clear()

    def _content(self) -> bytes:
        return self._letter() * self._random.choice(_SIZES)

    def _letter(self) -> bytes:
        return self._random.choice(_LETTERS).encode()

    def _write(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(self._content())

    def _elsewhere(self, name: str, count: int) -> str:
        return os.path.join(self._outside, f"{name}{self._random.randrange(count)}")

    # files

    def write_in_place(self) -> str:
        path = self.file()
        self._overwrite(path)
        return path

    def _overwrite(self, path: str) -> None:
        """Other bytes, as many as there are."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, self._letter() * os.fstat(descriptor).st_size, 0)
        finally:
            os.close(descriptor)

    def append(self) -> str:
        path = self.file()
        with open(path, "ab") as file:
            file.write(b"z")
        return path

    def truncate(self) -> str:
        path = self.file()
        os.truncate(path, self._random.choice((3, 5, 10)))
        return path

    def rename_over(self) -> str:
        path = self.file()
        self._write(path + ".new")
        os.rename(path + ".new", path)
        return path

    def rename_file(self) -> str:
        one, other = self.file(), self.file()
        os.rename(one, other)
        return f"{one} {other}"

    def exchange_files(self) -> str:
        return self._exchange(self.file(), self.file())

    def _exchange(self, one: str, other: str) -> str:
        done = _LIBC.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
        if done != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return f"{one} {other}"

    def write_and_put_the_time_back(self) -> str:
        path = self.file()
        status = os.stat(path)
        self._overwrite(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return path

    def change_mode(self) -> str:
        path = self.file()
        os.chmod(path, self._random.choice((0o644, 0o600)))
        return path

    def remove(self) -> str:
        path = self.file()
        os.unlink(path)
        return path

    def create(self) -> str:
        path = self.file()
        if not os.path.exists(path):
            self._write(path)
        return path

    def link_nameless_file(self) -> str:
        path = self.file()
        descriptor = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY)
        try:
            os.write(descriptor, self._content())
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            # With a descriptor (which an absolute path needs not) it is linkat(2), the call that can follow links.
            os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
        finally:
            os.close(descriptor)
        return path

    # mappings

    def map_and_store(self) -> str:
        path = self.file()
        descriptor = os.open(path, os.O_RDWR)
        try:
            size = os.fstat(descriptor).st_size
            if not size or len(self._mappings) >= _MAPPINGS:
                return path
            mapping = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        mapping[:1] = self._letter()  # see `store_again`
        self._mappings.append(mapping)
        return path

    def store_again(self) -> str:
        """The first byte: no file is ever cut shorter, and a store beyond the end would end the process."""
        if not self._mappings:
            return ""
        number = self._random.randrange(len(self._mappings))
        self._mappings[number][:1] = self._letter()
        return f"mapping {number}"

    def unmap(self) -> str:
        if not self._mappings:
            return ""
        number = self._random.randrange(len(self._mappings))
        self._mappings.pop(number).close()
        return f"mapping {number}"

    # other names, from outside

    def link_hard(self) -> str:
        path, other = self.file(), self._elsewhere("hard", 4)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(other)
        os.link(path, other)
        return f"{path} {other}"

    def write_by_hard_link(self) -> str:
        path = self._elsewhere("hard", 4)
        self._overwrite(path)
        return path

    def link_file(self) -> str:
        path, target = self.file(), self._elsewhere("target", 3)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink(target, path)
        return f"{path} {target}"

    def write_target(self) -> str:
        path = self._elsewhere("target", 3)
        if self._random.random() < 0.2:
            os.unlink(path)
        else:
            self._write(path)
        return path

    # directories

    def exchange_directories(self) -> str:
        one, other = self._random.choice((("a/b", "d/e"), ("d", "x"), ("a/b/c", "x/y")))
        return self._exchange(os.path.join(self._root, one), os.path.join(self._root, other))

    def move_directory_away_and_back(self) -> str:
        path, away = os.path.join(self._root, self._random.choice(("d", "x", "a/b"))), self._elsewhere("away", 1)
        os.rename(path, away)
        os.rename(away, path)
        return path

    def link_directory(self) -> str:
        """One that is a link becomes a directory again; another one is put outside, and a link leads there, or to a."""
        name = self._random.choice(("d", "x"))
        path, real = os.path.join(self._root, name), os.path.join(self._outside, f"real-{name}")
        if os.path.islink(path):
            os.unlink(path)
            if os.path.exists(real):
                os.rename(real, path)
        elif not os.path.exists(real):
            os.rename(path, real)
            os.symlink(self._random.choice((real, os.path.join(self._root, "a"))), path)
        return path

    def make_directories(self) -> str:
        """Those that exchanges and links have led elsewhere are made anew, so that there is always something to do."""
        for directory in DIRECTORIES:
            path = os.path.join(self._root, directory)
            if os.path.islink(path) and not os.path.exists(path):
                os.unlink(path)
            os.makedirs(path, exist_ok=True)
        return ""

    def make_or_remove_directory(self) -> str:
        path = os.path.join(self.directory(), f"n{self._random.randrange(2)}")
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.mkdir(path)
            self._write(os.path.join(path, "g"))
        return path


_ACTS: Final[tuple[Callable[[Actions], str], ...]] = (
    *(Actions.write_in_place,) * 2,
    *(Actions.rename_over,) * 2,
    *(Actions.map_and_store,) * 2,
    *(Actions.store_again,) * 3,
    Actions.append,
    Actions.truncate,
    Actions.rename_file,
    Actions.exchange_files,
    Actions.write_and_put_the_time_back,
    Actions.change_mode,
    Actions.remove,
    *(Actions.create,) * 4,
    *(Actions.make_directories,) * 2,
    Actions.link_nameless_file,
    Actions.unmap,
    Actions.link_hard,
    Actions.write_by_hard_link,
    Actions.link_file,
    Actions.write_target,
    Actions.exchange_directories,
    Actions.move_directory_away_and_back,
    Actions.link_directory,
    Actions.make_or_remove_directory,
)
