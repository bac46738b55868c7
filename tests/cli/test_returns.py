"""What came back with a directory: followed by records alone, as no daemon brings them about at will."""

from __future__ import annotations

from typing import Any

from provd.cli.screens.returns import Held, Returns

Json = dict[str, Any]

_D = "xxh3:" + "d" * 32


def _record(seq: int, kind: str, path: str, source: str | None = None, size: int | None = None) -> Json:
    told = {} if source is None else {"from": source}
    return {"type": "mutation", "seq": seq, "kind": kind, "path": path, "size": size, "digest": None} | told


def _back(*told: Json, seq: int, began: int = 1) -> Held | None:
    returns = Returns([b"/r/A/x"], position=5)
    for record in ({"type": "entry", "seq": began}, *told):
        returns.take(record)
    return returns.back(b"/r/A/x", seq)


def test_it_came_back_as_it_was() -> None:
    told = [
        _record(6, "moved", "/r/B/A2", "/r/A"),
        _record(7, "moved", "/r/C", "/r/B"),
        _record(8, "moved", "/r/A", "/r/C/A2"),
    ]

    held = _back(*told, seq=8)

    assert held is not None
    assert not held.touched
    assert _back(*told, seq=7) is None


def test_it_came_back_as_it_was_left_on_the_way_however_late_that_is_known() -> None:
    told = [_record(6, "moved", "/r/A2", "/r/A"), _record(7, "modified", "/r/A2/x", size=4)]
    hashed = {"type": "hashed", "seq": 9, "of": 7, "digest": _D}

    held = _back(*told, _record(8, "moved", "/r/A", "/r/A2"), hashed, seq=8)

    assert held is not None
    assert held.touched
    assert held.digest == _D


def test_what_was_taken_out_on_the_way_or_replaced_does_not_come_back() -> None:
    away, home = _record(6, "moved", "/r/A2", "/r/A"), _record(9, "moved", "/r/A", "/r/A2")
    for between in (
        _record(7, "moved", "/r/q", "/r/A2/x", size=4),
        _record(7, "moved", "/r/A2/x", "/r/q", size=4),
        _record(7, "deleted", "/r/A2/x"),
        _record(7, "deleted", "/r/A2"),
        _record(7, "moved", "/r/A2", "/r/other"),
    ):
        assert _back(away, between, home, seq=9) is None


def test_where_the_records_begin_too_late_nothing_is_known() -> None:
    told = [_record(7, "moved", "/r/A2", "/r/A"), _record(8, "moved", "/r/A", "/r/A2")]

    assert _back(*told, seq=8) is not None
    assert _back(*told, seq=8, began=7) is None
