"""The commands in the documents and those of the program are the same.

Rule: what is typed in a document is looked up in click's own tables, so that a renamed flag shows in every text.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Final

import click
import pytest
from doc_blocks import DOCUMENTS, read, steps
from doc_transcript import transcript
from support import REPOSITORY

from provd.cli.app import app
from provd.cli.command import HELP_NAMES
from provd.core import params

if TYPE_CHECKING:
    from collections.abc import Iterator

_END: Final = re.compile(r"[;|&()<>`]+|--|do|done|then|else|fi")
_NOT_RUN: Final = {"service install", "service uninstall"}
"""Commands that no test of the documents runs, since they change the machine; .ci has a systemd for them."""
_BEFORE: Final = re.compile(r"[;|&()<>`{]+|do|then|else|if|!|sudo|--|\S+=\S*")
_INLINE: Final = re.compile(r"`(provd [^`]+)`")
_FLAG: Final = re.compile(r"--[a-z][a-z-]*")


def _typed(document: str, *, run: bool = False) -> Iterator[str]:
    """The shell text of a document's transcripts, scripts and files; with `run` only of those that are run."""
    for step in steps(read(document)):
        if run and step.not_run:
            continue
        if step.language == "console":
            yield from (shown.command for shown in transcript(step.text))
        elif step.language in {"sh", "bash", "makefile"} or step.file:
            yield step.text


def _shown(document: str) -> Iterator[str]:
    """All shell text of a document, with hidden commands and the code in its prose."""
    text = read(document)
    yield from _typed(document)
    yield from (step.text for step in steps(text) if step.language == "hidden")
    yield from _INLINE.findall(text)


def _words(text: str) -> list[str]:
    """Shell text as words, with what separates commands as words of their own; quotes are looked through."""
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in text.replace("\\\n", " ").splitlines())
    return [word for line in lines for word in [*re.findall(r"[^\s;|&()<>\"'`]+|[;|&()<>`]+", line), ";"]]


def _used(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each use of provd in shell text: the command ("action begin") and the long options given to it."""
    words = _words(text)
    for at, word in enumerate(words):
        if word.lstrip("@") != "provd" or (at and not _BEFORE.fullmatch(words[at - 1])):
            continue
        rest = []
        for following in words[at + 1 :]:
            if _END.fullmatch(following):
                break
            rest.append(following)
        yield _named(rest), [flag[0] for flag in map(_FLAG.match, rest) if flag]


def _named(words: list[str]) -> str:
    """The command that words begin with, or an empty string."""
    command: click.Command = app
    names: list[str] = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(click.Context(command), word)
        if below is None:
            break
        command = below
        names.append(word)
    return " ".join(names)


def _all(group: click.Group = app, above: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its name with those above it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _all(command, (*above, name))
        elif command is not None:
            yield " ".join((*above, name)), command


def _flags(command: click.Command) -> set[str]:
    """The options of a command, with those that every command has."""
    context = click.Context(command, **HELP_NAMES)  # click keeps the option that it makes of it
    return {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}


_COMMANDS: Final = dict(_all())


@functools.cache
def _uses(*, run: bool) -> frozenset[str]:
    """The commands that the documents show, or those that are run of them."""
    texts = (text for document in DOCUMENTS for text in (_typed(document, run=True) if run else _shown(document)))
    return frozenset(name for text in texts for name, _ in _used(text))


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_is_shown_and_run(name: str) -> None:
    assert name in _uses(run=name not in _NOT_RUN)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_flag_that_is_shown_exists(document: str) -> None:
    unknown = []
    for text in _shown(document):
        for name, flags in _used(text):
            known = _flags(_COMMANDS[name]) if name in _COMMANDS else {"--version", "--help"}
            unknown += [f"provd {name} {flag}" for flag in flags if flag not in known]

    assert unknown == []


def test_the_map_of_the_command_line_has_every_file() -> None:
    told = read("docs/architecture.md").partition("## The command line\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (`[^|]*`) \| (.*) \|$", told, re.MULTILINE))
    top = os.path.join(REPOSITORY, "provd", "cli")
    mapped = {name for row in rows for name in re.findall(r"`([\w/]+)`", row)}
    there = {name.removesuffix(".py") for name in os.listdir(top) if "__" not in name}

    assert {name.rstrip("/").partition("/")[0] for name in mapped} == there
    for name in sorted(name for name in mapped if name.endswith("/")):
        named = set(re.findall(r"`(\w+)[`/]", rows[f"`{name}`"]))
        files = {file.removesuffix(".py") for file in os.listdir(os.path.join(top, name)) if "__" not in file}
        below = {other.rstrip("/").rpartition("/")[2] for other in mapped if other.startswith(name) and other != name}
        assert files - named - below == set(), name


def test_every_method_of_the_wire_has_an_example() -> None:
    blocks = [step.text for step in steps(read("docs/protocol.md")) if step.language == "json"]
    shown = set(re.findall(r'"id":\d+,"method":"([a-z.]+)"', "".join(blocks)))

    assert set(params.METHODS) - shown == set()
