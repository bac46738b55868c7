"""Places that hang: a few threads are lost there, then they are refused at once, and all else is read as ever."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from reading_help import place, reading, set_of, sha, write

from provd.core.reading import Trouble
from provd.disk import IgnoreRules, MountTable, ReadingJob, Workers, looking, signature_of
from provd.disk.mounts import UNKNOWN, Mounts, mounted
from provd.disk.places import HANGS, IN_ONE, Entry, Hangs, Places, Turn, place_of, place_of_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.core.reading import Found, Reading

RULES = IgnoreRules()
LONG = 60.0
"""Seconds that no test waits for."""
SHORT = 0.02
"""Seconds after which a question gives up what hangs."""


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield path


class Dead:
    """Has each `stat` at or below `path` hang until the place is let go."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.let_go = threading.Event()
        self.inside = 0
        self._lock = threading.Lock()
        self._real = os.stat

    def stat(self, path: Any, **how: Any) -> os.stat_result:
        if isinstance(path, bytes) and (path + b"/").startswith(self.path + b"/") and not self.let_go.is_set():
            with self._lock:
                self.inside += 1
            self.let_go.wait()
        return self._real(path, **how)


@pytest.fixture
def dead(here: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dead]:
    """A directory on a file system that does not answer, with some files."""
    for number in range(20):
        write(here + b"/m/%d" % number, b"%d" % number)
    made = Dead(here + b"/m")
    monkeypatch.setattr(os, "stat", made.stat)
    yield made
    made.let_go.set()


class Table(MountTable):
    """A mount table that says what it is told."""

    def __init__(self, mounts: Mounts) -> None:
        super().__init__("/none")
        self._mounts = mounts


class Pool(Workers):
    """Tells when all threads have come back that were given up, and counts what is handed to threads."""

    def __init__(self, mounts: Mounts = UNKNOWN) -> None:
        super().__init__(mounts=Table(mounts))
        self.all_back = threading.Event()
        self.handed = 0

    def _submit(self, work: Any, *, urgent: bool = False) -> bool:
        self.handed += 1
        return super()._submit(work, urgent=urgent)

    def _end(self, work: Any) -> None:
        super()._end(work)
        if self._lost == 0:
            self.all_back.set()

    async def ask(self, *wanted: Reading, timeout: float = LONG) -> list[Found]:  # noqa: ASYNC109
        found = await self.read(wanted, RULES, timeout)
        return [found[one] for one in wanted]


def mount(path: bytes) -> Mounts:
    """A mount table with one mount that may hang."""
    names = frozenset({b"", os.path.basename(path)})
    return Mounts(points={b"/": False, path: True}, names=names, kinds=mounted().kinds)


# ---- where things are


def test_a_place_is_the_mount_that_may_hang_or_else_the_directory() -> None:
    mounts = Mounts(points={b"/": False, b"/net": True, b"/net/local": False, b"/home": False})
    assert place_of(reading("file:/net/a/b/f"), mounts) == b"/net"
    assert place_of(reading("file:/home/../net//a/f"), mounts) == b"/net"
    assert place_of(reading("tree:/net"), mounts) == b"/net"
    assert place_of(reading("glob:/net/*/x"), mounts) == b"/net"
    assert place_of(reading("file:/network/f"), mounts) == b"/network"
    assert place_of(reading("file:/net/local/f"), mounts) == b"/net/local"
    assert place_of(reading("file:/home/f"), mounts) == b"/home"
    assert place_of(reading("file:/f"), mounts) == b"/"
    assert place_of(reading("tree:/home"), mounts) != place_of(reading("file:/home/f"), mounts)
    assert place_of_path(b"/net/x/y", mounts, apart=True) == b"/net"
    assert place_of_path(b"/home/x", mounts, apart=False) == b"/home"
    assert place_of_path(b"/home/x", mounts, apart=True) != place_of_path(b"/home/y", mounts, apart=True)


def test_a_root_that_hangs_is_no_place_of_its_own() -> None:
    assert Mounts(points={b"/": True}).may_hang_at(b"/home/f") is None


def turns(places: Places, count: int, mounts: Mounts = UNKNOWN) -> list[Turn]:
    return [Turn(places, f"work {number}", mounts) for number in range(count)]


def test_a_few_threads_enter_a_place_and_others_wait_for_their_turn() -> None:
    places = Places()
    *inside, late, later = turns(places, IN_ONE + 2)
    assert [turn.go(b"/x") for turn in inside] == [Entry.IN] * IN_ONE
    assert [late.go(b"/x"), later.go(b"/x"), late.go(b"/x")] == [Entry.FULL] * 3
    assert late.go(b"/y") is Entry.IN
    assert places.ready() == []
    inside[0].leave()
    assert places.ready() == [late.work]
    assert places.ready() == [later.work]  # whoever is not in need of it any more asks for the next
    assert places.ready() == []


