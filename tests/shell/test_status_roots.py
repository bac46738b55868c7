"""What `daemon.status` and `root.list` tell of the roots, and of the watcher as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rooting import Bench, made, run_with_roots

from provd.audit import ALL_IGNORED, BESIDE, GONE, IGNORED, UNWATCHED
from provd.clocks import Clocks
from provd.core import records
from provd.core.records import wire_name
from provd.statistics import Verdicts
from provd.status import Audited, Status
from provd.watch.base import RootState, Uncovered
from provd.watch.limits import inotify_limits
from provd.watch.mounted import MountPoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


async def _look() -> None:
    """Nothing to look at."""


RUN = "0123456789abcdef"


class Pump:
    behind = 4
    counters = SimpleNamespace(lost=2, scans=3)


class Audit:
    """Knows how many files there are."""

    def __init__(self) -> None:
        self.counted = 0
        self.trees: list[bytes] = []
        self.skipped: dict[bytes, str] = {}
        self.ignored = b"/none"

    def leaves_out(self, path: bytes, _root: bytes) -> bool:
        return (path + b"/").startswith(self.ignored + b"/")

    def counts(self, roots: list[bytes]) -> dict[bytes, int]:
        self.counted += 1
        return dict.fromkeys(roots, 5)

    async def run(
        self, roots: list[bytes], scope: bytes | None, sample: int | None, skipped: dict[bytes, str]
    ) -> dict[str, Any]:
        self.trees, self.skipped = list(roots), skipped
        skips = {"count": 0, "places": []}
        return {"files": 3, "mismatches": [{"path": "/x"}], "skipped": skips, "scope": scope, "sample": sample}


class Resolver:
    def __init__(self, scope: bytes) -> None:
        self.scope = scope

    async def place(self, _root: Any) -> Any:
        return SimpleNamespace(need_scope=lambda: self.scope)


def status(tmp_path: Path, body: Callable[[Bench, Status, Audit], Awaitable[None]]) -> None:
    state = os.fsencode(tmp_path / "state")
    os.mkdir(state)

    async def main(bench: Bench) -> None:
        await bench.store.submit(lambda writer: writer.append(records.Gap(writer.now, records.ALL, "started", RUN)))
        audit: Any = Audit()
        pump: Any = Pump()
        checks: Any = SimpleNamespace(told=dict)
        clocks = Clocks(bench.store, RUN)
        places = {"socket": "/s", "state": "/t"}
        await body(
            bench, Status(bench.store, clocks, bench.roots, pump, audit, Verdicts(), checks, places, _look), audit
        )

    run_with_roots(state, main)


def test_a_root_is_told_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench, status: Status, _: Audit) -> None:
        await bench.add(root, "*.o")
        (told,) = status.roots()
        gap = told.pop("last_gap")
        assert (gap["type"], gap["reason"], gap["seq"]) == ("gap", "watched from here on", 4)
        assert told == {
            "path": os.fsdecode(root),
            "state": "watching",
            "backend": "scripted",
            "coverage": "whole",
            "uncovered": [],
            "uncovered_more": 0,
            "why": "",
            "directories": 1,
            "ignore": ["*.o"],
        }

    status(tmp_path, body)


def test_the_first_hundred_places_that_are_not_watched_are_named_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root,) = made(tmp_path, "root")
    places = tuple(Uncovered(root + b"/%d" % n, f"because of {n}") for n in range(130))
    state = RootState("inotify", "degraded", "partial", places, more=7, directories=9)

    async def body(bench: Bench, status: Status, _: Audit) -> None:
        await bench.add(root)
        monkeypatch.setattr(bench.fleet, "state", lambda _: state)
        (told,) = status.roots()
        assert told["uncovered"][0] == {"path": os.fsdecode(root) + "/0", "why": "because of 0"}
        assert (len(told["uncovered"]), told["uncovered_more"]) == (100, 37)
        assert (told["why"], told["directories"]) == ("because of 0", 9)

    status(tmp_path, body)


def test_a_gap_of_a_root_in_a_root_is_told_of_that_one_alone(tmp_path: Path) -> None:
    outer, inner, plain = made(tmp_path, "outer", "outer/inner", "outer/plain")

    async def body(bench: Bench, status: Status, _: Audit) -> None:
        async def last_gaps(scope: bytes) -> list[tuple[Any, Any]]:
            await bench.store.submit(lambda writer: writer.append(records.Gap(writer.now, scope, "lost")))
            told = [root["last_gap"] for root in status.roots()]
            return [(gap.get("scope"), gap.get("reason")) for gap in told]

        for root in (outer, inner):
            await bench.add(root)
        of_outer, of_inner = (os.fsdecode(root) for root in (outer, inner))
        assert await last_gaps(inner + b"/d") == [
            (of_outer, "watched from here on"),
            (of_inner + "/d", "lost"),
        ]
        assert await last_gaps(plain) == [(os.fsdecode(plain), "lost"), (of_inner + "/d", "lost")]
        assert await last_gaps(outer) == [(of_outer, "lost")] * 2, "what is lost of the outer one is lost of both"

    status(tmp_path, body)


def test_names_that_are_no_text_are_told_as_bytes(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(root)

    async def body(bench: Bench, status: Status, _: Audit) -> None:
        await bench.add(root)
        assert set(status.roots()[0]["path"]) == {"b64"}
        assert msgspec.json.encode(await status.status())

    status(tmp_path, body)


def test_the_status_tells_of_the_watcher_as_a_whole_and_counts_once_while_nothing_happens(tmp_path: Path) -> None:
    outer, inner, other = made(tmp_path, "outer", "outer/inner", "other")

    async def body(bench: Bench, status: Status, audit: Audit) -> None:
        for root in (outer, inner, other):
            await bench.add(root)
        told = await status.status()
        assert (told["queue"], told["drops"], told["rescans"]) == (4, 2, 3)
        assert told["watches"] == 2, "a root in a root is the same watches"
        assert [root["files"] for root in told["roots"]] == [5, 5, 5]
        holding = MountPoints.now().holding(outer)
        assert holding is not None
        assert {root["filesystem"] for root in told["roots"]} == {holding.kind}
        assert told["limits"] == inotify_limits()
        await status.status()
        assert audit.counted == 1
        await bench.roots.remove(inner)
        assert len((await status.status())["roots"]) == 2
        assert audit.counted == 2
        assert all("files" not in root for root in status.roots_after(other)), "who adds roots waits for no counting"

    status(tmp_path, body)


def test_after_a_root_was_added_or_removed_all_roots_are_told(tmp_path: Path) -> None:
    one, other = made(tmp_path, "one", "other")

    async def body(bench: Bench, status: Status, _: Audit) -> None:
        def paths(told: list[dict[str, Any]]) -> list[bytes]:
            return [os.fsencode(root["path"]) for root in told]

        await bench.add(one)
        assert paths(status.roots_after(one)) == [one]
        await bench.add(other, "*.o")
        assert paths(status.roots_after(other)) == [one, other]
        await bench.add(other, "*.c")
        assert status.roots_after(other)[1]["ignore"] == ["*.c"]
        await bench.roots.remove(one)
        assert paths(status.roots_after(one)) == [other]

    status(tmp_path, body)


def test_an_audit_is_of_all_roots_or_of_a_directory_and_the_roots_in_it(tmp_path: Path) -> None:
    outer, inner, other, deep = made(tmp_path, "outer", "outer/inner", "other", "outer/deep")

    async def body(bench: Bench, status: Status, audit: Audit) -> None:
        for root in (outer, inner, other):
            await bench.add(root)

        async def asked(scope: bytes | None) -> list[bytes]:
            wanted: Any = SimpleNamespace(root=scope, sample=7)
            resolver: Any = Resolver(scope or b"")
            told = await status.audit(wanted, resolver)
            assert (told["scope"], told["sample"]) == (scope, 7)
            return audit.trees

        assert await asked(None) == [other, outer, inner]
        assert audit.skipped == {}
        assert await asked(deep + b"/out/below") == [deep + b"/out/below"]
        assert audit.skipped == {}
        audit.ignored = deep + b"/out"
        assert await asked(deep + b"/out/below") == []
        assert audit.skipped == {deep + b"/out/below": IGNORED}
        assert await asked(outer) == [outer, inner]
        assert await asked(deep) == [deep]
        assert await asked(inner) == [inner]
        assert await asked(os.fsencode(tmp_path)) == [other, outer, inner]
        assert audit.skipped == {os.fsencode(tmp_path): BESIDE}
        assert await asked(b"/nowhere") == []
        assert audit.skipped == {b"/nowhere": UNWATCHED}
        assert (await status.status())["audits"] == {
            "count": 8,
            "files": 24,
            "mismatches": 8,
            "differing": 1,
        }
        bench.fleet.gone |= {outer, inner}
        assert await asked(None) == [other]
        assert audit.skipped == {outer: GONE, inner: GONE}
        assert await asked(deep) == []
        assert audit.skipped == {deep: GONE}

    status(tmp_path, body)


@pytest.mark.parametrize(
    ("rules", "all_of_it"),
    [
        (("*",), True),
        ((".git/", "*"), True),
        (("/*",), True),
        (("**",), True),
        (("*/",), False),
        (("*", "!kept"), False),
        (("*.o", "a*"), False),
        ((), False),
    ],
)
def test_a_root_whose_rules_leave_out_all_says_so(tmp_path: Path, rules: tuple[str, ...], all_of_it: bool) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench, status: Status, audit: Audit) -> None:
        await bench.add(root, *rules)
        assert status.roots()[0].get("all_ignored", False) is all_of_it
        resolver: Any = Resolver(root)
        await status.audit(SimpleNamespace(root=root, sample=None), resolver)  # type: ignore[arg-type]
        assert audit.skipped == ({root: ALL_IGNORED} if all_of_it else {})
        assert audit.trees == ([] if all_of_it else [root])

    status(tmp_path, body)


def test_the_limits_of_the_system_are_told_as_far_as_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "max_user_watches").write_text("8192\n")
    (tmp_path / "max_user_instances").write_text("odd\n")
    monkeypatch.setattr("provd.watch.limits._SYSTEM", os.fspath(tmp_path))
    monkeypatch.setattr("provd.watch.limits._OF_NAMESPACE", os.fspath(tmp_path / "own"))
    assert inotify_limits() == {"max_user_watches": 8192}
    (tmp_path / "own").write_text("8192\n")
    assert inotify_limits() == {"max_user_watches": 8192}
    (tmp_path / "own").write_text("50\n")
    assert inotify_limits() == {"max_user_watches": 8192, "max_inotify_watches": 50}


def _answer(*differing: bytes, skipped: Sequence[bytes] = (), more: int = 0) -> dict[str, Any]:
    places = [{"path": wire_name(path), "why": "gone"} for path in skipped]
    return {
        "files": 1,
        "mismatches": [{"path": wire_name(path)} for path in differing],
        "skipped": {"count": len(places) + more, "places": places},
    }


@pytest.mark.parametrize(
    ("answer", "directory", "sampled", "left"),
    [
        (_answer(), None, False, 0),
        (_answer(), b"/r", False, 1),
        (_answer(), b"/s", False, 2),
        (_answer(), b"/r/\xff", False, 2),
        (_answer(), None, True, 3),
        (_answer(b"/r/\xff"), None, False, 1),
        (_answer(b"/new"), b"/r", False, 2),
        (_answer(b"/new"), None, True, 4),
        (_answer(skipped=[b"/r"]), None, False, 2),
        (_answer(skipped=[b"/elsewhere"], more=1), None, False, 3),
    ],
)
def test_what_an_audit_found_to_differ_is_told_until_one_that_looked_at_it_did_not(
    answer: dict[str, Any], directory: bytes | None, sampled: bool, left: int
) -> None:
    audited = Audited()
    audited.take(_answer(b"/r/a", b"/r/\xff", b"/s/a"), None, sampled=False)
    audited.take(answer, directory, sampled=sampled)
    assert audited.told()["differing"] == left
    assert audited.told()["mismatches"] == 3 + len(answer["mismatches"])
