"""help: topics that are right, and the help of every command by its name."""

from __future__ import annotations

import re

import pytest
from fake_daemon import Cli, cli, fake

from provd import codes
from provd.cli.app import modules
from provd.cli.commands.topics import TOPICS
from provd.cli.helptext import ROWS
from provd.core.dependency import Kind

__all__ = ["cli", "fake"]


def test_help_alone_lists_commands_and_topics(cli: Cli) -> None:
    got = cli("help")

    assert got.out.startswith(cli("--help").out)
    assert all(f"provd help {topic}" in got.out for topic in TOPICS)
    assert len(got.out.splitlines()) <= ROWS


@pytest.mark.parametrize("words", [["put"], ["action", "end"], ["watch"], ["exec"], ["try"], ["help"]])
def test_help_on_a_command_is_its_help(cli: Cli, words: list[str]) -> None:
    assert cli("help", *words).out == cli(*words, "--help").out


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_fits_a_screen(cli: Cli, topic: str) -> None:
    lines = cli("help", topic).out.splitlines()

    assert len(lines) <= ROWS
    assert max(map(len, lines)) <= 80
    assert "".join(lines).isascii()


def test_the_exit_codes_are_those_of_the_code(cli: Cli) -> None:
    told = cli("help", "exit-codes").out
    named = {int(code): what for code, what in re.findall(r"^ {2,4}(\d+)  (\w+)", told, re.MULTILINE)}

    assert named == {
        codes.FRESH: "fresh",
        codes.FOUND: "dirty",
        codes.USAGE: "usage",
        codes.UNREACHABLE: "no",
        codes.UNKNOWN: "unknown",
        codes.REFUSED: "refused",
        codes.INTERRUPTED: "interrupted",
    }
    assert f"{codes.NOT_EXECUTABLE} and {codes.NOT_FOUND} as a shell" in told
    exits = re.search(r"^Exit: (.*)\.$", cli("--help").out, re.MULTILINE)
    assert exits is not None
    assert re.findall(r"\d", exits[1]) == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("topic", TOPICS)
def test_every_command_of_a_topic_exists(topic: str) -> None:
    text = TOPICS[topic][1]
    rows = re.findall(r"^  ([a-z]+(?:, [a-z]+)*)   ", text, re.MULTILINE)
    listed = [name for row in rows for name in row.split(", ")]
    typed = re.findall(r"\bprovd ([a-z]+)", text)

    assert typed
    assert {*listed, *typed} - {*modules()} == set()


def test_the_dependencies_are_those_of_the_core(cli: Cli) -> None:
    told = cli("help", "dependencies").out

    assert re.findall(r"^  (\w+):[A-Z]+ ", told, re.MULTILINE) == [str(kind) for kind in Kind]


def test_every_put_of_a_topic_is_one_that_is_taken(cli: Cli) -> None:
    for name in ("sums", "api.md", "r", "p"):
        with open(name, "w", encoding="utf-8") as file:
            file.write(f"{'0' * 64}  api.py\n")
    answer = {"key": "k", "version": 1, "absent": [], "unproven": []}
    cli.fake.answers["entry.put"] = answer
    puts = [
        line.partition("#")[0].split()[1:]
        for topic in TOPICS
        for line in cli("help", topic).out.splitlines()
        if line.startswith("  provd put")
    ]
    assert len(puts) > 5
    for put in puts:
        assert cli(*(word.strip("'").replace("$c", "c:1") for word in put)).out == f"{put[1]}  version 1\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["exitcodes"], "provd help exit-codes  # did you mean that?\n  or: provd help  # lists all"),
        (["clock"], None),
        (["clokcs"], "provd help clock"),
        (["chekc"], "provd help check  # did you mean that?\n  or: provd help  # lists all"),
        (["action", "ende"], "provd help action end  # did you mean that?\n  or: provd help action  # lists all"),
        (["xyzzy"], "  next: provd help  # lists all"),
        (["put", "x"], "  next: provd help put"),
    ],
)
def test_the_nearest_topic(cli: Cli, words: list[str], hint: str | None) -> None:
    got = cli("help", *words, code=2 if hint else 0)

    assert hint is None or hint in got.err
    assert (got.out == "") == (hint is not None)
