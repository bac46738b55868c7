"""`provd log` as a terminal shows it, compared as text; what `-f` holds back, and what it counts instead."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon
from screens import COLOUR, Desk, coloured, desk
from support import HANG

from provd.cli.screens.following import MOMENT, Bursts, Held

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["desk"]

linux = pytest.mark.skipif(sys.platform != "linux", reason="the log is whole only where inotify tells")


def _work(desk: Desk) -> None:
    """One of each kind of record."""
    desk.save("config.py", "import os\n")
    desk.put("summary", desk.read("config.py"), session="s1", turn=3)
    action = desk.daemon.rpc("action.begin", writes=["file:src/a.py"], session="s2", root=desk.daemon.root)
    desk.save("src/a.py", "one\n")
    desk.daemon.rpc("action.end", id=action["id"], outcome="done")
    desk.save("config.py", "import json\n")
    clock = desk.clock()
    os.rename(os.path.join(desk.daemon.root, "src/a.py"), os.path.join(desk.daemon.root, "src/b.py"))
    desk.hashed(clock)
    os.unlink(os.path.join(desk.daemon.root, "config.py"))
    desk.clock()


_SCREEN = """\
── <bold>YYYY-MM-DD</>  /tmp/provd-HOME0000/root ────────────────────────────────────────
<dim>     4 HH:MM:SS.mmm  </><yellow>──</> <yellow>gap: ROOT: watched from here on ────</>
<dim>     5 HH:MM:SS.mmm  </><dim>= coverage</>   /tmp/provd-HOME0000/root whole
<dim>     6 HH:MM:SS.mmm  </><green>+ created</>    config.py                             <dim>06d430cc</>
<dim>     8 HH:MM:SS.mmm  </><bold>● put</>        summary  version 8          <dim>session s1, turn 3</>
<dim>     9 HH:MM:SS.mmm  </><cyan>◆ begin</>      9 src/a.py                          <dim>session s2</>
<dim>    10 HH:MM:SS.mmm  </><green>+ created</>    src                       <dim>session s2, action 9</>
<dim>    11 HH:MM:SS.mmm  </><green>+ created</>    src/a.py        <dim>session s2, action 9  06567c16</>
<dim>    13 HH:MM:SS.mmm  </><cyan>◆ end</>        9 done                              <dim>session s2</>
<dim>    14 HH:MM:SS.mmm  </><yellow>~ modified</>   config.py                             <dim>736eedff</>
<dim>    16 HH:MM:SS.mmm  </><yellow>> moved</>      src/b.py ← src/a.py                   <dim>06567c16</>
<dim>    18 HH:MM:SS.mmm  </><red>- deleted</>    config.py
"""


@linux
def test_the_log_in_colours(desk: Desk) -> None:
    _work(desk)

    assert coloured(desk.look("log", "--last", "11").text) == _SCREEN.replace("ROOT", "/tmp/provd-HOME0000/root")


_PIPED = """\
      14  YYYY-MM-DD HH:MM:SS.mmm  mutation  ~ modified /tmp/provd-HOME0000/root/config.py xxh3:736eedff46ea…
      16  YYYY-MM-DD HH:MM:SS.mmm  mutation  > moved ROOT/src/b.py from ROOT/src/a.py xxh3:06567c16a1de…
      18  YYYY-MM-DD HH:MM:SS.mmm  mutation  - deleted /tmp/provd-HOME0000/root/config.py
