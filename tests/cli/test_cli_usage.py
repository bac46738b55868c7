"""What a command line must not say: it is refused before anything is asked or done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_daemon import Cli, cli, fake
from support import clean_environment

from provd.cli import output

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cli", "fake"]


@pytest.mark.parametrize(
    "asked",
    [
        ["watch", "add", "a", ""],
        ["watch", "rm", ""],
        ["since", "c:0", "--path", ""],
        ["log", "--path", ""],
        ["check", "k", "--root", ""],
        ["audit", "--root", ""],
        ["ls", "--touching", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_directory(cli: Cli, asked: list[str]) -> None:
    assert "an empty path names nothing\n  next: provd" in cli(*asked, code=2).err
    assert cli.fake.questions == []


@pytest.mark.parametrize("asked", [["put", "k", "--value", "1", "--dep", "f"], ["confirm", "k"]], ids=" ".join)
def test_two_moments(cli: Cli, asked: list[str]) -> None:
    err = cli(*asked, "--as-of-now", "--fetched-at", "c:1", code=2).err

    assert "--fetched-at and --as-of-now exclude each other" in err
    assert cli.fake.asked == []


def test_an_empty_command(cli: Cli) -> None:
    assert "the command is empty" in cli("exec", "--", "", code=2).err
    assert cli.fake.asked == []


@pytest.mark.parametrize("more", [[], ["--as-root", "a b"]])
def test_an_import_from_stdin_says_so(cli: Cli, more: list[str]) -> None:
    err = cli("import", *more, code=2).err

    again = " ".join(["provd import", *more, "-"]).replace("a b", "'a b'")
    assert err.startswith(f"provd: Missing argument 'FILE'.\n  next: {again}  # takes in what comes on stdin\n")
    assert "FILE" in cli("import", "--help").out.splitlines()[0].split()
    assert cli.fake.asked == []


def test_the_name_that_was_meant(cli: Cli) -> None:
    assert "next: provd help exit-codes  # did you mean that?" in cli("help", "exit", code=2).err
    assert "next: provd doctor  # did you mean that?" in cli("doc", code=2).err
    assert "did you mean" not in cli("history", code=2).err
    meant = "next: provd check readme 'a b' --json  # did you mean that?"
    assert meant in cli("chek", "readme", "a b", "--json", code=2).err
    assert "next: provd watch add /r  # did you mean that?" in cli("watch", "ad", "/r", code=2).err


@pytest.mark.parametrize(
    "name", [b"plain", b"it's a", b"new\nline", b"tab\t'q'\\", b"\xff\xc3", b"$(touch PWN) \x1b[31m"]
)
def test_a_name_that_is_printed_can_be_pasted(name: bytes) -> None:
    quoted = output.quoted(os.fsdecode(name))

    assert quoted.isprintable()
    if bash := shutil.which("bash"):
        assert subprocess.run([bash, "-c", f"printf %s {quoted}"], capture_output=True, check=True).stdout == name


@pytest.mark.parametrize("words", ["put k --no-deps --value-file -", "check --sums -"])
def test_a_closed_stdin_is_no_empty_value(words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "provd", *words.split(), "--socket", str(tmp_path / "none.sock")]
    done = subprocess.run(
        command,
        env=clean_environment(str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.close(0),
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "stdin: Bad file descriptor" in done.stderr
