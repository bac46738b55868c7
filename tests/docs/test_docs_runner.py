"""The runner of the documents itself: what is not as shown is told, and what varies from run to run is not.

Rule: each example here is text as a document would have it.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING

import pytest
from doc_blocks import Step, indented, steps, unmarked
from doc_session import Session, SessionEnded
from doc_transcript import agree, said, transcript
from doc_wire import Exchange, values
from support import Rpc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support import Daemon


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


def _agrees(shown: str, printed: str) -> bool:
    return agree(tuple(shown.splitlines()), printed.splitlines())


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a\nb", "a\nb"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...", "a"),
        ("✗ dirty    k  (…)", "✗ dirty    k  (changed)"),
        ("version 10", "version 7"),
        (
            "put 2026-11-30 10:12:04.311, clock c:5d…:9a…:7",
            "put 2027-01-02 03:04:05.006, clock c:" + "a" * 16 + ":b1:12",
        ),
        ("is  sha256:892bbde4f859…", "is sha256:000011112222…"),
        ("up 10 s", "up 3 s"),
        ("put 2 s ago", "put just now"),
        ("  ~ modified a.py xxh3:23dc0bd7255e… → xxh3:875524faa397…  first", "  ~ modified a.py  first"),
        ("  12  begin 12", "     7  begin 7"),
        ("a  b", "a     b"),
    ],
)
def test_what_varies_is_no_difference(shown: str, printed: str) -> None:
    assert _agrees(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "b"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("", "a"),
        ("...\nz", "a\nb"),
        ("✓ fresh    k  (same)", "✗ dirty    k  (changed)"),
        ("    a", "a"),
        ("was sha256:892bbde4f859…", "was xxh3:892bbde4f859…"),
        ("3 files compared", "4 files compared"),
    ],
)
def test_another_word_is_a_difference(shown: str, printed: str) -> None:
    assert not _agrees(shown, printed)


def test_a_transcript_has_commands_over_several_lines() -> None:
    text = "$ for i in 1 2; do\n>   echo $i\n> done\n1\n2\n$ cat <<E\nx\nE\nx\n$ true \\\n> && echo y\ny\n"

    assert [(shown.command, shown.output) for shown in transcript(text)] == [
        ("for i in 1 2; do\n  echo $i\ndone", ("1", "2")),
        ("cat <<E\nx\nE", ("x",)),
        ("true \\\n&& echo y", ("y",)),
    ]


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("$ a", {0}),
        ("$ a  # exit 5", {5}),
        ("$ a  # exit 0 or 1", {0, 1}),
        ("$ a\n✗ dirty    k  (changed)", {0, 1, 4}),
        ("$ a\nx ✗ dirty", {0}),
    ],
)
def test_the_status_that_is_asked_for(text: str, statuses: set[int]) -> None:
    (shown,) = transcript(text)

    assert shown.statuses() == statuses


def test_marks_belong_to_the_next_block() -> None:
    text = "<!-- run: one\ntwo -->\n<!-- not run: it needs root -->\n```sh\na\n```\n"
    text += "<!-- file: ~/f -->\n```\nb\n```\n```sh\nc\n```\n"

    assert steps(text) == [
        Step("hidden", "one\ntwo", 1),
        Step("sh", "a\n", 5, not_run="it needs root"),
        Step("", "b\n", 9, file="~/f"),
        Step("sh", "c\n", 12),
    ]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("```sh\nsudo true\n```\n", "it needs root"),
        ("```console\n$ systemctl --user start provd\n```\n", "it needs systemd"),
        ("<!-- not run: it needs root -->\n```sh\nsudo true\n```\n", ""),
        ("```sh\nprovd status\n```\n", ""),
        ("```ini\n# /etc/systemd\n```\n", ""),
    ],
)
def test_a_block_that_no_test_may_run_needs_a_mark(text: str, bare: str) -> None:
    (step,) = steps(text)

    assert unmarked(step) == bare


def test_a_block_without_a_fence_is_seen() -> None:
    assert indented("So:\n\n    provd ls\n\nor\n\n\tprovd log\n") == ["    provd ls", "\tprovd log"]
    assert indented("- a\n    b\n\n```sh\n\n    provd ls\n```\n<!-- run: x\n\n    y -->\n") == []


def test_a_program_says_what_it_prints() -> None:
    assert said("x = 1  # one\nprint(x)  # 1\nif x:\n    print(2)  # two\n") == ("1", "two")


def test_a_session_keeps_what_a_terminal_keeps(session: Session) -> None:
    assert session.run("mkdir /home/me/a; cd ~/a; v=1") == (0, [])
    assert session.run("pwd; echo $v; false") == (1, ["/home/me/a", "1"])
    assert session.run("cat; echo err >&2") == (0, ["err"])
    assert session.run("command -v provd >/dev/null") == (0, [])


def test_a_job_in_the_background_does_not_print_into_what_comes_after(session: Session) -> None:
    session.run("mkfifo f; { cat f; echo late; } &")

    assert session.run("echo x > f; wait; echo next") == (0, ["next"])


def test_a_shell_that_ends_is_told() -> None:
    with Session() as session, pytest.raises(SessionEnded, match="ended"):
        session.run("exit 3")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing else tells of a process that is no child")
def test_nothing_of_a_session_is_left() -> None:
    with Session() as session:
        session.run("mkdir w; provd run --root w 2>/dev/null & await_daemon")
        with contextlib.closing(Rpc(session.daemon())) as rpc:
            process = os.pidfd_open(rpc("daemon.hello", protocol=1)["pid"])

    assert not os.path.exists(session.home)
    assert select.select([process], [], [], 0)[0] == [process]
    os.close(process)


_SHAPES = [
    ('{"id":1,"result":{"entries":[]}}', True),
    ('{"id":1,"result":{"entries":[],"...":"..."}}', True),
    ('{"id":1,"result":{"...":"..."}}', True),
    ('{"id":1,"result":{}}', False),
    ('{"id":1,"result":{"entries":[],"after":"x"}}', False),
    ('{"id":1,"result":{"entries":{}}}', False),
    ('{"id":1,"result":{"entries":[{"key":"x"}]}}', False),
    ('{"id":1,"error":{"...":"..."}}', False),
]


@pytest.mark.parametrize(("answer", "as_shown"), _SHAPES)
def test_an_answer_of_another_shape_is_told(module_daemon: Daemon, answer: str, as_shown: bool) -> None:
    request = '{"jsonrpc":"2.0","id":1,"method":"entry.list","params":{"scope":"global"}}'
    told = pytest.raises(AssertionError) if not as_shown else contextlib.nullcontext()
    exchange = Exchange(Rpc(module_daemon.socket))
    try:
        exchange.take(*values(request))
        with told:
            exchange.take({"jsonrpc": "2.0", **values(answer)[0]})
    finally:
        exchange.close()
