"""The fleet: which watcher a root is given to, who answers for a path, and what is told where none can be had."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from provd.core.notice import Covered, Lost, Notice, Touched, What
from provd.watch.base import Ignored, RootState, Uncovered
from provd.watch.fleet import Choice, Fleet
from provd.watch.nesting import Nesting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.watch.base import Watcher

REMOTE = "nfs4 is changed by other machines too, and nobody tells this one"
FOLDING = "it finds names in either case"


def nothing(_path: bytes, _is_dir: bool) -> bool:
    return False


class Scripted:
    """A watcher that covers its roots wholly and tells what a test gives it."""

    def __init__(self, backend: str, fd: int = 7) -> None:
        self.backend = backend
        self.fd = fd
        self.roots: dict[bytes, Ignored] = {}
        self.notices: list[Notice] = []
        self.checked: list[bool] = []
        self.closed = False
        self.gone: set[bytes] = set()

    def fileno(self) -> int:
        return self.fd

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        self.roots[root] = ignored
        yield

    def remove(self, root: bytes) -> None:
        del self.roots[root]

    def read(self) -> int:
        return len(self.notices)

    def take(self, limit: int) -> list[Notice]:
        taken, self.notices = self.notices[:limit], self.notices[limit:]
        return taken

    def pressing(self) -> bool:
        return self.waiting()

    def waiting(self) -> bool:
        return bool(self.notices)

    def check(self, *, mounts: bool = True) -> None:
        self.checked.append(mounts)

    def uncovered(self, path: bytes) -> list[Uncovered]:
        held = any(path == root or path.startswith(root + b"/") for root in self.roots)
        return [] if held else [Uncovered(path, "foreign")]

    def state(self, root: bytes) -> RootState:
        assert root in self.roots
        if root in self.gone:
            return RootState(self.backend, "gone", "none", (Uncovered(root, "it is not there"),))
        return RootState(self.backend, "watching", "whole", directories=3)

    def close(self) -> None:
        self.closed = True


def backend_of(path: bytes) -> tuple[str, str]:
    if b"folding" in path:
        return "inotify", FOLDING
    return ("poll", REMOTE) if b"remote" in path else ("inotify", "")


class Bench:
    """A fleet with a scripted watcher of each kind."""

    def __init__(self, choice: Choice, *roots: bytes, native: str = "inotify", **failing: Exception) -> None:
        self.made: dict[str, Scripted] = {}
        self.failing = failing

        def maker(backend: str) -> Watcher:
            if backend in self.failing:
                raise self.failing[backend]
            watcher = self.made[backend] = Scripted(backend)
            return watcher

        make = {"inotify": lambda: maker("inotify"), "watchdog": lambda: maker("watchdog")}
        self.fleet = Fleet(choice, backend_of, make, native=native)
        for root in roots:
            list(self.fleet.add(root, nothing))


# which watcher


def test_by_itself_it_takes_inotify_where_that_is_reliable_and_polls_elsewhere_with_the_reason() -> None:
    fleet = Bench("auto", b"/local", b"/remote").fleet
    local, remote = fleet.state(b"/local"), fleet.state(b"/remote")
    assert (local.backend, local.coverage, local.uncovered) == ("inotify", "whole", ())
    assert (remote.backend, remote.coverage) == ("poll", "partial")
    assert remote.uncovered[0] == Uncovered(b"/remote", REMOTE)
    assert fleet.polled() == [b"/remote"]
    assert fleet.is_polled(b"/remote")
    assert not fleet.is_polled(b"/local")


def test_where_events_tell_all_but_not_by_every_name_it_takes_inotify_and_covers_in_part() -> None:
    fleet = Bench("auto", b"/folding").fleet
    state = fleet.state(b"/folding")
    assert (state.backend, state.state, state.coverage) == ("inotify", "degraded", "partial")
    assert fleet.uncovered(b"/folding/f") == [Uncovered(b"/folding", FOLDING)]


def test_on_another_system_it_takes_watchdog() -> None:
    bench = Bench("auto", b"/local", native="watchdog")
    assert bench.fleet.state(b"/local").backend == "watchdog"
    assert "inotify" not in bench.made


@pytest.mark.parametrize(("choice", "backend"), [("inotify", "inotify"), ("watchdog", "watchdog"), ("poll", "poll")])
def test_what_was_chosen_is_taken_everywhere(choice: Choice, backend: str) -> None:
    fleet = Bench(choice, b"/local", b"/remote").fleet
    assert [fleet.state(root).backend for root in (b"/local", b"/remote")] == [backend] * 2


def test_a_root_that_is_polled_by_choice_says_so_and_blames_no_file_system() -> None:
    (place,) = Bench("poll", b"/remote").fleet.state(b"/remote").uncovered
    assert place.why == "polled every 10 s, as was chosen: silence proves nothing"
    by_itself = Bench("auto", b"/remote").fleet.state(b"/remote").uncovered
    assert not any("chosen" in each.why for each in by_itself)


def test_inotify_by_order_on_a_network_file_system_covers_in_part_only() -> None:
    bench = Bench("inotify", b"/local", b"/remote")
    fleet = bench.fleet
    state = fleet.state(b"/remote")
    assert (state.state, state.coverage, state.uncovered) == ("degraded", "partial", (Uncovered(b"/remote", REMOTE),))
    assert fleet.uncovered(b"/remote/file") == [Uncovered(b"/remote", REMOTE)]
    assert fleet.uncovered(b"/local/file") == []
    bench.made["inotify"].notices = [Covered(b"/remote/d", "whole"), Covered(b"/local/d", "whole")]
    assert fleet.take(9) == [Covered(b"/remote/d", "partial", REMOTE), Covered(b"/local/d", "whole")]


def test_of_a_root_that_is_gone_its_absence_is_told_and_not_how_it_would_be_watched() -> None:
    bench = Bench("inotify", b"/remote")
    bench.made["inotify"].gone.add(b"/remote")
    state = bench.fleet.state(b"/remote")
    assert (state.state, state.coverage) == ("gone", "none")
    assert [place.why for place in state.uncovered] == ["it is not there"]


@pytest.mark.parametrize("choice", ["auto", "inotify"])
def test_where_inotify_cannot_be_had_all_is_polled_and_the_fix_is_told(choice: Choice) -> None:
    fleet = Bench(choice, b"/local", inotify=OSError(errno.EMFILE, os.strerror(errno.EMFILE))).fleet
    state = fleet.state(b"/local")
    assert (state.backend, state.state, state.coverage) == ("poll", "watching", "partial")
    assert "Too many open files" in state.uncovered[0].why
    assert "fs.inotify.max_user_instances" in state.uncovered[0].why
    assert fleet.fileno() == -1
    assert fleet.uncovered(b"/local")


def test_a_watcher_that_this_system_does_not_have_is_replaced_by_polling() -> None:
    fleet = Fleet("watchdog", backend_of, {})
    list(fleet.add(b"/local", nothing))
    assert fleet.state(b"/local").backend == "poll"
    assert "watchdog does not exist" in fleet.state(b"/local").uncovered[0].why


def test_a_package_that_is_missing_is_told() -> None:
    fleet = Bench("watchdog", b"/local", watchdog=ImportError("no module named watchdog")).fleet
    assert "no module named watchdog" in fleet.state(b"/local").uncovered[0].why


def test_a_root_that_is_added_again_may_change_to_another_watcher() -> None:
    kinds = {b"/r": ("inotify", "")}
    inotify = Scripted("inotify")
    fleet = Fleet("auto", lambda path: kinds[path], {"inotify": lambda: inotify}, native="inotify")
    list(fleet.add(b"/r", nothing))
    kinds[b"/r"] = ("poll", REMOTE)
    list(fleet.add(b"/r", nothing))
    assert inotify.roots == {}
    assert fleet.polled() == [b"/r"]
    kinds[b"/r"] = ("inotify", "")
    list(fleet.add(b"/r", nothing))
    assert list(inotify.roots) == [b"/r"]
    assert fleet.polled() == []


# who answers


def test_a_path_is_answered_for_by_the_watcher_of_its_longest_root() -> None:
    fleet = Bench("auto", b"/local", b"/local/remote", b"/remote", b"/remote/x/local").fleet
    assert fleet.uncovered(b"/local/file") == []
    polled = fleet.uncovered(b"/local/remote/file")
    assert polled[0] == Uncovered(b"/local/remote", REMOTE)
    assert {place.path for place in polled} == {b"/local/remote"}
    assert fleet.uncovered(b"/remote/file")


def test_a_path_is_not_covered_where_a_root_below_it_is_not() -> None:
    fleet = Bench("auto", b"/local", b"/local/remote").fleet
    above = fleet.uncovered(b"/local")
    assert {place.path for place in above} == {b"/local/remote"}
    assert [place.why.split()[0] for place in above] == ["nfs4", "polled"]
    assert fleet.uncovered(b"/local/other") == []
    fleet.remove(b"/local/remote")
    assert fleet.uncovered(b"/local") == []


def test_a_path_outside_every_root_is_uncovered() -> None:
    bench = Bench("auto", b"/local")
    assert [place.path for place in bench.fleet.uncovered(b"/locality")] == [b"/locality"]
    bench.fleet.remove(b"/local")
    assert [place.path for place in bench.fleet.uncovered(b"/local/f")] == [b"/local/f"]
    assert bench.fleet.state(b"/local").state == "gone"
    bench.fleet.remove(b"/local")
    assert bench.made["inotify"].roots == {}


def test_removing_the_outer_root_keeps_the_inner_one() -> None:
    fleet = Bench("auto", b"/local", b"/local/in").fleet
    fleet.remove(b"/local")
    assert fleet.uncovered(b"/local/in/f") == []
    assert fleet.uncovered(b"/local/f")


# passing on


def test_notices_of_all_watchers_are_taken_each_in_their_order() -> None:
    bench = Bench("auto", b"/local", b"/remote")
    notices: list[Notice] = [Touched(b"/local/%d" % n, What.MODIFIED) for n in range(5)]
    bench.made["inotify"].notices = list(notices)
    assert not bench.fleet.looked(b"/remote", "the directory is gone")
    assert bench.fleet.read() == 7
    taken: list[Notice] = []
    while some := bench.fleet.take(2):
        assert len(some) <= 2
        taken += some
    assert [n for n in taken if n.path.startswith(b"/local")] == notices
    gone = [n for n in taken if n.path == b"/remote"]
    assert [type(n) for n in gone] == [Lost, Covered]


def test_only_what_cannot_be_looked_at_in_the_loop_is_looked_at_from_outside() -> None:
    fleet = Bench("auto", b"/local", b"/remote").fleet
    assert fleet.looked_at() == [b"/remote"]
    assert fleet.looked(b"/remote", (1, 2))
    assert not fleet.looked(b"/local", (1, 2))
    assert not fleet.looked(b"/nowhere", (1, 2))


def test_its_descriptor_is_that_of_the_watcher_that_has_one() -> None:
    assert Bench("auto").fleet.fileno() == 7
    assert Bench("poll").fleet.fileno() == -1


def test_what_waits_anywhere_waits() -> None:
    bench = Bench("auto", b"/local", b"/remote")
    assert not bench.fleet.waiting()
    bench.made["inotify"].notices = [Touched(b"/local/f", What.MODIFIED)]
    assert bench.fleet.waiting()
    bench.fleet.take(9)
    bench.fleet.looked(b"/remote", None)
    assert bench.fleet.waiting()


def test_what_waits_with_each_is_counted_together() -> None:
    bench = Bench("auto", b"/local", b"/remote")
    bench.made["inotify"].notices = [Touched(b"/local/f", What.MODIFIED)]
    bench.fleet.looked(b"/remote", None)
    assert bench.fleet.read() == 2 == len(bench.fleet.take(9))


def test_mounts_are_told_by_the_watcher_that_knows_of_them() -> None:
    class Mounted(Scripted):
        changed = False

        def mounts_fileno(self) -> int:
            return 9

        def mounts_changed(self) -> bool:
            return self.changed

    watcher = Mounted("inotify")
    fleet = Fleet("auto", backend_of, {"inotify": lambda: watcher}, native="inotify")
    assert fleet.mounts_fileno() == 9
    assert not fleet.mounts_changed()
    watcher.changed = True
    assert fleet.mounts_changed()
    assert (Bench("poll").fleet.mounts_fileno(), Bench("poll").fleet.mounts_changed()) == (-1, False)


def test_checking_and_closing_reach_every_watcher() -> None:
    bench = Bench("auto", b"/local")
    bench.fleet.check(mounts=False)
    bench.fleet.close()
    assert bench.made["inotify"].checked == [False]
    assert bench.made["inotify"].closed


# directories in directories


def test_nesting_finds_the_longest_holder_and_what_is_below() -> None:
    nesting = Nesting()
    for path in (b"/a", b"/a/b", b"/a/b/c", b"/a-b", b"/a.d", b"/a0"):
        nesting.add(path)
        nesting.add(path)
    assert nesting.longest(b"/a/b/x/y") == b"/a/b"
    assert nesting.longest(b"/a/bb") == b"/a"
    assert nesting.longest(b"/ab") is None
    assert nesting.below(b"/a") == [b"/a/b", b"/a/b/c"]
    assert nesting.below(b"/") == sorted([b"/a", b"/a/b", b"/a/b/c", b"/a-b", b"/a.d", b"/a0"])
    nesting.add(b"/")
    assert nesting.longest(b"/ab") == b"/"
    assert b"/" not in nesting.below(b"/")
    nesting.discard(b"/a/b")
    nesting.discard(b"/a/b")
    assert nesting.longest(b"/a/b/x") == b"/a"
    assert b"/a/b" not in nesting
    assert len(nesting) == 6
    assert list(nesting) == sorted(nesting)
