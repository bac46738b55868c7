"""why: an entry's life, from its put over what touched it to the verdict now."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from fake_daemon import Cli, FakeDaemon, Refusal, cli, in_turn, verdict

from provd.cli.screens import drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["cli"]

_AT = "1700000000123000000"
_A, _B = "xxh3:" + "a" * 32, "xxh3:" + "b" * 32
_SHA = "sha256:" + "c" * 64
_SHORT_A, _SHORT_B = "xxh3:aaaaaaaaaaaa…", "xxh3:bbbbbbbbbbbb…"
_DEPS: list[dict[str, Any]] = [
    {"dep": "file:/r/f", "kept": "shown", "digest": _SHA},
    {"dep": {"b64": "ZmlsZTov/w=="}, "kept": "unproven"},
    {"dep": "object:o", "kept": "declared"},
    {"dep": "entry:e", "kept": "version", "version": 12},
]


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon(log_since=_page()) as daemon:
        yield daemon


def _page(*records: dict[str, Any], clock: str = "c:99", **fields: Any) -> dict[str, Any]:
    return {"records": list(records), "clock": clock, "complete": True} | fields


def _mutation(seq: int, kind: str, path: str, **fields: Any) -> dict[str, Any]:
    base = {"type": "mutation", "seq": seq, "at": _AT, "kind": kind, "path": path, "digest": None, "digest_state": None}
    return base | {"origin": "watch", "actor": {"unknown": True}} | fields


def _hashed(seq: int, of: int, path: str, digest: str | None, state: str = "done") -> dict[str, Any]:
    return {"type": "hashed", "seq": seq, "at": _AT, "of": of, "path": path, "digest": digest, "digest_state": state}


def _record(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, "at": _AT} | fields


def _entry(*deps: str | dict[str, Any], word: str = "fresh", **fields: Any) -> dict[str, Any]:
    kept = [dep if isinstance(dep, dict) else {"dep": dep, "kept": "read", "digest": _A} for dep in deps]
    return verdict(word, deps=kept, clock_of_entry="c:0", root="/r", at=_AT) | fields


def _log(own: dict[str, Any], *pages: Any) -> Callable[[dict[str, Any]], Any]:
    """The log: its newest records are `own`; the pages are what is told of it since the entry's clock."""
    since = in_turn(*pages)
    return lambda params: own if "last" in params else since(params)


_HEAD: Final = re.compile(r"^. (\d\d:\d\d:\d\d\.123  (just now|\d+ \w+ ago) +)?")
_DAY: Final = re.compile(r"2023-11-1\d")
_VERDICT: Final = re.compile(r"[✓✗?] (fresh|dirty|unknown) ")
_QUIET: Final = "nothing that it rests on was touched since, as far as the log knows"
_NOBODY: Final = "where nobody is named, no action declared it"
_NOT_WHOLE_SINCE: Final = "the log is not whole since then:"


def _story(cli: Cli, entry: dict[str, Any], *pages: Any, code: int = 0, own: dict[str, Any] | None = None) -> list[str]:
    """What is told of what happened to what it rests on, without the times."""
    told = _life(cli, entry, *pages, code=code, own=own)
    return [line for line in told if line not in {"put", _NOBODY}]


def _life(cli: Cli, entry: dict[str, Any], *pages: Any, code: int = 0, own: dict[str, Any] | None = None) -> list[str]:
    """All that is told of its life, without the times and without what it rests on."""
    cli.fake.answers |= {"entry.get": entry, "log.since": _log(own or _page(), *pages)}
    return _drawn(cli("why", "k", code=code).out)


def _drawn(out: str) -> list[str]:
    """What stands behind the spine, without days and times; what the entry rests on is left out."""
    lines = out.splitlines()
    spine = lines[lines.index("") + 1 : next(at for at, line in enumerate(lines) if _VERDICT.match(line))]
    told = [_HEAD.sub("", line) for line in spine if not line.startswith("│   ")]
    return [line for line in told if not _DAY.fullmatch(line)]


