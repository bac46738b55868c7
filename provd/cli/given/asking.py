"""How a question is asked: the options that say how a verdict is found.

Rule: what is not said is left to the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli.command import PATIENCE, given

if TYPE_CHECKING:
    from provd.cli.command import Function

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


def manner(verify: str | None, timeout_ms: int | None, no_revalidate: bool) -> dict[str, Any]:
    """The options as parameters of a request."""
    return given(verify=verify, timeout_ms=timeout_ms, revalidate=False if no_revalidate else None)


def patience(timeout_ms: int | None) -> float:
    """Longer than the daemon allows itself, so that its answer is heard."""
    return PATIENCE + (timeout_ms or 0) / 1000
