"""Lines that are too long and clients that do not read, vanish or are too many: nobody else waits."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import threading

import pytest
from asking import OURS, PARSE, REQUEST, answer_to, complete, request
from support import HANG, MIB, Daemon, RpcError, Workspace

LINE = 16 * MIB


# ---- lines that are too long, readers that do not read


def test_a_line_of_16_mib_is_read(ws: Workspace) -> None:
    body = request("log.clock")
    reply = answer_to(ws.rpc, body + b" " * (LINE - 1 - len(body)))
    assert reply["result"]["clock"]


@pytest.mark.parametrize("ended", [True, False], ids=["with newline", "without"])
def test_a_line_over_16_mib_gets_an_error_and_ends_the_connection(ws: Workspace, ended: bool) -> None:
    rpc = ws.daemon.connect()

    def send() -> None:
        with contextlib.suppress(OSError):
            rpc.send_raw(b"x" * (LINE + 1) + b"\n" * ended)

    sender = threading.Thread(target=send)
    sender.start()
    error = complete(RpcError(rpc.line()["error"]))
    assert error.number in {PARSE, REQUEST, OURS}
    assert rpc.at_end()
    sender.join()
    assert ws.clock()


def hung_up(sock: socket.socket) -> bool:
    """Waits, without reading, until the other side closed the connection."""
    poller = select.poll()
    poller.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poller.poll(HANG * 1000))


def test_a_client_that_never_reads_is_cut_off_while_others_are_served(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    silent = ws.daemon.connect()
    for _ in range(12):  # 96 MiB of answers
        silent.send("entry.get", **ws.fill("entry.get", {"key": "big"}))
    for _ in range(20):
        assert ws.clock()
    assert hung_up(silent.sock)
    assert ws.clock()
    assert ws("entry.get", key="big")["usable"]


def test_a_client_that_reads_late_gets_all_below_64_mib(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    late = ws.daemon.connect()
    numbers = [late.send("entry.get", **ws.fill("entry.get", {"key": "big"})) for _ in range(7)]
    for _ in range(20):
        assert ws.clock()
    for number in numbers:
        assert len(late.result(number)["value"]) == 8 * MIB - 2


def test_a_subscriber_that_does_not_read_holds_up_nobody(ws: Workspace) -> None:
    """It is cut off, or the stream waits for it: then nothing of it is lost."""
    silent = ws.daemon.connect()
    before = ws.clock()
    silent("log.subscribe")
    long = ["object:" + f"{ws.tag}{number}-".ljust(1024, "x") for number in range(1000)]
    writer = ws.daemon.connect()
    numbers = [writer("action.record", writes=long)["seq"] for _ in range(100)]  # of about 1 MiB each
    assert ws.clock() != before
    seen: list[int] = []
    with contextlib.suppress(ConnectionError):
        while not seen or seen[-1] < numbers[-1]:
            seen.append(silent.note()["params"]["seq"])
    # what clients of other tests left behind may stand between, but no number is missing
    first = seen[0] if seen else numbers[0]
    assert seen == list(range(first, first + len(seen)))
    assert first <= numbers[0]


def test_clients_that_vanish_leave_the_daemon_as_it_was(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    whole = request("entry.get", {"key": "big", "root": ws.root}) + b"\n"
    put = request("entry.put", {"key": "put", "value": 1, "deps": [], "root": ws.root}) + b"\n"
    for number in range(20):
        rpc = ws.daemon.connect()
        rpc.send_raw(whole)
        if number % 2:
            rpc.sock.recv(1000)  # in the middle of the answer
        rpc.close()
        for part in (put, whole[: len(whole) // 2], b"", request("log.subscribe") + b"\n", put * 50):
            rpc = ws.daemon.connect()
            rpc.send_raw(part)
            rpc.close()
        assert ws.clock()
    assert ws("entry.get", key="big")["usable"]
    assert ws.daemon.alive
    assert "Traceback" not in ws.daemon.said()


def test_the_1025th_connection_is_told_so(daemon: Daemon) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    try:
        many = [daemon.connect() for _ in range(1024)]
        for rpc in many:
            assert rpc("log.clock")["clock"]
        refused = daemon.connect()
        with contextlib.suppress(OSError):
            refused.send("log.clock")
        assert complete(RpcError(refused.line()["error"])).code == "limit"
        assert refused.at_end()
        for rpc in many:
            assert rpc("log.clock")["clock"]
    finally:
        daemon.disconnect()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
