"""Random operations on a real directory: in the end the table is the disk, and so is what the log alone tells.

Everything that changed is named.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import TYPE_CHECKING, Any
from unittest import mock

import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pumping import Kernel, Scene, on_disk, play, same
from story import Story

from provd.core.records import DigestState, Hashed, Mutation
from provd.recorder import mutations
from provd.store.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = 200
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
places = st.sampled_from([b"a", b"b", b"c", b"a/b", b"b/b", b"c/b"])
files = st.sampled_from([b"a/a", b"b/a", b"c/a", b"a/b/c", b"b/b/c", b"c/b/c", b"a", b"a/b"])
operations = st.one_of(
    st.tuples(st.just("write"), files, st.binary(max_size=3)),
    st.tuples(st.sampled_from(["mkdir", "plant", "plant", "remove", "out"]), places, st.just(b"")),
    st.tuples(st.sampled_from(["remove", "symlink", "chmod"]), files, st.just(b"")),
    st.tuples(st.sampled_from(["rename", "rename", "rename", "in"]), places, places),
    st.tuples(st.just("rename"), files, files),
    st.tuples(st.sampled_from(["read", "turn", "turn", "recorded", "settled"]), places, st.just(b"")),
    st.tuples(st.sampled_from(["recorded", "scan", "settled", "overflow", "restart"]), places, st.just(b"")),
)


def perform(kernel: Kernel, outside: bytes, what: str, one: bytes, two: bytes) -> None:
    path, other = kernel.root + b"/" + one, kernel.root + b"/" + two
    try:
        match what:
            case "write":
                kernel.write(path, two)
            case "mkdir":
                kernel.mkdir(path)
            case "plant":
                for part in (b"", b"/b", b"/c"):
                    kernel.mkdir(path + part)
                kernel.write(path + b"/a", b"planted")
                kernel.write(path + b"/b/c", b"planted")
            case "remove" if os.path.lexists(path):
                kernel.remove(path)
            case "symlink":
                kernel.symlink(path)
            case "chmod" if os.path.exists(path):
                kernel.chmod(path)
            case "rename" if could_move(path, other):
                kernel.rename(path, other)
            case "out" if os.path.lexists(path):
                kernel.take_out(path, outside + b"/%d" % len(os.listdir(outside)))
            case "in" if os.listdir(outside) and os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path):
                kernel.take_in(outside + b"/" + max(os.listdir(outside)), path)
            case _:
                pass
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
        pass


def could_move(source: bytes, path: bytes) -> bool:
    if (
        not os.path.lexists(source)
        or not os.path.isdir(os.path.dirname(path))
        or (path + b"/").startswith(source + b"/")
    ):
        return False
    if not os.path.lexists(path):
        return True
    return os.path.isfile(source) and os.path.isfile(path) and not os.path.islink(path) and not os.path.islink(source)


async def drive(scene: Scene, outside: bytes, script: list[Any], story: Callable[[], Story]) -> None:
    kernel: Kernel = scene.watcher
    lost = False
    for what, one, two in script:
        match what:
            case "recorded":
                assert await scene.pump.recorded()
                assert lost or story().differs(scene.root, digests=False) == []
            case "read":
                scene.pump.read()
            case "scan":
                await scene.pump.scan(directory_at(scene.root, one))
            case "settled":
                await scene.pump.settled()
                lost = False
                assert story().differs(scene.root) == []
            case "overflow":
                kernel.overflow()
                lost = True  # a gap says so, until a scan has come
            case "turn":
                await asyncio.sleep(0)
            case "restart":
                scene.pump.close()
                kernel.restart()
                scene.pump = scene.new_pump()
                await scene.pump.scan(scene.root)
            case _:
                perform(kernel, outside, what, one, two)
    await scene.pump.settled()


def directory_at(root: bytes, name: bytes) -> bytes:
    """The directory of that name, or the root."""
    return root + b"/" + name if os.path.isdir(root + b"/" + name) else root


def told(scene: Scene) -> set[bytes]:
    """The paths that mutations name."""
    found: set[bytes] = set()
    for _, record in scene.records():
        if isinstance(record, Mutation):
            found |= {record.path, record.source or record.path}
    return found


def is_told(path: bytes, names: set[bytes], root: bytes) -> bool:
    """Whether the path is named, or a directory above it below the root."""
    while path != root:
        if path in names:
            return True
        path = os.path.dirname(path)
    return False


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    first=st.lists(operations, max_size=6), script=st.lists(operations, max_size=30), batch=st.sampled_from([1, 2, 512])
)
def test_whatever_happens_in_the_end_the_table_is_the_disk_and_all_is_named(
    first: list[Any], script: list[Any], batch: int
) -> None:
    with mock.patch.object(mutations, "BATCH", batch), tempfile.TemporaryDirectory(dir=MEMORY) as base:
        root, outside = os.fsencode(base) + b"/root", os.fsencode(base) + b"/outside"
        os.mkdir(root)
        os.mkdir(outside)
        before = Kernel(root)
        for what, one, two in first:
            perform(before, outside, what, one, two)
        for one in (b"a", b"b"):
            perform(before, outside, "plant", one, b"")

        async def body(scene: Scene) -> None:
            await scene.pump.scan(root, first=True)
            assert same(scene.table(), on_disk(root))
            known, head = list(scene.table()), scene.store.head
            await drive(scene, outside, script, lambda: Story(known).follow(scene.records(head)))
            assert same(scene.table(), on_disk(root))
            names = told(scene)
            assert not [path for path in scene.watcher.named if not is_told(path, names, root)]
            check_digests(scene)
            assert Story(known).follow(scene.records(head)).differs(root) == []

        play(base, body, watcher=Kernel(root), map_size=1 << 26)


def check_digests(scene: Scene) -> None:
    """Each pending digest was told of once; what the table has is that of the file."""
    records = scene.records()
    pending = [at for at, r in records if isinstance(r, Mutation) and r.digest_state is DigestState.PENDING]
    hashed = [r.of for _, r in records if isinstance(r, Hashed)]
    assert sorted(hashed) == sorted(set(hashed))
    assert set(hashed) == set(pending)
    with scene.store.view() as view:
        for path, row in Files(view).below(scene.root):
            assert not row.pending
            if row.digest:
                with open(path, "rb") as file:
                    assert row.digest == xxhash.xxh3_128_digest(file.read())
            elif row.state.sort == "f":
                assert row.of == 0
