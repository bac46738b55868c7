"""exec: what it tells of what changed, and of the entries that are dirty."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon
from real_cli import cli

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
    monkeypatch.setattr("provd.cli.processes.child.run", lambda _, **__: 0)
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
