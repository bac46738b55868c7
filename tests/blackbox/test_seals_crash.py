"""A file system that goes down without writing its journal, as by a power cut, and is mounted again: another past.

What was written last may be gone then, under stamps that may be the same. A verdict after that must be what reading
would say, whatever was sealed before. While it is down nothing can be read, but what was not written since is still
what it was; a verdict then is compared with the last that could be read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import subprocess
from collections.abc import Callable, Iterator

import pytest
from sealing_help import image, in_namespace, may_mount, mount, skip, unmount
from support import Daemon, Workspace
from test_seals_blackbox import comes_to_be_sealed

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN: _IOR('X', 125, __u32)
_WITHOUT_FLUSH = 2
_FILES = 14


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return os.fsencode(tmp_path_factory.mktemp("crash"))


class NoShutdownError(Exception):
    """The file system knows no such call: the case ends, when what it began has been cleared away."""


def _goes_down(root: bytes) -> None:
    """The file system under `root` takes nothing any more, and what its journal had not written is lost."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
    except OSError as error:
        raise NoShutdownError(str(error)) from error
    finally:
        os.close(descriptor)


def _content(path: bytes) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


class _Oracle:
    """What each file was when its entry was put."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self.known: dict[str, bytes | None] = {}

    def put(self, name: str) -> None:
        content = _content(self.ws.path(name))
        self.ws("entry.put", key=name, value="v", deps=[_dependency(name, content)])
        self.known[name] = content

    def readable(self) -> dict[str, bytes | None]:
        """What a reading of each file says now."""
        return {name: _content(self.ws.path(name)) for name in self.known}

    def judge(self, there: dict[str, bytes | None], *, reachable: bool) -> None:
        """Compares all verdicts, however asked for, with what is `there`. Raises AssertionError."""
        for verify in ("auto", "content", "log"):
            verdicts = self.ws("entry.check", keys=list(self.known), verify=verify, timeout_ms=20_000)["verdicts"]
            for name, content in self.known.items():
                verdict, now = verdicts[name]["verdict"], there[name]
                assert verdict != "fresh" or now == content, (name, verify, verdicts[name])
                if reachable and verify != "log":
                    assert verdict == ("fresh" if now == content else "dirty"), (name, verify, verdicts[name])


@contextlib.contextmanager
def _device(kind: str, home: bytes) -> Iterator[str]:
    """A block device with a new file system of this kind, that outlives its mounts."""
    made = subprocess.run(["losetup", "-f", "--show", image(kind, home)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        skip(f"there is no loop device: {made.stderr}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def _dependency(name: str, content: bytes | None) -> dict[str, str | None]:
    digest = "absent" if content is None else "sha256:" + hashlib.sha256(content).hexdigest()
    return {"dep": f"file:{name}", "digest": digest}


def _write(path: bytes, content: bytes, mode: str = "r+b") -> None:
    with open(path, mode) as file:
        file.write(content)


def _crash(home: bytes, kind: str, *, away: bool) -> None:
    """The case, told as skipped where the file system cannot be shut down."""
    try:
        _crashes(home, kind, away=away)
    except NoShutdownError as error:
        skip(f"the file system cannot be shut down here: {error}")


def _crashes(home: bytes, kind: str, *, away: bool) -> None:
    """Fourteen files: some changed in place, replaced, removed or made, just before all of that is lost.

    `away`: the daemon is killed at the crash, and started again when the file system is back.
    """
    with _device(kind, home) as device:
        there = os.path.join(home, b"there")
        os.mkdir(there)
        mount(device, there)
        daemon = Daemon(home=os.fsdecode(home) + "/provd", roots=[os.fsdecode(there)])
        try:
            _before(daemon, there)
            ws = Workspace(daemon, os.fsdecode(there), "")
            oracle = _Oracle(ws)
            for number in range(_FILES):
                oracle.put(f"f{number}")
            comes_to_be_sealed(ws, *(f"f{number}" for number in range(_FILES) if number != 12))
            _changes(ws, oracle)
            last = oracle.readable()
            _goes_down(there)
            if away:
                daemon.kill9()
            else:
                oracle.judge(last, reachable=False)
                daemon.disconnect()
            unmount(there)
            mount(device, there)
            if away:
                daemon.start().scanned()
            now = oracle.readable()
            assert now not in (last, oracle.known), "nothing was lost"
            oracle.judge(now, reachable=True)
            oracle.judge(now, reachable=True)  # by what the first questions left, too
        finally:
            daemon.close()
            unmount(there)


def _before(daemon: Daemon, there: bytes) -> None:
    for number in range(_FILES):
        if number != 12:
            _write(there + b"/f%d" % number, b"before %d\n" % number * (1 + 700 * number), "wb")
    os.sync()
    daemon.start().scanned()


def _changes(ws: Workspace, oracle: _Oracle) -> None:
    """In place, longer, shorter, by rename, gone, new: half with an entry on what is new, which is sealed as well."""
    for number in (0, 1):
        _write(ws.path(f"f{number}"), b"AFTER")
    for number in (2, 3):
        _write(ws.path(f"f{number}"), b"longer" * 5000, "ab")
    for number in (4, 5):
        os.truncate(ws.path(f"f{number}"), 3)
    for number in (6, 7):
        _write(ws.path("other"), b"another file\n", "wb")
        os.rename(ws.path("other"), ws.path(f"f{number}"))
    for number in (8, 9):
        os.remove(ws.path(f"f{number}"))
    _write(ws.path("f12"), b"made\n", "wb")
    for number in (0, 2, 4, 6, 8, 12):
        oracle.put(f"f{number}")
    comes_to_be_sealed(ws, "f0", "f2", "f4", "f6", "f12")
    with open(ws.path("f13"), "r+b") as file:  # its journal is written, and with it stamps of others, not their content
        file.write(b"B")
        os.fsync(file.fileno())
    _write(ws.path("f0"), b"LATER")
    _write(ws.path("f1"), b"LATER")


def ext4_stays(home: bytes) -> None:
    _crash(home, "ext4", away=False)


def ext4_away(home: bytes) -> None:
    _crash(home, "ext4", away=True)


def xfs_stays(home: bytes) -> None:
    _crash(home, "xfs", away=False)


def xfs_away(home: bytes) -> None:
    _crash(home, "xfs", away=True)


def btrfs_stays(home: bytes) -> None:
    _crash(home, "btrfs", away=False)


@pytest.mark.parametrize(
    "case", [ext4_stays, ext4_away, xfs_stays, xfs_away, btrfs_stays], ids=lambda case: case.__name__
)
def test_a_crash_is_judged_by_what_is_there_after_it(case: Callable[[bytes], None], home: bytes) -> None:
    in_namespace(case, home)
