"""Rows of the table of files are other bytes than were written: the next scan makes them anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damaging import variants
from pumping import Scene, on_disk, play, same

from provd.core.dependency import with_above
from provd.store.files import Files

if TYPE_CHECKING:
    from pathlib import Path


def _row(scene: Scene, path: bytes) -> tuple[bytes, bytes]:
    """The key and the value of a path's row: a directory that was lost has another number."""
    with scene.store.view() as view:
        key = Files(view)._key(path)
        value = None if key is None else view._get("files", key)
    assert key
    assert value is not None
    return key, value


def _put(scene: Scene, key: bytes, value: bytes) -> None:
    environment = scene.store.environment
    with environment.env.begin(write=True, db=environment.tables["files"]) as txn:
        assert txn.replace(key, value) is not None


def test_whatever_a_row_became_the_table_is_as_the_disk_after_a_scan(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a", "d/e/b", "d/c", "z/b")
        for path in with_above(scene.path("d/e/b"))[:-1]:
            for number in range(2 + len(variants(_row(scene, path)[1]))):
                scene.pump.close()
                key, row = _row(scene, path)
                harm = [b"", b"\xc1", *variants(row)][number]
                _put(scene, key, harm)
                scene.pump = scene.new_pump()
                await scene.pump.scan(scene.root, first=True)
                await scene.pump.settled()
                assert same(scene.table(), on_disk(scene.root)), (path, row, harm)

    play(tmp_path, body)
