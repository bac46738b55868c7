"""Each kind of change is in the log when `log.since` answers: SPEC 7 for single files and directories."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from asking import contiguous, sh
from support import Json, Workspace, records_since, unwire
from watching import content_digest, mutations, name_of, of_path, put_by_clock, replayed, settled, since, told, walk

if TYPE_CHECKING:
    from collections.abc import Callable


def last_of(records: list[Json], path: bytes) -> Json:
    """The last mutation of a path that tells of its content, with the digest that came later."""
    record = [r for r in of_path(records, path) if r["kind"] != "attrib"][-1]
    later = [r for r in records if r["type"] == "hashed" and r["of"] == record["seq"]]
    assert len(later) == (record["digest_state"] == "pending")
    for hashed in later:
        assert unwire(hashed["path"]) == path
        record = {**record, "digest": hashed["digest"], "digest_state": hashed["digest_state"]}
    return record


def whole(record: Json) -> Json:
    """A mutation's record with all its fields, in their shapes."""
    fields = {"seq", "at", "type", "kind", "path", "mtime_ns", "size", "digest", "digest_state", "origin", "actor"}
    assert fields <= record.keys(), record
    assert record["kind"] in {"created", "modified", "deleted", "moved", "attrib"}
    assert record["digest_state"] in {"done", "pending", "superseded", "unreadable", None}
    assert record["origin"] == "watch"
    assert record["actor"] == {"unknown": True}
    assert record["at"].isdecimal()
    assert ("from" in record) == (record["kind"] == "moved")
    assert (record["digest"] is not None) == (record["digest_state"] == "done")
    return record


def test_a_new_file_is_told_with_its_size_time_and_digest(watched: Workspace) -> None:
    clock = watched.clock()
    path = watched.write("f", "content\n")
    records = settled(watched.daemon, clock)
    mine = [whole(record) for record in of_path(records, path)]
    assert mine[0]["kind"] == "created"
    assert {record["kind"] for record in mine[1:]} <= {"modified", "attrib"}
    last = last_of(records, path)
    assert (last["size"], last["digest"]) == (8, content_digest(path))
    assert last["mtime_ns"] == str(os.stat(path).st_mtime_ns)


@pytest.mark.parametrize("how", ["truncated and written", "in place", "appended", "cut short", "mapped"])
def test_a_write_into_a_file_is_a_modification(watched: Workspace, how: str) -> None:
    path = watched.write("f", "one\n")
    clock = watched.clock()
    script = {
        "truncated and written": "printf two-and-longer > f",
        "in place": "printf T | dd of=f conv=notrunc status=none",
        "appended": "printf more >> f",
        "cut short": "truncate -s 1 f",
        "mapped": "python3 -c \"import mmap; f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'X'\"",
    }[how]
    sh(watched, script)
    records = settled(watched.daemon, clock)
    mine = of_path(records, path)
    assert {record["kind"] for record in mine} <= {"modified", "attrib"}, mine
    last = last_of(records, path)
    assert (last["kind"], last["size"], last["digest"]) == ("modified", os.stat(path).st_size, content_digest(path))


def test_a_deleted_file_is_told_and_has_no_size_or_digest(watched: Workspace) -> None:
    path = watched.write("f")
    clock = watched.clock()
    os.unlink(path)
    (record,) = [r for r in of_path(mutations(watched, clock), path) if r["kind"] != "attrib"]
    whole(record)
    assert (record["kind"], record["size"], record["digest"], record["digest_state"]) == ("deleted", None, None, None)


def test_changed_permissions_and_times_are_attributes(watched: Workspace) -> None:
    path = watched.write("f")
    clock = watched.clock()
    os.chmod(path, 0o600)
    assert [record["kind"] for record in of_path(mutations(watched, clock), path)] == ["attrib"]
    clock = watched.clock()
    os.utime(path, ns=(1, 2))
    mine = of_path(mutations(watched, clock), path)
    assert mine, "a changed time is told"
    assert mine[-1]["mtime_ns"] == "2"


