"""Trimming changes no verdict, and facts outlive their view."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import ANY_DEPS, ONE, RUN, SCOPE, change, entry, gap, kept, opened, put, scratch, small_keys, some_paths

from provd.core import records
from provd.core.dependency import Kind, parse
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import ObjectState, Question, Touch
from provd.core.reading import Found
from provd.core.records import ALL, Action, ActionEvent, EntryChange, EntryEvent, Gap, Mutation, MutationKind
from provd.core.verdict import Judgements, NeedDigests, Verdict, settle, triage
from provd.store import Store, View, Writer
from provd.store.keys import Answered, PathState


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


# trimming


def test_trimming_goes_by_count_and_by_age_from_the_oldest(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: [w.append(change(at=n)) for n in range(1, 11)])
        assert store.run(lambda w: w.trim(8, 0)) == 2
        assert store.run(lambda w: w.trim(8, 0)) == 0
        assert store.run(lambda w: w.trim(8, 5)) == 2
        assert store.run(lambda w: w.trim(1000, 100)) == 5
        with store.view() as view:
            assert (view.oldest(), view.head()) == (10, 10)
        assert store.run(lambda w: w.trim(0, 10**30)) == 0, "the newest record stays"


def test_trimming_takes_a_slice_at_a_time(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: [w.append(gap()) for _ in range(2500)])
        assert [store.run(lambda w: w.trim(1, 0)) for _ in range(4)] == [1000, 1000, 499, 0]


def test_the_answer_to_an_op_goes_with_its_record(directory: str) -> None:
    with opened(directory) as store:

        def command(writer: Writer) -> None:
            for op in ("a", "b"):
                position = writer.append(change(Writer.op_key(b"entry.put", op)))
                writer.put_answer(b"entry.put", op, Answered(position, b"{}"))

        store.run(command)
        store.run(lambda w: w.trim(1, 0))
        with store.view() as view:
            assert view.answered(b"entry.put", "a") is None
            assert view.answered(b"entry.put", "b") == Answered(2, b"{}")
            assert view.answered(b"action.begin", "b") is None


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("gap")),
        st.tuples(st.sampled_from(["write", "open", "refuse"]), st.sampled_from([b"x", b"y"])),
        st.tuples(st.sampled_from(["touch", "edit"]), some_paths),
        st.tuples(st.just("put"), small_keys, st.none() | st.lists(ANY_DEPS, max_size=4), st.integers(0, 8)),
    ),
    max_size=20,
)


def happen(writer: Writer, what: tuple[Any, ...]) -> None:
    """One thing happens, as the recorder keeps it: a record, and what verdicts need of it."""
    seq = writer.head() + 1
    match what:
        case ("gap",):
            writer.append(Gap(1, ALL, "started"))
        case (("write" | "open" | "refuse") as event, name):
            writer.append(Action(1, ActionEvent.RECORD, seq, objects=(name,)))
            state = writer.object_state(name)
            changed: dict[str, dict[str, Any]] = {
                "write": {"last_end": seq},
                "open": {"open": (*state.open, seq)},
                "refuse": {"refused": seq},
            }
            writer.put_object(msgspec.structs.replace(state, **changed[event]))
        case (("touch" | "edit") as event, path):
            writer.append(Action(1, ActionEvent.RECORD, seq, paths=(path,)))
            at = writer.path_state(path)
            done: dict[str, Any] = {"last_end": seq} if event == "touch" else {"open": (*at.open, seq)}
            writer.put_path(msgspec.structs.replace(at, **done))
        case ("put", key, deps, back):
            writer.append(EntryChange(1, EntryEvent.PUT, SCOPE, key, seq))
            versions = [
                msgspec.structs.replace(k, version=there.version if (there := _below(writer, k)) else 0)
                if k.dep.kind is Kind.ENTRY
                else k
                for k in deps or ()
            ]
            one = entry(key, *versions, version=seq, at=max(0, seq - 1 - back))
            put(writer, msgspec.structs.replace(one, deps=None) if deps is None else one)
        case _:
            raise AssertionError(what)


def _below(view: View, one: Kept) -> Entry | None:
    return view.entry(EntryId(SCOPE, one.dep.name.decode()))


def judged(store: Store, question: Question) -> Judgements:
    """Verdicts on all entries, where each reading gives the digest that is asked for."""
    with store.view() as view:
        targets: dict[EntryId, Entry | None] = {one.id: one for one in view.all_entries()}
        need = triage(targets, view.facts(targets, question), question)
    if not isinstance(need, NeedDigests):
        return need
    return settle(need, {reading: Found(ONE) for reading in need.readings})


@settings(deadline=None, max_examples=50)
@given(happenings)
def test_trimming_everything_changes_no_verdict(history: list[tuple[Any, ...]]) -> None:
    questions = [Question(), Question(revalidate=False), Question(foreign=True)]
    with scratch() as store:

        def all_of_it(writer: Writer) -> None:
            writer.append(Gap(1, ALL, "started", RUN))
            for what in history:
                happen(writer, what)

        store.run(all_of_it)
        before = [judged(store, question) for question in questions]
        with store.view() as view:
            runs, head, gap_all = view.runs(), view.head(), view.gap_all()
        while store.run(lambda w: w.trim(0, 10**30)):
            pass
        assert [judged(store, question) for question in questions] == before
        with store.view() as view:
            assert view.oldest() == view.head() == head
            assert (view.runs(), view.gap_all()) == (runs, gap_all)


# facts


@pytest.mark.parametrize(("below", "why"), [(1000, "same"), (1001, "too-deep")])
def test_entries_are_followed_a_thousand_deep(directory: str, below: int, why: str) -> None:
    chain = [
        entry("0", kept(b"a", digest=ONE)),
        *(entry(f"{n}", Kept(parse(b"entry:%d" % (n - 1), None), version=5)) for n in range(1, below + 1)),
    ]
    with opened(directory) as store:
        store.run(lambda w: put(w, *chain))
        with store.view() as view:
            targets: dict[EntryId, Entry | None] = {chain[-1].id: chain[-1]}
            facts = view.facts(targets, Question())
        need = triage(targets, facts, Question())
        answers = settle(need, {r: Found(ONE) for r in need.readings}) if isinstance(need, NeedDigests) else need
        assert answers[chain[-1].id].why == why
        assert answers[chain[-1].id].verdict is (Verdict.FRESH if why == "same" else Verdict.UNKNOWN)


def test_facts_outlive_their_view(directory: str) -> None:
    one = entry("k", kept(b"object:x"), kept(b"a"), kept(b"entry:l"))
    with opened(directory) as store:
        store.run(lambda w: w.append(Gap(1, ALL, "started", RUN)))
        store.run(lambda w: put(w, one, entry("l", kept(b"object:y"))))
        store.run(lambda w: w.put_path(PathState(b"/r", 7, 6)))
        with store.view() as view:
            facts = view.facts({one.id: one}, Question())
        store.run(lambda w: w.put_object(ObjectState(b"x", 99)))
        assert facts.gap_all == facts.position == 1
        assert facts.objects == {b"x": ObjectState(b"x"), b"y": ObjectState(b"y")}
        assert facts.touches == {(one.id, 1): Touch(7, 6)}
        assert set(facts.entries) == {EntryId(SCOPE, "l")}


def test_a_record_of_each_type_is_kept(directory: str) -> None:
    some: list[records.Record] = [
        gap(),
        Action(1, ActionEvent.BEGIN, 2),
        change(),
        records.RootChange(1, "added", b"/r"),
        records.Coverage(1, b"/r", "none", "why"),
    ]
    with opened(directory) as store:
        store.run(lambda w: [w.append(one) for one in some])
    with opened(directory) as store, store.view() as view:
        assert [one for _, one in view.records(0, 10)] == some


@pytest.mark.parametrize(
    ("dep", "named"),
    [
        (b"file:/r/d/f", b"/r/d/f"),
        (b"file:/r/d/f", b"/r/d"),
        (b"dir:/r/d", b"/r/d/new"),
        (b"tree:/r/d", b"/r/d/deep/f"),
        (b"names:/r/d/*.py", b"/r/d/a.py"),
        (b"glob:/r/d/**/*.py", b"/r/d/deep/a.py"),
    ],
)
def test_that_something_was_touched_is_known_after_its_record_was_trimmed(
    directory: str, dep: bytes, named: bytes
) -> None:
    """An unproven dependency stays dirty `touched`, whatever retention does."""
    with opened(directory) as store:
        resting = kept(dep)

        def command(writer: Writer) -> int:
            writer.append(gap())
            put(writer, entry("k", resting, version=1))
            at = writer.append(Mutation(1, MutationKind.CREATED, named))
            writer.append(Mutation(1, MutationKind.CREATED, b"/r/elsewhere/x"))
            writer.append(gap())
            return at

        at = store.run(command)
        store.run(lambda writer: writer.trim(1, 0))
        with store.view() as view:
            assert view.record(at) is None
            assert view.newest_mutation(resting) == at
            assert view.newest_mutation(kept(b"tree:/r/elsewhere")) is None, "nobody rests on that"


def test_trimming_writes_no_row_that_stays_as_it_is(directory: str) -> None:
    """Each row that is written is a page that is copied, for each slice that is trimmed."""
    written: list[bytes] = []

    class Transaction:
        def __init__(self, real: Any) -> None:
            self._real = real

        def put(self, key: bytes, *values: Any, **more: Any) -> Any:
            written.append(key)
            return self._real.put(key, *values, **more)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    def trim(writer: Writer) -> int:
        writer._txn = Transaction(writer._txn)  # type: ignore[assignment]
        gone = writer.trim(keep_records=2, oldest_at=0)
        writer.finish()
        return gone

    with opened(directory) as store:
        some = [Mutation(1, MutationKind.MODIFIED, path) for path in (b"/r/e", b"/r/f", b"/r/f", b"/r/g")]
        store.run(lambda writer: [writer.append(one) for one in some])
        assert store.run(trim) == 2
        assert written == []
        with store.view() as view:
            found = [view.newest_mutation(kept(b"file:/r/" + name)) for name in (b"e", b"f", b"g")]
            assert found == [None, 3, 4]
