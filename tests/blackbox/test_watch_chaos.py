"""Random work by several writers while questions are asked: no answer is a false fresh, and the log ends as the disk.

Two oracles. Files whose content never comes twice: an entry that is fresh was so before the question already. And
moments in which all writers wait: then fresh means exactly that all digests are those of the disk.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from typing import TYPE_CHECKING, Final

import pytest
from support import Daemon, Json, Rpc, Workspace, digest, records_since, wire
from watching import Replay, gaps, settled, since, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITERS: Final = 4
STEPS: Final = 500
QUESTIONS: Final = 400
LENGTH: Final = 64


class Gate:
    """Writers pass while it is open; who closes it waits until none is inside."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()


class Writer(threading.Thread):
    """Random operations below one directory that all writers share; operations that lost a race are no error."""

    def __init__(self, ws: Workspace, gate: Gate, me: int, seed: int) -> None:
        super().__init__(name=f"writer {me}")
        self.ws = ws
        self.gate = gate
        self.me = me
        self.random = random.Random(seed * 100 + me)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for number in range(STEPS):
                with self.gate.inside():
                    self._unique(number)
                    with contextlib.suppress(OSError, shutil.Error):
                        self._anything(number)
        except BaseException as error:  # noqa: BLE001  told by the test
            self.failure = error

    def _unique(self, number: int) -> None:
        """Content that never comes twice, in place by one write or by a rename."""
        content = b"%d of %d " % (number, self.me)
        path = self.ws.path(f"unique/u{self.me}")
        if self.random.random() < 0.5:
            with open(path, "r+b") as file:
                os.pwrite(file.fileno(), content.ljust(LENGTH, b"."), 0)
        else:
            temporary = self.ws.path(f"unique/.u{self.me}.tmp")
            with open(temporary, "wb") as file:
                file.write(content.ljust(LENGTH, b"."))
            os.replace(temporary, path)

    def _anything(self, number: int) -> None:
        some, other = self.somewhere(), self.somewhere()
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                self._write(some, b"%d" % self.random.randrange(3))
            case 4:
                os.unlink(some)
            case 5:
                os.rename(some, other)
            case 6:
                os.rename(os.path.dirname(some), os.path.dirname(other) + b"-%d" % self.random.randrange(3))
            case 7:
                shutil.rmtree(os.path.dirname(some))
            case 8:
                os.rename(os.path.dirname(os.path.dirname(some)), self.ws.path(f"c/d{self.random.randrange(5)}"))
            case 9:
                outside = os.path.join(os.fsencode(self.ws.daemon.outside), b"%d-%d" % (self.me, number))
                os.rename(os.path.dirname(some), outside)
                self._write(os.path.join(outside, b"made outside"), b"x")
                os.rename(outside, os.path.dirname(other))
            case 10:
                os.symlink(self.ws.path(f"targets/t{self.random.randrange(WRITERS)}"), some)
            case _:
                os.chmod(some, self.random.choice([0o600, 0o644]))

    def somewhere(self) -> bytes:
        choose = self.random.randrange
        return self.ws.path(f"c/d{choose(5)}/e{choose(4)}/f{choose(4)}")

    def _write(self, path: bytes, content: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, self.random.choice(["wb", "ab"])) as file:
            file.write(content)


