"""Answers `entry.export`: the precedents of a scope, or of all, a page at a time.

Rule: a page is one moment of the store, and never more than a line holds. Nothing is left out in silence.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import errors, params, portable, records
from provd.core.wire import MAX_LINE
from provd.resolver import Resolver
from provd.store import Store
from provd.store.precedents import After, Harmed, Precedents

MAX_RECORD: Final = MAX_LINE - 64 * 1024
"""Bytes of one precedent: it must fit a line of the answer, and a line of the request that imports it."""
_PAGE: Final = 2 * 1024 * 1024
"""Bytes that are read for one page: as long as a view is open, no page of the store is used again."""
_PASSED: Final = 512
"""Bytes as which a row counts at least that is passed over."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(After).decode


class Exporting:
    """Reads the precedents out of the store."""

    def __init__(self, store: Store, resolver: Resolver, clocks: Clocks) -> None:
        self._store = store
        self._resolver = resolver
        self._clocks = clocks

    async def page(self, asked: params.EntryExport, *, foreign: bool) -> dict[str, Any]:
        """`entry.export`; raises RootAmbiguous, RootMissing, InvalidParams."""
        if asked.all and (asked.root is not None or asked.scope is not None):
            raise errors.InvalidParams("all, and a root or scope", "send one of them")
        scope = None
        if not asked.all:
            scope = (await self._resolver.place(asked.root, asked.scope, foreign=foreign)).need_scope()
        return await asyncio.to_thread(self._page, scope, _after(asked.after), asked.limit)

    def _page(self, scope: bytes | None, last: After, limit: int) -> dict[str, Any]:
        lines: list[msgspec.Raw] = []
        left_out: list[dict[str, Any]] = []
        size = read = 0
        more = False
        with self._store.thread_view() as view:
            head, precedents = view.head(), Precedents(view)
            if last == After():
                last = After(began=head)
            for at, precedent in precedents.after(scope, last):
                if len(lines) == limit or read >= _PAGE:
                    more = True
                    break
                if isinstance(precedent, int):
                    read += max(precedent, _PASSED)
                    last = at
                    continue
                if isinstance(precedent, Harmed):
                    left_out.append(_harmed(precedent, scope))
                    last = at
                    continue
                line = portable.line(precedent, self._clocks.name, precedents.origin)
                if len(line) > MAX_RECORD:
                    left_out.append(_left_out(precedent, len(line)))
                elif lines and size + len(line) > MAX_RECORD:
                    more = True
                    break
                else:
                    lines.append(msgspec.Raw(line))
                    size += len(line)
                read += len(line)
                last = at
        told: dict[str, Any] = {"clock": self._clocks.token(head)}
        if scope is not None:
            told |= records.wire_scope(scope)
        if more:
            told["after"] = base64.b64encode(_encode(last)).decode()
        if left_out:
            told["left_out"] = left_out
        return told | {"entries": lines}


def _left_out(precedent: portable.Precedent, size: int) -> dict[str, Any]:
    there = precedent.entry
    why = f"it takes {size} bytes, and a line holds {MAX_RECORD}"
    return records.wire_scope(there.id.scope) | {"key": there.id.key, "version": there.version, "why": why}


def _harmed(harmed: Harmed, scope: bytes | None) -> dict[str, Any]:
    entry = harmed.entry
    where = scope if entry is None else entry.id.scope
    told = {} if where is None else records.wire_scope(where)
    return told | {"key": harmed.key, "version": None if entry is None else entry.version, "why": harmed.why}


def _after(text: str | None) -> After:
    if text is None:
        return After()
    try:
        return _decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise errors.InvalidParams("after is not what an export told", "send it as it came") from None
