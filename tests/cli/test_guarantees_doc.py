"""The guarantees: every kind of change is in the table, and each row says all that it must."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest

import provd

_DOC: Final = os.path.join(os.path.dirname(os.path.dirname(provd.__file__)), "docs", "guarantees.md")
_COLUMNS: Final = ["mutation", "seen by inotify?", "the verdict then rests on", "note"]
_EVENTS: Final = {"CREATE", "MODIFY", "ATTRIB", "CLOSE_WRITE", "DELETE", "MOVED_FROM", "MOVED_TO"} | {
    "DELETE_SELF",
    "MOVE_SELF",
    "UNMOUNT",
    "IGNORED",
    "Q_OVERFLOW",
}
_GROUNDS: Final = {"content", "listing", "gap", "declared", "unknown", "`unreadable`"}
_KINDS: Final = (
    "created|`write`|appended|`truncate`|`ftruncate`|`O_TRUNC`|`pwritev2`|`copy_file_range`|`sendfile`|`splice`|FICLONE"
    "|`fallocate`|punched|collapsed|`O_DIRECT`|`io_uring`|AIO|first store|later store|`munmap`|`process_vm_writev`"
    "|loop device|killed|within a directory|renamed in|renamed out|renamed over|EXCHANGE|hard link made|link outside"
    "|link inside|symlink made|retargeted|`O_TMPFILE`|unlinked|opened before|`mkdir -p|`rmdir`|`rm -r`|`chmod`"
    "|`utimensat`|attribute|mount over|unmounted|bind mount|mount moved|root renamed|replaced|above the root"
    "|layer edited|FUSE|NFS|namespaces|daemon is down|overflow|watch limit|unreadable|block device|`object:`"
)

pytestmark = pytest.mark.skipif(not os.path.exists(_DOC), reason="the docs are not here")


def _tables() -> list[list[list[str]]]:
    """The tables of the document, each a list of rows, each a list of cells."""
    with open(_DOC, encoding="utf-8") as file:
        blocks = re.findall(r"(?:^\|.*\|\n)+", file.read(), re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split("|")] for row in block.splitlines()] for block in blocks]


def _rows() -> list[list[str]]:
    """The rows of the table of mutations."""
    (table,) = [table for table in _tables() if table[0] == _COLUMNS]
    return table[2:]


def test_the_table_has_at_least_forty_kinds_of_change() -> None:
    named = [row[0] for row in _rows()]

    assert len(named) >= 40
    assert len(set(named)) == len(named)


def test_no_row_says_less_than_its_columns() -> None:
    for row in _rows():
        assert len(row) == len(_COLUMNS), row
        assert all(row[:3]), row


def test_every_row_names_events_that_exist_or_none() -> None:
    for row in _rows():
        named = set(re.findall(r"[A-Z]+(?:_[A-Z]+)*", " ".join(re.findall(r"`([A-Z_]+)`", row[1]))))
        assert named <= _EVENTS, row
        assert named or re.match(r"none\b|as ", row[1]), row


def test_every_row_says_what_the_verdict_rests_on() -> None:
    for row in _rows():
        assert {part.strip() for part in row[2].split(",")} <= _GROUNDS, row


@pytest.mark.parametrize("kind", _KINDS.split("|"))
def test_the_kinds_that_agents_meet_are_there(kind: str) -> None:
    assert any(kind in row[0] for row in _rows())


def test_every_table_is_whole() -> None:
    for table in _tables():
        assert len({len(row) for row in table}) == 1, table[0]
