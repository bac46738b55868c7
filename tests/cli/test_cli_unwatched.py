"""What is told of directories that may not be read: commands that can be run as they stand."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon

from provd.cli.given.looking import Seen
from provd.cli.words import gaps, permissions, unwatched
from provd.client import wire_path
from provd.disk import IgnoreRules
from provd.ignoring import DEFAULT_PATTERNS, naming

if TYPE_CHECKING:
    from collections.abc import Iterator

_DENIED = "no permission to read the directory: give the daemon's user read and search permission"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon() as daemon:
        yield Cli(daemon, capsys, monkeypatch)


def _row(path: bytes, ignore: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"path": wire_path(path), "ignore": ignore, **fields}


def _fix(*places: bytes, roots: list[dict[str, Any]]) -> str:
    return unwatched.fix(_DENIED, places, roots)


def test_rules_that_are_there_are_kept() -> None:
    plain = _fix(b"/r/a b", roots=[_row(b"/r")])
    ruled = _fix(b"/r/a", roots=[_row(b"/r", [".git/", "*.o"])])
    bare = _fix(b"/r/a", roots=[_row(b"/r", ["*.o"])])

    assert plain == "chmod u+rX '/r/a b'  # opens it\nprovd watch add /r --ignore '/a b/'  # leaves it out"
    assert ruled == "chmod u+rX /r/a  # opens it\nprovd watch add /r --ignore '*.o' --ignore /a/  # leaves it out"
    assert bare.endswith("\nprovd watch add /r --ignore '!.git/' --ignore '*.o' --ignore /a/  # leaves it out")


def test_places_of_several_roots_are_left_out_of_the_innermost() -> None:
    fix = _fix(b"/r/in/b", b"/r/a", roots=[_row(b"/r"), _row(b"/r/in")])

    assert fix == (
        "chmod u+rX /r/a /r/in/b  # opens them\n"
        "provd watch add /r --ignore /a/ && provd watch add /r/in --ignore /b/  # leaves them out"
    )


def test_a_root_itself_and_a_name_that_no_rule_can_name_are_only_opened() -> None:
    assert _fix(b"/r", roots=[_row(b"/r")]) == "chmod u+rX /r"
    assert _fix(b"/r/\xff", roots=[_row(b"/r")]) == r"chmod u+rX $'/r/\xff'"


def test_of_many_places_some_are_named_at_a_time() -> None:
    fix = _fix(*(b"/r/%d" % n for n in range(100, 150)), roots=[_row(b"/r")])

    assert fix.count("--ignore") == 8
    assert "/r/107 " in fix
    assert "/r/108" not in fix


def test_what_belongs_to_another_is_left_out_or_opened_by_root(monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid() or 1000
    monkeypatch.setattr(os, "geteuid", lambda: me)
    monkeypatch.setattr(os, "lstat", lambda _: SimpleNamespace(st_uid=me + 1, st_mode=0o40700))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="ann"))

    fix = _fix(b"/r/a", roots=[_row(b"/r")])

    assert fix == ("provd watch add /r --ignore /a/  # leaves it out\nsudo setfacl -m u:ann:rX /r/a  # opens it")
    assert _fix(b"/r", roots=[_row(b"/r")]) == "sudo setfacl -m u:ann:rX /r"


@pytest.mark.parametrize("name", ["a", "a/b", "a*", "[x]", "q?", "back\\slash", "!no", "#no", "trailing ", "ä", "**"])
def test_the_rule_for_a_place_leaves_out_that_place_alone(name: str) -> None:
    rule = naming(name.encode())
    assert rule is not None
    ignored = IgnoreRules([(b"/r", [*DEFAULT_PATTERNS, rule])]).for_set(b"/r")

    assert ignored(b"/r/" + name.encode(), True)
    assert not any(ignored(b"/r/" + other, True) for other in (b"other", b"x", b"aa", b"qq", b"b/" + name.encode()))
    assert not ignored(b"/r/" + name.encode(), False)


def test_status_and_watch_say_it(cli: Cli) -> None:
    place = {"path": "/r/a", "why": _DENIED}
    row = _row(b"/r", state="degraded", backend="inotify", coverage="partial", uncovered=[place], why=_DENIED)
    cli.fake.answers |= {name: {"roots": [row]} for name in ("root.list", "root.add", "daemon.status")}
    expected = ["next: chmod u+rX /r/a  # opens it", "or: provd watch add /r --ignore /a/  # leaves it out"]

    for command in (["status"], ["watch", "ls"], ["watch", "add", "/r"]):
        told = [line.strip() for line in cli(*command).out.splitlines()]
        assert [line for line in told if line.startswith(("next: ", "or: "))] == expected


def test_rules_are_given_beside_the_default_and_told(cli: Cli) -> None:
    row = _row(b"/r", [".git/", "x/"], state="watching", coverage="whole")
    cli.fake.answers["root.add"] = {"roots": [row]}

    told = cli("watch", "add", "/r", "--ignore", "x/", "--ignore", ".git/").out

    assert cli.fake.params_of("root.add")["ignore"] == [".git/", "x/"]
    assert told.splitlines()[1] == "  ignored: .git/, x/"
    cli("watch", "add", "/r")
    assert "ignore" not in cli.fake.params_of("root.add")


def test_of_a_directory_above_a_root_that_one_is_opened() -> None:
    """Broken: the command names the root, which is readable, and changes nothing."""
    told = unwatched.fix("/up above it: no permission to read the directory", [b"/up/r"], [{"path": "/up/r"}])

    assert "/up/r" not in told
    assert told.split("  #")[0].split()[-1] == "/up"


def test_what_a_gap_is_for_is_opened_or_left_out_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the way to a root is closed, nobody lists what is closed in it."""
    shut = {b"/up/r/in"}
    monkeypatch.setattr(
        permissions,
        "look",
        lambda paths: {
            path: Seen(0o40755, 0o40755, os.geteuid(), path not in shut, path not in shut) for path in paths
        },
    )
    up = {"path": "/up", "why": "/up above it: no permission to read the directory"}
    roots = [_row(b"/up/r", coverage="partial", uncovered=[up])]

    def fix(scope: bytes | None) -> str:
        return gaps.fix("it cannot be listed: unreadable", scope, {}, roots)

    opened = "chmod u+rX /up/r/in  # opens it\nprovd watch add /up/r --ignore /in/  # leaves it out"
    assert fix(b"/up/r/in") == opened
    assert fix(b"/up/r/in/below/it") == opened
    assert fix(b"/up/r/open").startswith("provd watch ls  # ")
    assert fix(None).startswith("provd watch ls  # ")
