"""What the tests of the judge share: entries, facts and findings made by hand."""

from __future__ import annotations

from typing import Any, Final

from provd.core.dependency import Dependency, parse
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.facts import Facts, ObjectState, Question
from provd.core.reading import Found, Reading, Trouble
from provd.core.verdict import Judgement, Judgements, NeedDigests, Verdict, reading_of, settle, triage

SCOPE: Final = b"/r"
CLOCK: Final = 10
ONE: Final = "xxh3:" + "1" * 32
TWO: Final = "xxh3:" + "2" * 32
FOREIGN: Final = Question(foreign=True)

FRESH, DIRTY, UNKNOWN = Verdict.FRESH, Verdict.DIRTY, Verdict.UNKNOWN


def eid(key: str) -> EntryId:
    return EntryId(SCOPE, key)


def dep(text: str) -> Dependency:
    return parse(text.encode(), SCOPE)


def kept(text: str, digest: str | None = ONE, **more: Any) -> Kept:
    return Kept(dep(text), digest, **more)


def on_object(name: str) -> Kept:
    return Kept(dep(f"object:{name}"))


def on_entry(key: str, version: int | None = 5) -> Kept:
    return Kept(dep(f"entry:{key}"), version=version)


def entry(key: str, *deps: Kept, version: int = 5, clock: int = CLOCK, standing: Standing = Standing.ACTIVE) -> Entry:
    return Entry(eid(key), version, version, clock, deps, 0, standing=standing)


def judge_all(
    targets: dict[EntryId, Entry | None],
    facts: Facts,
    found: dict[Reading, Found] | None = None,
    question: Question | None = None,
    **more: Any,
) -> Judgements:
    """Triage, then settle by what was `found`: as the shell does it."""
    need = triage(targets, facts, question or Question())
    return settle(need, found or {}, **more) if isinstance(need, NeedDigests) else need


def judge(
    one: Entry,
    facts: Facts | None = None,
    found: dict[Reading, Found] | None = None,
    question: Question | None = None,
    **more: Any,
) -> Judgement:
    return judge_all({one.id: one}, facts or Facts(20, 0), found, question, **more)[one.id]


def read(one: Kept, digest: str | None = ONE, **more: Any) -> dict[Reading, Found]:
    """What reading a dependency gave."""
    return {reading_of(one): Found(digest, **more)}


def trouble(one: Kept, what: Trouble, **more: Any) -> dict[Reading, Found]:
    return {reading_of(one): Found(trouble=what, **more)}


def objects(state: ObjectState, gap_all: int = 0) -> Facts:
    return Facts(30, gap_all, objects={state.name: state})


FILE: Final = kept("file:a")
NO_FILE: Final = kept("file:a", "absent")
LOST: Final = kept("file:a", None)
OBJECT: Final = on_object("svc")
BELOW: Final = on_entry("below")
NOTHING: Final = Facts(20, 0)
CONTRACT: Final = frozenset(
    {
        *("untouched", "same", "declared", "no-dependencies"),
        *("changed", "created", "deleted", "type-changed", "listing-changed", "touched", "written"),
        *("entry-replaced", "entry-revoked", "entry-missing", "entry-dirty"),
        *("unproven", "gap", "entry-unknown", "too-deep", "unreadable", "timeout", "moving", "namespace"),
        *("no-provenance", "no-entry", "no-active"),
    }
)
"""Every `why` of the contract's table."""
