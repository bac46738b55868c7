"""LMDB's table of readers, which lies in memory as soon as the environment is open, and is a table all the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provd.store import Store
from provd.store.locktable import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.store import Writer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it stays in its file elsewhere")


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[Store]:
    made = Store(os.path.join(tmp_path, "store"))
    yield made
    made.stop()


def _in_file(store: Store) -> bool:
    path = os.path.join(store.environment.directory, NAME)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return any(line.rstrip("\n").endswith(path) for line in maps)


def _write(number: int) -> Callable[[Writer], None]:
    def command(writer: Writer) -> None:
        writer.put_meta(b"x", b"%d" % number * 1000)

    return command


def test_no_page_of_the_file_is_stored_into_once_it_is_open(store: Store) -> None:
    """Broken: a disk that takes no writes ends the daemon by SIGBUS at the next question."""
    assert not _in_file(store)
    store.environment.reopen()
    assert not _in_file(store)
    assert os.path.getsize(os.path.join(store.environment.directory, NAME)) > 0


def test_who_reads_is_in_the_table_and_keeps_the_pages_of_its_moment(store: Store) -> None:
    """Broken: with the table lost, the pages that a view reads are written over by the next commits."""
    store.run(_write(0))
    before = b"0" * 1000
    with store.view() as view:
        for number in range(1, 50):
            store.run(_write(number))
        assert view.meta(b"x") == before
        assert str(os.getpid()) in store.environment.env.readers()
    with store.view() as view:
        assert view.meta(b"x") == b"49" * 1000


def test_who_opens_it_again_reads_the_newest_commit(store: Store) -> None:
    """Broken: what the table said of that when it was opened is not taken along."""
    for number in range(1, 4):
        store.run(_write(number))
        store.environment.reopen()
        with store.view() as view:
            assert view.meta(b"x") == b"%d" % number * 1000


def test_each_of_two_stores_of_a_process_has_a_table_of_its_own(store: Store, tmp_path: os.PathLike[str]) -> None:
    other = Store(os.path.join(tmp_path, "other"))
    try:
        assert not _in_file(other)
        other.run(_write(1))
        store.run(_write(2))
        with store.view() as one, other.view() as two:
            assert (one.meta(b"x"), two.meta(b"x")) == (b"2" * 1000, b"1" * 1000)
    finally:
        other.stop()


_BESIDE = """
import lmdb, sys
environment = lmdb.open(sys.argv[1], readonly=True, max_dbs=64)
print("open", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _beside(store: Store) -> Iterator[str]:
    """Another process that has the environment open, or tries to: the last line that it says."""
    command = [sys.executable, "-c", _BESIDE, store.environment.directory]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        yield said if said.startswith("open") else process.stdout.read()
        process.communicate()


@pytest.mark.parametrize("commits", [1, 2, 3, 4])
def test_who_has_it_open_from_before_takes_no_commit_away(tmp_path: os.PathLike[str], commits: int) -> None:
    """Broken: the file says that an older commit is the newest, and is believed since LMDB is not alone: it is lost."""
    first = Store(os.path.join(tmp_path, "store"))
    first.stop()
    with _beside(first) as said:
        assert said == "open\n"
        for number in range(commits):
            again = Store(os.path.join(tmp_path, "store"))
            again.run(_write(number))
            again.stop()
        last = Store(os.path.join(tmp_path, "store"))
        with last.view() as view:
            assert view.meta(b"x") == b"%d" % (commits - 1) * 1000
        last.environment.reopen()
        with last.view() as view:
            assert view.meta(b"x") == b"%d" % (commits - 1) * 1000
        last.stop()


def test_nobody_opens_it_beside_the_daemon(store: Store) -> None:
    """Broken: who believes the table in the file writes over the newest commits."""
    store.run(_write(1))
    with _beside(store) as said:
        assert "InvalidError" in said
    store.run(_write(2))
    with store.view() as view:
        assert view.meta(b"x") == b"2" * 1000
    store.stop()
    with _beside(store) as said:
        assert said == "open\n"
