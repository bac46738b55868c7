"""check, get, why, revalidate: exit codes that a script can trust, and what is printed."""

from __future__ import annotations

import itertools
import os
from typing import Any, Final

import pytest
from fake_daemon import Cli, Hangup, Refusal, cli, fake, verdict

from provd import places
from provd.core.clock import MOUNTED
from provd.core.evidence import READING

__all__ = ["cli", "fake"]

_FAULT = {
    "dep": "file:/r/f",
    "why": "changed",
    "was": "xxh3:" + "a" * 32,
    "is": "xxh3:" + "b" * 32,
    "hint": "read again",
}
_WORDS = {"fresh": 0, "dirty": 1, "unknown": 4}


@pytest.mark.parametrize(("word", "code"), _WORDS.items())
def test_check_one(cli: Cli, word: str, code: int) -> None:
    cli.fake.answers["entry.check"] = answer = verdict(word)

    assert cli("check", "k", "--json", code=code).json == answer
    assert word in cli("check", "k", code=code).out
    assert cli("check", "-q", "k", code=code).out == ""
    assert cli("check", "-q", "--json", "k", code=code).out == ""
    assert cli.fake.params_of("entry.check") == {"key": "k"}


def test_a_verdict_of_the_future_is_not_fresh(cli: Cli) -> None:
    cli.fake.answers["entry.check"] = verdict("splendid")

    cli("check", "k", code=4)


@pytest.mark.parametrize("words", list(itertools.combinations_with_replacement(_WORDS, 3)))
def test_check_many(cli: Cli, words: tuple[str, ...]) -> None:
    verdicts = {f"k{n}": verdict(word) for n, word in enumerate(words)}
    cli.fake.answers["entry.check"] = {"verdicts": verdicts}
    code = 1 if "dirty" in words else 4 if "unknown" in words else 0

    got = cli("check", "k0", "k1", "k2", "k1", code=code)

    assert [line.split()[1:3] for line in got.out.splitlines()] == [
        [w, k] for k, w in zip(verdicts, words, strict=True)
    ]
    assert cli.fake.params_of("entry.check") == {"keys": ["k0", "k1", "k2"]}
    assert cli("check", *verdicts, "--json", code=code).json == {"verdicts": verdicts}


def test_check_names_what_is_at_fault(cli: Cli) -> None:
    faults = [_FAULT | {"dep": f"file:/r/{n}"} for n in range(5)]
    cli.fake.answers["entry.check"] = verdict("dirty", why="changed", evidence=faults, more=7)

    out = cli("check", "k", code=1).out

    assert out.splitlines()[1] == "    file:/r/0  changed"
    assert out.splitlines()[-1] == "    and 9 more"


def test_check_of_no_entry_says_where_it_looked(cli: Cli) -> None:
    fault = {"dep": None, "why": "no-entry", "detail": "looked in root /r", "hint": "put it first"}
    cli.fake.answers["entry.check"] = verdict("unknown", why="no-entry", evidence=[fault])

    assert cli("check", "k", code=4).out.splitlines()[1:] == ["    looked in root /r"]


@pytest.mark.parametrize(
    ("dep", "more", "told"),
    [
        ("file:/f", [], 's=$(sha256sum /f)  # before it is read again; then ask with --sums - <<< "$s"\n'),
        ("file:/f", ["--no-revalidate"], "provd check --dep file:/f --fetched-at c:1  # nothing was read: ask without"),
        ("entry:k", [], "c=$(provd clock)  # before it is read again; then ask with --fetched-at $c\n"),
    ],
)
def test_check_says_how_to_ask_again_where_nothing_shows_what_was_read(
    cli: Cli, dep: str, more: list[str], told: str
) -> None:
    cli.fake.answers["deps.check"] = verdict("unknown", why="unproven", evidence=[{"dep": dep, "why": "unproven"}])
    got = cli("check", "--dep", dep, "--fetched-at", "c:1", *more, code=4)
    assert got.err.startswith(f"  next: {told}")
    assert cli("check", "-q", "--dep", dep, "--fetched-at", "c:1", *more, code=4).err == ""


