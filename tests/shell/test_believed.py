"""What is believed of files, read again: a mount that hangs is waited for once."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from provd import believed
from provd.audit import Audit
from provd.core import errors
from provd.core.dependency import Kind
from provd.core.reading import Found, Reading
from provd.disk import Workers
from provd.disk.mounts import Mounts, MountTable
from provd.store import Store
from provd.store.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLICE = 256
MOUNTED = {b"/hung": True, b"/also": True, b"/well": True}


class Table(MountTable):
    """Some mounts that may hang."""

    def now(self) -> Mounts:
        return Mounts(points=MOUNTED)


class Hanging:
    """Calls on what is at `/hung` and `/also` come back when all is over."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.asked: list[bytes] = []
        self.read: list[bytes] = []

    def answers(self, path: bytes) -> bool:
        self.asked.append(path)
        if not path.startswith(b"/well"):
            self.over.wait()
        return True

    async def reads(self, readings: frozenset[Reading], timeout: float) -> dict[Reading, Found]:  # noqa: ASYNC109
        del timeout
        self.read += [reading.path for reading in readings]
        return {reading: Found(digest="xxh3:" + "0" * 32) for reading in readings}


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    made = Hanging()
    monkeypatch.setattr(believed, "_answers", made.answers)
    yield made
    made.over.set()


def test_a_mount_that_hangs_is_waited_for_once_and_what_is_beside_it_is_read(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(believed, "_ANSWER", 1.0)
    mounts = {0: b"/hung/%d", 1: b"/also/%d", 2: b"/well/%d"}  # one file of each in each slice
    names = [mounts.get(n % SLICE, b"/near/%d") % n for n in range(3 * SLICE)]
    readings = [Reading(Kind.FILE, name, "xxh3") for name in names]
    there = believed.Believed()
    there.digests = {reading: {} for reading in readings}
    link = Reading(Kind.FILE, b"/near/link", "xxh3")
    there.digests[link], there.reals[link] = {}, b"/hung/linked"
    skipped: dict[bytes, str] = {}
    workers = Workers(mounts=Table())

    async def main() -> None:
        rereader = believed.Rereader(workers, hanging.reads)
        assert await rereader.reread([*readings, link], there, skipped) == {}

    asyncio.run(main())
    workers.close()
    silent = {name for name in names if name.startswith((b"/hung", b"/also"))} | {link.path}
    assert skipped == dict.fromkeys(silent, believed.SILENT)
    assert sorted(hanging.read) == sorted(set(names) - silent)
    assert sorted(path[:5] for path in hanging.asked) == [b"/also", b"/hung", b"/well", b"/well", b"/well"]


def test_an_audit_ends_at_once_when_the_daemon_does(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(os.fspath(tmp_path / "store"))
        workers = Workers()
        begun = asyncio.Event()

        async def settled() -> None:
            begun.set()
            await asyncio.Event().wait()

        audit = Audit(
            store,
            workers,
            Hanging().reads,
            table=Files,
            settled=settled,
            ignored=lambda *_: False,
            uncovered=lambda _: [],
            renew=lambda _: None,
        )
        running = asyncio.ensure_future(audit.run([b"/"], None, None, {}))
        await begun.wait()
        audit.end()
        with pytest.raises(errors.ShuttingDown):
            await running
        workers.close()
        store.stop()

    asyncio.run(main())
