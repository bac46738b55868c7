"""The old store, kept beside the new one until that has proved itself.

Rule: a copy has its name only when it is whole and durable, and is removed only after a daemon served the migrated
store to an orderly end, or for long, and a later one found that whole. Nothing else is ever removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Final

import lmdb
import msgspec

from provd import faults, places
from provd.core import errors
from provd.store.decoding import Damaged, reader

if TYPE_CHECKING:
    from provd.store.reads import View
    from provd.store.writes import Writer

_SPARE: Final = 16 * 1024 * 1024
"""Bytes that must be free beside the copy: what the migration itself writes."""
_DATA: Final = "data.mdb"
_KEY: Final = b"migrated"


Moment = tuple[list[bytes | None], list[tuple[bytes, bytes]]]
"""What stores are told apart by."""


class Migrated(msgspec.Struct, frozen=True):
    """What a store remembers of its migration: `before` is the old format, `at` the time (ns), `kept` the copy's name.

    `up` is the run that proved it, empty until one did.
    """

    before: int
    at: int
    kept: str
    up: str = ""


_migrated: Final = reader(msgspec.json.Decoder(Migrated).decode, "a migration")


def keep(env: lmdb.Environment, directory: str, old: int) -> str:
    """Copies the store in `directory`, open as `env` in format `old`, to a place beside it; returns the copy's path.

    A copy of the same log and position that is already there is taken. Raises StoreFull, OSError, lmdb.Error; then
    nothing is left behind.
    """
    kept = f"{directory}{places.OF_FORMAT}{old}"
    partial = f"{kept}.partial"
    if os.path.lexists(kept):
        if _moment(kept) == _moment_of(env):
            return kept
        os.rename(kept, f"{kept}-{time.time_ns()}")  # of another store, or made before an older provd went on
    shutil.rmtree(partial, ignore_errors=True)
    _need_space(env, directory, old)
    try:
        os.mkdir(partial, 0o700)
        env.copy(os.fsencode(partial), compact=True)  # type: ignore[arg-type]  # its stubs know only text
        os.chmod(os.path.join(partial, _DATA), 0o600)
        for path in (os.path.join(partial, _DATA), partial):
            _sync(path)
        faults.point("migrate.copied")
        os.rename(partial, kept)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync(os.path.dirname(directory) or ".")
    faults.point("migrate.kept")
    return kept


def remember(writer: Writer, migrated: Migrated | None) -> None:
    """Notes a migration in the store itself, or drops that note."""
    writer.put_meta(_KEY, None if migrated is None else msgspec.json.encode(migrated))


def remembered(view: View) -> Migrated | None:
    """What the store remembers of its migration, None once the copy is gone, where there was none, or nobody knows."""
    there = view.meta(_KEY)
    if there is None:
        return None
    try:
        return _migrated(there)
    except Damaged:  # nobody knows of which copy it spoke: none is removed
        return None


def drop(directory: str, kept: str) -> None:
    """Removes the copy of that name; raises OSError."""
    path = os.path.join(os.path.dirname(directory), kept)
    partial = f"{path}.partial"
    if os.path.lexists(path):
        shutil.rmtree(partial, ignore_errors=True)
        os.rename(path, partial)  # so that nobody takes the rest of a copy for a whole one
        _sync(os.path.dirname(directory) or ".")
    faults.point("migrate.dropping")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(partial)


def _need_space(env: lmdb.Environment, directory: str, old: int) -> None:
    need = (env.info()["last_pgno"] + 1) * env.stat()["psize"] + _SPARE
    there = os.statvfs(directory)
    free = there.f_bavail * there.f_frsize
    if free < need:
        raise errors.StoreFull(
            f"the store in {directory} has format {old} and is copied before it is migrated: that takes "
            f"{_mib(need)} MiB, and {_mib(free)} MiB are free: nothing was changed",
            f"free {_mib(need - free)} MiB there, then start again; or run the provd that wrote it",
        )


def _mib(size: int) -> int:
    return -(-size // (1024 * 1024))


def _moment(path: str) -> Moment | None:
    """The moment of a store that nobody has open, None where it is none."""
    try:
        size = os.path.getsize(os.path.join(path, _DATA))
        env = lmdb.open(os.fsencode(path), readonly=True, lock=False, max_dbs=2, map_size=size)
    except (OSError, lmdb.Error):
        return None
    try:
        return _moment_of(env)
    except lmdb.Error:
        return None
    finally:
        env.close()


def _moment_of(env: lmdb.Environment) -> Moment:
    """The log, the position, the format and the runs of a store: two with the same are the same."""
    meta, runs = env.open_db(b"meta", create=False), env.open_db(b"runs", create=False)
    with env.begin() as txn:
        values = [txn.get(name, db=meta) for name in (b"log", b"head", b"format")]
        known = [(bytes(run), bytes(first)) for run, first in txn.cursor(db=runs)]
        return [None if value is None else bytes(value) for value in values], known


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
