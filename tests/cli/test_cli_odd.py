"""Odd words, odd input, odd locales, closed descriptors: a command says what is wrong, and never where in provd."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest
from real_cli import RealCli, cli
from support import HANG

from provd import __main__

__all__ = ["cli"]

_TURNING: Final = "k\u202ex".encode()
"""A key that UTF-8 has and ASCII has not, with a sign that is not printable: it is quoted to be shown."""
_DEEP: Final = b"[" * 100_000
_HEADER: Final = b'{"provd-export":1}\n'
_ASCII: Final = {"LC_ALL": "C", "PYTHONUTF8": "0"}
_LOCALES: Final = (
    _ASCII,
    {"LC_ALL": "C", "PYTHONUTF8": "1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"},
)


def _run(
    cli: RealCli, *words: bytes, env: dict[str, str] = _ASCII, stdin: bytes = b"", closed: tuple[int, ...] = ()
) -> tuple[int, str]:
    """Runs a command; its exit code and what it said. `closed`: descriptors that it does not get."""
    closing = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-m", "provd", *words],
        cwd=cli.root,
        env=cli.environment() | env,
        input=stdin,
        capture_output=True,
        timeout=HANG,
        check=False,
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode in range(6), (words, done)
    assert not [word for word in ("Traceback", "own fault", "Exception ignored") if word in said], (words, said)
    return done.returncode, said


@pytest.mark.parametrize("env", _LOCALES, ids=str)
@pytest.mark.parametrize(
    "words",
    [(b"check",), (b"put", b"--no-deps", b"--value", b"v"), (b"check", b"k", b"--scope")],
    ids=lambda words: words[0].decode() + str(len(words)),
)
def test_a_key_that_the_locale_has_no_bytes_for(cli: RealCli, words: tuple[bytes, ...], env: dict[str, str]) -> None:
    for word in (_TURNING, b"\xff"):
        _run(cli, *words, word, env=env)


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (_DEEP, "its first line is not the header"),
        (_HEADER + _DEEP + b"\n", "line 2: no JSON: it is nested too deeply"),
        (_HEADER + b'{"a":' * 100_000 + b"\n", "line 2: no JSON: it is nested too deeply"),
        (b'{"provd-export":' + b"9" * 9999 + b"}", "in a form that"),
        (b'{"provd-export":2,"version":"\\ud800\\u202e"}', "in a form that"),
        (_HEADER + b'\0\n\xff\n"\\ud800"\n[]\n{"provd-export-end":[]}\n', "4 lines were not taken"),
        (b"", "its first line is not the header"),
    ],
    ids=range(7),
)
def test_an_import_of_anything(cli: RealCli, stdin: bytes, said: str) -> None:
    code, told = _run(cli, b"import", b"-", stdin=stdin)

    assert code == 5
    assert said in told


def test_a_value_that_is_nested_too_deeply(cli: RealCli) -> None:
    words = (b"put", b"k", b"--no-deps", b"--json-value", b"--value-file", b"-")

    assert "the value is not JSON: it is nested too deeply" in _run(cli, *words, stdin=_DEEP)[1]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_descriptor_that_the_caller_closed(cli: RealCli, closed: tuple[int, ...]) -> None:
    for words in ([b"check", _TURNING], [b"import", b"-"], [b"ls", b"--json"], [b"put", _TURNING, b"--sums", b"-"]):
        _run(cli, *words, closed=closed)


def test_a_write_of_any_bytes(cli: RealCli) -> None:
    _, told = _run(cli, b"exec", b"--write", b"file:\xff", b"--", b"sh", b"-c", b"sleep 60 >&- 2>&- & kill $!")

    assert "done: nothing changed" in told


def test_a_line_of_any_bytes_is_completed(cli: RealCli) -> None:
    for line in (b"provd put k --dep file:\xff", b"provd exec -- \xff", b"provd check k\xe2\x80\xae"):
        asked = {"COMP_LINE": os.fsdecode(line), "_PROVD_COMPLETE": "zsh_complete"}

        told = _run(cli, env=_ASCII | asked)[1]
        assert "UnicodeEncodeError" not in told
        assert told.startswith("file\t") == (b"check" not in line)


def test_a_word_of_any_bytes_is_shown_as_a_shell_takes_it(cli: RealCli) -> None:
    words = (b"put", _TURNING, b"--no-deps", b"--value", b"v")
    _run(cli, *words)

    _, told = _run(cli, *words, b"--based-on", b"99999")

    shown = next(line for line in told.splitlines() if "$'" in line)
    word = shown[shown.index("$'") : shown.rindex("'") + 1]
    assert subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout == _TURNING
    assert os.linesep not in word


def test_code_that_is_not_whole_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the middle of an upgrade, or in a checkout where git is at work. Broken: exit 1, which says dirty."""
    monkeypatch.setitem(sys.modules, "provd.cli", None)
    monkeypatch.setattr(sys, "argv", ["provd", "version"])

    assert __main__.run() == 5

    told = capsys.readouterr().err
    assert told.startswith("provd: its own code cannot be loaded: ")
    assert "\n  next: provd version  # " in told
