"""A desk whose watcher hears, at a moment at which all files have rested for long: what can be answered at once is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from desk import Desk, Listening
from sealing_help import LATER, Sealed, set_clock

from provd.core.params import EntryCheck
from provd.disk import Workers, seal
from provd.disk.files import coarse_clock
from provd.filesystems import magic


class Scene:
    """A desk with a watched root, at a moment at which all files have rested for long."""

    def __init__(self, home: Path) -> None:
        if magic(os.fsencode(home)) not in seal.SEALABLE:
            pytest.skip("nothing can be sealed here")
        self.sealed = Sealed()
        self.watch = Listening(os.fsencode(home / "root"))
        self.desk = Desk(home, self.watch, Workers(seals=self.sealed.seals))
        self.watch.store = self.desk.store
        self.root, self.home = self.desk.root, home
        for name in ("d/e/f", "c/e/f", "g"):
            self.write(name, "one")

    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def close(self) -> None:
        self.desk.close()
        self.sealed.close()
        self.watch.watcher.close()

    async def learned(self, *keys: str) -> None:
        """Asks until each is answered at once."""
        self.watch.settle()
        for key in keys:
            assert [(await self.desk.found(key))[0] for _ in range(2)] == ["fresh", "fresh"]
            assert self.at_once(key) is not None, key

    async def put(self, key: str, *deps: str, **fields: Any) -> None:
        await self.desk.put(key, deps=list(deps), as_of="put", **fields)

    def at_once(self, key: str, **how: Any) -> Any:
        told = self.desk.responder.at_once.one(EntryCheck(key=key, **how))
        return None if told is None else msgspec.json.decode(told)

    async def ask(self, *keys: str) -> tuple[Any, bool]:
        """The verdicts on several keys, and whether they were given at once."""
        told = await self.desk.responder.check(EntryCheck(keys=list(keys)), foreign=False)
        at_once = isinstance(told, msgspec.Raw)
        return (msgspec.json.decode(bytes(told)) if at_once else told)["verdicts"], at_once

    async def whole(self, *keys: str) -> Any:
        """The verdicts by the whole way."""
        told, _ = await self.desk.responder._verdicts(list(keys), EntryCheck(keys=list(keys)), foreign=False)
        return msgspec.json.decode(msgspec.json.encode(told))


@pytest.fixture
def scene(tmp_path: Path, lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    del lease_breaks_ignored
    set_clock(monkeypatch, coarse_clock() + LATER)
    made = Scene(tmp_path)
    made.watch.begun()
    yield made
    made.close()


def without_clock(verdict: Any) -> Any:
    return {name: value for name, value in verdict.items() if name != "clock"}
