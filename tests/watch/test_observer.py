"""Watching through watchdog: what it tells as notices, and what it would keep to itself."""

from __future__ import annotations

import errno
import os
import select
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support import HANG
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Scan, Touched, What
from provd.watch.inbox import Inbox
from provd.watch.observer import SILENCE, ObserverWatcher
from provd.watch.observing import OVERFLOW, Item, Observing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


def nothing(_path: bytes, _is_dir: bool) -> bool:
    return False


class Bench:
    """A watcher on real threads of watchdog, and all that it told."""

    def __init__(self, make: Callable[[], BaseObserver] = Observer) -> None:
        self.inbox: Inbox[Item] = Inbox()
        self.observing = Observing(self.inbox, make)
        self.watcher = ObserverWatcher(self.inbox, self.observing)
        self.told: list[Notice] = []

    def pump(self) -> None:
        """Takes what there is."""
        self.watcher.read()
        while some := self.watcher.take(3):
            self.told += some

    def until(self, holds: Callable[[], bool]) -> None:
        """Takes what watchdog tells until something holds."""
        poll = select.poll()
        poll.register(self.watcher.fileno(), select.POLLIN)
        self.pump()
        while not holds():
            assert poll.poll(1000 * HANG), f"nothing more was told: {self.told}"
            self.pump()

    def until_told(self, *notices: Notice) -> None:
        self.until(lambda: all(notice in self.told for notice in notices))

    def watch(self, root: bytes, ignored: Callable[[bytes, bool], bool] = nothing) -> None:
        """Adds a root and waits until it is watched."""
        list(self.watcher.add(root, ignored))
        self.until(lambda: self.watcher.state(root).state != "scanning")


@contextmanager
def bench(make: Callable[[], BaseObserver] = Observer) -> Iterator[Bench]:
    made = Bench(make)
    try:
        yield made
    finally:
        made.watcher.close()


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    path = tmp_path / "root"
    path.mkdir()
    return os.fsencode(path)


def write(path: bytes, content: bytes = b"x") -> None:
    with open(path, "wb") as f:
        f.write(content)


# what happens


def test_every_kind_of_change_to_a_file_is_told(root: bytes, tmp_path: Path) -> None:
    name, other = root + b"/name", root + b"/other"
    with bench() as b:
        b.watch(root)
        write(name)
        b.until_told(Touched(name, What.CREATED), Touched(name, What.MODIFIED))
        os.chmod(name, 0o600)
        b.until_told(Touched(name, What.ATTRIB))
        os.rename(name, other)
        b.until_told(Moved(name, other))
        os.unlink(other)
        b.until_told(Touched(other, What.DELETED))


def test_reading_and_opening_are_no_changes(root: bytes) -> None:
    write(root + b"/read")
    with bench() as b:
        b.watch(root)
        with open(root + b"/read", "rb") as f:
            f.read()
        write(root + b"/end")
        b.until_told(Touched(root + b"/end", What.CREATED))
        assert not [n for n in b.told if isinstance(n, Touched) and n.path != root + b"/end"]


def test_a_directory_that_came_is_to_be_listed_and_one_that_moved_is_told_once(root: bytes) -> None:
    one, other = root + b"/one", root + b"/other"
    with bench() as b:
        b.watch(root)
        os.makedirs(one + b"/deep")
        write(one + b"/deep/file")
        b.until_told(Touched(one, What.CREATED, True), Appeared(one), Appeared(one + b"/deep"))
        os.rename(one, other)
        b.until_told(Moved(one, other, True))
        write(other + b"/deep/later")
        b.until_told(Touched(other + b"/deep/later", What.CREATED))
        assert [n for n in b.told if isinstance(n, Moved)] == [Moved(one, other, True)]


def test_names_that_are_no_text_are_told_as_they_are(root: bytes) -> None:
    name = root + b"/\xff\xfe name"
    with bench() as b:
        b.watch(root)
        write(name)
        b.until_told(Touched(name, What.CREATED))


