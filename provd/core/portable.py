"""Precedents as lines that can be carried to another store, and back.

Rule: what a line says is worth what its writer is. Digests are the word of who read; positions are told as tokens, so
that a store knows its own again and takes those of another for names only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from provd.core import errors, glob, members, params
from provd.core.dependency import PATH_KINDS, PATTERN_KINDS, Dependency, Kind, check_digest, is_under, parse
from provd.core.entry import Entry, EntryId, Kept
from provd.core.records import wire_name, wire_scope

Token = Callable[[int], str | None]
"""The token of a position, None where it lies before every run."""
Moved = tuple[bytes, bytes]
"""A directory, and where it is now."""


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """How the store called a precedent that wrote it first: the tokens of its version and of its newest record.

    `here` is its newest record here as long as nothing was added to what came.
    """

    made: str
    renewed: str
    here: int


OriginOf = Callable[[EntryId, int], Origin | None]
"""The origin of a key's precedent of that version, None where this store wrote it."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_NO_PATH: Final = "send an absolute path"


class Precedent(msgspec.Struct, frozen=True):
    """An entry as a store has it, active or not; `reason` says why it is not. `value` and `meta` are raw JSON."""

    entry: Entry
    value: bytes | None
    meta: bytes | None
    reason: str = ""


class LineDependency(params.Params, frozen=True, kw_only=True):
    """A dependency of a line. `path` is its absolute name where its text does not say that by itself."""

    dep: params.Name
    path: params.Name | None = None
    digest: str | None = None
    kept: Literal["read", "shown"] = "read"
    version: Position | None = None
    made: str | None = None


class Line(params.Scoped, frozen=True, kw_only=True):
    """One precedent. `made`, `renewed` and `clock` are tokens: of its version, its newest record and its clock."""

    key: str
    version: Position
    made: str
    renewed: str
    clock: str | None = None
    standing: Literal["active", "revoked"] = "active"
    reason: params.Short = ""
    at: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,19}$")] = "0"
    supports: Count = 1
    conflicts: Count = 0
    session: params.Short | None = None
    turn: params.Turn | None = None
    deps: list[LineDependency] | None
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Rested(msgspec.Struct, frozen=True):
    """A dependency as a line names it; `made` is the token of an entry's version."""

    kept: Kept
    made: str | None = None


_lines: Final = msgspec.json.Decoder(Line)


def _nowhere(_entry_id: EntryId, _version: int) -> None:
    """No precedent comes from another store."""


def line(precedent: Precedent, token: Token, origin_of: OriginOf = _nowhere) -> bytes:
    """A precedent as one line of JSON, without its end. What was imported keeps its name from store to store."""
    entry = precedent.entry
    origin = origin_of(entry.id, entry.version)
    told: dict[str, Any] = wire_scope(entry.id.scope) | {
        "key": entry.id.key,
        "version": entry.version,
        "made": token(entry.version) if origin is None else origin.made,
        "renewed": origin.renewed if origin is not None and origin.here == entry.renewed else token(entry.renewed),
        "clock": token(entry.clock),
        "standing": str(entry.standing),
        "reason": precedent.reason or None,
        "at": str(entry.at),
        "supports": entry.supports,
        "conflicts": entry.conflicts,
        "session": entry.session,
        "turn": entry.turn,
    }
    told = {name: value for name, value in told.items() if value is not None}
    told["deps"] = None
    if entry.deps is not None:
        told["deps"] = [_rests(kept, entry.id.scope, token, origin_of) for kept in entry.deps]
    for name, raw in (("meta", precedent.meta), ("value", precedent.value)):
        if raw is not None:
            told[name] = msgspec.Raw(raw)
    return msgspec.json.encode(told)


def _rests(kept: Kept, scope: bytes, token: Token, origin_of: OriginOf) -> dict[str, Any]:
    dep = kept.dep
    told: dict[str, Any] = {"dep": wire_name(dep.text)}
    if dep.kind is Kind.ENTRY:
        if kept.version is not None:
            told["version"] = kept.version
        if kept.version:
            origin = origin_of(EntryId(scope, dep.name.decode()), kept.version)
            told["made"] = token(kept.version) if origin is None else origin.made
        return told
    if dep.kind in PATH_KINDS:
        if not _said(dep, scope):
            told["path"] = wire_name(dep.name)
        if kept.digest is not None:
            told["digest"] = kept.digest
        if kept.shown:
            told["kept"] = "shown"
    return told