def test_a_place_in_which_all_were_given_up_hangs_until_one_comes_back() -> None:
    places = Places()
    *inside, late, later = turns(places, IN_ONE + 2)
    for turn in inside:
        turn.go(b"/x")
    assert late.go(b"/x") is Entry.FULL
    for turn in inside:
        assert not places.hangs(b"/x")
        turn.give_up()
    assert places.hangs(b"/x")
    assert places.ready() == [late.work]  # to be refused
    assert later.go(b"/x") is Entry.HUNG
    inside[0].leave()
    assert not places.hangs(b"/x")
    assert later.go(b"/x") is Entry.IN
    for turn in [*inside, later]:
        turn.leave()
    assert not places.any_lost
    assert places._inside == {}


def test_work_that_nobody_waits_for_waits_for_nothing() -> None:
    places = Places()
    *inside, late = turns(places, IN_ONE + 1)
    for turn in inside:
        turn.go(b"/x")
    late.go(b"/x")
    places.forget(late.work)
    inside[0].leave()
    assert places.ready() == []
    assert places._waiting == {}


def test_a_walk_counts_where_it_is() -> None:
    places = Places()
    mounts = mount(b"/home/net")
    one, *others = turns(places, IN_ONE + 1, mounts)
    assert one.go(b"tree:/home") is Entry.IN
    one.cross(b"/home/a")
    assert one.place == b"tree:/home"
    one.cross(b"/home/net/a")
    assert one.place == b"/home/net"
    one.cross(b"/home/z")
    assert one.place == b"tree:/home"
    for turn in others:
        turn.go(b"/home/net")
    with pytest.raises(Hangs):
        one.cross(b"/home/net")
    assert one.place == b"tree:/home"


# ---- questions


@pytest.mark.parametrize("on_a_mount", [True, False])
def test_after_any_number_of_questions_about_a_dead_place_healthy_files_are_read(
    here: bytes, dead: Dead, on_a_mount: bool
) -> None:
    healthy = reading("file:", write(here + b"/f", b"x"))

    async def ask() -> None:
        pool = Pool(mount(dead.path) if on_a_mount else Mounts(kinds=mounted().kinds))
        for number in range(80):
            found = await pool.ask(reading("file:", dead.path + b"/%d" % (number % 20)), healthy, timeout=SHORT)
            assert found[0].trouble is Trouble.TIMEOUT
            assert (await pool.ask(healthy))[0].digest == sha(b"x")
        assert dead.inside == IN_ONE
        handed = pool.handed
        assert await pool.ask(reading("file:", dead.path + b"/1")) == [HANGS]
        if on_a_mount:
            with pytest.raises(TimeoutError, match="hangs"):
                await pool.call(signature_of, dead.path + b"/1", timeout=LONG, about=dead.path + b"/1")
        assert pool.handed == handed  # no thread was troubled
        dead.let_go.set()
        await asyncio.to_thread(pool.all_back.wait)
        while (found := await pool.ask(reading("file:", dead.path + b"/1"))) == [HANGS]:  # noqa: ASYNC110
            await asyncio.sleep(0)  # the last thread is back, and has not said so yet
        assert found[0].digest == sha(b"1")

    asyncio.run(ask())


def test_many_questions_at_once_about_a_dead_place_hold_nobody(here: bytes, dead: Dead) -> None:
    healthy = reading("file:", write(here + b"/f", b"x"))

    async def ask() -> None:
        pool = Pool(mount(dead.path))
        hanging = [
            asyncio.create_task(pool.ask(reading("file:", dead.path + b"/%d" % (number % 20)))) for number in range(200)
        ]
        for _ in range(20):
            assert (await pool.ask(healthy))[0].digest == sha(b"x")
        assert dead.inside == IN_ONE
        assert not any(task.done() for task in hanging)
        dead.let_go.set()
        assert {found.digest for (found,) in await asyncio.gather(*hanging)} == {sha(b"%d" % n) for n in range(20)}

    asyncio.run(ask())


def test_many_readings_of_one_question_lose_no_more_threads(here: bytes, dead: Dead) -> None:
    wanted = [reading("file:", dead.path + b"/%d" % number) for number in range(20)]
    healthy = [reading("file:", write(here + b"/h/%d" % number, b"%d" % number)) for number in range(20)]

    async def ask() -> None:
        pool = Pool(mount(dead.path))
        found = await pool.ask(*wanted, *healthy, timeout=1.0)
        assert {one.trouble for one in found[:20]} == {Trouble.TIMEOUT}
        assert [one.digest for one in found[20:]] == [sha(b"%d" % number) for number in range(20)]
        assert dead.inside <= IN_ONE

    asyncio.run(ask())


