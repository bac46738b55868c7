"""put, ls, forget."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon, Refusal, cli, in_turn, verdict

from provd.core.clock import SET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["cli"]

_PUT = {"key": "k", "version": 12, "absent": [], "unproven": [], "verdict": verdict()}


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon(entry_put=_PUT) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def _watched(cli: Cli) -> None:
    cli.fake.answers["daemon.hello"] = HELLO | {"roots": [cli.here]}


def test_put(cli: Cli) -> None:
    got = cli("put", "k", "--value", "x", "--dep", "f", "--dep", "object:o", "--fetched-at", "c:1")

    assert (got.out, got.err) == ("k  version 12\n", "")
    sent = {"key": "k", "value": "x", "deps": [f"file:{cli.here}/f", "object:o"], "fetched_at": "c:1"}
    assert cli.fake.params_of("entry.put") == sent
    assert cli("put", "k", "--no-deps", "--json").json == _PUT


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["--no-deps"], {"deps": []}),
        (["--no-deps", "--no-value"], {"deps": []}),
        (["--no-deps", "--value", ""], {"deps": [], "value": ""}),
        (["--no-deps", "--value", "[1]"], {"deps": [], "value": "[1]"}),
        (["--no-deps", "--value", "[1]", "--json-value"], {"deps": [], "value": [1]}),
        (["--dep", "/f", "--as-of-now"], {"deps": ["file:/f"], "as_of": "put"}),
        (
            ["--dep", "/f", "--dep", "object:o", "--fetched-at", "c:1"],
            {"deps": ["file:/f", "object:o"], "fetched_at": "c:1"},
        ),
        (["--no-deps", "--based-on", "3", "--op", "o1"], {"deps": [], "based_on": 3, "op": "o1"}),
        (["--no-deps", "--session", "s", "--turn", "4"], {"deps": [], "session": "s", "turn": 4}),
        (["--no-deps", "--turn", "t4"], {"deps": [], "turn": "t4"}),
        (["--no-deps", "--meta", '{"a": 1}'], {"deps": [], "meta": {"a": 1}}),
        (["--no-deps", "--scope", "global"], {"deps": [], "scope": "global"}),
        (["--no-deps", "--root", "/r"], {"deps": [], "root": "/r"}),
    ],
)
def test_what_put_sends(cli: Cli, arguments: list[str], sent: dict[str, Any]) -> None:
    assert ("the key is found with --root only" in cli("put", "k", *arguments).err) == ("root" in sent)
    assert cli.fake.params_of("entry.put") == {"key": "k"} | sent


def test_a_value_from_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes("é\r\n".encode())

    cli("put", "k", "--no-deps", "--value-file", str(tmp_path / "v"))

    assert cli.fake.params_of("entry.put")["value"] == "é\r\n"


def test_a_value_from_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}\n')))

    cli("put", "k", "--no-deps", "--value-file", "-", "--json-value")

    assert cli.fake.params_of("entry.put")["value"] == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dep", "f"], "--dep needs --fetched-at or --as-of-now"),
        (["--dep", "f", "--no-deps", "--as-of-now"], "--dep and --no-deps exclude each other"),
        (["--sums", "binary", "--no-deps"], "--sums and --no-deps exclude each other"),
        (["--sums", "-", "--value-file", "-"], "both read stdin"),
        (["--value", "x", "--no-value"], "exclude each other"),
        (["--value", "x", "--value-file", "f"], "exclude each other"),
        (["--json-value"], "--json-value needs a value"),
        (["--value", "{", "--json-value"], "the value is not JSON"),
        (["--value", "NaN", "--json-value"], "NaN is not JSON"),
        (["--value", "[" * 100_000, "--json-value"], "the value is not JSON"),
        (["--value", b"\xff"], "--value is not UTF-8"),
        (["--value-file", "none"], "cannot read the value"),
        (["--value-file", "."], "cannot read the value"),
        (["--value-file", "binary"], "the value is not UTF-8"),
        (["--meta", "{"], "--meta is not JSON"),
        (["--based-on", "now"], "--based-on"),
    ],
)
def test_usage_of_put(cli: Cli, arguments: list[str | bytes], message: str) -> None:
    with open("binary", "wb") as file:
        file.write(b"\xff")

    got = cli("put", "k", *arguments, code=2)

    assert message in got.err
    assert "\n  next: " in got.err
    assert cli.fake.asked == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--json-value", "--value", "so it is"],
            """the value is not JSON: Expecting value (line 1, column 1): 'so it is'
  next: provd put k --json-value --value '{"name": [1, "a text"]}'  # """,
        ),
        (
            ["--meta", "{'a': 1}"],
            """--meta is not JSON: Expecting property name enclosed in double quotes (line 1, column 2): "'a': 1}"
  next: provd put k --meta '{"name": [1, "a text"]}'  # """,
        ),
        (["--meta", "[1"], "--meta is not JSON: Expecting ',' delimiter (line 1, column 3), where it ends\n"),
    ],
)
def test_of_what_is_no_json_it_is_told_where_and_how_it_is_written(cli: Cli, arguments: list[str], told: str) -> None:
    assert told in cli("put", "k", *arguments, code=2).err


