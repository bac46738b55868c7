"""The blocking client: answers, errors, notifications, and why there is no connection."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from fake_daemon import HELLO, FakeDaemon, Hangup, Raw, Refusal, Silence, Stream, fake, in_turn, verdict
from hypothesis import given
from hypothesis import strategies as st

from provd import places
from provd.client import Client, ProvdUnreachable, RpcError, local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["fake"]

_SOON = 0.1
_HANG = 60.0
_NOTE = {"method": "log.record", "params": {"seq": 1}}


def test_methods_send_what_they_are_given(fake: FakeDaemon) -> None:
    fake.answers |= {
        "log.clock": {"clock": "c:1"},
        "entry.put": {"version": 3},
        "entry.check": verdict(),
        "entry.get": verdict(value="v"),
        "action.begin": {"id": 17},
        "action.end": {"id": 17},
    }
    with Client(fake.path) as client:
        assert client.clock() == "c:1"
        assert client.put("k", value=None, deps=["f"], fetched_at="c:1") == {"version": 3}
        assert client.check("k", root="/r") == verdict()
        assert client.check(keys=iter(["a", "b"])) == verdict()
        assert client.get("k", even_if=["dirty"])["value"] == "v"
        assert client.begin(["object:o"], session="s") == {"id": 17}
        assert client.end(17) == {"id": 17}

    assert fake.asked == [
        ("log.clock", {}),
        ("entry.put", {"key": "k", "value": None, "deps": ["f"], "fetched_at": "c:1"}),
        ("entry.check", {"key": "k", "root": "/r"}),
        ("entry.check", {"keys": ["a", "b"]}),
        ("entry.get", {"key": "k", "even_if": ["dirty"]}),
        ("action.begin", {"writes": ["object:o"], "session": "s"}),
        ("action.end", {"id": 17, "outcome": "done"}),
    ]


def test_an_answer_of_many_pieces(fake: FakeDaemon) -> None:
    big = {"clock": "é" * 2_500_000}
    fake.answers["log.clock"] = in_turn(big, {"clock": "c:2"})
    with Client(fake.path) as client:
        assert client.clock() == big["clock"]
        assert client.clock() == "c:2"


def test_a_system_without_sched_yield(fake: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_yield", raising=False)
    fake.answers["log.clock"] = {"clock": "c:1"}
    with Client(fake.path) as client:
        assert client.clock() == "c:1"


def test_a_refusal(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Refusal("shutdown", "it stops", "ask the next one", {"more": 1})
    with Client(fake.path) as client, pytest.raises(RpcError) as caught:
        client.clock()

    assert (caught.value.code, caught.value.message, caught.value.hint) == ("shutdown", "it stops", "ask the next one")
    assert caught.value.data["more"] == 1


def test_an_error_without_data_has_the_number_as_its_code(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Raw(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no method"}}\n')
    with Client(fake.path) as client, pytest.raises(RpcError) as caught:
        client.clock()

    assert (caught.value.code, caught.value.message) == ("-32601", "no method")


def test_an_error_without_an_id_is_about_our_line(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Raw(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}\n')
    with Client(fake.path) as client, pytest.raises(RpcError, match="parse"):
        client.clock()


def test_answers_of_other_requests_are_passed_over(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Raw(b'{"id":77,"result":{"clock":"old"}}\n{"id":1,"result":{"clock":"c:1"}}\n')
    with Client(fake.path) as client:
        assert client.clock() == "c:1"


def test_notifications_keep_their_order_around_the_answer(fake: FakeDaemon) -> None:
    notes = [{"method": "log.record", "params": {"seq": n}} for n in range(4)]
    fake.answers["log.subscribe"] = Stream({"clock": "c:1"}, before=notes[:2], after=notes[2:])
    with Client(fake.path) as client:
        stream = client.subscribe(clock="c:0")
        got = [note["params"]["seq"] for note in itertools.islice(stream, 4)]
        with pytest.raises(ProvdUnreachable, match="closed the connection"):
            next(stream)

    assert got == [0, 1, 2, 3]
    assert fake.asked == [("log.subscribe", {"clock": "c:0"})]


def test_wait_closed_reads_to_the_end(fake: FakeDaemon) -> None:
    fake.answers["daemon.shutdown"] = Stream({}, after=[_NOTE] * 3)
    with Client(fake.path) as client:
        client.call("daemon.shutdown")
        client.wait_closed()


def test_a_daemon_that_vanishes(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Hangup()
    with Client(fake.path) as client:
        with pytest.raises(ProvdUnreachable, match="closed the connection before it answered"):
            client.clock()
        with pytest.raises(ProvdUnreachable):
            client.clock()


def test_a_daemon_that_does_not_answer(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Silence()
    with Client(fake.path, timeout=0.01) as client, pytest.raises(ProvdUnreachable, match=r"not answer within 0\.01 s"):
        client.clock()


def test_something_else_answers(fake: FakeDaemon) -> None:
    fake.answers["log.clock"] = Raw(b"HTTP/1.1 400 Bad Request\r\n")
    with Client(fake.path) as client, pytest.raises(ProvdUnreachable, match="not provd"):
        client.clock()


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b'{"jsonrpc":"2.0"}', b'{"id":1}', b'{"id":1,"error":7}', b'{"result":{"clock":"c:1"}}']
)
def test_json_that_is_no_answer(fake: FakeDaemon, line: bytes) -> None:
    fake.answers["log.clock"] = Raw(line + b"\n")
    with Client(fake.path) as client, pytest.raises(ProvdUnreachable, match="not provd"):
        client.clock()


def test_hello(fake: FakeDaemon) -> None:
    with Client(fake.path) as client:
        assert client.hello() == HELLO | {"roots": ["/watched"]}
        assert client.peer_pid() in (os.getpid(), None)

    assert fake.asked == [("daemon.hello", {"protocol": 1})]


def test_a_system_that_does_not_name_the_peer(fake: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    with Client(fake.path) as client:
        assert client.peer_pid() is None


@pytest.fixture
def crowd(fake: FakeDaemon) -> Iterator[tuple[socket.socket, int]]:
    """A listener whose queue for one connection is full, and how many wait in it."""
    path = os.path.join(fake.home, "crowd")
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen(1)
        listening.settimeout(_HANG)
        waiting = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.settimeout(0)
                connection.connect(path)
                waiting += 1
        yield listening, waiting


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_a_full_queue_of_connections_is_waited_for(
    crowd: tuple[socket.socket, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, waiting = crowd
    connecting = threading.Event()
    connect = socket.socket.connect
    accepted: list[socket.socket] = []

    def say_and_connect(self: socket.socket, address: str) -> None:
        connecting.set()
        connect(self, address)

    def serve() -> None:
        assert connecting.wait(_HANG)
        accepted.extend(listening.accept()[0] for _ in range(waiting + 1))
        accepted[-1].sendall(b'{"id":1,"result":{"clock":"c:1"}}\n')

    monkeypatch.setattr(socket.socket, "connect", say_and_connect)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with Client(listening.getsockname(), _HANG) as client:
            assert client.clock() == "c:1"
    finally:
        thread.join()
        for connection in accepted:
            connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_a_full_queue_is_not_waited_for_for_ever(crowd: tuple[socket.socket, int]) -> None:
    begun = time.monotonic()
    with pytest.raises(ProvdUnreachable, match=r"takes no new connections.*again in a moment"):
        Client(crowd[0].getsockname(), _SOON)

    assert time.monotonic() - begun >= _SOON * 0.9  # it did wait


def test_what_cannot_travel_is_refused_before_it_is_sent(fake: FakeDaemon) -> None:
    with Client(fake.path) as client:
        with pytest.raises(ValueError, match="wire_path"):
            client.check("\udcff")
        with pytest.raises(ValueError, match="JSON compliant"):
            client.put("k", value=float("nan"))
        with pytest.raises(RpcError, match="limit: the request is"):
            client.put("k", value="x" * (17 << 20))

    assert fake.asked == []


def test_no_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(ProvdUnreachable) as caught:
        Client(path)

    assert caught.value.message == f"no daemon: there is no socket at {path}"
    assert "provd start" in caught.value.hint


def test_a_socket_that_nobody_listens_at(fake: FakeDaemon) -> None:
    path = os.path.join(fake.home, "old")
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    with pytest.raises(ProvdUnreachable, match=r"nobody listens at .*provd start"):
        Client(path)


def test_a_file_in_the_sockets_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProvdUnreachable, match=r"is a file, not a socket.*PROVD_SOCKET"):
        Client(str(tmp_path / "file"))


def test_a_directory_in_the_sockets_place(fake: FakeDaemon, tmp_path: Path) -> None:
    with pytest.raises(ProvdUnreachable, match=r"is a directory, not a socket\b") as refused:
        Client(str(tmp_path))
    assert (refused.value.kind, refused.value.hint.split("  #")[0]) == ("file", f"ls -ld {tmp_path}")

    os.rename(fake.path, os.path.join(fake.home, "provd.sock"))
    with pytest.raises(ProvdUnreachable, match=r"is a directory, not a socket\b") as within:
        Client(fake.home)
    assert within.value.hint.startswith(f"export PROVD_SOCKET={fake.home}/provd.sock  # ")


def test_a_special_file_in_the_sockets_place() -> None:
    with pytest.raises(ProvdUnreachable, match=r"/dev/null is a special file, not a socket"):
        Client("/dev/null")


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ProvdUnreachable, match=r"too long.*--socket"):
        Client(str(tmp_path / ("x" * 200)))


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EPERM, "a sandbox forbids it: .*allow Unix sockets in /run/p"),
        (errno.EAFNOSUPPORT, "a sandbox forbids it: .*allow Unix sockets in /run/p"),
        (errno.EACCES, "run as the daemon's user; .*sandbox"),
        (errno.EAGAIN, "again in a moment"),
        (errno.EPROTOTYPE, "provd start"),
    ],
)
def test_refusals_of_the_system(number: int, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: str) -> None:
        raise OSError(number, os.strerror(number), address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ProvdUnreachable, match=hint) as caught:
        Client("/run/p/s.sock")

    assert "/run/p/s.sock" in caught.value.message


def test_a_directory_that_is_closed_to_its_own_user_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: str) -> None:
        raise OSError(errno.EACCES, "denied", address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(places, "shut", os.path.dirname)

    with pytest.raises(ProvdUnreachable, match="chmod 700 '/run/p q'"):
        Client("/run/p q/s.sock")


def test_a_system_that_makes_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(ProvdUnreachable, match="sandbox"):
        Client("/run/p/s.sock")


@given(st.binary())
def test_names_survive_the_wire(name: bytes) -> None:
    travelled = wire_path(name)

    assert local_path(travelled) == name
    assert wire_path(os.fsdecode(name)) == travelled


def test_only_names_that_are_not_utf8_are_wrapped() -> None:
    assert wire_path("/é") == "/é"
    assert wire_path(b"/\xff") == {"b64": "L/8="}
