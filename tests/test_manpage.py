"""The manual page and the completion scripts of the wheel are those that the commands make."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import click
import pytest
from support import REPOSITORY

from provd.cli import manpage
from provd.cli.app import app, modules
from provd.cli.commands.completion import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = {"bash": "provd.bash", "zsh": "_provd", "fish": "provd.fish"}

pytestmark = pytest.mark.skipif(
    not os.path.exists(os.path.join(REPOSITORY, "docs", "provd.1")), reason="the documents are not here"
)


def _read(*path: str) -> str:
    with open(os.path.join(REPOSITORY, *path), encoding="utf-8") as file:
        return file.read()


def test_the_page_is_current() -> None:
    assert _read("docs", "provd.1") == manpage.page(), "python -m provd.cli.manpage > docs/provd.1"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_completions_are_current(shell: str) -> None:
    script = f"provd completion {shell} > completions/{_FILES[shell]}"
    assert _read("completions", _FILES[shell]) == SCRIPTS[shell], script


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from parameter.opts
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _options(below)


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_command_and_option_is_in_it(name: str) -> None:
    page = manpage.page().replace("\\-", "-")
    command = app.get_command(click.Context(app), name)

    assert command is not None
    assert f"\\fBprovd {name}\\fR" in page
    assert all(f"\\fB{option}\\fR" in page for option in _options(command))


def test_groff_has_nothing_to_say_about_it() -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no groff here")
    command = ["groff", "-man", "-ww", "-Tascii", "-P-c"]
    done = subprocess.run(command, input=manpage.page(), capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert "if provd check -q api; then provd get api; else echo read it again; fi" in done.stdout
    assert '{"error": {"code", "message", "hint"}}' in done.stdout


def test_the_wheel_has_them_where_shells_and_man_look() -> None:
    project: dict[str, Any] = tomllib.loads(_read("pyproject.toml"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]

    assert {
        "docs/provd.1": "share/man/man1/provd.1",
        "completions/provd.bash": "share/bash-completion/completions/provd",
        "completions/_provd": "share/zsh/site-functions/_provd",
        "completions/provd.fish": "share/fish/vendor_completions.d/provd.fish",
    }.items() <= shared.items()
    assert all(os.path.exists(os.path.join(REPOSITORY, path)) for path in shared)
