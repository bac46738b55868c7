"""Verdicts as a client sees them: scopes, evidence, puts, proofs, chains, by SPEC 2 to 5 and 9."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import xxhash
from support import HANG, Daemon, Json, RpcError, Workspace, clean_environment, unwire

if TYPE_CHECKING:
    from collections.abc import Callable

VERDICT = {"key", "verdict", "usable", "standing", "version", "why", "clock", "checked", "evidence", "more"}


def code(ws: Workspace, method: str, **params: Json) -> str:
    """The code of a request that must be refused."""
    with pytest.raises(RpcError) as caught:
        ws(method, **params)
    assert caught.value.message
    assert caught.value.hint
    return caught.value.code


def one(answer: Json) -> Json:
    """The only item of evidence, complete."""
    (item,) = answer["evidence"]
    assert item["hint"]
    return item


# ---- the answer


def test_a_verdict_has_its_ten_fields_whatever_it_says(ws: Workspace) -> None:
    ws.write("f")
    put = ws.put("k", "file:f")
    assert {"key", "version", "absent", "unproven", "verdict"} <= put.keys()
    fresh = ws.check("k")
    assert fresh.keys() >= VERDICT
    assert fresh["key"] == "k"
    assert (fresh["verdict"], fresh["usable"], fresh["standing"]) == ("fresh", True, "active")
    assert fresh["version"] == put["version"]
    assert fresh["why"] == "same"
    assert fresh["checked"] == "content"
    assert (fresh["evidence"], fresh["more"]) == ([], 0)
    ws.write("f", "two\n")
    dirty = ws.check("k")
    assert dirty.keys() >= VERDICT
    assert (dirty["verdict"], dirty["why"], dirty["usable"], dirty["standing"]) == ("dirty", "changed", False, "active")
    unknown = ws.check("no such")
    assert unknown.keys() >= VERDICT - {"version", "standing"}
    assert (unknown["verdict"], unknown["why"], unknown["usable"]) == ("unknown", "no-entry", False)


def test_evidence_names_the_dependency_as_put_and_what_it_was_and_is(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.write("g", "one")
    was = ws.digest("file:f")
    ws.put("k", "file:f", "file:g", "file:./d/../nothing")
    ws.write("f", "two")
    item = one(ws.check("k"))
    assert item["dep"] == "file:f"
    assert item["why"] == "changed"
    assert item["was"] == was
    assert item["is"] == ws.digest("file:f")


def test_a_bare_string_is_a_file_and_evidence_repeats_it(ws: Workspace) -> None:
    ws.write("f", "one")
    ws("entry.put", key="k", value=1, deps=["f"], as_of="put")
    ws.write("f", "two")
    assert one(ws.check("k"))["dep"] == "f"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("echo 1 > f", "echo 2 > f", "changed"),
        ("echo 1 > f", "rm f", "deleted"),
        ("true", "echo 1 > f", "created"),
        ("ln -s nowhere f", "echo 1 > nowhere", "created"),
        ("echo 1 > g; ln -s g f", "rm g", "deleted"),
        ("echo 1 > f", "rm f; mkdir f", "type-changed"),
        ("mkdir f", "rmdir f; echo 1 > f", "type-changed"),
        ("echo 1 > f", "rm f; ln -s f f", "type-changed"),
        ("echo 1 > f", "rm f; mkfifo f", "type-changed"),
    ],
)
def test_what_became_of_a_file_has_its_word(ws: Workspace, before: str, after: str, why: str) -> None:
    sh(ws, before)
    ws.put("k", "file:f")
    assert ws.verdict("k") == "fresh"
    sh(ws, after)
    answer = ws.check("k")
    assert (answer["verdict"], answer["why"], one(answer)["why"]) == ("dirty", why, why)


def sh(ws: Workspace, script: str) -> None:
    subprocess.run(["bash", "-euc", script], cwd=ws.root, stdin=subprocess.DEVNULL, check=True, timeout=HANG)


@pytest.mark.parametrize(
    "script",
    [
        "touch -d '2001-01-01' f",
        "chmod 600 f",
        "cp f g; mv g f",
        "mv f g; mv g f",
        "echo 2 > f; echo 1 > f",
        "rm f; echo 1 > f",
        "cp f g; rm f; ln -s g f",
        "ln f g",
    ],
)
def test_the_same_content_is_fresh_whatever_happened_in_between(ws: Workspace, script: str) -> None:
    sh(ws, "echo 1 > f")
    ws.put("k", "file:f")
    sh(ws, script)
    assert ws.found("k") == ("fresh", "same")


@pytest.mark.parametrize("algorithm", ["sha256", "blake2b"])
@pytest.mark.parametrize("dep", ["file:d/a", "dir:d", "names:d/**/*.py", "glob:d/*.py", "tree:d", "tree:."])
def test_each_kind_is_compared_in_the_algorithm_that_the_client_used(ws: Workspace, dep: str, algorithm: str) -> None:
    sh(ws, "mkdir -p d/e .git; echo 1 > d/a; echo 2 > d/b.py; echo 3 > d/e/c.py; ln -s b.py d/l.py; echo > .git/x")
    put = ws("entry.put", key="k", value=1, deps=[ws.dep(dep, algorithm)])
    assert put["verdict"]["verdict"] == "fresh"
    sh(ws, "echo 9 > d/a; rm d/b.py; echo 8 > d/e/new.py; rm -r d/e/c.py")
    answer = ws.check("k")
    assert answer["verdict"] == "dirty"
    assert one(answer)["is"] == ws.digest(dep, algorithm)


@pytest.mark.parametrize(
    ("dep", "named"),
    [
        ("tree:d", {"d/changed", "d/gone", "d/new", "d/sub/deep"}),
        ("glob:d/*", {"d/changed", "d/gone", "d/new"}),
        ("glob:d/**/*", {"d/changed", "d/gone", "d/new", "d/sub/deep"}),
        ("names:d/*", {"d/gone", "d/new"}),
        ("dir:d", {"d/gone", "d/new"}),
    ],
)
def test_evidence_on_a_set_names_the_members_that_differ(ws: Workspace, dep: str, named: set[str]) -> None:
    for name in ("same", "changed", "gone", "sub/deep", "sub/same"):
        ws.write(f"d/{name}", "one")
    ws.put("k", dep)
    assert ws.verdict("k") == "fresh"
    ws.write("d/changed", "two")
    ws.write("d/new", "two")
    ws.write("d/sub/deep", "two")
    os.unlink(ws.path("d/gone"))
    answer = ws.check("k")
    assert answer["verdict"] == "dirty"
    item = one(answer)
    assert item["why"] in {"changed", "listing-changed"}
    assert {unwire(path) for path in item["paths"]} == {ws.path(name) for name in named}


def test_evidence_on_a_set_names_at_most_16_members(ws: Workspace) -> None:
    for number in range(40):
        ws.write(f"d/{number}", "one")
    ws.put("k", "glob:d/*")
    for number in range(40):
        ws.write(f"d/{number}", "two")
    paths = one(ws.check("k"))["paths"]
    assert len(set(paths)) == len(paths) == 16
    assert {unwire(path) for path in paths} <= {ws.path(f"d/{number}") for number in range(40)}


def test_evidence_stops_at_64_and_counts_the_rest(ws: Workspace) -> None:
    names = [f"file:f{number}" for number in range(70)]
    ws.put("k", *names)
    for number in range(70):
        ws.write(f"f{number}")
    answer = ws.check("k")
    assert len(answer["evidence"]) == 64
    assert answer["more"] == 6
    assert {item["dep"] for item in answer["evidence"]} <= set(names)


def test_dirty_outweighs_unknown_and_unknown_outweighs_fresh(ws: Workspace) -> None:
    ws.write("same")
    ws.write("changed")
    clock = ws.clock()
    ws("entry.put", key="unknown", value=1, deps=[ws.dep("file:same"), "file:changed"], fetched_at=clock)
    assert ws.found("unknown") == ("unknown", "unproven")
    ws("entry.put", key="all", value=1, deps=[ws.dep("file:changed"), "file:same"], fetched_at=clock)
    assert ws.verdict("all") == "unknown"
    ws.write("changed", "two")
    answer = ws.check("all")
    assert (answer["verdict"], answer["why"]) == ("dirty", "changed")
    assert {(item["dep"], item["why"]) for item in answer["evidence"]} == {
        ("file:changed", "changed"),
        ("file:same", "unproven"),
    }


def test_several_keys_are_answered_each_by_its_name(ws: Workspace) -> None:
    ws.write("a")
    ws.write("b")
    ws.put("a", "file:a")
    ws.put("b", "file:b")
    ws.put("both", "file:a", "file:b")
    ws.write("b", "two")
    verdicts = ws("entry.check", keys=["a", "b", "both", "none"])["verdicts"]
    assert {key: answer["verdict"] for key, answer in verdicts.items()} == {
        "a": "fresh",
        "b": "dirty",
        "both": "dirty",
        "none": "unknown",
    }
    assert all(answer["key"] == key for key, answer in verdicts.items())


def test_special_and_kernel_files_are_never_opened_and_never_equal(ws: Workspace) -> None:
    os.mkfifo(ws.path("pipe"))
    for dep in (f"file:{ws.root}/pipe", "file:/proc/self/status", "file:/dev/null"):
        answer = ws("deps.check", deps=[{"dep": dep, "digest": "type:special"}])
        assert answer["verdict"] != "fresh", dep
        answer = ws("deps.check", deps=[{"dep": dep, "digest": "absent"}])
        assert answer["verdict"] == "dirty", dep


# ---- scopes and roots


def test_a_key_lives_in_the_scope_it_was_put_in(ws: Workspace) -> None:
    other = Workspace.fresh(ws.daemon)
    places: list[dict[str, Json]] = [{}, {"root": other.root}, {"scope": f"{ws.tag}s"}, {"scope": "global"}]
    key = f"{ws.tag}key"
    for number, place in enumerate(places):
        assert ws.found(key, **place) == ("unknown", "no-entry")
        ws("entry.put", key=key, value=number, deps=[], **place)
    for number, place in enumerate(places):
        assert ws("entry.get", key=key, **place)["value"] == number
    assert ws("entry.forget", key=key, scope="global")["gone"]
    assert [ws.verdict(key, **place) for place in places] == ["fresh", "fresh", "fresh", "unknown"]


def test_a_scope_names_keys_and_the_root_still_joins_paths(ws: Workspace) -> None:
    ws.write("f", "one")
    scope = f"{ws.tag}s"
    ws.put("k", "file:f", scope=scope)
    assert ws.verdict("k", scope=scope) == "fresh"
    ws.write("f", "two")
    assert ws.verdict("k", scope=scope) == "dirty"
    elsewhere = Workspace.fresh(ws.daemon)
    assert elsewhere.verdict("k", scope=scope) == "dirty"
    assert ws.found("k") == ("unknown", "no-entry")


def test_an_entry_dependency_is_one_of_the_same_scope(ws: Workspace) -> None:
    ws("entry.put", key="a", value=1, deps=[])
    ws("entry.put", key="b", value=1, deps=["entry:a"], fetched_at=ws.clock(), scope=f"{ws.tag}s")
    assert ws.found("b", scope=f"{ws.tag}s") == ("dirty", "entry-missing")


def test_a_directory_by_another_name_is_the_same_scope(ws: Workspace) -> None:
    os.symlink(ws.root, ws.root + "-link")
    ws("entry.put", key="k", value=1, deps=[])
    assert ws.verdict("k", root=ws.root + "-link") == "fresh"
    assert ws.verdict("k", root=ws.root + "/.") == "fresh"


def test_any_directory_is_a_root_for_a_question(ws: Workspace) -> None:
    assert all(root["path"] != ws.root for root in ws.rpc("root.list")["roots"])
    ws.write("f", "one")
    ws.put("k", "file:f", "tree:.")
    assert ws.verdict("k") == "fresh"
    ws.write("f", "two")
    assert ws.verdict("k") == "dirty"


def test_the_only_root_is_the_root_of_a_request_without_one(own: Workspace) -> None:
    own.write("f", "one")
    own.rpc("entry.put", key="k", value=1, deps=["file:f"], as_of="put")
    assert own.verdict("k") == "fresh"
    own.write("f", "two")
    assert own.rpc("entry.check", key="k")["verdict"] == "dirty"


def test_a_path_is_joined_and_not_normalised(ws: Workspace) -> None:
    sh(ws, "mkdir -p a b/c; ln -s ../b/c a/link; echo there > b/f; echo here > a/f")
    ws.put("k", "file:a/link/../f")
    sh(ws, "echo changed > a/f")
    assert ws.verdict("k") == "fresh"
    sh(ws, "echo changed > b/f")
    assert ws.verdict("k") == "dirty"


def test_the_daemons_own_files_are_members_of_no_set(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.state = os.path.join(daemon.root, ".state")
    daemon.socket = os.path.join(daemon.root, "s.sock")
    own = daemon.start().workspace()
    own.write("f", "one")
    sets = ["tree:.", "names:*", "glob:**/*"]
    put = own("entry.put", key="k", value=1, deps=sets, as_of="put")
    assert put["verdict"]["verdict"] == "fresh"
    for number in range(5):
        own("entry.put", key=f"other{number}", value="v" * 100_000, deps=[])
    assert own.verdict("k") == "fresh"
    daemon.restart()
    assert own.verdict("k") == "fresh"
    own.write("f", "two")
    own.write("g", "new")
    assert {item["dep"] for item in own.check("k")["evidence"]} == set(sets)


def test_a_root_that_goes_away_is_answered_by_reading(own: Workspace) -> None:
    own.write("f", "one")
    own.put("k", f"file:{own.root}/f", scope="s")
    shutil.move(own.root, own.root + "-moved")
    assert own.rpc("entry.check", key="k", scope="s")["why"] == "deleted"
    os.mkdir(own.root)
    own.write("f", "one")
    assert own.verdict("k", scope="s") == "fresh"


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
    ws("entry.put", key="k", value="two", deps=[])
    assert ws("entry.put", **params) == first
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
    own("entry.put", key="k", value=2, deps=[])
    assert own("entry.put", key="k", value=1, deps=[], op="the op") == first
    assert own("entry.get", key="k")["value"] == 2


# ---- getting, listing, forgetting


def test_get_gives_the_value_only_where_usable_or_as_even_if_allows(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", value="v", meta={"m": 1})
    ws("entry.put", key="u", value="v", meta={"m": 1})
    answer = ws("entry.get", key="k")
    assert (answer["value"], answer["meta"]) == ("v", {"m": 1})
    ws.write("f", "two")
    for key, verdict, other in (("k", "dirty", "unknown"), ("u", "unknown", "dirty")):
        for even_if in ([], [other]):
            answer = ws("entry.get", key=key, even_if=even_if)
            assert answer["verdict"] == verdict
            assert "value" not in answer
            assert "meta" not in answer
        for even_if in ([verdict], ["dirty", "unknown"]):
            answer = ws("entry.get", key=key, even_if=even_if)
            assert (answer["verdict"], answer["value"], answer["meta"]) == (verdict, "v", {"m": 1})
            assert answer["usable"] is False
    assert "value" not in ws("entry.check", key="u")
    assert ws("entry.get", key="none", even_if=["unknown"])["why"] == "no-entry"


def keys_of(answer: Json) -> list[str]:
    return [entry["key"] for entry in answer["entries"]]


def test_a_list_pages_through_every_key_once_and_in_order(ws: Workspace) -> None:
    names = sorted(f"{letter}{number:02}" for letter in "abé" for number in range(15))
    for name in names:
        ws("entry.put", key=name, value=1, deps=[])
    found: list[str] = []
    page = ws("entry.list", limit=7)
    while True:
        assert len(page["entries"]) <= 7
        found += keys_of(page)
        if page.get("after") is None:
            break
        page = ws("entry.list", limit=7, after=page["after"])
    assert found == names
    assert keys_of(ws("entry.list", prefix="a")) == [name for name in names if name.startswith("a")]
    assert keys_of(ws("entry.list", prefix="é1")) == [name for name in names if name.startswith("é1")]
    assert keys_of(ws("entry.list", prefix="zz")) == []
    assert keys_of(Workspace.fresh(ws.daemon)("entry.list")) == []


def test_keys_that_look_alike_are_different_keys(ws: Workspace) -> None:
    long = "k" * 1000
    names = ["a", "a\0", "a\0b", "\0", "\0\0", "a/b", "a//b", " ", "a ", "é", "e\u0301", "\uffff", "\U0001f600"]
    names += [
        long,
        *(long + letter for letter in "abc"),
        long + "a" * 24,
        long + "a" * 23 + "b",
        "k" * 510,
        "k" * 511,
        "k" * 512,
    ]
    for number, name in enumerate(names):
        ws("entry.put", key=name, value=number, deps=[])
    for number, name in enumerate(names):
        assert ws("entry.get", key=name)["value"] == number
    ordered = keys_of(ws("entry.list"))
    assert sorted(ordered) == sorted(names)
    found: list[str] = []
    after: dict[str, Json] = {}
    while len(found) <= len(names):
        page = ws("entry.list", limit=1, **after)
        found += keys_of(page)
        if page.get("after") is None:
            break
        after = {"after": page["after"]}
    assert found == ordered
    for prefix in ("a", "a\0", "k", "k" * 511, long, long + "a", "e"):
        assert keys_of(ws("entry.list", prefix=prefix)) == [name for name in ordered if name.startswith(prefix)]
    ws("entry.forget", key=long + "a")
    assert keys_of(ws("entry.list")) == [name for name in ordered if name != long + "a"]


def test_scopes_and_objects_that_look_alike_are_different(ws: Workspace) -> None:
    long = ws.tag + "s" * 900
    scopes = [ws.tag + "a", ws.tag + "a\0", ws.tag + "a\0k", long, long + "a", long + "b"]
    put = []
    for number, scope in enumerate(scopes):
        try:
            ws("entry.put", key="k", value=number, deps=[], scope=scope)
        except RpcError as error:
            assert error.code in {"limit", "params", "-32602"}  # noqa: PT017 - a scope may be too long or odd
        else:
            put.append((number, scope))
    assert len(put) >= 1
    assert [ws("entry.get", key="k", scope=scope)["value"] for _, scope in put] == [number for number, _ in put]
    clock = ws.clock()
    objects = [ws.object("o" * 1000 + tail) for tail in ("", "a", "b")] + [ws.object("o" * 520), ws.object("o" * 521)]
    for number, name in enumerate(objects):
        ws("entry.put", key=f"o{number}", value=1, deps=[name], fetched_at=clock)
    ws("action.record", writes=[objects[1]])
    assert [ws.verdict(f"o{number}") for number in range(5)] == ["fresh", "dirty", "fresh", "fresh", "fresh"]


def test_paths_that_share_a_long_beginning_are_different(ws: Workspace) -> None:
    deep = "/".join(["d" * 200] * 4)
    for name in ("a", "b"):
        ws.write(f"{deep}/{name}", "one")
        ws.put(name, f"file:{deep}/{name}", fetched_at=ws.clock())
    assert keys_of(ws("entry.list", touching=f"{deep}/a")) == ["a"]
    assert ws("action.record", writes=[f"file:{deep}/b"])["affects"]["keys"] == ["b"]
    assert ws("action.record", writes=[f"tree:{'d' * 200}"])["affects"]["count"] == 2
    ws.write(f"{deep}/a", "two")
    assert [ws.verdict(name) for name in "ab"] == ["dirty", "fresh"]


def test_a_list_keeps_to_a_verdict_or_a_standing(ws: Workspace) -> None:
    for name in ("a", "b", "c", "d"):
        ws.write(name, "one")
        ws.put(name, f"file:{name}")
    ws("entry.put", key="u", value=1)
    ws.write("b", "two")
    ws.write("d", "two")
    assert keys_of(ws("entry.list", verdict="dirty")) == ["b", "d"]
    assert keys_of(ws("entry.list", verdict="fresh")) == ["a", "c"]
    assert keys_of(ws("entry.list", verdict="unknown")) == ["u"]
    assert keys_of(ws("entry.list", verdict="dirty", prefix="d")) == ["d"]
    assert keys_of(ws("entry.list", standing="active")) == ["a", "b", "c", "d", "u"]
    first = ws("entry.list", verdict="fresh", limit=1)
    assert keys_of(first) == ["a"]
    assert keys_of(ws("entry.list", verdict="fresh", limit=5, after=first["after"])) == ["c"]


def test_a_list_of_what_a_path_touches(ws: Workspace) -> None:
    sh(ws, "mkdir -p src/sub other; echo > src/a.py; echo > src/sub/b.py; ln -s src linked")
    for key, dep in {
        "file": "file:src/a.py",
        "through link": "file:linked/a.py",
        "directory": "dir:src",
        "pattern": "glob:src/*.py",
        "deep pattern": "names:src/**/*.py",
        "tree": "tree:src",
        "whole": "tree:.",
        "other": "tree:other",
        "other file": "file:src/sub/b.py",
    }.items():
        ws.put(key, dep)
    everything = {"file", "through link", "directory", "pattern", "deep pattern", "tree", "whole"}
    assert set(keys_of(ws("entry.list", touching="src/a.py"))) == everything
    assert set(keys_of(ws("entry.list", touching=f"{ws.root}/src/a.py"))) == everything
    assert set(keys_of(ws("entry.list", touching="src/sub/b.py"))) == {"deep pattern", "tree", "whole", "other file"}
    assert set(keys_of(ws("entry.list", touching="elsewhere"))) == {"whole"}


def test_forgetting_takes_the_entry_and_everything_that_rests_on_it_knows(ws: Workspace) -> None:
    version = ws("entry.put", key="k", value=1, deps=[])["version"]
    ws("entry.put", key="on", value=1, deps=["entry:k"], fetched_at=ws.clock())
    assert ws("entry.forget", key="k")["gone"]
    assert ws.found("k") == ("unknown", "no-entry")
    assert "value" not in ws("entry.get", key="k", even_if=["unknown"])
    assert keys_of(ws("entry.list")) == ["on"]
    assert ws.found("on") == ("dirty", "entry-missing")
    try:
        assert not ws("entry.forget", key="k")["gone"]
    except RpcError as error:
        assert error.code == "entry.missing"  # noqa: PT017 - SPEC leaves both open
    assert ws("entry.put", key="k", value=1, deps=[])["version"] > version
    assert ws.verdict("on") == "dirty"


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


# ---- proofs


@pytest.mark.parametrize("written", ["file:f", "file:link/f", "file:d", "dir:d", "tree:.", "file:hard/../d/f"])
def test_the_strict_rule_calls_a_declared_write_dirty_without_reading(ws: Workspace, written: str) -> None:
    sh(ws, "mkdir d hard; echo one > d/f; ln -s d link; ln -s d/f f")
    ws.put("k", "file:d/f", fetched_at=ws.clock())
    assert ws.found("k", revalidate=False)[0] != "dirty"
    ws("action.record", writes=[written])
    assert ws.found("k", revalidate=False) == ("dirty", "touched")  # it, its real path, or a directory above
    assert ws.verdict("k") == "fresh"


def test_the_strict_rule_says_fresh_of_nothing_that_changed(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", fetched_at=ws.clock())
    ws.write("f", "two, and longer")
    assert ws.verdict("k", revalidate=False) != "fresh"
    os.unlink(ws.path("f"))
    assert ws.verdict("k", revalidate=False) != "fresh"


def test_the_strict_rule_answers_objects_and_the_empty_set(ws: Workspace) -> None:
    ws("entry.put", key="e", value=1, deps=[])
    ws("entry.put", key="o", value=1, deps=[ws.object("x")], fetched_at=ws.clock())
    assert ws.found("e", revalidate=False) == ("fresh", "no-dependencies")
    assert ws.found("o", revalidate=False) == ("fresh", "declared")
    ws("action.record", writes=[ws.object("x")])
    assert ws.found("o", revalidate=False) == ("dirty", "written")


@pytest.mark.parametrize("verify", ["auto", "content", "log"])
def test_whatever_proof_is_asked_for_a_change_is_seen(ws: Workspace, verify: str) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", fetched_at=ws.clock())
    answer = ws.check("k", verify=verify)
    if answer["verdict"] == "fresh":
        assert answer["checked"] == "content"
    elif verify != "log":
        pytest.fail(json.dumps(answer))
    ws.write("f", "two")
    assert ws.verdict("k", verify=verify) != "fresh"


def test_checked_is_the_weakest_proof_that_was_used(ws: Workspace) -> None:
    ws.write("f", "one")
    clock = ws.clock()
    ws("entry.put", key="o", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("entry.put", key="both", value=1, deps=[ws.object("x"), ws.dep("file:f")], fetched_at=clock)
    ws("entry.put", key="file", value=1, deps=[ws.dep("file:f")], fetched_at=clock)
    assert [ws.check(key)["checked"] for key in ("o", "both", "file")] == ["declared", "declared", "content"]


def test_what_cannot_be_read_in_time_is_unknown_and_nobody_else_waits(ws: Workspace) -> None:
    with open(ws.path("big"), "wb") as file:
        os.truncate(file.fileno(), 1 << 40)
    ws.write("f", "one")
    ws.put("k", "file:f")
    slow = ws.daemon.connect()
    big = {"dep": f"file:{ws.root}/big", "digest": "xxh3:" + "0" * 32}
    number = slow.send("deps.check", deps=[big], timeout_ms=600)
    assert ws.verdict("k") == "fresh"
    answer = slow.result(number)
    assert (answer["verdict"], answer["why"], one(answer)["why"]) == ("unknown", "timeout", "timeout")
    assert ws.verdict("k") == "fresh"


def test_a_store_through_a_mapping_that_moves_no_time_is_seen(ws: Workspace) -> None:
    path = ws.write("f", b"-" * 4096)
    ws.write("other")
    ws.put("other", "file:other")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:1] = b"a"  # the page is dirty from here on: later stores move no time
        ws.put("k", "file:f", "tree:.", "glob:*")
        for _ in range(500):  # other questions, so that the file is old when it is asked for
            ws.check("other")
        for number in range(100):
            assert ws.verdict("k") == "fresh"
            mapping[0:1] = b"b"
            assert ws.verdict("k") == "dirty", number
            mapping[0:1] = b"a"


def test_rewrites_within_one_tick_are_seen(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", "tree:.", "glob:*")
    for number in range(200):
        ws.write("f", "two")
        assert ws.verdict("k") == "dirty", number
        ws.write("f", "one")
        assert ws.verdict("k") == "fresh", number


@pytest.mark.parametrize("size", [100, 3 << 20], ids=["small", "large"])
def test_a_question_never_shares_a_reading_that_began_before_it(ws: Workspace, size: int) -> None:
    """Others ask the same without a pause; a change that was finished before a question is in its answer."""
    content = {b"a": b"a" * size, b"b": b"b" + b"a" * (size - 1)}
    ws.write("f", content[b"a"])
    ws.put("k", "file:f", "tree:.")
    stop = threading.Event()
    odd: list[Json] = []

    def hammer() -> None:
        rpc = ws.daemon.connect()
        while not stop.is_set():
            numbers = [rpc.send("entry.check", key="k", root=ws.root) for _ in range(4)]
            odd.extend(a for a in map(rpc.result, numbers) if a["verdict"] == "unknown" and a["why"] != "moving")

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with open(ws.path("f"), "r+b") as file:
            for number in range(30):
                os.pwrite(file.fileno(), b"b", 0)
                assert ws.verdict("k") == "dirty", number
                os.pwrite(file.fileno(), b"a", 0)
                assert ws.verdict("k") == "fresh", number
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [answer for answer in odd if answer["why"] != "timeout"] == []


def test_hundreds_of_questions_in_flight_are_all_answered(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f")
    numbers = [ws.rpc.send("entry.check", key="k", root=ws.root) for _ in range(500)]
    assert {ws.rpc.result(number)["verdict"] for number in numbers} == {"fresh"}


# ---- dependencies without an entry


def test_deps_check_judges_without_keeping_anything(ws: Workspace) -> None:
    ws.write("f", "one")
    clock = ws.clock()
    before = ws.clock()
    assert ws("deps.check", deps=[ws.dep("file:f"), ws.dep("tree:.")])["verdict"] == "fresh"
    assert ws("deps.check", deps=["file:f"], fetched_at=clock)["verdict"] == "unknown"
    assert ws("deps.check", deps=[ws.object("x")], fetched_at=clock)["verdict"] == "fresh"
    assert ws("deps.check", deps=[])["why"] == "no-dependencies"
    assert ws.rpc("log.since", clock=before)["records"] == []
    read = ws.dep("file:f")
    ws.write("f", "two")
    answer = ws("deps.check", deps=[read])
    assert (answer["verdict"], answer["why"]) == ("dirty", "changed")
    assert (one(answer)["was"], one(answer)["is"]) == (read["digest"], ws.digest("file:f"))
    ws("action.record", writes=[ws.object("x")])
    assert ws("deps.check", deps=[ws.object("x")], fetched_at=clock)["why"] == "written"
    assert keys_of(ws("entry.list")) == []


def test_a_snapshot_gives_a_digest_for_each_dependency_in_order(ws: Workspace) -> None:
    ws.write("d/f", "one")
    snapshot = ws("deps.snapshot", deps=["file:d/f", "file:none", "file:d", "tree:d", "glob:d/*", "dir:none"])
    assert snapshot["clock"]
    digests = [told["digest"] for told in snapshot["digests"]]
    assert [told["dep"] for told in snapshot["digests"]][:2] == ["file:d/f", "file:none"]
    assert digests[:3] == ["xxh3:" + xxhash.xxh3_128_hexdigest(b"one"), "absent", "type:dir"]
    row = b"f\0f\0" + xxhash.xxh3_128_digest(b"one") + b"\0"
    assert digests[3:] == ["xxh3:" + xxhash.xxh3_128_hexdigest(row)] * 2 + ["absent"]
    deps = [{"dep": dep, "digest": digest} for dep, digest in zip(["file:d/f", "file:none"], digests[:2], strict=True)]
    assert ws("deps.check", deps=deps)["verdict"] == "fresh"


# ---- chains


def pipelined(ws: Workspace, puts: list[dict[str, Json]]) -> list[Json]:
    numbers = [ws.rpc.send("entry.put", root=ws.root, **put) for put in puts]
    return [ws.rpc.result(number) for number in numbers]


def chain(ws: Workspace, length: int, first: Json) -> None:
    """`e0` rests on `first`, `eN` on `e(N-1)`, up to `length`: equal values keep their versions when put again."""
    pipelined(ws, [{"key": f"e{number}", "value": 1, "deps": []} for number in range(length + 1)])
    clock = ws.clock()
    puts = [
        {"key": f"e{number}", "value": 1, "deps": [f"entry:e{number - 1}"], "fetched_at": clock}
        for number in range(length, 0, -1)
    ]
    pipelined(ws, [*puts, {"key": "e0", "value": 1, "deps": first}])


def test_a_chain_of_1000_is_judged_and_a_deeper_one_says_so(ws: Workspace) -> None:
    ws.write("f", "one")
    chain(ws, 1002, [ws.dep("file:f")])
    assert ws.verdict("e1000") == "fresh"
    assert ws.found("e1002") == ("unknown", "too-deep")
    ws.write("f", "two")
    assert ws.found("e0") == ("dirty", "changed")
    assert ws.found("e1000") == ("dirty", "entry-dirty")
    assert ws.verdict("e1002") != "fresh"
    ws.write("f", "one")
    assert ws.verdict("e1000") == "fresh"


def test_a_lattice_of_entries_is_judged_once_each(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("l0", "file:f")
    ws.put("r0", "file:f")
    for number in range(1, 60):  # 2**59 ways from top to bottom
        clock = ws.clock()
        deps = [f"entry:l{number - 1}", f"entry:r{number - 1}"]
        pipelined(ws, [{"key": f"{side}{number}", "value": 1, "deps": deps, "fetched_at": clock} for side in "lr"])
    assert ws.verdict("l59") == "fresh"
    ws.write("f", "two")
    assert ws.found("l59") == ("dirty", "entry-dirty")


def test_an_entry_is_as_good_as_what_it_rests_on(ws: Workspace) -> None:
    ws("entry.put", key="unknown", value=1)
    ws("entry.put", key="fresh", value=1, deps=[])
    clock = ws.clock()
    ws("entry.put", key="a", value=1, deps=["entry:fresh"], fetched_at=clock)
    ws("entry.put", key="b", value=1, deps=["entry:unknown"], fetched_at=clock)
    ws("entry.put", key="c", value=1, deps=["entry:none"], fetched_at=clock)
    assert ws.verdict("a") == "fresh"
    assert ws.found("b") == ("unknown", "entry-unknown")
    assert ws.found("c") == ("dirty", "entry-missing")
    ws("entry.put", key="fresh", value=1, deps=[])  # an equal value keeps its version
    assert ws.verdict("a") == "fresh"
    ws("entry.put", key="fresh", value=2, deps=[])
    assert ws.found("a") == ("dirty", "entry-replaced")


# ---- other namespaces

PEER = """
import json, os, socket, sys
if sys.argv[2]:
    os.chroot(sys.argv[2]); os.chdir("/")
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); f = s.makefile("rb")
for request in json.loads(sys.argv[3]):
    s.sendall(json.dumps(request).encode() + b"\\n"); print(f.readline().decode(), end="")
