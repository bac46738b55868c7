"""Who may still write a file when it is read, and who bars the way to it: no age of its times is a proof then.

Those of the list in docs/scenarios.md that are not here have their tests where seals have theirs.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import shutil
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from scening import all_say, comes_to_be_sealed, eventually, sealing, seals_hold
from support import Daemon, Workspace
from writing_ways import (
    CONTENT,
    MAY_LOOP,
    RESTS,
    Child,
    Mapping,
    Stalled,
    by_device,
    leased_for_writing,
    looped,
    mapped,
    opened,
    sent,
)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are made by their numbers there")


Holding = tuple[Callable[[], object], Callable[[], object]]
"""What stores, and what lets go."""


def by_descriptor(path: bytes) -> Holding:
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"a", 0)
    return lambda: os.pwrite(descriptor, b"two", 0), lambda: os.close(descriptor)


def by_descriptor_in_flight(path: bytes) -> Holding:
    take = sent(os.open(path, os.O_RDWR))
    got: list[int] = []

    def store() -> None:
        got.append(take())
        os.pwrite(got[0], b"two", 0)

    return store, lambda: os.close(got[0])


def by_mapping(path: bytes, *prepare: Callable[[Mapping], None]) -> Holding:
    mapping = Mapping(path)
    for step in (lambda each: each.store(b"a"), *prepare):
        step(mapping)
    return lambda: mapping.store(b"two"), mapping.close


def by_mapping_made_for_reading(path: bytes) -> Holding:
    mapping = Mapping(path, mmap.PROT_READ)

    def store() -> None:
        mapping.may_store()
        mapping.store(b"two")

    return store, mapping.close


def by_child(path: bytes, *prefix: str, forked: bool = False) -> Holding:
    child = Child(path, *prefix, forked=forked)
    return child.store, child.close


def by_nameless(path: bytes) -> Holding:
    """It had no name when it was opened for writing."""
    os.unlink(path)
    descriptor = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(descriptor, CONTENT)
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    return lambda: os.pwrite(descriptor, b"two", 0), lambda: os.close(descriptor)


def by_loop(path: bytes) -> Holding:
    held = contextlib.ExitStack()
    device = held.enter_context(looped(path))
    return lambda: by_device(device, b"loop"), held.close


def by_stalled_write(path: bytes) -> Holding:
    """Its time has moved long ago when what it writes arrives."""
    descriptor = os.open(path, os.O_RDWR)
    stalled = Stalled(descriptor)
    return lambda: stalled.goes_on(b"late"), lambda: os.close(descriptor)


HOLDERS: dict[str, Callable[[bytes], Holding]] = {
    "a descriptor": by_descriptor,
    "a descriptor in flight": by_descriptor_in_flight,
    "a mapping": by_mapping,
    "a mapping that was moved": lambda path: by_mapping(path, Mapping.moves),
    "a mapping made for reading": by_mapping_made_for_reading,
    "another process": by_child,
    "a forked process": lambda path: by_child(path, forked=True),
    "a file that had no name": by_nameless,
}
if MAY_LOOP:
    HOLDERS |= {
        "other namespaces": lambda path: by_child(path, "unshare", "--mount", "--net", "--uts", "--ipc"),
        "a device": by_loop,
        "a write that stalls": by_stalled_write,
    }
UNTOLD = {"a mapping", "a mapping that was moved", "another process", "a forked process", "other namespaces"}
"""Their store moves no time: only who reads sees it."""


class Held:
    """A file for each holder, all of them held until every time is old, and asked about all the while."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self.holding: dict[str, Holding] = {}
        for number, holder in enumerate(HOLDERS):
            with contextlib.suppress(OSError):
                self.holding[holder] = HOLDERS[holder](ws.write(f"h{number}/f", CONTENT))
                ws.put(holder, f"file:h{number}/f")
                ws.put(f"set: {holder}", f"glob:h{number}/[f]")

    def rest(self) -> None:
        """Asks until no time is young any more: each file is read, every time."""
        until = time.monotonic() + RESTS
        while time.monotonic() < until:
            for holder in self.holding:
                for key in (holder, f"set: {holder}"):
                    answer = self.ws.check(key)
                    assert (answer["verdict"], answer["checked"]) == ("fresh", "content"), (key, answer)


