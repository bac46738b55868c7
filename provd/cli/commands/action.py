"""What an agent changes, declared: action begin, end, record, ls.

Rule: `begin` prints the action's id and nothing else on stdout, so that a shell can keep it for `end`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli import output
from provd.cli.command import (
    WORK_PATIENCE,
    Command,
    Failure,
    Group,
    Usage,
    connected,
    given,
    json_option,
    number_or_text,
    root_option,
    scope_option,
)
from provd.cli.given import completing, names
from provd.cli.words import hints
from provd.client import RpcError

if TYPE_CHECKING:
    from provd.cli.command import Function, Place

_AFFECTED_SHOWN = 10
_LEFT: Final = "begun before the daemon was started"
_STATES: Final = {"hold": "ends with its connection", "waiting": f"{_LEFT}, and ends soon if nobody takes it over"}
"""What is so of an action, in words."""


@click.group(
    cls=Group,
    examples=(
        "a=$(provd action begin --write object:svc:api/replicas)",
        "kubectl scale deploy/api --replicas 3; provd action end $a",
    ),
)
def action() -> None:
    """Declare what an agent changes, so that what rests on it is known to be dirty."""


def described(function: Function) -> Function:
    """Adds the options that describe an action; the command gets them under their names, for `description`."""
    for option in (
        scope_option,
        root_option,
        click.option("--if-usable", metavar="KEY", multiple=True, help="Refuse unless this entry may be used."),
        click.option("--note", metavar="TEXT", help="Why."),
        click.option("--turn", metavar="N", help="In which turn."),
        click.option("--session", metavar="S", help="Who does it."),
        click.option("--write", "writes", metavar="D", multiple=True, help="What it changes: object:ID or a path."),
    ):
        function = option(function)
    return function


_op_option = click.option("--op", metavar="ID", help="The same ID again gets the first answer: a safe retry.")


def description(
    writes: tuple[str, ...],
    session: str | None,
    turn: str | None,
    note: str | None,
    if_usable: tuple[str, ...],
) -> dict[str, Any]:
    """An action as parameters of a request; raises Usage."""
    return given(
        writes=[names.dependency(write) for write in writes],
        session=session,
        turn=number_or_text(turn),
        note=note,
        if_usable=list(if_usable) or None,
    )


def _needed(op: str | None, **declared: Any) -> dict[str, Any]:
    """The same, where it must say what it writes; raises Usage."""
    if not declared["writes"]:
        raise Usage(
            "nothing says what it changes",
            "provd exec -- CMD  # finds out by itself; else --write object:ID or --write PATH",
        )
    return description(**declared) | given(op=op)


@action.command(cls=Command, examples=("a=$(provd action begin --write object:svc:api --if-usable plan)",))
@described
@_op_option
@json_option
@connected
def begin(root: str | None, scope: str | None, as_json: bool, at: Place, **declared: Any) -> int:
    """Say it before it is done. Prints the action's id, for `action end`."""
    _declare("action.begin", names.Scope(root, scope), _needed(**declared), as_json, at)
    return 0


@action.command(cls=Command, examples=("provd action record --write object:svc:api --session s1 --turn 4",))
@described
@_op_option
@click.option("--outcome", type=click.Choice(["done", "failed"]), help="How it ended (default done).")
@json_option
@connected
def record(root: str | None, scope: str | None, outcome: str | None, as_json: bool, at: Place, **declared: Any) -> int:
    """Begin and end at once, for what was already done."""
    params = _needed(**declared) | given(outcome=outcome)
    _declare("action.record", names.Scope(root, scope), params, as_json, at)
    return 0


def _declare(method: str, where: names.Scope, params: dict[str, Any], as_json: bool, at: Place) -> None:
    with at.connect(WORK_PATIENCE) as client:
        place = where.params(client)
        try:
            answer = client.call(method, **params, **place)
        except RpcError as error:
            raise hints.unguarded(error, params["writes"]) from None
    if answer.get("ended"):
        message = f"nothing was begun: --op {params['op']} began action {answer['id']}, and that has ended"
        raise Failure(message, "give another --op for another action")
    if as_json:
        output.line_json(answer)
        return
    output.line(str(answer["id"]))
    affects = answer.get("affects") or {}
    if count := affects.get("count"):
        shown = [str(key) for key in (affects.get("keys") or [])[:_AFFECTED_SHOWN]]
        rest = f" and {count - len(shown)} more" if count > len(shown) else ""
        affected = output.count(count, "entry", "entries")
        output.note(output.printable(f"affects {affected}: {', '.join(shown)}{rest}"))


@action.command(cls=Command, examples=("provd action end 17", "provd action end 17 --outcome aborted"))
@click.argument("number", metavar="ID", type=click.IntRange(min=0), shell_complete=completing.open_actions)
@click.option(
    "--outcome",
    type=click.Choice(["done", "failed", "aborted"]),
    default="done",
    help="failed counts as written; aborted says that nothing was attempted (default done).",
)
@json_option
@connected
def end(number: int, outcome: str, as_json: bool, at: Place) -> int:
    """Say how an action ended."""
    with at.connect() as client:
        answer = client.end(number, outcome)
    if as_json:
        output.line_json(answer)
    else:
        output.note(f"action {number}: {outcome}")
    return 0


@action.command(cls=Command, examples=("provd action ls",))
@json_option
@connected
def ls(as_json: bool, at: Place) -> int:
    """The open actions."""
    with at.connect() as client:
        answer = client.call("action.list")
    if as_json:
        output.line_json(answer)
    else:
        for item in answer["actions"]:
            output.line(open_line(item))
    return 0


def open_line(item: dict[str, Any]) -> str:
    """An open action as a line: its id, what it writes, and what else is told of it but the paths that those are."""
    writes = " ".join(output.name(write) for write in item.get("writes") or []) or "says nothing of what it writes"
    told_first = {"id", "writes", "paths"}
    facts = {word: value for word, value in item.items() if word not in told_first and value not in (None, False)}
    if "at" in facts:
        facts["at"] = output.moment(facts["at"])
    told = ", ".join(_STATES.get(word, f"{word} {value}") for word, value in facts.items())
    return f"{item.get('id', '?'):>8}  {writes}" + (f"  ({output.printable(told)})" if told else "")


def named(item: dict[str, Any]) -> str:
    """Which action it is and whose, by an open one or by the record of its begin."""
    session = "" if item.get("session") is None else f" of session {output.printable(str(item['session']))}"
    return f"action {item['id']}{session}" + (f", {_LEFT}" if item.get("waiting") else "")