"""


def ask_from(ws: Workspace, prefix: list[str], chroot: str, requests: list[tuple[str, Json]]) -> list[Json]:
    lines = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests)
    ]
    path = "/" + os.path.relpath(ws.daemon.socket, chroot) if chroot else ws.daemon.socket
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PEER, path, chroot, json.dumps(lines)],
        env=clean_environment(ws.daemon.home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def may_unshare() -> bool:
    return (
        os.geteuid() == 0
        and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("how", ["mount namespace", "root directory"])
def test_a_peer_of_another_namespace_gets_unknown_for_paths_alone(ws: Workspace, how: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a namespace and to change the root directory")
    if how == "mount namespace" and not may_unshare():
        pytest.skip("no mount namespace may be made here")
    ws.write("f", "one")
    clock = ws.clock()
    ws.put("file", "file:f")
    ws.put("tree", "tree:.")
    ws("entry.put", key="object", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("entry.put", key="empty", value=1, deps=[])
    ws("entry.put", key="derived", value=1, deps=["entry:file"], fetched_at=ws.clock())
    keys = ["file", "tree", "object", "empty", "derived"]
    prefix = ["unshare", "--mount"] if how == "mount namespace" else []
    chroot = "" if prefix else ws.daemon.home
    replies = ask_from(ws, prefix, chroot, [("entry.check", {"keys": keys, "root": ws.root})])
    verdicts = replies[0]["result"]["verdicts"]
    assert {key: (answer["verdict"], answer["why"]) for key, answer in verdicts.items()} == {
        "file": ("unknown", "namespace"),
        "tree": ("unknown", "namespace"),
        "object": ("fresh", "declared"),
        "empty": ("fresh", "no-dependencies"),
        "derived": ("unknown", "entry-unknown"),
    }
    assert ws.verdict("file") == "fresh"


# ---- many at once


def test_pipelined_requests_see_every_request_answered_before_they_were_sent(ws: Workspace) -> None:
    ws.write("f", "0")
    numbers = []
    for number in range(50):
        ws("entry.put", key="k", value=number, deps=[])
        numbers.append((number, ws.rpc.send("entry.get", key="k", root=ws.root)))
    seen = [ws.rpc.result(request)["value"] for _, request in numbers]
    assert all(value >= number for value, (number, _) in zip(seen, numbers, strict=True))


def test_many_clients_at_once_get_their_own_answers(ws: Workspace) -> None:
    ws.write("f", "one")
    wrong: list[str] = []

    def client(name: str) -> None:
        mine = Workspace(ws.daemon, ws.root, ws.tag)
        rpc = ws.daemon.connect()
        for number in range(30):
            put = rpc(
                "entry.put", **mine.fill("entry.put", {"key": name, "value": number, "deps": [mine.dep("file:f")]})
            )
            got = rpc("entry.get", key=name, root=ws.root)
            if (got["value"], got["version"], got["verdict"]) != (number, put["version"], "fresh"):
                wrong.append(json.dumps(got))

    threads = [threading.Thread(target=client, args=(f"client-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_daemon_that_was_down_still_tells_paths_by_their_digests(own: Workspace) -> None:
    own.write("f", "one")
    own.write("g", "one")
    own.put("f", "file:f", "dir:.")
    own.put("g", "file:g")
    own.daemon.stop()
    own.write("g", "two")
    own.daemon.start()
    assert own.found("f")[0] == "fresh"
    assert own.found("g") == ("dirty", "changed")
    own.daemon.kill9()
    own.write("g", "one")
    own.daemon.start()
    assert own.verdict("g") == "fresh"