def test_a_root_whose_own_name_is_no_text_is_watched(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/\xe4"
    os.mkdir(root)
    with bench() as b:
        b.watch(root)
        write(root + b"/file")
        b.until_told(Touched(root + b"/file", What.CREATED))


# ignored places, roots in roots


def test_ignored_places_are_left_out_and_what_crosses_their_border_comes_or_goes(root: bytes) -> None:
    def ignored(path: bytes, is_dir: bool) -> bool:
        return is_dir and path.endswith(b"/.git")

    os.makedirs(root + b"/.git/objects")
    write(root + b"/out")
    with bench() as b:
        b.watch(root, ignored)
        write(root + b"/.git/objects/x")
        os.rename(root + b"/.git/objects/x", root + b"/in")
        os.rename(root + b"/out", root + b"/.git/out")
        b.until_told(Touched(root + b"/in", What.CREATED), Touched(root + b"/out", What.DELETED))
        assert not any(b"/.git" in n.path for n in b.told)


def test_new_rules_hold_from_the_moment_they_are_given(root: bytes) -> None:
    with bench() as b:
        b.watch(root)
        list(b.watcher.add(root, lambda path, _is_dir: path.endswith(b".o")))
        write(root + b"/a.o")
        write(root + b"/a.c")
        b.until_told(Touched(root + b"/a.c", What.CREATED))
        assert Touched(root + b"/a.o", What.CREATED) not in b.told
        assert b.told.count(Scan(root)) == 1


def test_a_root_in_a_root_is_told_of_once_and_watched_where_the_outer_one_ignores_it(root: bytes) -> None:
    inner = root + b"/ignored/inner"
    os.makedirs(inner)
    with bench() as b:
        b.watch(root, lambda path, _is_dir: path.endswith(b"/ignored"))
        b.watch(inner)
        write(inner + b"/file")
        write(root + b"/end")
        b.until_told(Touched(inner + b"/file", What.CREATED), Touched(root + b"/end", What.CREATED))
        assert b.told.count(Touched(inner + b"/file", What.CREATED)) == 1
        b.watcher.remove(inner)
        b.told.clear()
        write(inner + b"/later")
        write(root + b"/end2")
        b.until_told(Touched(root + b"/end2", What.CREATED))
        assert Touched(inner + b"/later", What.CREATED) not in b.told


def test_nothing_is_told_of_a_root_that_was_removed(root: bytes, tmp_path: Path) -> None:
    other = os.fsencode(tmp_path / "other")
    os.mkdir(other)
    with bench() as b:
        b.watch(root)
        b.watch(other)
        write(root + b"/file")  # what is on its way when the root is removed is dropped too
        b.watcher.remove(root)
        b.told.clear()
        write(other + b"/file")
        b.until_told(Touched(other + b"/file", What.CREATED))
        assert all(n.path.startswith(other) for n in b.told if isinstance(n, Touched))


# coverage


def test_its_silence_never_proves_anything(root: bytes) -> None:
    with bench() as b:
        b.watch(root)
        assert b.told == [Covered(root, "partial", SILENCE), Scan(root)]
        assert [u.why for u in b.watcher.uncovered(root + b"/file")] == [SILENCE]
        state = b.watcher.state(root)
        assert (state.backend, state.state, state.coverage) == ("watchdog", "watching", "partial")
        assert b.watcher.uncovered(b"/elsewhere")[0].path == b"/elsewhere"


def test_until_watchdog_has_begun_nothing_is_covered(root: bytes) -> None:
    gate = threading.Event()

    def make() -> BaseObserver:
        gate.wait()
        return Observer()

    with bench(make) as b:
        list(b.watcher.add(root, nothing))  # it does not block
        assert (b.watcher.state(root).state, b.watcher.state(root).coverage) == ("scanning", "none")
        gate.set()
        b.until_told(Covered(root, "partial", SILENCE), Scan(root))


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "max_user_watches"), (errno.EMFILE, "max_user_instances"), (errno.EACCES, "no permission")],
)
def test_where_watchdog_cannot_begin_the_root_is_uncovered_with_the_reason_and_tried_again(
    root: bytes, number: int, said: str
) -> None:
    failing = True

    def make() -> BaseObserver:
        if failing:
            raise OSError(number, os.strerror(number))
        return Observer()

    with bench(make) as b:
        b.watch(root)
        state = b.watcher.state(root)
        assert (state.state, state.coverage) == ("degraded", "none")
        assert said in state.uncovered[0].why
        assert b.told == [Covered(root, "none", state.uncovered[0].why)]
        failing = False
        b.watcher.check()
        b.until_told(Covered(root, "partial", SILENCE), Scan(root))


def test_a_root_that_is_not_there_is_uncovered_and_no_error(root: bytes) -> None:
    with bench() as b:
        b.watch(root + b"/missing")
        assert b.watcher.state(root + b"/missing").coverage == "none"


