"""The watched directories: watch add, rm, ls.

Rule: a directory is named as in the current directory; the daemon keeps its real path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from provd.cli import names, output
from provd.cli.command import HELP_NAMES, Command, Group, connected, given, json_option

if TYPE_CHECKING:
    from provd.cli.command import Place


@click.group(cls=Group, context_settings=HELP_NAMES, examples=("provd watch add ~/repo", "provd watch ls"))
def watch() -> None:
    """The directories that the daemon watches, kept across restarts."""


@watch.command(cls=Command, examples=("provd watch add .", "provd watch add ~/repo --ignore node_modules/"))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--ignore", metavar="PATTERN", multiple=True, help="A gitignore pattern; instead of the default .git/.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the first scan.")
@json_option
@connected
def add(directories: tuple[str, ...], ignore: tuple[str, ...], no_wait: bool, as_json: bool, at: Place) -> int:
    """Watch directories; returns when they are scanned."""
    rules = [names.text(pattern, "--ignore") for pattern in ignore] or None
    with at.connect(timeout=None) as client:
        for directory in directories:
            params = given(path=names.path(directory), ignore=rules, wait=False if no_wait else None)
            answer = client.call("root.add", **params)
            _print(answer, as_json)
    return 0


@watch.command(cls=Command, examples=("provd watch rm ~/repo",))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@json_option
@connected
def rm(directories: tuple[str, ...], as_json: bool, at: Place) -> int:
    """Stop watching directories. Their entries stay, and are judged by reading."""
    with at.connect() as client:
        for directory in directories:
            answer = client.call("root.remove", path=names.path(directory))
            if as_json:
                output.line_json(answer)
            else:
                output.note(f"no longer watched: {output.name(names.path(directory))}")
    return 0


@watch.command(cls=Command, examples=("provd watch ls --json",))
@json_option
@connected
def ls(as_json: bool, at: Place) -> int:
    """The watched directories."""
    with at.connect() as client:
        _print(client.call("root.list"), as_json)
    return 0


def _print(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.line_json(answer)
        return
    for root in answer["roots"]:
        facts = [str(root[word]) for word in ("state", "backend", "coverage") if isinstance(root.get(word), str)]
        output.line(f"{output.name(root['path'])}  {output.printable(' '.join(facts))}".rstrip())
