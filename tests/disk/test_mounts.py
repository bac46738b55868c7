"""Whether all that is mounted is local."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
from pathlib import Path

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Reading
from provd.disk import IgnoreRules, ReadingJob, Workers
from provd.disk.mounts import UNKNOWN, MountTable, MountWatch, all_local, mounted, parse

_ROOT = b"29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"


@pytest.mark.parametrize(
    ("line", "local"),
    [
        (b"30 29 0:25 / /tmp rw - tmpfs tmpfs rw", True),
        (b"31 29 0:26 / /proc rw - proc proc rw", True),
        (b"32 29 0:27 / /mnt rw shared:5 master:1 - nfs4 host:/ rw", False),
        (b"33 29 0:28 / /home/me/x rw - fuse.sshfs me@host: rw", False),
        (b"34 29 0:29 / /some rw - newfs none rw", False),
        (b"35 31 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw", True),
        (b"36 29 0:31 / /net rw - autofs -hosts rw", False),
        (b"", False),
    ],
)
def test_one_mount_that_may_hang_ends_it_for_all(line: bytes, local: bool) -> None:
    assert all_local([_ROOT]) is True
    assert all_local([_ROOT, line]) is local


def test_without_a_mount_table_nothing_is_known_to_be_local(tmp_path: Path) -> None:
    assert MountTable(str(tmp_path / "none")).all_local() is False


def test_a_changed_table_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = MountTable()
    answers = iter([[], [(0, 2)]])

    class Poll:
        def poll(self, _timeout: int) -> list[tuple[int, int]]:
            return next(answers)

    path = tmp_path / "mountinfo"
    path.write_bytes(_ROOT + b"\n40 29 0:40 / /mnt rw - nfs4 host:/ rw\n")
    monkeypatch.setattr(table, "_fd", os.open(path, os.O_RDONLY))
    monkeypatch.setattr(table, "_poll", Poll())
    monkeypatch.setattr(table, "_mounts", parse([_ROOT]))

    assert table.all_local() is True
    assert table.all_local() is False


def test_the_table_says_points_names_and_kinds() -> None:
    table = parse(
        [
            _ROOT,
            rb"40 29 0:40 / /mnt/my\040disk\011x\134y\012 rw shared:7 - nfs4 host:/ rw",
            b"41 29 0:41 / /proc rw - proc proc rw",
            b"42 29 254:0 /dev/null /home/me/f rw - ext4 /dev/vda rw",
            b"43 29 0:43 / /over rw - nfs4 host:/ rw",
            b"44 43 0:44 / /over rw - tmpfs tmpfs rw",
        ]
    )
    assert table.names == frozenset({b"", b"my disk\tx\\y\n", b"proc", b"f", b"over"})
    assert table.kinds[os.makedev(254, 0)] == "ext4"
    assert table.kinds[os.makedev(0, 41)] == "proc"
    assert table.may_hang_at(b"/mnt/my disk\tx\\y\n/a/b") == b"/mnt/my disk\tx\\y\n"
    assert table.may_hang_at(b"/mnt/my disk") is None
    assert table.may_hang_at(b"/over/f") is None  # the local one is on top
    assert not table.all_local


def test_the_mounts_of_this_system_hold_the_root() -> None:
    here = mounted()
    if here is UNKNOWN:
        pytest.skip("no mount table here")
    assert b"/" in here.points
    assert here.names is not None
    assert MountTable().now() == here


@pytest.mark.parametrize("missing", ["poll", "POLLPRI"])
def test_a_system_without_a_way_to_watch_the_table_knows_nothing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, missing)
    table = MountTable()
    assert table.now() is UNKNOWN
    assert table.all_local() is False


def test_who_has_no_descriptor_for_the_table_takes_each_look_for_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: what was mounted over a file meanwhile was not there."""

    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", none_left)
        watch = MountWatch()
        assert [watch.changed(), watch.changed()] == [True, True]
    assert watch.changed(), "since when it is open nobody knows"
    assert not watch.changed()
    watch.close()
    watch.close()
    assert [watch.changed(), watch.changed()] == [True, True]
    assert not MountWatch("/nowhere").changed()


def test_what_was_read_leaves_no_descriptor_however_long_the_job_lives(tmp_path: Path) -> None:
    """Broken: hundreds stay until cycles are looked for, and files cannot be read for want of them."""
    (tmp_path / "f").write_bytes(b"x")
    tree = Reading(Kind.TREE, os.fsencode(tmp_path), "xxh3")
    pool = Workers()

    def tables() -> int:
        names = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return sum(os.path.islink(name) and os.readlink(name).endswith("/mountinfo") for name in names)

    async def work() -> None:
        await pool.read([tree], IgnoreRules(), 60.0)
        before = tables()
        for _ in range(20):
            assert (await pool.read([tree], IgnoreRules(), 60.0))[tree].digest
        assert tables() == before

    gc.disable()
    try:
        asyncio.run(work())
    finally:
        gc.enable()
        pool.close()


@pytest.mark.parametrize("moved", [True, False])
def test_what_was_confirmed_in_a_round_that_did_not_end_counts_only_where_nothing_was_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """Broken: two files of two moments are taken for one, where a third one hangs."""
    readings = []
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x")
        readings.append(Reading(Kind.FILE, os.fsencode(tmp_path / name), "xxh3"))
    job = ReadingJob(readings, IgnoreRules(), mounts=mounted())
    for _ in range(3):  # both are read, and one is looked at once more
        step = job._take(None)
        assert step is not None
        act, reading = step
        act(reading, None)
    assert len(job.found) == 1
    monkeypatch.setattr(MountWatch, "changed", lambda _: moved)
    job.cancel()
    confirmed = [found for found in job.results().values() if found.digest]
    assert len(confirmed) == (not moved)
