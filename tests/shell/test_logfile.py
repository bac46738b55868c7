"""A log in a file that turns, and what a process says there."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import stat
import subprocess
import sys
import time
import tty
from typing import TYPE_CHECKING

import pytest
from support import HANG, Daemon, clean_environment

from provd import logs, stream
from provd.core import errors
from provd.logfile import LogFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def descriptor() -> Iterator[int]:
    """A descriptor that stands for standard error."""
    fd = os.open(os.devnull, os.O_WRONLY)
    yield fd
    os.close(fd)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_file_that_is_full_gets_another_name(tmp_path: Path, descriptor: int) -> None:
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    for letter in b"abcdef":
        file.write(bytes([letter]) * 6)
    assert content(tmp_path) == {"log": b"f" * 6, "log.1": b"e" * 6, "log.2": b"d" * 6, "log.3": b"c" * 6}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_what_others_write_there_counts_and_is_in_order(tmp_path: Path, descriptor: int) -> None:
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    file.write(b"one\n")
    os.write(descriptor, b"crash\n")
    file.write(b"two\n")
    os.write(descriptor, b"again\n")
    assert content(tmp_path) == {"log.1": b"one\ncrash\n", "log": b"two\nagain\n"}


def test_one_that_was_there_goes_on_and_is_nobody_elses_to_read(tmp_path: Path, descriptor: int) -> None:
    path = tmp_path / "new" / "log"
    LogFile(str(path), descriptor=descriptor)
    path.write_bytes(b"before\n")
    path.chmod(0o644)
    LogFile(str(path), descriptor=descriptor).write(b"after\n")
    assert path.read_bytes() == b"before\nafter\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("in_the_way", ["log.1", "log.2", "log.3"])
def test_where_a_name_cannot_be_given_it_is_written_on(tmp_path: Path, descriptor: int, in_the_way: str) -> None:
    (tmp_path / in_the_way / "inside").mkdir(parents=True)
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    pieces = [bytes([letter]) * 6 for letter in b"abcdefgh"]
    for piece in pieces:
        file.write(piece)
    kept = content(tmp_path)
    assert b"".join(kept[name] for name in sorted(kept, reverse=True)) == b"".join(pieces)


def test_a_name_that_cannot_be_given_is_not_tried_with_each_line(
    tmp_path: Path, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(old: str, _new: str) -> None:
        tried.append(old)
        raise PermissionError

    monkeypatch.setattr(os, "rename", refused)
    file = LogFile(str(tmp_path / "log"), most=100, descriptor=descriptor)
    for _ in range(35):
        file.write(b"a" * 10)
    assert len(tried) == 3  # at 100, 200 and 300 bytes
    assert (tmp_path / "log").stat().st_size == 350


def test_a_file_that_was_taken_away_begins_anew_when_it_is_full(tmp_path: Path, descriptor: int) -> None:
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    file.write(b"a" * 6)
    (tmp_path / "log").unlink()
    file.write(b"b" * 6)
    file.write(b"c" * 2)
    assert content(tmp_path) == {"log": b"b" * 6 + b"c" * 2}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_followed_and_what_it_leads_to_turns(tmp_path: Path, descriptor: int, is_there: bool) -> None:
    (tmp_path / "there").mkdir()
    if is_there:
        (tmp_path / "there" / "real").touch()
    (tmp_path / "log").symlink_to("there/real")
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    file.write(b"a" * 6)
    file.write(b"b" * 6)
    assert content(tmp_path / "there") == {"real": b"b" * 6, "real.1": b"a" * 6}
    assert os.readlink(tmp_path / "log") == "there/real"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_is_no_error(descriptor: int) -> None:
    file = LogFile("/dev/full", most=10, descriptor=descriptor)
    for _ in range(5):
        file.write(b"a" * 6)


def test_a_pipe_that_nobody_reads_holds_nobody(tmp_path: Path, descriptor: int) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    file = LogFile(str(tmp_path / "log"), most=10, descriptor=descriptor)
    for _ in range(1000):
        file.write(b"a" * 1000)
    os.close(reader)


def test_a_file_that_cannot_be_opened_is_refused_with_words(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(errors.InvalidParams, match="cannot be opened: Is a directory"):
        logs.configure(None, log_file=str(tmp_path / "log"))


def test_all_that_a_process_says_is_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    code = (
        "from provd import logs; import structlog, faulthandler, os, sys\n"
        f"logs.configure('json', log_file={path!r})\n"
        "structlog.get_logger().info('hello'); faulthandler.enable(); raise SystemError('boom')"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_environment("/"), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    first, *rest = (tmp_path / "log").read_text().splitlines()
    assert json.loads(first)["event"] == "hello"
    assert rest[-1] == "SystemError: boom"


def _terminal() -> tuple[int, int]:
    reader, writer = pty.openpty()
    tty.setraw(writer)
    return reader, writer


def _sockets() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


@pytest.fixture(params=["pipe", "terminal", "socket", "other"])
def ends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Where lines are read, and where they are written. `other`: where a pipe cannot be opened again."""
    if request.param == "other":
        monkeypatch.setattr(stream, "_opened_again", lambda _fd: None)
    make = {"terminal": _terminal, "socket": _sockets}.get(request.param, os.pipe)
    found = make()
    yield found
    for fd in found:
        os.close(fd)


@pytest.mark.parametrize("length", [10, 999, 70_000])
def test_who_does_not_read_what_is_said_holds_nobody_and_tears_no_line(ends: tuple[int, int], length: int) -> None:
    reader, writer = ends
    lines = stream.Lines(writer)
    blocking = os.get_blocking(writer)
    line = b"x" * length + b"\n"
    for _ in range(3_000_000 // length // 10 + 5):
        with contextlib.suppress(OSError):
            lines.write(line)
    assert os.get_blocking(writer) is blocking  # it is not ours alone
    os.set_blocking(reader, False)
    assert drained(reader).startswith(b"x" * min(length, 4000))
    lines.write(b"there is room again\n")
    assert drained(reader).splitlines()[-1] == b"there is room again"
    lines.close()
    os.fstat(writer)  # that one stays


def drained(fd: int) -> bytes:
    """All that lies there."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while True:
            found += os.read(fd, 65536)
    return found


def test_a_daemon_answers_though_nobody_reads_what_it_says(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    process = subprocess.Popen(daemon.command(), stderr=writer, cwd="/", env=clean_environment(daemon.home, daemon.env))
    daemon.process = process
    try:
        deadline = time.monotonic() + HANG
        while not os.path.exists(daemon.socket):
            assert time.monotonic() < deadline
            assert process.poll() is None
        assert daemon.rpc("daemon.hello", protocol=1)["pid"] == process.pid
        daemon.rpc("daemon.reload")
        assert daemon.stop() == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_a_daemon_logs_lines_for_people_by_itself(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.start()
    daemon.stop()
    assert "[info     ] ready " in daemon.said()
    assert "\x1b" not in daemon.said()
