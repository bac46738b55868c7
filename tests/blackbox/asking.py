"""What the tests from outside share: refusals, lines written by hand, actions, and peers that see other files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from support import HANG, Daemon, Json, Rpc, RpcError, StartError, Workspace, clean_environment

PARSE, REQUEST, METHOD, PARAMS, OURS = -32700, -32600, -32601, -32602, -32000


def code(rpc: Rpc | Workspace, method: str, **params: Json) -> str:
    """The code of a request that must be refused."""
    with pytest.raises(RpcError) as caught:
        rpc(method, **params)
    assert caught.value.message
    assert caught.value.hint
    return caught.value.code


def one(answer: Json) -> Json:
    """The only item of evidence, complete."""
    (item,) = answer["evidence"]
    assert item["hint"]
    return item


def sh(ws: Workspace, script: str) -> None:
    subprocess.run(["bash", "-euc", script], cwd=ws.root, stdin=subprocess.DEVNULL, check=True, timeout=HANG)


def keys_of(answer: Json) -> list[str]:
    return [entry["key"] for entry in answer["entries"]]


PEER = """
import json, os, socket, sys
if sys.argv[2]:
    os.chroot(sys.argv[2]); os.chdir("/")
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); f = s.makefile("rb")
for request in json.loads(sys.argv[3]):
    s.sendall(json.dumps(request).encode() + b"\\n"); print(f.readline().decode(), end="")
"""


def ask_from(ws: Workspace, prefix: list[str], chroot: str, requests: list[tuple[str, Json]]) -> list[Json]:
    lines = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests)
    ]
    path = "/" + os.path.relpath(ws.daemon.socket, chroot) if chroot else ws.daemon.socket
    return run_client(ws, PEER, path, chroot, json.dumps(lines), prefix=prefix)


def run_client(ws: Workspace, program: str, *arguments: str, prefix: Sequence[str] = ()) -> list[Json]:
    """The lines that a program in Python prints, in a process of its own."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", program, *arguments],
        env=clean_environment(ws.daemon.home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def may_unshare() -> bool:
    return (
        os.geteuid() == 0
        and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


def contiguous(records: list[Json]) -> bool:
    numbers = [record["seq"] for record in records]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


def put_object(ws: Workspace, key: str, clock: str, name: str = "x") -> Json:
    return ws("entry.put", key=key, value=key, deps=[ws.object(name)], fetched_at=clock)


def begin(ws: Workspace, *writes: str, **params: Json) -> int:
    answer = ws("action.begin", writes=list(writes), **params)
    assert {"id", "clock", "affects"} <= answer.keys()
    number = answer["id"]
    assert type(number) is int
    return number


def open_actions(ws: Workspace) -> dict[int, Json]:
    return {action["id"]: action for action in ws.rpc("action.list")["actions"] if not action.get("outcome")}


def refusal(rpc: Rpc | Workspace, method: str, **params: Json) -> RpcError:
    """The error of a request that must be refused, complete with message and hint."""
    with pytest.raises(RpcError) as caught:
        rpc(method, **params)
    return complete(caught.value)


def complete(error: RpcError) -> RpcError:
    assert error.message, error.error
    assert error.hint, error.error
    assert error.number in {PARSE, REQUEST, METHOD, PARAMS, OURS}, error.error
    return error


def answer_to(rpc: Rpc, line: bytes) -> Json:
    """The next line after a line of bytes, on a connection where nothing else is awaited."""
    rpc.send_raw(line + b"\n")
    return rpc.line()


def request(method: str, params: Json = None, number: Json = 1) -> bytes:
    body: dict[str, Json] = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(body if params is None else {**body, "params": params}).encode()


def startup_refused(daemon: Daemon, *words: str, **env: str) -> StartError:
    """A start that must be refused: exit 5, a message that names `words`, no traceback."""
    error = daemon.refused(**env)
    assert error.code == 5, error.stderr
    for word in words:
        assert word.lower() in error.stderr.lower(), error.stderr
    assert "Traceback" not in error.stderr
    assert len(error.stderr.strip().splitlines()) >= 1
    return error
