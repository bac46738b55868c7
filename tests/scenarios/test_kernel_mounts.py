"""What is mounted, moved and taken away under a daemon, and who writes from other namespaces: each in one of its own.

Each case is a function of its own process (`in_namespace`): who asks and the daemon are in the same namespace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from hung_mount import Hung
from scening import all_say, comes_to_be_sealed, gaps, mutations, never_fresh, records_since, root_of, sh, since
from sealing_help import image, in_namespace, may_mount, mount, mounted_image, skip, unmount
from support import Daemon, Workspace
from writing_ways import RESTS, mapped, opened

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")


@contextlib.contextmanager
def watching(home: bytes, root: str = "") -> Iterator[Workspace]:
    """A daemon on a root below `home`, or on another directory, with entries on what is there."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    daemon = Daemon(home=os.path.join(os.fsdecode(home), "home"), roots=[root] if root else None)
    try:
        yield Workspace(daemon.start().scanned(), daemon.roots[0], "")
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def put(ws: Workspace, *deps: str) -> None:
    for dep in deps:
        ws.put(dep, dep, fetched_at=ws.clock())
        all_say(ws, dep, "fresh")


def incomplete(ws: Workspace, clock: str) -> None:
    assert since(ws, clock)["complete"] is False
    assert gaps(records_since(ws.rpc, clock), ws.root)


def what_is_below_is_unmounted_for_good(home: bytes) -> None:
    with watching(home) as ws:
        sh(ws, "mkdir below; echo one > below/f; mount -t tmpfs none below; echo two > below/f")
        put(ws, "file:below/f", "tree:below", "glob:*/f")
        clock = ws.clock()
        sh(ws, "umount below")
        never_fresh(ws, "file:below/f", "tree:below", "glob:*/f")
        incomplete(ws, clock)
        sh(ws, "echo two > below/f")
        all_say(ws, "file:below/f", "fresh")


def a_mount_is_moved_inside(home: bytes) -> None:
    with watching(home) as ws:
        sh(ws, "mkdir a b; echo below > a/f; echo below > b/f; mount -t tmpfs none a; echo moved > a/f")
        put(ws, "file:a/f", "file:b/f", "tree:.")
        clock = ws.clock()
        sh(ws, "mount --move a b")
        never_fresh(ws, "file:a/f", "file:b/f", "tree:.")
        incomplete(ws, clock)


def something_is_mounted_above_the_root(home: bytes) -> None:
    top = os.path.join(os.fsdecode(home), "top")
    os.makedirs(f"{top}/mid/root")
    with watching(home, f"{top}/mid/root") as ws:
        ws.write("f", "one")
        put(ws, "file:f", "tree:.")
        clock = ws.clock()
        subprocess.run(["mount", "-t", "tmpfs", "none", f"{top}/mid"], check=True)
        never_fresh(ws, "file:f", "tree:.")
        incomplete(ws, clock)
        assert root_of(ws.daemon, ws.root)["state"] == "gone"
        ws.write("f", "one")
        all_say(ws, "file:f", "fresh")
        ws.write("f", "two")
        never_fresh(ws, "file:f")
        subprocess.run(["umount", f"{top}/mid"], check=True)
        all_say(ws, "file:f", "fresh")


def another_file_is_bound_over_one(home: bytes) -> None:
    with watching(home) as ws:
        ws.write("f", "one")
        ws.write("g", "two")
        put(ws, "file:f", "glob:f*", "tree:.")
        sh(ws, "mount --bind g f")
        never_fresh(ws, "file:f", "glob:f*", "tree:.")
        put(ws, "file:f")
        sh(ws, "echo more >> g")
        never_fresh(ws, "file:f", by_log=False)
        put(ws, "file:f")
        sh(ws, "umount f")
        never_fresh(ws, "file:f")


def what_others_mount_for_themselves_is_not_ours(home: bytes) -> None:
    with watching(home) as ws:
        sh(ws, "mkdir d; echo one > d/f")
        put(ws, "file:d/f")
        sh(ws, "unshare -m sh -c 'mount -t tmpfs none d; echo two > d/f'")
        all_say(ws, "file:d/f", "fresh")


ELSEWHERE = {
    "mount": "unshare -m",
    "user": "unshare -Ur",
    "process": "unshare -p --fork",
    "network": "unshare -n",
    "read-only for others": "unshare -m sh -c 'mount --bind . /mnt; mount -o remount,bind,ro .; cd /mnt; \"$@\"' sh",
}


