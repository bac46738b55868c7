"""Rows of the table of files are other bytes than were written: the next scan makes them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damaging import variants
from pumping import Scene, on_disk, play, same

if TYPE_CHECKING:
    from pathlib import Path


def _rows(scene: Scene) -> dict[bytes, bytes]:
    environment = scene.store.environment
    with environment.env.begin(db=environment.tables["files"]) as txn:
        return dict(txn.cursor())


def _put(scene: Scene, key: bytes, value: bytes) -> None:
    environment = scene.store.environment
    with environment.env.begin(write=True, db=environment.tables["files"]) as txn:
        txn.put(key, value)


def test_whatever_a_row_became_the_table_is_as_the_disk_after_a_scan(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a", "d/e/b", "d/c", "z/b")
        for key, row in _rows(scene).items():
            for harm in (b"", b"\xc1", *variants(row)):
                scene.pump.close()
                _put(scene, key, harm)
                scene.pump = scene.new_pump()
                await scene.pump.scan(scene.root, first=True)
                await scene.pump.settled()
                assert same(scene.table(), on_disk(scene.root)), (key, row, harm)

    play(tmp_path, body)