def test_a_file_moved_within_is_told_with_where_it_came_from(watched: Workspace) -> None:
    path = watched.write("a/f", "content\n")
    watched.write("b/g")
    clock = watched.clock()
    os.rename(path, watched.path("b/f"))
    (record,) = [r for r in mutations(watched, clock) if r["kind"] != "attrib"]
    assert (whole(record)["kind"], name_of(watched, record), name_of(watched, record, "from")) == (
        "moved",
        b"b/f",
        b"a/f",
    )
    assert record["size"] == 8
    replayed(watched.daemon, clock, {path, *map(watched.path, ("a", "b", "b/g"))}).agrees(watched.root)


def test_an_atomic_save_names_the_file_and_leaves_nothing_of_the_temporary(watched: Workspace) -> None:
    path = watched.write("f", "one\n")
    clock = watched.clock()
    watched.write(".f.tmp", "two, longer\n")
    os.replace(watched.path(".f.tmp"), path)
    records = settled(watched.daemon, clock)
    last = last_of(records, path)
    assert (last["kind"], unwire(last["from"])) == ("moved", watched.path(".f.tmp"))
    assert (last["size"], last["digest"]) == (12, content_digest(path))
    replayed(watched.daemon, clock, {path}).agrees(watched.root)


def test_a_file_moved_over_another_replaces_it(watched: Workspace) -> None:
    watched.write("a", "aaa")
    watched.write("b", "b")
    clock = watched.clock()
    os.rename(watched.path("a"), watched.path("b"))
    replay = replayed(watched.daemon, clock, map(watched.path, ("a", "b")))
    replay.agrees(watched.root)
    assert replay.names == {watched.path("b")}


def test_directories_are_told_too(watched: Workspace) -> None:
    clock = watched.clock()
    os.mkdir(watched.path("d"))
    os.mkdir(watched.path("d/e"))
    os.rmdir(watched.path("d/e"))
    os.rename(watched.path("d"), watched.path("c"))
    os.rmdir(watched.path("c"))
    found = [(kind, name) for kind, name in told(watched, clock) if kind != "attrib"]
    assert found[-1] == ("deleted", b"c")
    assert replayed(watched.daemon, clock).names == set()
    assert all(record["digest_state"] is None for record in mutations(watched, clock))


def test_links_and_special_files_are_told_without_a_digest(watched: Workspace) -> None:
    watched.write("f", "content\n")
    clock = watched.clock()
    os.symlink("f", watched.path("link"))
    os.symlink("nowhere", watched.path("dangling"))
    os.symlink(".", watched.path("loop"))
    os.mkfifo(watched.path("fifo"))
    records = settled(watched.daemon, clock)
    for name in ("link", "dangling", "loop", "fifo"):
        mine = of_path(records, watched.path(name))
        assert mine[0]["kind"] == "created", name
        assert {(record["digest"], record["digest_state"], record["size"]) for record in mine} == {(None, None, None)}
    clock = watched.clock()
    sh(watched, "ln -sfn d link; rm fifo")
    kinds = told(watched, clock)
    assert kinds[-1] == ("deleted", b"fifo")
    assert b"link" in {name for _, name in kinds}
    os.chmod(watched.path("f"), 0o644)
    assert b"loop/f" not in {name for _, name in told(watched, clock)}, "links are not followed"


def test_a_second_name_of_a_file_is_a_new_path(watched: Workspace) -> None:
    path = watched.write("f", "content\n")
    clock = watched.clock()
    os.link(path, watched.path("g"))
    records = settled(watched.daemon, clock)
    last = last_of(records, watched.path("g"))
    assert (last["kind"], last["size"], last["digest"]) == ("created", 8, content_digest(path))


@pytest.mark.parametrize(
    "change",
    [
        lambda ws: sh(ws, "rm x; mkdir x; printf deep > x/y; rm -r x; printf again > x"),
        lambda ws: sh(ws, "rm x; ln -s other x; rm x; mkfifo x; rm x; printf file > x"),
        lambda ws: sh(ws, "rm x; mkdir -p x/y/z; printf deep > x/y/z/f"),
        lambda ws: sh(ws, "mkdir d; printf in > d/f; mv d e; rm x; mv e x"),
        lambda ws: sh(ws, "ln -s other new; mv -T new x"),
    ],
    ids=["file directory file", "file link fifo file", "file tree", "directory moved there", "link moved over"],
)
def test_a_path_that_changes_its_type_ends_as_what_is_there(
    watched: Workspace, change: Callable[[Workspace], None]
) -> None:
    watched.write("x", "file\n")
    before = walk(watched.root)
    clock = watched.clock()
    change(watched)
    replayed(watched.daemon, clock, before).agrees(watched.root)
    answer = since(watched, clock)  # what came and went in a new directory before it was watched is a gap there
    gaps = [record["scope"] for record in answer["records"] if record["type"] == "gap"]
    assert answer["complete"] is not bool(gaps)
    assert all(place.startswith(watched.path("x")) for place in gaps)


