"""status: the screen, checked as text; with a daemon that says what it is told to, and with a real one."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import Any

import pytest
from doctoring import ROOT, Doctor, ago, doctor, status
from fake_daemon import Hangup, cli, fake
from support import Workspace

from provd import __file__ as package
from provd import __version__, services
from provd.cli import main
from provd.cli.commands.doctor import facts
from provd.services import Service

__all__ = ["cli", "doctor", "fake"]

Json = dict[str, Any]


_WELL = """\
✓ all well

daemon     version VERSION, pid 12, up 1 d 2 h, since TIME
socket     /s/provd.sock
state      STATE
package    PACKAGE

roots
  /r  ✓ watching by inotify on ext4
    all of it is watched
    holds 3 files in 2 directories
    last gap 2023-11-14 22:13:20, watched from here on: what happened before
             that shows by reading

entries    2 active, 1 in the archive
actions    1 open
       5  object:o  (session s1)  open 1 min 30 s
answers    9 questions since the start; verdicts 7 fresh, 1 dirty, 1 unknown;
           half of them within 0.08 ms, 99 % within 1.25 ms
log        1,234 records, kept since 2023-11-14 22:13:20, 5 paths known
store      96.0 KiB of at most 64.0 GiB (0.0 %)
watcher    0 waiting, 0 losses, 1 scan, 2 watches
gaps       started (1); watched from here on (1)
limits     max_user_watches 8,192, max_user_instances 128, max_queued_events
           16,384, open files 29 of 65,536
clock      c:9, the oldest held is c:1, the wall clock was not set
ids        run cd, log ab
"""


def _without_places(out: str, doctor: Doctor) -> str:
    for known, word in ((doctor.state, "STATE"), (os.path.dirname(package), "PACKAGE"), (__version__, "VERSION")):
        out = out.replace(known, word)
    return re.sub(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", "since TIME", out, count=1, flags=re.MULTILINE)


def test_the_screen_of_a_daemon_that_is_well(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = int(doctor.cli.fake.answers["daemon.status"]["actions"][0]["at"])
    monkeypatch.setattr(facts, "time", SimpleNamespace(time_ns=lambda: begun + 90 * 10**9))

    out = doctor.cli("status").out

    assert _without_places(out, doctor) == _WELL


@pytest.mark.parametrize(
    ("root", "scope", "reason", "said"),
    [
        ("/r/in", "/r", "root removed", "of /r around it, root removed: this one goes on being watched, by itself"),
        ("/r/in", "/r", "something was mounted", "of /r around it, something was mounted: a mount may have hidden"),
        ("/r", "/r/sub", "something was mounted", "in /r/sub, something was mounted: a mount may have hidden"),
        ("/r", "/r", "root removed", "root removed: it is not watched any more"),
    ],
)
def test_whose_the_last_gap_is(doctor: Doctor, root: str, scope: str, reason: str, said: str) -> None:
    gap = {"seq": 7, "type": "gap", "scope": scope, "reason": reason}
    doctor.tell(roots=[ROOT | {"path": root, "last_gap": gap}])

    assert f"last gap {said}" in " ".join(doctor.cli("status").out.split())


_TROUBLE = """\
✗ 6 things to look at: provd doctor

daemon     version VERSION, pid 12, up 1 d 2 h, since TIME
unit       provd.service (systemd-user): active, starts by itself, ends at
           logout
socket     /s/provd.sock
state      STATE
package    PACKAGE

roots
  /big  ! degraded by inotify on ext4
    watched in part: what its silence hides is found by reading
    holds 9 files in 5 directories
    not watched: /big/a (watch limit reached: raise fs.inotify.max_user_watches (now 8192))
    not watched: /big/b (watch limit reached: raise fs.inotify.max_user_watches (now 8192))
    and 40 more: provd watch ls --json
    next: sudo sysctl fs.inotify.max_user_watches=524288  # to keep it: a line in /etc/sysctl.d/
    last gap 2023-11-14 22:13:20, events lost: the kernel's queue overflowed:
             changes were not told; all was looked through again, and answers
             stay true by reading
  /gone  ✗ gone
    the directory is gone

