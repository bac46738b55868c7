"""The command `provd`: what people and scripts type.

Rule: one exit code for each outcome, whatever happened (`codes`), so that a script can trust it. Every error says what,
why and what to do next, on stderr; with --json also on stdout, as one object.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

import click

from provd import codes, fastpath
from provd.cli import output, steps
from provd.cli.app import app
from provd.cli.command import Failure, help_of, wants_json
from provd.cli.words import hints
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEXT: Final[dict[int | None, str]] = {
    errno.ENOSPC: "free space, or write elsewhere",
    errno.EDQUOT: "free space, or write elsewhere",
    errno.EBADF: "open stdout; to /dev/null where nobody wants the answer",
    errno.EMFILE: "allow more open files: ulimit -n",
    errno.ENFILE: "end what holds many files open, then try again",
}
_LOOK: Final = "look at the disk and its permissions, then try again; provd doctor looks at provd's own places"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    try:
        return _run(arguments)
    except BrokenPipeError:
        # The reader of our output has gone: end as quietly as a program that SIGPIPE ends.
        output.discard(sys.stdout, sys.stderr)
        return codes.READER_GONE
    except KeyboardInterrupt:
        return codes.INTERRUPTED


def _run(arguments: list[str]) -> int:
    """The command's own code, or the code of what went wrong, which is told."""
    context: click.Context | None = None
    try:
        if asked := os.environ.get(fastpath.COMPLETE):
            from provd.cli.commands import completion  # noqa: PLC0415  (a shell asks once a key, commands never)

            return completion.answer(app, asked)
        if not arguments:
            output.note(app.get_help(click.Context(app, info_name="provd", **app.context_settings)))
            return codes.USAGE
        context = app.make_context("provd", arguments)
        with context:
            code = int(app.invoke(context) or 0)
            sys.stdout.flush()  # what was never written was not done
            return code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return codes.INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise
        at = getattr(error, "ctx", None) or context
        _tell(error, at, as_json=wants_json(at, arguments))
        if isinstance(error, OSError):
            _give_up()
        return _code(error)


def _code(error: Exception) -> int:
    """The exit code of what went wrong."""
    match error:
        case click.ClickException():
            return codes.USAGE
        case ProvdUnreachable():
            return codes.UNREACHABLE
        case _:
            return codes.REFUSED


def _tell(error: Exception, context: click.Context | None, *, as_json: bool) -> None:
    """What went wrong: on stderr, and where JSON was asked for on stdout too, unless stdout is what went wrong."""
    code, message, hint = _told(error)
    hint = steps.filled(steps.pasteable(hint, _otherwise(error, context)), context)
    mark = f" [{code}]" if isinstance(error, RpcError) else ""
    output.complain(message + mark, hint)
    if as_json:
        with contextlib.suppress(OSError):
            output.line_json({"error": {"code": code, "message": message, "hint": hint}})
            sys.stdout.flush()


def _otherwise(error: Exception, context: click.Context | None) -> str:
    """The command that tells more than a hint of prose: of what was asked wrongly its help, else the doctor."""
    match error:
        case RpcError():
            return hints.help_on(error.code) or help_of(context)
        case click.ClickException():
            return help_of(context)
        case _:
            return steps.MORE


def _told(error: Exception) -> tuple[str, str, str]:
    """Its code in the contract, what went wrong and why, and what to do next."""
    match error:
        case click.ClickException():
            return "usage", error.format_message(), getattr(error, "hint", "") or help_of(getattr(error, "ctx", None))
        case ProvdUnreachable():
            return "unreachable", error.message, error.hint
        case RpcError():
            return error.code, *hints.refusal(error)
        case Failure():
            return "failed", error.message, error.hint
        case OSError():
            return "system", str(error), _NEXT.get(error.errno, _LOOK)
        case _:
            traceback.print_exception(error)
            fault = f"provd's own fault: {type(error).__name__}: {error}"
            return "internal", fault, "please report it with the lines above"


def _give_up() -> None:
    """Drops what stdout does not take, so that the interpreter does not try again and end with a code of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        output.discard(sys.stdout)
