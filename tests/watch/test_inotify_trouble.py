"""What cannot be watched, what is lost, and faults of the watcher itself: always told, never silence, never raised."""

from __future__ import annotations

import errno
import os
import resource
import select
import struct
from pathlib import Path

import pytest
from inotify_driving import Mirror, add, directories, disk, drain, mkdir, nothing_ignored, of, touched, watching, write

from provd.core.notice import Appeared, Covered, Lost, Notice, What
from provd.watch.slots import FOUND
from provd.watch.syscalls import ISDIR, MODIFY, Q_OVERFLOW, Kernel


class Refusing(Kernel):
    """A kernel that refuses watches: of some names, or when there are too many."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[bytes, int] = {}
        self.limit = 10**9
        self.watched: dict[int, int] = {}
        self.faults = 0

    def add(self, fd: int, path: bytes, mask: int, opened: int = -1) -> int:
        number = self.refused.get(os.path.basename(path))
        if number is not None:
            raise OSError(number, os.strerror(number), path)
        if self.faults:
            self.faults -= 1
            raise ValueError("a fault")
        inode = os.stat(path).st_ino
        if inode not in self.watched.values() and len(self.watched) >= self.limit:
            raise OSError(errno.ENOSPC, "no space", path)
        watch = super().add(fd, path, mask, opened)
        self.watched[watch] = inode
        return watch

    def remove(self, fd: int, watch: int) -> bool:
        self.watched.pop(watch, None)
        return super().remove(fd, watch)


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    path = os.fsencode(tmp_path / "root")
    mkdir(path + b"/d/e", path + b"/g")
    return path


def lost(told: list[Notice]) -> list[bytes]:
    return [each.path for each in told if isinstance(each, Lost)]


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "permission"),
        (errno.ENOMEM, "memory"),
        (errno.EIO, "Input/output error"),
        (errno.ENOSPC, "max_user_watches (now "),
    ],
)
def test_a_directory_that_cannot_be_watched_is_uncovered_with_what_helps(root: bytes, number: int, hint: str) -> None:
    kernel = Refusing()
    kernel.refused[b"d"] = number
    with watching(root, kernel=kernel) as watcher:
        (place,) = watcher.uncovered(root)
        assert place.path == root + b"/d"
        assert hint in place.why
        assert watcher.uncovered(root + b"/d/e/f") == [place]
        assert watcher.uncovered(root + b"/g") == []
        state = watcher.state(root)
        assert (state.state, state.coverage, state.uncovered) == ("degraded", "partial", (place,))
        kernel.refused.clear()
        watcher.check()
        told = drain(watcher)
        assert told[:2] == [Covered(root + b"/d", "whole"), Lost(root + b"/d", "it was not watched before")]
        assert [each.path for each in told if isinstance(each, Appeared)] == [root + b"/d", root + b"/d/e"]
        assert watcher.uncovered(root) == []


def test_the_first_hundred_uncovered_directories_are_named_and_all_others_counted(root: bytes) -> None:
    kernel = Refusing()
    kernel.refused[b"bad"] = errno.EACCES
    mkdir(*(root + b"/g/%d/bad" % number for number in range(300)))
    with watching(root, kernel=kernel) as watcher:
        state = watcher.state(root)
        assert (len(state.uncovered), state.more) == (100, 200)


def test_a_directory_that_waits_to_be_looked_at_is_uncovered_with_what_leads_to_it(root: bytes) -> None:
    with watching(root) as watcher:
        mkdir(root + b"/d/new/below")
        watcher.read()
        watcher.take(1)
        for path in (b"", b"/d", b"/d/new", b"/d/new/f", b"/d/new/below/f"):
            assert [each.path for each in watcher.uncovered(root + path)] == [root + b"/d/new"], path
        for path in (b"/g", b"/g/f", b"/d/e", b"/d/e/f", b"/d/f"):
            assert watcher.uncovered(root + path) == [], path
        drain(watcher)
        places = watcher._places
        node, _ = places.tree.find(root)
        assert node is not None
        places.work.ask(node, b"d", FOUND)  # a known directory, such as one that something was mounted over
        for path in (b"", b"/d", b"/d/f", b"/d/e", b"/d/e/f"):
            assert [each.path for each in watcher.uncovered(root + path)] == [root + b"/d"], path
        assert watcher.uncovered(root + b"/g/f") == []
        drain(watcher)
        assert watcher.uncovered(root) == []


def test_a_new_directory_that_cannot_be_watched_is_told_once(root: bytes) -> None:
    kernel = Refusing()
    kernel.refused[b"new"] = errno.EACCES
    with watching(root, kernel=kernel) as watcher:
        mkdir(root + b"/new")
        (covered,) = of(Covered, drain(watcher))
        assert isinstance(covered, Covered)
        assert (covered.path, covered.coverage) == (root + b"/new", "none")
        for _ in range(2):
            watcher.check()
            assert drain(watcher) == []
        kernel.refused.clear()
        os.chmod(root + b"/new", 0o700)
        assert Covered(root + b"/new", "whole") in drain(watcher)
        assert watcher.uncovered(root) == []


def test_an_uncovered_directory_keeps_being_uncovered_when_it_moves_and_not_when_it_goes(root: bytes) -> None:
    kernel = Refusing()
    kernel.refused |= {b"bad": errno.EACCES, b"worse": errno.EACCES}
    mkdir(root + b"/d/bad")
    with watching(root, kernel=kernel) as watcher:
        os.rename(root + b"/d", root + b"/moved")
        drain(watcher)
        assert [each.path for each in watcher.uncovered(root)] == [root + b"/moved/bad"]
        os.rename(root + b"/moved/bad", root + b"/worse")
        drain(watcher)
        assert [each.path for each in watcher.uncovered(root)] == [root + b"/worse"]
        os.rmdir(root + b"/worse")
        drain(watcher)
        assert watcher.uncovered(root) == []


def test_at_the_limit_of_watches_the_rest_is_uncovered_until_watches_are_given_up(root: bytes) -> None:
    kernel = Refusing()
    with watching(root, kernel=kernel) as watcher:
        kernel.limit = len(kernel.watched)
        mkdir(root + b"/x", root + b"/y")
        drain(watcher)
        assert {each.path for each in watcher.uncovered(root)} == {root + b"/x", root + b"/y"}
        outside = os.path.dirname(root) + b"/outside"
        os.rename(root + b"/d", outside)
        drain(watcher)
        assert watcher.uncovered(root) == []
        assert directories(watcher, root) == {root + b"/g", root + b"/x", root + b"/y"}
        mkdir(root + b"/z")
        drain(watcher)
        assert [each.path for each in watcher.uncovered(root)] == [root + b"/z"]
        kernel.limit += 1
        watcher.check()
        drain(watcher)
        assert watcher.uncovered(root) == []


def test_a_directory_above_a_root_that_cannot_be_watched_makes_the_root_prove_nothing(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "secret" / "root")
    mkdir(root + b"/d")
    kernel = Refusing()
    kernel.refused[b"secret"] = errno.EACCES
    with watching(root, kernel=kernel) as watcher:
        (place,) = watcher.uncovered(root + b"/d")
        assert place.path == root
        assert "secret" in place.why
        write(root + b"/d/f")
        assert touched(drain(watcher))[0] == (root + b"/d/f", What.CREATED)
        watcher.check()
        assert drain(watcher) == []
        kernel.refused.clear()
        watcher.check()
        assert Covered(root, "whole") in drain(watcher)
        assert watcher.uncovered(root) == []
        os.rename(tmp_path / "secret", tmp_path / "moved")
        assert root in lost(drain(watcher))


def test_a_root_that_cannot_be_watched_is_told_and_tried_again(root: bytes) -> None:
    kernel = Refusing()
    kernel.refused[b"root"] = errno.ENOSPC
    with watching(root, kernel=kernel) as watcher:
        state = watcher.state(root)
        assert (state.state, state.coverage) == ("degraded", "none")
        assert "max_user_watches" in state.uncovered[0].why
        kernel.refused.clear()
        watcher.check()
        assert Covered(root, "whole") in drain(watcher)
        assert watcher.uncovered(root) == []


def test_an_overflow_is_a_loss_of_all_roots_and_everything_is_found_again(root: bytes) -> None:
    other = os.path.dirname(root) + b"/other"
    mkdir(other)
    with watching(root, other) as watcher:
        mkdir(root + b"/unseen/below")
        os.rename(root + b"/d", root + b"/unseen/d")
        watcher.read()
        watcher._memory = type(watcher._memory)(watcher._kernel, watcher._fd)  # what was read is lost
        watcher._events._memory = watcher._memory
        watcher._memory.put(struct.pack("iIII", -1, Q_OVERFLOW, 0, 0))
        told = drain(watcher)
        assert set(lost(told)) == {root, other}
        expected = {path for path, status in disk(root).items() if status[0] == 0o040000}
        assert directories(watcher, root) == expected
        assert watcher.uncovered(root) == []


def test_an_event_of_an_unknown_watch_is_a_loss(root: bytes) -> None:
    with watching(root) as watcher:
        watcher._memory.put(struct.pack("iIII", 10**6, MODIFY | ISDIR, 0, 0))
        assert lost(drain(watcher)) == [root]
        assert watcher.uncovered(root) == []


def test_a_fault_of_the_watcher_is_a_loss_and_the_tree_is_made_anew(root: bytes) -> None:
    kernel = Refusing()
    with watching(root, kernel=kernel) as watcher:
        number = watcher.fileno()
        mirror = Mirror(root)
        kernel.faults = 1
        mkdir(root + b"/new/below")
        write(root + b"/new/below/f")
        told = drain(watcher)
        mirror.apply(told)
        assert "internal: ValueError: a fault" in str(of(Lost, told)[0])
        assert watcher.fileno() == number
        assert mirror.below(root) == disk(root)
        assert watcher.uncovered(root) == []
        write(root + b"/new/below/f")
        assert touched(drain(watcher)) == [(root + b"/new/below/f", What.MODIFIED)]


def test_a_fault_while_a_root_is_added_leaves_it_watched_in_the_end(root: bytes) -> None:
    kernel = Refusing()
    with watching(root, kernel=kernel) as watcher:
        other = os.path.dirname(root) + b"/other"
        mkdir(other + b"/d")
        kernel.faults = 1
        add(watcher, other)
        drain(watcher)
        assert watcher.uncovered(other) == []
        assert watcher.state(other).state == "watching"


def test_a_tree_that_a_fault_has_ended_takes_in_no_root(root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Refusing()
    with watching(root, kernel=kernel) as watcher:
        other = os.path.dirname(root) + b"/other"
        mkdir(other + b"/d/e")
        adding = watcher.add(other, nothing_ignored)
        next(adding)
        ended = watcher._places
        kernel.faults = 1
        mkdir(root + b"/new")
        assert lost(drain(watcher))[0] == root
        monkeypatch.setattr(ended, "step", lambda *_: pytest.fail("its descriptor may be another one by now"))
        assert list(adding) == []
        drain(watcher)
        assert directories(watcher, other) == {other + b"/d", other + b"/d/e"}
        assert watcher.uncovered(other) == []


@pytest.mark.parametrize("call", ["add", "remove", "check", "read"])
def test_no_call_raises_whatever_fails_within(root: bytes, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with watching(root) as watcher:
        name = {"add": "begin", "remove": "end", "check": "check_roots", "read": "read"}[call]
        monkeypatch.setattr(watcher._memory if call == "read" else watcher._places, name, fail)
        match call:
            case "add":
                add(watcher, root)
            case "remove":
                watcher.remove(root)
            case "read":
                assert watcher.read() == 0
            case _:
                watcher.check()
        assert lost(drain(watcher)) == [root]


def test_work_that_no_event_calls_for_makes_the_descriptor_readable(root: bytes) -> None:
    with watching(root) as watcher:
        poll = select.poll()
        poll.register(watcher.fileno(), select.POLLIN)
        assert poll.poll(0) == []
        watcher._memory.put(struct.pack("iIII", -1, Q_OVERFLOW, 0, 0))
        watcher.take(1)
        watcher.check()
        assert poll.poll(0) != []
        drain(watcher)
        assert poll.poll(0) == []
        write(root + b"/f")
        assert poll.poll(0) != []


def test_a_silent_verification_of_many_directories_comes_back_in_between(root: bytes) -> None:
    mkdir(*(root + b"/%d" % index for index in range(1500)))
    with watching(root) as watcher:
        watcher._memory.put(struct.pack("iIII", -1, Q_OVERFLOW, 0, 0))
        assert lost(watcher.take(512)) == [root]
        assert watcher.take(512) == []
        assert watcher.busy
        assert watcher.uncovered(root) != []
        assert drain(watcher) == []
        assert watcher.uncovered(root) == []


@pytest.mark.parametrize("free", range(5))
def test_without_descriptors_new_directories_are_uncovered_and_watched_when_there_are_some(
    root: bytes, free: int
) -> None:
    """Each number of free ones lets another call fail: looking at the parent, opening, listing."""
    with watching(root) as watcher:
        mkdir(root + b"/d/new/a/b", root + b"/other/c")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = [os.open(root, os.O_RDONLY) for _ in range(free)]
        top = os.open(root, os.O_RDONLY)
        os.close(top)
        for fd in spare:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (top, limits[1]))
        try:
            drain(watcher)
            here = {each.path for each in watcher.uncovered(root)}
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert here or free > 2
        watcher.check()
        drain(watcher)
        assert watcher.uncovered(root) == []
        assert directories(watcher, root) == {path for path, *_ in os.walk(root)} - {root}
        write(root + b"/d/new/a/b/f")
        assert root + b"/d/new/a/b/f" in {each.path for each in drain(watcher)}


def test_what_cannot_be_opened_is_left_out_where_a_rule_says_so(root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.open

    def closed(path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == b"g" and dir_fd is not None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return usual(path, flags, mode, dir_fd=dir_fd)

    def ignored(path: bytes, is_dir: bool) -> bool:
        return is_dir and path == root + b"/g"

    with watching() as watcher:
        monkeypatch.setattr(os, "open", closed)
        add(watcher, root)
        before = watcher.state(root)
        add(watcher, root, ignored)
        left_out = watcher.state(root)
        silence = watcher.uncovered(root + b"/g/file")
        add(watcher, root)
        drain(watcher)
        after = watcher.state(root)

    assert [(before.coverage, place.path) for place in before.uncovered] == [("partial", root + b"/g")]
    assert (left_out.coverage, left_out.uncovered) == ("whole", ())
    assert [place.why for place in silence] == ["ignored"]
    assert after == before
