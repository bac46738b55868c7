"""Putting, retrying and revalidating as a client does it, by SPEC 4 and 9."""

from __future__ import annotations

import json

import pytest
from asking import code
from support import Json, RpcError, Workspace

# ---- putting


@pytest.mark.parametrize(
    "deps",
    [
        ["file:f"],
        ["object:x"],
        [{"dep": "file:f", "digest": "absent"}, "file:g"],
        [{"dep": "file:f", "digest": "absent"}, "object:x"],
        ["entry:e"],
    ],
    ids=json.dumps,
)
def test_dependencies_without_clock_digest_or_as_of_are_no_provenance(ws: Workspace, deps: list[Json]) -> None:
    assert code(ws, "entry.put", key="k", value=1, deps=deps) == "clock.missing"
    assert ws.found("k") == ("unknown", "no-entry")


@pytest.mark.parametrize("dep", ["object:x", "entry:e"])
def test_as_of_put_is_not_enough_for_what_cannot_be_read(ws: Workspace, dep: str) -> None:
    ws("entry.put", key="e", value=1, deps=[])
    assert code(ws, "entry.put", key="k", value=1, deps=[dep], as_of="put") == "clock.missing"


def test_a_version_stands_for_the_clock_of_an_entry_dependency(ws: Workspace) -> None:
    version = ws("entry.put", key="e", value=1, deps=[])["version"]
    ws("entry.put", key="k", value=1, deps=[{"dep": "entry:e", "digest": f"version:{version}"}])
    assert ws.verdict("k") == "fresh"
    ws("entry.put", key="e", value=2, deps=[])
    assert ws.found("k") == ("dirty", "entry-replaced")
    again = ws("entry.put", key="k", value=2, deps=[{"dep": "entry:e", "digest": f"version:{version}"}])
    assert again["verdict"]["verdict"] == "dirty"


def test_no_dependency_set_is_unknown_and_the_empty_one_is_fresh(ws: Workspace) -> None:
    ws("entry.put", key="left out", value=1)
    ws("entry.put", key="null", value=1, deps=None)
    ws("entry.put", key="empty", value=1, deps=[])
    assert ws.found("left out") == ws.found("null") == ("unknown", "no-provenance")
    assert ws.found("empty") == ("fresh", "no-dependencies")


def test_the_answer_to_a_put_lists_what_is_absent_and_what_is_unproven(ws: Workspace) -> None:
    ws.write("there")
    put = ws("entry.put", key="k", value=1, deps=["file:none", "tree:none", "file:there", "glob:*.none"], as_of="put")
    assert sorted(put["absent"]) == ["file:none", "tree:none"]
    assert put["unproven"] == []
    put = ws(
        "entry.put",
        key="j",
        value=1,
        deps=[ws.dep("file:there"), "file:there", "dir:.", "object:x"],
        fetched_at=ws.clock(),
    )
    assert put["absent"] == []
    assert sorted(put["unproven"]) == ["dir:.", "file:there"]
    assert put["verdict"]["verdict"] == "unknown"


def test_a_clock_alone_never_proves_and_never_lies(ws: Workspace) -> None:
    ws.write("f", "one")
    clock = ws.clock()
    ws("entry.put", key="k", value=1, deps=["file:f"], fetched_at=clock)
    assert ws.found("k") == ("unknown", "unproven")
    ws.write("f", "two")
    assert ws.verdict("k") != "fresh"
    ws.write("f", "one")
    assert ws.verdict("k") != "fresh"
    ws("action.record", writes=["file:f"])
    assert ws.found("k") == ("dirty", "touched")


def test_a_digest_that_differs_at_put_is_dirty_at_birth_and_the_clients_digest_is_kept(ws: Workspace) -> None:
    ws.write("f", "one")
    read = ws.dep("file:f")
    ws.write("f", "two")
    put = ws("entry.put", key="k", value=1, deps=[read], fetched_at=ws.clock())
    assert put["verdict"]["verdict"] == "dirty"
    assert put["verdict"]["evidence"][0]["was"] == read["digest"]
    ws.write("f", "one")
    assert ws.verdict("k") == "fresh"


