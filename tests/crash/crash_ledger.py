"""What clients sent and what was acknowledged to them, in the order of the answers.

Rule: it is kept below everything that talks to the daemon, so that nothing can be acknowledged past it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from support import Rpc, RpcError, unwire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import Json

CHANGING: Final = frozenset(
    {"entry.put", "entry.forget", "entry.revalidate", "action.begin", "action.end", "action.record"}
)
_IN_DOUBT: Final = ("store.", "internal", "busy")
"""Errors after which a change may be there all the same."""


class Asked(NamedTuple):
    """One request, and its result where it has one."""

    method: str
    params: dict[str, Json]
    result: Json = None


class Ledger:
    """All requests of one world since the last crash was looked at. `at_send` is called at each request."""

    def __init__(self) -> None:
        self.acknowledged: list[Asked] = []
        self.sent: dict[tuple[Rpc, int], Asked] = {}
        """What was sent and neither acknowledged nor refused."""
        self.at_send: Callable[[], None] = lambda: None

    def clear(self) -> None:
        """All of it was looked at."""
        self.acknowledged.clear()
        self.sent.clear()

    def certain(self, until: int) -> list[Asked]:
        """What was acknowledged before `until`, a length of `acknowledged`."""
        return self.acknowledged[:until]

    def doubtful(self, until: int) -> Iterator[Asked]:
        """Changes that may be there or not: acknowledged later, or never."""
        for asked in (*self.acknowledged[until:], *self.sent.values()):
            if asked.method in CHANGING:
                yield asked


class LedgerRpc(Rpc):
    """A connection that writes down what goes over it."""

    def __init__(self, path: str, ledger: Ledger) -> None:
        super().__init__(path)
        self._ledger = ledger

    def send(self, method: str, **params: Json) -> int:
        """Sends and writes down."""
        self._ledger.at_send()
        number = self.next_id()
        self._ledger.sent[self, number] = Asked(method, params)
        self.send_as(number, method, params)
        return number

    def result(self, number: int) -> Json:
        """Takes the answer and writes it down; raises RpcError."""
        try:
            result = super().result(number)
        except RpcError as error:
            if not error.code.startswith(_IN_DOUBT):
                self._ledger.sent.pop((self, number), None)
            raise
        asked = self._ledger.sent.pop((self, number))
        self._ledger.acknowledged.append(asked._replace(result=result))
        return result


def objects_of(asked: Asked) -> list[str]:
    """The objects that an action declares, by name."""
    names = [unwire(write).decode() for write in asked.params.get("writes", [])]
    return [name.partition(":")[2] for name in names if name.startswith("object:")]
