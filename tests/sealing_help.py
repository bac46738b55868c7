"""What the tests of seals share: a clock that is ahead, seals as questions use them, namespaces and images to mount."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import select
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Found, Reading
from provd.disk import IgnoreRules, files, lease, read_single, seal, seals
from provd.disk.epoch import Epoch, clock_watch
from provd.disk.files import coarse_clock
from provd.disk.job import ReadingJob
from provd.disk.mounts import mounted
from provd.disk.seals import Seals
from provd.filesystems import magic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LATER: Final = 10_000_000_000
"""Nanoseconds by which these tests are ahead of the files that they write."""
MOST: Final = 1 << 20
LONG: Final = 60.0
"""Seconds that no test waits for."""


def set_clock(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """Has all rules of age see this moment."""
    for module in (files, seal, seals):
        monkeypatch.setattr(module, "coarse_clock", lambda: moment)


def ahead() -> None:
    """The same for a process of our own, for good: what was written has rested for long."""
    set_clock(pytest.MonkeyPatch(), coarse_clock() + LATER)
    lease.ignore_lease_breaks()


def wall_clock_was_set(descriptor: int) -> None:
    """Has the descriptor of a `clock_watch` tell what it tells when somebody sets the clock."""
    long_ago = (ctypes.c_long * 4)(0, 0, 1, 0)
    assert ctypes.CDLL(None, use_errno=True).timerfd_settime(descriptor, 1, long_ago, None) == 0
    assert select.select([descriptor], [], [], LONG)[0]  # the timer's interrupt


def chain(*acts: Callable[[Any], object]) -> Callable[[Any], None]:
    """One act that is several, in order."""

    def act(scene: Any) -> None:
        for each in acts:
            each(scene)

    return act


class Sealed:
    """The seals of one daemon, and questions about single files."""

    def __init__(self, limit: int = seals.MAX_SEALS) -> None:
        self.clock = clock_watch()
        self.epoch = Epoch(clock=self.clock)
        self.seals = Seals(self.epoch, limit)

    def ask(self, path: bytes, algorithm: str = "sha256", *, by_seal: bool = True) -> Found:
        """One question, at once where that can be."""
        found = read_single(path, algorithm, MOST, self.seals.sealer(mounted()), by_seal=by_seal)
        return found or self.ask_by_job(path, algorithm=algorithm, by_seal=by_seal)[0]

    def ask_by_job(self, *paths: bytes, algorithm: str = "sha256", by_seal: bool = True) -> list[Found]:
        """One question about several files, or one, as workers answer it."""
        readings = [Reading(Kind.FILE, path, algorithm) for path in paths]
        table = mounted()
        job = ReadingJob(readings, IgnoreRules(), None, table, self.seals.sealer(table), by_seal=by_seal)
        job.run()
        return list(job.results().values())

    def has(self, path: bytes) -> bool:
        """Whether there is a seal of this moment."""
        return bool(self.seals.current()) and self.seals.get(path) is not None

    def close(self) -> None:
        """Lets go of the descriptors."""
        self.epoch.close()


def stores_are_seen_on_tmpfs(sealed: Sealed, directory: bytes) -> None:
    """There a mapping that reads before it stores moves no time, and the lease is granted: so nothing is sealed."""
    path = directory + b"/f"
    with open(path, "wb") as file:
        file.write(b"one")
    sealed.ask(path)
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    assert mapping[:3] == b"one"
    mapping[:3] = b"two"
    assert sealed.ask(path).digest == f"sha256:{hashlib.sha256(b'two').hexdigest()}"
    assert not sealed.has(path)
    mapping.close()


# fixtures


@pytest.fixture
def home() -> Iterator[bytes]:
    """A directory on a file system on which files may be sealed."""
    with tempfile.TemporaryDirectory(prefix="provd-test-") as made:
        path = os.fsencode(made)
        if magic(path) not in seal.SEALABLE:
            pytest.skip("nothing can be sealed here")
        yield path


@pytest.fixture
def sealed(lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sealed]:
    """Seals at a moment at which all that a test writes has rested for long."""
    del lease_breaks_ignored
    set_clock(monkeypatch, coarse_clock() + LATER)
    made = Sealed()
    yield made
    made.close()


@pytest.fixture
def at_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something happen once, right after the content of a file was read."""

    def plan(act: Callable[[], object]) -> None:
        real = files.read_whole

        def reading(descriptor: int, size: int) -> bytes:
            monkeypatch.setattr(files, "read_whole", real)
            content = real(descriptor, size)
            act()
            return content

        monkeypatch.setattr(files, "read_whole", reading)

    return plan


# namespaces and images


def may_mount() -> bool:
    """Whether this user may mount what he likes in a namespace of his own."""
    return (
        sys.platform == "linux"
        and os.geteuid() == 0
        and os.path.exists("/dev/loop-control")
        and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


def in_namespace(case: Callable[[bytes], None], home: bytes) -> None:
    """Calls a function of a test's module with a directory, in a process with a mount namespace of its own.

    There all that was written has rested for long.

    Skips the test where the case does (`skip`).
    """
    name = case.__module__
    here = os.path.dirname(__file__)
    paths = [os.path.dirname(sys.modules[name].__file__ or here), here, os.path.dirname(here), *sys.path]
    done = subprocess.run(
        [
            "unshare",
            "-m",
            sys.executable,
            "-c",
            f"import sealing_help, {name} as t; sealing_help.ahead(); t.{case.__name__}({home!r})",
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr[-3000:]


SKIPPED: Final = 77


def skip(why: str) -> None:
    """Ends the process of a case that cannot be told here."""
    sys.stdout.write(why)
    sys.stdout.flush()
    os._exit(SKIPPED)


def exchange(one: bytes, other: bytes) -> None:
    """Has two names change places at once; ends the case where they cannot."""
    if ctypes.CDLL(None).renameat2(-100, one, -100, other, 2) != 0:
        skip("names cannot be exchanged here")


_MAKERS: Final = {
    "ext4": (["mkfs.ext4", "-q", "-F"], 16),
    "seconds": (["mkfs.ext4", "-q", "-F", "-I", "128"], 16),
    "xfs": (["mkfs.xfs", "-q", "-f"], 320),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 128),
}
"""How each file system is made, and in how many MiB. `seconds` is an ext4 that stamps by the second."""


def image(kind: str, home: bytes, name: bytes = b"image") -> bytes:
    """A file with an empty file system in it; ends the case where it cannot be made."""
    maker, size = _MAKERS[kind]
    found = shutil.which(maker[0], path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if found is None:
        skip(f"there is no {maker[0]} here")
        raise AssertionError
    path = os.path.join(home, name)
    with open(path, "wb") as file:
        file.truncate(size << 20)
    made = subprocess.run([found, *maker[1:], path], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        skip(f"{maker[0]} fails here: {made.stderr[-200:]}")
    return path


def mount(*arguments: str | bytes) -> None:
    """What is called so on the command line; ends the case where it is refused."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip(f"mount is refused here: {done.stderr[-200:]}")


def unmount(path: bytes) -> None:
    """The same for its opposite."""
    subprocess.run(["umount", path], check=True)


@contextlib.contextmanager
def mounted_image(kind: str, home: bytes) -> Iterator[bytes]:
    """A directory on a new file system of this kind."""
    there = os.path.join(home, b"on-" + kind.encode())
    os.mkdir(there)
    mount("-o", "loop", image(kind, home, kind.encode()), there)
    try:
        yield there
    finally:
        unmount(there)
