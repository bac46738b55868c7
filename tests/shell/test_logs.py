"""Where the log goes: the journal with its fields, lines that say how important they are, a file that turns."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from support import HANG, clean_environment

from provd import journal, logs
from provd.core import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def parsed(data: bytes) -> dict[str, str]:
    """A datagram of the native journal protocol, read by its description."""
    found = {}
    while data:
        name, separator, rest = data.partition(b"\n")
        if b"=" in name:
            key, _, value = name.partition(b"=")
            data = rest
        else:
            assert separator
            key, length = name, int.from_bytes(rest[:8], "little")
            value, data = rest[8 : 8 + length], rest[8 + length :]
            assert data[:1] == b"\n"
            data = data[1:]
        found[key.decode()] = value.decode()
    return found


# fields


def test_an_event_is_fields() -> None:
    event = {"event": "a root was not taken up", "level": "warning", "root": "/r", "pid": 7, "why": "no such = thing"}
    assert parsed(journal.datagram(journal.fields(event))) == {
        "MESSAGE": "a root was not taken up root=/r pid=7 why='no such = thing'",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "provd",
        "PROVD_EVENT": "a root was not taken up",
        "PROVD_ROOT": "/r",
        "PROVD_PID": "7",
        "PROVD_WHY": "no such = thing",
    }


@pytest.mark.parametrize(("level", "priority"), [("debug", "7"), ("info", "6"), ("warning", "4"), ("error", "3")])
def test_a_level_is_a_priority(level: str, priority: str) -> None:
    assert journal.fields({"event": "x", "level": level})["PRIORITY"] == priority


def test_lines_and_strange_bytes_arrive_as_they_are() -> None:
    event = {"event": "x", "path": "a\nb=c\nMESSAGE=forged", "name": "\udcff\0é"}
    told = parsed(journal.datagram(journal.fields(event)))
    assert told["PROVD_PATH"] == "a\nb=c\nMESSAGE=forged"
    assert told["PROVD_NAME"] == "\\udcff\0é"
    assert told["MESSAGE"].startswith("x path='a\\nb=c")  # one line for people


def test_names_of_fields_are_those_that_the_journal_takes() -> None:
    told = journal.fields({"event": "x", "a.b-c d=é\n": 1, "k" * 100: 2})
    assert told["PROVD_A_B_C_D___"] == "1"
    assert max(map(len, told)) == 64


def test_a_traceback_is_a_field_and_the_rest_of_the_message() -> None:
    told = journal.fields({"event": "it failed", "level": "error", "exception": "Traceback\n  boom"})
    assert told["MESSAGE"] == "it failed\nTraceback\n  boom"
    assert told["PROVD_EXCEPTION"] == "Traceback\n  boom"
    assert parsed(journal.datagram(told)) == told


def test_every_line_of_a_text_has_its_priority() -> None:
    assert journal.prefixed("one\ntwo", "warning") == "<4>one\n<4>two"


# a process whose standard error is the journal


class Journal:
    """Both ends of a journal: the stream that is standard error, and the socket for what has fields."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "socket")
        self.native = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.native.bind(self.path)
        self.native.settimeout(HANG)
        self.stream, self.theirs = socket.socketpair()
        self.stream.settimeout(HANG)
        st = os.fstat(self.theirs.fileno())
        self.name = f"{st.st_dev}:{st.st_ino}"

    def run(self, code: str, **env: str) -> None:
        """Runs a process that logs."""
        script = f"from provd import journal, logs; import structlog; journal.SOCKET = {self.path!r}\n{code}"
        environ = clean_environment("/", {"JOURNAL_STREAM": self.name, **env})
        done = subprocess.run([sys.executable, "-c", script], stderr=self.theirs.fileno(), env=environ, check=False)
        self.theirs.close()
        assert done.returncode == 0, self.lines()

    def lines(self) -> list[str]:
        """What came through the stream."""
        data = b""
        while piece := self.stream.recv(65536):
            data += piece
        return data.decode().splitlines()

    def events(self) -> list[dict[str, str]]:
        """What came with fields."""
        self.native.setblocking(False)
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(parsed(self.native.recv(1 << 20)))
        return found


@pytest.fixture
def there() -> Iterator[Journal]:
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as directory:
        there = Journal(directory)
        yield there
        there.native.close()
        there.stream.close()


SAY = "log = structlog.get_logger('x'); log.info('hello', key='v'); log.warning('careful')\n"


def test_under_systemd_events_have_fields(there: Journal) -> None:
    there.run(f"logs.configure(None)\n{SAY}")
    assert there.events() == [
        {
            "MESSAGE": "hello key=v",
            "PRIORITY": "6",
            "SYSLOG_IDENTIFIER": "provd",
            "PROVD_EVENT": "hello",
            "PROVD_KEY": "v",
        },
        {"MESSAGE": "careful", "PRIORITY": "4", "SYSLOG_IDENTIFIER": "provd", "PROVD_EVENT": "careful"},
    ]
    assert there.lines() == []