def test_it_begins_with_the_put_and_ends_with_the_verdict(cli: Cli) -> None:
    origin: dict[str, Any] = {"session": "s1", "turn": 3, "supports": 2}
    fault = {"dep": "file:/r/f", "why": "changed", "was": _A, "is": _B, "hint": "read again"}
    cli.fake.answers["entry.get"] = _entry("file:/r/f", word="dirty", evidence=[fault], **origin)
    cli.fake.answers["log.since"] = _page(_mutation(9, "modified", "/r/f", digest=_B, digest_state="done"))

    lines = cli("why", "k", code=1).out.splitlines()

    assert lines[0] == "k  version 7"
    assert lines[1:3] == ["  root /r, clock c:0", ""]
    assert _DAY.fullmatch(lines[3].removeprefix("│ "))
    assert (lines[4][0], lines[4][16:]) == (
        "●",
        f"{drawing.ago(_AT, time.time_ns()):<10}  put by session s1, turn 3, 2 times",
    )
    assert lines[5:7] == ["│   rests on:", f"│     ✗ file:/r/f  read {_SHORT_A}"]
    change = f"~ modified f {_SHORT_A} → {_SHORT_B}  the first change since it was put"
    assert (lines[7][0], _HEAD.sub("", lines[7])) == ("✗", change)
    assert lines[8] == f"│ {_NOBODY}"
    assert lines[9:11] == ["✗ dirty    k  (same)", "  standing active, version 7, checked content, as of c:1"]
    assert lines[11:13] == ["", "  file:/r/f  changed"]
    assert lines[-1] == "      next: c=$(provd clock)  # read again, with --fetched-at $c"


