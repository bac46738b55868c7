"""doctor: each finding is made to happen, beside a daemon that is well otherwise; some with a daemon that says so."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from doctoring import ROOT, Doctor, ago, doctor, gap
from fake_daemon import cli, fake

from provd.cli.commands.doctor import CHECKS, reaching
from provd.cli.commands.doctor.facts import Facts
from provd.cli.commands.doctor.reaching import _KINDS
from provd.cli.commands.doctor.results import Check, Result, examine, to_json
from provd.cli.processes.holding import Holder

__all__ = ["cli", "doctor", "fake"]

Json = dict[str, Any]


def test_where_all_is_well_each_check_says_so_and_the_code_is_0(doctor: Doctor) -> None:
    told = doctor.cli("doctor", "--json").json
    out = doctor.screen(code=0).out

    assert told["findings"] == []
    assert [row["check"] for row in told["checks"]] == [check.name for check in CHECKS]
    assert {row["level"] for row in told["checks"]} == {"ok"}
    assert all(row["what"] for row in told["checks"])
    assert out.rstrip().endswith("✓ all well")
    assert all(f"✓ ok      {check.name}" in out for check in CHECKS)


def test_a_finding_is_a_line_with_symbol_and_word_and_says_why_and_what_next(doctor: Doctor) -> None:
    doctor.tell(roots=[])

    lines = doctor.screen().out.splitlines()

    at = next(index for index, line in enumerate(lines) if " roots " in line)
    assert lines[at] == "! warn    roots       nothing is watched"
    assert lines[at + 1].strip().startswith("why: without roots answers are true")
    assert "next: provd watch add ." in lines[at + 3].strip()
    assert lines[-1] == "! 1 thing to look at"
    assert all(len(line) <= 80 or "next: " in line for line in lines)


# ---- what the daemon tells

_LIMIT = "watch limit reached: raise fs.inotify.max_user_watches (now 8192)"
_HOUR = 3600.0
_TOLD: list[tuple[str, str, Json, str, str]] = [
    ("namespace", "fail", {"foreign": True}, "other files than you", "provd start"),
    ("namespace", "fail", {"foreign": True, "proc_missing": True}, "cannot tell which files", "ls /proc/self/ns/mnt"),
    ("version", "warn", {"version": "9.9"}, "the daemon is 9.9", "provd restart"),
    ("version", "warn", {"version": "9.9", "package": "/else/where"}, "9.9", "provd restart"),
    ("store.aside", "warn", {"set_aside": "/s/store.unusable-1"}, "/s/store.unusable-1", "rm -r /s/store.unusable-1"),
    ("store.migrated", "warn", {"migrated": {"kept": "/s/store.format-1", "from": 1}}, "/s/store.format-1", "restart"),
    (
        "store.astray",
        "fail",
        {"store": {"unusable": "it was moved"}},
        "was moved",
        "provd restart && provd import FILE",
    ),
    (
        "store.damaged",
        "fail",
        {"store": {"damaged": "mdb_get: MDB_CORRUPTED"}},
        "not as it was written",
        "provd export --all",
    ),
    ("store.reopened", "warn", {"store": {"reopened": 2}}, "opened again 2 times", "dmesg"),
    ("store.map", "warn", {"bytes": 900 * 1024**2, "store": {"map_bytes": 1024**3}}, "900.0 MiB", "map_gib = 2"),
    ("roots.none", "warn", {"roots": []}, "nothing is watched", "provd watch add ."),
    ("limits.watches", "warn", {"watches": 8000}, "8,000 of at most 8,192", "fs.inotify.max_user_watches=524288"),
    ("audit.mismatch", "warn", {"audits": {"count": 2, "files": 9, "mismatches": 1}}, "2 audits", "provd audit"),
    (
        "selfcheck.mismatch",
        "warn",
        {"self_check": {"share": 0.001, "checked": 9, "skipped": 0, "mismatches": 1}},
        "one was not true",
        "provd audit",
    ),
    ("queue", "warn", {"queue": 50_000}, "50,000", "--ignore"),
    ("descriptors", "warn", {"descriptors": {"limit": 256, "used": 30}}, "256", "ulimit -Hn 4096"),
    ("descriptors", "warn", {"descriptors": {"limit": 2000, "used": 1900}}, "1900", "ulimit -Hn 4096"),
    ("clock.set", "warn", {"wall_clock": {"stepped_s": -7200.0}}, "back by 2 h", "new clocks"),
    ("clock.set", "warn", {"wall_clock": {"stepped_s": 60.5}}, "forward by 1 min", "new clocks"),
    ("clock.future", "warn", {"wall_clock": {"ahead_s": 86_400.0}}, "1 d in the future", "timedatectl"),
]


@pytest.mark.parametrize(("code", "level", "fields", "what", "following"), _TOLD)
def test_what_the_daemon_tells(doctor: Doctor, code: str, level: str, fields: Json, what: str, following: str) -> None:
    doctor.tell(**fields)

    found = doctor.finding()

    assert (found["code"], found["level"]) == (code, level)
    assert what in found["what"]
    assert following in found["next"]


def _root(**fields: Any) -> Json:
    return {"roots": [ROOT | fields]}


def _places(why: str, *names: str) -> list[Json]:
    return [{"path": name, "why": why} for name in names]


_OVERLAY = "overlay hides changes of the layers below it and stores through mappings"
_NO_TABLE = "the table of mounts cannot be read, so nobody knows what lies there"
_ROOTS: list[tuple[str, str, Json, str, str]] = [
    ("root.gone", "fail", _root(state="gone", coverage="none"), "/r is gone", "provd watch rm /r"),
    (
        "root.scanning",
        "warn",
        _root(state="scanning", coverage="none", last_gap=ROOT["last_gap"] | {"at": ago(2 * _HOUR)}),
        "being scanned since 2 h",
        "provd watch add /r --ignore node_modules/",
    ),
    (
        "root.polled",
        "warn",
        _root(backend="poll", coverage="partial", uncovered=_places(_NO_TABLE, "/r"), why=_NO_TABLE),
        "/r is polled",
        "/proc/self/mountinfo",
    ),
    (
        "root.polled",
        "note",
        _root(backend="poll", coverage="partial", uncovered=_places(_OVERLAY, "/r"), why=_OVERLAY),
        "/r is polled",
        "local file system",
    ),
    (
        "root.polled",
        "warn",
        _root(
            backend="poll",
            coverage="partial",
            uncovered=_places("no instance left: fs.inotify.max_user_instances is 128", "/r"),
        ),
        "/r is polled",
        "sudo sysctl fs.inotify.max_user_instances=1024",
    ),
    (
        "root.polled",
        "warn",
        _root(backend="watchdog", coverage="partial", uncovered=_places("it may drop events", "/r")),
        "watchdog",
        "provd restart --backend auto",
    ),
    (
        "root.polled",
        "note",
        _root(
            backend="poll",
            coverage="partial",
            uncovered=_places("polled every 10 s, as was chosen: silence proves nothing", "/r"),
        ),
        "/r is polled",
        "provd restart --backend auto",
    ),
    (
        "root.unwatched",
        "fail",
        _root(state="degraded", coverage="none", uncovered=_places(_LIMIT, "/r"), why=_LIMIT),
        "/r is not watched",
        "sudo sysctl fs.inotify.max_user_watches=524288",
    ),
    (
        "root.ignored",
        "warn",
        _root(all_ignored=True, ignore=[".git/", "*"]),
        "nothing of /r is watched",
        "provd watch add /r --ignore .git/",
    ),
    (
        "root.doubted",
        "warn",
        _root(state="degraded", coverage="partial", uncovered=_places(_OVERLAY, "/r")),
        "silence proves nothing",
        "",
    ),
    (
        "root.uncovered",
        "warn",
        _root(state="degraded", coverage="partial", uncovered=_places(_LIMIT, "/r/a", "/r/b"), uncovered_more=40),
        "42 places in /r are not watched, /r/a is the first",
        "sudo sysctl fs.inotify.max_user_watches=524288",
    ),
    (
        "root.uncovered",
        "warn",
        _root(state="degraded", coverage="partial", uncovered=_places("permission denied", "/r/a")),
        "/r/a is not watched",
        "chmod u+rX /r/a  # opens it\nprovd watch add /r --ignore /a/  # leaves it out",
    ),
]


@pytest.mark.parametrize(("code", "level", "fields", "what", "following"), _ROOTS)
def test_what_is_wrong_with_a_root(
    doctor: Doctor, code: str, level: str, fields: Json, what: str, following: str
) -> None:
    doctor.tell(**fields)

    (found,) = doctor.findings()

    assert (found["code"], found["level"]) == (code, level)
    assert what in found["what"]
    assert found["why"]
    assert found["next"]
    assert following in found["next"]


def test_each_reason_why_places_are_not_watched_is_told_once(doctor: Doctor) -> None:
    places = _places(_LIMIT, "/r/a", "/r/b") + _places("permission denied", "/r/c")
    doctor.tell(**_root(state="degraded", coverage="partial", uncovered=places))

    limit, denied = doctor.findings()

    assert "2 places" in limit["what"]
    assert "/r/c" in denied["what"]
    assert limit["next"] != denied["next"]


def test_a_scan_that_has_just_begun_is_no_finding(doctor: Doctor) -> None:
    doctor.tell(**_root(state="scanning", coverage="none", last_gap=ROOT["last_gap"] | {"at": ago(5)}))

    assert "1 of them scanned for the first time" in doctor.screen(code=0).out


_GAPS = [
    ("events lost: the kernel's queue overflowed", "sudo sysctl fs.inotify.max_queued_events=262144"),
    ("events lost: the kernel dropped them", "provd audit"),
    ("an event of an unknown watch", "provd audit"),
    ("records could not be written: store full", "free space"),
    ("internal: KeyError: 'x'", "report"),
    ("it cannot be looked at: Input/output error", "readable"),
    ("it cannot be listed: Permission denied", "readable"),
    ("a name in it cannot be looked at: Input/output error", "readable"),
]


@pytest.mark.parametrize(("reason", "following"), _GAPS)
def test_a_gap_that_somebody_should_know_of(doctor: Doctor, reason: str, following: str) -> None:
    doctor.tell(gaps=[gap("started", scope="all"), gap(reason, seconds=120, count=3)])

    found = doctor.finding()

    assert (found["code"], found["level"]) == ("gap", "warn")
    assert f"/r: {reason}" in found["what"]
    assert "3 times since the start, 2 min ago the last" in found["why"]
    assert following in found["next"]


@pytest.mark.parametrize("reason", ["started", "root added", "rules changed", "something that a newer daemon says"])
def test_ordinary_gaps_are_counted_and_trouble_nobody(doctor: Doctor, reason: str) -> None:
    doctor.tell(gaps=[gap(reason, count=7)])

    assert "7 gaps since the start" in doctor.screen(code=0).out


def test_a_gap_of_last_week_is_no_news(doctor: Doctor) -> None:
    doctor.tell(gaps=[gap("events lost: the kernel dropped them", seconds=7 * 86_400)])

    doctor.screen(code=0)


def test_an_action_that_is_open_for_long(doctor: Doctor) -> None:
    old = {"id": 7, "at": ago(2 * _HOUR), "writes": ["object:svc"], "session": "s9"}
    doctor.tell(actions=[old, old | {"id": 8, "at": ago(60)}])

    found = doctor.finding()

    assert found["code"] == "actions.old"
    assert found["what"] == "action 7 is open since 2 h, by session s9: object:svc"
    assert found["why"] == "until it ends, what rests on the objects that it names is dirty"
    assert "provd action end 7" in found["next"]


def test_an_open_action_of_paths_makes_nothing_dirty(doctor: Doctor) -> None:
    doctor.tell(actions=[{"id": 7, "at": ago(2 * _HOUR), "writes": ["file:/f", {"b64": "ZmlsZTovgA=="}]}])

    found = doctor.finding()

    assert found["code"] == "actions.old"
    assert "dirty" not in found["why"]
    assert "counts as its doing" in found["why"]


def test_a_root_in_whose_place_another_directory_stands(doctor: Doctor) -> None:
    here = doctor.cli.here
    doctor.tell(roots=[ROOT | {"path": here, "state": "gone", "coverage": "none"}])

    found = doctor.finding()

    assert (found["code"], found["level"]) == ("root.gone", "fail")
    assert found["what"] == f"{here} is another directory than the one that was watched"
    assert found["next"].startswith(f"provd watch add {here}  #")


@pytest.mark.parametrize(("whose", "named"), [(4242, "'#4242'"), (0, "root")])
def test_a_daemon_of_another_user_is_no_other_mount_namespace(whose: int, named: str) -> None:
    facts = Facts("/s", "1", "/p", answer={"foreign": True}, user=7, daemon_user=whose)

    (found,) = reaching.namespace(facts)

    assert found.code == "namespace"
    assert "mount namespace" not in found.why
    assert found.next == f"sudo -u {named} provd doctor --socket /s  # asks as that user"


def test_a_second_daemon_on_the_state_that_this_command_means(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provd.cli.commands.doctor.facts.holder", lambda path: Holder(77, "/t/b.sock"))

    found = doctor.finding()

    assert found["code"] == "daemons"
    assert "process 12 answers here, process 77 holds" in found["what"]
    assert found["next"].startswith("provd stop --socket /t/b.sock  #")


def test_of_other_daemons_only_what_is_known_is_said(doctor: Doctor) -> None:
    told = " ".join(doctor.screen(code=0).out.split())

    assert f"process 12 answers, and no other daemon holds {doctor.state}" in told
    assert "only one" not in told


# ---- the table itself


def test_a_check_that_fails_is_a_finding_and_the_others_go_on() -> None:
    def broken(facts: Facts) -> list[Result]:
        raise KeyError(facts.socket)

    checks = (Check("broken", broken), *CHECKS[:1])

    told = to_json(examine(Facts("/s.sock", "1", "/p", config="/none"), checks))

    assert [(one["check"], one["code"]) for one in told["findings"]] == [("broken", "internal")]
    assert [row["level"] for row in told["checks"]] == ["fail", "ok"]


@pytest.mark.parametrize("answer", [{}, {"novel": 1}, {"roots": None, "actions": 3, "gaps": "x", "store": []}])
def test_a_daemon_that_tells_little_or_other_things_breaks_no_check(doctor: Doctor, answer: Json) -> None:
    doctor.cli.fake.answers["daemon.status"] = answer

    doctor.screen(code=0)


def test_of_many_findings_people_see_the_first_twenty(doctor: Doctor) -> None:
    doctor.tell(roots=[ROOT | {"path": f"/r{n}", "state": "gone"} for n in range(33)])

    out = doctor.screen().out

    assert out.count(" is gone\n") == 20
    assert "and 13 more: provd doctor --json" in out
    assert "33 things to look at" in out
    assert len(doctor.findings()) == 33


def test_names_that_are_no_text_and_steer_terminals_are_made_harmless(doctor: Doctor) -> None:
    doctor.tell(roots=[ROOT | {"path": {"b64": "L/8bW0o="}, "state": "gone"}])

    out = doctor.screen().out

    assert "\x1b" not in out
    assert "/\\xff\\x1b[J is gone" in out


def test_each_finding_is_explained_in_the_documents() -> None:
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(here, "docs", "status.md"), encoding="utf-8") as file:
        explained = set(re.findall(r"^\| `([a-z.]+)` \|", file.read(), re.MULTILINE))
    used = {"internal"}
    for module in ("reaching", "keeping", "watching"):
        with open(os.path.join(here, "provd", "cli", "commands", "doctor", f"{module}.py"), encoding="utf-8") as file:
            text = file.read()
        used |= set(re.findall(r"(?:warn|fail|level)\(\s*\"([a-z.]+)\"", text))
    used |= {f"socket.{kind}" for kind in (*_KINDS, "stopped", "other")}

    assert used == explained