class Asker:
    """Puts and questions, each compared with what the disk says."""

    def __init__(self, ws: Workspace, gate: Gate, seed: int) -> None:
        self.ws = ws
        self.gate = gate
        self.random = random.Random(seed)
        self.kept: dict[str, list[Json]] = {}
        self.fresh = 0
        self.dirty = 0

    def ask(self, number: int) -> None:
        if self.random.random() < 0.5:
            self._running(number)
        else:
            with self.gate.closed():
                self._standing(number)

    def _running(self, number: int) -> None:
        """While all write: an entry on unique content."""
        name = f"file:unique/u{self.random.randrange(WRITERS)}"
        key = f"unique {name}"
        if key not in self.kept or self.random.random() < 0.3:
            self._put(key, name)
        self._compare(key, number, exact=False)

    def _standing(self, number: int) -> None:
        """While nobody writes: any entry, and the answer must be right to the letter."""
        if not self.kept or self.random.random() < 0.3:
            choose = self.random.randrange
            below = f"c/d{choose(5)}"
            dep = self.random.choice(
                [
                    f"tree:{below}",
                    f"dir:{below}/e{choose(4)}",
                    f"glob:{below}/*/f{choose(4)}",
                    f"glob:c/**/f{choose(4)}",
                ]
                + [f"file:{below}/e{choose(4)}/f{choose(4)}"] * 4
            )
            self._put(f"any {choose(30)}", dep)
        self._compare(self.random.choice(sorted(self.kept)), number, exact=True)

    def _put(self, key: str, dep: str) -> None:
        """By the digest of what the client read, which may have gone by already while writers run."""
        kept = {"dep": wire(dep), "digest": digest(dep, self.ws.root)}
        answer = self.ws("entry.put", key=key, value=key, deps=[kept])
        if answer.get("late"):
            return
        self.kept[key] = [kept]

    def _compare(self, key: str, number: int, *, exact: bool) -> None:
        before = all(digest(kept["dep"], self.ws.root) == kept["digest"] for kept in self.kept[key])
        verify = self.random.choice(["auto", "auto", "content", "log"])
        verdict = self.ws.verdict(key, verify=verify)
        context = (number, key, verify, verdict, self.kept[key])
        self.fresh += verdict == "fresh"
        self.dirty += verdict == "dirty"
        if verdict == "fresh":
            assert before, context
        if exact:
            assert verdict == ("fresh" if before else "dirty"), context


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_answer_is_a_false_fresh_and_the_log_ends_as_the_disk(own: Workspace, seed: int) -> None:
    for number in range(WRITERS):
        own.write(f"unique/u{number}", b"start %d" % number)
        own.write(f"targets/t{number}", b"start")
    before = walk(own.root)
    clock = own.clock()
    gate = Gate()
    writers = [Writer(own, gate, me, seed) for me in range(WRITERS)]
    asker = Asker(own, gate, seed)
    for writer in writers:
        writer.start()
    try:
        for number in range(QUESTIONS):
            asker.ask(number)
    finally:
        for writer in writers:
            writer.join()
    assert [writer.failure for writer in writers if writer.failure] == []
    for number in range(50):
        asker.ask(QUESTIONS + number)
    assert asker.fresh
    assert asker.dirty
    records = settled(own.daemon, clock)
    assert since(own, clock)["complete"] is not bool(gaps(records, own.root))
    Replay(before).follow(records).agrees(own.root)
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert "Traceback" not in own.daemon.said()


def test_strict_and_log_answers_are_never_fresh_for_what_changed(own: Workspace) -> None:
    """Each change alone, of random kind; the three proofs are compared with the disk after each."""
    choose = random.Random(7)
    for number in range(8):
        own.write(f"d{number % 2}/e/f{number}", "0")
    os.symlink("d0", own.path("link"))
    deps = [f"file:d{n % 2}/e/f{n}" for n in range(8)] + ["tree:d0", "dir:d1/e", "glob:d*/e/*", "file:link/e/f0"]
    for number in range(150):
        kept = [{"dep": dep, "digest": digest(dep, own.root)} for dep in deps]
        clock = own.clock()
        for dep, item in zip(deps, kept, strict=True):
            own("entry.put", key=dep, value=dep, deps=[item], fetched_at=clock)
        some, other = (own.path(f"d{choose.randrange(2)}/e/f{choose.randrange(8)}") for _ in range(2))
        with contextlib.suppress(OSError):
            match choose.randrange(5):
                case 0:
                    os.rename(some, other)
                case 1:
                    os.unlink(some)
                case 2:
                    os.rename(own.path("d0"), own.path("x"))
                    os.rename(own.path("d1"), own.path("d0"))
                    os.rename(own.path("x"), own.path("d1"))
                case _:
                    own.write(some, str(choose.randrange(3)))
        now = {dep: digest(dep, own.root) for dep in deps}
        wanted = {d: "fresh" if now[d] == k["digest"] else "dirty" for d, k in zip(deps, kept, strict=True)}
        for verify in ("log", "auto"):
            found = own("entry.check", keys=deps, verify=verify)["verdicts"]
            assert {dep: found[dep]["verdict"] for dep in deps} == wanted, (number, verify)
        strict = own("entry.check", keys=deps, revalidate=False)["verdicts"]
        for dep in deps:
            assert strict[dep]["verdict"] != "fresh" or wanted[dep] == "fresh", (number, dep)


def test_a_subscriber_sees_what_the_log_has_whatever_happens(own: Workspace) -> None:
    daemon: Daemon = own.daemon
    clock = own.clock()
    with contextlib.closing(Rpc(daemon.socket)) as rpc:
        rpc("log.subscribe", clock=clock)
        writer = Writer(own, Gate(), 0, 11)
        own.write("unique/u0", "start")
        writer.start()
        writer.join()
        assert writer.failure is None
        settled(daemon, clock)
        logged = records_since(own.rpc, clock)
        assert [rpc.note()["params"] for _ in logged] == logged
