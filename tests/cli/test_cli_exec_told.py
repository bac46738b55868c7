"""exec: what it tells of what changed, and of the entries that are dirty."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon
from real_cli import cli
from support import HANG, records_since

from provd.cli.screens import changed

if TYPE_CHECKING:
    from real_cli import RealCli

__all__ = ["cli"]


def test_what_was_dirty_before_is_not_told_as_its_doing(cli: RealCli) -> None:
    for name in ("before", "made"):
        cli.write(name, "one\n")
    cli("clock")
    for name in ("before", "made"):
        cli("put", name, "--value", "v", "--dep", name, "--as-of-now")
    cli("put", "above", "--value", "v", "--dep", "entry:before", "--fetched-at", cli("clock").out.strip())
    cli.write("before", "two\n")

    nothing = cli.process("exec", "--write", "before", "--", "true").err
    other = cli.process("exec", "--write", ".", "--", "sh", "-c", "echo two > made").err
    again = cli.process("exec", "--write", "before", "--", "sh", "-c", "echo three > before").err

    otherwise = "  dirty, by nothing that was seen to change meanwhile: "
    assert otherwise in nothing
    assert "dirty now" not in nothing
    assert "  dirty now: made\n" in other
    assert otherwise in other
    assert otherwise not in again
    assert "  dirty now: " in again


def test_what_passed_by_the_members_that_differ_is_not_what_made_their_set_dirty(cli: RealCli) -> None:
    os.mkdir("q")
    cli("clock")
    cli("put", "k", "--value", "v", "--dep", "glob:q/*.rs", "--as-of-now")
    cli.write("q/a.rs", "one\n")

    beside = cli.process("exec", "--write", "q", "--", "touch", "q/b.txt").err
    again = cli.process("exec", "--write", "q", "--", "sh", "-c", "echo two > q/a.rs").err
    linked = cli.process("exec", "--write", ".", "--", "sh", "-c", "ln -s ../t q/l.rs; echo > t").err
    through = cli.process("exec", "--write", ".", "--", "sh", "-c", "echo two > t").err

    assert "  dirty, by nothing that was seen to change meanwhile: k\n" in beside
    assert "dirty now" not in beside
    assert [("  dirty now: k\n" in told) for told in (again, linked, through)] == [True, True, True]


def test_what_no_record_tells_of_is_not_told_as_its_doing(cli: RealCli) -> None:
    cli.write("f", "one\n")
    other = os.path.join(cli.daemon.outside, "another-name")
    os.link("f", other)
    cli("clock")
    cli("put", "k", "--value", "v", "--dep", "f", "--dep", "g", "--as-of-now")

    said = cli.process("exec", "--", "sh", "-c", f"echo two > {other}; echo 1 > g; rm g").err

    assert "  dirty, by nothing that was seen to change meanwhile: k\n" in said


def test_what_was_made_and_moved_is_told_by_the_path_that_is_there(cli: RealCli) -> None:
    script = "mkdir a; echo 1 > a/f; mv a b; echo 1 > old; mv old new"

    got = cli.process("exec", "--report", "-", "--", "sh", "-c", script)

    told = {one["path"]: one["kind"] for one in json.loads(got.out.splitlines()[-1])["changed"]}
    there = {path for path, kind in told.items() if kind != "deleted"}
    assert {os.path.join(cli.root, name) for name in ("b", "b/f", "new")} <= there
    assert [path for path in there if not os.path.lexists(path)] == []


def _hashed(cli: RealCli, clock: str) -> None:
    """Asks until no digest since a clock is to come any more."""
    deadline = time.monotonic() + HANG
    while True:
        found = records_since(cli.daemon.rpc, clock)
        told = {record["of"] for record in found if record["type"] == "hashed"}
        if all(record["seq"] in told for record in found if record.get("digest_state") == "pending"):
            return
        assert time.monotonic() < deadline


def test_what_was_written_as_it_was_is_not_told_as_a_change(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    told = []
    for script in ("echo one > f", "echo one > f", "echo one > t; mv t f; echo > g", "echo two > f", "echo one > f"):
        told.append(cli.process("exec", "--", "sh", "-c", script).err.replace(f"{cli.root}/", ""))
        _hashed(cli, clock)

    same = "  modified f  (the same content)\n"
    assert [same in each for each in told] == [False, True, True, False, False]
    assert "): 1 path written meanwhile with the content that it had\n" in told[1]
    assert "): 1 path changed meanwhile, 1 written with the content that it had\n" in told[2]
    assert all("): 1 path changed meanwhile\n" in told[at] for at in (0, 3, 4))


_HAD = {"seq": 3, "type": "mutation", "kind": "modified", "path": "/r/d/f", "digest": "xxh3:1"}
_UNSURE: list[dict[str, Any]] = [
    {"type": "gap", "scope": "/r", "reason": "events lost"},
    {"type": "mutation", "kind": "moved", "path": "/r/d", "from": "/r/e", "digest": None},
    {"type": "mutation", "kind": "modified", "path": "/r/d/f", "digest": None},
    {"type": "mutation", "kind": "deleted", "path": "/r/d", "digest": None},
]


@pytest.mark.parametrize(
    "between", [{"type": "mutation", "kind": "attrib", "path": "/r/d/f", "digest": None}, *_UNSURE]
)
def test_what_was_there_before_is_known_only_where_nothing_came_between(between: dict[str, Any]) -> None:
    now = _HAD | {"seq": 9, "size": 1}
    answers = {
        "log.since": {"records": [_HAD, between | {"seq": 4}, now]},
        "deps.snapshot": {"digests": [{"dep": "file:/r/d/f", "digest": "xxh3:1"}]},
    }
    client = Mock(call=lambda method, **_: answers[method])

    assert changed.same(client, [now], 5) == (set() if between in _UNSURE else {b"/r/d/f"})


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("mv a c", ["moved c from a"]),
        ("mv a d; mv d c; echo 2 >> c", ["moved c from a"]),
        ("echo 2 >> a; mv a c", ["moved c from a"]),
        ("mv a c; rm c", ["deleted a"]),
        ("mv a b; rm b", ["deleted b", "deleted a"]),
        ("sed -i s/1/2/ a", ["modified a"]),
        ("echo 1 > new; mv new c", ["created c"]),
        ("mv a a~; echo 2 > a; rm a~", ["modified a"]),
        ("echo 2 >> b; mv a t; mv b a; mv t b", ["moved a from b", "moved b from a"]),
        ("mv a c; mv b c", ["deleted a", "moved c from b"]),
    ],
)
def test_what_was_moved_is_told_by_what_it_came_to(cli: RealCli, script: str, told: list[str]) -> None:
    for name in ("a", "b"):
        cli.write(name, "1\n")
    cli("clock")

    said = cli.process("exec", "--", "sh", "-c", script).err.replace(f"{cli.root}/", "").splitlines()

    count = len({name for line in told for name in line.split()[1::2]})
    assert f": {count} path{'s' if count > 1 else ''} changed meanwhile" in said[0]
    assert [line.strip() for line in said[1 : 1 + len(told)]] == told


def test_what_is_left_of_a_run_of_the_daemon_that_ended_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {"id": 5, "at": "1", "writes": [], "paths": [], "hold": True, "waiting": True, "session": "crash"}
    own = {"id": 9, "at": "2", "writes": [], "paths": [], "hold": True}
    mutation = {"type": "mutation", "seq": 10, "kind": "created", "path": "/n", "origin": "watch"}
    answers = {
        "daemon_hello": HELLO | {"roots": ["/"]},
        "log_clock": {"clock": "c:8"},
        "action_begin": {"id": 9, "seq": 9, "clock": "c:9", "affects": {"count": 0, "keys": []}},
        "action_list": {"actions": [left, own]},
        "log_since": {"records": [mutation], "clock": "c:10", "complete": True},
        "action_end": {"id": 9, "clock": "c:11"},
    }
    # The real ones need a process without other threads or children.
    monkeypatch.setattr("provd.cli.processes.keeper.run", lambda *_, **__: 0)
    monkeypatch.setattr("provd.cli.processes.orphans.adopt", lambda: True)
    with FakeDaemon(**answers) as daemon:
        fake = Cli(daemon, capsys, monkeypatch)

        got = fake("exec", "--", "true")
        listed = fake("action", "ls").out

    them = "action 5 of session crash, begun before the daemon was started"
    assert f"  others were at work ({them}), so none of it is kept as its doing: --write names what is" in got.err
    assert "5  says nothing of what it writes  (at " in listed
    assert "ends with its connection, begun before the daemon was started, and ends soon if nobody takes" in listed
    assert "True" not in listed
