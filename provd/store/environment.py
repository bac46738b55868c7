"""The LMDB environment: its tables, its format, and what becomes of a store that cannot be opened.

Rule: nothing is ever deleted. A store that does not open is set aside under another name; one of a newer
format is left where it is and refused; one of an older format is copied and then migrated.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import lmdb

from provd import ownfile, places, refusals
from provd.core import errors
from provd.store import keys, locktable, migrate, onfile, wholeness
from provd.store.decoding import Damaged
from provd.store.trouble import DATA, PAGES, full_or_unusable, says_read_only, unusable

FORMAT: Final = 3
DEFAULT_MAP: Final = 64 * 1024**3
"""Bytes of address space; the file is as long as what it holds."""
_SMALLEST_MAP: Final = 1024**3

TABLES: Final[dict[str, dict[str, Any]]] = {
    "meta": {},  # names to small values
    "runs": {},  # run id to the position of its opening gap
    "log": {},  # position to record
    "scopes": {},  # scope to number
    "entries": {},  # scope number and key to the active entry
    "values": {},  # the same to its value and meta
    "archive": {},  # entry and position to a precedent that is not active
    "members": {},  # entry and index to what a set held when it was kept
    "paths": {"dupsort": True},  # base path to the entries that rest on it or below
    "others": {"dupsort": True},  # object or entry to the entries that rest on it
    "objects": {},  # object to what actions declared of it
    "written": {},  # path to what actions declared of it
    "actions": {},  # id to the open action
    "ops": {},  # method and op to the first answer
    "roots": {},  # path to the root
    "files": {},  # directory number and name to what was last known of it
    "touched": {},  # path to the newest mutations that name it
    "gaps": {},  # path to the newest gaps of the tree there, below it and in it
    "imports": {},  # entry and what was imported to what it is here
}

_BROKEN: Final = (*PAGES, lmdb.PanicError)
"""What LMDB raises of a file that is no store, or no whole one."""
_DIGITS: Final = 9
"""The most that a format's number has."""
_MARKS: Final = 24
"""Bytes of a meta page before what changes: its number and flags, LMDB's magic and version."""
_LOG_ID: Final = re.compile(r"[0-9a-f]{16}")
_NANOSECONDS: Final = re.compile(r"[1-8][0-9]{18}")
"""How a store that was set aside is told from others, from 2001 on and as long as 64 bits have room."""


