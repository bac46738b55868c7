"""The store on file systems that stop taking writes: ext4 that turned read-only, a disk that fails, a quota.

Each in a mount namespace of its own, so that what is mounted goes with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest
from fault_ground import (
    FULL,
    UNUSABLE,
    Failing,
    Fault,
    code,
    command,
    compiled,
    fill,
    findings,
    new_device,
    through,
)
from sealing_help import in_namespace, may_mount, mount, mounted_image, skip, unmount
from support import HANG, Daemon, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")


def ends_read_only(home: bytes) -> None:
    """As ext4 does of itself at the first error. Broken: a store that cannot be opened for writing ends the daemon."""
    with new_device("ext4", os.fsdecode(home)) as device:
        daemon = Daemon(state=os.path.join(device.path, "state"))
        try:
            ws = daemon.start().scanned().workspace()
            ws.write("f", "one")
            version = ws.put("k", "file:f")["version"]
            device.sync()  # a page that is clean must be written anew, and cannot be
            mount("-o", "remount,errors=remount-ro", device.path)
            mount("-o", "remount,abort", device.path)
            for number in range(3):
                assert code(ws, "entry.put", key=f"k{number}", value=1, deps=[]) == UNUSABLE
                assert ws.found("k") == ("fresh", "same")
            ws.write("f", "two")
            assert ws.found("k") == ("dirty", "changed")
            _says_read_only(daemon)
            assert daemon.stop() == 0, daemon.said()
            _says_read_only(daemon)
            device.back()
            ws = daemon.start().scanned().workspace()
            assert ws.check("k")["version"] == version
            assert ws.found("k") == ("dirty", "changed")
            assert ws.found("k0") == ("unknown", "no-entry")
            assert ws.put("k0")["version"] > version
        finally:
            daemon.close()


def _says_read_only(daemon: Daemon) -> None:
    """Its flags do not say so. Broken: doctor says that it is nearly full, and start asks for permissions."""
    (found,) = findings(daemon).items()
    assert found[0] == "state.readonly"
    assert found[1].startswith(f"findmnt -T {daemon.state}  # ")
    if daemon.alive:
        assert "read-only" in daemon.rpc("daemon.status")["store"]["reading_only"]
        said = " ".join(command(daemon, "status")[1].split())
        assert f"reading alone: the file system of {daemon.state}/store is read-only" in said
        return
    for word in ("start", "run"):
        status, said = command(daemon, word)
        assert (status, f"the file system of {daemon.state} is read-only: no daemon starts" in said) == (5, True), said
        assert f"next: findmnt -T {daemon.state}" in said


def is_shut_down(kind: str, home: bytes) -> None:
    """No call gets anything of it. On xfs a page that was read still answers, and on ext4 nothing can be written."""
    with new_device(kind, os.fsdecode(home)) as device:
        daemon = Daemon(state=os.path.join(device.path, "state"))
        try:
            ws = daemon.start().scanned().workspace()
            ws.write("f", "one")
            version = ws.put("k", "file:f")["version"]
            device.lose_power("shutdown")
            with contextlib.nullcontext() if kind == "xfs" else contextlib.suppress(ConnectionError):
                # on ext4 a record of the watcher may have met the end first
                assert code(ws, "entry.put", key="k0", value=1, deps=[]) == UNUSABLE
            if kind == "xfs":
                ws.write("f", "two")
                assert ws.found("k") == ("dirty", "changed")
                assert code(ws, "entry.put", key="k0", value=1, deps=[]) == UNUSABLE
                assert "Input/output error" in ws.rpc("daemon.status")["store"]["unusable"]
                _says_failing(daemon)
                daemon.kill9()
            assert daemon.process is not None
            daemon.process.wait(HANG)
            assert "Traceback" not in daemon.said()
            _says_failing(daemon)
            for word in ("start", "run"):
                status, said = command(daemon, word)
                assert (status, f"the disk of {daemon.state} fails" in said) == (5, True), said
            daemon.disconnect()
            device.back()
            ws = daemon.start().scanned().workspace()
            assert ws.check("k")["version"] == version
            assert ws.found("k0") == ("unknown", "no-entry")
        finally:
            daemon.close()


def _says_failing(daemon: Daemon) -> None:
    (found,) = findings(daemon).items()
    assert found[0] == "state.failing"
    assert found[1].startswith("findmnt -T ")
    assert "sudo dmesg | tail -n 20  # " in found[1]


def ext4_is_shut_down(home: bytes) -> None:
    """Broken: that its disk fails is told as a want of permissions, or of room."""
    is_shut_down("ext4", home)


def xfs_is_shut_down(home: bytes) -> None:
    """Broken: a descriptor of the lock is looked at for each request, or LMDB's table of readers lies in its file."""
    is_shut_down("xfs", home)


def what_is_in_memory_alone_is_not_acknowledged(home: bytes) -> None:
    """The page that makes a commit count could neither be synced nor taken back, and then the power goes.

    Broken: a commit that can be read again after it failed is taken for durable.
    """
    library = compiled(os.fsdecode(home))
    if library is None:
        skip("no gcc here")
        return
    with new_device("ext4", os.fsdecode(home)) as device:
        for most in (2, 1 << 30):  # the disk is well again, or never
            daemon = Failing(library, state=os.path.join(device.path, f"state{most}"))
            try:
                there = _puts(daemon, most)
                device.lose_power("shutdown")
                daemon.kill9()
                device.back()
                daemon.mend()
                ws = daemon.start().scanned().workspace()
                for key, version in there.items():
                    assert ws.check(key)["version"] == version, (most, key)
                assert ws.put("after")["version"] > max(there.values())
            finally:
                daemon.close()