def test_a_change_of_a_dependency_is_in_the_log_before_the_answer_says_dirty(watched: Workspace) -> None:
    """The evidence names the mutation, right after the write."""
    for number in range(50):
        path = watched.write("f", f"{number}\n")
        watched.put("k", "file:f", "tree:.")
        watched.write("f", f"{number}, changed\n")
        answer = watched.check("k")
        assert answer["verdict"] == "dirty"
        (item,) = [item for item in answer["evidence"] if item["dep"] == "file:f"]
        mutation = item["mutation"]
        assert unwire(mutation["path"]) == path
        assert mutation["kind"] == "modified" or number == 0  # making it and writing it again may be one record
        assert mutation["actor"] == {"unknown": True}


@pytest.mark.parametrize(
    ("dep", "change", "kind", "name"),
    [
        ("file:f", "rm f", "deleted", "f"),
        ("file:new", "printf x > new", {"created", "modified"}, "new"),
        ("file:f", "printf x > .t; mv .t f", "moved", "f"),
        ("file:f", "mv f away", "moved", "away"),
        ("file:link", "printf x > f", "modified", "f"),
        ("file:link", "ln -s g n; mv -T n link", "moved", "link"),
        ("file:d/a", "mv d elsewhere", "moved", "elsewhere"),
        ("tree:d", "printf x > d/a", "modified", "d/a"),
        ("tree:d", "rm d/a", "deleted", "d/a"),
        ("dir:d", "printf x > d/new", {"created", "modified"}, "d/new"),
        ("glob:d/*", "printf x > d/a", "modified", "d/a"),
        ("names:d/*", "rm d/a", "deleted", "d/a"),
    ],
)
def test_the_evidence_names_the_newest_mutation_that_touched_the_dependency(
    watched: Workspace, dep: str, change: str, kind: str | set[str], name: str
) -> None:
    watched.write("f", "one\n")
    watched.write("g", "two\n")
    watched.write("d/a", "one\n")
    os.symlink("f", watched.path("link"))
    watched.clock()  # what was made is told; what follows is told apart
    watched.put("k", dep)
    sh(watched, change)
    (item,) = watched.check("k")["evidence"]
    mutation = item["mutation"]
    assert mutation["kind"] in ({kind} if isinstance(kind, str) else kind), mutation
    assert unwire(mutation["path"]) == watched.path(name), mutation


def test_mutations_are_numbered_among_the_other_records_without_holes(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(30):
        watched.write(f"f{number}")
        put_by_clock(watched, "k", f"file:f{number}")
        watched("action.record", writes=[watched.object("x")])
    records = records_since(watched.rpc, clock, limit=7)
    assert contiguous(records)
    assert [r["seq"] for r in records if r["type"] == "mutation"] == sorted(
        r["seq"] for r in records if r["type"] == "mutation"
    )
    assert {r["type"] for r in records} >= {"mutation", "entry", "action"}


def test_the_times_of_records_are_those_of_the_changes(watched: Workspace) -> None:
    clock = watched.clock()
    before = time.time_ns()
    watched.write("f")
    told(watched, clock)
    after = time.time_ns()
    assert all(before - 10**9 <= int(record["at"]) <= after + 10**9 for record in mutations(watched, clock))


def test_log_since_of_some_paths_tells_of_those_alone(watched: Workspace) -> None:
    clock = watched.clock()
    for name in ("a/f", "b/f", "bb"):
        watched.write(name)
    paths = {unwire(r["path"]) for r in since(watched, clock, "b")["records"] if r["type"] == "mutation"}
    assert paths == {watched.path("b"), watched.path("b/f")}


def test_a_barrier_writes_nothing_where_nothing_happened(own: Workspace) -> None:
    before = own.clock()
    own.write("f")
    settled(own.daemon, before)
    clock = own.clock()
    assert [own.clock() for _ in range(20)] == [clock] * 20
    assert since(own, clock) == {"records": [], "clock": clock, "complete": True}
