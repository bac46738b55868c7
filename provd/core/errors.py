"""One tree of errors, with stable codes.

Rule: every error that can reach a user has a code from the contract, says what happened and why, and
carries a hint: the next thing to do.
"""

from __future__ import annotations

from typing import Any


class ProvdError(Exception):
    """The base of all errors that provd raises on purpose.

    `code` is stable and documented, `message` says what and why, `hint` what to do next. `detail` holds
    further fields for the `data` of the wire's error object.
    """

    code = "internal"

    def __init__(self, message: str, hint: str = "", **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


class RequestError(ProvdError):
    """The caller's doing: nothing was changed, and asking the same again gives the same error."""


class ParseError(RequestError):
    """A line that is not one JSON value in UTF-8."""

    code = "parse"


class InvalidRequest(RequestError):
    """JSON, but not a JSON-RPC 2.0 request."""

    code = "request"


class UnknownMethod(RequestError):
    """A method that provd does not have."""

    code = "method"


class InvalidParams(RequestError):
    """Parameters of a wrong type, out of range, unknown or missing."""

    code = "params"


class RootAmbiguous(RequestError):
    """No `root` was given and there is not exactly one to take."""

    code = "root.ambiguous"


class RootMissing(RequestError):
    """A root that is no existing directory."""

    code = "root.missing"


class DependencyMalformed(RequestError):
    """A dependency or digest that does not parse."""

    code = "dep.malformed"


class DependencyUnsupported(RequestError):
    """A kind that is reserved and not built yet."""

    code = "dep.unsupported"


class DependencyCycle(RequestError):
    """An `entry:` dependency that leads back to the entry itself."""

    code = "dep.cycle"


class ClockMalformed(RequestError):
    """A token that no provd ever handed out."""

    code = "clock.malformed"


class ClockMissing(RequestError):
    """A put that does not say when its sources were read."""

    code = "clock.missing"


class EntryConflict(RequestError):
    """`based_on` names a version that is not the active one."""

    code = "entry.conflict"


class EntryMissing(RequestError):
    """There is no entry of that key in that scope."""

    code = "entry.missing"


class EntryTooBig(RequestError):
    """A value over 8 MiB."""

    code = "entry.too_big"


class ActionUnknown(RequestError):
    """No open action has that id."""

    code = "action.unknown"


class ActionStale(RequestError):
    """A guarded action was refused, since not every entry that it rests on is usable."""

    code = "action.stale"


class LimitExceeded(RequestError):
    """Past a limit of the contract."""

    code = "limit"


class VersionMismatch(ProvdError):
    """Another protocol, or a store of another format."""

    code = "version"


class StoreFull(ProvdError):
    """The disk or the map is full: nothing was changed; questions go on."""

    code = "store.full"


class StoreUnusable(ProvdError):
    """The state directory cannot be used as it is; nothing in it was touched."""

    code = "store.unusable"


class StoreDamaged(ProvdError):
    """A row of the store, or a page of it, is not what was written there: what it held is not known."""

    code = "store.damaged"


class ShuttingDown(ProvdError):
    """The daemon is stopping and takes no new work."""

    code = "shutdown"


class Internal(ProvdError):
    """provd's own fault."""

    code = "internal"
