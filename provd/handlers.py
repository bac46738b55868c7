"""Which method does what: requests of the wire to calls of the rooms that answer or write."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from provd import __version__, atonce, peers
from provd.clocks import Clocks
from provd.core import errors, members, misread, params
from provd.core.records import wire_name
from provd.core.wire import DECLARING, Bad, Request, may_declare
from provd.exporting import Exporting
from provd.recorder import Actions, Entries, Roots
from provd.recorder.importing import Importing
from provd.recorder.patterns import check_patterns
from provd.reloading import Reloading
from provd.resolver import Resolver, absolute
from provd.responder import Responder
from provd.server import Connection
from provd.status import Status
from provd.store import Store
from provd.subscriptions import Subscriptions

PROTOCOL: Final = 1
_LONG: Final = 64 * 1024
"""Bytes of parameters that are looked through in a thread."""
_LISTS: Final = ("deps", "writes")
"""The parameters that are lists of dependencies."""


_CHANGING: Final = (
    *(params.EntryPut, params.EntryRevalidate, params.EntryForget, params.EntryImport),
    *(params.ActionBegin, params.ActionRecord, params.ActionEnd, params.RootAdd, params.RootRemove),
)
_TAKEN: Final = frozenset({"daemon.shutdown", "daemon.reload"})
"""What is done for a client that is gone, too; all others only ask."""


class Handlers:
    """Handles every request of every connection. `shutdown` asks the daemon to stop, `over` why it may not answer."""

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        resolver: Resolver,
        responder: Responder,
        entries: Entries,
        actions: Actions,
        roots: Roots,
        subscriptions: Subscriptions,
        status: Status,
        reloading: Reloading,
        exporting: Exporting,
        importing: Importing,
        shutdown: Callable[[], None],
        over: Callable[[], errors.StoreUnusable | None],
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._resolver = resolver
        self._responder = responder
        self._at_once = responder.at_once
        self._entries = entries
        self._actions = actions
        self._roots = roots
        self._subscriptions = subscriptions
        self._status = status
        self._reloading = reloading
        self._exporting = exporting
        self._importing = importing
        self._shutdown = shutdown
        self._over = over
        self.stopping = False

    def at_once(self, connection: Connection, request: Request) -> bytes | None:
        """The JSON of the result of a request that is answered without waiting for anything; None for the others."""
        if request.method != atonce.METHOD or self.stopping or connection.peer.foreign or self._over():
            return None
        return self._at_once.raw(bytes(request.params)) if isinstance(request.params, msgspec.Raw) else None

    async def handle(  # noqa: C901, PLR0912  one row a method
        self, connection: Connection, request: Request
    ) -> Any:
        """The result of a request; raises ProvdError."""
        if (over := self._over()) is not None:
            raise over
        asked = await self._decoded(request)
        if self.stopping:
            raise errors.ShuttingDown("the daemon is stopping", "provd start  # then ask again")
        if connection.gone and not isinstance(asked, _CHANGING) and request.method not in _TAKEN:
            return None  # nobody waits for the answer, and others wait for their turn
        foreign = connection.peer.foreign
        match asked:
            case params.EntryCheck():
                return await self._responder.check(asked, foreign=foreign)
            case params.EntryGet():
                return await self._responder.get(asked, foreign=foreign)
            case params.EntryPut():
                return await self._entries.put(asked, foreign=foreign)
            case params.EntryRevalidate():
                return await self._entries.revalidate(asked, foreign=foreign)
            case params.EntryForget():
                return await self._entries.forget(asked, foreign=foreign)
            case params.EntryList():
                return await self._responder.listed(asked, foreign=foreign)
            case params.EntryPlaces():
                return await self._responder.places(asked)
            case params.EntryExport():
                return await self._exporting.page(asked, foreign=foreign)
            case params.EntryImport():
                return await self._importing.take(asked, foreign=foreign)
            case params.DepsCheck():
                return await self._responder.deps_check(asked, foreign=foreign)
            case params.DepsSnapshot():
                return await self._responder.snapshot(asked, foreign=foreign)
            case params.ActionBegin() | params.ActionRecord():
                return await self._begin(connection, asked)
            case params.ActionEnd():
                return await self._actions.end(asked)
            case params.LogSince():
                return _for_peer(await self._responder.since(asked), foreign=foreign)
            case params.Subscribe():
                return _for_peer(await self._subscriptions.subscribe(connection, asked), foreign=foreign)
            case params.Unsubscribe():
                return self._subscriptions.unsubscribe(connection, asked)
            case params.RootAdd():
                return await self._add_root(asked)
            case params.RootRemove():
                return await self._remove_root(asked)
            case params.Hello():
                return self._hello(asked)
            case params.Audit():
                told = await self._status.audit(asked, self._resolver)
                return told | {"foreign": True} if foreign else told
            case _:
                told = await self._plain(request.method)
                return told | _of_peer(foreign=foreign) if request.method == "daemon.status" else told

    async def _decoded(self, request: Request) -> params.Params:
        """The parameters; raises UnknownMethod, InvalidParams."""
        raw = b"" if request.params is msgspec.UNSET else bytes(request.params)
        try:
            asked = params.decode(request.method, request.params)
            if request.method != atonce.METHOD:  # it names in its answer what it took, and most go another way
                await _need_each_once(request.method, raw)
        except (errors.UnknownMethod, errors.InvalidParams) as e:
            if not self.stopping and (request.method in DECLARING or _names_writes(raw, e)):
                await self._actions.unwritten.misread(request.method, raw, e)
            raise
        return asked

    async def refused(self, bad: Bad) -> None:
        """What a line that is no request may declare is recorded before it gets its error."""
        if not self.stopping and self._over() is None:  # else the gap of the next run tells of it
            await self._actions.unwritten.misread_line(bad.line, bad.error)

    async def _plain(self, method: str) -> Any:
        """The methods without parameters."""
        match method:
            case "log.clock":
                return await self._responder.clock()
            case "action.list":
                return self._actions.listed()
            case "root.list":
                return {"roots": await self._status.listed()}
            case "daemon.status":
                return await self._status.status()
            case "daemon.config":
                return self._reloading.told()
            case "daemon.reload":
                return await self._reloading.reload()
            case "daemon.shutdown":
                asyncio.get_running_loop().call_soon(self._shutdown)
                return {}
            case _:
                raise errors.Internal(f"nobody answers {method!r}", "please report it")

    async def _begin(self, connection: Connection, asked: params.ActionBegin | params.ActionRecord) -> Any:
        result = await self._actions.begin(asked, holder=connection.number, foreign=connection.peer.foreign)
        if connection.gone:  # it closed while its action was begun
            self._actions.closed(connection.number)
        return result

    async def _add_root(self, asked: params.RootAdd) -> Any:
        if asked.ignore is not None:
            check_patterns(asked.ignore)
        directory = await self._resolver.directory(asked.path)
        ignore = None if asked.ignore is None else tuple(asked.ignore)
        await self._roots.add(directory, ignore, wait=asked.wait)
        return {"roots": self._status.roots_after(directory.path)}

    async def _remove_root(self, asked: params.RootRemove) -> Any:
        """Removes the root of that name, be it gone; else the one that the path leads to."""
        path = absolute(params.name_bytes(asked.path), "path")
        if path not in self._roots:
            with contextlib.suppress(errors.RootMissing):  # then it is told by the name that was given
                real = (await self._resolver.directory(asked.path)).path
                path = real if real in self._roots else path
        await self._roots.remove(path)
        return {"roots": self._status.roots_after(path)}

    def _hello(self, asked: params.Hello) -> dict[str, Any]:
        if asked.protocol != PROTOCOL:
            raise errors.VersionMismatch(
                f"this provd speaks protocol {PROTOCOL}, not {asked.protocol}", "use a client of the same version"
            )
        return {
            "name": "provd",
            "version": __version__,
            "protocol": PROTOCOL,
            "log": self._store.log_id,
            "run": self._clocks.run,
            "pid": os.getpid(),
            "roots": [wire_name(path) for path in self._roots.paths],
        }


def _of_peer(*, foreign: bool) -> dict[str, Any]:
    """What the status tells of who asks for it."""
    return {"foreign": foreign} if peers.can_tell() else {"foreign": foreign, "proc_missing": True}


def _for_peer(told: dict[str, Any], *, foreign: bool) -> dict[str, Any]:
    """What the log tells of a stretch: to who sees other files it tells nothing of what happened to those."""
    return told | {"complete": False, "foreign": True} if foreign else told


async def _need_each_once(method: str, raw: bytes) -> None:
    """Raises InvalidParams where of parameters that fit some come twice."""
    if not raw or raw == b"null":
        return
    if len(raw) > _LONG:
        again = await asyncio.to_thread(members.twice_in, raw, _LISTS)
    else:
        again = members.twice_in(raw, _LISTS)
    if again is not None:
        raise errors.InvalidParams(f"{method}: {again!r} comes twice", "send each member once")


def _names_writes(raw: bytes, refused: errors.ProvdError) -> bool:
    """Whether parameters say that something is about to be written, whatever the method is called.

    Of a method that there is they say so by a member of their own: its values may hold the word.
    """
    if isinstance(refused, errors.UnknownMethod):
        return misread.says_so(raw)
    names = members.names(raw)
    return may_declare(raw) if names is None else "writes" in names
