"""The commands by name, and the help that shows them.

Rule: a command's module is imported when the command is used, so that `provd check` costs what it needs.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

from provd import __version__
from provd.cli.command import HELP_NAMES, Group

# section -> command -> (module below provd.cli, one line of help)
SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Ask": {
        "check": ("ask", "is it still true? fresh, dirty or unknown"),
        "get": ("ask", "the value, if it is still true"),
        "why": ("why", "its life: what touched it, and the evidence"),
        "ls": ("entries", "the entries"),
    },
    "Remember": {
        "clock": ("log", "a token for this moment: take it before reading"),
        "put": ("entries", "a value, and what it rests on"),
        "revalidate": ("ask", "prove an entry again, and renew its clock"),
        "forget": ("entries", "drop an entry"),
    },
    "Follow": {
        "action": ("action", "begin, end, record, ls: declare what an agent changes"),
        "since": ("log", "what happened after a clock"),
        "log": ("log", "the latest records; -f follows"),
    },
    "Daemon": {
        "run": ("daemon", "run it in the foreground"),
        "start": ("starting", "start it: the installed service, else in the background"),
        "stop": ("starting", "stop it"),
        "restart": ("starting", "stop it and start it, after an upgrade"),
        "status": ("status", "how it is"),
        "doctor": ("doctor", "what is wrong, and what to do"),
        "watch": ("watch", "add, rm, ls: the watched directories"),
        "config": ("config", "show, check, path, reload: the settings"),
        "service": ("service", "install, uninstall, print: a service of systemd or launchd"),
        "audit": ("daemon", "read everything again and compare"),
        "version": ("status", "versions of this command and of the daemon"),
    },
}

_EXAMPLES: Final = (
    "provd run --root ~/repo                     # in the foreground",
    "sha256sum src/api.py > sums                 # before you read it",
    "provd put api --value-file api.md --sums sums",
    "if provd check -q api; then provd get api; else echo read it again; fi",
)
_CODES: Final = "Exit: 0 fresh or done, 1 dirty, 2 usage, 3 no daemon, 4 unknown, 5 refused, 130 interrupted."


class LazyGroup(Group):
    """A group that finds its commands in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the table's order."""
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now; None where there is no such."""
        for commands in SECTIONS.values():
            if cmd_name in commands:
                command = getattr(importlib.import_module(f"provd.cli.{commands[cmd_name][0]}"), cmd_name)
                assert isinstance(command, click.Command)
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table, without importing what it names."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:<10}", text) for name, (_, text) in commands.items()])
        formatter.write_paragraph()
        formatter.write_text(_CODES)


@click.group(cls=LazyGroup, examples=_EXAMPLES, context_settings=HELP_NAMES)
@click.version_option(__version__, "--version", message="provd %(version)s", help="Print the version.")
def app() -> None:
    """Tells whether what you remember is still true: fresh, dirty or unknown, with evidence."""