def test_check_says_that_its_clock_is_spent_where_that_is_why_nothing_shows_what_was_read(cli: Cli) -> None:
    item = {"dep": "file:/f", "why": "unproven", "detail": MOUNTED}
    cli.fake.answers["deps.check"] = verdict("unknown", why="unproven", evidence=[item])
    told = cli("check", "--dep", "/f", "--fetched-at", "c:1", code=4).err
    assert f"that clock shows nothing any more: {MOUNTED}; a new one does" in told
    assert "ext4" not in told, "it may well lie there"


def test_check_dependencies(cli: Cli) -> None:
    answer = verdict("dirty")
    del answer["key"]
    cli.fake.answers["deps.check"] = answer

    assert cli("check", "--dep", "f", "--dep", "object:o", "--fetched-at", "c:1", "--json", code=1).json == answer
    assert "dirty" in cli("check", "--dep", "f", "--fetched-at", "c:1", code=1).out
    asked = {"deps": [f"file:{cli.here}/f", "object:o"], "fetched_at": "c:1", "root": cli.here}
    assert cli.fake.questions[0] == ("deps.check", asked)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "nothing to check"),
        (["check", "-q"], "nothing to check"),
        (["check", "k", "--dep", "f", "--fetched-at", "c:1"], "exclude each other"),
        (["check", "--dep", "f"], "--dep needs --fetched-at"),
        (["check", "k", "--sums", "f"], "KEY and --sums exclude each other"),
        (["check", "k", "--fetched-at", "c:1"], "--fetched-at goes with --dep"),
        (["check", b"\xff"], "a key is not UTF-8"),
        (["check", "k", "--root", ".", "--scope", "s"], "exclude each other"),
        (["check", "k", "--timeout-ms", "soon"], "--timeout-ms"),
        (["check", "k", "--verify", "hope"], "--verify"),
        (["check", "k", "--jsn"], "--jsn"),
        (["get"], "KEY"),
        (["get", "k", "l"], "unexpected extra argument"),
        (["get", "k", "--even-if", "fresh"], "--even-if"),
    ],
)
def test_usage(cli: Cli, arguments: list[str | bytes], message: str) -> None:
    got = cli(*arguments, code=2)

    assert got.out == ""
    assert message in got.err
    assert "\n  next: " in got.err
    assert cli.fake.asked == []


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["--verify", "content"], {"verify": "content"}),
        (["--timeout-ms", "5"], {"timeout_ms": 5}),
        (["--no-revalidate"], {"revalidate": False}),
        (["--scope", "global"], {"scope": "global"}),
        (["--root", "/r"], {"root": "/r"}),
    ],
)
@pytest.mark.parametrize("command", ["check", "get", "why"])
def test_how_a_verdict_is_asked_for(cli: Cli, command: str, arguments: list[str], sent: dict[str, Any]) -> None:
    cli.fake.answers |= {"entry.check": verdict(), "entry.get": verdict(value="v")}

    cli(command, "k", *arguments)

    method = "entry.check" if command == "check" else "entry.get"
    assert cli.fake.params_of(method) == {"key": "k"} | ({"deps": True} if command == "why" else {}) | sent


def test_refused(cli: Cli) -> None:
    cli.fake.answers["entry.check"] = Refusal("limit", "too long", "shorten it")

    got = cli("check", "-q", "k", code=5)

    assert got.err == "provd: too long [limit]\n  next: provd check --help  # shorten it\n"


def test_unreachable(cli: Cli) -> None:
    got = cli("check", "k", "--socket", "none", code=3)

    assert got.out == ""
    assert f"there is no socket at {cli.here}/none" in got.err
    assert (
        f"next: provd status --socket {os.environ['PROVD_SOCKET']}  # one listens there: so, or leave --socket out\n"
        in got.err
    )