def test_a_fault_comes_with_its_traceback(there: Journal) -> None:
    there.run("logs.configure(None)\ntry: 1 / 0\nexcept Exception: structlog.get_logger().exception('it failed')")
    (event,) = there.events()
    assert event["PRIORITY"] == "3"
    assert event["PROVD_EXCEPTION"].endswith("ZeroDivisionError: division by zero")
    assert event["MESSAGE"] == f"it failed\n{event['PROVD_EXCEPTION']}"


def test_what_a_library_says_is_said_with_its_importance(there: Journal) -> None:
    there.run(
        "logs.configure(None); import logging; log = logging.getLogger('asyncio'); log.info('not this')\n"
        "log.warning('slow %d', 1)\ntry: 1 / 0\nexcept Exception: log.error('task failed', exc_info=True)"
    )
    first, second = there.events()
    assert (first["MESSAGE"], first["PRIORITY"], first["PROVD_LIBRARY"]) == ("slow 1 library=asyncio", "4", "asyncio")
    assert (second["PROVD_EVENT"], second["PRIORITY"]) == ("task failed", "3")
    assert second["PROVD_EXCEPTION"].endswith("ZeroDivisionError: division by zero")


def test_where_no_journal_takes_fields_there_are_lines(there: Journal) -> None:
    os.unlink(there.path)
    there.run(f"logs.configure(None)\n{SAY}")
    assert there.lines() == ["<6>hello key=v", "<4>careful"]


def test_what_is_too_long_for_a_datagram_is_lines(there: Journal) -> None:
    there.run("logs.configure(None)\nstructlog.get_logger().info('x' * 30_000 + '\\n' + 'y' * 400_000)")
    assert there.events() == []
    assert [line[:4] for line in there.lines()[:1]] == ["<6>x"]


def test_a_format_that_was_asked_for_is_obeyed_with_priorities(there: Journal) -> None:
    there.run(f"logs.configure('json')\n{SAY}")
    lines = there.lines()
    assert [line[:3] for line in lines] == ["<6>", "<4>"]
    assert [json.loads(line[3:])["event"] for line in lines] == ["hello", "careful"]
    assert there.events() == []


def test_console_under_systemd_has_priorities_and_no_colours(there: Journal) -> None:
    there.run(f"logs.configure('console')\n{SAY}")
    first, _ = there.lines()
    assert first.startswith("<6>2")
    assert "\x1b" not in first


def test_a_journal_that_does_not_read_holds_nobody(there: Journal) -> None:
    os.unlink(there.path)
    there.run("logs.configure(None)\nfor n in range(20_000): structlog.get_logger().info('x' * 100)")
    assert there.lines()


def test_another_standard_error_than_the_journals_is_none(there: Journal) -> None:
    there.run(f"logs.configure(None)\n{SAY}", JOURNAL_STREAM="1:2")
    assert there.events() == []
    assert "hello" in there.lines()[0]
    assert not journal.is_journal(there.stream.fileno(), "")
    assert not journal.is_journal(-1, "0:0")


# levels


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What is written by structlog as it is configured in the test."""
    written: list[str] = []
    yield written
    structlog.reset_defaults()
    logs.set_level("info")


def every_level(written: list[str]) -> list[Any]:
    structlog.configure(
        processors=[logs._enough, structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        logger_factory=lambda *_: logs._Lines(lambda data: written.append(data.decode())),
    )
    log = structlog.get_logger()
    written.clear()
    for level in ("debug", "info", "warning", "error", "exception", "critical"):
        getattr(log, level)("x")
    return [json.loads(line)["level"] for line in written]


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        ("debug", ["debug", "info", "warning", "error", "error", "critical"]),
        ("info", ["info", "warning", "error", "error", "critical"]),
        ("warning", ["warning", "error", "error", "critical"]),
        ("error", ["error", "error", "critical"]),
    ],
)
def test_a_level_drops_what_is_less_important(said: list[str], level: str, levels: list[str]) -> None:
    logs.set_level(level)
    assert every_level(said) == levels


def test_a_level_holds_for_loggers_that_were_used_before(there: Journal) -> None:
    there.run(
        "logs.configure(None); log = structlog.get_logger(); log.info('a'); logs.set_level('error'); log.info('b');"
        "logs.set_level('debug'); log.debug('c')"
    )
    assert [event["PROVD_EVENT"] for event in there.events()] == ["a", "c"]


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(errors.InvalidParams, match="no log level 'loud'") as refused:
        logs.set_level("loud")
    assert refused.value.hint == "one of debug, info, warning, error"


def test_a_line_for_people_steers_no_terminal_and_is_one_line(tmp_path: Path) -> None:
    say = f"""
import os, structlog
from provd import logs
logs.configure("console", log_file={str(tmp_path / "log")!r})
try:
    raise ValueError("\\x1b[31m")
except ValueError:
    structlog.get_logger().exception("a root\\x1b[J", path="/r\\x1b[31m\\nready", name=os.fsdecode(b"\\xff"))
"""
    subprocess.run([sys.executable, "-c", say], env=clean_environment(str(tmp_path)), check=True, timeout=HANG)

    first, *traceback = (tmp_path / "log").read_text().splitlines()

    assert "/r\\x1b[31m\\nready" in first
    assert "a root\\x1b[J" in first
    assert "\\udcff" in first
    assert traceback[-1] == "ValueError: \\x1b[31m"
    assert "\x1b" not in "".join([first, *traceback])
