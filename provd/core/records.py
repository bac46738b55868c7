"""The records of the log, and how they look on the wire.

Rule: everything that changes state is a record, so that clocks, versions and actions share one order. A
record's number is its key in the log and not part of its value.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any, Final

import msgspec

from provd.core.entry import check_path, check_scope

ALL = b"all"
"""The scope of a gap that concerns everything (a path starts with `/`)."""


class Gap(msgspec.Struct, frozen=True, array_like=True, tag="gap"):
    """A stretch that nobody vouches for, for the tree at `scope` or for ALL; `run` names the run that it opens."""

    at: int
    scope: bytes
    reason: str
    run: str = ""


class ActionEvent(StrEnum):
    """What happened to an action."""

    BEGIN = "begin"
    END = "end"
    RECORD = "record"
    REFUSED = "refused"


class Outcome(StrEnum):
    """How an action ended; ABORTED is the caller's word that nothing was attempted."""

    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"


class Action(msgspec.Struct, frozen=True, array_like=True, tag="action"):
    """One event of an action; `id` is the position of its first record.

    `writes` are the texts as they were declared; `objects` and `paths` (literal and real ones) what they mean.
    """

    at: int
    event: ActionEvent
    id: int
    writes: tuple[bytes, ...] = ()
    outcome: Outcome | None = None
    session: str | None = None
    turn: int | str | None = None
    note: str | None = None
    op: bytes = b""
    objects: tuple[bytes, ...] = ()
    paths: tuple[bytes, ...] = ()


class EntryEvent(StrEnum):
    """What happened to an entry."""

    PUT = "put"
    SUPPORTED = "supported"
    LATE = "late"
    REVALIDATED = "revalidated"
    FORGOTTEN = "forgotten"
    IMPORTED = "imported"


class EntryChange(msgspec.Struct, frozen=True, array_like=True, tag="entry"):
    """One change of an entry; `version` is the active one afterwards, `superseded` the one that it displaced.

    `archived`: what was imported went into the archive, and nothing changed in what is active. `confirmed`: the same
    value was put again on top of itself, with the same dependencies.
    """

    at: int
    event: EntryEvent
    scope: bytes
    key: str
    version: int
    superseded: int | None = None
    session: str | None = None
    turn: int | str | None = None
    op: bytes = b""
    archived: bool = False
    confirmed: bool = False


ADDED: Final = "added"
REMOVED: Final = "removed"
RENEWED: Final = "renewed"


class RootChange(msgspec.Struct, frozen=True, array_like=True, tag="root"):
    """A root was ADDED or REMOVED, or the clocks from here on are told from those before: RENEWED."""

    at: int
    event: str
    path: bytes


class Coverage(msgspec.Struct, frozen=True, array_like=True, tag="coverage"):
    """How much of the tree at `path` is watched from here on: `whole`, `partial` or `none`, and why."""

    at: int
    path: bytes
    coverage: str
    why: str


class MutationKind(StrEnum):
    """What became of a path: CREATED where nothing or something of another type was, MODIFIED what was there before."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    MOVED = "moved"
    ATTRIB = "attrib"


STRUCTURAL: Final = frozenset({MutationKind.CREATED, MutationKind.DELETED, MutationKind.MOVED})
"""The kinds that change which names there are, and of what type."""


class DigestState(StrEnum):
    """What is known of a mutated file's digest; after PENDING comes exactly one `Hashed` record, or a new run."""

    DONE = "done"
    PENDING = "pending"
    SUPERSEDED = "superseded"
    UNREADABLE = "unreadable"


class Origin(StrEnum):
    """Who noticed a mutation: the watcher when it happened, or a scan afterwards."""

    WATCH = "watch"
    SCAN = "scan"


class Actor(msgspec.Struct, frozen=True, array_like=True):
    """Who made a mutation, as far as actions declared it; with nothing in it nobody knows."""

    session: str | None = None
    turn: int | str | None = None
    action: int | None = None