def test_put_without_provenance_warns(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = _PUT | {"verdict": verdict("unknown", why="no-provenance")}

    got = cli("put", "k", "--value", "x")

    assert cli.fake.params_of("entry.put") == {"key": "k", "value": "x", "deps": None}
    assert got.err.count("provd: ") == 1
    assert "no-provenance" in got.err


def test_put_warns_of_what_is_less_than_it_seems(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = _PUT | {
        "absent": ["file:/gone", {"b64": "L/8="}],
        "unproven": [{"dep": "glob:/x/*"}, "entry:e"],
        "verdict": verdict("dirty", why="changed"),
    }

    got = cli("put", "k", "--no-deps", "--value", "x")

    assert got.out == "k  version 12\n"
    assert [line.split(":")[1].strip() for line in got.err.splitlines()] == [
        "absent",
        "absent",
        "unproven",
        "c=$(provd clock)  # before it is read again; then put with --fetched-at $c, or --as-of-now",
        "unproven",
        "c=$(provd clock)  # then get that entry, since its version is not known, and put with --fetched-at $c",
        "it is dirty at birth (changed)",
        "provd why k",
    ]
    assert "/\\xff" in got.err
    assert "provd: unproven: glob:/x/*: nothing shows what was read\n  next: c=" in got.err


def test_files_that_nothing_shows_are_summed_by_one_command_that_can_be_pasted(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = _PUT | {
        "unproven": ["file:/a (1)", "file:/b"],
        "verdict": verdict("unknown", why="unproven"),
    }

    err = cli("put", "k", "--no-deps", "--value", "x").err

    step = (
        "next: s=$(sha256sum '/a (1)' /b)  # before it is read again; then put with --sums - <<< \"$s\", or --as-of-now"
    )
    assert err.count("sha256sum") == 1
    assert f"  {step}\n" in err


def test_a_put_says_that_its_clock_is_spent(cli: Cli) -> None:
    item = {"dep": "file:/a", "why": "unproven", "detail": SET}
    cli.fake.answers["entry.put"] = _PUT | {
        "unproven": ["file:/a"],
        "verdict": verdict("unknown", why="unproven", evidence=[item]),
    }
    assert f"unproven: file:/a: {SET}\n" in cli("put", "k", "--no-deps", "--value", "x").err


def test_what_is_absent_has_no_sum_that_could_be_taken(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = _PUT | {
        "absent": ["file:/none"],
        "unproven": ["file:/a", "file:/none"],
        "verdict": verdict("unknown", why="unproven"),
    }

    err = cli("put", "k", "--no-deps", "--value", "x").err

    step = "c=$(provd clock)  # before it is read again; then put with --fetched-at $c, or --as-of-now"
    assert f"  next: {step}\n" in err
    assert "sha256sum" not in err


@pytest.mark.parametrize("place", [["--root", "/r s"], ["--scope", "s"]])
def test_a_next_step_names_the_place_of_the_key_and_the_daemon(cli: Cli, place: list[str]) -> None:
    cli.fake.answers["entry.put"] = _PUT | {"verdict": verdict("dirty", why="changed")}
    there = ["--socket", os.environ["PROVD_SOCKET"], "--state", "st"]

    err = cli("put", "k", "--no-deps", "--value", "x", *place, *there).err

    assert f"  next: {shlex.join(['provd', 'why', 'k', *place, *there])}\n" in err


def test_a_conflict_names_the_key_and_its_place(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = Refusal("entry.conflict", "version 2 stands", data={"version": 2})

    err = cli("put", "a b", "--no-deps", "--based-on", "1", "--scope", "s", code=5).err

    assert "\n  next: provd get 'a b' --scope s  # what stands; then put with --based-on 2\n" in err


def test_a_put_from_another_namespace_says_so_and_names_no_other_way_of_putting(cli: Cli) -> None:
    item = {"dep": "file:/f", "why": "namespace", "hint": "run a daemon where you are"}
    born = verdict("unknown", why="namespace") | {"evidence": [item]}
    cli.fake.answers["entry.put"] = _PUT | {"unproven": ["file:/f"], "verdict": born}

    err = cli("put", "k", "--dep", "/f", "--as-of-now").err

    assert (
        "provd: unproven: file:/f: unknown (namespace)\n  next: provd start --state DIR  # run a daemon where you are\n"
        in err
    )
    assert "--as-of-now" not in err


@pytest.mark.parametrize(("field", "word"), [("absent", "does not exist"), ("unproven", "nothing shows")])
def test_put_counts_what_the_daemon_does_not_list(cli: Cli, field: str, word: str) -> None:
    cli.fake.answers["entry.put"] = answer = _PUT | {field: ["file:/a", "file:/b"], f"{field}_more": 98_000}

    *listed, rest = (line for line in cli("put", "k", "--no-deps").err.splitlines() if "next: " not in line)

    assert [word in line for line in listed] == [True, True]
    assert rest == f"provd: {field}: 98000 more"
    assert cli("put", "k", "--no-deps", "--json").json == answer
    cli.fake.answers["entry.put"] = answer | {f"{field}_more": 0}
    assert cli("put", "k", "--no-deps").err.count("provd: ") == 2


@pytest.mark.parametrize(
    ("born", "reason"),
    [
        (verdict("dirty", why="changed"), "it is dirty (changed)"),
        (verdict("unknown", why="unproven"), "it is unknown (unproven)"),
        (verdict(), "it was read before what stands"),
    ],
)
def test_a_late_put(cli: Cli, born: dict[str, Any], reason: str) -> None:
    late = {"version": 15, "late": True, "stands": {"version": 15, "verdict": "fresh"}, "unproven": ["file:/f"]}
    cli.fake.answers["entry.put"] = answer = _PUT | late | {"verdict": born}

    got = cli("put", "plan1", "--no-deps", "--value", "x")

    assert got.out == "plan1  late: version 15 stands (fresh)\n"
    assert got.err == (
        f"provd: this value was archived and provd get does not show it, since {reason}: version 15 stands\n"
    )
    assert cli("put", "plan1", "--no-deps", "--json").json == answer


def test_a_late_put_of_a_daemon_that_tells_less(cli: Cli) -> None:
    cli.fake.answers["entry.put"] = _PUT | {"late": True, "verdict": None}

    assert cli("put", "k", "--no-deps").out == "k  late: version 12 stands\n"


def _entry(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "version": 3, "standing": "active", "clock": "c:1", "dependencies": 2} | fields


def test_ls_reads_all_pages(cli: Cli) -> None:
    pages = [{"entries": [_entry("a"), _entry("b")], "after": "b"}, {"entries": [_entry("c")]}]
    cli.fake.answers["entry.list"] = in_turn(*pages, *pages)

    assert [line.split()[-1] for line in cli("ls").out.splitlines()] == ["a", "b", "c"]
    assert [params.get("after") for method, params in cli.fake.asked if method == "entry.list"] == [None, "b"]

    assert [json.loads(line) for line in cli("ls", "--json").out.splitlines()] == pages


def test_ls_stops_at_its_limit(cli: Cli) -> None:
    cli.fake.answers["entry.list"] = in_turn({"entries": [_entry("a"), _entry("b")], "after": "b"})

    cli("ls", "--limit", "2")

    assert cli.fake.params_of("entry.list") == {"limit": 2}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["--prefix", "p/"], {"prefix": "p/"}),
        (["--dirty"], {"verdict": "dirty"}),
        (["--unknown"], {"verdict": "unknown"}),
        (["--touching", "/a/../b"], {"touching": "/a/../b"}),
        (["--scope", "s"], {"scope": "s"}),
    ],
)
def test_what_ls_asks(cli: Cli, arguments: list[str], sent: dict[str, Any]) -> None:
    cli.fake.answers["entry.list"] = {"entries": [_entry("\x1bk", verdict="dirty", why="changed", dependencies=None)]}

    out = cli("ls", *arguments).out

    assert "dirty" in out
    assert "\\x1bk  (changed)" in out
    assert cli.fake.params_of("entry.list") == {"limit": 1000} | sent


def test_ls_touching_is_absolute(cli: Cli) -> None:
    cli.fake.answers["entry.list"] = {"entries": []}

    cli("ls", "--touching", "a/../b")

    assert cli.fake.params_of("entry.list")["touching"] == f"{cli.here}/a/../b"


def test_usage_of_ls(cli: Cli) -> None:
    assert "exclude each other" in cli("ls", "--dirty", "--unknown", code=2).err


def test_forget(cli: Cli) -> None:
    answers = [{"gone": True}, {"gone": False}]
    cli.fake.answers["entry.forget"] = in_turn(*answers, *answers)

    got = cli("forget", "a", "b")

    assert (got.out, got.err) == (
        "",
        f"forgot a\nthere was no b in {cli.here}\n",
    )
    told = cli("forget", "a", "b", "--json", "--scope", "s").out.splitlines()
    assert [json.loads(line) for line in told] == answers
    assert cli.fake.params_of("entry.forget") == {"key": "b", "scope": "s"}
    assert cli("forget", code=2).out == ""


def test_entries_that_are_damaged_in_the_store_are_named_and_the_rest_is_listed(cli: Cli) -> None:
    cli.fake.answers["entry.list"] = {"entries": [_entry("a")], "damaged": ["b", "it's"]}

    got = cli("ls", code=5)

    assert got.out.split()[-1] == "a"
    assert got.err.startswith(
        "provd: damaged in the store, and left out: b, it's\n  next: provd forget b 'it'\"'\"'s'  # then"
    )
