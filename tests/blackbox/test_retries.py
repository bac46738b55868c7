"""The same op again, by SPEC 5: the first answer, to the same request alone; and whether it still stands."""

from __future__ import annotations

import pytest
from asking import code
from support import Json, Workspace


@pytest.mark.parametrize(
    "other",
    [
        {"value": 2},
        {"deps": ["file:f"], "as_of": "put"},
        {"deps": [{"dep": "file:f", "digest": "absent"}]},
        {"deps": None},
        {"meta": {"m": 2}},
        {"based_on": 0},
    ],
    ids=str,
)
def test_an_op_with_another_request_is_refused(ws: Workspace, other: Json) -> None:
    ws.write("f", "one")
    params = {"key": "k", "value": 1, "deps": [], "meta": {"m": 1}, "op": f"{ws.tag}op"}
    first = ws("entry.put", **params)
    before = ws.clock()

    assert code(ws, "entry.put", **{**params, **other}) == "params"

    assert ws.rpc("log.since", clock=before)["records"] == []
    assert ws("entry.put", **params) == first


def test_a_retry_may_have_a_later_clock_and_another_way_to_write_it(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.write("g", "one")
    params = {"key": "k", "value": {"a": 1, "b": 2}, "op": f"{ws.tag}op", "turn": 1}
    first = ws("entry.put", **params, deps=["file:f", "file:g"], fetched_at=ws.clock())

    params |= {"value": {"b": 2, "a": 1}, "turn": 2}

    assert ws("entry.put", **params, deps=["file:g", "f"], fetched_at=ws.clock()) == first


def test_a_retried_replacement_gets_the_first_answer(ws: Workspace) -> None:
    ws("entry.put", key="k", value=1, deps=[])
    first = ws("entry.revalidate", key="k", value=2, op=f"{ws.tag}op")

    assert ws("entry.revalidate", key="k", value=2, op=f"{ws.tag}op") == first
    assert code(ws, "entry.revalidate", key="k", value=3, op=f"{ws.tag}op") == "params"


@pytest.mark.parametrize("other", [{"outcome": "failed"}, {"writes": ["names:d/*.py"]}], ids=str)
def test_an_op_of_another_action_is_refused(ws: Workspace, other: Json) -> None:
    ws.write("d/f", "")
    params = {"writes": ["names:d/*"], "op": f"{ws.tag}op"}
    first = ws("action.record", **params)

    assert code(ws, "action.record", **{**params, **other}) == "params"

    assert ws("action.record", **params, turn=2) == first


def test_what_was_forgotten_does_not_read_as_if_it_stood(ws: Workspace) -> None:
    params = {"key": "k", "value": 1, "deps": [], "op": f"{ws.tag}op"}
    first = ws("entry.put", **params)
    ws("entry.forget", key="k")

    assert ws("entry.put", **params) == first | {"ended": True}
    assert ws.found("k") == ("unknown", "no-entry")


def test_of_what_was_late_it_is_told_what_stands_now(ws: Workspace) -> None:
    ws.write("f", "one")
    early = ws.clock()
    ws("entry.put", key="k", value=1, deps=["file:f"], as_of="put")
    params = {"key": "k", "value": 2, "deps": ["file:f"], "fetched_at": early, "op": f"{ws.tag}op"}
    first = ws("entry.put", **params)
    assert first["late"]
    assert ws("entry.put", **params) == first

    stands = {"version": ws("entry.put", key="k", value=3, deps=[])["version"]}

    assert ws("entry.put", **params) == first | {"ended": True, "stands": stands}
