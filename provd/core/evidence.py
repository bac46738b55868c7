"""Judgements as answers: evidence that names each dependency at fault, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from provd.core.clock import SPENT
from provd.core.dependency import PATH_KINDS, Dependency
from provd.core.records import wire_name
from provd.core.verdict import MAX_PATHS, Fault, Judgement, Verdict

MAX_EVIDENCE: Final = 64

_HINTS: Final[dict[str, str]] = {
    "changed": "read it again and put the entry anew",
    "created": "it was absent: read it and put the entry anew",
    "deleted": "it is gone: put the entry anew, or forget it",
    "type-changed": "it became something else: read it again and put the entry anew",
    "listing-changed": "list it again and put the entry anew",
    "touched": "it was written since the clock: read it again and put the entry anew",
    "unproven": "nobody knows what was read: put again with the digest of what you read, or with a newer clock",
    "written": "an action wrote it since the clock: look again and put the entry anew",
    "gap": "it may have been written and nobody said so: look again and put the entry anew",
    "entry-replaced": "derive it again from the version that stands now",
    "entry-revoked": "derive it again from what stands now, or forget it",
    "entry-missing": "put the entry that it rests on, then derive it again",
    "entry-dirty": "put the entry that it rests on anew, then derive it again",
    "entry-unknown": "settle the entry that it rests on first",
    "too-deep": "more than 1,000 entries rest on one another here: derive it from something nearer",
    "unreadable": "make it readable for the daemon, or depend on something else",
    "timeout": "raise timeout_ms, or depend on something smaller",
    "moving": "it changed while it was judged: ask again when its writers rest",
    "namespace": "you may see other files than the daemon: you are in another mount namespace or root directory, or "
    "another user (root), or there is no /proc where it runs (provd doctor tells): run a daemon where you are, or ask "
    "as its user",
    "no-provenance": "put it with deps (deps: [] says that it rests on nothing)",
    "no-entry": "put it first",
    "damaged": "forget it, then put it anew",
    "no-active": "none of its values is active: see entry.history",
}

READING: Final = "without revalidate: false"
"""How a question is asked that may read."""
_NEWER: Final = "take a new clock, read it again, then put it again"
_ASK_AGAIN: Final = (
    "nothing shows what was read: ask with the digest of what you read; a clock alone shows what had rested for "
    "2 s when it was taken, in a watched place, and was not touched since"
)
_ASK_NEWER: Final = "ask with the digest of what you read, or take a new clock and read it again"


class Witnessed(NamedTuple):
    """What the log tells of a fault: the newest record that touched it, and its `paths`, the newest first."""

    record: dict[str, Any] | None
    paths: tuple[bytes, ...]


MutationOf = Callable[[Fault], Witnessed | None]


def hint(fault: Fault) -> str:
    """The next thing to do about a fault."""
    if fault.why == "written" and fault.detail:
        return f"end action {fault.action}, then look again and put the entry anew"
    if fault.why == "unproven" and fault.detail in SPENT:
        return _NEWER
    if fault.why == "unproven" and fault.detail:
        return _HINTS["unreadable"] + ", then put it again"
    if fault.why == "unreadable" and fault.detail.startswith("EAGAIN"):  # fcntl(2), F_SETLEASE
        return "somebody holds a lease on it: ask again when that is over"
    if fault.unasked:
        return f"{_HINTS[fault.why]}, or ask {READING}"
    return _HINTS.get(fault.why, "")


def without_an_entry(told: dict[str, Any], spent: str) -> None:
    """Says in an answer what to do about what was not proven, and stands in no entry that could be put again.

    `spent`: why the clock that was given shows nothing (`clock.SPENT`), empty where that is not the reason.
    """
    for item in told["evidence"]:
        if item["why"] != "unproven":
            continue
        item["hint"] = _ASK_AGAIN
        if spent and not str(item["dep"]).startswith("entry:") and "detail" not in item:
            item |= {"detail": spent, "hint": _ASK_NEWER}


def to_wire(judgement: Judgement, *, clock: str, mutation: MutationOf, key: str | None = None) -> dict[str, Any]:
    """The verdict as the wire has it. `mutation` asks the log about a fault's dependency."""
    entry = judgement.entry
    answer: dict[str, Any] = {} if key is None else {"key": key}
    answer |= {
        "verdict": str(judgement.verdict),
        "usable": judgement.usable,
        "standing": None if entry is None else str(entry.standing),
        "version": None if entry is None else entry.version,
        "why": judgement.why,
        "clock": clock,
        "checked": judgement.proof.name.lower(),
        "evidence": [_item(fault, mutation) for fault in judgement.faults[:MAX_EVIDENCE]],
        "more": max(0, len(judgement.faults) - MAX_EVIDENCE),
    }
    if judgement.ignored:
        answer["ignored"] = judgement.ignored
    return answer


def named(dep: Dependency) -> dict[str, Any]:
    """A dependency as it was put, with the absolute `path` where that does not say it: elsewhere it means another."""
    told: dict[str, Any] = {"dep": wire_name(dep.text)}
    return told if dep.explicit or dep.kind not in PATH_KINDS else told | {"path": wire_name(dep.name)}


def _item(fault: Fault, mutation: MutationOf) -> dict[str, Any]:
    item: dict[str, Any] = (
        {"dep": None, "why": fault.why} if fault.dep is None else named(fault.dep) | {"why": fault.why}
    )
    if fault.was is not None:
        item["was"] = fault.was
    if fault.now is not None:
        item["is"] = fault.now
    told = mutation(fault) if fault.verdict is Verdict.DIRTY or fault.action is not None else None
    if paths := fault.paths if told is None else told.paths:
        item["paths"] = [wire_name(path) for path in paths[:MAX_PATHS]]
    if told is not None and told.record is not None:
        item["mutation"] = told.record
    if fault.detail:
        item["detail"] = fault.detail
    if fault.causes:
        item["because"] = [_item(cause, lambda _: None) for cause in fault.causes]
    item["hint"] = hint(fault)
    return item