def test_a_directory_that_watchdog_could_not_watch_is_named(root: bytes) -> None:
    os.mkdir(root + b"/closed")

    def make() -> BaseObserver:
        observer: Any = Observer()
        add = observer._inotify_fd.add_callback

        def refuse(path: bytes, *more: Any) -> int:
            if path.endswith(b"/closed"):
                raise OSError(errno.ENOSPC, "no more watches")
            watched: int = add(path, *more)
            return watched

        observer._inotify_fd.add_callback = refuse
        made: BaseObserver = observer
        return made

    with bench(make) as b:
        b.watch(root)
        state = b.watcher.state(root)
        assert (state.state, state.coverage) == ("degraded", "partial")
        assert [(u.path, "max_user_watches" in u.why) for u in state.uncovered[1:]] == [(root + b"/closed", True)]
        assert any(isinstance(n, Covered) and n.path == root + b"/closed" and n.coverage == "none" for n in b.told)
        b.watch(root, lambda path, is_dir: is_dir and path == root + b"/closed")
        assert (b.watcher.state(root).state, b.watcher.state(root).uncovered[1:]) == ("watching", ())


# losses


def test_an_overflow_of_the_kernels_queue_is_a_loss_of_every_root(root: bytes, tmp_path: Path) -> None:
    other = os.fsencode(tmp_path / "other")
    os.mkdir(other)
    with bench() as b:
        b.watch(root)
        b.watch(other)
        reader: Any = b.observing._observer._inotify_fd  # type: ignore[union-attr]
        reader.handle_event(SimpleNamespace(is_queue_overflow=True))
        b.until_told(Lost(root, OVERFLOW), Lost(other, OVERFLOW))


def test_events_that_nobody_took_are_a_loss_and_memory_is_bounded(root: bytes) -> None:
    inbox: Inbox[Item] = Inbox(most=2)
    watcher = ObserverWatcher(inbox, _Idle())  # type: ignore[arg-type]
    list(watcher.add(root, nothing))
    for _ in range(9):
        inbox.put(Lost(root, "one"))
    watcher.read()
    told = watcher.take(99)
    assert told[:2] == [Lost(root, "one")] * 2
    assert [type(n) for n in told[2:]] == [Lost]
    watcher.close()


class _Idle:
    """The threads of watchdog, which do nothing."""

    def __getattr__(self, _name: str) -> Callable[..., bool]:
        return lambda *_: True


def end_the_thread_that_serves_all(b: Bench) -> None:
    """Puts something in its queue that is no event."""
    observer = b.observing._observer
    assert observer is not None
    observer.event_queue.put("no event")
    observer.join()


@pytest.fixture
def _quiet_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.mark.usefixtures("_quiet_threads")
def test_a_thread_of_watchdog_that_died_is_a_loss_and_is_started_again(root: bytes) -> None:
    with bench() as b:
        b.watch(root)
        end_the_thread_that_serves_all(b)
        b.pump()
        b.pump()  # it is told once
        assert [type(n) for n in b.told[2:]] == [Lost, Covered]
        assert b.watcher.state(root).coverage == "none"
        b.told.clear()
        b.watcher.check()
        b.until_told(Covered(root, "partial", SILENCE), Scan(root))
        write(root + b"/file")
        b.until_told(Touched(root + b"/file", What.CREATED))


@pytest.mark.usefixtures("_quiet_threads")
def test_a_dead_thread_is_found_without_a_question(root: bytes) -> None:
    with bench() as b:
        b.watch(root)
        end_the_thread_that_serves_all(b)
        b.watcher.check()
        b.until(lambda: b.told.count(Scan(root)) == 2)
        assert [type(n) for n in b.told] == [Covered, Scan, Lost, Covered, Covered, Scan]


def test_the_thread_of_one_root_that_ends_is_a_loss_of_that_root(root: bytes, tmp_path: Path) -> None:
    other = os.fsencode(tmp_path / "other")
    os.mkdir(other)
    with bench() as b:
        b.watch(root)
        b.watch(other)
        os.rmdir(root)  # watchdog gives up a root that was deleted
        b.until(lambda: any(isinstance(n, Lost) and n.path == root for n in b.told))
        assert b.watcher.state(root).coverage == "none"
        assert b.watcher.state(other).coverage == "partial"


def test_a_root_that_came_back_is_watched_anew(root: bytes) -> None:
    with bench() as b:
        b.watch(root)
        identity = (os.stat(root).st_dev, os.stat(root).st_ino)
        assert b.watcher.looked(root, identity)
        assert not b.watcher.looked(root, "the directory is gone")
        b.pump()
        assert b.watcher.state(root).state == "gone"
        assert b.told[2:] == [
            Lost(root, "the directory is gone"),
            Covered(root, "none", "the directory is gone"),
        ]
        b.told.clear()
        assert b.watcher.looked(root, identity)
        b.until_told(Covered(root, "partial", SILENCE), Scan(root))