def _puts(daemon: Failing, most: int) -> dict[str, int]:
    """What was acknowledged while it failed."""
    ws = daemon.start().scanned().workspace()
    there = {"before": ws.put("before")["version"]}
    daemon.fail("meta", "EIO", most)
    for number in range(3):
        try:
            there[f"k{number}"] = ws.put(f"k{number}")["version"]
        except (RpcError, OSError):  # it ends where it cannot be sure of what it shows
            continue
    assert daemon.failed
    return there


@contextlib.contextmanager
def _memory_disk() -> Iterator[tuple[str, str]]:
    """A block device and where its limit is written: what is more than that is an error of the device (zram)."""
    control = "/sys/class/zram-control/hot_"
    try:
        with open(control + "add", encoding="ascii") as adding:
            number = adding.read().strip()
    except OSError as error:
        skip(f"no block device in memory here: {error}")
        raise
    try:
        said = f"/sys/block/zram{number}/"
        _write(said + "disksize", "64M")
        if not os.path.exists(f"/dev/zram{number}"):
            _write(control + "remove", number)
            skip("its device has no name here")
        yield f"/dev/zram{number}", said + "mem_limit"
    finally:
        _write(control + "remove", number)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def writes_fail_in_the_kernel(home: bytes) -> None:
    """The device fails under the page cache: a sync says so once, and memory shows what the device does not have.

    A journal would have failed too, and the file system ended. Broken: what failed is written again over the pages that
    are still in memory; ext4 takes their places for written, so that the next sync is good and the device has nothing.
    """
    there, random = os.fsdecode(home), Random(5)
    with _memory_disk() as (device, limit):
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", device], check=True, capture_output=True)
        mount(device, there)
        daemon = Daemon(state=there + "/state")
        try:
            ws = daemon.start().scanned().workspace()
            kept, refused = {"before": ws.put("before")["version"]}, []
            for number in range(30):
                _write(limit, "4096" if number % 3 else "0")  # bytes: less than is in use, or no limit
                key, value = f"k{number}", random.randbytes(1 + number * 5000).hex()  # what repeats takes no room
                try:
                    kept[key] = ws.put(key, value=value)["version"]
                except RpcError as error:
                    assert error.code == UNUSABLE, error.error  # noqa: PT017 - it may take the write, too
                    refused.append(key)
                assert ws.verdict("before") == "fresh"
            assert len(refused) == 20
            assert len(kept) == 11
            daemon.stop()
            _write(limit, "4096")
            daemon.refused()  # and that costs nothing
            _write(limit, "0")
            daemon.start().scanned()
            kept["later"] = daemon.workspace().put("later", value=random.randbytes(100_000).hex())["version"]
            daemon.kill9()
            unmount(home)  # so that nothing is left in memory
            mount(device, there)
            ws = daemon.start().scanned().workspace()
            for key, version in kept.items():
                found = ws("entry.get", key=key)
                assert (found["version"], found["verdict"]) == (version, "fresh"), key
            assert {ws.found(key)[0] for key in refused} == {"unknown"}
        finally:
            daemon.close()
            unmount(home)


def btrfs_is_full(home: bytes) -> None:
    """It writes each page to a new place. Broken: the lock file is one like others, and who stores into it dies."""
    with mounted_image("btrfs", home) as there:
        place = os.fsdecode(there)
        daemon = Daemon(state=place + "/state")
        try:
            through(daemon, Fault(lambda: fill(place), lambda: os.unlink(place + "/fill"), FULL))
        finally:
            daemon.close()


def a_quota_of_btrfs_is_used_up(home: bytes) -> None:
    """There a store into a page of a mapped file counts. Broken: LMDB's table of readers is stored into in its file."""
    with mounted_image("btrfs", home) as there:
        top = os.fsdecode(there)
        place = top + "/volume"
        _btrfs("quota", "enable", top)
        _btrfs("subvolume", "create", place)
        group = "0/" + _btrfs("inspect-internal", "rootid", place).strip()
        limit = partial(_btrfs, "qgroup", "limit")
        daemon = Daemon(state=place + "/state")
        try:
            through(daemon, Fault(lambda: limit("64k", group, top), lambda: limit("none", group, top), FULL))
        finally:
            daemon.close()


def _btrfs(*words: str) -> str:
    found = shutil.which("btrfs", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if found is None:
        skip("there is no btrfs command here")
        return ""
    done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0 and words[0] == "quota":
        skip(f"there are no quotas here: {done.stderr[-200:]}")
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


CASES = [
    ends_read_only,
    ext4_is_shut_down,
    xfs_is_shut_down,
    what_is_in_memory_alone_is_not_acknowledged,
    writes_fail_in_the_kernel,
    btrfs_is_full,
    a_quota_of_btrfs_is_used_up,
]


@pytest.mark.parametrize("case", CASES)
def test_the_store_lies_on(case: Callable[[bytes], None], tmp_path: os.PathLike[str]) -> None:
    in_namespace(case, os.fsencode(tmp_path))