class Environment:
    """The open environment and its tables, each an attribute of `tables`.

    `log_id` is 16 hex digits; `set_aside` is where an unusable store went, if there was one, and `trouble` why.
    `going_on` is called while opening takes long and gets on.
    """

    def __init__(
        self, directory: str, map_size: int = DEFAULT_MAP, going_on: Callable[[], None] = lambda: None
    ) -> None:
        self.directory = directory
        self.going_on = going_on
        self._map_size = map_size
        self._file = os.path.join(directory, DATA)
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._page = 0
        self.set_aside: str | None = None
        self.trouble = ""
        self.unwritten: frozenset[bytes] = frozenset()
        """Objects, or `keys.EVERY`, of whose writes there is no record: as if a begin had been refused now."""
        self.damaged: str | None = None
        """What was last met of a page or row that is not as it was written."""
        self.reading_only: errors.ProvdError | None = None
        """Why it is open for reading alone, where it is: no change is taken then."""
        self.log_id = ""
        try:
            self._open()
        except _BROKEN as e:
            self._set_aside(str(e))

    def _set_aside(self, trouble: str) -> None:
        self.trouble = trouble
        self.set_aside = f"{self.directory}{places.UNUSABLE}{time.time_ns()}"
        os.rename(self.directory, self.set_aside)
        self._open()

    def begin_anew(self, trouble: str) -> None:
        """Sets the store aside, which cannot be used for this `trouble`, and opens a new one.

        No transaction may be open.
        """
        self.env.close()
        self._set_aside(trouble)

    def _open(self) -> None:
        try:
            refusals.make_directory(self.directory)
            ownfile.check(self._file, follow=False)
            onfile.read_anew(self._file)
            if _is_emptied(self.directory):
                raise lmdb.InvalidError(f"{self._file} was emptied")
            locktable.allocate(self.directory, anew=self._identity is None)
            self.env = self._open_map()
            locktable.detach(self.directory)
            try:
                wholeness.check(self.env, self.directory)
                kept = self._check_format()  # before anything is written
                if kept is not None and kept < FORMAT:
                    migrate.migrate(self, kept, FORMAT)
                self.open_tables(None)
                self._look_at_edges()
                self._name_log()
                self._identity = _identity(self._file)
                self._page = int(self.env.stat()["psize"])
                self._head = self._read_head()
            except BaseException:
                self.env.close()
                raise
        except _BROKEN:
            raise
        except Damaged as e:
            raise lmdb.CorruptedError(f"{self.directory}: {e}") from e
        except lmdb.VersionMismatchError as e:
            raise errors.VersionMismatch(
                f"the store in {self.directory} was written by another LMDB: {e}",
                "run the provd that wrote it, or give another --state",
            ) from e
        except (OSError, lmdb.Error) as e:
            raise full_or_unusable(e, self.directory) from e

    def _open_map(self, *, readonly: bool = False, lock: bool = True) -> lmdb.Environment:
        size = self._map_size
        while True:
            try:
                return lmdb.open(
                    os.fsencode(self.directory),
                    map_size=size,
                    max_dbs=len(TABLES),
                    mode=0o600,
                    max_readers=16,
                    readahead=False,
                    readonly=readonly,
                    lock=lock,
                )
            except (lmdb.MemoryError, OSError):
                if size <= _SMALLEST_MAP:  # a limit on address space (ulimit -v) may allow a smaller map
                    raise
                size //= 2

    def open_tables(self, txn: lmdb.Transaction | None) -> None:
        """Opens the tables and makes those that are missing; inside `txn` where there is one."""
        self.tables = {name: self.env.open_db(name.encode(), txn=txn, **options) for name, options in TABLES.items()}

    def _look_at_edges(self) -> None:
        """Reads the first and the last row of each table, so that broken pages on the way are met here."""
        with self.env.begin() as txn:
            for table in self.tables.values():
                cursor = txn.cursor(db=table)
                cursor.first()
                cursor.last()

    def _check_format(self) -> int | None:
        """The store's format, None for a new store; raises VersionMismatch for one that is not known."""
        try:
            meta = self.env.open_db(b"meta", create=False)
        except (lmdb.NotFoundError, lmdb.ReadonlyError):
            return None
        with self.env.begin() as txn:
            kept = bytes(txn.get(b"format", b"%d" % FORMAT, db=meta))
        if not kept.isdigit() or len(kept) > _DIGITS or not int(kept):
            raise lmdb.CorruptedError(f"{self.directory}: no format can be read")
        if int(kept) > FORMAT:
            raise errors.VersionMismatch(
                f"the store in {self.directory} has format {kept.decode('ascii', 'replace')}, "
                f"this provd knows up to {FORMAT}",
                "run the newer provd that wrote it, or give another --state",
            )
        return int(kept)

    def _name_log(self) -> None:
        """Takes the log's id, or makes one for a new log."""
        with self.env.begin() as txn:
            kept = txn.get(b"log", db=self.tables["meta"])
        if kept is None:
            kept = secrets.token_hex(8).encode()
            past = self._past()
            with self.env.begin(write=True) as txn:
                txn.put(b"format", b"%d" % FORMAT, db=self.tables["meta"])
                txn.put(b"log", kept, db=self.tables["meta"])
                for name in (keys.BEGINS, b"head") if past else ():
                    txn.put(name, b"%d" % past, db=self.tables["meta"])
            onfile.sync_names(self.directory)
        self.log_id = bytes(kept).decode("ascii", "replace")
        if _LOG_ID.fullmatch(self.log_id) is None:
            raise lmdb.CorruptedError(f"{self.directory}: the log's id is damaged")

    def _past(self) -> int:
        """A number that no log had that lies beside this one, set aside; 0 where none does.

        A version is the number of a record: who was told one by that log must not find another value under it. The
        microseconds since 1970 are more than a log gets to, also one that began so: no record takes less than one.
        """
        aside = os.path.basename(self.directory) + places.UNUSABLE
        names = os.listdir(os.path.dirname(os.path.abspath(self.directory)))
        ends = [name[len(aside) :] for name in names if name.startswith(aside)]
        times = [int(end) for end in ends if _NANOSECONDS.fullmatch(end)]
        return max(time.time_ns(), *times) // 1000 if times else 0

    def astray(self, *, written: bool = False) -> errors.StoreUnusable | None:
        """Why nothing more may be acknowledged: the file that is open is not the one that the next start would open.

        None where it is. `written` says that the transaction in question is in that file already. A look costs some
        microseconds.
        """
        try:
            if _identity(self._file) != self._identity:
                became = "another file lies there now"
            elif (head := self._read_head()) and head != self._head:
                became = "its head was written over"
            else:
                return None
        except OSError as e:
            if refusals.of(e, self.directory) is not None:  # nothing says that it went
                told = unusable(e, self.directory)
                if written:
                    told.message += "; the change is written, and counts if the file can be read again"
                return told
            became = "it was removed or moved" if isinstance(e, FileNotFoundError) else e.strerror or str(e)
        what = "nothing was changed"
        if written:
            what = "it went while a change was written, which counts only if the store is put back"
        return errors.StoreUnusable(
            f"the open store is not at {self._file} any more ({became}): {what}, since the next start would not "
            "find it",
            places.SAVE + "  # or put it back where it was",
        )

    def _read_head(self) -> bytes:
        """What LMDB looks at when it opens the file, and never writes again; nothing where that cannot be read."""
        try:
            fd = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no descriptor is left: that says nothing of the file
            return b""
        try:
            return os.pread(fd, _MARKS, 0) + os.pread(fd, _MARKS, self._page)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def reopen(self) -> None:
        """Closes the environment and opens it again, as after a failed sync. No transaction may be open.

        Where its file system takes no writes now, for reading alone: each write is refused then, and reopens it.
        """
        self.env.close()
        try:
            self._open()
        except (errors.StoreFull, errors.StoreUnusable) as e:
            if isinstance(e, errors.StoreUnusable) and not says_read_only(e.__cause__):
                raise
            self._open_for_reading()
            self.reading_only = e
        else:
            self.reading_only = None

    def _open_for_reading(self) -> None:
        try:
            self.env = self._open_map(readonly=True, lock=False)  # who could write beside us has no lock of the state
            wholeness.check(self.env, self.directory)
            self.tables = {
                name: self.env.open_db(name.encode(), create=False, **options) for name, options in TABLES.items()
            }
        except (OSError, lmdb.Error) as e:
            raise full_or_unusable(e, self.directory) from e

    def commits(self) -> int:
        """The number of the newest transaction that is there."""
        return int(self.env.info()["last_txnid"])

    def prove(self) -> None:
        """Has the disk say that all is there which can be read: raises lmdb.Error where it does not.

        A page whose write failed may be in memory and nowhere else, and asked to sync it again the system says nothing
        of it. A transaction on top of it counts only with all that lies below.
        """
        meta = self.tables["meta"]
        with self.env.begin(write=True) as txn:
            txn.put(b"head", txn.get(b"head", b"0", db=meta), db=meta)

    def size(self) -> int:
        """The bytes of the map that are in use: what the store takes on disk. The file's name may be gone meanwhile."""
        return (int(self.env.info()["last_pgno"]) + 1) * int(self.env.stat()["psize"])

    @property
    def room(self) -> int:
        """The bytes that the map has: more cannot be kept."""
        return int(self.env.info()["map_size"])

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def _identity(path: str) -> tuple[int, int]:
    st = os.stat(path)
    return st.st_dev, st.st_ino


def _is_emptied(directory: str) -> bool:
    """Whether a store that was in use has nothing in its file, which LMDB would take for a new one."""
    try:
        used = os.stat(os.path.join(directory, locktable.NAME)).st_size > 0
        return used and os.stat(os.path.join(directory, DATA)).st_size == 0
    except FileNotFoundError:
        return False