def test_an_equal_value_keeps_its_version_and_takes_the_new_dependencies(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.write("g", "one")
    first = ws.put("k", "file:f", value={"a": [1, 2.5, None], "b": "é"})
    again = ws.put("k", "file:g", value={"b": "é", "a": [1, 2.5, None]})
    assert again["version"] == first["version"]
    assert not again.get("superseded")
    ws.write("f", "two")
    assert ws.verdict("k") == "fresh"
    ws.write("g", "two")
    assert ws.verdict("k") == "dirty"


def test_another_value_supersedes_and_a_put_without_one_is_always_new(ws: Workspace) -> None:
    first = ws("entry.put", key="k", value="a", deps=[])
    second = ws("entry.put", key="k", value="b", deps=[])
    third = ws("entry.put", key="k", value="a", deps=[])
    assert first["version"] < second["version"] < third["version"]
    assert second["superseded"]
    absent = [ws("entry.put", key="j", deps=[])["version"] for _ in range(3)]
    assert absent == sorted(set(absent))
    assert ws("entry.put", key="j", value=None, deps=[])["version"] > absent[-1]
    assert "value" in ws("entry.get", key="j")
    ws("entry.put", key="j", deps=[])
    assert "value" not in ws("entry.get", key="j")


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "\u0000", 2**70, -1.5, 1e-7, {"é": ["\U0001f600"]}])
def test_a_value_comes_back_as_it_was_put(ws: Workspace, value: Json) -> None:
    ws("entry.put", key="k", value=value, deps=[], meta={"by": "a test", "n": 1})
    answer = ws("entry.get", key="k")
    assert answer["value"] == value
    assert type(answer["value"]) is type(value)
    assert answer["meta"] == {"by": "a test", "n": 1}


def test_an_older_clock_does_not_displace_a_fresh_truth(ws: Workspace) -> None:
    ws.write("f", "one")
    older = ws.clock()
    ws("action.record", writes=[ws.object("other")])
    stands = ws.put("k", "file:f", value="newer", fetched_at=ws.clock())["version"]
    late = ws.put("k", "file:f", value="older", fetched_at=older)
    assert late["late"] is True
    assert late["stands"]["version"] == stands
    assert ws("entry.get", key="k")["value"] == "newer"
    assert ws.check("k")["version"] == stands


def test_a_put_that_is_not_fresh_does_not_displace_a_fresh_truth(ws: Workspace) -> None:
    ws.write("f", "one")
    old = ws.dep("file:f")
    ws.write("f", "two")
    stands = ws.put("k", "file:f", value="true")["version"]
    for deps in ([old], ["file:f"], None):
        late = ws("entry.put", key="k", value="false", deps=deps, fetched_at=ws.clock())
        assert (late["late"], late["stands"]["version"]) == (True, stands)
    assert ws("entry.get", key="k")["value"] == "true"


def test_a_put_displaces_what_is_not_fresh(ws: Workspace) -> None:
    ws.write("f", "one")
    older = ws.clock()
    ws("action.record", writes=[ws.object("other")])
    ws.put("k", "file:f", value="first", fetched_at=ws.clock())
    ws.write("f", "two")
    put = ws.put("k", "file:f", value="second", fetched_at=older)
    assert not put.get("late")
    assert ws("entry.get", key="k")["value"] == "second"


def test_based_on_makes_a_put_conditional(ws: Workspace) -> None:
    first = ws("entry.put", key="k", value=1, deps=[], based_on=0)["version"]
    assert code(ws, "entry.put", key="k", value=2, deps=[], based_on=0) == "entry.conflict"
    assert code(ws, "entry.put", key="j", value=2, deps=[], based_on=first) == "entry.conflict"
    second = ws("entry.put", key="k", value=2, deps=[], based_on=first)["version"]
    assert code(ws, "entry.put", key="k", value=3, deps=[], based_on=first) == "entry.conflict"
    ws("entry.forget", key="k")
    assert code(ws, "entry.put", key="k", value=3, deps=[], based_on=second) == "entry.conflict"
    assert ws("entry.put", key="k", value=3, deps=[], based_on=0)["version"] > second


def test_a_put_on_top_of_what_was_never_kept_is_told_so(ws: Workspace) -> None:
    asked: list[dict[str, int]] = [{"based_on": 3}, {"based_on_record": 3}, {"based_on": 3, "based_on_record": 0}]
    for on in asked:
        with pytest.raises(RpcError) as caught:
            ws("entry.put", key="none", value=1, deps=[], **on)
        assert caught.value.code == "entry.conflict"
        assert caught.value.message.startswith("there is no entry 'none' to put on top of, at ")
        assert caught.value.data["version"] == 0
        assert ("record" in caught.value.data) == bool(on.get("based_on_record"))
    assert ws("entry.put", key="none", value=1, deps=[], based_on=0, based_on_record=0)["version"]


def test_of_many_writers_on_one_version_exactly_one_wins(ws: Workspace) -> None:
    version = ws("entry.put", key="k", value="start", deps=[])["version"]
    connections = [ws.daemon.connect() for _ in range(8)]
    for _ in range(10):
        sent = [
            (rpc, rpc.send("entry.put", key="k", value=f"{version}-{n}", deps=[], based_on=version, root=ws.root))
            for n, rpc in enumerate(connections)
        ]
        answers = [rpc.answer(number) for rpc, number in sent]
        won = [answer["result"] for answer in answers if "result" in answer]
        lost = [answer["error"]["data"]["code"] for answer in answers if "error" in answer]
        assert len(won) == 1
        assert lost == ["entry.conflict"] * 7
        version = won[0]["version"]
        assert ws.check("k")["version"] == version


# ---- retries


