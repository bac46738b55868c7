"""The audit: what the table of files says, what entries keep, and what is on the disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import xxhash

from provd.audit import APART, GONE, MOST_TOLD, RESTAMPED, RESTLESS, UNCOVERED, Audit
from provd.believed import SILENT, TRACELESS
from provd.core.reading import Found, Reading, Trouble
from provd.disk import Workers, signature_of
from provd.disk.mounts import Mounts
from provd.disk.states import Listing, Unlisted, listing_at_once
from provd.store import Store, View

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class State(msgspec.Struct, frozen=True, array_like=True):
    sort: str
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int


class Row(msgspec.Struct, frozen=True):
    state: State
    digest: bytes = b""


def row(path: bytes, *, digest: bool = True) -> Row:
    """What the table has of a path if it is right."""
    st = os.lstat(path)
    if os.path.isdir(path):
        return Row(State("d", 0, 0, 0, st.st_ino))
    content = xxhash.xxh3_128_digest(content_of(path))
    state = State("f", st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)
    return Row(state, content if digest else b"")


def skipped(told: dict[str, Any]) -> dict[bytes, str]:
    """What an audit did not look at, and why."""
    return {os.fsencode(place["path"]): place["why"] for place in told["skipped"]["places"]}


def content_of(path: bytes) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def make(path: bytes) -> None:
    with open(path, "wb"):
        pass


class Table:
    """A table of files as a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.listed: list[bytes] = []

    def get(self, path: bytes) -> Row | None:
        return self.rows.get(path)

    def children(self, directory: bytes) -> dict[bytes, Row]:
        self.listed.append(directory)
        return {os.path.basename(p): r for p, r in self.rows.items() if os.path.dirname(p) == directory}

    def take(self, root: bytes) -> None:
        """Takes over all that is below a directory."""
        for directory, names, files in os.walk(root):
            for name in (*names, *files):
                path = directory + b"/" + name
                self.rows[path] = row(path)


class Bench:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = Table()
        self.caught_up: list[Callable[[], None]] = []
        self.settled = 0
        self.read: list[bytes] = []
        self.workers = Workers()
        self.hidden: dict[bytes, bytes] = {}
        self.uncovered: list[bytes] = []
        self.renewed: list[bytes] = []
        self.unreadable: set[bytes] = set()
        self.audit = Audit(
            store,
            self.workers,
            self._read,
            table=self._table,
            settled=self._settle,
            ignored=self._ignored,
            uncovered=lambda path: [place for place in self.uncovered if path.startswith(place)],
            renew=self.renewed.extend,
        )

    def _table(self, _: View) -> Table:
        return self.table

    @staticmethod
    def _ignored(path: bytes, is_dir: bool) -> bool:
        return is_dir and path.endswith(b"/.git")

    async def _settle(self) -> None:
        self.settled += 1
        if self.caught_up:
            self.caught_up.pop()()

    async def _read(self, readings: frozenset[Reading], timeout: float) -> dict[Reading, Found]:  # noqa: ASYNC109
        found = {}
        for reading in readings:
            self.read.append(reading.path)
            if reading.path in self.unreadable:
                found[reading] = Found(trouble=Trouble.UNREADABLE, detail="no")
                continue
            content = self.hidden.get(reading.path) or content_of(reading.path)
            digest = "xxh3:" + xxhash.xxh3_128_hexdigest(content)
            found[reading] = Found(digest=digest, signature=signature_of(reading.path))
        return found

    async def run(self, *roots: bytes, sample: int | None = None) -> dict[str, Any]:
        return await self.audit.run(roots, None, sample, {})


def audit(tmp_path: Path, body: Any) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "one").write_bytes(b"one")
    (root / "two").write_bytes(b"two")
    (root / ".git").mkdir()
    (root / ".git" / "head").write_bytes(b"x")

    async def main() -> None:
        store = Store(os.fspath(tmp_path / "store"))
        bench = Bench(store)
        path = os.fsencode(root)
        bench.table.take(path)
        for ignored in [p for p in bench.table.rows if b".git" in p]:
            del bench.table.rows[ignored]
        try:
            await body(bench, path)
        finally:
            bench.workers.close()
            store.stop()

    asyncio.run(main())