@pytest.fixture(scope="module")
def held() -> Iterator[Held]:
    with sealing() as ws:
        held = Held(ws)
        try:
            held.rest()
            yield held
        finally:
            for store, let_go in held.holding.values():  # those that no test has asked for
                store()
                let_go()


@pytest.mark.parametrize("holder", HOLDERS)
def test_whoever_may_still_write_leaves_a_file_without_a_seal(held: Held, holder: str) -> None:
    """However old its times are: age is no proof, only that nobody can write is one."""
    if holder not in held.holding:
        pytest.skip("not on this system")
    ws, name, keys = held.ws, f"h{list(HOLDERS).index(holder)}/f", (holder, f"set: {holder}")
    path = ws.path(name)
    store, let_go = held.holding.pop(holder)
    assert [ws.check(key)["checked"] for key in keys] == ["content"] * 2
    was = os.stat(path)
    store()
    if holder in UNTOLD | {"a write that stalls"}:
        assert os.stat(path).st_ctime_ns == was.st_ctime_ns, "a time tells of it: this is another story"
    assert [ws.verdict(key) for key in keys] == ["dirty"] * 2
    assert "fresh" not in [ws.verdict(key, revalidate=False) for key in keys]
    let_go()
    assert [ws.verdict(key) for key in keys] == ["dirty"] * 2
    ws.put(holder, f"file:{name}")
    comes_to_be_sealed(ws, holder)


def test_who_is_killed_with_a_mapping_has_stored_what_it_stored(own: Workspace) -> None:
    """Who knows of the end by a pipe knows it before the kernel has told of the file."""
    for number in range(5):
        path = own.write("f", CONTENT)
        child = Child(path)
        own.put("k", "file:f", fetched_at=own.clock())
        child.store()
        child.is_killed()
        assert own.verdict("k") == "dirty", number
        assert own.verdict("k", revalidate=False) != "fresh", number
        child.close()


# ---- leases


class Leaseless(Daemon):
    """A daemon that may not take leases of others' files, as an ordinary user's may not."""

    def command(self) -> list[str]:
        return ["setpriv", "--bounding-set", "-lease", *super().command()]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root has files of others")
def test_a_file_of_somebody_else_is_read_each_time() -> None:
    """No lease, no seal: and a store that moves no time is seen for that."""
    daemon = Leaseless()
    try:
        ws = daemon.start().scanned().workspace()
        if not seals_hold(ws.root):
            pytest.skip("nothing can be sealed here")
        for name in ("own", "others"):
            ws.write(name, CONTENT)
        os.chown(ws.path("others"), 12345, 12345)
        for name in ("own", "others"):
            ws.put(name, f"file:{name}")
        comes_to_be_sealed(ws, "own")
        for _ in range(10):
            assert ws.check("others")["checked"] == "content"
        with mapped(ws.path("others")) as mapping:
            mapping.store(b"a")
            assert ws.verdict("others") == "fresh"
            mapping.store(b"two")
            assert ws.verdict("others") == "dirty"
    finally:
        daemon.close()


def test_a_lease_of_somebody_else_is_not_waited_for(own: Workspace) -> None:
    """An open would wait until the holder gives it back, or 45 s: what cannot be read is unknown, at once."""
    path = own.write("f", CONTENT)
    own.put("k", "file:f")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with opened(path) as descriptor:
            assert eventually(lambda: leased_for_writing(descriptor)), "the daemon is not done with it"
            for content in (b"a", b"two"):
                os.pwrite(descriptor, content, 0)
                assert own.found("k", timeout_ms=20_000) == ("unknown", "unreadable")
                (item,) = own("entry.check", key="k", timeout_ms=20_000)["evidence"]
                assert item["hint"] == "somebody holds a lease on it: ask again when that is over"
        all_say(own, "k", "dirty")
    finally:
        signal.signal(signal.SIGIO, before)
