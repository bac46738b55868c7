"""The options that several commands have in common: which keys are meant, how a verdict is found, when was read.

Rule: what is not said is left to the daemon.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli.command import (
    PATIENCE,
    connected,
    given,
    json_option,
    number_or_text,
    read_when,
    root_option,
    scope_option,
)
from provd.cli.given import names

if TYPE_CHECKING:
    from provd.cli.command import Function

_VERSION: Final = click.IntRange(min=0)
_TIMEOUT_MS: Final = click.IntRange(min=0, max=3_600_000)


def how(function: Function) -> Function:
    """Adds the options; the command gets them as `verify`, `timeout_ms` and `no_revalidate`."""
    verify = click.Choice(["auto", "content", "log"])
    for option in (
        click.option("--no-revalidate", is_flag=True, help="Read no content: what was touched is dirty."),
        click.option(
            "--timeout-ms", type=_TIMEOUT_MS, metavar="N", help="What takes longer is unknown (default 2000)."
        ),
        click.option("--verify", type=verify, help="The proof asked for (default auto); log trusts the watcher."),
    ):
        function = option(function)
    return function


def keyed(function: Function) -> Function:
    """Adds which keys are meant, and who answers how: `where` (a names.Scope), `as_json`, and `at` (a Place)."""

    @root_option
    @scope_option
    @json_option
    @connected
    @functools.wraps(function)
    def wrapper(*args: Any, root: str | None, scope: str | None, **kwargs: Any) -> int:
        return function(*args, where=names.Scope(root, scope), **kwargs)

    return wrapper


def putting(function: Function) -> Function:
    """Adds when what a value rests on was read, over which version it goes, and who says so.

    The command gets them as parameters of a put: `timed` and `told`; raises Usage where two moments are given.
    """

    @click.option("--fetched-at", metavar="CLOCK", help="The clock taken before what it rests on was read.")
    @click.option("--as-of-now", is_flag=True, help="The value is true of the files as they are now.")
    @click.option("--based-on", metavar="N", type=_VERSION, help="Only if this version is the current one.")
    @click.option("--session", metavar="S", help="Who says so.")
    @click.option("--turn", metavar="N", help="In which turn.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        fetched_at: str | None,
        as_of_now: bool,
        based_on: int | None,
        session: str | None,
        turn: str | None,
        **kwargs: Any,
    ) -> int:
        told = given(based_on=based_on, session=session, turn=number_or_text(turn))
        return function(*args, timed=read_when(fetched_at, as_of_now), told=told, **kwargs)

    return wrapper


def manner(verify: str | None, timeout_ms: int | None, no_revalidate: bool) -> dict[str, Any]:
    """The options as parameters of a request."""
    return given(verify=verify, timeout_ms=timeout_ms, revalidate=False if no_revalidate else None)


def patience(timeout_ms: int | None) -> float:
    """Longer than the daemon allows itself, so that its answer is heard."""
    return PATIENCE + (timeout_ms or 0) / 1000
