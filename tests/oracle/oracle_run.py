"""One run: at random something is done, put, or asked, and each answer is judged by what the disk says to our own eyes.

Nothing happens between a question and the look at the disk: so all is at rest, and a false `dirty` has no excuse. Two
clients ask at once; each sends all of its requests before either reads an answer.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import oracle_acts_files
import oracle_acts_held
import oracle_acts_ways
from oracle_book import Book
from oracle_declared import DECLARING, TOUCHED, Declaring
from oracle_eyes import SPECIAL, Eyes
from oracle_model import Dep, Entry, Oracle
from oracle_place import ACTS, NAME
from oracle_puts import Prepared, Putting, put_by_sums
from oracle_table import UNTOUCHED, Finding, Table
from support import RpcError, unwire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oracle_eyes import Token
    from oracle_place import Place
    from support import Daemon, Json, Rpc

_ = (oracle_acts_files, oracle_acts_held, oracle_acts_ways)  # they fill ACTS
PATIENCE_MS: Final = 60_000
REPLACED, SAME_VALUE, FORGOTTEN = "entry replaced", "entry put with an equal value", "entry forgotten"
FULL: Final = "full disk"
WHILE_STOPPED: Final = "20,000 events while stopped"
_CHUNK: Final = 48
_SHELF: Final = 30
_UNSEEN: Final = 0.08
"""How often something is stored that moves no time and makes no event."""
_ASKED: Final = 140
_QUESTIONS: Final[tuple[dict[str, Json], ...]] = (*({},) * 18, {"verify": "content"}, {"revalidate": False})
"""Most ask as everybody does; some want all to be read, some nothing."""


class Wrong(Exception):
    """An answer was false; says which, of which seed, and all steps since its entry was put."""


class Run:
    """Random steps from a seed, in two new directories, with a daemon that watches the root."""

    def __init__(self, daemon: Daemon, place: Place, seed: int, plain: int = 240, chained: int = 60) -> None:
        self.seed, self.place, self.daemon = seed, place, daemon
        self.random = place.random
        self.steps: list[str] = []
        self.found: list[str] = []
        self.tally: Counter[str] = Counter()
        self.faults: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.fault = ""
        """The one that is under way, or was lately."""
        self.oracle = Oracle()
        self.book = Book(self.oracle)
        reach = {name: ACTS[name].reach for name in place.acts()}
        reach |= dict.fromkeys(DECLARING, TOUCHED)
        reach |= dict.fromkeys((REPLACED, SAME_VALUE, FORGOTTEN), ("entry",))
        reach[WHILE_STOPPED] = NAME
        self.table = Table(reach)
        self.putting = Putting(place, plain, chained)
        self.rpcs: list[Rpc] = []
        self.connect()
        self.declaring = Declaring(daemon.connect, place.root, self.oracle, self.random)
        self._shelf: list[Prepared] = []
        self._lame: Counter[str] = Counter()
        place.nudge, place.favoured = self.ask_some, self._favoured
        self.put_all(self.putting.plain)
        self.put_all(self.putting.chained)

    def connect(self) -> None:
        """Two clients, anew."""
        self.rpcs = [self.daemon.connect(), self.daemon.connect()]

    def close(self) -> None:
        """Lets go of what is held."""
        if self.daemon.alive:
            self.declaring.close(self.rpcs[0])
        self.place.close()

    # -- a round

    def step(self) -> None:
        """Something is done, then questions and puts; raises Wrong where an answer is false."""
        for _ in range(self.random.choice((1, 1, 1, 1, 2, 5))):
            self.act(self._next_act())
        for _ in range(self.random.choice((0, 0, 0, 0, 20, 100))):  # time passes
            self.rpcs[0]("daemon.hello", protocol=1)
        eyes = self.eyes()
        asked = self._whom()
        dirty = self.ask(asked, eyes)
        if self.random.random() < 0.3:
            self.ask(self.random.sample(asked, min(len(asked), 12)), eyes)
        again = [key for key in dirty if self.random.random() < (0.06 if self._is_absent(key) else 0.4)][:30]
        again += self.random.sample(sorted(self.oracle.entries), 1) + self._gone()
        self.put_batches(again)

    def put_batches(self, keys: Iterable[str]) -> None:
        """Puts these: none together with what it rests on."""
        left = dict.fromkeys(keys)
        self.put_all([key for key in left if key.startswith("p")])
        for key in left:
            if key.startswith("c"):
                self.put_all([key])

    def _is_absent(self, key: str) -> bool:
        return any(dep.kind == "absent" for dep in self.oracle.entries[key].deps)

    def _gone(self) -> list[str]:
        return [key for key in (*self.putting.plain, *self.putting.chained) if key not in self.oracle.entries][:8]

    def _next_act(self) -> str:
        """Mostly one of those whose cells are thin; one that is refused again and again less often."""
        if self.place.lacks() and self.random.random() < 0.6:
            return "directory made or removed"
        if self.place.mappings and self.random.random() < _UNSEEN:
            return "store through a live mapping"
        names = self.random.sample(self.acts(), 8)
        if self.random.random() < 0.3:
            return names[0]
        return min(names, key=lambda name: self.table.wanted(name) + 20 * min(self._lame[name], 5))

    def acts(self) -> list[str]:
        """All kinds of mutation that can be done here."""
        declaring = (
            DECLARING[:-1] if self.fault == FULL else DECLARING
        )  # an end that cannot be recorded is awaited there
        return [*self.place.acts(), *declaring, FORGOTTEN]

    def act(self, name: str) -> bool:
        """Does one thing and marks what it touched; false where nothing was done."""
        if name in DECLARING:
            objects = self.declaring.act(name, self.rpcs[self.random.randrange(2)])
            self.steps.append(f"{name} {sorted(objects)}")
            self.book.mark_names(name, (f"object:{each}" for each in objects))
            return bool(objects)
        if name == FORGOTTEN:
            return self._forget()
        done = self.place.act(name)
        self.steps.append(f"{name}: {' '.join(self.place.said)}")
        self.tally[f"acts refused: {name}" if not done else "acts"] += 1
        self._lame[name] = 0 if done else self._lame[name] + 1
        if done:
            self.touched(name, self.place.touched)
        return done

    def touched(self, name: str, tokens: Iterable[Token]) -> None:
        """Marks what rests on these, before or after."""
        self.book.mark_tokens(name, frozenset(tokens), self.eyes())

    def _forget(self) -> bool:
        if self.oracle.entries:
            self.forget(self.random.choice(sorted(self.oracle.entries)))
        return True

    def forget(self, key: str) -> None:
        """Nothing stands under this key any more."""
        self.steps.append(f"forget {key}")
        try:
            self.rpcs[0]("entry.forget", key=key, root=self.place.root)
        except RpcError as error:
            self._expect(self._is_full(error), f"forget {key}", error)
            return
        self.book.forget(key)
        self.book.mark_names(FORGOTTEN, [f"entry:{key}"])

    def eyes(self) -> Eyes:
        """This moment."""
        return Eyes(self.place.home, self.place.root, bars=self.place.bars)

    def _favoured(self) -> str:
        """What was absent when an entry was put is seldom there to be written to."""
        absent = [dep for entry in self.oracle.entries.values() for dep in entry.deps if dep.kind == "absent"]
        return os.path.join(self.place.root, self.random.choice(absent).rest) if absent else self.place.file()

    def ask_some(self) -> None:
        """Some questions, not judged: what is there in the middle of an act is read."""
        keys = sorted(self.oracle.entries)
        keys = self.random.sample(keys, min(6, len(keys)))
        self.rpcs[0]("entry.check", keys=keys, root=self.place.root, timeout_ms=PATIENCE_MS)

    # -- puts

    def put_all(self, keys: Iterable[str], *, shelve: float = 0.15) -> None:
        """Reads for these keys and puts them, some of them later; none rests on another of them."""
        self.oracle.now()
        clock = self.rpcs[0]("log.clock")["clock"]
        eyes, tick = self.eyes(), self.oracle.now()
        ready = [self.putting.prepare(key, eyes, clock, tick, self.book.version) for key in keys]
        later = [each for each in ready if self.random.random() < shelve * (3 if each.way == "clock" else 1)]
        now = [each for each in ready if each not in later]
        self.random.shuffle(self._shelf)
        for _ in range(min(3, len(self._shelf))):
            aged = self._shelf.pop()
            self._send_puts([aged._replace(way="digests" if aged.way == "blake2b" else aged.way)], eyes)
        self._shelf = (self._shelf + later)[-_SHELF:]
        self._send_puts(now, eyes)

    def _send_puts(self, puts: list[Prepared], eyes: Eyes) -> None:
        sent: list[tuple[Prepared, Rpc, int, dict[str, Json]]] = []
        for number, prepared in enumerate(puts):
            if prepared.way == "as_of":
                prepared = self._as_of(prepared, eyes)  # noqa: PLW2901  what it is made from is what is there now
            asked = self.putting.request(prepared) | self.putting.value()
            if self.random.random() < 0.1:
                asked["op"] = f"op{self.oracle.now()}"
            if self.random.random() < 0.1:
                asked["based_on"] = (self.book.version(prepared.key) or 0) + (self.random.random() < 0.3)
            rpc = self.rpcs[number % 2]
            sent.append((prepared, rpc, rpc.send("entry.put", **asked), asked))
        for prepared, rpc, number, asked in sent:
            self._answered(prepared, rpc, number, asked, eyes)

    def _as_of(self, prepared: Prepared, eyes: Eyes) -> Prepared:
        deps = [Dep(d.name, d.made_from, d.tick) for d in prepared.deps]
        for dep in deps:
            if dep.kind not in {"object", "entry"}:
                look = eyes.look(dep.name)
                if look.barred or look.digest == SPECIAL:
                    return prepared._replace(way="digests")
                dep.made_from = look.digest
        return prepared._replace(deps=deps)

    def _answered(self, prepared: Prepared, rpc: Rpc, number: int, asked: dict[str, Json], eyes: Eyes) -> None:
        key, stood = prepared.key, self.oracle.entries.get(prepared.key)
        words = f"put {key} {prepared.way} {[dep.name for dep in prepared.deps]}"
        self.steps.append(words)
        try:
            told = rpc.result(number)
        except RpcError as error:
            self.tally[f"puts refused: {error.code}"] += 1
            if error.code == "entry.conflict":
                self._expect("based_on" in asked and asked["based_on"] != self.book.version(key), words, error)
            else:
                self._expect(self._is_full(error), words, error)
            return
        self._expect(asked.get("based_on", self.book.version(key) or 0) == (self.book.version(key) or 0), words, told)
        self.tally[f"puts: {prepared.way}"] += 1
        if "op" in asked:
            again = rpc("entry.put", **asked)
            self._expect(again["version"] == told["version"], words, again)
        unproven = {unwire(dep).decode(errors="surrogateescape") for dep in told["unproven"]}
        deps = [Dep(dep.name, dep.made_from, dep.tick, dep.name in unproven) for dep in prepared.deps]
        self._expect(not unproven or prepared.way == "clock" or "fetched_at" in asked, words, told)
        self.tally["puts: unproven dependencies"] += len(unproven)
        if prepared.way == "clock":
            self.tally["puts: shown dependencies"] += sum(dep.kind not in {"object", "entry"} for dep in deps) - len(
                unproven
            )
        looks = self.book.looks([*deps, *(stood.deps if stood else ())], eyes)
        right = self.oracle.of_key(key, looks) if stood else frozenset({"unknown"})
        finding = self.oracle.judge(deps, told["verdict"], looks)
        self._judged_put(finding, words, told)
        born_fresh = told["verdict"]["verdict"] == "fresh"
        clock = prepared.position if "fetched_at" in asked else None
        older = None if stood is None or None in {clock, stood.clock} else (clock or 0) < (stood.clock or 0)
        if told.get("late"):
            self.tally["puts: late"] += 1
            self._expect("fresh" in right and (not born_fresh or older is not False), words, told)
            return
        self._expect(not (right == {"fresh"} and (not born_fresh or older)), words, told)
        entry = Entry(told["version"], asked.get("value"), deps, len(self.steps) - 1, clock)
        self.book.keep(key, entry, looks)
        if stood is not None:
            self.book.mark_names(SAME_VALUE if entry.version == stood.version else REPLACED, [f"entry:{key}"])

    def _judged_put(self, finding: Finding, words: str, told: Json) -> None:
        if finding is Finding.FALSE_FRESH:
            raise Wrong(self._account(f"false fresh when put: {words}: {told}", 0))
        if finding is not Finding.RIGHT:
            self.tally[f"puts: {finding}"] += 1
            self.steps.append(f"  {finding}: {str(told)[:1000]}")

    def _is_full(self, error: RpcError) -> bool:
        return error.code == "store.full" and self.fault == FULL

    def _expect(self, right: bool, words: str, told: object) -> None:
        if not right:
            raise Wrong(self._account(f"not as it must be: {words}: {told}", len(self.steps) - 60))

    def put_sums(self) -> None:
        """The command's way: what sha256sum read."""
        eyes, deps = self.eyes(), list[Dep]()
        for _ in range(3):
            name = f"file:{self.place.present()}"
            look = eyes.look(name)
            if look.digest.startswith("sha256:") and not look.barred:
                deps.append(Dep(name, look.digest, self.oracle.now()))
        if not deps:
            return
        key = "p0"
        if key in self.oracle.entries:
            self.forget(key)
        put_by_sums(self.daemon.socket, self.daemon.home, self.place.root, key, deps)
        told = self.rpcs[0]("entry.get", key=key, root=self.place.root, timeout_ms=PATIENCE_MS)
        self.book.keep(key, Entry(told["version"], "sums", deps, len(self.steps), None), self.book.looks(deps, eyes))
        self.book.mark_names(REPLACED, [f"entry:{key}"])
        self.tally["puts: sums"] += 1

    # -- questions

    def _whom(self) -> list[str]:
        """Those that were touched, the thin cells first, and not more of the others."""
        entries = self.oracle.entries
        touched = [key for key, entry in entries.items() if entry.mark]
        self.random.shuffle(touched)
        touched.sort(key=lambda key: self.table.asked(*self._cell(entries[key])) > 4 * self._enough())
        touched = touched[:_ASKED]
        others = [key for key, entry in entries.items() if not entry.mark]
        others = self.random.sample(others, min(len(others), max(3, len(touched) * 2 // 3)))
        return touched + others

    def _enough(self) -> int:
        return 100

    def _cell(self, entry: Entry) -> tuple[str, str]:
        if entry.mark is None:
            return UNTOUCHED, min(entry.deps, key=lambda d: d.kind).kind if entry.deps else "none"
        name, kinds = entry.mark
        return name, min(sorted(kinds), key=lambda kind: self.table.asked(name, kind))

    def ask(self, keys: list[str], eyes: Eyes, sent_all: Callable[[], None] = lambda: None) -> list[str]:
        """Asks about these, judges, and gives those that are not fresh. `sent_all` is called before any answer."""
        sent: list[tuple[list[str], dict[str, Json], str, Rpc, int]] = []
        left = list(dict.fromkeys(keys))
        self.random.shuffle(left)
        while left:
            chunk, left = left[:_CHUNK], left[_CHUNK:]
            how = self.random.choice(_QUESTIONS)
            method = "entry.check"
            asked: dict[str, Json] = {"keys": chunk}
            if self.random.random() < 0.2:
                left, chunk = chunk[1:] + left, chunk[:1]
                method = self.random.choice(("entry.check", "entry.get", "entry.revalidate", "deps.check"))
                asked = {"key": chunk[0]}
                if method == "deps.check":
                    alone = self.putting.question(self.oracle.entries[chunk[0]].deps)
                    method, asked = (method, {"deps": alone}) if alone else ("entry.check", asked)
                how = {} if method == "entry.revalidate" else how
            rpc = self.rpcs[len(sent) % 2]
            number = rpc.send(method, root=self.place.root, timeout_ms=PATIENCE_MS, **asked, **how)
            sent.append((chunk, how, method, rpc, number))
        sent_all()
        failing: list[str] = []
        for chunk, how, method, rpc, number in sent:
            try:
                told = rpc.result(number)
            except RpcError as error:
                self._expect(method == "entry.revalidate" and self._is_full(error), f"{method} {chunk}", error)
                continue
            if method == "entry.revalidate":
                self.oracle.entries[chunk[0]].clock = None
                told = told["verdict"]
            answers = told["verdicts"] if "verdicts" in told else {chunk[0]: told}
            failing += [key for key in chunk if self._judge(key, answers[key], how, eyes)]
        return failing

    def _judge(self, key: str, answer: Json, how: dict[str, Json], eyes: Eyes) -> bool:
        entry = self.oracle.entries[key]
        strict = "revalidate" in how
        finding = self.oracle.judge(entry.deps, answer, self.book.looks(entry.deps, eyes), strict=strict)
        verdict = answer["verdict"]
        cell = self._cell(entry)
        self.tally[f"by {answer['checked']}"] += 1
        if strict:
            self.tally[f"strict: {verdict}"] += 1
        else:
            self.table.count(*cell, verdict, finding)
            if self.fault:
                self.faults[self.fault].update(("asked", verdict, *([finding] if finding != Finding.RIGHT else [])))
        if finding is not Finding.RIGHT:
            words = f"{finding} of {key} ({cell}), asked {how}, fault {self.fault!r}: {str(answer)[:1500]}"
            account = self._account(words, entry.step)
            if finding in {Finding.FALSE_FRESH, Finding.WRONG_EVIDENCE} or self.table.total[finding] <= 3:
                self.found.append(account)
            if finding is Finding.FALSE_FRESH:
                raise Wrong(account)
        if verdict == "fresh" and not strict:
            entry.mark = None
        return bool(verdict != "fresh")

    def _account(self, words: str, start: int) -> str:
        first = max(start, len(self.steps) - 400, 0)
        steps = "\n".join(f"  {number}: {step}" for number, step in enumerate(self.steps[first:], first))
        return f"{words}\nseed {self.seed}, steps since:\n{steps}"
