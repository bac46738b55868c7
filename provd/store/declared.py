"""What actions declared: of objects and paths, which of them are open, what was answered.

Rule: what cannot be read was written just now. What changes such a row puts the least in its place that it may have
held, so that no action is left without its end, and no other object or path without its record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from provd.core import clock
from provd.core.dependency import SET_KINDS, base, is_under, touches
from provd.core.entry import Kept
from provd.core.facts import ObjectState, Touch
from provd.store import keys
from provd.store.decoding import Damaged, decoder
from provd.store.history import PATH_MAX, History
from provd.store.keys import Answered, OpenAction, PathState

_objects: Final = decoder(ObjectState, "what was declared of an object")
_paths: Final = decoder(PathState, "what was declared of a path")
_actions: Final = decoder(OpenAction, "an open action")
_answers: Final = decoder(Answered, "the first answer to an op")


def is_json(raw: bytes | None) -> bool:
    """Whether a value or meta of the store is one JSON value in UTF-8 still, or nothing."""
    try:
        return raw is None or bool(raw.decode() and msgspec.json.decode(raw, type=msgspec.Raw))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


def _object(name: bytes, row: bytes) -> ObjectState:
    """The row of an object, which would be written to another one's place if it had that one's name."""
    state = _objects(row)
    if state.name != name:
        raise Damaged(f"what was declared of the object {name[:80]!r} is of another one")
    return state


def _path(key: bytes, row: bytes) -> PathState:
    """The same of a path by its key."""
    state = _paths(row)
    if keys.written_key(state.path) != key:
        raise Damaged("what was declared of a path is of another one")
    return state


class Declared(History):
    """What actions declared, in one view."""

    def object_state(self, name: bytes) -> ObjectState:
        """What actions declared of an object, to be changed and kept: where that cannot be read, it was refused at the
        head, and the open actions that name it are at it.
        """
        data = self._get("objects", keys.object_key(name))
        if data is None:
            return ObjectState(name)
        lost = ObjectState(name, refused=self.head())
        state = self._or(partial(_object, name), data, lost)
        if state is lost:  # who is at it is known from elsewhere, and must not be forgotten
            return msgspec.structs.replace(lost, open=tuple(a.id for a in self.actions() if name in a.objects))
        return state

    def _object_now(self, name: bytes) -> ObjectState:
        """The same for judging: with what could not be recorded, or read, which is newer than all clocks."""
        data, unwritten = self._get("objects", keys.object_key(name)), self._environment.unwritten
        lost = ObjectState(name, refused=clock.MAX_POSITION)
        state = ObjectState(name) if data is None else self._or(partial(_object, name), data, lost)
        if unwritten and not unwritten.isdisjoint((name, keys.EVERY)):
            return msgspec.structs.replace(state, refused=clock.MAX_POSITION)
        return state

    def path_state(self, path: bytes) -> PathState:
        """The same of a path: where that cannot be read, its last write ended at the head."""
        key = keys.written_key(path)
        data = self._get("written", key)
        if data is None:
            return PathState(path)
        lost = PathState(path, self.head())
        state = self._or(partial(_path, key), data, lost)
        if state is lost:
            return msgspec.structs.replace(lost, open=tuple(a.id for a in self.actions() if path in a.paths))
        return state

    def _path_now(self, path: bytes) -> PathState:
        """The same for judging: what cannot be read was written just now."""
        key = keys.written_key(path)
        data = self._get("written", key)
        lost = PathState(path, clock.MAX_POSITION)
        return PathState(path) if data is None else self._or(partial(_path, key), data, lost)

    def touch_of(self, path: bytes, *, structural: bool) -> Touch:
        """What may last have touched what lies at `path`: a declared write to it, a mutation that names it.

        With `structural` only those count that change what there is and of what type.
        """
        return _touch([self._path_now(path)], self.last_named(path, structural=structural))

    def touch(self, kept: Kept, after: int = 0) -> Touch | None:
        """What may last have touched a path dependency: a declared write (an open one is the newest), a mutation.

        Of mutations only those `after` a position are looked for.
        """
        states: list[PathState] = []
        for literal in {base(kept.dep), kept.real or base(kept.dep)}:
            if len(literal) > PATH_MAX:
                continue  # the system takes no such path, so nobody writes to it
            at = literal
            while True:
                states.append(self._path_now(at))
                if at == b"/":
                    break
                at = at.rpartition(b"/")[0] or b"/"
            if kept.dep.kind in SET_KINDS:
                states += [s for s in self._written_below(literal) if touches(kept.dep, kept.real, s.path)]
        touch = _touch(states, self.newest_mutation(kept, after) or 0)
        return touch if touch.end != 0 or touch.mutation else None

    def _written_below(self, directory: bytes) -> Iterator[PathState]:
        prefix = keys.path_key(directory.rstrip(b"/") + b"/")
        states = (
            self._or(partial(_path, key), value, PathState(keys.written_path(key), clock.MAX_POSITION))
            for key, value in self._rows("written", prefix, prefix)
        )
        return (state for state in states if is_under(state.path, directory))

    def action(self, action_id: int) -> OpenAction | None:
        """The open action of that id, None where it has ended or never was."""
        if not 0 <= action_id <= clock.MAX_POSITION:
            return None
        data = self._get("actions", clock.key(action_id))
        return None if data is None else _actions(data)

    def actions(self) -> list[OpenAction]:
        """The open actions, oldest first."""
        return [_actions(value) for _, value in self._rows("actions")]

    def answered(self, about: bytes, op: str) -> Answered | None:
        """The first answer to an op."""
        data = self._get("ops", keys.op_key(about, op))
        if data is None:
            return None
        told = _answers(data)
        if not is_json(told.answer):
            raise Damaged(f"the first answer to the op {op!r} is no JSON")
        return told


def _touch(states: Sequence[PathState], mutation: int) -> Touch:
    """The newest write that any of these paths had declared, an open one before all, beside this mutation."""
    opened = [s for s in states if s.open]
    if opened:
        return Touch(None, max(s.open[-1] for s in opened), mutation)
    newest = max(states, key=lambda s: s.last_end, default=None)
    if newest is not None and newest.last_end:
        return Touch(newest.last_end, newest.last_action, mutation)
    return Touch(0, None, mutation)
