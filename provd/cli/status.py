"""How the daemon is: status, version.

Rule: a field that this version does not know is shown as it is, never dropped.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from provd import __version__
from provd.cli import output
from provd.cli.action import open_line
from provd.cli.command import Command, connected, json_option
from provd.cli.records import record_line
from provd.cli.roots import meaning, size, uncovered
from provd.client import ProvdUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place

Json = dict[str, Any]

_WATCHER: Final = ("queue", "drops", "rescans", "watches")
_KNOWN: Final = frozenset({"version", "pid", "uptime_s", "roots", "actions", *_WATCHER})
_TOLD: Final = frozenset(
    {"path", "state", "backend", "coverage", "why", "uncovered", "uncovered_more", "files", "directories"}
)
_PATHS: Final = frozenset({"socket", "state"})
_STATES: Final = {"watching": "green", "gone": "red"}


@click.command(cls=Command, examples=("provd status", "provd status --json | jq .roots"))
@json_option
@connected
def status(as_json: bool, at: Place) -> int:
    """How the daemon is: what it watches and how well, what it holds, how fast it answers."""
    with at.connect() as client:
        answer = client.call("daemon.status")
    if as_json:
        output.line_json(answer)
    else:
        for text in _lines(answer):
            output.line(text)
    return 0


def _lines(answer: Json) -> Iterator[str]:
    facts = [f"{word} {output.printable(str(answer[word]))}" for word in ("version", "pid") if word in answer]
    if "uptime_s" in answer:
        facts.append(f"up {_duration(answer['uptime_s'])}")
    yield output.paint("provd", "bold") + " " + ", ".join(facts)
    if watcher := [f"{word} {_plain(answer[word])}" for word in _WATCHER if word in answer]:
        yield f"  {'watcher':<11}" + ", ".join(watcher)
    for word, value in answer.items():
        if word not in _KNOWN and value != {"reopened": 0}:
            yield f"  {word:<11}{output.name(value) if word in _PATHS else _plain(value)}"
    roots = answer.get("roots") or []
    yield f"  {'roots':<11}" + ("" if roots else "none: provd watch add DIR")
    for root in roots:
        yield from _root(root)
    actions = answer.get("actions") or []
    yield f"  {'actions':<11}" + ("" if actions else "none open")
    for action in actions:
        yield open_line(action)


def _root(root: Json) -> Iterator[str]:
    state = str(root.get("state", ""))
    coloured = output.paint(output.printable(state), _STATES.get(state, "yellow"))
    backend = f"  {output.printable(str(root['backend']))}" if root.get("backend") else ""
    yield f"    {output.name(root['path'])}  {coloured}{backend}  {meaning(root)}"
    if holds := size(root):
        yield f"      holds      {holds}"
    yield from uncovered(root, "      ")
    for word, value in root.items():
        if word not in _TOLD and value not in (None, [], {}):
            is_record = word == "last_gap" and isinstance(value, dict) and "type" in value
            yield f"      {word.replace('_', ' '):<11}{record_line(value).strip() if is_record else _plain(value)}"


def _plain(value: Any) -> str:
    """Any value on one line, for people."""
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return output.name(value)
        return ", ".join(
            f"{output.printable(str(word))} {_plain(part)}" for word, part in value.items() if part is not None
        )
    if isinstance(value, list):
        return "; ".join(_plain(part) for part in value) if value else "none"
    return output.printable(value if isinstance(value, str) else json.dumps(value))


def _duration(seconds: Any) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(told[:2]) or "0 s"


@click.command(cls=Command, examples=("provd version --json",))
@json_option
@connected
def version(as_json: bool, at: Place) -> int:
    """The versions of this command and, where one answers, of the daemon."""
    hello, absence = None, ""
    try:
        with at.connect() as client:
            hello = client.hello()
    except ProvdUnreachable as error:
        absence = error.message
    if as_json:
        output.line_json({"version": __version__, "daemon": hello})
        return 0
    output.line(f"provd {__version__}")
    if hello is None:
        output.note(output.printable(absence))
    else:
        output.line(f"daemon {output.printable(str(hello.get('version')))} (pid {hello.get('pid')})")
    return 0