def _said(dep: Dependency, scope: bytes) -> bool:
    """Whether the text alone leads to the name, in the scope that the line names."""
    if dep.explicit:
        return True
    try:
        return parse(dep.text, scope if scope.startswith(b"/") else None).name == dep.name
    except errors.ProvdError:
        return False


def decode(raw: bytes) -> Line:
    """The line that `line` made; raises InvalidParams, EntryTooBig, LimitExceeded."""
    try:
        told = _lines.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise errors.InvalidParams(str(e), params.fields(Line)) from None
    if (again := members.twice_in(raw, ("deps",))) is not None:
        raise errors.InvalidParams(f"{again!r} comes twice", "send each member once")
    params.key(told.key)
    if (told.root is None) == (told.scope is None):
        raise errors.InvalidParams("neither or both of root and scope", "a key lives in one of them")
    if len(told.deps or ()) > params.MAX_DEPENDENCIES:
        raise errors.LimitExceeded(f"{len(told.deps or ())} dependencies", f"at most {params.MAX_DEPENDENCIES}")
    params.check_stored(told.key, _raw(told.value), _raw(told.meta))
    return told


def root_of(told: Line) -> bytes | None:
    """The root that a line names, None where it names a scope; raises InvalidParams."""
    if told.root is None:
        return None
    return _absolute(params.name_bytes(told.root), "root").rstrip(b"/") or b"/"


def _absolute(path: bytes, field: str) -> bytes:
    if not path.startswith(b"/") or b"\0" in path:
        raise errors.InvalidParams(f"the {field} of a line is no absolute path", _NO_PATH)
    return path


def entry_id(told: Line, root: bytes | None, moved: Moved | None) -> EntryId:
    """The key that a line is about, in the scope that it has here; raises LimitExceeded."""
    return EntryId(params.scope_name(told.scope or "") if root is None else _moved(root, moved), told.key)


def rested(given: LineDependency, root: bytes | None, moved: Moved | None) -> Rested:
    """A dependency of a line whose root is `root`, before it moved; raises DependencyMalformed and its kin."""
    text = params.name_bytes(given.dep)
    dep = parse(text, root, None if given.path is None else _absolute(params.name_bytes(given.path), "path"))
    dep = _moved_dependency(dep, moved)
    digest = None if given.digest is None else check_digest(dep, given.digest)
    if dep.kind in PATH_KINDS:
        return Rested(Kept(dep, digest, shown=given.kept == "shown" and digest is not None))
    if digest is not None:
        raise errors.DependencyMalformed("an entry: of a line has a digest", "its version is told as version and made")
    return Rested(Kept(dep, version=0 if given.version == 0 else None), given.made if given.version else None)


def _moved_dependency(dep: Dependency, moved: Moved | None) -> Dependency:
    """The same below the directory's new name; its text says so where it named the old one."""
    if moved is not None and dep.kind in PATTERN_KINDS:  # what is special in a pattern is not special in a directory
        plain = is_under(dep.name, moved[0])
        moved = (moved[0] if plain else glob.escape(moved[0]), glob.escape(moved[1]))
    if moved is None or dep.kind not in PATH_KINDS or not is_under(dep.name, moved[0]):
        return dep
    name = _moved(dep.name, moved)
    relative = not dep.text.endswith(dep.name)
    return Dependency(dep.kind, name, dep.text if relative else dep.kind.encode() + b":" + name)


def _moved(path: bytes, moved: Moved | None) -> bytes:
    if moved is None or not is_under(path, moved[0]):
        return path
    return moved[1] if path == moved[0] else moved[1].rstrip(b"/") + path[len(moved[0].rstrip(b"/")) :]


def _raw(given: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
    return None if given is msgspec.UNSET else bytes(given)


def stored(told: Line) -> tuple[bytes | None, bytes | None]:
    """The value and the meta of a line, as raw JSON."""
    return _raw(told.value), _raw(told.meta)