def test_a_table_that_is_right_has_no_mismatch_and_ignored_places_are_not_asked_about(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        assert await bench.run(root) == {
            "files": 2,
            "read": 2,
            "ignored": 1,
            "mismatches": [],
            "skipped": {"count": 0, "places": []},
        }
        assert sorted(bench.read) == [root + b"/sub/one", root + b"/two"]

    audit(tmp_path, body)


def test_what_is_missing_left_over_or_another_is_told(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        gone = bench.table.rows[root + b"/two"]
        del bench.table.rows[root + b"/two"]
        bench.table.rows[root + b"/sub/left"] = gone
        one = bench.table.rows[root + b"/sub/one"]
        bench.table.rows[root + b"/sub/one"] = Row(msgspec.structs.replace(one.state, size=9))
        told = (await bench.run(root))["mismatches"]
        assert [(os.fsencode(m["path"]), m["why"].split(" the log")[0]) for m in told] == [
            (root + b"/sub/left", "it is gone and"),
            (root + b"/sub/one", "stat differs from what"),
            (root + b"/two", "it is there and"),
        ]
        assert [m["was"].split(",")[0] for m in told] == ["file of 3 bytes", "file of 9 bytes", "absent"]
        assert [m["is"].split(",")[0] for m in told] == ["absent", "file of 3 bytes", "file of 3 bytes"]

    audit(tmp_path, body)


def test_what_is_not_watched_is_told_apart_from_mistakes(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        bench.uncovered = [root + b"/sub"]
        make(root + b"/sub/new")
        make(root + b"/new")
        mistake, hole = (await bench.run(root))["mismatches"]
        assert (os.fsencode(mistake["path"]), os.fsencode(hole["path"])) == (root + b"/new", root + b"/sub/new")
        assert hole["why"] == mistake["why"] + UNCOVERED

    audit(tmp_path, body)


def test_what_the_log_catches_up_with_is_no_mismatch(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        make(root + b"/new")

        def caught_up() -> None:
            bench.table.rows[root + b"/new"] = row(root + b"/new")

        bench.caught_up = [caught_up, lambda: None]
        assert (await bench.run(root))["mismatches"] == []
        assert bench.settled == 2

    audit(tmp_path, body)


def test_what_changes_while_it_is_looked_at_is_looked_at_again(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        def change() -> None:
            with open(root + b"/two", "ab") as f:
                f.write(b"more")

        def caught_up() -> None:
            bench.table.take(root)

        bench.caught_up = [caught_up, change, change]
        assert (await bench.run(root))["mismatches"] == []
        bench.caught_up = [change] * 9
        told = await bench.run(root)
        assert told["mismatches"] == [], "what never stands still cannot be compared"
        assert skipped(told) == {root + b"/two": RESTLESS}

    audit(tmp_path, body)


def test_a_content_that_changed_and_left_no_trace_is_told(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        bench.hidden[root + b"/two"] = b"owt"
        (mismatch,) = (await bench.run(root))["mismatches"]
        assert mismatch["why"] == TRACELESS
        assert os.fsencode(mismatch["path"]) == root + b"/two"
        assert mismatch["was"] == "xxh3:" + xxhash.xxh3_128_hexdigest(b"two")
        assert mismatch["is"] == "xxh3:" + xxhash.xxh3_128_hexdigest(b"owt")

    audit(tmp_path, body)


def restamp(bench: Bench, path: bytes, **fields: int) -> None:
    """The row of a path is of another ctime, or what else is said."""
    known = bench.table.rows[path]
    state = msgspec.structs.replace(known.state, **fields or {"ctime_ns": known.state.ctime_ns - 1})
    bench.table.rows[path] = Row(state, known.digest)


def test_where_only_the_ctime_differs_the_content_counts_and_the_row_is_made_anew(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        os.symlink(b"two", root + b"/link")
        st = os.lstat(root + b"/link")
        bench.table.rows[root + b"/link"] = Row(State("l", st.st_size, st.st_mtime_ns, 1, st.st_ino))
        one, two = root + b"/sub/one", root + b"/two"
        restamp(bench, one)
        restamp(bench, two)
        bench.table.rows[one] = Row(bench.table.rows[one].state)  # its content was never known
        told = await bench.run(root)
        assert (told["files"], told["mismatches"]) == (2, [])
        assert bench.renewed == [root + b"/link", one, two]
        bench.renewed.clear()
        bench.hidden[two] = b"owt"
        (mismatch,) = (await bench.run(root))["mismatches"]
        assert mismatch["why"] == RESTAMPED
        assert mismatch["was"] != mismatch["is"]
        assert bench.renewed == [root + b"/link", one], "what is wrong stays a finding"
        bench.renewed.clear()
        assert (await bench.run(root, sample=0))["mismatches"] == []
        assert bench.renewed == [root + b"/link", one], "what was not read may be wrong"

    audit(tmp_path, body)


def test_of_what_differs_all_is_shown_that_was_compared(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        for field in ("size", "mtime_ns", "ino"):
            bench.table.rows[root + b"/two"] = row(root + b"/two")
            restamp(bench, root + b"/two", **{field: 7, "ctime_ns": 9})
            (mismatch,) = (await bench.run(root))["mismatches"]
            assert "ctime_ns 9" in mismatch["was"]
            assert mismatch["was"] != mismatch["is"]

    audit(tmp_path, body)


def test_a_sample_bounds_what_is_read_and_not_what_is_compared(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        bench.table.rows[root + b"/left"] = bench.table.rows[root + b"/two"]
        answer = await bench.run(root, sample=1)
        assert len(bench.read) == 1
        assert len(answer["mismatches"]) == 1
        assert (answer["files"], answer["read"], answer["ignored"]) == (2, 1, 1)

    audit(tmp_path, body)


def test_roots_in_roots_are_compared_once_and_also_where_the_outer_one_ignores_them(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        inner = root + b"/.git/inner"
        os.mkdir(inner)
        make(inner + b"/file")
        (mismatch,) = (await bench.run(root, root + b"/sub", inner))["mismatches"]
        assert os.fsencode(mismatch["path"]) == inner + b"/file"
        assert sorted(bench.table.listed) == sorted([root, root + b"/sub", inner])

    audit(tmp_path, body)


def test_what_cannot_be_looked_at_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        for name in (b"/hung", b"/closed", b"/silent", b"/unread"):
            os.mkdir(root + name)
        make(root + b"/unread/file")
        bench.table.take(root)
        make(root + b"/closed/new")
        long = root + b"/" + b"n" * 300
        bench.table.rows[long] = bench.table.rows[root + b"/two"]
        mounts = Mounts(points={root + b"/hung": True}, hanging=frozenset({b"hung"}))
        monkeypatch.setattr(bench.workers.mounts, "now", lambda: mounts)

        def listed(path: bytes, mounts: Mounts) -> Listing | Unlisted:
            if path == root + b"/silent":
                raise TimeoutError
            return Unlisted(gone=False, why="no") if path == root + b"/closed" else listing_at_once(path, mounts)

        monkeypatch.setattr("provd.audit.listing_at_once", listed)
        bench.unreadable = {root + b"/unread/file"}
        told = await bench.audit.run([root], None, None, {b"/gone/root": GONE})
        assert skipped(told) == {
            b"/gone/root": GONE,
            root + b"/closed": "it could not be listed: no",
            root + b"/hung": APART,
            root + b"/silent": SILENT,
            long: "it could not be looked at: File name too long",
            root + b"/unread/file": "it could not be read: no",
        }
        assert told["mismatches"] == []
        assert told["files"] == 2

    audit(tmp_path, body)


def test_of_many_places_that_were_not_looked_at_the_first_are_named(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        gone = [b"/gone/%03d" % number for number in range(MOST_TOLD + 2)]
        told = await bench.audit.run([root], None, None, dict.fromkeys(reversed(gone), GONE))
        assert told["skipped"]["count"] == MOST_TOLD + 2
        assert list(skipped(told)) == gone[:MOST_TOLD]

    audit(tmp_path, body)


def test_a_directory_that_goes_while_it_is_looked_at_is_compared_with_the_log(tmp_path: Path) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        assert (await bench.run(root, root + b"/sub/gone"))["mismatches"] == []
        bench.table.rows[root + b"/sub/gone"] = bench.table.rows[root + b"/sub"]
        (mismatch,) = (await bench.run(root + b"/sub/gone"))["mismatches"]
        assert mismatch["is"] == "absent"

    audit(tmp_path, body)


def test_counting_gives_the_files_of_each_root_unless_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(bench: Bench, root: bytes) -> None:
        assert bench.audit.counts([root, root + b"/sub"]) == {root: 2, root + b"/sub": 1}
        monkeypatch.setattr("provd.audit.MOST_COUNTED", -1)
        assert bench.audit.counts([root]) is None

    audit(tmp_path, body)
