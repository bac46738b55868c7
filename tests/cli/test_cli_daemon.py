"""run, version, audit, action."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import HELLO, Cli, Hangup, Refusal, cli, fake

import provd
from provd import __version__
from provd.core.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cli", "fake"]


def _daemon(monkeypatch: pytest.MonkeyPatch, main: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Stands in for the daemon's modules; what the settings were loaded with is in the answer."""
    loaded: list[dict[str, Any]] = []
    settings, daemon = ModuleType("provd.settings"), ModuleType("provd.daemon")

    def load(**given: Any) -> dict[str, Any]:
        loaded.append(given)
        return given

    settings.load = load  # type: ignore[attr-defined]
    daemon.main = lambda loaded, **_bound: main(loaded)  # type: ignore[attr-defined]
    for module in (settings, daemon):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(provd, module.__name__.partition(".")[2], module, raising=False)
    return loaded


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "provd: --root nowhere: there is no such directory\n  next: provd run --help  # make it first, or"),
        ("file", "provd: --root file is no directory\n  next: provd run --root . --state s  # watches the one that"),
    ],
)
def test_a_root_that_is_no_directory_is_not_run(cli: Cli, name: str, said: str) -> None:
    with open("file", "w"):
        pass

    got = cli("run", "--state", "s", "--root", name, code=5)  # 2 would tell a service never to try again

    assert got.err.startswith(said)
    assert not os.path.exists("s")


def test_run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    os.makedirs("a")
    os.makedirs("b")
    os.makedirs(b"\xff")
    started: list[Any] = []
    loaded = _daemon(monkeypatch, started.append)

    cli(
        "run",
        "--root",
        "a/../b",
        "--root",
        b"\xff",
        "--state",
        "s",
        "--socket",
        "x",
        "--backend",
        "poll",
        "--log-format",
        "json",
        "--log-file",
        "l",
        "--log-level",
        "warning",
    )

    assert loaded == started
    assert loaded == [
        {
            "state": f"{cli.here}/s",
            "socket": f"{cli.here}/x",
            "roots": (f"{cli.here}/b".encode(), f"{cli.here}/".encode() + b"\xff"),
            "backend": "poll",
            "log_format": "json",
            "log_file": "l",
            "log_level": "warning",
        }
    ]


def test_run_leaves_open_what_was_not_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVD_STATE_DIR", "/s")
    loaded = _daemon(monkeypatch, lambda _: None)

    cli("run")

    unsaid = {"roots": (), "backend": None, "log_format": None, "log_file": None, "log_level": None}
    assert loaded == [{"state": "/s", "socket": cli.fake.path, **unsaid}]


