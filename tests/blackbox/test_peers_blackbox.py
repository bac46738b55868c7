"""A client that moves to where other files are, on a connection that is open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from asking import may_unshare, run_client
from sealing_help import in_namespace, may_mount
from support import HANG, Daemon, Json, Workspace

MOVING = """
import ctypes, json, os, socket, sys
path, root, question = sys.argv[1:]
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(path); f = s.makefile("rb")
def ask():
    s.sendall(question.encode() + b"\\n"); print(f.readline().decode(), end="")
ask()
if root:
    os.chroot(root)
elif ctypes.CDLL(None, use_errno=True).unshare(0x20000):
    raise OSError(ctypes.get_errno(), "unshare")
ask()
"""


@pytest.mark.parametrize("verify", ["auto", "content"])
@pytest.mark.parametrize("how", ["mount namespace", "root directory"])
def test_a_client_that_moves_on_an_open_connection_is_seen_there(ws: Workspace, how: str, verify: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a namespace and to change the root directory")
    if how == "mount namespace" and not may_unshare():
        pytest.skip("no mount namespace may be made here")
    ws.write("f", "one")
    ws.put("k", "file:f")
    question = {"jsonrpc": "2.0", "id": 1, "method": "entry.check"}
    question["params"] = {"key": "k", "root": ws.root, "verify": verify}
    first, second = _asked(ws, ws.daemon.home if how == "root directory" else "", question)
    assert first["verdict"] == "fresh"
    assert (second["verdict"], second["why"]) == ("unknown", "namespace")
    assert ws.verdict("k") == "fresh"


def _asked(ws: Workspace, root: str, question: Json) -> list[Json]:
    """The answers to a client before and after it moved: below `root`, or where that is empty to another namespace."""
    told = run_client(ws, MOVING, ws.daemon.socket, root, json.dumps(question))
    return [line["result"] for line in told]


def another_root_that_is_the_same_directory(home: bytes) -> None:
    """A bind mount of the root has its device and inode, and none of what is mounted in it."""
    there, bound = os.fsdecode(home) + "/there", os.fsdecode(home) + "/bound"
    for path in (there, bound):
        os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "none", there], check=True)
    subprocess.run(["mount", "--bind", "/", bound], check=True)
    daemon = Daemon(home=os.fsdecode(home) + "/provd", roots=[there])
    try:
        ws = Workspace(daemon.start().scanned(), there, "")
        ws.write("f", "mounted")
        ws.put("k", "file:f")
        question = {"jsonrpc": "2.0", "id": 1, "method": "entry.check", "params": {"key": "k", "root": there}}
        first, second = _asked(ws, bound, question)
        assert first["verdict"] == "fresh"
        assert (second["verdict"], second["why"]) == ("unknown", "namespace")
    finally:
        daemon.close()


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_a_root_that_is_a_bind_mount_of_the_root_is_another(tmp_path_factory: pytest.TempPathFactory) -> None:
    in_namespace(another_root_that_is_the_same_directory, os.fsencode(tmp_path_factory.mktemp("bound")))


LEAVING = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"log.clock"}\\n'); s.recv(1000)  # it was looked at
s.sendall(sys.argv[2].encode()); os._exit(0)
"""


def test_what_a_client_said_and_did_not_wait_for_is_kept_as_it_meant_it(ws: Workspace) -> None:
    ws.write("f", "one")
    put: Json = {"jsonrpc": "2.0", "method": "entry.put"}
    put["params"] = {"key": "k", "value": 1, "deps": ["file:f"], "as_of": "put", "root": ws.root}
    said = (json.dumps(put) + "\n") * 20
    subprocess.run([sys.executable, "-c", LEAVING, ws.daemon.socket, said], stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + HANG
    while (answer := ws.check("k"))["why"] == "no-entry":
        assert time.monotonic() < deadline
    assert answer["verdict"] == "fresh"
