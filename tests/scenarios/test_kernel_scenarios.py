"""What a kernel does with files behind a sealed digest: every way to change one is in the next answer.

Those of the list in docs/scenarios.md that are not here have their tests where seals have theirs.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Callable, Iterator

import pytest
from scening import all_say, comes_to_be_sealed, sealing
from support import Workspace
from writing_ways import (
    CONTENT,
    LIBC,
    MAY_LOOP,
    SIZE,
    allocates,
    by_aio,
    by_device,
    by_handle,
    by_memory_of_a_process,
    by_ring,
    by_vm_writev,
    into_a_mapping,
    looped,
    mapped,
    opened,
    spliced,
    vmspliced,
)

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are made by their numbers there")


def at(offset: int, content: bytes = b"two", flags: int = 0) -> Callable[[bytes], None]:
    def act(path: bytes) -> None:
        with opened(path, os.O_RDWR | flags) as descriptor:
            os.pwrite(descriptor, content, offset)

    return act


def cut(path: bytes) -> None:
    with opened(path) as descriptor:
        os.ftruncate(descriptor, 5)


def emptied(path: bytes) -> None:
    with opened(path, os.O_WRONLY | os.O_TRUNC):
        pass


def direct(path: bytes) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    memory[:] = b"d" * mmap.PAGESIZE
    with opened(path, os.O_WRONLY | os.O_DIRECT) as descriptor:
        os.write(descriptor, memory)


def copied(path: bytes) -> None:
    beside(path)
    with opened(path + b".new", os.O_RDONLY) as source, opened(path) as target:
        os.copy_file_range(source, target, 100)


def sent_file(path: bytes) -> None:
    beside(path)
    with opened(path + b".new", os.O_RDONLY) as source, opened(path) as target:
        os.sendfile(target, source, 0, 100)


def beside(path: bytes, content: bytes = b"b" * SIZE) -> None:
    with open(path + b".new", "wb") as file:
        file.write(content)


def replaced(path: bytes) -> None:
    beside(path)
    os.rename(path + b".new", path)


def exchanged(path: bytes) -> None:
    beside(path)
    assert LIBC.renameat2(-100, path, -100, path + b".new", 2) == 0


def same_number(path: bytes) -> None:
    """Removed and made again at once: the number of the inode, size and mtime may all be those of before."""
    was = os.stat(path)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(b"b" * SIZE)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def stored(path: bytes) -> None:
    with mapped(path) as mapping:
        mapping.store(b"two")


def stored_after_a_load(path: bytes) -> None:
    with mapped(path) as mapping:
        assert mapping.load(SIZE - 1) == b"a"
        assert mapping.load() == b"a"
        mapping.store(b"two")


def stored_in_a_page_that_is_there(path: bytes) -> None:
    with mapped(path, mmap.MAP_POPULATE) as mapping:
        mapping.store(b"two", mmap.PAGESIZE)


def removed_pages(path: bytes) -> None:
    with mapped(path) as mapping:
        mapping.gives_back(mmap.PAGESIZE)


def with_its_old_time(way: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def act(path: bytes) -> None:
        was = os.stat(path)
        way(path)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    return act


def linked(path: bytes) -> None:
    os.link(path, path + b".other")
    at(0)(path + b".other")
    os.unlink(path + b".other")


def reopened(flags: int) -> Callable[[bytes], None]:
    def act(path: bytes) -> None:
        with opened(path, flags) as descriptor:
            at(0)(b"/proc/self/fd/%d" % descriptor)

    return act


def through_a_loop(path: bytes) -> None:
    with looped(path) as device:
        by_device(device, b"loop")


WAYS: dict[str, Callable[[bytes], object]] = {
    "written": at(0),
    "appended": at(0, flags=os.O_APPEND),
    "truncated by path": lambda path: os.truncate(path, 5),
    "longer by path": lambda path: os.truncate(path, SIZE + 5),
    "truncated by descriptor": cut,
    "opened and emptied": emptied,
    "written around the cache": direct,
    "by AIO": by_aio(),
    "by AIO around the cache": by_aio(os.O_DIRECT),
    "by io_uring": by_ring,
    "spliced": spliced,
    "vmspliced": vmspliced,
    "sent from a file": sent_file,
    "copied from a file": copied,
    "a hole": allocates(0x3),
    "zeros": allocates(0x10),
    "a part taken out": allocates(0x8),
    "a part put in": allocates(0x20),
    "pages removed": removed_pages,
    "stored": stored,
    "stored after a load": stored_after_a_load,
    "stored in a page that is there": stored_in_a_page_that_is_there,
    "stored by the memory of a process": by_memory_of_a_process,
    "stored by process_vm_writev": by_vm_writev,
    "read into a mapping": into_a_mapping,
    "by a link made since": linked,
    "by a descriptor opened anew": reopened(os.O_RDONLY),
    "by a descriptor of a path": reopened(os.O_PATH),
    "written, with its old time": with_its_old_time(at(0)),
    "stored, with its old time": with_its_old_time(stored_after_a_load),
    "replaced": replaced,
    "exchanged": exchanged,
    "made again": same_number,
}
if MAY_LOOP:
    WAYS |= {"by a handle": by_handle, "by a device over it": through_a_loop}


@pytest.fixture(scope="module")
def sealed() -> Iterator[Workspace]:
    """A daemon with a file for each way, which all come to rest together."""
    with sealing() as ws:
        for number, way in enumerate(WAYS):
            ws.write(f"w{number}/f", CONTENT)
            ws.put(way, f"file:w{number}/f")
            ws.put(f"set: {way}", f"glob:w{number}/[f]")
        yield ws


@pytest.mark.parametrize("way", WAYS)
def test_no_way_to_change_a_sealed_file_escapes(sealed: Workspace, way: str) -> None:
    path = sealed.path(f"w{list(WAYS).index(way)}/f")
    comes_to_be_sealed(sealed, way, f"set: {way}")  # anew, where anything was mounted meanwhile
    try:
        WAYS[way](path)
    except OSError as error:
        pytest.skip(f"not on this file system: {error}")
    with open(path, "rb") as file:
        assert file.read() != CONTENT, "nothing was changed: this is no story"
    for key in (way, f"set: {way}"):
        for verify in ("auto", "content"):
            assert sealed.verdict(key, verify=verify) == "dirty", (key, verify)
        assert sealed.verdict(key, revalidate=False) != "fresh", key


def private(path: bytes) -> None:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
        mapping[:3] = b"two"


def with_another_flag(path: bytes) -> None:
    """As chattr does it: not to be dumped (FS_IOC_SETFLAGS)."""
    with opened(path) as descriptor:
        fcntl.ioctl(descriptor, 0x40086602, struct.pack("i", 0x40))


def opened_and_let_go(path: bytes) -> None:
    for flags in (os.O_RDWR, os.O_PATH, os.O_RDONLY):
        with opened(path, flags):
            pass


HARMLESS: dict[str, Callable[[bytes], object]] = {
    "a private mapping": private,
    "a mode": lambda path: os.chmod(path, 0o600),
    "a time": lambda path: os.utime(path, (1, 1)),
    "an attribute": lambda path: os.setxattr(path, "user.x", b"1"),
    "a flag": with_another_flag,
    "opened and let go": opened_and_let_go,
    "written as it was": at(0, b"aaa"),
    "another name": lambda path: os.link(path, path + b".other"),
}


@pytest.mark.parametrize("act", HARMLESS)
def test_what_changes_no_content_is_fresh(own: Workspace, act: str) -> None:
    path = own.write("f", CONTENT)
    own.put("k", "file:f", fetched_at=own.clock())
    HARMLESS[act](path)
    all_say(own, "k", "fresh")
    at(0)(path)
    all_say(own, "k", "dirty")
