"""The watched directories: watch add, rm, ls.

Rule: a directory is named as in the current directory; the daemon keeps its real path.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from provd.cli import names, output
from provd.cli.command import HELP_NAMES, Command, Group, connected, given, json_option
from provd.client import local_path

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
            if as_json:
                output.line_json(answer)
            else:
                _tell_added(answer["roots"], os.path.realpath(names.absolute(directory)))
    return 0


def _tell_added(roots: list[dict[str, Any]], added: bytes) -> None:
    """What became of the directory; of all of them where it is not found by its real path."""
    for root in [root for root in roots if local_path(root["path"]) == added] or roots:
        output.line(_added(root))


def _added(root: dict[str, Any]) -> str:
    name, state, coverage = output.name(root["path"]), _word(root, "state"), _word(root, "coverage")
    if state != "gone" and coverage == "none" and _word(root, "backend") == "none":
        return f"added {name} (this version answers by reading; the watcher comes next)"
    watched = state != "gone" and coverage in {"whole", "partial"}
    return f"{'watching' if watched else 'added'} {name}: {meaning(root)}"


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
        answer = client.call("root.list")
    if as_json:
        output.line_json(answer)
    elif answer["roots"]:
        _print_table(answer["roots"])
    else:
        output.note("no roots: provd watch add DIR")
    return 0


def _print_table(roots: list[dict[str, Any]]) -> None:
    """The roots below the names of the columns."""
    rows = [("ROOT", "STATE", "BACKEND", "COVERAGE", "MEANING")]
    for root in roots:
        facts = (_word(root, field) for field in ("state", "backend", "coverage"))
        state, backend, coverage = (output.printable(fact) or "-" for fact in facts)
        rows.append((output.name(root["path"]), state, backend, coverage, meaning(root)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        output.line("  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[4]]))


def meaning(root: dict[str, Any]) -> str:
    """How well a root is watched, in words."""
    state, coverage = _word(root, "state"), _word(root, "coverage")
    why = output.printable(_word(root, "why"))
    if state == "gone":
        return why or "the directory is gone"
    if coverage == "none" and _word(root, "backend") == "none":
        return "not watched in this version, answers are by reading"
    word = {"whole": "watched", "partial": "watched in part", "none": "not watched"}.get(coverage, coverage)
    told = " ".join(part for part in (output.printable(word), "(first scan)" if state == "scanning" else "") if part)
    return f"{told}: {why}" if why else told


def _word(root: dict[str, Any], field: str) -> str:
    value = root.get(field)
    return value if isinstance(value, str) else ""
