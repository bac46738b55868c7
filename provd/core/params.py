"""The parameters of each method, as types: what does not fit them is refused before anything is done.

Rule: unknown fields are an error. Names travel as text or as `{"b64": ...}`, and are bytes from here on.
"""

from __future__ import annotations

import base64
import binascii
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from provd.core import errors
from provd.core.dependency import MAX_NAME

MAX_VALUE: Final = 8 * 1024 * 1024
MAX_DEPENDENCIES: Final = 100_000
MAX_KEYS: Final = 100_000
MAX_META: Final = 1024 * 1024
MAX_NOTE: Final = 64 * 1024
MAX_WRITES: Final = 1024 * 1024
"""Bytes of all that one action declares: its record must fit a line."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=3_600_000)]
Short = Annotated[str, msgspec.Meta(max_length=256)]
"""A session, an op: text that is kept with each record."""
Turn = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | Short
Verify = Literal["auto", "content", "log"]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all parameters have in common."""


class B64(Params, frozen=True, gc=False, kw_only=True):
    """A name that is not UTF-8."""

    b64: str


Name = str | B64


class WireDependency(Params, frozen=True, gc=False, kw_only=True):
    """A dependency with the digest of what the client itself read, or one whose name is not UTF-8."""

    dep: Name | None = None
    digest: str | None = None
    b64: str | None = None


Dependencies = list[str | WireDependency]


class Nothing(Params, frozen=True, kw_only=True):
    """No parameters."""


class Hello(Params, frozen=True, kw_only=True):
    protocol: int
    client: Short | None = None


class Audit(Params, frozen=True, kw_only=True):
    root: Name | None = None
    sample: Annotated[int, msgspec.Meta(ge=1)] | None = None


class RootAdd(Params, frozen=True, kw_only=True):
    path: Name
    ignore: list[str] | None = None
    wait: bool = True


class RootRemove(Params, frozen=True, kw_only=True):
    path: Name


class LogSince(Params, frozen=True, kw_only=True):
    clock: str | None = None
    last: Annotated[int, msgspec.Meta(ge=1, le=20_000)] | None = None
    """Two for each of 10,000 lines, since digests are records of their own; `limit` says how many a page has."""
    paths: list[Name] | None = None
    limit: Limit = 1000
    root: Name | None = None


class Subscribe(Params, frozen=True, kw_only=True):
    clock: str | None = None
    entries: bool = False


class Unsubscribe(Params, frozen=True, kw_only=True):
    subscription: int | None = None


class Scoped(Params, frozen=True, kw_only=True):
    """A request about keys: they live in `root`, or in the scope called `scope`."""

    root: Name | None = None
    scope: str | None = None


class Asked(Scoped, frozen=True, kw_only=True):
    """How a verdict is asked for."""

    verify: Verify = "auto"
    revalidate: bool = True
    timeout_ms: Milliseconds = 2000

    @property
    def by_seal(self) -> bool:
        """Whether a seal is proof enough."""
        return self.revalidate and self.verify == "auto"

    @property
    def by_silence(self) -> bool:
        """Whether silence of the log is."""
        return self.revalidate and self.verify == "log"


class DepsSnapshot(Params, frozen=True, kw_only=True):
    deps: Dependencies
    root: Name | None = None


class DepsCheck(Params, frozen=True, kw_only=True):
    deps: Dependencies
    fetched_at: str | None = None
    verify: Verify = "auto"
    revalidate: bool = True
    timeout_ms: Milliseconds = 2000
    root: Name | None = None
    scope: str | None = None


class EntryPut(Scoped, frozen=True, kw_only=True):
    key: str
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    deps: Dependencies | None = None
    fetched_at: str | None = None
    as_of: Literal["put"] | None = None
    based_on: Annotated[int, msgspec.Meta(ge=0)] | None = None
    based_on_record: Annotated[int, msgspec.Meta(ge=0)] | None = None
    session: Short | None = None
    turn: Turn | None = None
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    op: Short | None = None


class EntryCheck(Asked, frozen=True, kw_only=True):
    key: str | None = None
    keys: list[str] | None = None


class EntryGet(Asked, frozen=True, kw_only=True):
    key: str
    even_if: list[Literal["dirty", "unknown"]] = []
    deps: bool = False


class EntryRevalidate(Scoped, frozen=True, kw_only=True):
    key: str
    verify: Verify = "auto"
    timeout_ms: Milliseconds = 2000
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    deps: Dependencies | None = None
    fetched_at: str | None = None
    as_of: Literal["put"] | None = None
    session: Short | None = None
    turn: Turn | None = None
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    op: Short | None = None


class EntryForget(Scoped, frozen=True, kw_only=True):
    key: str


class EntryList(Scoped, frozen=True, kw_only=True):
    prefix: str = ""
    verdict: Literal["fresh", "dirty", "unknown"] | None = None
    standing: Literal["hypothesis", "active", "revoked"] | None = None
    touching: Name | None = None
    after: str | None = None
    limit: Limit = 1000


class EntryPlaces(Params, frozen=True, kw_only=True):
    key: str
    limit: Limit = 1000


class EntryExport(Scoped, frozen=True, kw_only=True):
    all: bool = False
    after: str | None = None
    limit: Limit = 1000


class Move(Params, frozen=True, kw_only=True):
    """A directory as lines name it, and the one that takes its place."""

    source: Name
    to: Name


class EntryImport(Params, frozen=True, kw_only=True):
    entries: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=10_000)]
    moved: Move | None = None