class Mutation(msgspec.Struct, frozen=True, array_like=True, tag="mutation"):
    """One observed change to one path (`source` became it, where it was moved).

    `size` and `mtime_ns` are those of a regular file when it was looked at, None where there was none. `digest` is
    its XXH3-128 as text, `digest_state` None for what has no content. `over` says that something known was moved over.
    """

    at: int
    kind: MutationKind
    path: bytes
    source: bytes | None = None
    mtime_ns: int | None = None
    size: int | None = None
    digest: str | None = None
    digest_state: DigestState | None = None
    origin: Origin = Origin.WATCH
    actor: Actor = Actor()
    over: bool = False


class Hashed(msgspec.Struct, frozen=True, array_like=True, tag="hashed"):
    """The digest of the mutation at position `of`, found later; `digest` is None unless `digest_state` is DONE."""

    at: int
    of: int
    path: bytes
    digest: str | None
    digest_state: DigestState


Record = Gap | Action | EntryChange | RootChange | Coverage | Mutation | Hashed


def check(record: Record) -> None:
    """Raises ValueError where a record that was kept is none that can have been: its types alone do not say that."""
    match record:
        case Mutation():
            check_path(record.path)
            if record.source is not None:
                check_path(record.source)
        case Hashed() | RootChange() | Coverage():
            check_path(record.path)
        case Action():
            for path in record.paths:
                check_path(path)
        case EntryChange():
            check_scope(record.scope)
        case Gap():
            if record.scope != ALL:
                check_path(record.scope)


def wire_name(name: bytes) -> str | dict[str, str]:
    """A name as JSON has it: text where it is UTF-8, else `{"b64": ...}`."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(name).decode()}


def wire_scope(scope: bytes) -> dict[str, Any]:
    """A key's scope as answers tell it: `{"root": PATH}` or `{"scope": NAME}`."""
    if scope.startswith(b"/"):
        return {"root": wire_name(scope)}
    return {"scope": scope[1:].decode()}


def shown_scope(scope: bytes) -> str:
    """A key's scope for people."""
    if scope.startswith(b"/"):
        return f"root {scope.decode('utf-8', 'backslashreplace')}"
    return f"scope {scope[1:].decode()}"


def to_wire(seq: int, record: Record) -> dict[str, Any]:
    """The record number `seq` as an object of the wire; nanoseconds are decimal strings."""
    head: dict[str, Any] = {"seq": seq, "at": str(record.at)}
    match record:
        case Gap():
            scope = "all" if record.scope == ALL else wire_name(record.scope)
            return head | {"type": "gap", "scope": scope, "reason": record.reason}
        case Action():
            return head | _present(
                type="action",
                event=str(record.event),
                id=record.id,
                outcome=record.outcome and str(record.outcome),
                writes=[wire_name(w) for w in record.writes],
                paths=[wire_name(p) for p in record.paths] or None,
                session=record.session,
                turn=record.turn,
                note=record.note,
            )
        case EntryChange():
            changed = _present(
                type="entry",
                event=str(record.event),
                key=record.key,
                version=record.version,
                superseded=record.superseded,
                session=record.session,
                turn=record.turn,
                archived=record.archived or None,
                confirmed=record.confirmed or None,
            )
            return head | changed | wire_scope(record.scope)
        case RootChange():
            return head | {"type": "root", "event": record.event, "path": wire_name(record.path)}
        case Coverage():
            return head | {
                "type": "coverage",
                "path": wire_name(record.path),
                "coverage": record.coverage,
                "why": record.why,
            }
        case Mutation():
            return head | _mutation(record)
        case Hashed():
            return head | {
                "type": "hashed",
                "of": record.of,
                "path": wire_name(record.path),
                "digest": record.digest,
                "digest_state": str(record.digest_state),
            }


def _mutation(record: Mutation) -> dict[str, Any]:
    actor = record.actor
    who = _present(session=actor.session, turn=actor.turn, action=actor.action)
    told: dict[str, Any] = {"type": "mutation", "kind": str(record.kind), "path": wire_name(record.path)}
    if record.source is not None:
        told["from"] = wire_name(record.source)
    if record.over:
        told["over"] = True
    return told | {
        "mtime_ns": None if record.mtime_ns is None else str(record.mtime_ns),
        "size": record.size,
        "digest": record.digest,
        "digest_state": record.digest_state and str(record.digest_state),
        "origin": str(record.origin),
        "actor": who or {"unknown": True},
    }


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