def writers_of_other_namespaces_are_writers(home: bytes) -> None:
    with watching(home) as ws:
        for how in ELSEWHERE.values():
            sh(ws, "echo one > f; chmod 666 f")
            put(ws, "file:f")
            clock = ws.clock()
            sh(ws, f"{how} sh -c 'echo two > f'")
            never_fresh(ws, "file:f")
            assert mutations(ws, clock), "and events tell of it"
        put(ws, "file:f")
        descriptor = os.open("/", os.O_RDONLY)
        os.chroot(ws.root)
        try:
            with open("/f", "w") as file:
                file.write("from another root directory")
        finally:
            os.fchdir(descriptor)
            os.chroot(".")
            os.close(descriptor)
        never_fresh(ws, "file:f")


def what_is_bound_elsewhere_is_sealed_all_the_same(home: bytes) -> None:
    """As a directory of the host in a container: the inodes are the same."""
    place = os.path.join(os.fsdecode(home), "place")
    os.makedirs(f"{place}/real")
    os.mkdir(f"{place}/bound")
    subprocess.run(["mount", "--bind", f"{place}/real", f"{place}/bound"], check=True)
    with watching(home, f"{place}/bound") as ws:
        ws.write("f", "one")
        ws.put("k", "file:f")
        comes_to_be_sealed(ws, "k")
        with open(f"{place}/real/f", "w") as file:
            file.write("two")
        never_fresh(ws, "k")


def what_layers_hold_is_never_sealed(home: bytes) -> None:
    """Through them a lease is granted while somebody's mapping lives, and its store moves no time and tells nobody."""
    for name in ("low", "up", "work", "over"):
        os.mkdir(os.path.join(os.fsdecode(home), name))
    layers = b"lowerdir=%s/low,upperdir=%s/up,workdir=%s/work" % (home, home, home)
    mount("-t", "overlay", "overlay", "-o", layers, home + b"/over")
    with watching(home, os.fsdecode(home) + "/over") as ws:
        path = ws.write("f", b"a" * 12288)
        ws.put("k", "file:f")
        assert root_of(ws.daemon, ws.root)["coverage"] == "partial"
        for there in (path, home + b"/up/f"):
            with mapped(there) as mapping:
                mapping.store(b"a")
                until, was = time.monotonic() + RESTS, os.stat(path)
                while time.monotonic() < until:
                    for verify in ("auto", "log"):
                        answer = ws.check("k", verify=verify)
                        assert (answer["verdict"], answer["checked"]) == ("fresh", "content")
                mapping.store(b"b")
                assert os.stat(path).st_ctime_ns == was.st_ctime_ns, "a time tells of it: this is another story"
                never_fresh(ws, "k")
                mapping.store(b"a")


def what_the_upper_layer_holds_is_sealed_by_its_own_path(home: bytes) -> None:
    """And a writer through the layers is one there."""
    for name in ("low", "up", "work", "over"):
        os.mkdir(os.path.join(os.fsdecode(home), name))
    layers = b"lowerdir=%s/low,upperdir=%s/up,workdir=%s/work" % (home, home, home)
    mount("-t", "overlay", "overlay", "-o", layers, home + b"/over")
    with watching(home, os.fsdecode(home) + "/up") as ws:
        ws.write("f", b"a" * 12288)
        ws.put("k", "file:f")
        comes_to_be_sealed(ws, "k")
        with mapped(home + b"/over/f") as mapping:
            mapping.store(b"a")
            for _ in range(10):
                assert ws.check("k")["checked"] == "content"
            mapping.store(b"b")
            never_fresh(ws, "k", by_log=False)


