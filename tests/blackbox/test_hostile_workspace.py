"""A workspace, its names and its contents are somebody else's: nothing there makes the daemon change, open or tell what
it should not.
"""

from __future__ import annotations

import base64
import os
import select
import stat
from typing import TYPE_CHECKING, Final

import pytest
from asking import refusal
from support import Json, Workspace, tree_state, write_over

from provd.watch.syscalls import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import Daemon

_OPENED: Final = 0x20
"""IN_OPEN."""
_EVENT: Final = 16
SECRET: Final = "canary-3f1c9a"
DEPS: Final = ("tree:.", "glob:**", "glob:*", "names:**", "dir:.", "tree:way", "glob:way/*", "file:way/f", "tree:round")


def hostile(ws: Workspace) -> None:
    """Links that lead out, around and nowhere, files that are none, names that are odd."""
    outside = os.fsencode(ws.daemon.outside)
    os.makedirs(outside + b"/below", exist_ok=True)
    for name in (b"/f", b"/below/g", b"/lock", b"/store", b"/provd.log"):
        with open(outside + name, "wb") as file:
            file.write(b"kept")
    for link, target in (
        (b"way", outside),
        (b"round", b"."),
        (b"store", outside + b"/store"),
        (b"lock", outside + b"/lock"),
        (b"proc", b"/proc/self"),
        (b"mem", b"/proc/self/mem"),
        (b"zero", b"/dev/zero"),
        (b"nowhere", b"/nonexistent/a"),
        (b"itself", b"itself"),
        (b"up", b"../" * 300),
    ):
        os.symlink(target, ws.path(link))
    os.mkfifo(ws.path("pipe"))
    os.mkdir(ws.path("deep"))
    os.mkfifo(ws.path("deep/pipe"))
    for name in (b"\xff\xfe", b"a\nb", b"-rf", b"$(touch x)", b"`touch x`", b"\x1b[2J", b".gitignore", b"config.toml"):
        ws.write(name, b"*\n")


def everything_asked(ws: Workspace) -> None:
    """Each kind of question about all that is there."""
    names = sorted(os.listdir(ws.path("")))
    files: list[Json] = [{"dep": {"b64": _b64(b"file:" + name)}, "digest": "absent"} for name in names]
    for dep in DEPS:
        ws("deps.snapshot", deps=[dep])
    for verify in ("auto", "content", "log"):
        ws("deps.check", deps=files, verify=verify)
    ws("entry.put", key="all", value=1, deps=list(DEPS), as_of="put")
    ws("entry.put", key="shown", value=1, deps=list(DEPS), fetched_at=ws.clock())
    for key in ("all", "shown"):
        ws.check(key)
        ws.check(key, verify="content")
        ws("entry.revalidate", key=key)
    ws("action.record", writes=list(DEPS))
    ws.rpc("daemon.audit")
    ws.rpc("log.since", clock=ws.clock(), paths=[ws.root])


def _b64(name: bytes) -> str:
    return base64.b64encode(name).decode()


def test_a_workspace_makes_the_daemon_change_nothing(own: Workspace) -> None:
    hostile(own)
    before = tree_state(own.root), tree_state(own.daemon.outside)
    everything_asked(own)
    own.daemon.restart().scanned()
    everything_asked(own)
    own.rpc("root.remove", path=own.root)
    own.daemon.stop()
    assert (tree_state(own.root), tree_state(own.daemon.outside)) == before


@pytest.fixture
def opened(own: Workspace) -> Iterator[Callable[[], bool]]:
    """Whether any special file of the workspace was opened so far."""
    hostile(own)
    special = ["pipe", "deep/pipe"]
    if os.geteuid() == 0:
        try:
            os.mknod(own.path("device"), stat.S_IFCHR | 0o600, os.makedev(1, 5))  # as /dev/zero
            special.append("device")
        except PermissionError:  # a container that may not
            pass
    kernel = Kernel()
    watching = kernel.init()
    for name in special:
        kernel.add(watching, own.path(name), _OPENED)
    yield lambda: bool(select.select([watching], [], [], 0)[0]) and len(kernel.read(watching, 4096)) >= _EVENT
    os.close(watching)


def test_special_files_are_never_opened(own: Workspace, opened: Callable[[], bool]) -> None:
    everything_asked(own)
    own.daemon.restart().scanned()
    everything_asked(own)
    assert not opened()
    reader = os.open(own.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
    os.close(reader)
    assert opened()  # so it would have been seen


def test_what_is_said_holds_no_value(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(args=["--log-level", "debug"]).start().scanned()
    ws = daemon.workspace()
    ws.write("f", SECRET)
    own: dict[str, Json] = {"value": {"a": SECRET}, "meta": {"b": SECRET}}
    ws("entry.put", key="k", deps=["file:f"], as_of="put", **own)
    ws("entry.put", key="late", deps=["file:f"], fetched_at=ws.clock(), **own)
    ws("action.record", writes=["object:o"], note=SECRET)
    assert ws("entry.get", key="k", even_if=["dirty", "unknown"])["value"] == {"a": SECRET}
    refusal(ws, "entry.put", key="k", deps=["what:f"], **own)
    refusal(ws, "entry.put", key="k", deps="no list", **own)
    for line in (
        b'{"jsonrpc":"2.0","id":1,"method":"entry.put","params":{"value":"%b"' % SECRET.encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{}}' % SECRET.encode(),
        b"%b" % SECRET.encode(),
    ):
        rpc = daemon.connect()
        rpc.send_raw(line + b"\n")
        assert "error" in rpc.line()
    ws.write("f", SECRET + SECRET)
    assert ws.verdict("k") == "dirty"
    daemon.kill9()
    store = os.path.join(daemon.state, "store", "data.mdb")
    write_over(store, b"\0" * 64 + SECRET.encode() * 100)  # one that cannot be read is told of
    daemon.start()
    assert daemon.rpc("daemon.status")["pid"]
    daemon.stop()
    assert "store" in daemon.said()
    assert SECRET not in daemon.said()


@pytest.mark.skipif(not os.path.exists("/proc/net/unix"), reason="there is no proc here")
def test_the_only_sockets_are_of_this_machine(own: Workspace) -> None:
    everything_asked(own)
    assert own.daemon.process is not None
    process = f"/proc/{own.daemon.process.pid}"
    inodes = set()
    for number in os.listdir(f"{process}/fd"):
        try:
            target = os.readlink(f"{process}/fd/{number}")
        except FileNotFoundError:  # it was closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    with open(f"{process}/net/unix", errors="surrogateescape") as table:  # others have odd names
        of_machine = {line.split()[6] for line in table.readlines()[1:]}
    assert inodes
    assert inodes <= of_machine
