"""A client that moves to where other files are, on a connection that is open."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from asking import may_unshare
from support import HANG, Workspace, clean_environment

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
    root = ws.daemon.home if how == "root directory" else ""
    told = subprocess.run(
        [sys.executable, "-c", MOVING, ws.daemon.socket, root, json.dumps(question)],
        env=clean_environment(ws.daemon.home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    first, second = (json.loads(line)["result"] for line in told.stdout.splitlines())
    assert first["verdict"] == "fresh"
    assert (second["verdict"], second["why"]) == ("unknown", "namespace")
    assert ws.verdict("k") == "fresh"
