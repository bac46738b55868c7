"""A disk that says something else without a sign, as nobody promises it will not: a self-check tells of it.

The bytes of a file are changed on the block device below its file system, and its pages are dropped: the `stat` is what
it was. That answers by seals do not see this is told in docs/guarantees.md.
"""

from __future__ import annotations

import os
import time

import pytest
from sealing_help import image, in_namespace, may_mount, mount, unmount
from support import HANG, Daemon, Workspace
from test_seals_blackbox import comes_to_be_sealed

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")

_ONE, _TWO = b"one of many words\n" * 500, b"two of many words\n" * 500


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return os.fsencode(tmp_path_factory.mktemp("lies"))


def lies(home: bytes) -> None:
    disk = image("ext4", home)
    there = os.path.join(home, b"there")
    os.mkdir(there)
    mount(disk, there)
    daemon = Daemon(home=os.fsdecode(home) + "/provd", roots=[os.fsdecode(there)])
    try:
        os.makedirs(f"{daemon.home}/.config/provd")
        with open(f"{daemon.home}/.config/provd/config.toml", "w") as config:
            config.write("[self_check]\nshare = 1\n")
        with open(there + b"/f", "wb") as file:
            file.write(_ONE)
        os.sync()
        ws = Workspace(daemon.start().scanned(), os.fsdecode(there), "")
        ws.put("k", "file:f")
        comes_to_be_sealed(ws, "k")
        before = ws.clock()
        _change_below(disk, there + b"/f")
        assert ws.check("k")["why"] == "untouched", "a stat does not show it"
        deadline = time.monotonic() + HANG
        while not (told := ws("daemon.status")["self_check"])["mismatches"]:
            ws.check("k")
            assert time.monotonic() < deadline, told
        assert ws.found("k") == ("dirty", "changed")
        while not (records := ws("log.since", clock=before)["records"]):
            assert time.monotonic() < deadline
        assert any("self-check" in record.get("reason", "") for record in records), records
        assert "self-check: a seal stood for another content than is there" in daemon.said()
    finally:
        daemon.close()
        unmount(there)


def _change_below(disk: bytes, path: bytes) -> None:
    """Other bytes on the device, and a reader has to go there; no time moves, and no event tells of it."""
    was = os.stat(path)
    with open(disk, "r+b") as device:
        content = device.read()
        assert content.count(_ONE) == 1
        device.seek(content.index(_ONE))
        device.write(_TWO)
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert file.read() == _TWO
    assert os.stat(path)[:10] == was[:10]


def test_a_disk_that_lies_is_found_out(home: bytes) -> None:
    in_namespace(lies, home)
