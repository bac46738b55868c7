"""The watched directories: watch add, rm, ls.

Rule: a directory is named as in the current directory; the daemon keeps its real path.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from provd import hello
from provd.cli import output
from provd.cli.command import Command, Group, connected, given, json_option
from provd.cli.given import names
from provd.cli.words import hints, permissions, roots
from provd.client import RpcError, local_path, wire_path
from provd.ignoring import DEFAULT_PATTERNS

if TYPE_CHECKING:
    from provd.cli.command import Place


@click.group(cls=Group, examples=("provd watch add ~/repo", "provd watch ls"))
def watch() -> None:
    """The directories that the daemon watches, kept across restarts."""


@watch.command(cls=Command, examples=("provd watch add .", "provd watch add ~/repo --ignore node_modules/"))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--ignore", metavar="PATTERN", multiple=True, help="A gitignore pattern, beside .git/.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the first scan.")
@json_option
@connected
def add(directories: tuple[str, ...], ignore: tuple[str, ...], no_wait: bool, as_json: bool, at: Place) -> int:
    """Watch directories; returns when they are scanned.

    Patterns replace those that the directory had, but for .git/, which '!.git/' takes back; without any it keeps its
    own.
    """
    rules = _rules(ignore)
    paths = [names.absolute(directory) for directory in directories]
    with at.connect(timeout=None) as client:
        for path in paths:
            params = given(path=wire_path(path), ignore=rules, wait=False if no_wait else None)
            answer = client.call("root.add", **params)
            if as_json:
                output.line_json(answer)
            else:
                _tell_added(answer["roots"], os.path.realpath(path))
    return 0


def _rules(patterns: tuple[str, ...]) -> list[str] | None:
    """The ignore rules of a directory: those that were given, after the default ones; None where none were."""
    return list(dict.fromkeys([*DEFAULT_PATTERNS, *patterns])) if patterns else None


def _tell_added(found: list[dict[str, Any]], added: bytes) -> None:
    """What became of the directory; of all of them where it is not found by its real path."""
    for root in [root for root in found if local_path(root["path"]) == added] or found:
        output.line(_added(root))
        if isinstance(rules := root.get("ignore"), list):
            output.line(f"  ignored: {output.printable(', '.join(map(str, rules)))}")
        for text in roots.uncovered(root, "  ", found):
            output.line(text)


def _added(root: dict[str, Any]) -> str:
    holds = roots.size(root)
    return f"{'watching' if roots.watched(root) else 'added'} {output.name(root['path'])}: {roots.meaning(root)}" + (
        f" ({holds})" if holds else ""
    )


@watch.command(cls=Command, examples=("provd watch rm ~/repo",))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@json_option
@connected
def rm(directories: tuple[str, ...], as_json: bool, at: Place) -> int:
    """Stop watching directories. Their entries stay, and are judged by reading."""
    paths = [names.absolute(directory) for directory in directories]
    with at.connect() as client:
        before = names.watched(client)
        for path in paths:
            try:
                answer = client.call("root.remove", path=wire_path(path))
            except RpcError as error:
                raise _advised(error, path, before) from None
            if as_json:
                output.line_json(answer)
            else:
                real = os.path.realpath(path)
                output.note(f"no longer watched: {output.name_of(real if real in before else path)}")
            before = [local_path(root["path"]) for root in answer["roots"]]
    return 0


def _advised(error: RpcError, path: bytes, watched: list[bytes]) -> RpcError:
    """The refusal to remove what is no root, with the root that it lies in."""
    if error.code != "root.missing":
        return error
    holder = hello.holding(watched, os.path.realpath(path))
    inside = (
        "" if holder is None else f"it lies in {output.name_of(holder)}: provd watch rm {permissions.quoted(holder)}; "
    )
    hint = f"{inside}provd watch ls lists the roots"
    return hints.Advised(error.code, error.message, hint, error.data)


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


def _print_table(found: list[dict[str, Any]]) -> None:
    """The roots below the names of the columns, each with what is not watched of it."""
    rows = [("ROOT", "STATE", "BACKEND", "COVERAGE", "MEANING")]
    for root in found:
        facts = (roots.word(root, field) for field in ("state", "backend", "coverage"))
        state, backend, coverage = (output.printable(fact) or "-" for fact in facts)
        rows.append((output.name(root["path"]), state, backend, coverage, roots.meaning(root)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for number, row in enumerate(rows):
        output.line("  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[4]]))
        if number > 0:
            for text in roots.uncovered(found[number - 1], "  ", found):
                output.line(text)
