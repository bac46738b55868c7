"""Declared writes: actions begun, ended, given up, refused and held; what they do to objects is told to the oracle."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from support import RpcError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from oracle_model import Oracle
    from support import Json, Rpc

OBJECTS: Final = 8
_OPEN: Final = 3
TOUCHED: Final = ("object", "entry")
DECLARING: Final = (
    "declared write",
    "action begun",
    "action done",
    "action failed",
    "action aborted",
    "begin refused",
    "held action's client gone",
)


class Declaring:
    """Declares at random. `connect` gives a new connection, `rpc` the common one."""

    def __init__(self, connect: Callable[[], Rpc], root: str, oracle: Oracle, random: Random) -> None:
        self._connect, self._root, self._oracle, self._random = connect, root, oracle, random
        self._open: dict[int, list[str]] = {}
        self._held: dict[int, tuple[Rpc, list[str]]] = {}

    def act(self, name: str, rpc: Rpc) -> set[str]:
        """Does one thing; gives the objects that it touched, none where there was nothing to do."""
        objects = self._random.sample([f"o{number}" for number in range(OBJECTS)], self._random.choice((1, 1, 2)))
        match name:
            case "declared write":
                outcome = self._random.choice(("done", "failed"))
                return self._written(objects) if self._begin(rpc, objects, "action.record", outcome=outcome) else set()
            case "begin refused":
                self._begin(rpc, objects, "action.begin", if_usable=["no such key"])
                return set(objects)
            case "action begun":
                return self._begun(rpc, objects)
            case "held action's client gone":
                return self._hold_or_let_go(rpc, objects)
            case _:
                return self._end(rpc, name.rpartition(" ")[2], objects)

    def restarted(self) -> None:
        """The daemon ended without a word: what was held has failed, the others are open still; all is a gap."""
        for number, (_, objects) in self._held.items():
            self._ended(number, objects, written=True)
        self._held.clear()
        self._oracle.gap = self._oracle.now()

    def close(self, rpc: Rpc) -> None:
        """Ends all that is open."""
        for number in list(self._open):
            with contextlib.suppress(RpcError):
                rpc("action.end", id=number, outcome="aborted")
        self._open.clear()
        for client, _ in self._held.values():
            client.close()
        self._held.clear()

    def _begin(self, rpc: Rpc, objects: list[str], method: str, **more: Json) -> Json:
        """The answer; None where it was refused, which is a gap of its objects."""
        writes = [f"object:{name}" for name in objects]
        try:
            return rpc(method, writes=writes, root=self._root, **more)
        except RpcError:
            tick = self._oracle.now()
            for name in objects:
                self._oracle.object(name).unsure = tick
            return None

    def _begun(self, rpc: Rpc, objects: list[str]) -> set[str]:
        while len(self._open) >= _OPEN:
            self._end(rpc, "done", objects)
        told = self._begin(rpc, objects, "action.begin")
        if told:
            self._opened(told["id"], objects)
            self._open[told["id"]] = objects
        return set(objects)

    def _opened(self, number: int, objects: list[str]) -> None:
        for name in objects:
            self._oracle.object(name).open.add(number)

    def _written(self, objects: list[str]) -> set[str]:
        tick = self._oracle.now()
        for name in objects:
            self._oracle.object(name).written = tick
        return set(objects)

    def _end(self, rpc: Rpc, outcome: str, objects: list[str]) -> set[str]:
        if not self._open:
            self._begun(rpc, objects)
        if not self._open:  # refused
            return set()
        number = self._random.choice(sorted(self._open))
        try:
            rpc("action.end", id=number, outcome=outcome)
        except RpcError:  # the disk is full: it is open still
            return set()
        objects = self._open.pop(number)
        self._ended(number, objects, written=outcome != "aborted")
        return set(objects)

    def _ended(self, number: int, objects: list[str], *, written: bool) -> None:
        for name in objects:
            self._oracle.object(name).open.discard(number)
        if written:
            self._written(objects)

    def _hold_or_let_go(self, rpc: Rpc, objects: list[str]) -> set[str]:
        if not self._held:
            client = self._connect()
            told = self._begin(client, objects, "action.begin", hold=True)
            if told:
                self._opened(told["id"], objects)
                self._held[told["id"]] = (client, objects)
            else:
                client.close()
            return set(objects)
        number, (client, objects) = next(reversed(self._held.items()))
        client.close()
        # Whoever asks meanwhile finds it open: only the list tells when its end is recorded.
        while any(each["id"] == number for each in rpc("action.list")["actions"]):
            pass
        del self._held[number]  # not before: where the daemon is killed meanwhile it has failed all the same
        self._ended(number, objects, written=True)
        return set(objects)
