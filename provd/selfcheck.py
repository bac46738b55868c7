"""The self-check: some of what was answered `fresh` by seals is read in whole afterwards, to find provd's own mistakes.

Rule: who asks pays no more than a count for it, and reading takes at most a small share of the time. A difference is a
mistake only where nothing explains it: neither a `stat` that is another one, nor a record of the log, nor a mount or a
clock that was set. Then nothing that is sealed is believed any more, and the log has a gap.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from provd.core import evidence
from provd.core.dependency import PATH_KINDS, Kind, is_under
from provd.core.entry import Entry, EntryId, Kept
from provd.core.reading import Found, Reading
from provd.core.verdict import Judgements, Proof, Verdict, reading_of
from provd.disk import IgnoreRules, Seals, Workers, base_of
from provd.sealed import Things, changed, things_of
from provd.store import Store
from provd.watching import PATIENCE, Watching

REASON: Final = "self-check: a seal stood for another content than is there"
_MOST: Final = 16
"""Answers that wait to be looked at; of more none is taken."""
_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of one answer's files; what is larger is not read for this."""
_REST: Final = 50
"""How many times as long as a look took nothing is looked at then: reading takes 2 % of the time at most."""
_FOR_EVER: Final = 2.0**62
_SIZE: Final = 3
"""Where the size is in what is compared of a `stat`."""

log = structlog.get_logger("self-check")


class _Sample(NamedTuple):
    """A dependency with the seal that stood for its digest."""

    kept: Kept
    reading: Reading
    rules: IgnoreRules
    things: Things


class _Answer(NamedTuple):
    """An answer: the entry, what it rests on by seals, and the position and the epoch at which it was given."""

    entry: EntryId
    samples: list[_Sample]
    position: int
    epoch: int


class SelfCheck:
    """Takes a `share` (0 to 1) of the answers by seals; `run` looks at them. `owe` makes the gap of a mistake."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        watch: Watching,
        rules: Callable[[], IgnoreRules],
        share: float,
        owe: Callable[[list[bytes], str], None],
    ) -> None:
        self._store = store
        self._workers = workers
        self._seals: Seals = workers.seals
        self._watch = watch
        self._rules = rules
        self._owe = owe
        self._waiting: deque[_Answer] = deque()
        self._more = asyncio.Event()
        self._counts: Counter[str] = Counter()
        self.take_share(share)

    def take_share(self, share: float) -> None:
        """From now on so many of the answers are looked at."""
        self._share = share
        self._left: float = self._next()

    def told(self) -> dict[str, Any]:
        """As the status has it: `checked` and `mismatches` are answers, `skipped` those that could not be looked at."""
        return {"share": self._share, **{name: self._counts[name] for name in ("checked", "skipped", "mismatches")}}

    def is_due(self, answers: int = 1) -> bool:
        """Counts answers by seals; whether one of them is to be taken."""
        self._left -= answers
        return self._left <= 0

    def take(self, entry_id: EntryId) -> None:
        """Takes an answer that was just given, and is due."""
        self._left = self._next()
        if len(self._waiting) >= _MOST:
            self._counts["skipped"] += 1
            return
        try:
            epoch = self._seals.current()
            with self._store.view() as view:
                entry = view.entry(entry_id)
            samples = [] if entry is None else self._samples(entry)
        except Exception as e:  # noqa: BLE001  the answer is given, whatever becomes of this
            log.warning("an answer was not taken", reason=repr(e))
            return
        if samples:
            self._waiting.append(_Answer(entry_id, samples, self._store.head, epoch))
            self._more.set()

    def judged(self, judgements: Judgements) -> None:
        """Counts answers of the whole way, and takes one where it is due."""
        if self._left is math.inf:
            return
        fresh = [
            i for i, judged in judgements.items() if judged.verdict is Verdict.FRESH and judged.proof is Proof.STAT
        ]
        if fresh and self.is_due(len(fresh)):
            self.take(random.choice(fresh))  # noqa: S311  nobody is to be kept from guessing it

    async def run(self) -> None:
        """Looks at what was taken, one after another, for ever."""
        clock = asyncio.get_running_loop().time
        while True:
            self._more.clear()
            if not self._waiting:
                await self._more.wait()
            began = clock()
            await self.look(self._waiting.popleft())
            await asyncio.sleep(_REST * (clock() - began))

    async def look(self, answer: _Answer) -> None:
        """Reads what an answer rests on; a mistake is logged, told in the status, and a gap."""
        if sum(each[_SIZE] for sample in answer.samples for _, each in sample.things) > _LARGEST:
            self._counts["skipped"] += 1
            return
        wrong = 0
        try:
            for sample in answer.samples:
                read = await self._workers.read((sample.reading,), sample.rules, PATIENCE)
                found = read[sample.reading]
                if found.digest is None or found.digest == sample.kept.digest:
                    continue
                if not await self._is_explained(answer, sample, found):
                    self._tell(answer, sample, found)
                    wrong = 1
        except Exception as e:  # noqa: BLE001  nobody waits for it, and the next one is looked at
            log.warning("an answer was not looked at", reason=repr(e))
            self._counts["skipped"] += 1
            return
        self._counts["checked"] += 1
        self._counts["mismatches"] += wrong

    def _next(self) -> float:
        """How many answers go by until one is taken, at random."""
        if self._share <= 0:
            return math.inf
        if self._share >= 1:
            return 1
        steps = math.log1p(-random.random()) / math.log1p(-self._share)  # noqa: S311  see `judged`
        return 1 + min(steps, _FOR_EVER) // 1

    def _samples(self, entry: Entry) -> list[_Sample]:
        found = (self._sample(kept) for kept in entry.deps or () if kept.dep.kind in PATH_KINDS and kept.digest)
        return [sample for sample in found if sample is not None]

    def _sample(self, kept: Kept) -> _Sample | None:
        reading = reading_of(kept)
        if reading.kind is not Kind.FILE:
            seal = self._seals.get_set(reading)
            if seal is None or seal.found.digest != kept.digest:
                return None
            return _Sample(kept, reading, seal.rules, seal.things)
        row = self._seals.get(reading.path)
        raw = None if row is None else row.raw.get(reading.algorithm)
        if row is None or raw is None or f"{reading.algorithm}:{raw.hex()}" != kept.digest:
            return None
        return _Sample(kept, reading, self._rules(), things_of(reading.path, row.signature))

    async def _is_explained(self, answer: _Answer, sample: _Sample, found: Found) -> bool:
        if sample.reading.kind is Kind.FILE:
            ((_, was),) = sample.things
            if found.signature is None or things_of(sample.reading.path, found.signature)[0][1] != was:
                return True
        elif await changed(sample.things) != []:
            return True
        if self._seals.current() != answer.epoch:
            return True
        await self._watch.recorded(PATIENCE)
        with self._store.view() as view:
            return bool(view.newest_mutation(sample.kept, answer.position))

    def _tell(self, answer: _Answer, sample: _Sample, found: Found) -> None:
        self._seals.void()
        base = base_of(sample.reading)
        root = max((root for root in self._watch.roots if is_under(base, root)), key=len, default=base)
        self._owe([root], REASON)
        log.error(
            REASON,
            key=answer.entry.key,
            **evidence.named(sample.kept.dep),
            sealed=sample.kept.digest,
            read=found.digest,
            answered_at=answer.position,
        )
