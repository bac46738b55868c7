"""Whatever is done to the trees, in whatever order events are read: the notices tell all of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inotify_driving import Mirror, Status, add, directories, disk, drain, exchange, named, write

from provd.core.notice import Notice
from provd.watch.inotify import InotifyWatcher

NAMES = [b"a", b"b", b"c"]
TOPS = [b"one", b"one", b"two", b"out"]
_PARTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
_PLACES = st.builds(lambda top, parts: b"/".join([top, *parts]), st.sampled_from(TOPS), _PARTS)
_KINDS = ["mkdir", "mkdirs", "rmdir", "write", "unlink", "rename", "rename", "exchange", "rmtree"]
Action = tuple[str, bytes, bytes]
_ACTIONS = st.one_of(
    st.tuples(st.sampled_from(_KINDS), _PLACES, _PLACES),
    st.tuples(st.sampled_from(["read", "press", "take", "take few", "drain"]), st.just(b""), st.just(b"")),
)


def act(kind: str, path: bytes, other: bytes) -> None:
    with contextlib.suppress(OSError):
        match kind:
            case "mkdir":
                os.mkdir(path)
            case "mkdirs":
                os.makedirs(path)
            case "rmdir":
                os.rmdir(path)
            case "write":
                write(path)
            case "unlink":
                os.unlink(path)
            case "rename":
                os.rename(path, other)
            case "exchange":
                exchange(path, other)
            case "rmtree":
                shutil.rmtree(path)
            case _:
                raise AssertionError(kind)


class Run:
    """Two watched trees, one beside them that is not, and what is known of them."""

    def __init__(self, home: bytes) -> None:
        self.home = home
        self.roots = [os.path.join(home, name) for name in (b"one", b"two")]
        for name in (b"one", b"two", b"out"):
            os.makedirs(os.path.join(home, name, b"a", b"b"))
            write(os.path.join(home, name, b"a", b"f"))
        self.watcher = InotifyWatcher()
        for root in self.roots:
            add(self.watcher, root)
        drain(self.watcher)
        self.mirror = Mirror(*self.roots)
        self.before = self.now()
        self.told: list[Notice] = []

    def now(self) -> dict[bytes, Status]:
        return {path: status for root in self.roots for path, status in disk(root).items()}

    def step(self, kind: str, path: bytes, other: bytes) -> None:
        match kind:
            case "read":
                self.watcher.read()
            case "press":
                self.watcher.read()
                self.watcher.pressing()
            case "take" | "take few":
                self.hear(self.watcher.take(512 if kind == "take" else 1))
            case "drain":
                self.settle()
            case _:
                act(kind, os.path.join(self.home, path), os.path.join(self.home, other))

    def hear(self, told: list[Notice]) -> None:
        self.mirror.apply(told)
        self.told += told

    def settle(self, *, exactly: bool = True) -> None:
        """Everything that was done was told."""
        self.hear(drain(self.watcher))
        after = self.now()
        for root in self.roots:
            assert directories(self.watcher, root) == {p for p, s in disk(root).items() if s[0] == 0o040000}
            assert self.watcher.uncovered(root) == []
        assert self.mirror.known == after
        for path in self.before.keys() | after.keys():
            if exactly and self.before.get(path) != after.get(path):
                assert named(path, self.told), path
        assert self.mirror.lost == []
        self.before, self.told = after, []


@contextlib.contextmanager
def running() -> Iterator[Run]:
    home = os.fsencode(os.path.realpath(tempfile.mkdtemp(prefix="provd-model-")))
    try:
        run = Run(home)
        try:
            yield run
        finally:
            run.watcher.close()
    finally:
        shutil.rmtree(home)


def some_place(random: Random) -> bytes:
    return b"/".join([random.choice(TOPS), *(random.choice(NAMES) for _ in range(random.randint(1, 4)))])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_ACTIONS, max_size=40))
def test_after_any_operations_the_tree_and_what_was_told_are_what_the_disk_holds(actions: list[Action]) -> None:
    with running() as run:
        for action in actions:
            run.step(*action)
        run.settle()
        places = run.watcher._places
        assert places.parked == {}
        below = sum(len(directories(run.watcher, root)) for root in run.roots)
        assert len(places.tree.nodes) == below + len(run.roots) + len(run.home.split(b"/"))


@pytest.mark.parametrize("seed", range(30))
def test_after_many_operations_the_tree_and_what_was_told_are_what_the_disk_holds(seed: int) -> None:
    random = Random(seed)
    with running() as run:
        for _ in range(200):
            kind = random.choice([*_KINDS, *_KINDS, "read", "press", "take", "take few", "take few", "drain"])
            run.step(kind, some_place(random), some_place(random))
        run.settle()


@pytest.mark.parametrize("seed", range(5))
def test_while_another_process_changes_everything_nothing_is_missed(seed: int) -> None:
    """What that process does meets each step of the watcher at any point; what is left at its end must be known."""
    random = Random(seed)
    with running() as run:
        program = [sys.executable, __file__, os.fsdecode(run.home), str(seed)]
        with subprocess.Popen(program) as writer:
            while writer.poll() is None:
                if random.random() < 0.7:
                    run.watcher.read()
                if random.random() < 0.3:
                    run.watcher.pressing()
                if random.random() < 0.7:
                    run.mirror.apply(run.watcher.take(random.choice([1, 20, 512])))
        assert writer.returncode == 0
        run.settle(exactly=False)


def _work(home: bytes, random: Random) -> None:
    for _ in range(1500):
        act(random.choice(_KINDS), os.path.join(home, some_place(random)), os.path.join(home, some_place(random)))


if __name__ == "__main__":
    _work(os.fsencode(sys.argv[1]), Random(int(sys.argv[2])))
