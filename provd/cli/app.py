"""The commands by name, and the help that shows them.

Rule: a command's module is imported when the command is used, so that `provd check` costs what it needs.
"""

from __future__ import annotations

import importlib
from typing import Final

import click
from click.shell_completion import CompletionItem

from provd import __version__
from provd.cli import helptext
from provd.cli.command import HELP_NAMES, Group

# section -> command, or several with commas between -> (module of provd.cli.commands, some words of help)
SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start": {
        "try": ("trying", "a demonstration"),
        "start, stop, restart": ("starting", "the daemon"),
        "help": ("topics", "on a command or topic"),
        "completion": ("completion", "for bash, zsh and fish"),
    },
    "Ask": {
        "check": ("ask", "is it still true?"),
        "get": ("ask", "the value, if it is"),
        "why": ("why", "its life, the evidence"),
        "ls": ("entries", "the entries"),
    },
    "Remember": {
        "clock": ("log", "take it before reading"),
        "put": ("entries", "a value, what it rests on"),
        "confirm": ("confirm", "the value still holds"),
        "revalidate": ("ask", "prove it, renew its clock"),
        "forget": ("entries", "drop an entry"),
        "export, import": ("portable", "as lines of JSON"),
    },
    "Follow": {
        "exec": ("execute", "run, see what changed"),
        "action": ("action", "begin, end, record, ls"),
        "since": ("log", "what came after a clock"),
        "log": ("log", "the records; -f follows"),
    },
    "Daemon": {
        "run": ("daemon", "in the foreground"),
        "status": ("status", "how it is"),
        "doctor": ("doctor", "what is wrong, the fix"),
        "watch": ("watch", "add, rm, ls: directories"),
        "service": ("service", "of systemd or launchd"),
        "config": ("config", "show, check, init, ..."),
        "audit": ("daemon", "read all and compare"),
        "version": ("status", "of command and daemon"),
    },
}

_EXAMPLES: Final = (
    "provd start --root ~/repo                   # in the background",
    "sha256sum src/api.py > sums                 # before you read it",
    "provd put api --value-file api.md --sums sums",
    "if provd check -q api; then provd get api; else echo read it again; fi",
)
_CODES: Final = "Exit: 0 fresh or done, 1 dirty, 2 usage, 3 no daemon, 4 unknown, 5 refused."
_USAGE: Final = "Usage: provd COMMAND [OPTIONS] ...; provd COMMAND --help; provd --version"
_SECTION, _NAME, _CELL = 9, 10, 35
"""Columns for the name of a section, for that of a command, and for it with its words."""


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

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """All on one screen: what it is, examples, the table in two columns (nothing of it is imported), exit codes."""
        formatter.write(f"{_USAGE}\n  {self.help}\n")
        helptext.write_examples(self.examples, formatter)
        for section, commands in SECTIONS.items():
            cells = [f"{names:<{_NAME}} {text}" for names, (_, text) in commands.items()]
            for number in range(0, len(cells), 2):
                left, *right = cells[number : number + 2]
                row = f"{'' if number else section:<{_SECTION}}{left:<{_CELL}}{''.join(right)}"
                formatter.write(f"{row.rstrip()}\n")
        formatter.write(f"{_CODES}\n")


@click.group(cls=LazyGroup, examples=_EXAMPLES, context_settings=HELP_NAMES)
@click.version_option(__version__, "--version", message="provd %(version)s", help="Print the version.")
def app() -> None:
    """Tells whether what you remember is still true: fresh, dirty or unknown."""
