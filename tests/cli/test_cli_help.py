"""Help: it fits a screen, opens with examples, and a wrong word gets the nearest one."""

from __future__ import annotations

import re

import click
import pytest
from fake_daemon import Cli, cli, fake

from provd.cli.app import app, modules
from provd.cli.command import Command, Group
from provd.cli.helptext import ROWS

__all__ = ["cli", "fake"]

_WITHOUT_JSON = {"run", "start", "stop", "restart", "exec", "service install", "service uninstall", "service print"}
_WITHOUT_JSON |= {"config init"}
_WITHOUT_PLACE = {"service uninstall", "config path", "config check", "config init"}
_WITHOUT_DAEMON = {"try", "help", "completion"}


def _commands() -> dict[str, click.Command]:
    context = click.Context(app)
    found: dict[str, click.Command] = {}
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": each for below, each in command.commands.items()}
    return found


def test_all_commands_are_there() -> None:
    expected = (
        "run start stop restart status doctor clock put get check revalidate why ls forget since log action watch "
        "service config audit version export import try help completion confirm exec"
    )
    assert set(expected.split()) == set(modules())


@pytest.mark.parametrize("name", ["", *_commands()])
def test_help_fits_a_screen(cli: Cli, name: str) -> None:
    for flag in ("--help", "-h"):
        lines = cli(*name.split(), flag).out.splitlines()

        assert len(lines) <= ROWS, "a screen of 24 lines, and a prompt"
        assert max(map(len, lines)) <= 80
        options = [number for number, line in enumerate(lines) if line.startswith("Options:")]
        assert lines.index("Examples:") < min(options or [ROWS])


@pytest.mark.parametrize("name", _commands())
def test_all_of_the_help_has_words_on_each_option(cli: Cli, name: str) -> None:
    """What the short one only names, and leaves out, stands in the long one."""
    command, told = _commands()[name], "".join(cli("help", "--all", *name.split()).out.split())
    short = cli(*name.split(), "--help").out

    assert "".join((command.help or "").split()) in told
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.opts[-1] in short
            assert "".join((option.help or "").split()) in told


@pytest.mark.parametrize(("name", "command"), _commands().items())
def test_every_command_has_examples_and_says_where_the_daemon_is(name: str, command: click.Command) -> None:
    assert isinstance(command, Command | Group)
    assert command.examples
    assert all("provd" in example or example.startswith("sha256sum ") for example in command.examples)
    if isinstance(command, Group) or name in _WITHOUT_DAEMON:
        return
    options = {option for parameter in command.params for option in parameter.opts}
    assert ({"--socket", "--state"} <= options) == (name not in _WITHOUT_PLACE)
    assert ("--json" in options) == (name not in _WITHOUT_JSON)
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))


def test_without_a_command_help_goes_to_stderr(cli: Cli) -> None:
    got = cli(code=2)

    assert got.out == ""
    assert "Examples:" in got.err


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (["chekc"], "provd check"),
        (["statsu"], "provd status"),
        (["watch", "ad"], "provd watch add"),
        (["action", "recrd"], "provd action record"),
        (["lgo"], "provd log"),
        (["ehlp"], "provd help"),
        (["strat"], "provd start"),
    ],
)
def test_the_nearest_command(cli: Cli, typed: list[str], near: str) -> None:
    got = cli(*typed, code=2)

    assert got.out == ""
    assert f"next: {near}  # did you mean that?" in got.err


@pytest.mark.parametrize(
    "typed", ["xyzzy", "bogus", "delete", "observe", "history", "hook", "mcp", "revoke", "promote"]
)
def test_no_command_is_near(cli: Cli, typed: str) -> None:
    got = cli(typed, code=2)

    assert "did you mean" not in got.err
    assert "provd --help  # lists all" in got.err


def test_a_group_without_a_command_lists_them(cli: Cli) -> None:
    assert cli("watch", code=2).err == (
        "provd: provd watch needs a command\n  next: provd watch --help  # one of add, ls, rm\n"
    )


def test_a_terminal_is_not_steered_by_what_was_typed(cli: Cli) -> None:
    assert "\x1b" not in cli("\x1b[2J", code=2).err


@pytest.mark.parametrize("typed", ["put k --dep", "watch add --ignore", "log -n x"])
def test_a_wrong_option_leads_to_the_help_of_its_command(cli: Cli, typed: str) -> None:
    words = typed.split()
    command = " ".join(word for word in words[:-1] if not word.startswith("-") and word != "k")

    assert cli(*words, code=2).err.splitlines()[-1] == f"  next: provd {command} --help"


def test_the_nearest_option(cli: Cli) -> None:
    assert "--json" in cli("status", "--jsn", code=2).err


@pytest.mark.parametrize("name", ["", "put", "check", "clock"])
def test_every_put_in_an_example_says_when_its_sources_were_read(name: str) -> None:
    command = _commands()[name] if name else app
    assert isinstance(command, Command | Group)
    for example in command.examples:
        if "provd put" in example:
            assert any(word in example for word in ("--sums", "--as-of-now", "--fetched-at", "--no-deps"))


def test_help_of_clock_says_what_it_cannot_prove(cli: Cli) -> None:
    told = " ".join(cli("clock", "--help").out.split())

    assert "before what a value is made from is read" in told
    assert "put says unproven" in told
    assert "put --sums" in told


def test_the_first_section_and_the_first_example_start_it_and_give_the_terminal_back(cli: Cli) -> None:
    told = cli("--help").out

    assert re.search(r"^Examples:\n +provd start ", told, re.MULTILINE)
    section = re.search(r"^Start .*?(?=^\w)", told, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert "start, stop, restart " in section[0]


def test_help_says_what_stands_in_for_an_error_and_how_a_root_may_be_watched(cli: Cli) -> None:
    assert "[auto|inotify|watchdog|poll]" in cli("run", "--help").out
    assert '{"error": {code, message, hint}}' in " ".join(cli("help", "--all", "check").out.split())
