"""The table of files: what was last known of each path, as a tree of directories.

Rule: a row hangs in its directory's number, so that a directory is renamed by moving one row, whatever is below. The
tree begins at `/`: a root inside another one is the same rows. A number is one directory's: a row that has that of
another one is damaged, so that no way down comes back to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

import lmdb
import msgspec

from provd.core.mutation import DIRECTORY, FILE, State
from provd.core.portable import Position
from provd.store.decoding import Damaged, decoder, reader
from provd.store.reads import View
from provd.store.writes import Writer

_TABLE: Final = "files"
_TOP: Final = 0
_NUMBER: Final = 8
_COUNTER: Final = bytes(_NUMBER)
"""The key of the greatest number: a name is never empty."""
_TOP_KEY: Final = bytes(_NUMBER) + b"/"
"""The key of `/` itself: no name has a slash."""
UNKNOWN: Final = State(DIRECTORY, 0, 0, 0, 0)
"""The state of a directory of which only the name is known."""
UNSEEN: Final = State(FILE, 0, 0, 0, 0)
"""The state of another name that was told and not seen: nothing on a disk has inode 0."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one path.

    `of` is the position of its newest mutation, 0 where there was none; `pending` says that the digest of that one is
    still to come. `digest` is XXH3-128 of a content that was read while `state` held, empty where it was not read.
    `number` is a directory's own; `listed` says that what is in it was compared with the disk once.
    """

    state: State
    of: Position = 0
    pending: bool = False
    digest: bytes = b""
    number: int = 0
    listed: bool = False

    @property
    def is_directory(self) -> bool:
        """Whether rows may hang below it."""
        return self.state.sort == DIRECTORY


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = decoder(Row, "what is known of a file")
_LOST: Final = Row(UNSEEN)
_JUMP: Final = 2**32
"""More directories than there ever were: numbers behind it are not in use."""
_MOST: Final = 2**62
"""No number comes near: one is given out once."""
_ROOT: Final = Row(UNKNOWN, number=_TOP)


def _counted(row: bytes) -> int:
    number = int.from_bytes(row, "big")
    if len(row) != _NUMBER or number >= _MOST:
        raise ValueError(f"{row[:20]!r} is none")
    return number


_counter: Final = reader(_counted, "the number of a directory")


class Files:
    """The table inside one view; what changes it needs a Writer. Paths are absolute, without `.`, `..` or `//`."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._txn: lmdb.Transaction = view._txn  # noqa: SLF001  the same room
        self._db = view._tables[_TABLE]  # noqa: SLF001
        self._numbers: dict[bytes, int] = {}
        self._holders: dict[int, bytes] = {}  # the key of the row that has a number
        # Who asks for a row mostly writes it next, with the same object.
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._enter_top()
        self._greatest: int | None = None  # number that was given out, once it was read

    # looking

    def get(self, path: bytes) -> Row | None:
        """The row of a path, None where nothing is known of it. `/` is always known."""
        if path == b"/":
            row = self._at(_TOP_KEY)
            return row if row is not None and row.is_directory else _ROOT
        key = self._key(path)
        return None if key is None else self._at(key)

    def children(
        self, directory: bytes, low: bytes = b"", high: bytes | None = None, limit: int | None = None
    ) -> dict[bytes, Row]:
        """Up to `limit` rows directly inside a directory by name, in order: names from `low` on and before `high`."""
        number = self._number(directory)
        if number is None:
            return {}
        prefix = _packed(number)
        cursor = self._txn.cursor(db=self._db)
        found: dict[bytes, Row] = {}
        if not cursor.set_range(prefix + (low or b"\0")):
            return found
        for row in cursor:
            key, value = cast("tuple[bytes, bytes]", row)
            name = key[_NUMBER:]
            if not key.startswith(prefix) or (high is not None and name >= high):
                break
            if len(found) == limit:
                break
            if name != b"/":
                found[name] = self._read(key, value)
        return found

    def below(self, directory: bytes) -> Iterator[tuple[bytes, Row]]:
        """All paths below a directory with their rows, each directory after what is in it."""
        start = directory.rstrip(b"/") + b"/"
        stack = [(directory, iter(self.children(directory).items()))]
        rows: list[tuple[bytes, Row]] = []
        while stack:
            at, names = stack[-1]
            for name, row in names:
                path = (start if at == directory else at + b"/") + name
                if row.is_directory:
                    rows.append((path, row))
                    stack.append((path, iter(self.children(path).items())))
                    break
                yield path, row
            else:
                stack.pop()
                if rows and stack:
                    yield rows.pop()

    def count(self) -> int:
        """How many paths are known in all, the directories above the roots included."""
        entries: int = self._txn.stat(self._db)["entries"]
        return entries - sum(self._txn.get(key, db=self._db) is not None for key in (_COUNTER, _TOP_KEY))

    # changing

    def put(self, path: bytes, row: Row) -> Row:
        """Keeps the row of a path; a directory without a number keeps the one that is known, or gets one.

        Makes the directories above it known.
        """
        if row.is_directory and not row.number and path != b"/":
            known = self.get(path)
            row = msgspec.structs.replace(row, number=(known.number if known is not None else 0) or self._next())
        key = self._key(path, make=True)
        assert key is not None
        self._write(key, row)
        if row.is_directory:
            self._enter(path, key, row.number)
        else:
            self._leave(path)
        return row

    def fill(self, directory: bytes, rows: Iterable[tuple[bytes, State]]) -> None:
        """Keeps names that were never known before, in order, in a directory; nothing was ever recorded of them."""
        number = self._number(directory, make=True)
        assert number is not None
        prefix = _packed(number)
        items = []
        for name, state in rows:
            row = Row(state, number=self._next()) if state.sort == DIRECTORY else Row(state)
            items.append((prefix + name, _encode(row)))
        if items:
            self._writer().wrote += len(items)
            self._txn.cursor(db=self._db).putmulti(items)

    def delete(self, path: bytes) -> None:
        """Takes away one row. Nothing may hang below it."""
        key = self._key(path)
        if key is not None:
            self._writer().wrote += 1
            self._txn.delete(key, db=self._db)
            self._leave(path)

    def move(self, source: bytes, path: bytes) -> None:
        """Gives the row of `source` another name; nothing may hang below what `path` was."""
        row = self.get(source)
        assert row is not None
        key = self._key(path, make=True)
        assert key is not None
        self.delete(source)
        self._write(key, row)
        if row.is_directory:
            self._enter_top()  # all paths below have changed

    # inside

    def _writer(self) -> Writer:
        assert isinstance(self._view, Writer)
        return self._view

    def _at(self, key: bytes) -> Row | None:
        value = self._txn.get(key, db=self._db)
        return None if value is None else self._read(key, cast("bytes", value))

    def _read(self, key: bytes, value: bytes) -> Row:
        """What is damaged is like nothing that may be there, so that what becomes of it is recorded."""
        try:
            row = _decode(value)
            if row.is_directory:
                self._check_number(key, row.number)
        except Damaged as e:
            self._view._met(e)  # noqa: SLF001
            return _LOST
        return row

    def _check_number(self, key: bytes, number: int) -> None:
        """Raises Damaged where the row of a directory has a number that is none, or of a directory that was entered."""
        if not 0 <= number <= self._given() or self._holders.get(number, key) != key:
            raise Damaged(f"a directory has a number that is not its own: {number}")

    def _write(self, key: bytes, row: Row) -> None:
        self._writer().wrote += 1
        self._txn.put(key, _encode(row), db=self._db)

    def _key(self, path: bytes, *, make: bool = False) -> bytes | None:
        last, key = self._last
        if path is last:
            return key
        directory, _, name = path.rpartition(b"/")
        if not name:
            return _TOP_KEY
        number = self._number(directory or b"/", make=make)
        if number is None:
            return None
        key = _packed(number) + name
        self._last = (path, key)
        return key

    def _number(self, directory: bytes, *, make: bool = False) -> int | None:
        """The number of a directory, None where it is not known as one; `make` makes it known."""
        todo: list[bytes] = []
        while (known := self._numbers.get(directory)) is None:  # a path may have a thousand names: no recursion
            todo.append(directory)
            directory = directory.rpartition(b"/")[0] or b"/"
        number = known
        for path in reversed(todo):
            key = _packed(number) + path.rpartition(b"/")[2]
            row = self._at(key)
            if row is None or not row.is_directory:
                if not make:
                    return None
                row = msgspec.structs.replace(row or _ROOT, state=UNKNOWN, digest=b"", number=self._next())
                self._write(key, row)
            number = row.number
            self._enter(path, key, number)
        return number

    def _enter_top(self) -> None:
        """Forgets which directories were entered, but for the one where all ways begin."""
        self._numbers = {b"/": _TOP}
        self._holders = {_TOP: _TOP_KEY}
        self._last = (b"", b"")

    def _enter(self, path: bytes, key: bytes, number: int) -> None:
        self._numbers[path] = number
        self._holders[number] = key

    def _leave(self, path: bytes) -> None:
        """The row of a path is no directory's any more."""
        number = self._numbers.pop(path, None)
        if number is not None:
            self._holders.pop(number, None)
            self._last = (b"", b"")

    def _given(self) -> int:
        """The greatest number that was given out; where that is damaged one that is greater than all in use."""
        if self._greatest is None:
            cursor = self._txn.cursor(db=self._db)
            used = int.from_bytes(cast("bytes", cursor.key())[:_NUMBER], "big") if cursor.last() else _TOP
            kept = self._txn.get(_COUNTER, db=self._db)
            self._greatest = _TOP
            if kept is not None:
                given = self._view._or(_counter, cast("bytes", kept), -1)  # noqa: SLF001
                self._greatest = given if given >= used else used + _JUMP
        return self._greatest

    def _next(self) -> int:
        number = self._greatest = self._given() + 1
        self._writer().wrote += 1
        self._txn.put(_COUNTER, _packed(number), db=self._db)
        return number


def _packed(number: int) -> bytes:
    return number.to_bytes(_NUMBER, "big")
