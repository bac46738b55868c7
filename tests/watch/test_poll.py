"""Polling: when roots are looked at and scanned, what is told of those that are gone, and that none delays another."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provd.core.notice import Covered, Lost
from provd.disk import Workers
from provd.watch.base import Uncovered
from provd.watch.poll import PollWatcher
from provd.watch.polling import REST, Polling
from provd.watch.presence import Presence, Standing, identity_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from provd.watch.presence import Found

SECONDS = 10.0


def nothing(_path: bytes, _is_dir: bool) -> bool:
    return False


class Fleet:
    """A fleet of one polling watcher, in which some roots are only looked at."""

    def __init__(self, roots: list[bytes], only_looked_at: list[bytes] | None = None) -> None:
        self.watcher = PollWatcher(SECONDS)
        self.only_looked_at = only_looked_at or []
        self.looked_event = asyncio.Event()
        for root in roots + self.only_looked_at:
            list(self.watcher.add(root, nothing))

    def looked_at(self) -> list[bytes]:
        return self.watcher.roots

    def is_polled(self, root: bytes) -> bool:
        return root in self.watcher.roots and root not in self.only_looked_at

    def looked(self, root: bytes, found: Found) -> bool:
        self.looked_event.set()
        return self.watcher.looked(root, found)


class Bench:
    """A polling with a clock of its own, and what it scanned. A scan takes as long as `lasts` says of its root."""

    def __init__(self, fleet: Fleet) -> None:
        self.now = 1000.0
        self.fleet = fleet
        self.scanned: list[bytes] = []
        self.lasts: dict[bytes, float] = {}
        self.gates: dict[bytes, asyncio.Event] = {}
        self.woken = 0
        self._moved = asyncio.Event()
        self.workers = Workers()
        self.polling = Polling(
            fleet, self.workers, self._scan, self._wake, seconds=SECONDS, now=lambda: self.now, patience=30.0
        )

    async def _scan(self, root: bytes) -> None:
        self.scanned.append(root)
        self._moved.set()
        if root in self.gates:
            await self.gates[root].wait()
        self.now += self.lasts.get(root, 0.0)

    def _wake(self) -> None:
        self.woken += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for scans until something holds."""
        while not holds():
            self._moved.clear()
            await self._moved.wait()

    async def after(self, seconds: float) -> None:
        """A round, so much later, with its scans."""
        self.now += seconds
        await self.polling.round()
        await self.polling.settled()


