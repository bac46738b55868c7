"""What all commands share: help that opens with examples, the nearest name for a wrong one, common options.

Rule: no option means different things in two commands.
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import click

from provd import places, reach
from provd.cli import helptext, output, steps
from provd.cli.given import completing
from provd.client import Client, ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = Callable[..., int]

C = TypeVar("C", bound=Client)

HELP_NAMES: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_AS_JSON: Final = "as_json"
_JSON: Final = "provd.json"
"""Where a context keeps what a command found its option to be."""
_NAME: Final = "provd.command"
"""Where a context keeps the name of the command that was invoked."""
GREETING: Final = 5.0
"""Seconds for a daemon to say who it is, which takes no work: one that does not hangs."""
PATIENCE: Final = 30.0
"""Seconds to wait for the answer to a question."""
WORK_PATIENCE: Final = 600.0
"""Seconds to wait where the daemon may have to read much before it answers."""


_NOBODY: Final = frozenset({"absent", "stale", "file"})
"""How a socket is where nobody listens."""
_COUNTED: Final = 15
"""Digits of a number that every reader of JSON holds exactly."""
_REPEATS: Final = " May be repeated."
_NEAR: Final = 0.65
"""How alike a wrong name and its suggestion must be: `lgo` is `log`, `bogus` is nothing, and no `history` is `try`."""
_NEARER: Final = 0.75
"""The same where they begin with another letter: `ehlp` is `help`, and `observe` is no `service`."""


class Failure(Exception):
    """The command could not do what it was asked (exit code 5)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Usage(click.UsageError):
    """The command line is wrong; `hint` is the next thing to type."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Command(click.Command):
    """A command whose help opens with examples and fits a screen; `rare` are the parameters that few need."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), rare: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.rare = rare
        completing.equip(self.params)
        for option in self.params:
            if isinstance(option, click.Option) and option.multiple and option.help and _REPEATS not in option.help:
                option.help += _REPEATS

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What it does, then the examples, then the options."""
        helptext.write(self, ctx, formatter, self.examples, self.rare)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; a usage error always knows whose help to name."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; what was asked for stands where whoever tells of an error finds it."""
        ctx.meta[_JSON] = bool(ctx.params.get(_AS_JSON))
        ctx.meta[_NAME] = ctx.command_path
        place = {name: output.quoted(each) for name in steps.PLACE if isinstance(each := ctx.params.get(name), str)}
        steps.know(ctx.meta, _known(ctx.params), place)
        return super().invoke(ctx)


def _known(params: dict[str, Any]) -> dict[str, str]:
    """What stands for placeholders in the hints of a command that was given this: its one key."""
    keys = [params["key"]] if params.get("key") is not None else list(params.get("keys") or ())
    if len(keys) != 1:
        return {}
    return {"KEY": output.quoted(keys[0])}


def wants_json(context: click.Context | None, arguments: Sequence[str]) -> bool:
    """Whether the answer is to be JSON, so that an error is too: as the command line was read.

    `context` is that of the command that was invoked, or could not read its `arguments`: then the word counts, where
    the command has such an option.
    """
    if context is not None:
        if _JSON in context.meta:
            return bool(context.meta[_JSON])
        if isinstance(context.command, Command) and all(option.name != _AS_JSON for option in context.command.params):
            return False
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def help_of(context: click.Context | None) -> str:
    """The command that tells how the one that was asked for is used; `context` is its own, or that of all."""
    if context is None:
        return "provd --help"
    return f"{context.meta.get(_NAME) or context.command_path} --help"


