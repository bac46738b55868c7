"""The command `provd`: what people and scripts type.

Rule: one exit code for each outcome, whatever happened, so that a script can trust it: 0 fresh or done, 1 dirty,
2 usage, 3 daemon not reachable, 4 unknown, 5 refused, provd's own fault, or an answer that could not be written
(stdout closed or full), 130 interrupted. Every error says what, why and what to do next, on stderr; with --json also
on stdout, as one object.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Final

import click

from provd.cli import hints, output
from provd.cli.app import app
from provd.cli.command import Failure
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 5
INTERRUPTED: Final = 128 + signal.SIGINT
READER_GONE: Final = 128 + signal.SIGPIPE
_COMPLETE: Final = "_PROVD_COMPLETE"
"""Set by the scripts of `provd completion`: what the shell asks for."""
_NEXT: Final[dict[int | None, str]] = {
    errno.ENOSPC: "free space, or write elsewhere",
    errno.EBADF: "open stdout; to /dev/null where nobody wants the answer",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    try:
        return _run(arguments)
    except BrokenPipeError:
        # The reader of our output has gone: end as quietly as a program that SIGPIPE ends.
        output.discard(sys.stdout, sys.stderr)
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    """The command's own code, or the code of what went wrong, which is told."""
    try:
        if asked := os.environ.get(_COMPLETE):
            from provd.cli import completion  # noqa: PLC0415  (a shell asks once a key, commands never)

            return completion.answer(app, asked)
        if not arguments:
            output.note(app.get_help(click.Context(app, info_name="provd", **app.context_settings)))
            return USAGE
        with app.make_context("provd", arguments) as context:
            code = int(app.invoke(context) or 0)
            sys.stdout.flush()  # what was never written was not done
            return code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        help_of = where.command_path if where is not None else "provd"
        _tell(arguments, "usage", error.format_message(), getattr(error, "hint", "") or f"{help_of} --help")
        return USAGE
    except ProvdUnreachable as error:
        _tell(arguments, "unreachable", error.message, error.hint)
        return UNREACHABLE
    except RpcError as error:
        message, hint = hints.refusal(error)
        _tell(arguments, error.code, message, hint, f" [{error.code}]")
        return REFUSED
    except Failure as error:
        _tell(arguments, "failed", error.message, error.hint)
        return REFUSED
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _tell(arguments, "system", str(error), _NEXT.get(error.errno, ""))
        _give_up()
        return REFUSED
    except Exception as error:  # noqa: BLE001  (whatever it is, it must not look like a verdict)
        traceback.print_exc()
        fault = f"provd's own fault: {type(error).__name__}: {error}"
        _tell(arguments, "internal", fault, "please report it with the lines above")
        return REFUSED


def _tell(arguments: list[str], code: str, message: str, hint: str, mark: str = "") -> None:
    """What went wrong: on stderr, and where JSON was asked for on stdout too, unless stdout is what went wrong."""
    output.complain(message + mark, hint)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in options:
        with contextlib.suppress(OSError):
            output.line_json({"error": {"code": code, "message": message, "hint": hint}})
            sys.stdout.flush()


def _give_up() -> None:
    """Drops what stdout does not take, so that the interpreter does not try again and end with a code of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        output.discard(sys.stdout)
