"""The commands by name, and the help that shows them.

Rule: a command's module is imported when the command is used, so that `provd check` costs what it needs.
"""

from __future__ import annotations

import importlib
from typing import Final

import click
from click.shell_completion import CompletionItem

from provd import __version__
from provd.cli.command import HELP_NAMES, Group

# section -> command, or several with commas between -> (module of provd.cli.commands, one line of help)
SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start": {
        "try": ("trying", "a demonstration in ten seconds; nothing stays"),
        "start, stop, restart": ("starting", "the installed service, else in the background"),
        "help": ("topics", "a command, exit-codes, clocks, dependencies"),
        "completion": ("completion", "for bash, zsh and fish"),
    },
    "Ask": {
        "check": ("ask", "is it still true? fresh, dirty or unknown"),
        "get": ("ask", "the value, if it is still true"),
        "why": ("why", "its life: what touched it, and the evidence"),
        "ls": ("entries", "the entries"),
    },
    "Remember": {
        "clock": ("log", "a token for this moment: take it before reading"),
        "put": ("entries", "a value, and what it rests on"),
        "confirm": ("confirm", "you read again, and the value still holds"),
        "revalidate": ("ask", "prove an entry again, and renew its clock"),
        "forget": ("entries", "drop an entry"),
        "export, import": ("portable", "entries and archive, as lines of JSON"),
    },
    "Follow": {
        "exec": ("execute", "run a command; keep what it changed, and who"),
        "action": ("action", "begin, end, record, ls: declare what is changed"),
        "since": ("log", "what happened after a clock"),
        "log": ("log", "the latest records; -f follows"),
    },
    "Daemon": {
        "run": ("daemon", "run it in the foreground"),
        "status": ("status", "how it is"),
        "doctor": ("doctor", "what is wrong, and what to do"),
        "watch": ("watch", "add, rm, ls: the watched directories"),
        "service": ("service", "install, uninstall, print: of systemd or launchd"),
        "config": ("config", "show, check, path, init, reload: the settings"),
        "audit": ("daemon", "read everything again and compare"),
        "version": ("status", "versions of this command and of the daemon"),
    },
}

_EXAMPLES: Final = (
    "provd start --root ~/repo                   # in the background",
    "sha256sum src/api.py > sums                 # before you read it",
    "provd put api --value-file api.md --sums sums",
    "if provd check -q api; then provd get api; else echo read it again; fi",
)
_CODES: Final = "Exit: 0 fresh or done, 1 dirty, 2 usage, 3 no daemon, 4 unknown, 5 refused."
_OPTIONS: Final = "Options: -h, --help; --version. provd COMMAND --help for a command."
_NAMES: Final = 21
"""Columns for the names of a row."""


def modules() -> dict[str, str]:
    """Each command and the module that holds it, in the table's order."""
    rows = ((row, module) for commands in SECTIONS.values() for row, (module, _) in commands.items())
    return {name: module for row, module in rows for name in row.split(", ")}


class LazyGroup(Group):
    """A group that finds its commands in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the table's order."""
        return list(modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now; None where there is no such.

        One that Python's own names leave no room for has an underscore behind it in its module.
        """
        if (name := modules().get(cmd_name)) is None:
            return None
        module = importlib.import_module(f"provd.cli.commands.{name}")
        command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin so, without importing what the table names."""
        rows = ((names, text) for commands in SECTIONS.values() for names, (_, text) in commands.items())
        found = [(name, text) for names, text in rows for name in names.split(", ") if name.startswith(incomplete)]
        options = super(click.Group, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=text) for name, text in found), *options]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All of it on one screen: what it is, examples, the table (without importing what it names), exit codes."""
        formatter.write("Usage: provd COMMAND [OPTIONS] ...\n")
        self.format_help_text(ctx, formatter)
        formatter.write("\n")
        for section, commands in SECTIONS.items():
            for number, (names, (_, text)) in enumerate(commands.items()):
                formatter.write(f"{'' if number else section:<10}{names:<{_NAMES}}{text}\n")
        formatter.write("\n")
        formatter.write(f"{_OPTIONS}\n{_CODES}\n")


@click.group(cls=LazyGroup, examples=_EXAMPLES, context_settings=HELP_NAMES)
@click.version_option(__version__, "--version", message="provd %(version)s", help="Print the version.")
def app() -> None:
    """Tells whether what you remember is still true: fresh, dirty or unknown, with evidence."""
