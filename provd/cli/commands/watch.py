"""The watched directories: watch add, rm, ls.

Rule: a directory is named as in the current directory; the daemon keeps its real path.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from provd import hello
from provd.cli import output
from provd.cli.command import Command, Failure, Group, connected, given, json_option
from provd.cli.given import completing, names
from provd.cli.given.looking import real_path
from provd.cli.words import hints, permissions, roots
from provd.client import ProvdUnreachable, RpcError, local_path, wire_path
from provd.ignoring import DEFAULT_PATTERNS

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.client import Client

Json = dict[str, Any]


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
        before = names.watched(client)
        for path in paths:
            params = given(path=wire_path(path), ignore=rules, wait=False if no_wait else None)
            answer = client.call("root.add", **params)
            added = _added(client, answer["roots"], path)
            if as_json:
                output.line_json(answer)
                continue
            for root in added:
                _tell_added(root, answer["roots"])
                if (real := local_path(root["path"])) not in before:
                    _tell_nested(real, hello.holding(before, real))
            before = [local_path(root["path"]) for root in answer["roots"]]
    return 0


def _rules(patterns: tuple[str, ...]) -> list[str] | None:
    """The ignore rules of a directory: those that were given, after the default ones; None where none were."""
    return list(dict.fromkeys([*DEFAULT_PATTERNS, *patterns])) if patterns else None


def _added(client: Client, found: list[Json], path: bytes) -> list[Json]:
    """The directory among the roots that the daemon has after it was added; raises Failure where it is not there.

    Where the daemon sees other files than this command it may have another real path there: then it is all of them.
    """
    named = {path, real_path(path)}
    added = [root for root in found if local_path(root["path"]) in named]
    if added or client.call("daemon.status").get("foreign"):
        return added or found
    raise Failure(
        f"{output.name_of(path)} was added and is watched no more: another command removed it meanwhile",
        f"provd watch add {permissions.quoted(path)}",
    )


def _tell_nested(path: bytes, outer: bytes | None) -> None:
    """That a new root has keys of its own, where it lies in another one, whose keys were meant there until now."""
    if outer is not None:
        here, there = output.name_of(path), output.name_of(outer)
        what = (
            f"{here} lies in the watched {there} and has keys of its own: in it those of {there} are not meant any more"
        )
        output.warn(
            what, f"provd ls --root {permissions.quoted(outer)}  # they stay, and --root names them from anywhere"
        )


def _tell_added(root: Json, found: list[Json]) -> None:
    """What became of a directory, one of the roots that were found."""
    output.line(_headline(root))
    if isinstance(rules := root.get("ignore"), list):
        output.line(f"  ignored: {output.printable(', '.join(map(str, rules)))}")
    for text in roots.uncovered(root, "  ", found):
        output.line(text)
    if roots.is_kernels(root):
        what = "the kernel's files and devices are never read, so what rests on one is unknown"
        remove = f"provd watch rm {permissions.quoted(local_path(root['path']))}"
        output.warn(
            f"{output.name(root['path'])}: {what}", f"{remove}  # dir: and names: are answered by reading anyway"
        )


def _headline(root: Json) -> str:
    holds = roots.size(root)
    return f"{'watching' if roots.watched(root) else 'added'} {output.name(root['path'])}: {roots.meaning(root)}" + (
        f" ({holds})" if holds else ""
    )


@watch.command(cls=Command, examples=("provd watch rm ~/repo",))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, shell_complete=completing.roots)
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
                real = real_path(path)
                left = [local_path(root["path"]) for root in answer["roots"]]
                _tell_removed(client, real if real in before else path, left)
            before = [local_path(root["path"]) for root in answer["roots"]]
    return 0


def _tell_removed(client: Client, path: bytes, left: list[bytes]) -> None:
    """That a directory is no root any more; where it has entries, that they stay, and how one drops them.

    One that lies in another of those that are `left` is still watched: then only its keys are not meant any more.
    """
    outer = hello.holding(left, path)
    if outer is None:
        output.note(f"no longer watched: {output.name_of(path)}")
    else:
        there = output.name_of(outer)
        output.note(f"no root of its own any more: {output.name_of(path)}; {there} goes on watching it")
        output.note(f"  in it the keys of {there} are meant now")
    entries: list[Json] = []
    with contextlib.suppress(ProvdUnreachable, RpcError):  # it is removed, whatever becomes of this
        entries = client.call("entry.list", root=wire_path(path), limit=1)["entries"]
    if entries:
        root = permissions.quoted(path)
        output.note("  its entries stay, and are judged by reading")
        output.advise(f"provd ls --root {root}  # lists them; provd forget KEY --root {root} drops one")


def _advised(error: RpcError, path: bytes, watched: list[bytes]) -> RpcError:
    """The refusal to remove what is no root, with the root that it lies in: to remove that was not meant."""
    if error.code != "root.missing":
        return error
    holder = hello.holding(watched, real_path(path))
    message = error.message if holder is None else f"{error.message}, it lies in {output.name_of(holder)}"
    return hints.Advised(error.code, message, "provd watch ls  # lists the roots", error.data)


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
        output.note("no roots")
        output.advise("provd watch add .  # or another directory")
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
