"""Verdicts as a client sees them: the answer and its evidence, scopes and roots, by SPEC 2, 3 and 9."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from asking import one, sh
from support import Daemon, Json, Workspace, unwire

if TYPE_CHECKING:
    from collections.abc import Callable

VERDICT = {"key", "verdict", "usable", "standing", "version", "why", "clock", "checked", "evidence", "more"}


# ---- the answer


def test_a_verdict_has_its_ten_fields_whatever_it_says(ws: Workspace) -> None:
    ws.write("f")
    put = ws.put("k", "file:f")
    assert {"key", "version", "absent", "unproven", "verdict"} <= put.keys()
    fresh = ws.check("k", verify="content")
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
    assert unknown["checked"] == "log", "there was nothing to be read"


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


def test_of_a_link_that_leads_nowhere_a_glob_has_the_type_and_a_file_tells_how(ws: Workspace) -> None:
    sh(ws, "mkdir d; ln -s l2 d/l1; ln -s l1 d/l2")
    for dep in ("glob:d/l*", "file:d/l1"):
        put = ws("entry.put", key=dep, value=1, deps=[ws.dep(dep)])
        assert put["verdict"]["verdict"] == "fresh"
    sh(ws, "rm d/l2")
    sh(ws, "ln -s nowhere d/l2")
    assert ws.found("glob:d/l*") == ("fresh", "same")
    assert ws.found("file:d/l1") == ("dirty", "deleted")


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
