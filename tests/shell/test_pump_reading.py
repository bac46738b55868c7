"""Whoever reads what the system has to tell: directories are watched at once, and the rest is recorded in its time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import struct
from typing import TYPE_CHECKING

import pytest
from pumping import Scene, ScriptedWatcher, play

from provd.core.notice import Touched, What
from provd.recorder import intake, waking
from provd.recorder.intake import Intake
from provd.watch.inotify import InotifyWatcher
from provd.watch.syscalls import Q_OVERFLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from provd.recorder.items import Outcome

NEVER = 3600.0
PATIENCE = 60.0
READERS: dict[str, Callable[[Scene], object]] = {
    "a question": lambda scene: scene.pump.read(),
    "whether it is behind": lambda scene: scene.pump.is_behind(),
    "work that goes on": lambda scene: scene.pump._waits(),
    "looking at paths": lambda scene: scene.pump._looking._read(),
    "a batch": lambda scene: scene.pump._intake.take(1),
}


@contextlib.asynccontextmanager
async def real(tmp_path: Path) -> AsyncIterator[Scene]:
    """A pump with the real watcher of its root, which nothing wakes but what is read."""
    root = os.fsencode(tmp_path) + b"/root"
    os.mkdir(root)
    watcher = InotifyWatcher()
    scene = Scene(tmp_path, root, watcher)
    try:
        for _ in watcher.add(root, lambda _path, _is_dir: False):
            pass
        await scene.begin("f")
        await scene.pump.settled()
        yield scene
    finally:
        scene.close()
        watcher.close()


@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_by_anybody_has_its_directories_watched_in_the_next_turn(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "PACE", NEVER)

    async def main() -> None:
        async with real(tmp_path) as scene:
            head, watched = scene.store.head, scene.watcher.state(scene.root).directories
            scene.write("f")
            os.mkdir(scene.path("new"))
            READERS[reader](scene)
            await asyncio.sleep(0)
            assert scene.watcher.state(scene.root).directories == watched + 1
            assert scene.pump._task is None or scene.pump._task.done(), "what there is to tell waits for more"
            assert scene.store.head == head
            scene.write("new/f")
            os.unlink(scene.path("new/f"))
            await scene.pump.recorded()
            assert {name for _, name in scene.mutations(head)} >= {"new", "new/f"}
            assert scene.gaps() == []

    asyncio.run(main())


@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_by_anybody_is_recorded_though_nobody_waits_for_it(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "PACE", 0)

    async def main() -> None:
        async with real(tmp_path) as scene:
            done = asyncio.Event()
            take_over = scene.pump._take_over

            def written(outcome: Outcome) -> None:
                take_over(outcome)
                done.set()

            monkeypatch.setattr(scene.pump, "_take_over", written)
            head = scene.store.head
            for name in ("f", "g"):  # of which a batch takes one
                scene.write(name)
            READERS[reader](scene)
            async with asyncio.timeout(PATIENCE):
                await done.wait()
            assert scene.mutations(head)

    asyncio.run(main())


def test_what_is_read_is_not_processed_where_nothing_presses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many questions in one turn, and their reads are one wake-up."""
    monkeypatch.setattr(waking, "PACE", NEVER)

    async def body(scene: Scene) -> None:
        pressed: list[bool] = []

        def pressing() -> bool:
            pressed.append(True)
            return False

        monkeypatch.setattr(scene.watcher, "pressing", pressing)
        await scene.begin("f")
        takes = scene.watcher.takes
        scene.touch("f")
        for _ in range(3):
            scene.pump.read()
        await asyncio.sleep(0)
        assert (len(pressed), scene.watcher.takes) == (1, takes)
        assert await scene.pump.recorded()
        pressed.clear()
        scene.pump.read()
        await asyncio.sleep(0)
        assert pressed == [], "nothing was read"

    play(tmp_path, body)


def test_work_that_the_watcher_left_is_no_question_s_to_take_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with real(tmp_path) as scene:
            watcher, poll = scene.watcher, select.poll()
            poll.register(watcher.fileno(), select.POLLIN)
            watcher._memory.put(struct.pack("iIII", -1, Q_OVERFLOW, 0, 0))
            watcher.take(1)
            watcher.check()
            scene.pump.read()
            assert poll.poll(0) != []
            assert watcher.pressing(), "who goes on with it does so at once"
            assert poll.poll(0) == []
            assert not watcher.pressing()

    asyncio.run(main())


def test_nobody_is_woken_for_what_was_taken_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "PACE", NEVER)

    async def main() -> None:
        async with real(tmp_path) as scene:
            scene.write("f")
            scene.pump.read()
            await asyncio.sleep(0)
            assert scene.pump._waking._pacing is not None
            await scene.pump.settled()
            assert scene.pump._waking._pacing is None

    asyncio.run(main())


@pytest.mark.parametrize("ahead", [0, 1, intake._MUCH])
def test_much_is_counted_in_notices_read_or_looked_at_ahead(ahead: int) -> None:
    watcher = ScriptedWatcher()
    taking = Intake(watcher, lambda: None)

    def tell(count: int) -> None:
        watcher.tell(*(Touched(b"/f", What.MODIFIED) for _ in range(count)))

    tell(ahead)
    taking.ahead()
    tell(intake._MUCH - ahead)
    assert not taking.is_much()
    tell(1)
    assert taking.is_much()
    taking.ahead()
    assert taking.is_much()
