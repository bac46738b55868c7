"""One world that lives through many crashes: a load of puts, actions, mutations and questions, then what is left of it.

The load and its judge are those of `tests/oracle`. After a crash everything that was acknowledged must be there, with
its numbers; the log must have no holes and the same past; and each verdict must be what is really there says. What was
on its way is forgotten: it may be there or not.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from crash_ground import Device
from crash_ledger import Asked, objects_of
from crash_place import KEPT, Crashing, Ends, photograph
from crash_points import POINTS, RETAINING
from oracle_run import PATIENCE_MS, Run, Wrong
from oracle_table import Finding
from support import HANG, RpcError, StartError, records_since

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crash_ground import Ground
    from crash_points import Hits
    from oracle_eyes import Look
    from support import Json

CRASHED: Final = "a crash"
"""The row of the table for what a crash changed."""
_ENTRIES: Final = (36, 10)
"""Plain and chained ones."""
_FEW: Final = 20
"""Entries that a load needs."""
_LONGEST: Final = 0.03
"""Seconds that a crash comes after the request that it was drawn for, at most."""
_REQUESTS: Final = (5, 15, 40, 100)
_ONCE: Final = ("start.", "trim.")
"""Points that a daemon seldom passes twice."""
_PASSES: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55)
_NEEDLESS: Final = (Finding.FALSE_DIRTY, Finding.NEEDLESS, Finding.WRONG_EVIDENCE)
_UNREACHED: Final = 150
"""Requests after which a daemon that never came to its point is killed."""
_SCANNED: Final = 0.3
_SYNCED: Final = 0.1
_ALL_WAYS: Final = ("log", "auto", "content", "auto")


class World:
    """Directories, a daemon and an oracle; `crash` is one life of the daemon and what is said after it.

    `hits` counts the points where daemons of this and other worlds ended.
    """

    def __init__(self, ground: Ground, seed: int, hits: Hits, *, trims: bool = False, stays: bool = False) -> None:
        self.ground, self.seed, self.hits, self.trims, self.stays = ground, seed, hits, trims, stays
        self._points = [point for point in POINTS if trims or not point.startswith(RETAINING)]
        self.random = Random(seed)
        self.daemon = Crashing(ground, trims=trims, stays=stays)
        self.crashes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._known: dict[int, Json] = {}
        self._until = 0  # the acknowledgements before this one are certain
        self._noted = 0  # and the load has come to note those before this one
        self._down = threading.Event()
        self._begun = threading.Event()
        self._left = 0
        self.began = False
        self._shelf: list[Any] = []
        self._next = self.random.choice(ground.ways[:-1]), ""
        self._seen: dict[str, tuple[tuple[int, ...], bytes]] = {}

    def begin(self) -> None:
        """The first daemon, and a first load that everything rests on."""
        path = self.ground.path
        root, outside = os.path.join(path, "root", "r"), os.path.join(path, "outside")
        self.place = Ends(path, root, outside, self.random, mounts=False, bars=False)
        self.ground.sync()
        self.daemon.start().scanned()  # after the sync: its own files are durable by its own doing
        self.run = Run(self.daemon, self.place, self.seed, *_ENTRIES)
        self.began = True
        rpc = self.run.rpcs[0]
        self._first = rpc("log.clock")["clock"]
        if self.trims:
            for number in [rpc.send("action.record", writes=["object:many"]) for _ in range(KEPT)]:
                rpc.result(number)

    def close(self) -> None:
        """Ends all of it."""
        self.place.close()
        self.daemon.close()

    # -- a life and its end

    def crash(self) -> None:
        """A load until the crash, the crash, a new daemon, and all that it is asked. Raises Wrong, AssertionError."""
        way, point = self._next
        self._down.clear()
        self._load(way, point)
        missed = point and self._down.is_set()
        self._end()
        said = ", not reached" if missed else ", the daemon stays" if self.stays else ""
        self._count(f"{way} {point}".strip() + said, "" if missed else point)
        self.ground.back()
        self._compare()
        for _ in range(self.random.choice((0, 0, 2)) if way in {"kill", "point"} else 0):
            self.place.nudge = lambda: None
            self.run.act(self.random.choice(self.place.acts()))
        self._come_back()

    def _count(self, crash: str, hit: str) -> None:
        self.crashes[crash] += 1
        if hit:
            self.hits.count[hit] += 1

    def _compare(self) -> None:
        """Counts what the crash took from the files."""
        now = photograph(self.ground.path)
        for path, (status, content) in self._seen.items():
            there = now.get(path)
            other = there is not None and there[1] != content
            self.counts["files that were lost or old"] += there is None or other
            self.counts["files that were old under an equal stat"] += other and there is not None and there[0] == status
        self._seen = {}

    def _choose(self) -> dict[str, str]:
        """How the next life ends; the environment that it has for that."""
        way, point = self.random.choice(self.ground.ways), ""
        if way == "point":
            point = self.hits.draw(self.random, self._points)
        self._next = way, point
        passes = 1 if point.startswith(_ONCE) else self.random.choice(_PASSES)
        return {"PROVD_KILL_AT": f"{point}:{passes}"} if point else {}

    def _load(self, way: str, point: str) -> None:
        ledger = self.daemon.ledger
        self._begun.clear()
        self._until = 1 << 60
        self._left = _UNREACHED if point else self.random.choice(_REQUESTS)
        delay = self.random.random() * _LONGEST
        crashing: list[threading.Timer] = []

        def at_send() -> None:
            self._left -= 1
            if self._left == 0:
                crashing.append(threading.Timer(delay, self._go_down, [way]))
                crashing[0].start()

        ledger.at_send = at_send
        try:
            while not self._down.is_set():
                self._step()
        except (Wrong, OSError, RpcError, AssertionError) as error:
            real = isinstance(error, TimeoutError) or (isinstance(error, Wrong) and "false fresh" in str(error))
            if real or way == "copy" or not (self._begun.is_set() or (point and self._ended_by_kill())):
                raise
        finally:
            ledger.at_send = lambda: None
            for timer in crashing:
                timer.join()

    def _go_down(self, way: str) -> None:
        """The crash, in a thread of its own, while the load goes on."""
        if isinstance(self.ground, Device):
            self._shelf = list(self.run._shelf)
            if way == "copy" and not self.stays:
                self._until = len(self.daemon.ledger.acknowledged)
            self._begun.set()
            self._seen = photograph(self.ground.path)
            with self.place.storing:
                self.place.down = True
                self.ground.lose_power(way)
        else:
            self._begun.set()
            assert self.daemon.process is not None
            self.daemon.process.kill()
        self._down.set()

    def _step(self) -> None:
        self.run.step()
        self._noted = len(self.daemon.ledger.acknowledged)
        if self.random.random() < _SYNCED:
            self.ground.sync()
        if self.random.random() < _SYNCED:
            self.daemon.ledger.acknowledged += [
                Asked("records", {}, record) for record in records_since(self.run.rpcs[0], self._first)[-50:]
            ]

    def _ended_by_kill(self) -> bool:
        assert self.daemon.process is not None
        try:
            return self.daemon.process.wait(HANG) == -9
        except subprocess.TimeoutExpired:
            return False

    def _end(self) -> None:
        """Nothing of that life goes on, but for a daemon that lies elsewhere."""
        if self.stays:
            self._let_go()
        else:
            self.daemon.kill9()
        self.place.close()
        for finding in _NEEDLESS:  # what was said of a file system that was down is not compared with its cache
            self.counts[f"{finding} while it was down"] += self.run.table.total.pop(finding, 0)
        self.place.down = False
        if self._until == 1 << 60:
            self._until = len(self.daemon.ledger.acknowledged)
        if isinstance(self.ground, Device):
            self.run._shelf = self._shelf

    def _let_go(self) -> None:
        """The clients go; what they held has failed when that is recorded."""
        declaring = self.run.declaring
        held = dict(declaring._held)
        self.daemon.disconnect()
        rpc = self.daemon.connect()
        while set(held) & {action["id"] for action in rpc("action.list")["actions"]}:
            pass
        for number, (_, objects) in held.items():
            declaring._ended(number, objects, written=True)
        declaring._held.clear()

    # -- what must be there

    def _come_back(self) -> None:
        """A new daemon is asked about everything; one that kills itself at its point before is the next crash."""
        while True:
            env = self._choose()
            try:
                if not self.stays:
                    self.daemon.start(**env)
                if self.random.random() < _SCANNED:
                    self.daemon.scanned()
                self._take_up()
            except StartError as error:
                if error.code != -9 or not env:
                    raise
            except (ConnectionError, FileNotFoundError):
                if not env or not self._ended_by_kill():
                    raise
            else:
                return
            self.daemon.disconnect()
            self._count(" ".join(self._next), self._next[1])

    def _take_up(self) -> None:
        """A new daemon is asked about everything, and the load's clients go on with it."""
        ledger, run = self.daemon.ledger, self.run
        run.connect()
        self.place.nudge = run.ask_some
        certain, doubtful = ledger.certain(self._until), list(ledger.doubtful(self._until))
        self._past(certain)
        self._stand(certain, doubtful)
        stray = self._actions(certain, doubtful)
        self._forget_doubtful(doubtful, stray)
        if not self.stays:
            run.declaring.restarted()
        self._verdicts()
        ledger.clear()
        self._until = 0
        if len(run.oracle.entries) < _FEW:  # nearly all of it was in doubt
            run.put_batches([*run.putting.plain, *run.putting.chained])
        self._noted = len(ledger.acknowledged)

    def _past(self, certain: list[Asked]) -> None:
        """No holes, and nothing that was told is another or gone."""
        records = records_since(self.run.rpcs[0], self._first)
        numbers = [record["seq"] for record in records]
        oldest = numbers[0]
        first = int(self._first.rpartition(":")[2]) + 1
        assert numbers == list(range(oldest, oldest + len(numbers))), "the log has a hole"
        assert oldest == first or (self.trims and oldest > first), f"the log begins at {oldest}"
        found = {record["seq"]: record for record in records}
        self._known.update((asked.result["seq"], asked.result) for asked in certain if asked.method == "records")
        for number, record in self._known.items():
            assert number < oldest or found.get(number) == record, (
                f"record {number} was {record}, is {found.get(number)}"
            )
        self._known = found
        self.counts["requests"] += len(certain)
        for asked in certain:
            promised = _number(asked)
            if promised >= oldest:
                self.counts["acknowledged"] += 1
                assert promised in found, f"acknowledged and gone: {asked}"
                assert _is_of(found[promised], asked), f"{asked} is {found[promised]}"

    def _stand(self, certain: list[Asked], doubtful: list[Asked]) -> None:
        """Under each key stands what was acknowledged last."""
        expected: dict[str, tuple[int | None, Json]] = {
            key: (entry.version, entry.value) for key, entry in self.run.oracle.entries.items()
        }
        told: dict[str, tuple[int | None, Json]] = {}
        unnoted = {asked.params.get("key") for asked in certain[self._noted :]}
        for asked in certain:
            key = str(asked.params.get("key"))
            if asked.method == "entry.put" and not asked.result.get("late"):
                told[key] = asked.result["version"], asked.params.get("value")
            elif asked.method == "entry.forget":
                told[key] = None, None
        unsure = {asked.params.get("key") for asked in doubtful}
        rpc = self.run.rpcs[0]
        for key, (version, value) in {**expected, **told}.items():
            if key in unsure:
                continue
            got = rpc("entry.get", key=key, root=self.place.root, even_if=["dirty", "unknown"], timeout_ms=PATIENCE_MS)
            there = got.get("version"), got.get("value") if got.get("version") else None
            assert there == (version, value if version else None), f"{key}: {got}, acknowledged {version} {value}"
            self.counts["entries"] += 1
            if key in unnoted:
                self.run.forget(key)

    def _actions(self, certain: list[Asked], doubtful: list[Asked]) -> set[int]:
        """Open is what was begun and not ended; gives what is open and nobody knows of."""
        listed = {action["id"] for action in self.run.rpcs[0]("action.list")["actions"]}
        ended = {asked.params["id"] for asked in certain if asked.method == "action.end"}
        ending = {asked.params["id"] for asked in doubtful if asked.method == "action.end"}
        begun = {asked.result["id"] for asked in certain if asked.method == "action.begin"}
        held = {asked.result["id"] for asked in certain if asked.method == "action.begin" and asked.params.get("hold")}
        lost = (begun - held - ended - ending) - listed
        assert not lost, f"begun, acknowledged and not open: {lost}"
        assert not listed & (ended | held), f"ended and open: {listed & (ended | held)}"
        known = self.run.declaring._open
        for number in [number for number in known if number not in listed]:
            for name in known.pop(number):
                self.run.oracle.object(name).open.discard(number)
        return listed - set(known)

    def _forget_doubtful(self, doubtful: list[Asked], stray: set[int]) -> None:
        """What may be there or not is taken back, and with it what rests on it."""
        run = self.run
        for number in stray:
            run.rpcs[0]("action.end", id=number, outcome="aborted")
        objects = {name for asked in doubtful for name in objects_of(asked)}
        if any(asked.method == "action.end" for asked in doubtful) or stray:
            objects |= set(run.oracle.objects)
        keys = {asked.params["key"] for asked in doubtful if "key" in asked.params}
        for key, entry in list(run.oracle.entries.items()):
            if any(dep.kind == "object" and dep.rest in objects for dep in entry.deps):
                keys.add(key)
        for key in sorted(keys):
            run.forget(key)
        for name in objects:
            run.oracle.object(name).open = {number for number, names in run.declaring._open.items() if name in names}

    def _verdicts(self) -> None:
        """Each entry, however it is asked about, is judged by what is there now."""
        run = self.run
        before = dict(run.book._seen)
        run.oracle.now()
        eyes = run.eyes()
        run.book.mark_names(CRASHED, _changed(before, eyes.look))
        keys = sorted(run.oracle.entries)
        for verify in _ALL_WAYS:
            how: dict[str, Json] = {"verify": verify}
            told = run.rpcs[0]("entry.check", keys=keys, root=self.place.root, timeout_ms=PATIENCE_MS, **how)
            if verify == "log":  # where silence proves nothing it may say so
                how["revalidate"] = False
            for key in keys:
                run._judge(key, told["verdicts"][key], how, eyes)
        for finding in _NEEDLESS:
            assert not run.table.total[finding], run.found[-1]
        self.counts["verdicts"] += len(keys) * len(_ALL_WAYS)


def _changed(before: dict[str, Look], look: Any) -> Iterable[str]:
    """The dependencies that are not what they were when somebody looked last."""
    return [name for name, was in before.items() if look(name).digest != was.digest]


def _number(asked: Asked) -> int:
    """The number that an acknowledgement promised, -1 where it promised none."""
    match asked.method:
        case "entry.put":
            return int(asked.result["version"])
        case "action.begin":
            return int(asked.result["id"])
        case "action.record":
            return int(asked.result["seq"])
        case _:
            return -1


def _is_of(record: Json, asked: Asked) -> bool:
    if asked.method == "entry.put":
        return (record["type"], record["key"]) == ("entry", asked.params["key"])
    event = asked.method.partition(".")[2]
    return (record["type"], record["event"], record["writes"]) == ("action", event, asked.params["writes"])
