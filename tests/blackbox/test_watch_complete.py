"""When `log.since` says that its records are all that happened, and when it must not: SPEC 7 and 12."""

from __future__ import annotations

import os
import random
import shutil

import pytest
from asking import sh
from support import Daemon, Json, Workspace, records_since, unwire, wire
from watching import (
    Replay,
    below,
    gaps,
    is_of,
    mutations,
    overflow,
    paths_of,
    root_of,
    settled,
    since,
    stopped,
    told,
    until,
    walk,
)


def uncovered_at(answer: Json, path: bytes) -> bool:
    """Whether an answer says of a path, or of what is above or below it, that it is not watched."""
    named = paths_of(answer.get("uncovered", []))
    return any(below(path, name) or below(name, path) for name in named)


# ---- true


@pytest.mark.parametrize("seed", range(3))
def test_plain_work_in_a_watched_root_is_complete(watched: Workspace, seed: int) -> None:
    choose = random.Random(seed)
    first = watched.clock()
    for number in range(60):
        before = walk(watched.root)
        clock = watched.clock()
        name = f"d{choose.randrange(4)}/e{choose.randrange(3)}/f{choose.randrange(5)}"
        step = choose.choice(["write", "write", "write", "remove", "move", "rmtree", "mkdir", "chmod"])
        path = watched.path(name)
        match step:
            case "remove" if os.path.exists(path):
                os.unlink(path)
            case "move" if os.path.exists(path):
                os.rename(path, watched.path(f"moved{choose.randrange(5)}"))
            case "rmtree":
                shutil.rmtree(watched.path(f"d{choose.randrange(4)}"), ignore_errors=True)
            case "mkdir":
                os.makedirs(os.path.dirname(path), exist_ok=True)
            case "chmod" if os.path.exists(path):
                os.chmod(path, choose.choice([0o600, 0o644]))
            case _:
                watched.write(name, f"{number}")
        answer = since(watched, clock)
        assert answer["complete"] is True, (seed, number, step, answer)
        assert "uncovered" not in answer or answer["uncovered"] == []
        Replay(before).follow(r for r in answer["records"] if is_of(r, watched.root)).agrees(
            watched.root, digests=False
        )
    assert since(watched, first)["complete"] is True


def test_the_clock_of_an_answer_goes_on_where_it_ended(watched: Workspace) -> None:
    clock = watched.clock()
    seen = []
    for number in range(20):
        watched.write(f"f{number}")
        answer = since(watched, clock)
        seen += [unwire(r["path"]) for r in answer["records"] if is_of(r, watched.root)]
        clock = answer["clock"]
    assert set(seen) == {watched.path(f"f{number}") for number in range(20)}


