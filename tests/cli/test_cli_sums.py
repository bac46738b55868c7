"""What sha256sum read: the lines of put --sums and check --sums."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon, verdict
from hypothesis import given
from hypothesis import strategies as st

from provd.cli.given import names, sums

if TYPE_CHECKING:
    from collections.abc import Iterator

_PUT = {"key": "k", "version": 12, "absent": [], "unproven": [], "verdict": verdict()}
_HEX = "0123456789abcdef" * 4
_DIGEST = f"sha256:{_HEX}"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon(entry_put=_PUT, deps_check=verdict()) as fake:
        yield Cli(fake, capsys, monkeypatch)


def _write(content: bytes) -> None:
    with open("sums", "wb") as file:
        file.write(content)


@pytest.mark.parametrize(
    ("line", "dep"),
    [
        (f"{_HEX}  f", "file:HERE/f"),
        (f"{_HEX} *f", "file:HERE/f"),
        (f"{_HEX}  /a/../b", "file:/a/../b"),
        (f"{_HEX}   two  spaces ", "file:HERE/ two  spaces "),
        (f"{_HEX}  **", "file:HERE/**"),
        (f"{_HEX}  glob:x", "file:HERE/glob:x"),
        (f"{_HEX}  ./-", "file:HERE/-"),
        (f"{_HEX}  a\\nb", "file:HERE/a\\nb"),
        (f"\\{_HEX}  a\\nb\\\\n\\r", "file:HERE/a\nb\\n\r"),
        (f"\\{_HEX} *a\\\\", "file:HERE/a\\"),
        (f"{_HEX}  é", "file:HERE/é"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line(cli: Cli, line: str, dep: str, end: str) -> None:
    _write((line + end).encode())

    cli("put", "k", "--value", "x", "--sums", "sums")

    named = {"dep": dep.replace("HERE", cli.here), "digest": _DIGEST}
    assert cli.fake.params_of("entry.put") == {"key": "k", "value": "x", "deps": [named]}


def test_a_name_that_is_not_utf8(cli: Cli) -> None:
    _write(f"{_HEX}  /".encode() + b"\xff\n")

    cli("check", "--sums", "sums")

    assert cli.fake.params_of("deps.check") == {"deps": [{"dep": {"b64": "ZmlsZTov/w=="}, "digest": _DIGEST}]}


def test_sums_from_stdin_beside_other_dependencies(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"{_HEX}  /a\n{_HEX}  /b\n".encode()
    named: list[Any] = ["object:o", *({"dep": f"file:/{n}", "digest": _DIGEST} for n in "ab")]
    for command, method in ((["put", "k"], "entry.put"), (["check"], "deps.check")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))

        cli(*command, "--sums", "-", "--dep", "object:o", "--fetched-at", "c:1")

        sent = cli.fake.params_of(method)
        assert (sent["deps"], sent["fetched_at"]) == (named, "c:1")


@pytest.mark.parametrize("code", [0, 1, 4])
def test_check_says_the_verdict(cli: Cli, code: int) -> None:
    cli.fake.answers["deps.check"] = verdict({0: "fresh", 1: "dirty", 4: "unknown"}[code])
    _write(f"{_HEX}  f\n".encode())

    assert cli("check", "-q", "--sums", "sums", code=code).out == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{_HEX}  f\nnonsense\n", "line 2 of the sums is none: 'nonsense'"),
        (f"{_HEX}  f\n\n{_HEX}  g\n", "line 2 of the sums is none: ''"),
        (f"{_HEX} f\n", "line 1"),
        (f"{_HEX}  \n", "line 1"),
        (f"{_HEX.upper()}  f\n", "line 1"),
        (f"{_HEX[1:]}  f\n", "line 1"),
        (f"{_HEX}0  f\n", "line 1"),
        (f"SHA256 (f) = {_HEX}\n", "line 1"),
        (f"{_HEX}  f\0{_HEX}  g\0", "line 1"),
        (f"\\{_HEX}  a\\tb\n", "line 1"),
        (f"\\{_HEX}  a\\\n", "line 1"),
        (f"{_HEX}  -\n", "names no file but stdin"),
        ("", "there are no sums"),
    ],
)
@pytest.mark.parametrize("command", [["put", "k"], ["check"]])
def test_what_is_no_line(cli: Cli, command: list[str], content: str, message: str) -> None:
    _write(content.encode())

    got = cli(*command, "--sums", "sums", code=2)

    assert message in got.err
    assert "\n  next: " in got.err
    assert (got.out, cli.fake.asked) == ("", [])


@pytest.mark.parametrize("file", ["none", "."])
def test_sums_that_cannot_be_read(cli: Cli, file: str) -> None:
    assert "cannot read the sums" in cli("put", "k", "--sums", file, code=2).err


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name and name != b"-"))
def test_every_name_comes_back_as_it_was_escaped(name: bytes) -> None:
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    mark = b"" if escaped == name else b"\\"

    told = sums._dependency(mark + _HEX.encode() + b"  /" + escaped, 1)

    text = told["dep"]
    raw = text.encode() if isinstance(text, str) else base64.b64decode(text["b64"])
    assert raw == b"file:" + names.absolute("/" + os.fsdecode(name))


@pytest.mark.parametrize("program", [["sha256sum"], ["sha256sum", "-b"], ["shasum", "-a", "256"]])
def test_the_program_itself(cli: Cli, program: list[str]) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"no {program[0]} here")
    files = [b"plain", b"new\nline", b"back\\slash", b" space ", b"*star"]
    for name in files:
        with open(name, "wb") as file:
            file.write(name)
    _write(subprocess.run([*program, *files], capture_output=True, check=True).stdout)

    cli("check", "--sums", "sums")

    assert cli.fake.params_of("deps.check")["deps"] == [
        {"dep": f"file:{cli.here}/{os.fsdecode(name)}", "digest": "sha256:" + hashlib.sha256(name).hexdigest()}
        for name in files
    ]
