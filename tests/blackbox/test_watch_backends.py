"""The other ways of watching: their answers are as true, and they never claim more than they know."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from asking import sh
from support import SHOWN, Daemon, Json, Workspace, unwire
from watching import Replay, eventually, mutations, of_path, put_by_clock, root_of, since, until, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

BACKENDS = ["poll", "watchdog"]


@pytest.fixture(scope="module", params=BACKENDS)
def module_daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """In place of the common one: a daemon with another backend."""
    if request.param == "watchdog" and importlib.util.find_spec("watchdog") is None:
        pytest.skip("watchdog is not installed")
    daemon = Daemon(args=["--backend", request.param])
    try:
        yield daemon.start().scanned()
    finally:
        daemon.close()


def backend(ws: Workspace) -> str:
    name = root_of(ws.daemon)["backend"]
    assert name in BACKENDS
    return str(name)


def test_coverage_is_partial_and_says_why(watched: Workspace) -> None:
    root = root_of(watched.daemon)
    assert f"--backend {root['backend']}" in " ".join(watched.daemon.args)
    assert root["coverage"] == "partial"
    assert root["uncovered"]
    assert all(item["why"] for item in root["uncovered"])


@pytest.mark.parametrize(
    "change",
    ["printf two > f", "rm f", "mv f g", "printf two > .t; mv .t f", "rm f; mkdir f", "printf x > d/new", "mv d e"],
)
@pytest.mark.parametrize("verify", ["auto", "content", "log"])
def test_answers_are_true(watched: Workspace, change: str, verify: str) -> None:
    watched.write("f", "one")
    watched.write("d/g", "one")
    watched.put("k", "file:f", "tree:d", fetched_at=watched.clock())
    assert watched.verdict("k", verify=verify) == "fresh"
    sh(watched, change)
    assert watched.verdict("k", verify=verify) == "dirty"
    assert watched.verdict("k", revalidate=False) != "fresh"


def test_rewrites_that_keep_size_and_times_are_seen(watched: Workspace) -> None:
    path = watched.write("f", "one")
    status = os.stat(path)
    watched.put("k", "file:f")
    watched.write("f", "two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert watched.verdict("k") == "dirty"


def test_log_since_is_never_complete_and_nothing_is_proved_by_silence(watched: Workspace) -> None:
    watched.write("f", "one")
    clock = watched.clock()
    answer = since(watched, clock)
    assert answer["complete"] is False
    assert answer["uncovered"]
    watched.put("k", "file:f", fetched_at=clock)
    checked = watched.check("k", verify="log")
    assert checked["verdict"] == "fresh"
    assert checked["checked"] in SHOWN


def test_a_clock_alone_shows_nothing(watched: Workspace) -> None:
    watched.write("f", "one")
    assert put_by_clock(watched, "k", "file:f", "file:none")["unproven"] == ["file:f", "file:none"]
    late = {"dirty"} if backend(watched) == "watchdog" else set()  # what it tells of the writing may come afterwards
    assert watched.verdict("k") in {"unknown"} | late


def test_records_appear(watched: Workspace) -> None:
    clock = watched.clock()
    path = watched.write("f", "one")
    deep = watched.write("a/b/c/f", "deep")
    if backend(watched) == "poll":  # a clock scans first
        watched.clock()
        records = mutations(watched, clock)
        assert {r["origin"] for r in records} == {"scan"}
        assert of_path(records, path)
        assert of_path(records, deep)
    else:
        until(watched.daemon, clock, lambda records: bool(of_path(records, path) and of_path(records, deep)))


def test_under_polling_each_clock_has_all_that_happened_before_it(watched: Workspace) -> None:
    if backend(watched) != "poll":
        pytest.skip("only a scan is a barrier")
    before = walk(watched.root)
    clock = watched.clock()
    for number in range(10):
        watched.write(f"d{number % 3}/f{number}", str(number))
        if number % 4 == 3:
            shutil.rmtree(watched.path(f"d{number % 3}"))
        if number % 4 == 1:
            os.rename(watched.path(f"d{number % 3}"), watched.path(f"moved{number}"))
        watched.clock()
        assert Replay(before).follow(mutations(watched, clock)).names == walk(watched.root), number


def test_what_went_is_told_in_the_end(watched: Workspace) -> None:
    path = watched.write("f", "one")
    deep = watched.write("d/e/f", "one")
    watched.clock()
    started = watched.clock()

    def told_gone(records: list[Json]) -> bool:
        gone = [unwire(r["path"]) for r in records if r["type"] == "mutation" and r["kind"] == "deleted"]
        return path in gone and (deep in gone or os.path.dirname(os.path.dirname(deep)) in gone)

    def known() -> bool:
        watched.clock()
        return bool(of_path(mutations(watched, started), path)) or backend(watched) == "poll"

    watched.write("f", "two")
    assert eventually(known)
    sh(watched, "rm -r f d")
    watched.clock()
    until(watched.daemon, started, told_gone)


def test_a_root_that_goes_and_comes_back_is_answered_for(watched: Workspace) -> None:
    own = Daemon(args=watched.daemon.args)
    try:
        ws = own.start().workspace()
        ws.write("f", "one")
        ws.put("k", "file:f")
        away = os.path.join(own.home, "away")
        os.rename(own.root, away)
        assert ws.verdict("k") == "dirty"
        assert eventually(lambda: bool(root_of(own)["state"] == "gone"))
        os.rename(away, own.root)
        assert ws.verdict("k") == "fresh"
        assert "Traceback" not in own.said()
    finally:
        own.close()