"""


@linux
def test_a_pipe_gets_a_record_a_line_with_whole_paths(desk: Desk) -> None:
    _work(desk)

    piped = desk.pipe("log", "--last", "3", COLUMNS="40").text

    assert piped == _PIPED.replace("ROOT", "/tmp/provd-HOME0000/root")
    page = json.loads(desk.pipe("log", "--last", "5", "--json").text)
    assert [record["seq"] for record in page["records"]] == [14, 15, 16, 17, 18]


@linux
def test_without_colours_and_without_signs(desk: Desk) -> None:
    _work(desk)
    drawn = desk.look("log").plain

    assert desk.look("log", NO_COLOR="1").text == drawn
    assert desk.look("log", TERM="dumb").text == drawn
    ascii_only = desk.look("log", LC_ALL="C").plain
    assert ascii_only.isascii()
    assert ascii_only == drawn.translate(str.maketrans("─●◆←", "-*%<"))


@linux
def test_wide_and_narrow(desk: Desk) -> None:
    name = f"src/{'deep/' * 30}name.py"
    desk.save(name, "one\n")
    desk.put("a-key-of-fifty-columns-that-must-not-be-shortened-at-all", session="somebody with a long name", turn=7)

    for columns in (40, 60, 80, 100, 300):
        seen = desk.look("log", columns=columns)
        too_long = [line for line in seen.lines if len(line) > min(columns, 100) and "a-key-" not in line]
        assert too_long == []
        assert "a-key-of-fifty-columns-that-must-not-be-shortened-at-all" in seen.plain
        assert "…" in next(line for line in seen.lines if line.rstrip("0123456789abcdef ").endswith("name.py"))
        assert ("somebody" in seen.plain) == (columns >= 60)


@linux
def test_names_cannot_steer_the_terminal(desk: Desk) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202egnp\r.py"
    desk.save(evil, "one\n")
    desk.daemon.rpc(
        "action.record", writes=["object:\x1b[2J"], session="\x1b[1A", note="\x9b2J\n", root=desk.daemon.root
    )

    text = desk.look("log").text

    assert [c for c in COLOUR.sub("", text) if not c.isprintable() and c != "\n"] == []
    assert "\\x1b]0;tit" in text


@linux
def test_following_shows_a_save_and_its_digest_as_one_line(desk: Desk) -> None:
    with desk.terminal("log", "-f", "-n", "1") as terminal:
        terminal.read(lambda text: "coverage" in text)
        desk.save("config.py", "one\n")
        shown = terminal.read(lambda text: re.search(r"created.*config\.py.*\n", text) is not None)

    line = next(line for line in desk.normal(COLOUR.sub("", shown)).splitlines() if "config.py" in line)
    # Where this machine took longer than the moment that is waited for, the digest has a line of its own.
    assert line.endswith(("created    config.py                             " + "06567c16", "not hashed"))


@linux
def test_a_burst_is_counted_on_a_terminal_and_told_whole_through_a_pipe(desk: Desk) -> None:
    os.mkdir(os.path.join(desk.daemon.root, "build"))
    clock = desk.clock()
    for number in range(300):
        with open(os.path.join(desk.daemon.root, "build", f"{number}.o"), "w") as file:
            file.write(f"{number}\n")
    desk.hashed(clock)
    pages = map(json.loads, desk.pipe("log", "--since", clock, "--json").text.splitlines())
    total = sum(record["type"] == "mutation" for page in pages for record in page["records"])
    with desk.terminal("log", "-f", "--since", clock) as terminal:  # they come faster than they were made
        shown = _told(terminal.read(lambda text: _told(text).total() >= total))

    assert shown.total() == total
    assert shown["shown"] >= 50
    assert shown["hidden"] > 0
    with subprocess.Popen(
        desk.command("log", "-f", "--since", clock),
        stdout=subprocess.PIPE,
        cwd=desk.daemon.root,
        env=desk.environment(),
        text=True,
    ) as piped:
        assert piped.stdout is not None
        lines = 0
        while lines < total:
            lines += "  mutation  " in piped.stdout.readline()
        piped.send_signal(signal.SIGTERM)
        piped.wait(HANG)


def _told(text: str) -> Counter[str]:
    """How many mutations below build/ have a row, and how many are only counted."""
    lines = COLOUR.sub("", text).splitlines()
    shown = sum(re.search(r"(created|modified) +build/\d+\.o", line) is not None for line in lines)
    hidden = [int(found[1]) for line in lines if (found := re.search(r"… (\d+) more in build/ \(.*\)", line))]
    return Counter({"shown": shown, "hidden": sum(hidden)})


# -- what is held back, by a clock of the test's own


def _mutation(seq: int, path: str = "/r/f", state: str | None = "pending", **fields: Any) -> dict[str, Any]:
    base = {"seq": seq, "type": "mutation", "kind": "modified", "path": path, "digest": None, "digest_state": state}
    return base | fields


def _hashed(seq: int, of: int) -> dict[str, Any]:
    return {"seq": seq, "type": "hashed", "of": of, "path": "/r/f", "digest": "xxh3:aa", "digest_state": "done"}


def test_a_mutation_waits_for_its_digest_and_what_comes_after_it_waits_with_it() -> None:
    held = Held()
    held.take(_mutation(1), 10.0)
    held.take(_mutation(2, state=None), 10.1)

    assert held.ready(10.1) == []
    assert held.wait(10.1) == pytest.approx(MOMENT - 0.1)
    held.take(_hashed(3, 1), 10.2)
    assert [(record["seq"], record["digest"]) for record in held.ready(10.2)] == [(1, "xxh3:aa"), (2, None)]
    assert held.wait(10.2) is None


def test_a_mutation_waits_no_longer_than_a_moment() -> None:
    held = Held()
    held.take(_mutation(1), 10.0)
    held.take(_mutation(2), 10.2)

    assert [record["digest_state"] for record in held.ready(10.0 + MOMENT)] == ["pending"]
    held.take(_hashed(3, 1), 10.4)
    assert held.ready(10.4) == []
    assert [record["seq"] for record in held.ready(10.2 + MOMENT)] == [2, 3]


def test_what_is_held_is_not_changed_in_place() -> None:
    held, record = Held(), _mutation(1)
    held.take(record, 10.0)
    held.take(_hashed(2, 1), 10.0)

    assert record["digest"] is None


def test_fifty_a_second_of_one_directory_are_shown() -> None:
    bursts = Bursts()

    taken = [bursts.takes(_mutation(n, f"/r/a/{n}"), 10.0) for n in range(60)]

    assert taken == [False] * 50 + [True] * 10
    assert not bursts.takes(_mutation(99, "/r/b/f"), 10.0)
    assert not bursts.takes({"type": "gap", "scope": "/r/a/f"}, 10.0)
    assert bursts.takes(_hashed(100, 55), 10.0)  # of one that is not shown
    assert not bursts.takes(_hashed(101, 5), 10.0)
    assert bursts.wait(10.4) == pytest.approx(0.6)
    assert bursts.ended(10.9) == []
    assert bursts.ended(11.0) == [(b"/r/a", Counter(modified=10))]
    assert bursts.wait(11.0) is None


def test_a_burst_that_goes_on_is_only_counted_until_it_rests() -> None:
    bursts = Bursts()
    for n in range(51):
        bursts.takes(_mutation(n, f"/r/a/{n}"), 10.0)
    bursts.ended(11.0)

    assert bursts.takes(_mutation(60, "/r/a/x"), 11.5)
    assert bursts.ended(12.0) == [(b"/r/a", Counter(modified=1))]
    assert bursts.ended(13.0) == []
    assert not bursts.takes(_mutation(61, "/r/a/x"), 13.0)


# -- what a real log does not show within a test


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon() as fake:
        cli = Cli(fake, capsys, monkeypatch)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TZ", "UTC")
        yield cli


def _shown(cli: Cli, *records: dict[str, Any], roots: tuple[str, ...] = ("/r",)) -> list[str]:
    cli.fake.answers["daemon.hello"] = HELLO | {"roots": list(roots)}
    told = [{"seq": n, "at": "1700000000123000000"} | record for n, record in enumerate(records, 1)]
    cli.fake.answers["log.since"] = {"records": told, "clock": "c:9", "complete": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        out = cli("log").out
    return [re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "HH:MM:SS.mmm", line) for line in out.splitlines()]


def test_a_new_day_has_a_line(cli: Cli) -> None:
    day, next_day = 1700000000 * 10**9, 1700100000 * 10**9
    at = [day, day, next_day, next_day]

    lines = _shown(cli, *({"type": "gap", "scope": "all", "reason": "r", "at": str(when)} for when in at))

    assert [bool(re.match(r"── 2023-11-1\d  /r ─+$", line)) for line in lines] == [True, False, False] * 2
    assert lines[1] == "     1 HH:MM:SS.mmm  ── gap: all: r " + "─" * 44


_SOME = [_mutation(1, "/a/work/f", None), _mutation(2, "/b/other/f", None), _mutation(3, "/else/f", None)]


@pytest.mark.parametrize(
    ("roots", "paths"),
    [
        (("/a/work",), ["f", "/b/other/f", "/else/f"]),
        (("/a/work", "/b/other"), ["work/f", "other/f", "/else/f"]),
        (("/a/work", "/b/work", "/b/other"), ["/a/work/f", "/b/other/f", "/else/f"]),
        (("/a/work", "/"), ["work/f", "/b/other/f", "/else/f"]),
        ((), ["/a/work/f", "/b/other/f", "/else/f"]),
    ],
)
def test_a_path_is_told_from_its_root(cli: Cli, roots: tuple[str, ...], paths: list[str]) -> None:
    lines = _shown(cli, *_SOME, roots=roots)

    assert [line.split()[-1] for line in lines[1:]] == paths


def test_other_records_have_their_row_too(cli: Cli) -> None:
    lines = _shown(
        cli,
        {"type": "hashed", "of": 3, "path": "/r/f", "digest": None, "digest_state": "superseded"},
        {"type": "entry", "event": "late", "key": "k", "scope": "global", "version": 7},
        {"type": "entry", "event": "forgotten", "key": "k", "scope": "global", "version": 0, "superseded": 7},
        {"type": "action", "event": "end", "id": 3, "outcome": "done", "writes": []},
        {"type": "coverage", "path": "/r/x", "coverage": "none", "why": "the limit of watches is reached: raise it"},
        _mutation(5, state="unreadable"),
        _mutation(6, kind="moved", **{"from": "/r/" + "a" * 90}, state=None),
        {"type": "root", "event": "added", "path": "/r/x"},
        {"type": "root", "event": "renewed", "path": "/r/x"},
        {"type": "novel", "thing": 1},
    )

    assert [line[21:] for line in lines[1:]] == [
        "# hashed     of 3 f                           changed again",
        "● late       k  version 7 in global",
        "● forgotten  k  (it had version 7) in global",
        "◆ end        3 done",
        "= coverage   x none: the limit of watches is reached: raise",
        "             it",
        "~ modified   f                                   unreadable",
        "> moved      f ← aaaaaaaaaaaaa…aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "= added      root /r/x",
        "= renewed    root /r/x (clocks count from here, since",
        "             something was mounted elsewhere or the wall",
        "             clock was set)",
        "? novel      thing=1",
    ]