def test_a_retry_with_the_same_op_gets_the_first_answer(ws: Workspace) -> None:
    ws.write("f", "one")
    params = {"key": "k", "value": "one", "deps": [ws.dep("file:f")], "op": f"{ws.tag}op"}
    first = ws("entry.put", **params)
    before = ws.clock()
    ws.write("f", "two")
    assert ws("entry.put", **params) == first
    assert ws.rpc("log.since", clock=before)["records"] == []
    stands = {"version": ws("entry.put", key="k", value="two", deps=[])["version"]}
    assert ws("entry.put", **params) == first | {"ended": True, "stands": stands}
    assert ws("entry.get", key="k")["value"] == "two"


def test_concurrent_duplicates_of_an_op_are_done_once(ws: Workspace) -> None:
    connections = [ws.daemon.connect() for _ in range(8)]
    before = ws.clock()
    for turn in range(10):
        params = {"key": f"k{turn}", "value": turn, "deps": [], "root": ws.root, "op": f"{ws.tag}{turn}"}
        sent = [(rpc, rpc.send("entry.put", **params)) for rpc in connections for _ in range(3)]
        answers = [rpc.result(number) for rpc, number in sent]
        assert answers == [answers[0]] * len(answers)
    assert len(ws.rpc("log.since", clock=before)["records"]) == 10


def test_an_op_is_remembered_through_kill_9(own: Workspace) -> None:
    first = own("entry.put", key="k", value=1, deps=[], op="the op")
    own.daemon.kill9()
    own.daemon.start()
    stands = {"version": own("entry.put", key="k", value=2, deps=[])["version"]}
    again = own("entry.put", key="k", value=1, deps=[], op="the op")
    assert again == first | {"ended": True, "stands": stands}
    assert own("entry.get", key="k")["value"] == 2


# ---- revalidating


def test_revalidate_renews_the_clock_only_where_all_is_equal(ws: Workspace) -> None:
    ws.write("f", "one")
    version = ws.put("k", "file:f", fetched_at=ws.clock())["version"]
    ws("action.record", writes=["file:f"])
    assert ws.found("k", revalidate=False) == ("dirty", "touched")
    proved = ws("entry.revalidate", key="k")
    assert (proved["key"], proved["version"], proved["verdict"]["verdict"]) == ("k", version, "fresh")
    assert ws.found("k", revalidate=False)[1] != "touched"
    ws.write("f", "two")
    before = ws.clock()
    refused = ws("entry.revalidate", key="k")
    assert (refused["version"], refused["verdict"]["verdict"]) == (version, "dirty")
    assert ws.rpc("log.since", clock=before)["records"] == []
    assert ws.verdict("k") == "dirty"


def test_revalidate_never_blesses_what_cannot_be_proved(ws: Workspace) -> None:
    ws.write("f", "one")
    ws("entry.put", key="k", value=1, deps=["file:f"], fetched_at=ws.clock())
    ws("entry.put", key="n", value=1)
    clock = ws.clock()
    ws("entry.put", key="o", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("action.record", writes=[ws.object("x")])
    assert ws("entry.revalidate", key="k")["verdict"]["verdict"] == "unknown"
    assert ws("entry.revalidate", key="n")["verdict"]["verdict"] == "unknown"
    assert ws("entry.revalidate", key="o")["verdict"]["verdict"] == "dirty"
    assert [ws.verdict(key) for key in "kno"] == ["unknown", "unknown", "dirty"]


def test_revalidate_with_a_value_is_a_put_on_the_current_version(ws: Workspace) -> None:
    ws.write("f", "one")
    first = ws.put("k", "file:f", value="of one")
    ws.write("f", "two")
    again = ws("entry.revalidate", key="k", value="of two", deps=[ws.dep("file:f")])
    assert again["version"] > first["version"]
    assert again["verdict"]["verdict"] == "fresh"
    assert ws("entry.get", key="k")["value"] == "of two"


def test_revalidate_of_nothing_proves_nothing(ws: Workspace) -> None:
    before = ws.clock()
    answer = ws("entry.revalidate", key="none")
    assert (answer["verdict"]["verdict"], answer["verdict"]["why"]) == ("unknown", "no-entry")
    assert ws.rpc("log.since", clock=before)["records"] == []


def test_reading_renews_nothing(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", fetched_at=ws.clock())
    ws("action.record", writes=["file:f"])
    before = ws.clock()
    for _ in range(3):
        assert ws.verdict("k", verify="content") == "fresh"
        assert ws("entry.get", key="k")["usable"]
    assert ws.found("k", revalidate=False) == ("dirty", "touched")
    assert ws.rpc("log.since", clock=before)["records"] == []


def test_what_was_written_before_a_put_without_a_clock_is_no_touch(ws: Workspace) -> None:
    """Broken: the clock of such a put lies before the write that it was made from."""
    for number in range(10):
        ws.write("f", f"{number}")
        ws.put("k", "file:f")
        assert ws.found("k", revalidate=False) != ("dirty", "touched")
    ws.write("f", "later")
    assert ws.found("k", revalidate=False) == ("dirty", "touched")
