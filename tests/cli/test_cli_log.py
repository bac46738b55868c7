"""clock, since, log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon, Stream, cli, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli"]

_AT = "1700000000123456789"
_A = "xxh3:" + "a" * 32
_BY_ACTION = "@ attrib /r/n  (session s, turn 0, action 9)"


def _mutation(kind: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"type": "mutation", "kind": kind, "path": path, "digest": None, "digest_state": None} | fields


_RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"type": "gap", "scope": "all", "reason": "started"}, "all: started"),
    ({"type": "root", "event": "added", "path": "/r"}, "added /r"),
    ({"type": "coverage", "path": "/r", "coverage": "partial", "why": "watch limit"}, "/r partial: watch limit"),
    ({"type": "coverage", "path": "/r", "coverage": "whole", "why": ""}, "/r whole"),
    (
        {"type": "mutation", "kind": "moved", "path": "/r/b", "from": "/r/a", "actor": {"session": "s", "turn": 2}},
        "> moved /r/b from /r/a  (session s, turn 2)",
    ),
    ({"type": "mutation", "kind": "modified", "path": {"b64": "L/8="}}, "~ modified /\\xff"),
    (
        {"type": "action", "event": "begin", "id": 5, "writes": ["object:o", "/r/a"], "session": "s", "note": "why"},
        "begin 5 object:o /r/a  (session s, note why)",
    ),
    ({"type": "action", "event": "end", "id": 5, "outcome": "done", "writes": []}, "end 5 done"),
    ({"type": "entry", "event": "put", "key": "k", "root": "/r", "version": 7}, "put k version 7 in /r"),
    (
        {"type": "entry", "event": "late", "key": "k", "scope": "global", "version": 7},
        "late k into the archive, version 7 stands in global",
    ),
    (
        {"type": "entry", "event": "forgotten", "key": "k", "root": "/r", "version": 0, "superseded": 7},
        "forgotten k (it had version 7) in /r",
    ),
    (
        {"type": "entry", "event": "forgotten", "key": "k", "root": "/r", "version": 0, "superseded": 0},
        "forgotten k in /r",
    ),
    ({"type": "entry", "event": "imported", "key": "k", "root": "/r", "version": 7}, "imported k version 7 in /r"),
    (
        {"type": "entry", "event": "imported", "key": "k", "root": "/r", "version": 7, "archived": True},
        "imported k into the archive, version 7 stands in /r",
    ),
    (
        {"type": "entry", "event": "imported", "key": "k", "root": "/r", "version": 0, "archived": True},
        "imported k into the archive in /r",
    ),
    (_mutation("created", "/r/n", digest_state="pending", actor={"unknown": True}), "+ created /r/n (not hashed yet)"),
    (_mutation("created", "/r/n", digest=_A, digest_state="done"), "+ created /r/n xxh3:aaaaaaaaaaaa…"),
    (_mutation("modified", "/r/n", digest_state="superseded"), "~ modified /r/n (changed again before it was hashed)"),
    (_mutation("modified", "/r/n", digest_state="unreadable"), "~ modified /r/n (could not be read)"),
    (_mutation("deleted", "/r/n", origin="scan"), "- deleted /r/n  (found by a scan)"),
    (_mutation("attrib", "/r/n", actor={"session": "s", "turn": 0, "action": 9}), _BY_ACTION),
    ({"type": "hashed", "of": 3, "path": "/r/n", "digest": _A, "digest_state": "done"}, "of 3 /r/n xxh3:aaaaaaaaaaaa…"),
    (
        {"type": "hashed", "of": 3, "path": "/r/n", "digest": None, "digest_state": "superseded"},
        "of 3 /r/n (changed again before it was hashed)",
    ),
    ({"type": "novel", "thing": {"a": 1}}, "thing={'a': 1}"),
]


def _numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"seq": n, "at": _AT, "type": "gap", "scope": "all", "reason": "started"} for n in numbers]


def _page(*numbers: int, clock: str, **fields: Any) -> dict[str, Any]:
    return {"records": _numbered(*numbers), "clock": clock, "complete": True} | fields


def _seqs(out: str) -> list[int]:
    return [int(line.split()[0]) for line in out.splitlines()]


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon(log_clock={"clock": "c:9"}, daemon_status={"oldest": "c:0"}) as daemon:
        yield daemon


def test_clock(cli: Cli) -> None:
    assert cli("clock").out == "c:9\n"
    assert cli("clock", "--json").json == {"clock": "c:9"}
    assert cli.fake.questions == [("log.clock", {}), ("log.clock", {})]


def test_since_reads_all_pages(cli: Cli) -> None:
    pages = [_page(1, 2, clock="c:2", more=True), _page(3, clock="c:3")]
    cli.fake.answers["log.since"] = in_turn(*pages, *pages)

    got = cli("since", "c:0", "--path", "a", "--path", "/b")

    assert _seqs(got.out) == [1, 2, 3]
    assert got.err == "next: provd since c:3\n"
    assert cli.fake.questions == [
        ("log.since", {"clock": clock, "paths": [f"{cli.here}/a", "/b"], "limit": 1000}) for clock in ("c:0", "c:2")
    ]
    assert [json.loads(line) for line in cli("since", "c:0", "--json").out.splitlines()] == pages


def test_since_goes_on_after_a_page_without_records(cli: Cli) -> None:
    cli.fake.answers["log.since"] = in_turn(_page(clock="c:2", more=True), _page(3, clock="c:3"))

    assert _seqs(cli("since", "c:0", "--path", "a").out) == [3]


def test_a_clock_that_stands_still_is_the_end(cli: Cli) -> None:
    cli.fake.answers["log.since"] = _page(1, clock="c:1", more=True)

    assert _seqs(cli("since", "c:1").out) == [1]
    assert _seqs(cli("log", "--since", "c:1").out) == [1]


def test_since_stops_at_its_limit(cli: Cli) -> None:
    cli.fake.answers["log.since"] = in_turn(_page(1, 2, clock="c:2", more=True))

    assert "  # there is more" in cli("since", "c:0", "--limit", "2").err
    assert cli.fake.params_of("log.since") == {"clock": "c:0", "limit": 2}


def test_since_says_that_it_is_not_whole(cli: Cli) -> None:
    cli.fake.answers["log.since"] = _page(1, clock="c:1", complete=False)

    assert cli("since", "c:0").err.splitlines()[1].startswith("provd: incomplete: something that nobody saw")


@pytest.mark.parametrize(
    ("uncovered", "told"),
    [
        (["/r"], "/r (no watcher: by reading)"),
        (["/r", "/q", "/r/a", "/r/b"], "/r, /q, /r/a and 1 more (no watcher: by reading, gone)"),
        (["/elsewhere"], "/elsewhere"),
        ([{"path": "/r/x", "why": "watch limit"}], "/r/x (watch limit)"),
        ([{"b64": "L3Iv/w=="}], "/r/\\xff (no watcher: by reading)"),
    ],
)
def test_since_warns_once_of_what_is_not_watched(cli: Cli, uncovered: list[Any], told: str) -> None:
    no_watcher = {"why": "no watcher: by reading"}
    roots = [{"path": "/r"} | no_watcher, {"path": "/r2"} | no_watcher, {"path": "/q", "why": "gone"}]
    cli.fake.answers["root.list"] = {"roots": roots}
    cli.fake.answers["log.since"] = _page(1, clock="c:1", complete=False, uncovered=uncovered)

    err = cli("since", "c:0").err

    assert err == f"next: provd since c:1\nprovd: incomplete: not wholly watched: {told}\n"


def test_since_counts_the_places_that_the_daemon_does_not_list(cli: Cli) -> None:
    places = [{"path": f"/r/{n}", "why": "ignored"} for n in range(4)]
    cli.fake.answers["log.since"] = _page(clock="c:1", complete=False, uncovered=places, uncovered_more=40)

    assert cli("since", "c:0").err.endswith("not wholly watched: /r/0, /r/1, /r/2 and 41 more (ignored)\n")


@pytest.mark.parametrize(("record", "shown"), _RECORDS)
def test_records(cli: Cli, record: dict[str, Any], shown: str) -> None:
    cli.fake.answers["log.since"] = _page(clock="c:1") | {"records": [{"seq": 12, "at": _AT} | record]}

    out = cli("since", "c:0").out

    assert out.startswith("      12  2023-11-1")
    assert ".123  " in out
    assert out.endswith(f"{record['type']:<8}  {shown}\n")


def test_log_shows_the_latest(cli: Cli) -> None:
    cli.fake.answers["log.since"] = _page(2, 3, 4, clock="c:4")

    assert _seqs(cli("log", "-n", "2").out) == [3, 4]
    assert cli("log", "-n", "3", "--json").json == _page(2, 3, 4, clock="c:4"), "as the daemon sent it"
    asked = [{"last": 4, "limit": 4}, {"last": 3, "limit": 3}]  # a digest stands with its mutation
    assert [params for _, params in cli.fake.questions] == asked


@pytest.mark.parametrize("words", [[], ["--path", "/r"], ["-f"]])
def test_log_shows_as_many_lines_as_were_asked_for(cli: Cli, words: list[str]) -> None:
    one = {"at": _AT} | _mutation("modified", "/r/n", digest_state="pending")
    found = [record for seq in (1, 3, 5) for record in ({"seq": seq} | one, _hashed(seq, seq + 1))]
    cli.fake.answers |= {"log.since": _page(clock="c:6") | {"records": found}, "log.subscribe": Stream({})}
    told = cli("log", "-n", "2", *words, code=3 if words == ["-f"] else 0).out
    assert (_seqs(told), told.count("xxh3:aaaa")) == ([3, 5], 2)


def test_log_reads_on_until_all_are_there(cli: Cli) -> None:
    # more: what came meanwhile is not asked for
    pages = [_page(*seqs, clock=f"c:{seqs[-1]}", more=True) for seqs in ((2, 3), (4,), (5, 6))]
    cli.fake.answers["log.since"] = in_turn(*pages)

    assert [json.loads(line) for line in cli("log", "-n", "5", "--json").out.splitlines()] == pages
    asked = [{"last": 5, "limit": 5}, {"clock": "c:3", "limit": 3}, {"clock": "c:4", "limit": 2}]
    assert cli.fake.questions == [("log.since", params) for params in asked]


def test_log_has_fewer_than_asked_for(cli: Cli) -> None:
    cli.fake.answers["log.since"] = in_turn(_page(1, clock="c:1", more=True), _page(clock="c:1", more=True))

    assert _seqs(cli("log", "-n", "5").out) == [1]


def test_log_of_nothing_reads_nothing(cli: Cli) -> None:
    assert cli("log", "-n", "0").out == ""
    assert cli.fake.questions == [("log.clock", {})]


def test_log_since(cli: Cli) -> None:
    cli.fake.answers["log.since"] = in_turn(_page(1, clock="c:1", more=True), _page(2, clock="c:2"))

    got = cli("log", "--since", "c:0")

    assert (_seqs(got.out), got.err) == ([1, 2], "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_log_since_says_that_it_is_not_whole(cli: Cli, options: list[str]) -> None:
    pages = [_page(1, clock="c:1", more=True, complete=False), _page(2, clock="c:2")]
    cli.fake.answers["log.since"] = in_turn(*pages)

    assert cli("log", "--since", "c:0", *options).err.startswith("provd: incomplete: something that nobody saw")

    cli.fake.answers["log.since"] = _page(1, clock="c:1", complete=False, uncovered=["/r"])
    assert cli("log", "--since", "c:0", *options).err == "provd: incomplete: not wholly watched: /r\n"


def test_log_follows(cli: Cli) -> None:
    notes = [{"method": "log.record", "params": record} for record in _numbered(5, 6)]
    changed = {"method": "entry.changed", "params": {"key": "k", "seq": 6, "root": "/r"}}
    cli.fake.answers["log.subscribe"] = Stream({}, before=notes[:1], after=[changed, *notes[1:]])
    cli.fake.answers["log.since"] = _page(4, clock="c:4")

    got = cli("log", "-f", code=3)

    assert _seqs(got.out) == [4, 5, 6]
    assert "closed the connection" in got.err
    assert cli.fake.params_of("log.subscribe") == {"clock": "c:4"}


def test_log_follows_from_a_clock(cli: Cli) -> None:
    notes = [{"method": "log.record", "params": record} for record in _numbered(1)]
    cli.fake.answers["log.subscribe"] = Stream({}, after=notes)

    got = cli("log", "-f", "--since", "c:0", "--json", code=3)

    record, error = map(json.loads, got.out.splitlines())
    assert record == _numbered(1)[0]
    assert error["error"]["code"] == "unreachable"
    assert error["error"]["hint"].endswith("\nprovd log -f --since c:1  # then goes on from here")
    assert cli.fake.questions == [("log.subscribe", {"clock": "c:0"})]


_LOST = {"jsonrpc": "2.0", "method": "log.lost", "params": {"from": 5, "to": 9, "reason": "trimmed"}}


def test_log_tells_of_what_was_lost(cli: Cli) -> None:
    notes = [_LOST, {"method": "log.record", "params": _numbered(10)[0]}]
    cli.fake.answers["log.subscribe"] = Stream({"complete": True}, after=notes)

    got = cli("log", "-f", "--since", "c:4", code=3)

    assert _seqs(got.out) == [10]
    assert got.err.splitlines()[0] == "provd: incomplete: records 5 to 9 are lost: trimmed"
    lost, record, _ = map(json.loads, cli("log", "-f", "--since", "c:4", "--json", code=3).out.splitlines())
    assert (lost, record) == (_LOST, _numbered(10)[0])


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_log_follows_from_a_clock_that_is_not_of_this_run(cli: Cli, options: list[str]) -> None:
    cli.fake.answers["log.subscribe"] = Stream({"complete": False})

    err = cli("log", "-f", "--since", "c:0", *options, code=3).err

    assert err.startswith("provd: incomplete: something that nobody saw may lie between")


def _hashed(of: int, seq: int, **fields: Any) -> dict[str, Any]:
    base = {"type": "hashed", "seq": seq, "at": _AT, "of": of, "path": "/r/n", "digest": _A, "digest_state": "done"}
    return base | fields


@pytest.mark.parametrize("arguments", [["since", "c:0"], ["log"], ["log", "--since", "c:0"]])
def test_a_digest_of_the_same_page_stands_with_its_mutation(cli: Cli, arguments: list[str]) -> None:
    found = [
        {"seq": 4, "at": _AT} | _mutation("modified", "/r/n", digest_state="pending"),
        _hashed(3, 5),
        _hashed(4, 6),
    ]
    cli.fake.answers["log.since"] = _page(clock="c:6") | {"records": found}

    first, second = cli(*arguments).out.splitlines()

    assert first.endswith("  mutation  ~ modified /r/n xxh3:aaaaaaaaaaaa…")
    assert second.endswith("  hashed    of 3 /r/n xxh3:aaaaaaaaaaaa…")


def test_log_of_two_pages_of_the_latest_puts_digests_to_their_mutations(cli: Cli) -> None:
    one = {"seq": 4, "at": _AT} | _mutation("modified", "/r/n", digest_state="pending")
    cli.fake.answers["log.since"] = in_turn(
        _page(clock="c:4", more=True) | {"records": [one]}, _page(clock="c:5") | {"records": [_hashed(4, 5)]}
    )

    assert cli("log").out.endswith("~ modified /r/n xxh3:aaaaaaaaaaaa…\n")


def test_a_digest_that_comes_while_following_stands_with_its_mutation(cli: Cli) -> None:
    one = {"seq": 4, "at": _AT} | _mutation("modified", "/r/n", digest_state="pending")
    notes = [{"method": "log.record", "params": record} for record in (one, _hashed(4, 5))]
    cli.fake.answers["log.subscribe"] = Stream({}, after=notes)

    line = cli("log", "-f", "--since", "c:0", code=3).out
    assert line.startswith("       4  ")
    assert line.endswith("~ modified /r/n xxh3:aaaaaaaaaaaa…\n")
    records = [json.loads(line) for line in cli("log", "-f", "--since", "c:0", "--json", code=3).out.splitlines()]
    assert records[:2] == [one, _hashed(4, 5)]


def test_what_is_held_back_is_shown_when_the_daemon_goes(cli: Cli) -> None:
    one = {"seq": 4, "at": _AT} | _mutation("modified", "/r/n", digest_state="pending")
    cli.fake.answers["log.since"] = _page(clock="c:4") | {"records": [one]}
    cli.fake.answers["log.subscribe"] = Stream({}, after=[{"method": "log.record", "params": _hashed(3, 5)}])

    first, second = cli("log", "-f", code=3).out.splitlines()

    assert first.endswith("~ modified /r/n (not hashed yet)")
    assert second.endswith("of 3 /r/n xxh3:aaaaaaaaaaaa…")


def test_log_of_a_path_looks_through_the_newest_records(cli: Cli) -> None:
    pages = [_page(1, 2, clock="c:2", more=True), _page(3, clock="c:3")]
    cli.fake.answers["log.since"] = in_turn(*pages, *pages, *pages)
    asked = {"paths": [f"{cli.here}/a", "/b"], "limit": 10_000}

    got = cli("log", "-n", "2", "--path", "a", "--path", "/b")

    assert (_seqs(got.out), got.err) == ([2, 3], "")
    assert cli.fake.questions == [("log.since", asked | {"last": 10_000}), ("log.since", asked | {"clock": "c:2"})]
    got = cli("log", "-n", "4", "--path", "a")
    assert (_seqs(got.out), got.err) == ([1, 2, 3], "")
    page = cli("log", "-n", "2", "--path", "a", "--json").json
    assert page == pages[1] | {"records": _numbered(2, 3)}


def test_log_of_a_path_says_where_it_did_not_look(cli: Cli) -> None:
    cli.fake.answers |= {"log.since": _page(1, clock="c:1"), "daemon.status": {"records": 10_001}}

    assert cli("log", "-n", "4", "--path", "a").err.startswith("of the newest 10000 records; provd since CLOCK")
    assert cli("log", "-n", "1", "--path", "a").err == ""


def test_log_since_a_clock_of_a_path(cli: Cli) -> None:
    cli.fake.answers["log.since"] = _page(1, clock="c:1")

    assert _seqs(cli("log", "--since", "c:0", "--path", "/a").out) == [1]
    assert cli.fake.params_of("log.since") == {"clock": "c:0", "limit": 1000, "paths": ["/a"]}


def test_log_follows_a_path(cli: Cli) -> None:
    os.mkdir("real")
    os.symlink("real", "link")
    told: list[tuple[dict[str, Any], bool]] = [
        (_mutation("modified", f"{cli.here}/link/n"), True),
        (_mutation("modified", f"{cli.here}/real/n"), True),
        (_mutation("moved", "/else", **{"from": f"{cli.here}/real"}), True),
        (_mutation("deleted", cli.here), True),
        (_mutation("modified", f"{cli.here}/really"), False),
        ({"type": "gap", "scope": "all", "reason": "started"}, True),
        ({"type": "gap", "scope": "/else", "reason": "overflow"}, False),
        ({"type": "action", "event": "begin", "id": 3, "writes": ["real"], "paths": [f"{cli.here}/real"]}, True),
        ({"type": "action", "event": "begin", "id": 4, "writes": ["object:o"]}, False),
        ({"type": "entry", "event": "put", "key": "k", "root": cli.here, "version": 7}, False),
    ]
    notes = [{"method": "log.record", "params": {"seq": n, "at": _AT} | r} for n, (r, _) in enumerate(told)]
    cli.fake.answers["log.subscribe"] = Stream({}, after=notes)

    got = cli("log", "-f", "--since", "c:0", "--path", "link", code=3)

    assert _seqs(got.out) == [n for n, (_, shown) in enumerate(told) if shown]


def test_symbols_are_coloured_on_a_terminal_only(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"seq": 1, "at": _AT} | _mutation("created", "/r/n")
    cli.fake.answers["log.since"] = _page(clock="c:1") | {"records": [record]}

    assert "\x1b" not in cli("log").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[32m+ created\x1b[0m    /r/n" in cli("log").out
