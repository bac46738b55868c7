"""Questions that are answered before anything else is done: requests to the shortcut, and its verdicts to JSON.

Rule: what a request means is remembered by its bytes, as long as the log is as it was: roots and scopes come and go
with records only.
"""

from __future__ import annotations

import random
import time
from typing import Final, NamedTuple

from provd.clocks import Clocks
from provd.core import errors, params
from provd.core.entry import EntryId
from provd.inquiry import Answer
from provd.resolver import Resolver
from provd.selfcheck import SelfCheck
from provd.shortcut import Shortcut, members
from provd.statistics import Verdicts
from provd.store import Store

METHOD: Final = "entry.check"
_MAX_REMEMBERED: Final = 20_000
_LONGEST: Final = 2048
"""Bytes of the parameters that are remembered."""


class _Meant(NamedTuple):
    """What a request asks for: an entry, by seals or by silence."""

    entry: EntryId
    by_seal: bool


class AtOnce:
    """Answers `entry.check` where all that is asked for is fresh by seals or by silence; None is for the whole way."""

    def __init__(
        self,
        store: Store,
        resolver: Resolver,
        clocks: Clocks,
        shortcut: Shortcut,
        verdicts: Verdicts,
        self_check: SelfCheck,
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._clocks = clocks
        self._shortcut = shortcut
        self._verdicts = verdicts
        self._self_check = self_check
        self._head = -1
        self._token = b""
        self._meant: dict[bytes, _Meant] = {}

    def raw(self, given: bytes) -> bytes | None:
        """The JSON of the verdict that parameters in JSON ask for."""
        self._keep_up()
        meant = self._meant.get(given)
        if meant is None:
            meant = self._meaning(given)
            if meant is None:
                return None
            if len(given) <= _LONGEST and len(self._meant) < _MAX_REMEMBERED:
                self._meant[given] = meant
        return self._one(meant)

    def one(self, asked: params.EntryCheck) -> bytes | None:
        """The JSON of the verdict on one key."""
        self._keep_up()
        meant = self._meaning_of(asked)
        return None if meant is None else self._one(meant)

    async def all(self, asked: params.EntryCheck) -> bytes | None:
        """The same of several keys, all of which are fresh by seals at one moment."""
        began = time.perf_counter()
        place = self._resolver.known_place(asked.root, asked.scope)
        if place is None or place.scope is None or not asked.by_seal:
            return None
        keys = dict.fromkeys(asked.keys or ())
        fresh = await self._shortcut.all_fresh(place.scope, keys)
        if fresh is None:
            return None
        self._keep_up()
        verdicts = members(fresh, self._token)
        self._verdicts.add_fresh(time.perf_counter() - began, len(fresh))
        if fresh and self._self_check.is_due(len(fresh)):
            self._self_check.take(EntryId(place.scope, random.choice(list(keys))))  # noqa: S311  no secret
        return b'{"verdicts":{' + verdicts + b"}}"

    def learn(self, asked: params.EntryCheck, answer: Answer) -> None:
        """Learns from what the whole way has found."""
        if asked.by_seal:
            self._shortcut.learn(answer.judgements.values())
        elif asked.by_silence and asked.keys is None:
            (judged,) = answer.judgements.values()
            self._shortcut.learn_quiet(judged, answer.position)

    def _keep_up(self) -> None:
        """Takes the token of the newest record that is known to be durable."""
        head = self._store.head
        if head != self._head:
            self._head, self._token = head, self._clocks.token(head).encode()
            self._meant.clear()

    def _meaning(self, given: bytes) -> _Meant | None:
        try:
            asked = params.decode_check(given)
            return self._meaning_of(asked)
        except errors.ProvdError:  # it is told by the whole way
            return None

    def _meaning_of(self, asked: params.EntryCheck) -> _Meant | None:
        if asked.key is None or asked.keys is not None or not (asked.by_seal or asked.by_silence):
            return None
        place = self._resolver.known_place(asked.root, asked.scope)
        if place is None or place.scope is None:
            return None
        return _Meant(EntryId(place.scope, asked.key), asked.by_seal)

    def _one(self, meant: _Meant) -> bytes | None:
        began = time.perf_counter()
        told = self._shortcut.fresh(meant.entry) if meant.by_seal else self._shortcut.quiet(meant.entry)
        if told is None:
            return None
        self._verdicts.add_fresh(time.perf_counter() - began, 1)
        if meant.by_seal and self._self_check.is_due():
            self._self_check.take(meant.entry)
        return told.at(self._token)