def test_sets_that_lead_into_a_dead_mount_lose_no_more_threads_however_they_are_asked(here: bytes, dead: Dead) -> None:
    wanted = [
        reading("tree:", here),
        reading("glob:", here + b"/*/1"),
        reading("glob:", here + b"/**"),
        reading("names:", here + b"/m/[1]"),
        reading("tree:", dead.path),
    ]

    async def ask() -> None:
        pool = Pool(mount(dead.path))
        for _ in range(5):
            for one in wanted:
                assert (await pool.ask(one, timeout=SHORT))[0].trouble is Trouble.TIMEOUT
        assert dead.inside == IN_ONE
        assert [await pool.ask(one) for one in wanted] == [[HANGS]] * 5
        names = set_of({b"f": ("f", None), b"m": ("d", None)})
        write(here + b"/f")
        assert (await pool.ask(reading("dir:", here)))[0].digest == names  # a directory in which one is mounted

    asyncio.run(ask())


def test_a_link_into_a_dead_mount_counts_for_its_own_directory(
    here: bytes, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.makedirs(here + b"/links")
    os.symlink(dead.path, here + b"/links/l")
    monkeypatch.setattr(dead, "path", here + b"/links/l")

    async def ask() -> None:
        pool = Pool(mount(here + b"/m"))
        for _ in range(10):
            await pool.ask(reading("file:", here + b"/links/l"), timeout=SHORT)
        assert dead.inside == IN_ONE
        assert await pool.ask(reading("file:", here + b"/links/l")) == [HANGS]
        assert (await pool.ask(reading("file:", here + b"/m/1")))[0].digest == sha(b"1")

    asyncio.run(ask())


def test_a_second_look_that_hangs_is_a_timeout_and_the_others_stand(here: bytes, dead: Dead) -> None:
    """The mount dies between reading and confirming."""
    dead.let_go.set()
    wanted = [reading("file:", dead.path + b"/1"), reading("file:", write(here + b"/f", b"x"))]
    mounts = mount(dead.path)
    places = Places()
    work = ReadingJob(wanted, RULES, mounts=mounts)
    turn, *others = turns(places, IN_ONE + 1, mounts)
    for _ in wanted:
        step = work._take(turn)
        assert step is not None
        step[0](step[1], turn)
    turn.leave()
    for other in others:
        other.go(dead.path)
        other.give_up()
    work.run(turn)
    assert work.finished
    assert work.found[wanted[0]] == HANGS
    assert work.found[wanted[1]].digest == sha(b"x")


def test_asking_about_many_paths_leaves_out_the_dead_ones(here: bytes, dead: Dead) -> None:
    paths = [dead.path + b"/%d" % number for number in range(10)]
    healthy = write(here + b"/h/f")

    async def ask() -> None:
        pool = Pool(mount(dead.path))
        for _ in range(4):
            found = await pool.each(signature_of, [*paths, healthy, here + b"/h/none"], 1.0)
            assert found == {healthy: signature_of(healthy), here + b"/h/none": None}
        assert dead.inside <= IN_ONE
        assert await pool.each(signature_of, [], LONG) == {}

    asyncio.run(ask())


def test_a_dead_root_says_nothing_of_the_one_beside_it(here: bytes, dead: Dead) -> None:
    beside = here + b"/beside"
    os.mkdir(beside)

    async def ask() -> None:
        pool = Pool()  # a mount that the table does not know
        for _ in range(10):
            assert set(await pool.each(signature_of, [dead.path, beside], SHORT, apart=True)) <= {beside}
            assert await pool.call(looking.real_directory, beside, timeout=LONG, about=beside)
        assert dead.inside == IN_ONE
        assert set(await pool.each(signature_of, [dead.path, beside], LONG, apart=True)) == {beside}
        with pytest.raises(TimeoutError, match="hangs"):
            await pool.call(looking.real_directory, dead.path, timeout=LONG, about=dead.path)

    asyncio.run(ask())


# ---- asking about paths


def test_real_paths_and_directories(here: bytes) -> None:
    real = os.path.realpath(here)
    write(here + b"/d/f")
    os.symlink(b"d", here + b"/l")
    asked = looking.RealPaths()
    assert asked(here + b"/l/f") == real + b"/d/f"
    assert asked(here + b"/l/none") == real + b"/d/none"
    assert asked(here + b"/l") == real + b"/d"
    assert asked(here + b"/l/..") == real
    assert asked(b"/none") == b"/none"
    st = os.stat(here + b"/d")
    assert looking.real_directory(here + b"/l") == (real + b"/d", looking.Directory(real + b"/d", st.st_dev, st.st_ino))
    assert looking.real_directory(here + b"/d/f") == (real + b"/d/f", None)
    assert looking.real_directory(here + b"/none") == (real + b"/none", None)
    assert signature_of(here + b"/d/f/x") is None
    with pytest.raises(OSError, match="too long"):
        signature_of(here + b"/" + b"x" * 300)
