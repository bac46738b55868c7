"""A daemon that is well, as far as a status tells, for tests that make one thing wrong with it.

Rule: what `well` makes has no finding, on any machine: the state directory is real but has room enough, the
configuration is not there, and no service manager is asked.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from provd import __file__ as package
from provd import __version__, services
from provd.cli.commands.doctor import facts

if TYPE_CHECKING:
    from fake_daemon import Cli
    from ran import Result

Json = dict[str, Any]

ROOT: Json = {
    "path": "/r",
    "state": "watching",
    "backend": "inotify",
    "coverage": "whole",
    "uncovered": [],
    "uncovered_more": 0,
    "why": "",
    "directories": 2,
    "ignore": None,
    "last_gap": {"seq": 4, "at": "1700000000000000000", "type": "gap", "scope": "/r", "reason": "watched from here on"},
    "files": 3,
    "filesystem": "ext4",
}


def ago(seconds: float) -> str:
    """A moment before now, as the wire has it."""
    return str(time.time_ns() - int(seconds * 1e9))


def gap(reason: str, seconds: float = 60, scope: str = "/r", count: int = 1) -> Json:
    """A row of `gaps`, whose newest gap is so old."""
    head = reason if reason.startswith("events lost") else reason.partition(":")[0]
    last = {"seq": 9, "at": ago(seconds), "type": "gap", "scope": scope, "reason": reason}
    return {"reason": head, "count": count, "last": last}


def status(state: str, **fields: Any) -> Json:
    """What a daemon that is well says, but for some fields."""
    told: Json = {
        "version": __version__,
        "package": os.path.dirname(package),
        "pid": 12,
        "started_at": ago(0),
        "uptime_s": 93_784.5,
        "log": "ab",
        "run": "cd",
        "clock": "c:9",
        "oldest": "c:1",
        "oldest_at": "1700000000000000000",
        "socket": "/s/provd.sock",
        "state": state,
        "roots": [ROOT],
        "files": 5,
        "queue": 0,
        "drops": 0,
        "rescans": 1,
        "watches": 2,
        "limits": {"max_user_watches": 8192, "max_user_instances": 128, "max_queued_events": 16384},
        "entries": {"active": 2, "revoked": 1},
        "actions": [{"id": 5, "at": ago(90), "writes": ["object:o"], "paths": [], "hold": False, "session": "s1"}],
        "records": 1234,
        "bytes": 98_304,
        "verdicts": {
            "count": 9,
            "fresh": 7,
            "dirty": 1,
            "unknown": 1,
            "p50_us": 80.5,
            "p99_us": 1250.0,
            "sum_us": 2000.0,
            "buckets": [{"le_us": 100, "count": 6}, {"le_us": 250, "count": 8}, {"le_us": 2500, "count": 9}],
        },
        "gaps": [gap("started", 93_784, "all"), gap("watched from here on", 93_783)],
        "audits": {"count": 0, "files": 0, "mismatches": 0},
        "self_check": {"share": 0.001, "checked": 0, "skipped": 0, "mismatches": 0},
        "store": {"reopened": 0, "map_bytes": 64 * 1024**3},
        "descriptors": {"limit": 65_536, "used": 29},
        "wall_clock": {"stepped_s": 0.0, "ahead_s": 0.0},
        "foreign": False,
    }
    return told | fields


class Doctor:
    """`provd doctor` beside a daemon that is well; a test changes one thing first."""

    def __init__(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cli = cli
        self.monkeypatch = monkeypatch
        self.state = os.path.join(cli.here, "state")
        os.mkdir(self.state, 0o700)
        monkeypatch.setenv("HOME", cli.here)
        monkeypatch.setenv("PROVD_STATE_DIR", self.state)
        monkeypatch.setattr(services, "found", lambda: None)
        look = facts._look
        # whatever the disk is that tests run on
        monkeypatch.setattr(facts, "_look", lambda path: replace(look(path), free=1 << 40, network=False))
        self.tell()

    def tell(self, **fields: Any) -> None:
        """The daemon's status is that of one that is well, but for these fields."""
        self.cli.fake.answers["daemon.status"] = status(self.state, **fields)

    def findings(self, *options: str) -> list[Json]:
        """What it finds, by --json; the exit code says the same."""
        got = self.cli("doctor", "--json", *options, code=None)
        found: list[Json] = got.json["findings"]
        assert found
        assert got.code == int(any(one["level"] != "note" for one in found))
        return found

    def finding(self, *options: str) -> Json:
        """The only finding, which says what, and the next step."""
        (found,) = self.findings(*options)
        assert found["what"]
        assert found["next"]
        return found

    def screen(self, *options: str, code: int = 1) -> Result:
        """What people see."""
        return self.cli("doctor", *options, code=code)


@pytest.fixture
def doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """It beside the module's `cli`; times are told in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    return Doctor(cli, monkeypatch)