def test_run_says_why_it_cannot(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise StoreUnusable("another daemon holds it", "provd stop  # that one")

    _daemon(monkeypatch, fail)

    assert cli("run", code=5).err == "provd: another daemon holds it\n  next: provd stop  # that one\n"


def test_version(cli: Cli) -> None:
    cli.fake.answers["daemon.hello"] = HELLO | {"pid": 3}

    assert cli("version").out == f"provd {__version__}\ndaemon 9.9 (pid 3)\n"
    assert cli("version", "--json").json == {"version": __version__, "daemon": HELLO | {"pid": 3}}
    assert cli("--version").out == f"provd {__version__}\n"


def test_version_without_a_daemon(cli: Cli) -> None:
    got = cli("version", "--socket", "none")

    assert got.out == f"provd {__version__}\n"
    assert "no daemon" in got.err
    assert cli("version", "--socket", "none", "--json").json == {"version": __version__, "daemon": None}


_NO_ROOTS: list[Any] = [None, "/r", [7], [None], [["/r"]], [{}], [{"b64": 7}], [{"b64": "x"}]]
_GARBAGE: list[Any] = [
    *([], {}, None, "provd", 17, HELLO | {"name": "other"}, HELLO | {"pid": "3"}, HELLO | {"pid": 0}),
    *(HELLO | {"roots": roots} for roots in _NO_ROOTS),
]


@pytest.mark.parametrize("hello", _GARBAGE)
def test_something_else_says_hello(cli: Cli, hello: Any) -> None:
    cli.fake.answers["daemon.hello"] = hello
    told = f"what answers at {cli.fake.path} is not provd"

    for command in (["check", "k"], ["stop"]):
        assert cli(*command, code=3).err.startswith(f"provd: {told}\n  next: ")
    assert cli("version").err == f"{told}\n"
    assert cli("version", "--json").json == {"version": __version__, "daemon": None}
    assert {method for method, _ in cli.fake.asked} == {"daemon.hello"}


def test_audit(cli: Cli) -> None:
    mismatch = {"path": "/r/f", "was": "xxh3:" + "a" * 32, "is": "absent", "why": "deleted"}
    cli.fake.answers["daemon.audit"] = answer = {"files": 3, "mismatches": [mismatch]}

    got = cli("audit", "--root", "r", "--sample", "5", code=1)

    assert "/r/f  deleted  was xxh3:aaaaaaaaaaaa…, is absent" in got.out
    assert got.out.endswith("\n3 files compared, 1 differs\n")
    assert cli.fake.params_of("daemon.audit") == {"root": f"{cli.here}/r", "sample": 5}
    assert cli("audit", "--json", code=1).json == answer

    cli.fake.answers["daemon.audit"] = {"files": 3, "mismatches": []}
    assert cli("audit").out == "3 files compared, 0 differ\n"
    assert cli.fake.params_of("daemon.audit") == {}
    cli.fake.answers["daemon.audit"] = {"files": 1, "mismatches": [mismatch]}
    assert cli("audit", code=1).out.endswith("\n1 file compared, 1 differs\n")


def test_an_audit_says_what_it_read_and_what_rules_left_out(cli: Cli) -> None:
    cli.fake.answers["daemon.audit"] = {"files": 7, "read": 1, "ignored": 2, "mismatches": []}
    assert (
        cli("audit", "--sample", "1").out
        == cli("audit").out
        == ("7 files compared, 1 of them read, 0 differ, 2 names left out by ignore rules\n")
    )


def test_an_audit_says_what_it_did_not_look_at(cli: Cli) -> None:
    places = [{"path": "/r/hung", "why": "it does not answer"}]
    cli.fake.answers["daemon.audit"] = answer = {
        "files": 2,
        "mismatches": [],
        "skipped": {"count": 3, "places": places},
    }
    assert cli("audit", code=4).out == (
        "? unknown  /r/hung  not looked at: it does not answer\n"
        "and 2 more that were not looked at\n"
        "2 files compared, 0 differ, 3 places not looked at\n"
    )
    assert cli("audit", "--json", code=4).json == answer
    mismatch = {"path": "/r/a", "why": "stat differs", "was": "absent", "is": "file"}
    cli.fake.answers["daemon.audit"] = answer | {"mismatches": [mismatch], "skipped": {"count": 1, "places": places}}
    assert cli("audit", code=1).out.endswith("\n2 files compared, 1 differs, 1 place not looked at\n")


def test_action_begin(cli: Cli) -> None:
    answer = {"id": 17, "clock": "c:1", "affects": {"count": 12, "keys": ["a", "b"]}}
    cli.fake.answers["action.begin"] = answer

    got = cli(
        *(
            "action",
            "begin",
            "--write",
            "object:o",
            "--write",
            "f",
            "--write",
            b"/\xff",
            "--session",
            "s",
            "--turn",
            "2",
        ),
        *("--note", "why", "--if-usable", "k", "--op", "o1", "--scope", "global"),
    )

    assert (got.out, got.err) == ("17\n", "affects 12 entries: a, b and 10 more\n")
    assert cli.fake.params_of("action.begin") == {
        "writes": ["object:o", f"file:{cli.here}/f", {"dep": {"b64": "ZmlsZTov/w=="}}],
        "session": "s",
        "turn": 2,
        "note": "why",
        "if_usable": ["k"],
        "op": "o1",
        "scope": "global",
    }
    assert cli("action", "begin", "--write", "/f", "--json").json == answer
    cli.fake.answers["action.begin"] = answer | {"affects": {"count": 1, "keys": ["a"]}}
    assert cli("action", "begin", "--write", "/f").err == "affects 1 entry: a\n"
    cli.fake.answers["action.begin"] = answer | {"ended": True}
    got = cli("action", "begin", "--write", "/f", "--op", "again", code=5)
    assert got.out == ""
    assert got.err.startswith(f"provd: nothing was begun: --op again began action {answer['id']}, and that has ended\n")


def test_action_record_and_end(cli: Cli) -> None:
    cli.fake.answers |= {"action.record": {"id": 3, "affects": {"count": 0, "keys": []}}, "action.end": {"id": 3}}

    assert cli("action", "record", "--write", "/f", "--outcome", "failed", "--root", "/r").out == "3\n"
    assert cli.fake.params_of("action.record") == {"writes": ["file:/f"], "outcome": "failed", "root": "/r"}
    assert cli("action", "end", "3").err == "action 3: done\n"
    assert cli.fake.params_of("action.end") == {"id": 3, "outcome": "done"}
    assert cli("action", "end", "3", "--outcome", "aborted", "--json").json == {"id": 3}


def test_action_refused(cli: Cli) -> None:
    cli.fake.answers["action.begin"] = Refusal("action.stale", "k is dirty", "read again", {"verdicts": {}})

    got = cli("action", "begin", "--write", "object:o", "--if-usable", "k", code=5)

    assert got.out == ""
    assert "k is dirty [action.stale]" in got.err


def test_action_ls(cli: Cli) -> None:
    item = {
        "id": 17,
        "writes": ["object:o", "/f"],
        "paths": ["/f"],
        "session": "s",
        "turn": None,
        "hold": False,
        "at": "1700000000123456789",
    }
    cli.fake.answers["action.list"] = {"actions": [item]}

    out = cli("action", "ls").out
    assert out.startswith("      17  object:o /f  (session s, at 2023-11-1")
    assert out.endswith(".123)\n")
    assert cli("action", "ls", "--json").json == {"actions": [item]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["action", "begin"],
        ["action", "end"],
        ["action", "end", "x"],
        ["action"],
        ["watch"],
        ["watch", "rm"],
        ["audit", "x"],
    ],
)
def test_usage(cli: Cli, arguments: list[str]) -> None:
    assert "next: " in cli(*arguments, code=2).err
    assert cli.fake.asked == []


def test_a_daemon_that_goes(cli: Cli) -> None:
    cli.fake.answers |= {"daemon.status": Hangup(), "daemon.shutdown": Hangup()}

    cli("status", code=3)
    cli("stop", code=3)