def test_it_names_what_the_entry_rests_on_and_how_each_is_kept(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = answer = _entry(*_DEPS)

    lines = cli("why", "k").out.splitlines()

    assert lines[5:10] == [
        "│   rests on:",
        "│     ✓ file:/r/f  shown sha256:cccccccccccc…",
        "│     ✓ file:/\\xff  unproven",
        "│     ✓ object:o  declared",
        "│     ✓ entry:e  version 12",
    ]
    cli.fake.answers["entry.get"] = answer | {"value": "secret", "meta": {}}
    assert cli("why", "k").out.splitlines() == lines
    cli.fake.answers["entry.get"] = _entry(*(f"file:/{n}" for n in range(23)))
    lines = cli("why", "k").out.splitlines()
    assert lines[lines.index("│     and 3 more") - 1] == f"│     ✓ file:/19  read {_SHORT_A}"
    cli.fake.answers["entry.get"] = verdict(deps=[], scope="global", clock_of_entry="c:0", at=_AT)
    lines = cli("why", "k").out.splitlines()
    assert (lines[1:3], lines[5:7]) == (
        ["  scope global, clock c:0", ""],
        ["│   rests on nothing", "✓ fresh    k  (same)"],
    )


@pytest.mark.parametrize(("more", "rest"), [(0, "✓"), (1, "?")])
def test_it_marks_what_is_at_fault(cli: Cli, more: int, rest: str) -> None:
    evidence = [{"dep": "file:/r/f", "why": "changed"}, {"dep": {"b64": "ZmlsZTov/w=="}, "why": "unproven"}]
    cli.fake.answers["entry.get"] = _entry(*_DEPS, word="dirty", evidence=evidence, more=more)

    out = cli("why", "k", code=1).out

    assert ("and 1 more dependency at fault" in out) == bool(more)
    assert [line.split()[1] for line in out.splitlines()[6:10]] == ["✗", "?", rest, rest]


def test_it_marks_nothing_where_the_entry_itself_is_at_fault(cli: Cli) -> None:
    entry = _entry("file:/r/f", word="unknown", evidence=[{"dep": None, "why": "moving"}])
    cli.fake.answers["entry.get"] = entry

    assert cli("why", "k", code=4).out.splitlines()[6].startswith("│     ? file:/r/f")


def test_the_log_is_asked_for_what_the_entry_rests_on_since_its_clock(cli: Cli) -> None:
    cli.fake.answers |= {
        "entry.get": _entry("file:/r/src/a", "glob:/r/src/*.py", "tree:sub", "dir:/q", "names:/w/[[]x/**/y"),
        "log.since": _log(_page(), _page(clock="c:5", more=True), _page(clock="c:6")),
    }

    cli("why", "k")

    paths = ["/q", "/r/src", "/r/sub", "/w"]
    asked = [params for method, params in cli.fake.asked if method == "log.since"]
    newest, *since = asked
    assert newest == {"last": 5000, "limit": 5000}
    assert since == [{"clock": clock, "limit": 5000, "paths": paths} for clock in ("c:0", "c:5")]


def test_of_many_files_the_directories_above_them_are_asked_for(cli: Cli) -> None:
    deps = [f"file:/r/{n // 100}/{n}" for n in range(200)]
    page = _page(
        _mutation(9, "modified", "/r/0/7"),
        _mutation(10, "modified", "/r/0/strange"),
        _mutation(11, "moved", "/r/2", **{"from": "/r/1"}),
    )

    assert _story(cli, _entry(*deps), page) == [
        "~ modified 0/7",
        "> moved 2 from 1",
    ]
    assert cli.fake.params_of("log.since")["paths"] == ["/r/0", "/r/1"]


def test_digests_found_later_stand_with_their_mutations(cli: Cli) -> None:
    one = _mutation(9, "modified", "/r/f", digest_state="pending", actor={"session": "s1", "turn": 4, "action": 8})
    two = _mutation(11, "modified", "/r/f", digest_state="pending", origin="scan")
    three = _mutation(13, "modified", "/r/f", digest_state="pending")
    pages = [
        _page(one, clock="c:9", more=True),
        _page(_hashed(10, 9, "/r/f", _B), two, _hashed(12, 11, "/r/f", None, "superseded"), clock="c:12", more=True),
        _page(three, _hashed(14, 13, "/r/f", _A), _hashed(15, 1, "/r/f", _B)),
    ]

    assert _story(cli, _entry("file:/r/f"), *pages) == [
        f"~ modified f {_SHORT_A} → {_SHORT_B}  (session s1, turn 4, action 8)",
        "~ modified f (changed again before it was hashed)  (found by a scan)",
        f"~ modified f {_SHORT_B} → {_SHORT_A}",
    ]


def test_what_came_back_is_told(cli: Cli) -> None:
    page = _page(
        _mutation(9, "deleted", "/r/f"),
        _mutation(10, "moved", "/r/f", **{"from": "/r/tmp"}, digest=_A, digest_state="done"),
        _mutation(11, "modified", "/r/f", digest=_A, digest_state="done"),
    )

    deleted, moved, modified = _story(cli, _entry("file:/r/f"), page)

    assert deleted == "- deleted f"
    assert moved == f"> moved f from tmp {_SHORT_A}"
    assert modified == f"~ modified f {_SHORT_A} (the same content)"


def test_digests_of_two_algorithms_are_not_set_side_by_side(cli: Cli) -> None:
    page = _page(_mutation(9, "modified", "/r/f", digest=_B, digest_state="done"))

    assert _story(cli, _entry(_DEPS[0]), page) == [f"~ modified f {_SHORT_B}"]


_CONCERN = [
    ("file:/r/f", _mutation(9, "modified", "/r/f"), True),
    ("/r/f", _mutation(9, "modified", "/r/f"), True),
    ("f", _mutation(9, "modified", "/r/f"), True),
    ("file:/r/f", _mutation(9, "deleted", "/r"), True),
    ("file:/r/f", _mutation(9, "modified", "/r/f/below"), False),
    ("file:/r/f", _mutation(9, "modified", "/through/a/link"), True),
    ("file:/r/f", _mutation(9, "moved", "/r/g", **{"from": "/r/f"}), True),
    ("dir:/r/d", _mutation(9, "created", "/r/d/n"), True),
    ("dir:/r/d", _mutation(9, "modified", "/r/d/n"), False),
    ("dir:/r/d", _mutation(9, "created", "/r/d/n/m"), False),
    ("dir:/r/d/", _mutation(9, "created", "/r/d/n"), True),
    ("dir:/", _mutation(9, "created", "/n"), True),
    ("tree:/r/d", _mutation(9, "attrib", "/r/d/n/m"), True),
    ("tree:/", _mutation(9, "attrib", "/n/m"), True),
    ("glob:/r/*.py", _mutation(9, "modified", "/r/a.py"), True),
    ("glob:/r/*.py", _mutation(9, "modified", "/r/a.pyc"), False),
    ("glob:/r/*.py", _mutation(9, "modified", "/r/.a.py"), False),
    ("glob:/r/.*.py", _mutation(9, "modified", "/r/.a.py"), True),
    ("glob:/r/*/x", _mutation(9, "moved", "/r/new"), True),
    ("glob:/r/*/x", _mutation(9, "modified", "/r/new"), False),
    ("glob:/r/**/x", _mutation(9, "modified", "/r/x"), True),
    ("glob:/r/**/x", _mutation(9, "modified", "/r/a/b/x"), True),
    ("glob:/r/**/x", _mutation(9, "modified", "/r/a/.b/x"), False),
    ("glob:/r/**/x", _mutation(9, "modified", "/r/a/b/y"), False),
    ("glob:/r/**", _mutation(9, "modified", "/r/a/b/y"), True),
    ("glob:/[[]r/*", _mutation(9, "modified", "/[r/f"), True),
    ("names:/r/*.py", _mutation(9, "modified", "/r/a.py"), False),
    ("names:/r/*.py", _mutation(9, "deleted", "/r/a.py"), True),
    ("file:/r/f", _record(9, "gap", scope="/r", reason="overflow"), True),
    ("file:/r/f", _record(9, "coverage", path="/r", coverage="whole", why=""), True),
    ("file:/r/f", _record(9, "action", event="begin", id=9, writes=["f"], paths=["/r/f"]), True),
    ("dir:/r/d", _record(9, "action", event="begin", id=9, writes=["x"], paths=["/r/d/a/b"]), False),
]


@pytest.mark.parametrize(("dep", "record", "shown"), _CONCERN)
def test_only_what_concerns_the_entry_is_told(cli: Cli, dep: str, record: dict[str, Any], shown: bool) -> None:
    story = _story(cli, _entry(dep), _page(record))

    assert bool([line for line in story if not line.startswith("the log is not whole") and line != _QUIET]) == shown


def test_objects_and_entries_are_looked_up_in_the_whole_log(cli: Cli) -> None:
    mine = {"root": "/r", "event": "put", "version": 5}
    whole = _page(
        _mutation(8, "modified", "/r/elsewhere"),
        _record(9, "action", event="begin", id=9, writes=["object:o", "/r/f"], paths=["/r/f"], session="s2"),
        _record(10, "action", event="begin", id=10, writes=["object:other"]),
        _record(11, "action", event="end", id=9, outcome="done", writes=[]),
        _record(12, "action", event="end", id=10, outcome="done", writes=[]),
        _record(13, "entry", key="e", **mine),
        _record(14, "entry", key="other", **mine),
        _record(15, "entry", key="e", **mine | {"root": "/q"}),
        _record(16, "gap", scope="/q", reason="overflow"),
        complete=False,
        uncovered=[{"path": "/q", "why": "polled"}],
    )
    begin = "action begin 9 object:o f  (session s2)"
    told = [begin, "action end 9 done", "entry put e version 5 in /r"]

    assert _story(cli, _entry("object:o", "entry:e"), whole) == told
    assert cli.fake.params_of("log.since") == {"clock": "c:0", "limit": 5000}

    of_paths = _page(whole["records"][1], _mutation(17, "modified", "/r/f"))
    mixed = _story(cli, _entry("object:o", "entry:e", "file:/r/f"), of_paths, whole)
    assert mixed == [*told, "~ modified f"]


def test_where_every_change_was_declared_nothing_is_said_of_others(cli: Cli) -> None:
    record = _mutation(9, "modified", "/r/f", actor={"session": "s2", "action": 8})

    assert _life(cli, _entry("file:/r/f"), _page(record)) == ["put", "~ modified f  (session s2, action 8)"]


def test_the_output_is_bounded(cli: Cli) -> None:
    records = [_mutation(n, "modified", "/r/f") for n in range(100, 460)]
    pages = [_page(*records[:200], clock="c:300", more=True), _page(*records[200:], clock="c:460")]

    story = _story(cli, _entry("tree:/r"), *pages)

    assert story[0] == "… 310 earlier"
    assert len(story) == 51


def test_the_put_has_its_place_between_the_records(cli: Cli) -> None:
    page = _page(_mutation(5, "modified", "/r/f"), _mutation(9, "modified", "/r/f"))
    touched = "~ modified f"

    assert _life(cli, _entry("file:/r/f"), page) == [touched, "put", touched, _NOBODY]
    assert _life(cli, _entry("file:/r/f"), _page(_mutation(5, "modified", "/r/f"))) == [touched, "put", _NOBODY]
    assert _life(cli, _entry("file:/r/f"), _page(_mutation(9, "modified", "/r/f"))) == ["put", touched, _NOBODY]


_NOT_WHOLE: list[tuple[dict[str, Any], str]] = [
    (_page(complete=False), "records were trimmed, or the clock is not of this run"),
    (
        _page(complete=False, uncovered=[{"path": "/r/f", "why": "watch limit"}]),
        "not wholly watched: /r/f (watch limit)",
    ),
    (_page(complete=False, uncovered=["/r"], uncovered_more=2), "not wholly watched: /r and 2 more"),
    (_page(complete=False, uncovered=["/r"]), "not wholly watched: /r"),
    (_page(_record(9, "gap", scope="all", reason="started"), complete=False), ""),
]


@pytest.mark.parametrize(("page", "why"), _NOT_WHOLE)
def test_it_says_where_the_log_is_not_whole_and_why(cli: Cli, page: dict[str, Any], why: str) -> None:
    assert _story(cli, _entry("file:/r/f"), page)[-1] == f"the log is not whole since then: {why}".rstrip()


def test_it_says_what_each_gap_means(cli: Cli) -> None:
    gaps = [("all", "started"), ("/r/in", "root added"), ("/r/in", "root removed")]
    page = _page(*(_record(9, "gap", scope=scope, reason=reason) for scope, reason in gaps))
    cli.fake.answers |= {"entry.get": _entry("file:/r/in/f"), "log.since": _log(_page(), page)}

    told = cli("why", "k").out

    said = " ".join(told[told.index(_NOT_WHOLE_SINCE) : told.index("✓ fresh")].replace("│", "").split())
    assert said == (
        f"{_NOT_WHOLE_SINCE}"
        " started (all): nobody watched before that: files show by reading what changed, objects are unknown"
        " root added (/r/in): it was not watched before that, or only as part of another root; what happened then shows"
        " by reading root removed (/r/in): it is not watched any more, or only as part of another root; its entries are"
        " judged by reading"
    )
    assert told.count("root added") == 1


def test_a_page_that_is_not_whole_is_remembered(cli: Cli) -> None:
    pages = [_page(clock="c:5", more=True, complete=False), _page(clock="c:6")]

    assert _story(cli, _entry("file:/r/f"), *pages)[-1].startswith("the log is not whole since then")
    assert _life(cli, _entry("file:/r/f"), _page(clock="c:0", more=True)) == ["put", _QUIET]


def test_a_log_that_cannot_be_read_does_not_change_the_verdict(cli: Cli) -> None:
    story = _story(cli, _entry("file:/r/f", word="dirty"), Refusal("internal", "broken"), code=1)

    assert story == [_QUIET, "the log is not whole since then: the log could not be read: broken"]


def test_a_relative_name_in_a_scope_of_no_directory_cannot_be_followed(cli: Cli) -> None:
    entry = _entry("file:f", "file:/r/f") | {"root": None, "scope": "global"}

    assert _story(cli, entry, _page()) == [
        _QUIET,
        "the log is not whole since then: 1 of its paths are relative to a directory that is not known here",
    ]
    assert cli.fake.params_of("log.since")["paths"] == ["/r/f"]


def test_json_is_what_the_daemon_answered(cli: Cli) -> None:
    answer, pages = _entry("file:/r/f"), [_page(clock="c:5", more=True), _page(_mutation(9, "modified", "/r/f"))]
    cli.fake.answers |= {"entry.get": answer, "log.since": in_turn(*pages)}

    assert [json.loads(line) for line in cli("why", "k", "--json").out.splitlines()] == [answer, *pages]


def test_nothing_steers_a_terminal(cli: Cli) -> None:
    record = _mutation(9, "modified", "/r/\x1b[2J", actor={"session": "\x1b", "turn": 1})
    cli.fake.answers |= {
        "entry.get": _entry("tree:/r", "entry:\x1b"),
        "log.since": _log(_page(), _page(record), _page()),
    }

    assert "\x1b" not in cli("why", "k").out


def test_an_entry_that_is_not_there_has_no_life(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = verdict("unknown", why="no-entry", version=None, standing=None)

    out = cli("why", "k", code=4).out

    assert out.startswith("? unknown  k  (no-entry)\n")
    assert "checked" not in out, "there was nothing to check"
    assert "log.since" not in [method for method, _ in cli.fake.asked]