class ActionBegin(Scoped, frozen=True, kw_only=True):
    writes: Dependencies
    session: Short | None = None
    turn: Turn | None = None
    note: str | None = None
    hold: bool = False
    if_usable: list[str] | None = None
    op: Short | None = None


class ActionRecord(Scoped, frozen=True, kw_only=True):
    writes: Dependencies
    session: Short | None = None
    turn: Turn | None = None
    note: str | None = None
    outcome: Literal["done", "failed"] = "done"
    if_usable: list[str] | None = None
    op: Short | None = None


class ActionEnd(Params, frozen=True, kw_only=True):
    id: int
    outcome: Literal["done", "failed", "aborted"]


METHODS: Final[dict[str, type[Params]]] = {
    "daemon.hello": Hello,
    "daemon.status": Nothing,
    "daemon.config": Nothing,
    "daemon.reload": Nothing,
    "daemon.shutdown": Nothing,
    "daemon.audit": Audit,
    "root.add": RootAdd,
    "root.remove": RootRemove,
    "root.list": Nothing,
    "log.clock": Nothing,
    "log.since": LogSince,
    "log.subscribe": Subscribe,
    "log.unsubscribe": Unsubscribe,
    "deps.snapshot": DepsSnapshot,
    "deps.check": DepsCheck,
    "entry.put": EntryPut,
    "entry.check": EntryCheck,
    "entry.get": EntryGet,
    "entry.revalidate": EntryRevalidate,
    "entry.forget": EntryForget,
    "entry.list": EntryList,
    "entry.places": EntryPlaces,
    "entry.export": EntryExport,
    "entry.import": EntryImport,
    "action.begin": ActionBegin,
    "action.record": ActionRecord,
    "action.end": ActionEnd,
    "action.list": Nothing,
}

_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {name: msgspec.json.Decoder(t) for name, t in METHODS.items()}

P = TypeVar("P", bound=Params)


def decode(method: str, raw: msgspec.Raw | msgspec.UnsetType) -> Params:
    """The parameters of a call; raises UnknownMethod, InvalidParams."""
    decoder = _decoders.get(method)
    if decoder is None:
        raise errors.UnknownMethod(f"there is no method {method[:80]!r}", f"there are {', '.join(METHODS)}")
    try:
        params: Params = decoder.decode(b"{}" if raw is msgspec.UNSET or bytes(raw) == b"null" else raw)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise errors.InvalidParams(f"{method}: {e}", fields(METHODS[method])) from None
    return params


@cache  # msgspec takes up to a millisecond to tell
def fields(kind: type[msgspec.Struct]) -> str:
    """A hint: the fields of parameters, those that are needed first."""
    told = msgspec.structs.fields(kind)
    needed = [f.encode_name for f in told if f.required]
    free = [f.encode_name for f in told if not f.required]
    ways = (f"needed: {', '.join(needed)}" if needed else "", f"may be there: {', '.join(free)}" if free else "")
    return "; ".join(filter(None, ways)) or "it takes no fields"


def decode_check(raw: bytes) -> EntryCheck:
    """The parameters of an `entry.check`; raises InvalidParams."""
    asked = decode("entry.check", msgspec.Raw(raw))
    assert isinstance(asked, EntryCheck)
    return asked


def name_bytes(name: Name) -> bytes:
    """The bytes of a name; raises InvalidParams where base64 is not."""
    if isinstance(name, str):
        return name.encode()
    return from_b64(name.b64)


def from_b64(text: str) -> bytes:
    """What base64 `text` holds; raises InvalidParams."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.InvalidParams(f"{text[:40]!r} is not base64", 'send {"b64": BASE64 OF THE BYTES}') from None


def key(text: str) -> str:
    """`text` itself if it may be a key; raises LimitExceeded."""
    if not 1 <= len(text.encode()) <= MAX_NAME:
        raise errors.LimitExceeded(f"a key is {len(text.encode())} bytes long", f"1 to {MAX_NAME} bytes")
    return text


def scope_name(text: str) -> bytes:
    """The scope of that name, as entries have it; raises LimitExceeded."""
    if not 1 <= len(text.encode()) <= MAX_NAME:
        raise errors.LimitExceeded("a scope's name is empty or too long", f"1 to {MAX_NAME} bytes")
    return b"=" + text.encode()


def check_stored(key_text: str, value: bytes | None, meta: bytes | None) -> None:
    """Raises EntryTooBig, InvalidParams where a value or a meta, as raw JSON, may not be kept."""
    if len(value or b"") > MAX_VALUE:
        raise errors.EntryTooBig(f"the value of {key_text[:80]!r} is over 8 MiB", "keep a path to it instead")
    if len(meta or b"") > MAX_META:
        raise errors.EntryTooBig(f"the meta of {key_text[:80]!r} is over 1 MiB", "keep a path to it instead")
    if meta is not None and not meta.lstrip().startswith(b"{"):
        raise errors.InvalidParams("meta is no object", 'send meta: {"name": ...}')


def wire_dependency(given: str | WireDependency) -> tuple[bytes, str | None]:
    """The text of a dependency and the client's digest of it; raises DependencyMalformed."""
    if isinstance(given, str):
        return given.encode(), None
    if (given.dep is None) == (given.b64 is None):
        raise errors.DependencyMalformed(
            "a dependency object has neither or both of dep and b64", 'send {"dep": "file:PATH"}'
        )
    text = from_b64(given.b64) if given.b64 is not None else name_bytes(given.dep or "")
    return text, given.digest
