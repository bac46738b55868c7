"""Types of file systems, and the table of mounts."""

from __future__ import annotations

import pytest

from provd.watch.filesystems import FOLDING, INOTIFY, POLL, REASONS, RELIABLE, backend_of, backend_of_type
from provd.watch.mounted import NOTHING, Mount, MountPoints, MountTable, parse

TABLE = b"""\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /mnt/a\\040b rw - nfs4 host:/x rw
31 22 0:41 / /over rw - tmpfs none rw
32 31 0:42 /sub /over rw - fuse.sshfs x rw
broken
"""


@pytest.mark.parametrize("kind", sorted(RELIABLE))
def test_reliable_types_are_watched_without_a_reservation(kind: str) -> None:
    assert backend_of_type(kind) == (INOTIFY, "")


@pytest.mark.parametrize("kind", [*sorted(REASONS), "fuse.whatever", "never-heard-of", ""])
def test_all_other_types_are_polled_with_a_reason_that_reads_well(kind: str) -> None:
    backend, why = backend_of_type(kind)
    assert backend == POLL
    assert len(why.split()) > 3
    assert why.startswith(kind or "an unnamed type")


@pytest.mark.parametrize("kind", sorted(FOLDING))
def test_where_letters_of_both_cases_are_one_silence_proves_nothing(kind: str) -> None:
    backend, why = backend_of_type(kind)
    assert backend == INOTIFY
    assert why.startswith(kind)


def test_no_type_is_in_two_tables() -> None:
    assert not RELIABLE & REASONS.keys()
    assert not FOLDING & (RELIABLE | REASONS.keys())


@pytest.mark.parametrize(
    ("path", "kind"),
    [(b"/home/x", "ext4"), (b"/", "ext4"), (b"/proc/1", "proc"), (b"/mnt/a b/c", "nfs4"), (b"/over/f", "fuse.sshfs")],
)
def test_a_path_lies_on_the_topmost_mount_of_the_nearest_point(path: bytes, kind: str) -> None:
    mount = parse(TABLE.splitlines()).holding(path)
    assert mount is not None
    assert mount.kind == kind


def test_the_real_table_knows_where_things_lie() -> None:
    assert backend_of(b"/proc/self")[0] == POLL


def test_where_nothing_is_known_a_path_is_polled() -> None:
    backend, why = backend_of(b"/x", NOTHING)
    assert (backend, bool(why)) == (POLL, True)


def test_tables_differ_where_a_mount_came_went_or_was_replaced() -> None:
    before = parse(TABLE.splitlines())
    assert before.differing(before) == []
    points = dict(before.points)
    del points[b"/proc"]
    points[b"/new"] = (Mount(b"50", b"0:50", b"/", "tmpfs"),)
    points[b"/"] = (Mount(b"99", b"254:0", b"/", "ext4"),)
    assert MountPoints(points).differing(before) == [b"/", b"/new", b"/proc"]


def test_an_unchanged_table_says_so_and_one_that_cannot_be_read_never_does() -> None:
    table = MountTable()
    assert not table.changed()
    assert table.look() == []
    assert table.fileno() >= 0
    table.close()
    table = MountTable("/nonexistent")
    assert table.changed()
    assert table.fileno() == -1
    table.close()