def test_the_daemon_of_a_state_that_was_named_is_started_first_of_all(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROVD_SOCKET")
    monkeypatch.setattr("provd.elsewhere.answers", lambda _: True)
    err = cli("check", "k", "--state", "none", code=3).err

    usual = f"provd status --socket {places.socket_path()}  # one listens there: so, or leave --state out"
    assert err.endswith(f"  next: provd start --state none\n  or: {usual}\n")


def test_a_place_that_was_named_is_named_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVD_SOCKET", f"{cli.here}/nobody")
    monkeypatch.setattr("provd.elsewhere.answers", lambda _: False)  # as one of who runs these tests may

    assert f"  next: provd start --socket '{cli.here}/a b'\n" in cli("check", "k", "--socket", "a b", code=3).err
    assert "  next: provd start --state s\n" in cli(
        "check", "k", "--state", "s", "--socket", "s.s", code=3
    ).err.replace(f" --socket {cli.here}/s.s", "")
    assert "  next: provd start\n" in cli("check", "k", code=3).err


@pytest.mark.parametrize("words", [["check", "k"], ["status"], ["ls"], ["check", "-q", "k"]])
def test_a_variable_that_names_a_wrong_place_is_to_be_unset(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    usual = f"{cli.here}/run/provd/provd.sock"
    os.makedirs(os.path.dirname(usual))
    os.symlink(os.environ["PROVD_SOCKET"], usual)
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{cli.here}/run")
    monkeypatch.setenv("PROVD_SOCKET", f"{cli.here}/nobody")

    step = f"unset PROVD_SOCKET  # it names another place than {usual}, where a daemon of yours listens"
    assert f"  next: {step}\n" in cli(*words, code=3).err


def test_a_relative_socket_is_another_one_in_each_directory_and_that_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "relative" not in cli("clock", code=None).err
    monkeypatch.setenv("PROVD_SOCKET", "x y")

    err = cli("clock", code=3).err

    assert (
        f"provd: $PROVD_SOCKET is relative, so it means another socket in each directory: here {cli.here}/x y\n" in err
    )
    assert f"  next: export PROVD_SOCKET='{cli.here}/x y'  # the same everywhere\n" in err
    assert "relative" not in cli("clock", "--socket", "s", code=3).err


def test_state_says_where_the_socket_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVD_SOCKET")

    assert f"{cli.here}/s/provd.sock" in cli("check", "k", "--state", "s", code=3).err


def test_vanished(cli: Cli) -> None:
    cli.fake.answers["entry.check"] = Hangup()

    assert "closed the connection" in cli("check", "k", code=3).err


def test_an_answer_that_makes_no_sense_is_no_verdict(cli: Cli) -> None:
    cli.fake.answers["entry.check"] = 17

    assert "is not provd" in cli("check", "k", code=3).err


@pytest.mark.parametrize("value", ["text\n", "no newline", "", 'q"', "é"])
def test_get_prints_text_as_it_is(cli: Cli, value: str) -> None:
    cli.fake.answers["entry.get"] = verdict(value=value)

    assert cli("get", "k").out == value


@pytest.mark.parametrize(
    ("value", "printed"), [({"a": [1, "é"]}, '{"a": [1, "\\u00e9"]}\n'), (None, "null\n"), (1.5, "1.5\n")]
)
def test_get_prints_the_rest_as_json(cli: Cli, value: Any, printed: str) -> None:
    cli.fake.answers["entry.get"] = verdict(value=value)

    assert cli("get", "k").out == printed


def test_get_survives_text_that_is_none(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = verdict(value="\ud800!")

    assert cli("get", "k").out == "\\ud800!"
    assert cli("get", "k", "--json").json["value"] == "\ud800!"


@pytest.mark.parametrize("word", ["dirty", "unknown"])
def test_get_of_what_may_not_be_used(cli: Cli, word: str) -> None:
    cli.fake.answers["entry.get"] = verdict(word, evidence=[_FAULT])

    got = cli("get", "k", code=_WORDS[word])

    assert got.out == ""
    assert word in got.err
    assert "file:/r/f  changed" in got.err


def test_get_even_if(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = answer = verdict("dirty", value="old")

    got = cli("get", "k", "--even-if", "dirty", "--even-if", "unknown", code=1)

    assert got.out == "old"
    assert "dirty" in got.err
    assert cli.fake.params_of("entry.get") == {"key": "k", "even_if": ["dirty", "unknown"]}
    assert cli("get", "k", "--json", code=1).json == answer


def test_get_of_what_is_fresh_and_not_active(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = verdict(usable=False, standing="hypothesis")

    assert cli("get", "k", code=4).out == ""
    cli("get", "k", "--json", code=4)


def test_get_without_a_value(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = verdict()

    got = cli("get", "k")

    assert (got.out, got.err) == ("", "k has no value\n")


def test_why_tells_all(cli: Cli) -> None:
    mutation = {
        "seq": 41,
        "at": "1700000000123000000",
        "type": "mutation",
        "kind": "modified",
        "path": {"b64": "L3IvZv8="},
        "actor": {"session": "s1", "turn": 3, "pid": None},
    }
    evidence = [
        _FAULT | {"mutation": mutation},
        {"dep": "glob:/r/*", "why": "listing-changed", "paths": ["/r/a", "/r/\x1b[2J"], "mutation": 12},
        {"dep": "object:o", "why": "written", "mutation": {"seq": 9, "type": "action", "id": 8, "event": "end"}},
        {"dep": "entry:e", "why": "entry-dirty", "because": [{"dep": "object:o", "why": "written"}], "hint": "derive"},
        {"dep": None, "why": "moving", "detail": "three times"},
    ]
    cli.fake.answers["entry.get"] = answer = verdict("dirty", why="changed", evidence=evidence, more=2)

    out = cli("why", "k", code=1).out

    for text in (
        "k  (changed)",
        "standing active, version 7, checked content, as of c:1",
        "was xxh3:aaaaaaaaaaaa…",
        "is  xxh3:bbbbbbbbbbbb…",
        "touched by record 41 modified /r/f\\xff at 2023-11-1",
        " days ago (session s1, turn 3)",
        "      /r/a",
        "touched by record 12",
        "touched by record 9 action 8 ended",
        "root cause: k ← entry:e ← object:o written",
        "the entry itself  moving",
        "three times",
        "next: c=$(provd clock)  # read again, with --fetched-at $c",
        "and 2 more dependencies at fault",
    ):
        assert text in out
    assert "\x1b" not in out
    assert cli("why", "k", "--json", code=1).json == answer


def test_why_of_an_older_daemon_is_short(cli: Cli) -> None:
    cli.fake.answers |= {"entry.get": Refusal("params", "unknown field deps"), "entry.check": verdict()}

    assert len(cli("why", "k").out.splitlines()) == 2
    cli.fake.answers["entry.get"] = Refusal("store.full", "full")
    cli("why", "k", code=5)


_TOUCHED: Final = {"dep": "file:/f", "why": "touched", "hint": f"read it again, or ask {READING}"}


@pytest.mark.parametrize(
    ("options", "item", "hint"),
    [
        (
            [],
            {"dep": "file:/f", "why": "unproven"},
            "s=$(sha256sum /f)  # before it is read again; then put with --sums - <<<",
        ),
        ([], {"dep": "entry:e", "why": "unproven"}, "put with --fetched-at $c"),
        (["--no-revalidate"], {"dep": "file:/f", "why": "unproven"}, "ask without --no-revalidate"),
        (["--no-revalidate"], _TOUCHED, "or ask without --no-revalidate"),
        (["--no-revalidate"], {"dep": "file:/f", "why": "touched"}, "put it anew, with --fetched-at $c\n"),
        ([], {"dep": "file:/f", "why": "touched"}, "read it again and put it anew, with --fetched-at $c\n"),
        ([], {"dep": "file:/f", "why": "timeout"}, "provd check k --timeout-ms"),
        ([], {"dep": None, "why": "no-provenance"}, "--no-deps: on nothing"),
        ([], {"dep": "file:/f", "why": "changed"}, "of the wire"),
    ],
)
def test_hints_speak_of_options(cli: Cli, options: list[str], item: dict[str, Any], hint: str) -> None:
    cli.fake.answers["entry.get"] = verdict("unknown", evidence=[{"hint": "of the wire"} | item])

    out = cli("why", "k", *options, code=4).out

    assert hint in out
    assert ("of the wire" in out) == (item["why"] == "changed")


@pytest.mark.parametrize("why", ["deleted", "entry-revoked"])
def test_what_takes_no_clock_is_not_told_with_one(cli: Cli, why: str) -> None:
    item = {"dep": "file:/f", "why": why, "hint": "put it anew, or forget it"}
    cli.fake.answers["entry.get"] = verdict("dirty", evidence=[item])

    assert "  # put it anew, with --fetched-at $c, or forget it\n" in cli("why", "k", code=1).out
