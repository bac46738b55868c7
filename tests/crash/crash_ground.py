"""Where a world lies: a directory, or a file system of its own in a loop device that can lose its power.

A device loses it in one of two ways. `shutdown`: the file system takes nothing any more and its journal is not
flushed (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN); the same device is mounted again. `copy`: the file behind the device is
cloned, while everybody goes on and nothing is synced, and the clone is mounted in its place. It is one reflink, so that
it is a moment and not a smear over many.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from oracle_place import reflink

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHUTDOWN: Final = 0x8004587D  # _IOR('X', 125, __u32)
_WITHOUT_FLUSH: Final = 2
MAKERS: Final = {"ext4": (["mkfs.ext4", "-q", "-F"], 96), "xfs": (["mkfs.xfs", "-q", "-f"], 320)}
"""How each is made, and in how many MiB."""
_OUTER: Final = 1600
WAYS: Final = ("shutdown", "copy")


class Ground:
    """A directory that loses nothing when a process dies."""

    kind = "directory"
    ways: tuple[str, ...] = ("kill", "point")

    def __init__(self, path: str) -> None:
        self.path = path

    def sync(self) -> None:
        """What is there now is durable."""

    def back(self) -> None:
        """After the crash: what is there is seen again."""


class Device(Ground):
    """A file system in a loop device, mounted at `path`."""

    ways = WAYS

    def __init__(self, kind: str, base: str) -> None:
        super().__init__(os.path.join(base, "there"))
        self.kind = kind
        self._outer = os.path.join(base, "outer")
        self._number = 0
        self._device = ""
        self._moment = ""
        """The file of a clone that is to be mounted next."""

    @contextlib.contextmanager
    def made(self) -> Iterator[Device]:
        """Makes all of it, and takes it away again. Raises subprocess.CalledProcessError where that is refused."""
        os.mkdir(self.path)
        os.mkdir(self._outer)
        outer = self._outer + ".img"
        _make(["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], _OUTER, outer)
        _run("mount", "-o", "loop", outer, self._outer)
        try:
            maker, size = MAKERS[self.kind]
            _make(maker, size, self._file)
            self._attach()
            try:
                yield self
            finally:
                self._detach()
        finally:
            _run("umount", "-l", self._outer)

    @property
    def _file(self) -> str:
        return os.path.join(self._outer, f"{self._number}.img")

    def sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            ctypes.CDLL(None).syncfs(descriptor)
        finally:
            os.close(descriptor)

    def lose_power(self, way: str) -> None:
        """The crash itself, at this moment, under whoever is at work."""
        if way == "shutdown":
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
            finally:
                os.close(descriptor)
            return
        self._moment = os.path.join(self._outer, f"{self._number + 1}.img")
        source, target = os.open(self._file, os.O_RDONLY), os.open(self._moment, os.O_WRONLY | os.O_CREAT)
        try:
            reflink(source, target)
        finally:
            os.close(source)
            os.close(target)

    def back(self) -> None:
        if not self._moment:
            _run("umount", self.path)
            _run("mount", self._device, self.path)
            return
        self._detach()
        os.unlink(self._file)
        self._number += 1
        self._moment = ""
        self._attach()

    def _attach(self) -> None:
        self._device = _run("losetup", "-f", "--show", self._file).strip()
        try:
            _run("mount", self._device, self.path)
        except subprocess.CalledProcessError:
            _run("losetup", "-d", self._device)
            raise

    def _detach(self) -> None:
        _run("umount", self.path)
        _run("losetup", "-d", self._device)


@contextlib.contextmanager
def new_device(kind: str, directory: str) -> Iterator[Device]:
    """A device of this kind whose files lie in a new directory below `directory`."""
    base = tempfile.mkdtemp(prefix="provd-", dir=directory)
    try:
        with Device(kind, base).made() as device:
            yield device
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextlib.contextmanager
def new_directory(directory: str) -> Iterator[Ground]:
    """A directory below `directory`."""
    base = tempfile.mkdtemp(prefix="provd-", dir=directory)
    try:
        yield Ground(os.path.realpath(base))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _make(maker: list[str], size: int, path: str) -> None:
    with open(path, "wb") as file:
        file.truncate(size << 20)
    _run(*maker, path)


def _run(*command: str) -> str:
    path = os.environ.get("PATH", "") + ":/sbin:/usr/sbin"
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    return done.stdout