class Group(click.Group):
    """A group that knows the nearest command for a wrong one."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("no_args_is_help", False)  # a missing command is a usage error on every release of click
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What it does, then the examples."""
        super().format_help_text(ctx, formatter)
        helptext.write_examples(self.examples, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; raises Usage that lists the commands where none is named."""
        if not args and not ctx.resilient_parsing:
            names = ", ".join(self.list_commands(ctx))
            raise Usage(f"{ctx.command_path} needs a command", f"{ctx.command_path} --help  # one of {names}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` names; raises Usage with the nearest name."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = nearest(args[0], self.list_commands(ctx))
            meant = " ".join([ctx.command_path, near or "", *map(output.typed, args[1:])])
            hint = f"{meant}  # did you mean that?" if near else ""
            raise Usage(f"there is no command {args[0]!r}", steps.ways(hint, f"{ctx.command_path} --help  # lists all"))
        return super().resolve_command(ctx, args)


def least(timeout: float | None) -> float:
    """The seconds for a greeting, where an answer may take so many."""
    return GREETING if timeout is None else min(timeout, GREETING)


@dataclass(frozen=True)
class Place:
    """Where the daemon is, as the command line says it."""

    socket: str | None
    state: str | None

    @overload
    def connect(self, timeout: float | None = ...) -> Client: ...
    @overload
    def connect(self, timeout: float | None, kind: type[C]) -> C: ...
    def connect(self, timeout: float | None = PATIENCE, kind: type[Client] = Client) -> Client:
        """A connection to a daemon that answers, of that kind of client; raises ProvdUnreachable, RpcError.

        `timeout`: seconds for each answer to come, None without end. Whether it is provd and does not hang is asked
        first, with less patience.
        """
        socket = places.socket_path(self.socket, self.state)
        try:
            client = kind(socket, least(timeout))
        except ProvdUnreachable as error:
            from provd.cli.processes import holding, process  # noqa: PLC0415  (only where it does not answer)

            asked = error.kind == "busy" or error.kind in holding.NOBODY
            state = places.state_dir(self.state)
            held = holding.holder(state) if asked else None
            error = self.named(holding.bereft(error, held, socket, state))
            raise process.hung(error, held.pid if held is not None and held.socket == socket else None) from None
        try:
            client.greet(least(timeout))
        except ProvdUnreachable as error:
            from provd.cli.processes import process  # noqa: PLC0415

            pid = client.peer_pid()
            client.close()
            raise process.hung(error, pid) from None
        except BaseException:
            client.close()
            raise
        client.timeout = timeout
        return client

    def named(self, error: ProvdUnreachable) -> ProvdUnreachable:
        """The same; where an option or a variable named a place that nobody listens at, what to do speaks of that."""
        if error.kind not in _NOBODY or error.elsewhere is not None:
            return error
        from provd import elsewhere  # noqa: PLC0415  (only where it does not answer)

        if (self.socket or self.state) is None:
            there = elsewhere.beside_variable()
            if there is None:
                return error
            unset = f"unset PROVD_SOCKET  # it names another place than {there}, where a daemon of yours listens"
            hint = unset if there == places.usual_socket() else reach.ask_it(there)
            return ProvdUnreachable(error.message, hint, error.kind, there)
        asked, usual = places.socket_path(self.socket, self.state), places.socket_path()
        named = {"--state": self.state, "--socket": self.socket and asked}
        options = [f"{option} {output.quoted(value)}" for option, value in named.items() if value]
        start = " ".join(["provd start", *options])
        if usual != asked and elsewhere.answers(usual):
            them = " and ".join(option for option, value in named.items() if value)
            hint = f"provd status --socket {output.quoted(usual)}  # one listens there: so, or leave {them} out"
            begin = start if self.state and error.kind != "file" else ""  # another state is another daemon
            return ProvdUnreachable(error.message, steps.ways(begin, hint), error.kind, usual)
        hint = error.hint if error.kind == "file" else start
        return ProvdUnreachable(error.message, hint, error.kind)


def _tell_relative() -> None:
    """Warns where $PROVD_SOCKET means another place in each directory."""
    named = os.environ.get("PROVD_SOCKET", "")
    if named and not os.path.isabs(named):
        path = places.absolute(named)
        output.warn(
            f"$PROVD_SOCKET is relative, so it means another socket in each directory: here {path}",
            f"export PROVD_SOCKET={output.quoted(path)}  # the same everywhere",
        )


def connected(function: Function) -> Function:
    """Adds `--socket` and `--state`; the command gets them as `at`, a Place."""

    @click.option("--socket", metavar="PATH", help="The daemon's socket.")
    @click.option("--state", metavar="DIR", help="The daemon's state directory.")
    @functools.wraps(function)
    def wrapper(*args: Any, socket: str | None, state: str | None, **kwargs: Any) -> int:
        if socket is None:
            _tell_relative()
        return function(*args, at=Place(socket, state), **kwargs)

    return wrapper


json_option = click.option(
    "--json",
    _AS_JSON,
    is_flag=True,
    help='Answer as JSON, one value a line; an error too: {"error": {code, message, hint}}.',
)
root_option = click.option(
    "--root",
    metavar="DIR",
    help="The root whose keys are meant (default: the watched one around here, else this directory).",
)
scope_option = click.option("--scope", metavar="NAME", help="A scope of no directory, instead of a root.")


def read_file(file: str, what: str, most: int, over: RpcError) -> bytes:
    """The content of a file, or of stdin (`-`); raises Usage, and `over` where there are more than `most` bytes."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(most + 1)
        else:
            with open(file, "rb") as source:
                content = source.read(most + 1)
    except OSError as error:
        raise unreadable(what, file, error) from None
    if len(content) > most:
        raise over
    return content


def unreadable(what: str, file: str, error: OSError) -> Usage:
    """That a file, or stdin (`-`), cannot be read; `what` it was to hold, where its name does not say it."""
    name = "stdin" if file == "-" else file
    message = f"cannot read {what + ': ' if what else ''}{name}: {error.strerror}"
    return Usage(message, "name a file that can be read, or - for stdin")


def number_or_text(text: str | None) -> int | str | None:
    """A turn: counted, or named; a number that the daemon does not count to is a name."""
    counted = text is not None and text.isascii() and text.isdigit() and len(text) <= _COUNTED
    return int(text) if text is not None and counted else text


def given(**params: Any) -> dict[str, Any]:
    """The parameters that have a value; None stands for an option that was not given."""
    return {name: value for name, value in params.items() if value is not None}


def read_when(fetched_at: str | None, as_of_now: bool) -> dict[str, Any]:
    """When what a value rests on was read, as a put says it; raises Usage where two moments are given."""
    if fetched_at is not None and as_of_now:
        message = "--fetched-at and --as-of-now exclude each other"
        raise Usage(message, "--fetched-at where it was read before, --as-of-now where it is true of what is there")
    return given(fetched_at=fetched_at, as_of="put" if as_of_now else None)


def nearest(word: str, names: Sequence[str]) -> str | None:
    """The name that a wrong one was likely meant to be: one that begins so, else one that looks alike."""
    begun = [name for name in names if word and name.startswith(word)]
    alike = difflib.get_close_matches(word, names, cutoff=_NEAR)
    return next((name for name in begun or alike if name[:1] == word[:1] or _likeness(word, name) >= _NEARER), None)


def _likeness(word: str, name: str) -> float:
    return difflib.SequenceMatcher(None, name, word).ratio()
