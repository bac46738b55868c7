"""The help of a command, in as many words as a screen takes.

Rule: what it does, examples, then options. Where all is too long for a screen, first the options that most commands
have are named without a word, then those that few need, then what is told at length is left out, from the end. All of
it is in `provd help --all COMMAND` and in the manual page.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS: Final = 23
"""Lines of a screen of 24 that a prompt leaves."""
WHOLE: Final = "provd.whole-help"
"""Where a context keeps that all is to be told, however long it is."""
_HELP: Final = "help"
"""What click's own option is called here."""
_SHARED: Final = frozenset(("root", "scope", "as_json", "socket", "state", _HELP))
"""What most commands have and means the same in each, as parameters are named."""
_ONE: Final = "\xa0"
"""Between an option and what it takes, so that they stay together."""


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """The examples, as they stand."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def write(
    command: click.Command,
    context: click.Context,
    formatter: click.HelpFormatter,
    examples: Sequence[str],
    rare: Sequence[str],
) -> None:
    """The help of a command with some examples; `rare` are the parameters that few need, by their names."""
    text = ""
    for paragraphs, unsaid in _plans(command, frozenset(rare)):
        piece = context.make_formatter()
        command.format_usage(context, piece)
        piece.write_paragraph()
        with piece.indentation():
            piece.write_text("\n\n".join(paragraphs))
        write_examples(examples, piece)
        _write_options(command, context, piece, unsaid)
        text = piece.getvalue()
        if context.meta.get(WHOLE) or text.count("\n") <= ROWS:
            break
    formatter.write(text)


def _plans(command: click.Command, rare: frozenset[str]) -> Iterator[tuple[list[str], frozenset[str]]]:
    """The paragraphs to tell and the options to say no word about, from the longest help to the shortest."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    yield paragraphs, frozenset()
    yield paragraphs, _SHARED
    yield paragraphs, _SHARED | rare
    for left in range(len(paragraphs) - 1, 0, -1):
        yield paragraphs[:left], _SHARED | rare


def _write_options(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter, unsaid: frozenset[str]
) -> None:
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    names = {id(option): _HELP if {*option.opts} & {*context.help_option_names} else option.name for option in options}
    told = [record for each in options if names[id(each)] not in unsaid and (record := each.get_help_record(context))]
    named = [_named(option) for option in options if names[id(option)] in unsaid]
    with formatter.section("Options"):
        if told:
            formatter.write_dl(told)
        if named:
            words = context.command_path.partition(" ")[2]
            also = f"Also, as provd help --all {words} tells: ".replace(" ", _ONE).removesuffix(_ONE)
            indent = " " * formatter.current_indent
            for line in textwrap.wrap(
                " ".join([also, *named]),
                formatter.width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
            ):
                formatter.write(line.replace(_ONE, " ") + "\n")


def _named(option: click.Option) -> str:
    """An option without a word on it: `--root DIR`."""
    choices = f"[{'|'.join(map(str, option.type.choices))}]" if isinstance(option.type, click.Choice) else ""
    takes = "" if option.is_flag or option.count else option.metavar or choices
    return _ONE.join(filter(None, (option.opts[-1], takes)))
