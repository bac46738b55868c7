"""The manual page `provd(1)`, made from the commands themselves: `python -m provd.cli.manpage > docs/provd.1`.

Rule: what commands and topics are is said by their own help, where files lie by `provd.places`; only NAME, SYNOPSIS and
DESCRIPTION are written here. The page has no date, so that it changes only where a command does.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from provd import __version__, places
from provd.cli.app import SECTIONS, app
from provd.cli.command import Command, Group
from provd.cli.commands.topics import TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WIDTH: Final = 70
"""Characters of a line, before those that roff needs."""
_HEAD: Final = """\
.\\" made by python -m provd.cli.manpage; edit the commands instead
.TH PROVD 1 "" "provd {version}" "User Commands"
.SH NAME
provd \\- tells whether what you remember is still true: fresh, dirty or unknown
.SH SYNOPSIS
.B provd
.I COMMAND
.RI [ OPTIONS ]
\\&...
.SH DESCRIPTION
An agent that remembers what it read cannot know whether it is still true.
provd is a daemon that knows what each memory rests on (files, directories,
globs, other memories, objects that actions declare) and answers, with evidence.
Unknown counts as dirty. Age is no term in the answer.
"""
_FILES: Final = (places.config_place, places.state_place, places.socket_place)


def page() -> str:
    """The whole page, as roff."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD.format(version=_text(__version__)).rstrip("\n")
    yield from _example(app)
    yield ".SH COMMANDS"
    context = click.Context(app, info_name="provd")
    for section, rows in SECTIONS.items():
        yield f".SS {_text(section)}"
        for name in (name for row in rows for name in row.split(", ")):
            command = app.get_command(context, name)
            assert command is not None
            yield from _command(f"provd {name}", command)
    for topic, (what, text) in TOPICS.items():
        yield f'.SH "{topic.replace("-", " ").upper()}"'
        yield f"{_sentence(what)}"
        yield from _verbatim(text.splitlines())
    yield ".SH FILES"
    for place in _FILES:
        what, turn = _described(place)
        yield from (".TP", f".I {_text(what)}", *_paragraph(turn))


def _described(place: Callable[..., places.Place]) -> tuple[str, str]:
    """What a place is, and where it is looked for: how its docstring begins, and "In turn: ..."."""
    first, _, rest = (inspect.getdoc(place) or "").partition("\n\n")
    turn = next(part for part in f"{first}\n\n{rest}".split("\n\n") if "In turn: " in part)
    return re.split(r"[.,]", first)[0], turn[turn.index("In turn: ") :].replace("`", "")


def _command(path: str, command: click.Command) -> Iterator[str]:
    """A command with its options and examples, and after it those below it."""
    yield ".TP"
    arguments = " ".join(_text(p.metavar or "") for p in command.params if isinstance(p, click.Argument))
    below = "COMMAND" if isinstance(command, click.Group) else ""
    yield f"\\fB{_text(path)}\\fR" + (f" \\fI{arguments or below}\\fR" if arguments or below else "")
    yield from _paragraph(command.help or "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        yield ".RS"
        for option in options:
            yield from (".TP", _option(option), *_paragraph(option.help or ""))
        yield ".RE"
    yield from _example(command)
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _command(f"{path} {name}", command.commands[name])


def _option(option: click.Option) -> str:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.opts)
    if option.is_flag:
        return names
    choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
    return f"{names} \\fI{_text(option.metavar or choices or 'VALUE')}\\fR"


def _example(command: click.Command) -> Iterator[str]:
    assert isinstance(command, Command | Group)
    yield from _verbatim(command.examples)


def _verbatim(lines: Sequence[str]) -> Iterator[str]:
    """Lines as they stand."""
    yield from (".PP", ".RS", ".nf", *map(_text, lines), ".fi", ".RE")


def _paragraph(text: str) -> Iterator[str]:
    """Text that roff fills, in lines that an editor shows whole."""
    yield from map(_text, textwrap.wrap(" ".join(text.split()), _WIDTH, break_on_hyphens=False, break_long_words=False))


def _sentence(text: str) -> str:
    return _text(text[:1].upper() + text[1:] + ".")


def _text(text: str) -> str:
    """Text that roff takes as it is: no escapes, no requests, hyphens that can be copied."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    plain = plain.replace("`", "\\(ga").replace("'", "\\(aq")
    return re.sub(r"^([.'])", r"\\&\1", plain)


if __name__ == "__main__":
    sys.stdout.write(page())
