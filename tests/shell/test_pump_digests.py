"""The pump: digests come when files are at rest, for the mutation that they were read for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import xxhash
from pumping import DONE, PENDING, SUPERSEDED, UNREADABLE, C, Scene, digest, play

from provd.core.records import Actor, Hashed, Mutation, MutationKind, Origin
from provd.disk import files, states
from provd.recorder import following, hashing

if TYPE_CHECKING:
    from pathlib import Path


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
    monkeypatch.setattr(following, "BIGGEST", 1000)

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
    content = os.urandom(states.SMALL) + b"x" * files.PIECE + b"end"
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


def test_what_changed_while_its_notice_waits_is_told_by_the_notice(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        real = states.summed

        def summing(path: bytes, *more: Any) -> Any:
            if not scene.mutations(head + 1):
                scene.write("a", b"at that moment")
                scene.touch("a")
            return real(path, *more)

        scene.touch("a")
        with mock.patch.object(hashing, "summed", summing):
            await scene.pump.settled()
        assert scene.mutations(head) == [("modified", "a")] * 2
        assert {r.origin for r in scene.of("a")} == {Origin.WATCH}
        assert [r.digest for r in scene.hashed()] == [None, digest(b"at that moment")]

    play(tmp_path, body)
