"""Reloading: what a running daemon takes from the configuration file when it is told to look again.

Rule: all or nothing. A file with a mistake, or with a root that is not there, changes nothing and is told; so is what
only a restart can change. A root that the file no longer names stays: `root.remove` ends it.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog

from provd import configuration, settings
from provd.configuration import KEYS
from provd.core import errors, params
from provd.core.records import wire_name
from provd.disk import Directory
from provd.settings import Settings

log = structlog.get_logger("reloading")


class Roots(Protocol):
    """The watched roots."""

    @property
    def paths(self) -> Sequence[bytes]:
        """Their real paths."""

    async def add_all(self, directories: Sequence[Directory]) -> None:
        """Adds all of them, or none; raises StoreFull, StoreUnusable."""


class Finder(Protocol):
    """Who finds directories: the resolver."""

    async def directory(self, path: params.Name) -> Directory:
        """The existing directory at `path`; raises RootMissing."""


class Reloading:
    """`in_use` are the settings in use. `apply` is called with the new ones, to take what can be taken.

    `begun` and `ended` tell a service manager of each reload, whatever becomes of it.
    """

    def __init__(
        self,
        in_use: Settings,
        roots: Roots,
        finder: Finder,
        apply: Callable[[Settings], None],
        begun: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._in_use = in_use
        self._roots = roots
        self._finder = finder
        self._apply = apply
        self._one_at_a_time = asyncio.Lock()
        self._begun = begun
        self._ended = ended

    def told(self) -> dict[str, Any]:
        """`daemon.config`: the file, the places, and each key with its value in use and where that comes from."""
        return {
            "path": _wire(self._in_use.config),
            "state": _wire(self._in_use.state),
            "socket": _wire(self._in_use.socket),
            "settings": {
                name: {"value": found.value, "from": found.source} for name, found in self._in_use.values.items()
            },
        }

    async def reload(self) -> dict[str, Any]:
        """`daemon.reload`: the keys that were changed, and those that need a restart.

        Raises InvalidParams, RootMissing, StoreFull, StoreUnusable; then nothing was changed.
        """
        async with self._one_at_a_time:
            self._begun()
            try:
                return await self._reload()
            finally:
                self._ended()

    async def _reload(self) -> dict[str, Any]:
        asked = await asyncio.to_thread(settings.again, self._in_use)
        try:
            added = await self._add_roots(settings.directories(asked.values))
        except errors.RootMissing as e:
            line = (await asyncio.to_thread(configuration.read, asked.config)).lines.get("roots")
            told = configuration.Mistake(f"roots: {e.message}", "roots", line).told(asked.config)
            raise errors.RootMissing(told, configuration.CORRECT) from None
        before, wanted = self._in_use.values, asked.values
        other = [name for name in KEYS if wanted[name].value != before[name].value]
        changed = [name for name in other if KEYS[name].reloads and name != "roots"]
        restart = [name for name in other if not KEYS[name].reloads]
        values = {name: before[name] if name in restart else wanted[name] for name in KEYS}
        self._in_use = settings.using(asked, values)
        changed = [*(["roots"] if added else []), *changed]
        log.info("configuration reloaded", path=asked.config, changed=changed)
        if restart:
            log.warning("the configuration needs a restart", keys=restart)
        self._apply(self._in_use)
        return {"path": _wire(asked.config), "changed": changed, "restart": restart}

    async def hang_up(self) -> None:
        """What a SIGHUP asks for: a reload, whose mistakes are logged and change nothing."""
        try:
            await self.reload()
        except errors.ProvdError as e:
            log.error("the configuration was not reloaded, all stays as it was", reason=e.message, next=e.hint)  # noqa: TRY400  it is no fault of ours
        except Exception:
            log.exception("the configuration was not reloaded, all stays as it was")

    async def _add_roots(self, named: Sequence[bytes]) -> list[bytes]:
        """Watches the roots of the file that are not watched; those that were added."""
        found = [await self._finder.directory(_name(path)) for path in named]  # all of them before anything
        new = [directory for directory in found if directory.path not in self._roots.paths]
        await self._roots.add_all(new)
        return [directory.path for directory in new]


def _name(path: bytes) -> params.Name:
    return params.B64(b64=base64.b64encode(path).decode())


def _wire(path: str) -> str | dict[str, str]:
    return wire_name(os.fsencode(path))
