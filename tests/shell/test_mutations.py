"""The pump on a real directory and a real store: what is told becomes records, rows and digests."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import xxhash
from pumping import Scene, ScriptedWatcher, on_disk, play, same

from provd.core import errors
from provd.core.notice import Appeared, Covered, Lost, Moved, Scan, Touched, What
from provd.core.records import Actor, Coverage, DigestState, Gap, Hashed, Mutation, MutationKind, Origin
from provd.disk import states
from provd.recorder import applying, hashing, mutations, scanning
from provd.store.keys import OpenAction

if TYPE_CHECKING:
    from pathlib import Path

    from provd.store import Writer

C, M, A, D = What.CREATED, What.MODIFIED, What.ATTRIB, What.DELETED
DONE, PENDING, SUPERSEDED, UNREADABLE = (
    DigestState.DONE,
    DigestState.PENDING,
    DigestState.SUPERSEDED,
    DigestState.UNREADABLE,
)


def digest(content: bytes) -> str:
    return f"xxh3:{xxhash.xxh3_128_digest(content).hex()}"


# records and digests


def test_what_was_written_is_recorded_at_once_and_hashed_when_it_is_at_rest(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.pump.rest = 3600
        path = scene.write("a", b"new")
        scene.touch("a")
        assert await scene.pump.recorded()
        found = os.stat(path)
        [(of, first)] = scene.records(head)
        assert isinstance(first, Mutation)
        assert (first.kind, first.path, first.size, first.mtime_ns) == ("modified", path, 3, found.st_mtime_ns)
        assert (first.digest, first.digest_state, first.origin, first.actor) == (None, PENDING, "watch", Actor())
        assert scene.pump.behind == 1
        scene.pump.rest = 0
        scene.touch("a")
        await scene.pump.settled()
        third, *rest = [r for _, r in scene.records(of + 1)]
        assert third == Hashed(third.at, of, path, None, SUPERSEDED)
        [done] = rest
        assert done == Hashed(done.at, of + 1, path, digest(b"new"), DONE)
        row = scene.row("a")
        assert row is not None
        assert (row.of, row.pending, row.digest) == (of + 1, False, xxhash.xxh3_128_digest(b"new"))
        assert scene.pump.behind == 0

    play(tmp_path, body)


def test_a_file_that_was_just_touched_waits_for_the_tick(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin()
        scene.pump.rest = 0.001
        path = scene.write("a")
        os.utime(path, ns=(1, 1))  # its ctime counts
        with mock.patch.object(hashing, "TICK", 0.001), mock.patch.object(states, "coarse_clock") as clock:
            clock.return_value = os.stat(path).st_ctime_ns + 999_999
            assert states.summed(path, tick=0.001).sum is states.Sum.MOVING
            clock.return_value = os.stat(path).st_ctime_ns + 1_000_000
            assert states.summed(path, tick=0.001).sum is states.Sum.DONE
            clock.return_value = os.stat(path).st_ctime_ns - 1
            assert states.summed(path, tick=0.001).sum is states.Sum.MOVING
            clock.return_value = os.stat(path).st_ctime_ns - 3600 * 10**9  # the clock was set back
            assert states.summed(path, tick=0.001).sum is states.Sum.DONE

    play(tmp_path, body)


def test_what_is_no_file_has_no_digest_and_is_never_opened(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin()
        os.mkfifo(scene.path("fifo"))
        os.symlink("fifo", scene.path("link"))
        os.mkdir(scene.path("dir"))
        for name in ("fifo", "link", "dir"):
            scene.touch(name, C, is_dir=name == "dir")
        await scene.pump.settled()
        assert [(r.size, r.mtime_ns, r.digest_state) for _, r in scene.records(head) if isinstance(r, Mutation)] == [
            (None, None, None)
        ] * 3
        assert len(scene.records(head)) == 3
        assert states.summed(scene.path("fifo")).sum is states.Sum.UNREADABLE
        assert states.summed(b"/proc/self/status", tick=0).sum is states.Sum.UNREADABLE

    play(tmp_path, body)


def test_a_big_file_is_hashed_apart_and_a_huge_one_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "SMALL", 10)
    monkeypatch.setattr(applying, "BIGGEST", 1000)

    async def body(scene: Scene) -> None:
        await scene.begin()
        for name, size in (("small", 10), ("big", 11), ("huge", 1001)):
            scene.write(name, b"x" * size)
            scene.touch(name, C)
        with mock.patch.object(scene.pump.hashing._thread, "summed", wraps=scene.pump.hashing._thread.summed) as apart:
            await scene.pump.settled()
        assert [call.args[0] for call in apart.call_args_list] == [scene.path("big")]
        assert [r.digest_state for r in scene.of("huge")] == [UNREADABLE]
        found = {scene.name(r.path): r.digest for r in scene.hashed()}
        assert found == {"small": digest(b"x" * 10), "big": digest(b"x" * 11)}

    play(tmp_path, body)


def test_pieces_of_a_big_file_give_the_digest_of_the_whole(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/big"
    content = os.urandom(states.SMALL) + b"x" * states.PIECE + b"end"
    with open(path, "wb") as file:
        file.write(content)
    found = states.summed(path, states.BIGGEST, 0)
    assert found.digest == xxhash.xxh3_128_digest(content)
    assert states.summed(path, tick=0).sum is states.Sum.BIG


def test_a_file_that_cannot_be_read_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: bytes) -> int:
        raise PermissionError(13, "no")

    monkeypatch.setattr(states, "_open", refused)

    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.touch("a")
        await scene.pump.settled()
        assert [(r.digest, r.digest_state) for r in scene.hashed()] == [(None, UNREADABLE)]

    play(tmp_path, body)


def test_nothing_is_hashed_while_notices_wait(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a", "b")
        order: list[str] = []
        real, take = states.summed, scene.watcher.take

        def summing(*arguments: Any) -> Any:
            order.append("hash")
            return real(*arguments)

        def taking(limit: int) -> Any:
            found = take(1)
            order.extend("take" for _ in found)
            return found

        scene.watcher.take = taking
        with mock.patch.object(hashing, "summed", summing):
            for _ in range(5):
                scene.touch("a")
                scene.touch("b")
            await scene.pump.settled()
        assert order == ["take"] * 10 + ["hash"] * 2

    play(tmp_path, body)


def test_a_store_that_nobody_told_is_found_when_the_file_is_hashed(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.pump.rest = 3600
        scene.touch("a")
        await scene.pump.recorded()
        path = scene.write("a", b"silently")
        scene.pump.rest = 0
        waiting = scene.pump.hashing._waiting
        waiting.update({of: one._replace(due=0) for of, one in waiting.items()})
        await scene.pump.settled()
        told = [r for _, r in scene.records(head)]
        assert isinstance(told[2], Mutation)
        assert told[1:] == [
            Hashed(told[1].at, head + 1, path, None, SUPERSEDED),
            Mutation(
                told[2].at, MutationKind.MODIFIED, path, None, os.stat(path).st_mtime_ns, 8, digest(b"silently"), DONE,
                Origin.SCAN,
            ),
        ]  # fmt: skip

    play(tmp_path, body)


# kinds against the table


def test_a_rename_over_a_file_supersedes_both(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 3600
        scene.write("tmp", b"new")
        scene.touch("tmp", C)
        scene.touch("a")
        await scene.pump.recorded()
        head = scene.store.head
        os.rename(scene.path("tmp"), scene.path("a"))
        scene.watcher.tell(Moved(scene.path("tmp"), scene.path("a")))
        await scene.pump.recorded()
        moved, *superseded = [r for _, r in scene.records(head)]
        assert isinstance(moved, Mutation)
        assert (moved.kind, moved.path, moved.source) == ("moved", scene.path("a"), scene.path("tmp"))
        assert {(r.of, r.digest_state) for r in superseded if isinstance(r, Hashed)} == {
            (head - 1, SUPERSEDED),
            (head, SUPERSEDED),
        }
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_rows_below_a_directory_that_is_gone_stay_until_its_own_notice(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("d/a", "d/b")
        scene.touch("d/a")
        shutil.rmtree(scene.path("d"))
        await scene.pump.recorded()
        assert scene.mutations(head) == [("modified", "d/a")]
        assert scene.row("d/a") is not None
        scene.touch("d", D, is_dir=True)
        await scene.pump.recorded()
        assert scene.mutations(head)[1:] == [("deleted", "d/a"), ("deleted", "d/b"), ("deleted", "d")]
        assert scene.table() == {}

    play(tmp_path, body)


def test_a_directory_goes_in_slices_and_the_barrier_waits_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "BUDGET", 10)

    async def body(scene: Scene) -> None:
        names = [f"d/{n % 3}/{n}" for n in range(50)]
        head = await scene.begin(*names, "e")
        shutil.rmtree(scene.path("d"))
        scene.touch("d", D, is_dir=True)
        scene.touch("e")
        with mock.patch.object(scene.store, "submit", wraps=scene.store.submit) as submit:
            assert await scene.pump.recorded()
        assert submit.call_count > 5
        told = scene.mutations(head)
        assert sorted(told[:-2]) == sorted(("deleted", name) for name in (*names, "d/0", "d/1", "d/2"))
        assert told[-2:] == [("deleted", "d"), ("modified", "e")]
        for below in ("0", "1", "2"):
            assert told.index(("deleted", f"d/{below}")) > max(
                told.index(("deleted", n)) for n in names if n.startswith(f"d/{below}/")
            )

    play(tmp_path, body)


def test_a_moved_directory_is_one_record_and_what_waits_below_is_hashed_there(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("d/e/a")
        scene.pump.rest = 3600
        scene.touch("d/e/a")
        await scene.pump.recorded()
        head = scene.store.head
        os.rename(scene.path("d"), scene.path("z"))
        scene.watcher.tell(Moved(scene.path("d"), scene.path("z"), True))
        await scene.pump.recorded()
        waiting = scene.pump.hashing._waiting
        waiting.update({of: one._replace(due=0) for of, one in waiting.items()})
        await scene.pump.settled()
        assert scene.mutations(head) == [("moved", "z")]
        assert [(r.path, r.digest_state) for r in scene.hashed()] == [(scene.path("z/e/a"), DONE)]

    play(tmp_path, body)


def test_a_directory_that_appeared_is_listed_with_one_record_a_path(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("old")
        for name in ("d/a", "d/b"):
            scene.write(name)
        scene.watcher.tell(Touched(scene.path("d"), C, True), Appeared(scene.path("d"), "it was empty and had changed"))
        scene.touch("d/b", C)
        scene.touch("d/b")
        scene.touch("d/gone", C)
        scene.touch("d/gone", D)
        await scene.pump.settled()
        assert scene.mutations(head) == [
            ("created", "d"),
            ("created", "d/a"),
            ("created", "d/b"),
            ("deleted", "d/gone"),
        ]
        assert scene.gaps() == [("d", f"{mutations.MISSED}: it was empty and had changed")]
        head = scene.store.head
        os.unlink(scene.path("d/a"))
        scene.write("d/b", b"other")
        scene.watcher.tell(Appeared(scene.path("d")))
        await scene.pump.settled()
        assert scene.mutations(head) == [("modified", "d/b"), ("deleted", "d/a")]

    play(tmp_path, body)


def test_names_that_are_exchanged_are_both_known(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a/x", "b/y")
        for one, two in ((b"a", b"t"), (b"b", b"a"), (b"t", b"b")):
            os.rename(scene.root + b"/" + one, scene.root + b"/" + two)
        a, b = scene.path("a"), scene.path("b")
        scene.watcher.tell(Moved(a, b, True), Moved(b, a, True))
        await scene.pump.settled()
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


# own places, attribution


def test_the_daemons_own_places_are_never_told(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.pump = scene.new_pump(own=(scene.path("state"), scene.path("sock")))
        scene.write("state/log")
        scene.write("sock")
        await scene.begin("a")
        scene.watcher.tell(Touched(scene.path("state/log"), M), Touched(scene.path("sock"), M), Appeared(scene.root))
        await scene.pump.settled()
        assert scene.mutations() == []
        assert set(scene.table()) == {scene.path("a")}

    play(tmp_path, body)


def test_a_mutation_belongs_to_the_newest_action_that_names_it(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("d/a", "d/e/b", "c")

        def command(writer: Writer) -> None:
            for at, who, name in ((5, "old", "d"), (6, "new", "d/e"), (7, "other", "x/y")):
                writer.put_action(OpenAction(at, 1, (), (), (scene.path(name),), session=who, turn=at))

        await scene.store.submit(command)
        for name in ("d/a", "d/e/b", "c", "d/e", "d"):
            scene.touch(name, A, is_dir=name in {"d", "d/e"})
        scene.watcher.tell(Moved(scene.path("x"), scene.path("z"), True), Moved(scene.path("d/a"), scene.path("q")))
        await scene.pump.recorded()
        found = {scene.name(r.path): r.actor for _, r in scene.records() if isinstance(r, Mutation)}
        old, new, other = Actor("old", 5, 5), Actor("new", 6, 6), Actor("other", 7, 7)
        assert found == {"d/a": old, "d/e/b": new, "c": Actor(), "d/e": new, "d": new, "z": other, "q": old}

    play(tmp_path, body)


# scans


def test_the_first_scan_fills_the_table_and_records_the_coverage_alone(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        with mock.patch.object(scanning, "CHUNK", 7):
            for n in range(50):
                scene.write(f"{n % 5}/{n}")
            os.symlink("x", scene.path("link"))
            await scene.begin("a")
        await scene.pump.settled()
        [(_, only)] = scene.records()
        assert only == Coverage(only.at, scene.root, "whole", "")
        assert scene.table() == on_disk(scene.root)
        assert scene.hashed() == []

    play(tmp_path, body)


def test_a_scan_records_what_differs(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a", "b", "d/c", "d/same", "gone/x", "type")
        scene.pump.close()
        scene.write("a", b"other")
        os.unlink(scene.path("b"))
        os.rename(scene.path("d/c"), scene.path("d/z"))
        shutil.rmtree(scene.path("gone"))
        os.unlink(scene.path("type"))
        scene.write("type/inside/deep")
        scene.pump = scene.new_pump()
        await scene.pump.scan(scene.root)
        await scene.pump.settled()
        assert sorted(scene.mutations(head)) == sorted(
            [
                ("modified", "a"), ("deleted", "b"), ("deleted", "d/c"), ("created", "d/z"), ("deleted", "gone/x"),
                ("deleted", "gone"), ("created", "type"), ("created", "type/inside"), ("created", "type/inside/deep"),
            ]
        )  # fmt: skip
        assert {r.origin for _, r in scene.records() if isinstance(r, Mutation)} == {Origin.SCAN}
        assert same(scene.table(), on_disk(scene.root))
        assert len(scene.hashed()) == 3

    play(tmp_path, body)


def test_a_scan_of_a_part_that_is_gone_says_so_and_one_of_a_root_that_is_gone_says_nothing(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("d/a", "b")
        shutil.rmtree(scene.path("d"))
        await scene.pump.scan(scene.path("d"))
        assert scene.mutations(head) == [("deleted", "d/a"), ("deleted", "d")]
        os.rename(scene.root, scene.root + b"-away")
        await scene.pump.scan(scene.root)
        assert len(scene.mutations(head)) == 2
        assert scene.row("b") is not None

    play(tmp_path, body)


def test_digests_that_a_closed_pump_owed_are_made_up_for_by_the_next_scan(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 3600
        scene.touch("a")
        await scene.pump.recorded()
        scene.pump.close()
        scene.pump = scene.new_pump()
        await scene.pump.scan(scene.root)
        await scene.pump.settled()
        assert [r.digest_state for r in scene.hashed()] == [DONE]

    play(tmp_path, body)


def test_what_is_ignored_is_not_entered_and_not_called_deleted(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.pump = scene.new_pump(ignored=lambda path, is_dir: path.endswith((b"/.git", b".log")))
        head = await scene.begin(".git/x", "a.log", "b")
        assert set(scene.table()) == {scene.path("b")}
        scene.touch("a.log")
        await scene.pump.settled()
        await scene.pump.scan(scene.root)
        assert scene.mutations(head) == [("modified", "a.log")]
        assert scene.row("a.log") is not None

    play(tmp_path, body)


def test_a_scan_in_steps_lets_notices_go_first(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin(*(f"d{n}/a" for n in range(40)))
        scene.write("d39/a", b"later")
        real = states.listing
        seen: list[bytes] = []

        def listing(path: bytes) -> Any:
            if len(seen) == 3:
                scene.write("d0/new")
                scene.touch("d0/new", C)
            seen.append(path)
            return real(path)

        with mock.patch.object(scanning, "listing", listing):
            await scene.pump.scan(scene.root)
        await scene.pump.settled()
        told = scene.mutations(head)
        assert told.index(("created", "d0/new")) < told.index(("modified", "d39/a"))
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_lost_events_are_a_gap_first_and_then_one_scan(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a", "d/b")
        scene.write("d/b", b"lost")
        scene.watcher.tell(Lost(scene.path("d"), "overflow"), Lost(scene.root, "overflow"), Scan(scene.path("d")))
        assert await scene.pump.recorded()
        assert [type(r) for _, r in scene.records(head)][:2] == [Gap, Gap]
        assert scene.gaps() == [("d", "overflow"), (scene.name(scene.root), "overflow")]
        await scene.pump.settled()
        assert scene.mutations(head) == [("modified", "d/b")]
        assert (scene.pump.counters.lost, scene.pump.counters.scans) == (2, 2)  # the first one, and one for all three
        scene.watcher.tell(Lost(scene.root, "again"))
        scene.pump.scanning.backoff = 3600
        assert await scene.pump.recorded()
        assert scene.pump.scanning.busy  # later
        assert scene.pump.counters.scans == 2

    play(tmp_path, body)


def test_a_change_of_coverage_is_a_record_and_a_gap(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin()
        scene.watcher.tell(Covered(scene.path("d"), "none", "watch limit"), Covered(scene.path("d"), "whole"))
        await scene.pump.recorded()
        told = [r for _, r in scene.records(head)]
        assert told[:2] == [
            Coverage(told[0].at, scene.path("d"), "none", "watch limit"),
            Gap(told[1].at, scene.path("d"), "watch limit"),
        ]
        assert isinstance(told[3], Gap)

    play(tmp_path, body)


def test_a_root_that_was_removed_is_forgotten_without_records_but_not_a_root_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "BUDGET", 3)

    async def body(scene: Scene) -> None:
        head = await scene.begin(*(f"d/{n}" for n in range(10)), "in/root/a", "in/b")
        await scene.pump.forget(scene.root, [scene.path("in/root")])
        assert set(scene.table()) == {scene.path("in"), scene.path("in/root"), scene.path("in/root/a")}
        await scene.pump.forget(scene.path("in/root"))
        assert scene.store.head == head
        assert scene.path("in/root") not in scene.table()

    play(tmp_path, body)


# places that may hang


def test_a_directory_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "listing_at_once", hangs := Hanging())

    async def body(scene: Scene) -> None:
        await scene.begin("far/a", "b")
        mounts = scene.workers.mounts.now()
        far = type(mounts)(False, {b"/": False, scene.path("far"): True}, mounts.names, mounts.kinds)
        monkeypatch.setattr(scene.workers.mounts, "now", lambda: far)
        scan = asyncio.ensure_future(scene.pump.scan(scene.root))
        await asyncio.to_thread(hangs.begun.wait, 60)
        scene.write("b", b"meanwhile")
        scene.write("far/new")
        scene.touch("b")
        scene.touch("far/new", C)
        assert await scene.pump.recorded()
        assert scene.mutations() == [("modified", "b"), ("created", "far/new")]
        assert not scan.done()
        hangs.free.set()
        await scan
        await scene.pump.settled()
        assert scene.mutations() == [("modified", "b"), ("created", "far/new")]
        assert hangs.calls == 2  # it was touched meanwhile
        assert same(scene.table(), on_disk(scene.root))
        assert {r.digest for r in scene.hashed()} == {digest(b"meanwhile"), digest(b"x")}

    play(tmp_path, body)


class Hanging:
    """Listing that does not come back until it may."""

    def __init__(self) -> None:
        import threading

        self.begun, self.free = threading.Event(), threading.Event()
        self.calls = 0
        self._real = states.listing_at_once

    def __call__(self, path: bytes) -> Any:
        self.calls += 1
        found = self._real(path)
        self.begun.set()
        assert self.free.wait(60)
        return found


# faults


def test_records_that_the_store_refused_are_a_gap_as_soon_as_it_takes_one(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        real = scene.store.submit
        refusals: list[Any] = []

        def full(command: Any) -> Any:
            if len(refusals) < 4:
                refusals.append(command)
                future = asyncio.get_running_loop().create_future()
                future.set_exception(errors.StoreFull("full", "free space"))
                return future
            return real(command)

        scene.write("a", b"unlogged")
        scene.touch("a")
        with mock.patch.object(scene.store, "submit", full):
            assert not await scene.pump.recorded()
            await scene.pump.settled()
        first, *rest = [r for _, r in scene.records(head)]
        assert first == Gap(first.at, scene.root, "records could not be written: store full")
        assert isinstance(rest[0], Mutation)
        assert (rest[0].path, rest[0].origin) == (scene.path("a"), Origin.SCAN)
        assert await scene.pump.recorded()

    play(tmp_path, body)


@pytest.mark.parametrize("at", ["fold", "look", "step", "read"])
def test_a_fault_of_its_own_is_a_gap_and_the_work_goes_on(tmp_path: Path, at: str) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.write("a", b"new")
        scene.touch("a")
        place = {"fold": mutations, "look": mutations, "step": scene.pump.scanning, "read": scene.pump.hashing}[at]
        with mock.patch.object(place, at, side_effect=ZeroDivisionError("oh")):
            await scene.pump.recorded()
        await scene.pump.settled()
        assert (scene.name(scene.root), "internal: ZeroDivisionError('oh')") in scene.gaps()
        assert ("modified", "a") in scene.mutations(head)
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_a_first_scan_that_failed_is_made_again(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.write("a")
        real, calls = states.listing, []

        def listing(path: bytes) -> Any:
            calls.append(path)
            if len(calls) == 1:
                raise ZeroDivisionError
            return real(path)

        with mock.patch.object(scanning, "listing", listing):
            await scene.pump.scan(scene.root, first=True)
        assert any(isinstance(r, Coverage) for _, r in scene.records())
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


# waking and waiting


def test_the_barrier_tells_whether_it_was_in_time(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        taking = scene.watcher.take
        scene.watcher.take = lambda limit: [Touched(scene.path("a"), M)]  # it never ends
        scene.touch("a")
        assert not await scene.pump.recorded(0.01)
        scene.watcher.take = taking
        assert await scene.pump.recorded()

    play(tmp_path, body)


def test_an_idle_pump_has_nothing_to_do_and_nothing_to_wait_for(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 0.001
        scene.touch("a")
        await scene.pump.settled()
        takes = scene.watcher.takes
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [h for h in asyncio.get_running_loop()._scheduled if not h.cancelled()] == []  # type: ignore[attr-defined]
        assert await scene.pump.recorded()
        assert scene.watcher.takes == takes

    play(tmp_path, body)


def test_the_descriptor_wakes_the_pump_and_is_left_alone_for_a_moment(tmp_path: Path) -> None:
    class Told(ScriptedWatcher):
        def __init__(self) -> None:
            super().__init__()
            self.there, self.here = os.pipe()
            os.set_blocking(self.there, False)
            self.read_at: list[float] = []

        def fileno(self) -> int:
            return self.there

        def read(self) -> int:
            if self.kernel:
                os.read(self.there, 4096)
                self.read_at.append(asyncio.get_running_loop().time())
            return super().read()

    watcher = Told()

    async def body(scene: Scene) -> None:
        await scene.begin("a")
        loop = asyncio.get_running_loop()
        scene.pump.start(loop)
        for _ in range(2):
            scene.touch("a")
            os.write(watcher.here, b"x")
            while watcher.kernel:
                await asyncio.sleep(0)
            await scene.pump.recorded()
        first, second = watcher.read_at
        assert second - first >= mutations.REARM * 0.9
        assert len(scene.mutations()) == 2

    play(tmp_path, body, watcher=watcher)
    os.close(watcher.there)
    os.close(watcher.here)


def test_closing_lets_go_of_all_who_wait(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 3600
        scene.touch("a")
        waiting = [asyncio.ensure_future(one) for one in (scene.pump.settled(), scene.pump.forget(b"/none"))]
        barrier = asyncio.ensure_future(scene.pump.recorded())
        await asyncio.sleep(0)
        scene.pump.close()
        assert not await barrier
        await asyncio.gather(*waiting)

    play(tmp_path, body)