def a_file_system_that_tells_nothing_is_read(home: bytes) -> None:
    """All that `stat` says is as before, for hours, and the content is another."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("there is no FUSE here")
    with watching(home) as ws:
        os.mkdir(ws.path("net"))
        lying = Hung(os.fsdecode(ws.path("net")), b"one", keeps=3600)
        try:
            ws.write("f", "one")
            for key in ("file:net/f", "file:f"):
                ws.put(key, key)
            comes_to_be_sealed(ws, "file:f")
            for content in (b"two", b"one", b"six", b"one"):
                lying.content = content
                for verify in ("log", "auto", "content"):
                    answer = ws.check("file:net/f", verify=verify)
                    wanted = "fresh" if content == b"one" else "dirty"
                    assert (answer["verdict"], answer["checked"]) == (wanted, "content"), answer
            assert ws.verdict("file:net/f", revalidate=False) != "fresh"
            late = ws("entry.put", key="late", value=1, deps=["file:net/f"], fetched_at=ws.clock())
            assert late["unproven"] == ["file:net/f"]
        finally:
            lying.end()


def nothing_is_mounted_at_proc(home: bytes) -> None:
    """As in some sandboxes: nobody can say what a client sees. Broken: a `Peer` that cannot be made."""
    mount("-t", "tmpfs", "none", "/proc")
    with watching(home) as ws:
        ws.write("f", "one")
        clock = ws.clock()
        for dep in ("file:f", "object:o"):
            ws("entry.put", key=dep, value=1, deps=[dep], fetched_at=clock)
        assert ws.found("file:f") == ("unknown", "namespace")
        assert ws.verdict("object:o") == "fresh"
        assert ws("daemon.status")["proc_missing"] is True
        unmount(b"/proc")
        ws.put("again", "file:f")
        assert ws.verdict("again") == "fresh", "it is looked at each question"
        assert "proc_missing" not in ws("daemon.status")


def a_subvolume_is_rolled_back(home: bytes) -> None:
    with mounted_image("btrfs", home) as there:
        top = os.fsdecode(there)
        run = ["btrfs", "-q", "subvolume"]
        subprocess.run([*run, "create", f"{top}/vol"], check=True)
        with open(f"{top}/vol/f", "w") as file:
            file.write("one")
        subprocess.run([*run, "snapshot", f"{top}/vol", f"{top}/old"], check=True)
        with watching(home, f"{top}/vol") as ws:
            ws.write("f", "two")
            put(ws, "file:f", "tree:.")
            comes_to_be_sealed(ws, "file:f")
            clock = ws.clock()
            os.rename(f"{top}/vol", f"{top}/away")
            os.rename(f"{top}/old", f"{top}/vol")
            never_fresh(ws, "file:f", "tree:.")
            incomplete(ws, clock)


def another_subvolume_is_mounted_in_its_place(home: bytes) -> None:
    """The file system stays mounted elsewhere, so that the kernel says nothing to a watch."""
    with mounted_image("btrfs", home) as there:
        top, place = os.fsdecode(there), os.path.join(os.fsdecode(home), "place")
        os.mkdir(place)
        for name, content in (("one", "one"), ("two", "two")):
            subprocess.run(["btrfs", "-q", "subvolume", "create", f"{top}/{name}"], check=True)
            with open(f"{top}/{name}/f", "w") as file:
                file.write(content)
            os.utime(f"{top}/{name}/f", (1, 1))
        device = subprocess.run(["findmnt", "-no", "SOURCE", top], capture_output=True, text=True, check=True)
        mount("-o", "subvol=one", device.stdout.strip(), place)
        with watching(home, place) as ws:
            put(ws, "file:f", "tree:.")
            comes_to_be_sealed(ws, "file:f")
            clock = ws.clock()
            subprocess.run(["umount", place], check=True)
            mount("-o", "subvol=two", device.stdout.strip(), place)
            never_fresh(ws, "file:f", "tree:.")
            incomplete(ws, clock)
        subprocess.run(["umount", place], check=True)


def shares(target: int, source: int) -> None:
    """A reflink of all of it (FICLONE)."""
    fcntl.ioctl(target, 0x40049409, source)


def exchanges_ranges(target: int, source: int) -> None:
    """XFS_IOC_EXCHANGE_RANGE, of all of both."""
    fcntl.ioctl(target, 0x40285881, struct.pack("<iIQQQQ", source, 0, 0, 0, 12288, 0))


def swaps_with_the_boot_loader(target: int, source: int) -> None:
    """EXT4_IOC_SWAP_BOOT: what is in the file goes where boot loaders are, and the other way round."""
    del source
    fcntl.ioctl(target, 0x6611)


@contextlib.contextmanager
def xfs_that_exchanges(home: bytes) -> Iterator[bytes]:
    made = image("xfs", home)
    if subprocess.run(["mkfs.xfs", "-q", "-f", "-i", "exchange=1", made], capture_output=True, check=False).returncode:
        skip("no xfs can be made here that exchanges ranges")
    os.mkdir(home + b"/there")
    mount("-o", "loop", made, home + b"/there")
    try:
        yield home + b"/there"
    finally:
        unmount(home + b"/there")


def by_ioctl(kind: str, call: Callable[[int, int], None]) -> Callable[[bytes], None]:
    def act(home: bytes) -> None:
        ground = xfs_that_exchanges(home) if call is exchanges_ranges else mounted_image(kind, home)
        with ground as there, watching(home, os.fsdecode(there)) as ws:
            ws.write("f", b"a" * 12288)
            ws.write("g", b"b" * 12288)
            ws.put("k", "file:f")
            comes_to_be_sealed(ws, "k")
            refused = ""
            with opened(ws.path("f")) as target, opened(ws.path("g")) as source:
                try:
                    call(target, source)
                except OSError as error:
                    refused = str(error)
            if not refused:
                with open(ws.path("f"), "rb") as file:
                    assert file.read() != b"a" * 12288, "nothing was changed: this is no story"
                assert ws.verdict("k") == "dirty"
                assert ws.verdict("k", revalidate=False) != "fresh"
        if refused:
            skip(f"not on this {kind}: {refused}")

    return act


def what_is_out_of_scope_is_seen_by_who_asks_for_content(home: bytes) -> None:
    """EXT4_IOC_MOVE_EXT gives the donor other extents, and moves no time of it."""
    with mounted_image("ext4", home) as there, watching(home, os.fsdecode(there)) as ws:
        for name, content in (("f", b"a"), ("g", b"b")):
            with open(ws.write(name, content * 12288), "rb") as file:
                os.fsync(file.fileno())
        ws.put("k", "file:f")
        comes_to_be_sealed(ws, "k")
        was, refused = os.stat(ws.path("f")), ""
        with opened(ws.path("f")) as donor, opened(ws.path("g")) as other:
            try:
                fcntl.ioctl(other, 0xC028660F, bytearray(struct.pack("<IIQQQQ", 0, donor, 0, 0, 3, 0)))
            except OSError as error:
                refused = str(error)
            os.posix_fadvise(donor, 0, 0, os.POSIX_FADV_DONTNEED)
        if not refused:
            with open(ws.path("f"), "rb") as file:
                now = file.read()
            assert os.stat(ws.path("f")).st_ctime_ns == was.st_ctime_ns, "a time tells of it: it is in scope"
            assert ws.verdict("k", verify="content") == ("fresh" if now == b"a" * 12288 else "dirty")
            assert now != b"a" * 12288, "nothing was changed: this is no story"
    if refused:
        skip(f"extents cannot be moved here: {refused}")


reflinked_on_xfs = by_ioctl("xfs", shares)
reflinked_on_btrfs = by_ioctl("btrfs", shares)
ranges_exchanged_on_xfs = by_ioctl("xfs", exchanges_ranges)
swapped_on_ext4 = by_ioctl("ext4", swaps_with_the_boot_loader)
for _name in ("reflinked_on_xfs", "reflinked_on_btrfs", "ranges_exchanged_on_xfs", "swapped_on_ext4"):
    globals()[_name].__name__ = _name

CASES = [
    what_is_below_is_unmounted_for_good,
    a_mount_is_moved_inside,
    something_is_mounted_above_the_root,
    another_file_is_bound_over_one,
    what_others_mount_for_themselves_is_not_ours,
    writers_of_other_namespaces_are_writers,
    what_is_bound_elsewhere_is_sealed_all_the_same,
    what_layers_hold_is_never_sealed,
    what_the_upper_layer_holds_is_sealed_by_its_own_path,
    a_file_system_that_tells_nothing_is_read,
    nothing_is_mounted_at_proc,
    a_subvolume_is_rolled_back,
    another_subvolume_is_mounted_in_its_place,
    reflinked_on_xfs,
    reflinked_on_btrfs,
    ranges_exchanged_on_xfs,
    swapped_on_ext4,
    what_is_out_of_scope_is_seen_by_who_asks_for_content,
]


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_under_a_daemon(case: Callable[[bytes], None], tmp_path_factory: pytest.TempPathFactory) -> None:
    in_namespace(case, os.fsencode(tmp_path_factory.mktemp("mounts")))