entries    2 active, 1 in the archive
actions    none open
"""


def test_one_is_no_plural(doctor: Doctor) -> None:
    doctor.tell(records=1, files=1, audits={"count": 1, "files": 1, "mismatches": 1}, verdicts={"questions": 1})

    told = " ".join(doctor.cli("status").out.split())

    assert "1 audit of 1 file found 1 mismatch" in told
    assert "log 1 record, " in told
    assert "1 path known" in told
    assert "1 record, " in " ".join(doctor.screen().out.split())
    assert not re.search(r"\b1 (records|paths|files|mismatches|questions|audits)\b", told)


def test_a_gap_below_a_root_is_told_with_its_place(doctor: Doctor) -> None:
    gap = ROOT["last_gap"]
    doctor.tell(roots=[ROOT | {"last_gap": gap | {"scope": scope}} for scope in ("/r/d", "all", "/r")])

    told = doctor.cli("status").out

    assert told.count(", in ") == 1
    assert ", in /r/d, watched from here on:" in " ".join(told.split())


def test_the_screen_of_a_daemon_that_is_not(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = Service(
        "systemd-user", "provd.service", "/u", ["/bin/sh"], enabled=True, active="active", pid=12, linger=False
    )
    monkeypatch.setattr(services, "found", lambda: unit)
    why = "watch limit reached: raise fs.inotify.max_user_watches (now 8192)"
    lost = {"seq": 4, "at": "1700000000000000000", "type": "gap", "scope": "/big"}
    big = ROOT | {
        "path": "/big",
        "state": "degraded",
        "coverage": "partial",
        "files": 9,
        "directories": 5,
        "uncovered": [{"path": f"/big/{n}", "why": why} for n in "ab"],
        "uncovered_more": 40,
        "last_gap": lost | {"reason": "events lost: the kernel's queue overflowed"},
    }
    gone = {"path": "/gone", "state": "gone", "coverage": "none", "why": "the directory is gone"}
    aside = "/s/store.unusable-1"
    doctor.tell(
        roots=[big, gone],
        actions=[],
        set_aside=aside,
        store={"reopened": 1, "map_bytes": 64 * 1024**3},
        wall_clock={"stepped_s": -7200.0, "ahead_s": 0.0},
    )

    out = _without_places(doctor.cli("status").out, doctor)

    assert out.startswith(_TROUBLE)
    assert f"opened again 1 time after a failed write, one that could not be opened lies at {aside}" in " ".join(
        out.split()
    )
    assert "the wall clock was set back by 2 h" in out
    assert len(doctor.findings()) == 6, "the screen and the doctor say the same"


def test_lines_fit_a_terminal_but_for_paths_and_commands(doctor: Doctor) -> None:
    for line in doctor.cli("status").out.splitlines():
        assert len(line) <= 80 or doctor.state in line, line


def test_json_is_exactly_what_the_daemon_said(doctor: Doctor) -> None:
    answer = status("/s", novel={"a": [1, None, {"b64": "L/8="}]})
    doctor.cli.fake.answers["daemon.status"] = answer

    assert doctor.cli("status", "--json").json == answer


def test_what_a_newer_daemon_tells_is_shown_as_it_is(doctor: Doctor) -> None:
    root = ROOT | {"novel_thing": {"seen": 3, "none": None}}
    doctor.tell(
        novel=["a", "b"],
        store={"reopened": 0, "shards": 7},
        entries={"active": 1, "hypothesis": 4},
        strange={"b64": "L/8="},
        a_rather_long_name=True,
        roots=[root],
    )

    out = doctor.cli("status").out

    for text in (
        "\nnovel      a; b\n",
        "shards 7",
        "1 active, 4 hypothesis",
        "\nstrange    /\\xff\n",
        "\na_rather_long_name true\n",
        "\n    novel thing seen 3\n",
    ):
        assert text in out, text


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"roots": None, "actions": None, "verdicts": 3, "store": [], "gaps": [3], "limits": None, "entries": "many"},
        {"roots": [{"path": "/r"}], "verdicts": {}, "wall_clock": {}, "descriptors": {}, "actions": [{}]},
    ],
)
def test_a_daemon_that_tells_little_or_other_things(doctor: Doctor, answer: Json) -> None:
    doctor.cli.fake.answers["daemon.status"] = answer

    assert doctor.cli("status").out.startswith("✓ all well\n")


def test_a_store_that_was_taken_over_from_an_older_version(doctor: Doctor) -> None:
    doctor.tell(migrated={"from": 1, "at": "1700000000000000000", "kept": "/s/store.format-1"})

    out = " ".join(doctor.cli("status").out.split())

    assert "taken over from format 1 on 2023-11-14 22:13:20, the old one is kept at /s/store.format-1" in out


def test_with_many_roots_and_actions_those_that_are_not_well_come_first(doctor: Doctor) -> None:
    many = [ROOT | {"path": f"/r{n:03}"} for n in range(99)]
    gone = {"path": "/r998", "state": "gone", "coverage": "none"}
    actions = [{"id": n, "at": ago(5), "writes": ["object:o"]} for n in range(30)]
    doctor.tell(roots=[*many, gone], actions=actions)

    lines = doctor.cli("status").out.splitlines()

    assert len(lines) < 150
    assert lines[lines.index("roots") + 1] == "  /r998  ✗ gone"
    assert "  and 80 more: provd watch ls" in lines
    assert "           and 10 more: provd action ls" in lines


def test_names_from_outside_steer_no_terminal(doctor: Doctor) -> None:
    evil = "\x1b[2J"
    action = {"id": 1, "at": ago(5), "writes": [f"object:{evil}"], "session": evil, "note": evil}
    gap = ROOT["last_gap"] | {"reason": evil}
    root = ROOT | {"path": f"/{evil}", "state": evil, "backend": evil, "coverage": evil, "last_gap": gap, evil: evil}
    doctor.tell(actions=[action], roots=[root], version=evil, log=evil, clock=evil, entries={evil: 1}, set_aside=evil)
    doctor.cli.fake.answers["daemon.status"][evil] = evil

    assert "\x1b" not in doctor.cli("status").out
    assert "\x1b" not in doctor.screen().out


def test_directories_that_are_not_watched_one_by_one_are_not_counted(doctor: Doctor) -> None:
    polled = ROOT | {"state": "watching", "coverage": "partial", "files": 1, "directories": 0}
    gone = {"path": "/g", "state": "gone", "coverage": "none", "files": 1, "directories": 0}
    doctor.tell(roots=[polled, gone])

    assert [line.split()[1:] for line in doctor.cli("status").out.splitlines() if " holds " in line] == [["1", "file"]]


def test_without_roots_it_says_how_to_add_one(doctor: Doctor) -> None:
    doctor.tell(roots=[])

    assert "roots      none: provd watch add .  # or another directory" in doctor.cli("status").out


def test_without_a_daemon_the_code_is_3_and_the_next_step_is_told(doctor: Doctor) -> None:
    got = doctor.cli("status", "--socket", "none", code=3)

    assert got.out == ""
    assert "no daemon" in got.err
    assert "next: " in got.err


def test_a_daemon_that_ends_meanwhile(doctor: Doctor) -> None:
    doctor.cli.fake.answers["daemon.status"] = Hangup()

    for options in ((), ("--json",), ("--prometheus",)):
        doctor.cli("status", *options, code=3)


def _normalised(text: str, own: Workspace) -> str:
    """The screen of a real daemon without what differs from one to the next."""
    for known, word in ((own.daemon.home, "HOME"), (str(own.rpc("daemon.hello", protocol=1)["pid"]), "PID")):
        text = text.replace(known, word)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"(up|open) \d+ (s|min)( \d+ s)?", r"\1 AGE", text)
    return re.sub(r"[0-9a-f]{16}", "ID", text)


def test_the_screen_of_a_real_daemon(
    own: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", own.daemon.home)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(services, "found", lambda: None)
    own.write("d/a")
    own.put("k", "file:d/a")
    own.check("k")
    own("action.begin", writes=["object:svc"], session="s1", note="scale it")
    own.daemon.scanned()
    own.rpc("daemon.audit")

    assert main(["status", "--socket", own.daemon.socket, "--state", own.daemon.state]) == 0

    lines = _normalised(capsys.readouterr().out, own).splitlines()
    assert lines[0] in {"✓ all well", "✓ all well, 1 note: provd doctor"}, "a polled file system is a note"
    assert lines[2:7] == [
        f"daemon     version {__version__}, pid PID, up AGE, since TIME",
        "socket     HOME/s.sock",
        "state      HOME/state",
        f"package    {os.path.dirname(package)}",
        "logs to    HOME/daemon.log",
    ]
    text = "\n".join(lines)
    for told in (
        "\n  HOME/root  ✓ watching by ",
        "\n    holds 1 file in 2 directories",
        "\n    last gap TIME, ",
        "\nentries    1 active, 0 in the archive",
        "\nactions    1 open\n",
        "  object:svc  (session s1, note scale it)  open AGE",
        "\nanswers    1 question since the start; verdicts 1 fresh, 0 dirty, 0",
        "1 audit of ",
        " records, kept since TIME, ",
        "run ID, log ID",
        "\nstore      ",
        "of at most ",
        "\ngaps       started (1)",
        "the wall clock was not set",
    ):
        assert told in text, (told, text)
    shown = [label for label in text.split("\n") if label[:1].strip() and " " in label]
    assert all(re.match(r"[a-z]+ +\S|✓|!", line) for line in shown), "each field has a place: none is told as unknown"
    assert not re.search(r"\n(foreign|started_at|oldest_at|audits|descriptors)", text)