def run(fleet: Fleet, body: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench(fleet)
        try:
            await body(bench)
        finally:
            await bench.polling.close()
            bench.workers.close()

    asyncio.run(main())


def made(tmp_path: Path, *names: str) -> list[bytes]:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.mkdir()
    return [os.fsencode(path) for path in paths]


def test_nothing_is_due_where_nothing_is_polled() -> None:
    async def body(bench: Bench) -> None:
        assert bench.polling.due() is None
        await bench.after(100)
        assert bench.scanned == []

    run(Fleet([]), body)


def test_a_root_is_scanned_when_its_time_has_come_and_not_before(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        assert bench.polling.due() == SECONDS
        await bench.after(SECONDS - 1)
        assert bench.scanned == []
        await bench.after(1)
        assert bench.scanned == [root]
        assert bench.polling.due() == SECONDS
        await bench.after(SECONDS)
        assert bench.scanned == [root, root]
        assert bench.woken == 3

    run(Fleet([root]), body)


def test_a_scan_that_takes_long_is_followed_by_a_long_rest(tmp_path: Path) -> None:
    slow, quick = made(tmp_path, "slow", "quick")

    async def body(bench: Bench) -> None:
        bench.lasts[slow] = 3.0
        bench.polling.due()
        await bench.after(SECONDS)
        assert sorted(bench.scanned) == [quick, slow]
        bench.scanned.clear()
        await bench.after(REST * 3.0 - 1)
        assert bench.scanned == [quick]
        await bench.after(1)
        assert slow in bench.scanned

    run(Fleet([slow, quick]), body)


def test_a_root_whose_scan_does_not_end_delays_no_other_and_is_not_scanned_twice(tmp_path: Path) -> None:
    stuck, well = made(tmp_path, "stuck", "well")

    async def body(bench: Bench) -> None:
        bench.gates[stuck] = asyncio.Event()
        bench.polling.due()
        for _ in range(3):
            bench.now += SECONDS
            await bench.polling.round()
            await bench.until(lambda: well in bench.scanned)
            bench.scanned.remove(well)
            await asyncio.sleep(0)  # its scan ends
        assert bench.scanned == [stuck]
        bench.gates[stuck].set()
        await bench.polling.settled()
        assert bench.polling.due() is not None

    run(Fleet([stuck, well]), body)


def test_a_scan_that_fails_is_tried_again(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        tried = 0

        async def scan(_root: bytes) -> None:
            nonlocal tried
            tried += 1
            raise OSError("no space left")

        bench.polling = Polling(
            bench.fleet, bench.workers, scan, lambda: None, seconds=SECONDS, now=lambda: bench.now, patience=30.0
        )
        bench.polling.due()
        await bench.after(SECONDS)
        await bench.after(SECONDS)
        assert tried == 2

    run(Fleet([root]), body)


def test_a_root_that_is_only_looked_at_is_not_scanned(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        bench.polling.due()
        os.rmdir(root)
        await bench.after(SECONDS)
        assert bench.scanned == []
        assert bench.fleet.watcher.state(root).state == "gone"

    run(Fleet([], [root]), body)


def test_a_root_that_went_is_told_once_and_is_scanned_again_when_it_is_back(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    watcher = (fleet := Fleet([root])).watcher

    async def body(bench: Bench) -> None:
        bench.polling.due()
        await bench.after(SECONDS)
        os.rename(root, root + b".away")
        bench.scanned.clear()
        await bench.after(SECONDS)
        await bench.after(SECONDS)
        assert bench.scanned == []
        why = "the directory is gone"
        assert watcher.take(99) == [Lost(root, why), Covered(root, "none", why)]
        assert (watcher.state(root).state, watcher.state(root).coverage) == ("gone", "none")
        os.rename(root + b".away", root)
        await bench.after(SECONDS)
        assert bench.scanned == [root]
        assert [type(n) for n in watcher.take(99)] == [Covered]
        assert (watcher.state(root).state, watcher.state(root).coverage) == ("watching", "partial")

    run(fleet, body)


def test_another_directory_under_the_name_of_a_root_is_not_that_root(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    fleet = Fleet([root])

    async def body(bench: Bench) -> None:
        bench.polling.due()
        await bench.after(SECONDS)
        os.rename(root, root + b".away")
        os.mkdir(root)
        await bench.after(SECONDS)
        assert bench.scanned == [root]
        assert fleet.watcher.state(root).state == "gone"
        assert "replaced" in fleet.watcher.uncovered(root)[0].why

    run(fleet, body)


def test_a_root_that_does_not_answer_is_degraded_and_not_gone(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    watcher = Fleet([root]).watcher
    assert watcher.looked(root, identity_of(root))
    assert not watcher.looked(root, None)
    state = watcher.state(root)
    assert (state.state, state.coverage) == ("degraded", "none")
    assert "does not answer" in state.uncovered[0].why
    assert [type(n) for n in watcher.take(9)] == [Covered]
    assert not watcher.looked(root, None)
    assert watcher.take(9) == []
    assert watcher.looked(root, identity_of(root))
    assert watcher.take(9) == [Covered(root, "partial", watcher.uncovered(root)[0].why)]


def test_asking_scans_all_polled_roots_by_scans_that_begin_afterwards(tmp_path: Path) -> None:
    one, other = made(tmp_path, "one", "other")

    async def body(bench: Bench) -> None:
        bench.gates[one] = asyncio.Event()
        bench.polling.due()
        bench.now += SECONDS
        await bench.polling.round()
        await bench.until(lambda: len(bench.scanned) == 2)
        looked = bench.fleet.looked_event = asyncio.Event()
        asked = asyncio.ensure_future(bench.polling.scan_now())
        await looked.wait()
        await asyncio.sleep(0)
        bench.gates[one].set()
        await asked
        assert (bench.scanned.count(one), bench.scanned.count(other)) == (2, 2)

    run(Fleet([one, other]), body)


def test_asking_waits_for_no_root_that_is_gone(tmp_path: Path) -> None:
    there, gone = made(tmp_path, "there", "gone")

    async def body(bench: Bench) -> None:
        os.rmdir(gone)
        await bench.polling.scan_now()
        assert bench.scanned == [there]

    run(Fleet([there, gone]), body)


def test_silence_of_a_polled_root_proves_nothing_anywhere_in_it(tmp_path: Path) -> None:
    outer, other = made(tmp_path, "outer", "other")
    inner = outer + b"/inner"
    os.mkdir(inner)
    watcher = Fleet([outer, inner, other]).watcher
    why = "polled every 10 s: silence proves nothing"
    assert watcher.uncovered(inner + b"/file") == [Uncovered(inner, why)]
    assert watcher.uncovered(outer) == [Uncovered(outer, why), Uncovered(inner, why)]
    elsewhere = os.fsencode(tmp_path)
    assert watcher.uncovered(elsewhere)[0].path == elsewhere
    watcher.remove(inner)
    assert watcher.uncovered(inner) == [Uncovered(outer, why)]
    assert watcher.fileno() == -1


def test_running_polls_until_it_is_cancelled_and_takes_up_roots_that_are_added(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    fleet = Fleet([])

    async def body(bench: Bench) -> None:
        running = asyncio.ensure_future(bench.polling.run())
        await asyncio.sleep(0)  # it waits, and no timer runs
        list(fleet.watcher.add(root, nothing))
        bench.polling.due()  # its time counts from here
        bench.now += SECONDS
        bench.polling.changed()
        await bench.until(lambda: bool(bench.scanned))
        running.cancel()
        await asyncio.wait([running])
        assert bench.scanned == [root]

    run(fleet, body)


def test_polling_goes_on_after_a_round_that_failed(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    fleet = Fleet([root])

    async def body(bench: Bench) -> None:
        failed = asyncio.Event()

        def fails(_root: bytes, _found: Found) -> bool:
            failed.set()
            raise RuntimeError("can't start new thread")

        bench.polling.due()
        bench.now += SECONDS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fleet, "looked", fails)
            running = asyncio.ensure_future(bench.polling.run())
            await failed.wait()
        bench.now += SECONDS
        bench.polling.changed()
        await bench.until(lambda: bool(bench.scanned))
        running.cancel()
        await asyncio.wait([running])

    run(fleet, body)


def test_closing_ends_a_scan_that_has_not_begun(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        bench.polling.due()
        bench.now += SECONDS
        await bench.polling.round()  # the scan begins with the next turn of the loop
        await bench.polling.close()
        assert bench.scanned == []

    run(Fleet([root]), body)


def test_a_link_to_the_directory_is_not_the_directory(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")
    presence = Presence()
    assert not presence.looked(identity_of(root))
    os.rename(root, root + b".away")
    os.symlink(root + b".away", root)
    assert presence.looked(identity_of(root))
    assert presence.standing is Standing.GONE
