"""What is imported: never fresher than it is, never in the way of what is fresh, and each line alone."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest
from carrying import everything, exported, portable, taken
from support import MIB, SHOWN, Daemon, Json, Workspace, records_since

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def there(make_daemon: Callable[..., Daemon], own: Workspace) -> Daemon:
    """Another daemon with a store of its own that watches the same directory."""
    return make_daemon(roots=[own.root]).start().scanned()


@pytest.fixture
def other(there: Daemon, own: Workspace) -> Workspace:
    """The same directory behind that daemon."""
    return Workspace(there, own.root, own.tag)


# no false fresh


def test_what_changed_since_it_was_read_is_dirty_where_it_arrives(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    own.put("k", "file:a")
    lines = exported(own)
    own.write("a", "two")
    taken(other, lines)
    assert other.found("k") == ("dirty", "changed")
    own.write("a", "one")
    assert other.found("k") == ("fresh", "same")


def test_objects_are_unknown_where_they_arrive(own: Workspace, other: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=["object:svc"], fetched_at=own.clock())
    assert own.found("k") == ("fresh", "declared")
    taken(other, exported(own))
    assert other.found("k") == ("unknown", "gap")


def test_silence_proves_nothing_of_what_was_imported(own: Workspace, other: Workspace) -> None:
    own.write("a")
    own("entry.put", key="k", value=1, deps=["a"], as_of="put")
    taken(other, exported(own))
    other.clock()
    assert other.check("k", verify="log")["checked"] in SHOWN
    assert other.found("k", revalidate=False)[0] != "fresh"
    own.write("a", "changed")
    assert other.verdict("k", verify="log") == "dirty"


def test_a_clock_of_another_log_is_worth_nothing_after_a_restart_either(own: Workspace, other: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=["object:svc", "entry:nobody"], fetched_at=own.clock())
    taken(other, exported(own))
    other.daemon.restart()
    assert other.found("k")[0] != "fresh"


def test_an_object_of_the_own_log_is_as_true_as_before_it_was_forgotten(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=["object:svc"], fetched_at=own.clock())
    own("entry.put", key="w", value=1, deps=["object:w"], fetched_at=own.clock())
    own("action.record", writes=["object:w"])
    lines = exported(own)
    for key in ("k", "w"):
        own("entry.forget", key=key)
    taken(own, lines)
    assert own.found("k") == ("fresh", "declared")
    assert own.found("w") == ("dirty", "written")
    own.daemon.restart()
    assert own.found("k") == ("unknown", "gap")


def test_a_clock_of_before_every_run_makes_nothing_fresh(own: Workspace) -> None:
    foreign = "c:" + "1" * 16 + ":" + "2" * 16 + ":5"
    own("entry.put", key="k", value=1, deps=["object:svc"], fetched_at=foreign)
    assert own.found("k") == ("unknown", "gap")
    lines = exported(own)
    own("entry.forget", key="k")
    taken(own, lines)
    assert own.found("k") == ("unknown", "gap")


def test_an_entry_below_is_known_by_the_version_that_it_got(own: Workspace, other: Workspace) -> None:
    own.write("a")
    own.put("base", "file:a", value=1)
    own("entry.put", key="on-top", value=2, deps=["entry:base"], fetched_at=own.clock())
    other("entry.put", key="something", value="so that numbers differ", deps=[])
    taken(other, exported(own))
    assert other.found("on-top") == ("fresh", "same")
    other.put("base", "file:a", value=9)
    assert other.found("on-top") == ("dirty", "entry-replaced")


def test_an_entry_below_that_did_not_come_with_it_is_unproven(own: Workspace, other: Workspace) -> None:
    own.write("a")
    own.put("base", "file:a", value=1)
    own("entry.put", key="on-top", value=2, deps=["entry:base"], fetched_at=own.clock())
    lines = exported(own)
    other.put("base", "file:a", value=1)
    taken(other, [line for line in lines if line["key"] == "on-top"])
    assert other.found("on-top") == ("unknown", "unproven")
    taken(other, [line for line in lines if line["key"] == "base"])  # the same value, so the same version
    assert other.found("on-top") == ("fresh", "same")


def test_an_entry_below_that_was_another_than_what_was_seen_stays_that(own: Workspace, other: Workspace) -> None:
    own.write("a")
    clock = own.clock()
    own.put("base", "file:a", value=1)
    own("entry.put", key="on-top", value=2, deps=["entry:base"], fetched_at=clock)
    assert own.found("on-top") == ("dirty", "entry-replaced")
    taken(other, exported(own))
    assert other.found("on-top") == ("dirty", "entry-replaced")


def test_a_copy_of_a_store_is_another_history_after_the_copy(make_daemon: Callable[..., Daemon]) -> None:
    """The same log, the same numbers, other values: what the copy wrote is not taken for what is here."""
    first = make_daemon().start()
    first.rpc("entry.put", key="base", value=0, deps=[], root=first.root)
    first.stop()
    copy = make_daemon(roots=[first.root])
    shutil.copytree(first.state, copy.state)
    copy.start()
    first.start()
    for daemon, value in ((copy, "there"), (first, "here")):
        daemon.rpc("entry.put", key="base", value=value, deps=[], root=first.root)
        clock = daemon.rpc("log.clock")["clock"]
        daemon.rpc("entry.put", key="top", value=value, deps=["entry:base"], fetched_at=clock, root=first.root)
    lines = copy.rpc("entry.export", root=first.root)["entries"]
    only_top = [line for line in lines if line["key"] == "top"]
    first.rpc("entry.forget", key="top", root=first.root)
    first.rpc("entry.import", entries=only_top)
    there = first.rpc("entry.check", key="top", root=first.root)
    assert (there["verdict"], there["why"]) == ("unknown", "unproven")


# what stands


def test_what_is_fresh_here_stays_and_what_comes_is_archived_as_late(own: Workspace, other: Workspace) -> None:
    own.write("a")
    own.put("k", "file:a", value="there")
    other.put("k", "file:a", value="here")
    lines = exported(own)
    assert taken(other, lines) == {"late": 1}
    assert other("entry.get", key="k")["value"] == "here"
    archived = [line for line in exported(other) if line["standing"] == "revoked"]
    assert [(line["value"], line["reason"]) for line in archived] == [("there", "late")]
    assert taken(other, lines) == {"unchanged": 1}


def test_what_is_fresh_displaces_what_is_not(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    other.put("k", "file:a", value="here")
    own.write("a", "two")
    own.put("k", "file:a", value="there")
    assert taken(other, exported(own)) == {"replaced": 1}
    assert other("entry.get", key="k")["value"] == "there"
    told = [(line["value"], line.get("reason")) for line in exported(other)]
    assert told == [("there", None), ("here", "superseded")]


def test_what_is_not_fresh_displaces_nothing(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    own.put("k", "file:a", value="there")
    other.put("k", "file:a", value="here")
    own.write("a", "two")
    assert taken(other, exported(own)) == {"late": 1}
    assert other("entry.get", key="k", even_if=["dirty"])["value"] == "here"


def test_an_equal_value_is_the_same_entry_and_keeps_its_version(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    version = other.put("k", "file:a", value={"x": 1, "y": 2})["version"]
    own.put("k", "file:a", value={"y": 2, "x": 1})
    assert taken(other, exported(own)) == {"unchanged": 1}
    assert [line["version"] for line in exported(other)] == [version]
    own.write("a", "two")
    assert other.verdict("k") == "dirty"
    own.put("k", "file:a", value={"x": 1, "y": 2})
    assert taken(other, exported(own)) == {"replaced": 1}, "it was read again there, and holds"
    assert [line["version"] for line in exported(other)] == [version]
    assert other.verdict("k") == "fresh"


# lines that are no lines


GOOD: Final = {"scope": "s", "key": "good", "version": 1, "deps": [], "value": 1}


def line(**fields: Any) -> Json:
    token = "c:" + "1" * 16 + ":" + "2" * 16 + ":5"
    told = GOOD | {"made": token, "renewed": token, "clock": token} | fields
    return {name: value for name, value in told.items() if value is not ...}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (17, "params"),
        ("text", "params"),
        ({}, "params"),
        (line(key=""), "limit"),
        (line(key="k" * 1025), "limit"),
        (line(unknown=1), "params"),
        (line(scope=...), "params"),
        (line(root="/r"), "params"),
        (line(scope=..., root="relative"), "params"),
        (line(made="nonsense"), "clock.malformed"),
        (line(clock="nonsense"), "clock.malformed"),
        (line(deps=...), "params"),
        (line(deps=["a"]), "params"),
        (line(deps=[{"dep": "bogus:x"}]), "dep.malformed"),
        (line(deps=[{"dep": "relative"}]), "root.ambiguous"),
        (line(deps=[{"dep": "/a", "digest": "md5:1"}]), "dep.malformed"),
        (line(deps=[{"dep": "entry:x", "digest": "version:1"}]), "dep.malformed"),
        (line(deps=[{"dep": "entry:good"}]), "dep.cycle"),
        (line(standing="hypothesis"), "params"),
        (line(at="tomorrow"), "params"),
        (line(at=5), "params"),
        (line(meta=[1]), "params"),
        (line(supports=-1), "params"),
    ],
)
def test_a_bad_line_is_told_and_the_others_are_taken(ws: Workspace, bad: Json, code: str) -> None:
    scope = f"{ws.tag}x"
    good = [line(key=f"{number}", scope=scope, made="c:" + "3" * 16 + f":{number:016x}:7") for number in range(3)]
    answer = ws.rpc("entry.import", entries=[good[0], bad, *good[1:]])
    assert [(one["index"], one["code"]) for one in answer["refused"]] == [(1, code)]
    assert answer["refused"][0]["message"]
    assert answer["added"] == 3
    assert len(ws.rpc("entry.export", scope=scope)["entries"]) == 3


def test_a_value_over_the_limit_is_refused_alone(ws: Workspace) -> None:
    answer = ws.rpc("entry.import", entries=[line(scope=f"{ws.tag}v", value="x" * (8 * MIB + 1))])
    assert [one["code"] for one in answer["refused"]] == ["entry.too_big"]


def test_a_cycle_over_two_lines_is_refused(ws: Workspace) -> None:
    scope = f"{ws.tag}c"
    one = line(scope=scope, key="one", deps=[{"dep": "entry:two"}])
    two = line(scope=scope, key="two", deps=[{"dep": "entry:one"}], made="c:" + "4" * 16 + ":" + "2" * 16 + ":9")
    answer = ws.rpc("entry.import", entries=[one, two])
    assert [(bad["index"], bad["code"]) for bad in answer["refused"]] == [(1, "dep.cycle")]


# another directory


def test_a_root_may_be_another_directory_where_it_arrives(make_daemon: Callable[..., Daemon], own: Workspace) -> None:
    own.write("src/a.py")
    own.put("k", "file:src/a.py", f"file:{own.root}/src/a.py", "glob:src/*.py", f"tree:{own.root}/src", value=1)
    moved = make_daemon().start()
    ws = Workspace(moved, os.path.join(moved.root, "odd é x"), "m-")
    ws.write("src/a.py")
    told = taken(ws, exported(own), moved={"source": own.root, "to": ws.root})
    assert told == {"added": 1}
    assert ws.found("k") == ("fresh", "same")
    own.write("src/a.py", "changed")
    assert ws.found("k") == ("fresh", "same")
    ws.write("src/a.py", "changed too")
    evidence = ws.check("k")["evidence"]
    assert len(evidence) == 4
    ours = [line["root"] for line in exported(ws)]
    assert ours == [ws.root]
    assert own.root not in json.dumps(exported(ws))


# crashes


def test_an_import_is_there_after_kill_9(own: Workspace, other: Workspace) -> None:
    everything(own)
    lines = exported(own)
    taken(other, lines)
    before = exported(other)
    other.daemon.kill9()
    other.daemon.start().scanned()
    assert exported(other) == before
    assert taken(other, lines) == {"unchanged": len(lines)}


@pytest.mark.parametrize("point", ["commit.filled", "commit.before", "commit.after"])
def test_an_import_that_was_cut_off_is_gone_on_with(
    own: Workspace, make_daemon: Callable[..., Daemon], point: str
) -> None:
    for number in range(100):
        own("entry.put", key=f"k{number:03}", value=number, deps=[])
    lines = exported(own)
    daemon = make_daemon(roots=[]).start(PROVD_KILL_AT=f"{point}:12")
    with pytest.raises((ConnectionError, OSError)):
        by_fives(daemon, lines)
    daemon.kill9()
    daemon.start()
    ws = Workspace(daemon, own.root, "")
    answer = ws.rpc("entry.import", entries=lines)
    assert answer["added"] + answer["unchanged"] == 100
    assert answer["unchanged"] > 0
    assert portable(exported(ws)) == portable(lines)
    numbers = [record["seq"] for record in records_since(ws.rpc, first(ws))]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def by_fives(daemon: Daemon, lines: list[Json]) -> None:
    """Twenty requests, each a commit, so that the twelfth comes, whatever else is committed."""
    for number in range(0, len(lines), 5):
        daemon.rpc("entry.import", entries=lines[number : number + 5])


def first(ws: Workspace) -> str:
    clock = ws.rpc("daemon.status")["oldest"]
    assert isinstance(clock, str)
    return clock