def test_pages_of_a_long_answer_are_all_of_it(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(100):
        watched.write(f"f{number}")
    records = records_since(watched.rpc, clock, limit=9)
    paths = {unwire(r["path"]) for r in records if is_of(r, watched.root)}
    assert paths == {watched.path(f"f{number}") for number in range(100)}


# ---- false


def test_after_an_overflow_it_is_not_complete_and_the_next_stretch_is(own: Workspace) -> None:
    own.write("before", "one")
    own.put("k", "file:before")
    clock = own.clock()
    made = overflow(own.daemon, os.path.join(own.root, "burst"))
    own.write("before", "changed at the end\n")
    assert own.verdict("k") == "dirty"
    answer = since(own, clock)
    assert answer["complete"] is False
    missing = {own.path(f"burst/many{number}") for number in range(made)}

    def all_told(records: list[Json]) -> bool:
        if records and records[-1]["type"] == "mutation":
            missing.discard(unwire(records[-1]["path"]))
        return not missing

    records = until(own.daemon, clock, all_told)
    (gap, *_) = gaps(records, own.root)
    assert gap["reason"]
    Replay(map(own.path, ("before", "burst"))).follow(settled(own.daemon, clock)).agrees(own.root)
    assert {r["origin"] for r in records if is_of(r, own.root)} & {"scan"}
    assert since(own, clock)["complete"] is False, "the gap does not go away"
    later = own.clock()
    own.write("burst/after")
    answer = since(own, later)
    assert answer["complete"] is True
    assert ("created", b"burst/after") in told(own, later)
    assert root_of(own.daemon)["last_gap"]["seq"] >= gap["seq"]
    assert own.rpc("daemon.audit")["mismatches"] == []


def test_objects_do_not_care_for_an_overflow(own: Workspace) -> None:
    own("entry.put", key="o", value=1, deps=[own.object("x")], fetched_at=own.clock())
    overflow(own.daemon, os.path.join(own.root, "burst"))
    assert own.found("o") == ("fresh", "declared")


def test_a_daemon_that_stood_still_without_losing_anything_is_complete(own: Workspace) -> None:
    clock = own.clock()
    with stopped(own.daemon):
        for number in range(500):
            own.write(f"d{number % 7}/f{number}", str(number))
    assert since(own, clock)["complete"] is True
    Replay().follow(settled(own.daemon, clock)).agrees(own.root)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_across_a_restart_it_is_not_complete(own: Workspace, how: str) -> None:
    own.write("a", "1")
    own.write("gone", "1")
    clock = own.clock()
    if how == "stop":
        own.daemon.stop()
    else:
        own.daemon.kill9()
    own.write("a", "changed while nobody watched\n")
    own.write("new/deep", "made while nobody watched\n")
    os.unlink(own.path("gone"))
    own.daemon.start().scanned()
    answer = since(own, clock)
    assert answer["complete"] is False
    assert gaps(records_since(own.rpc, clock), own.root)
    later = own.clock()
    own.write("b")
    assert since(own, later)["complete"] is True
    assert ("created", b"b") in told(own, later)


def test_outside_every_root_nothing_is_complete(watched: Workspace) -> None:
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    os.mkdir(outside)
    clock = watched.clock()
    for paths in ([outside], [watched.root, outside], ["/"]):
        answer = watched.rpc("log.since", clock=clock, paths=paths)
        assert answer["complete"] is False
        assert answer["uncovered"], paths
    assert uncovered_at(watched.rpc("log.since", clock=clock, paths=[outside]), os.fsencode(outside))
    assert since(watched, clock)["complete"] is True


def test_in_an_ignored_place_nothing_is_complete_or_told(watched: Workspace) -> None:
    watched.write(".git/config", "one")
    watched.write("f", "one")
    clock = watched.clock()
    watched.write(".git/config", "two")
    watched.write(".git/new", "two")
    watched.write("f", "two")
    answer = since(watched, clock, ".git")
    assert answer["complete"] is False
    assert uncovered_at(answer, watched.path(".git"))
    assert {name for _, name in told(watched, clock)} == {b"f"}
    assert since(watched, clock, "f")["complete"] is True


def test_a_token_that_nobody_knows_is_never_complete(watched: Workspace) -> None:
    letter, log, run, at = watched.clock().split(":")
    for token in (f"{letter}:{log}:{'0' * len(run)}:{at}", f"{letter}:{'0' * len(log)}:{run}:{at}"):
        assert watched.rpc("log.since", clock=token, paths=[watched.root])["complete"] is False


class Blind(Daemon):
    """A daemon that is not above permissions, even where root runs the tests."""

    def command(self) -> list[str]:
        bare = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        return [*(bare if os.geteuid() == 0 else []), *super().command()]


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_a_directory_that_cannot_be_read_is_uncovered_with_its_reason(when: str) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root reads everything, and there is no setpriv to take that away")
    daemon = Blind()
    try:
        ws = daemon.workspace()
        ws.write("ok/f", "one")
        if when == "before the start":
            ws.write("secret/f", "one")
            os.chmod(ws.path("secret"), 0)
        daemon.start().scanned()
        if when != "before the start":
            os.mkdir(ws.path("secret"), 0)
        clock = ws.clock()
        secret = ws.path("secret")
        state = root_of(daemon)
        assert state["coverage"] == "partial"
        assert secret in paths_of(state["uncovered"])
        (item,) = [item for item in state["uncovered"] if unwire(item["path"]) == secret]
        assert item["why"]
        for names in (("secret",), ("secret/f",), ()):
            answer = since(ws, clock, *names)
            assert answer["complete"] is False, names
            assert uncovered_at(answer, secret)
        ws.write("ok/f", "two")
        assert since(ws, clock, "ok")["complete"] is True
        answer = ws("deps.check", deps=[{"dep": wire("file:secret/f"), "digest": "absent"}])
        assert answer["verdict"] == "unknown"
        os.chmod(secret, 0o700)
        sh(ws, "printf x > secret/g")
        ws.put("k", "file:secret/g")
        ws.write("secret/g", "changed")
        assert ws.verdict("k") == "dirty"
        assert daemon.alive
        assert "Traceback" not in daemon.said()
    finally:
        os.chmod(os.path.join(daemon.root, "secret"), 0o700)
        daemon.close()


def test_a_change_of_the_ignore_rules_is_a_gap(own: Workspace) -> None:
    own.write("logs/a", "one")
    clock = own.clock()
    own.rpc("root.add", path=own.root, ignore=["logs/"])
    answer = since(own, clock)
    assert answer["complete"] is False
    assert gaps(answer["records"], own.root)
    later = own.clock()
    own.write("logs/a", "two")
    own.write("f")
    assert {name for _, name in told(own, later)} == {b"f"}
    own.rpc("root.add", path=own.root, ignore=[])
    later = own.clock()
    own.write("logs/a", "three")
    assert ("modified", b"logs/a") in told(own, later)
    assert mutations(own, later)
