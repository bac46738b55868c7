"""Values go to the daemon and come back to the letter; what is no text, and what has no end, is refused."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, Final

import click
import pytest
from fake_daemon import Cli, cli, fake
from real_cli import RealCli
from real_cli import cli as real
from wire_by_hand import MIB

from provd.cli.app import app
from provd.client import MAX_LINE, MAX_VALUE
from provd.core import params, wire

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli", "fake", "real"]

NUMBERS: Final = ("9007199254740993.0", "1.10", "-0", "1e999", "1E5", "0." + "1" * 40, "7" * 5000)
OBJECTS: Final = ('{"a":1,"a":2}', '{"a": 1.0, "b": [-0]}', '"\\u00e9"', "null", "[ ]")
LONE: Final = ('"\\ud800"', '{"a": "x\\udc00"}', '{"a": "\\ud800", "a": 1}', '{"\\udfff": 1}')
TEXTUAL: Final = frozenset({"CLOCK", "ID", "JSON", "KEY", "N", "NAME", "PATTERN", "S", "TEXT"})
"""What an option that names no place takes, as its help says it."""


def put(cli: RealCli, value: str, *arguments: str) -> int:
    """Puts JSON under k; the version."""
    version: int = cli("put", "k", "--no-deps", "--json-value", "--value", value, "--json", *arguments).json["version"]
    return version


def test_another_number_is_another_value(real: RealCli) -> None:
    put(real, "9007199254740992.0")
    clock = real("clock").out.strip()
    real("put", "above", "--dep", "entry:k", "--fetched-at", clock, "--value", "1")
    assert real("check", "above").out.startswith("✓ fresh")

    put(real, "9007199254740993.0")

    assert "dirty" in real("check", "above", code=1).out


def test_a_member_that_is_there_twice_counts_twice(real: RealCli) -> None:
    first = put(real, '{"a":1,"a":2}')

    assert put(real, '{ "a": 1, "a": 2 }') == first
    assert put(real, '{"a":3,"a":2}') > first


@pytest.mark.parametrize("value", [*NUMBERS, *OBJECTS])
def test_a_value_and_a_meta_come_back_as_they_were_put(real: RealCli, value: str) -> None:
    put(real, value, "--meta", f'{{"m": {value}}}')

    told = real("get", "k", "--json").out
    why = real("why", "k", "--json").out.splitlines()[0]
    plain = real("get", "k").out

    for text in (told, why):
        assert f'"value": {value}' in text
        assert f'"meta": {{"m": {value}}}' in text
    assert plain == ("é" if value.startswith('"') else f"{value}\n")


def test_json_of_several_lines_is_one_value(real: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b'{\r\n "a":\n1.50}\n')))

    real("put", "k", "--no-deps", "--json-value", "--value-file", "-")

    assert json.loads(real("get", "k").out) == {"a": 1.5}
    assert "1.50" in real("get", "k").out


def test_a_stdout_without_all_signs_is_given_their_escapes(real: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    put(real, '["é", 1.0]')
    out = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, encoding="ascii"))

    real("get", "k", "--json")
    sys.stdout.flush()

    assert b'"value": ["\\u00e9", 1.0]' in out.getvalue()


@pytest.mark.parametrize("text", LONE)
def test_half_of_a_pair_is_no_text(cli: Cli, text: str) -> None:
    for arguments in (("--json-value", "--value", text), ("--meta", text)):
        got = cli("put", "k", "--no-deps", *arguments, code=2)
        assert "is not JSON: half of a pair" in got.err
        assert "next: " in got.err
    assert cli.fake.questions == []


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


def _textual() -> Iterator[tuple[str, ...]]:
    """Commands with one argument that must be text, and is not."""
    for path, command in _commands(app):
        needed = [param for param in command.params if isinstance(param, click.Argument) and param.required]
        for param in command.params:
            rest = ["1" for other in needed if other is not param]
            if (param.metavar or "").strip("[].") not in TEXTUAL:
                continue
            if isinstance(param, click.Option):
                yield (*path, max(param.opts, key=len), "x\udcff", *rest)
            else:
                yield (*path, "x\udcff")


@pytest.mark.parametrize("arguments", list(_textual()), ids=lambda words: " ".join(words[:-1]).replace("\udcff", ""))
def test_what_must_be_text_is_refused_where_it_is_not(cli: Cli, arguments: tuple[str, ...]) -> None:
    got = cli(*arguments, code=2)

    assert "Traceback" not in got.err
    assert "\\udcff" in got.err
    assert cli.fake.questions == []


def test_a_turn_of_many_digits_is_a_name(real: RealCli) -> None:
    real("put", "k", "--no-deps", "--turn", "9" * 200)
    real("put", "k", "--no-deps", "--turn", "9" * 5000, code=5)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["put", "k", "--no-deps", "--value-file", "/dev/zero"], "entry.too_big"),
        (["put", "k", "--no-deps", "--json-value", "--value-file", "/dev/zero"], "entry.too_big"),
        (["put", "k", "--sums", "/dev/zero"], "limit"),
        (["check", "--sums", "/dev/zero"], "limit"),
        (["confirm", "k", "--sums", "/dev/zero"], "limit"),
    ],
)
def test_what_has_no_end_is_not_read_to_its_end(cli: Cli, arguments: list[str], code: str) -> None:
    got = cli(*arguments, code=5)

    assert f"[{code}]" in got.err
    assert "next: " in got.err
    assert cli.fake.questions == []


def test_a_stdin_without_an_end_neither(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"x" * (9 * MIB))))

    assert "over 8 MiB" in cli("put", "k", "--no-deps", "--value-file", "-", code=5).err


def test_the_client_knows_the_limits_of_the_wire() -> None:
    assert (MAX_LINE, MAX_VALUE) == (wire.MAX_LINE, params.MAX_VALUE)
