"""The configuration: config show, path, init, check, reload.

Rule: everything but `reload` works without a daemon. What is in force is told by who knows it: a running daemon for
itself, the file for the next one.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from provd import codes, places
from provd.cli import output, steps
from provd.cli.command import Command, Failure, Group, connected, json_option
from provd.cli.words import hints
from provd.client import ProvdUnreachable, RpcError, local_path, wire_path
from provd.umask import usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place
    from provd.configuration import File

Json = dict[str, Any]
_RELOAD: Final = "provd config reload"
_RESTART: Final = "provd restart"
_CHECK: Final = "provd config check"
"""What comes first where the file has mistakes: with them it is refused whatever takes it."""
_NOBODY: Final = frozenset({"absent", "stale", "file"})
"""How a socket is where no daemon listens; in any other way there may be one."""


@click.group(
    cls=Group,
    examples=(
        "provd config show",
        "provd config init              # a file with all settings, commented out",
        "$EDITOR $(provd config path) && provd config reload",
    ),
)
def config() -> None:
    """The settings: which file they stand in, what they are, and what is wrong with them."""


@config.command(cls=Command, examples=("provd config path", "cat $(provd config path)"))
@json_option
def path(as_json: bool) -> int:
    """The file that a daemon started here would read, whether it is there or not."""
    place = places.config_place()
    if as_json:
        output.line_json({**_place(place), "there": os.path.exists(place.path)})
    else:
        output.line(output.printable(place.path) if sys.stdout.isatty() else place.path)
    return 0


@config.command(cls=Command, examples=("provd config init && $EDITOR $(provd config path)",))
def init() -> int:
    """Write a file with every setting, its meaning and its default, commented out. One that is there is left alone."""
    file = places.config_path()
    try:
        with usable():
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "x", encoding="utf-8") as new:
                new.write("\n".join(_template()) + "\n")
    except FileExistsError:
        raise Failure(f"{file} is there: it is left alone", "provd config show  # what it says") from None
    except OSError as error:
        raise Failure(
            f"{file} cannot be written: {error.strerror}",
            f"ls -ld {output.quoted(os.path.dirname(file))}  # may this user write? $PROVD_CONFIG names another file",
        ) from None
    output.note(f"wrote {output.name(_wire(file))}; after an edit: {_RELOAD}")
    return 0


def _template() -> Iterator[str]:
    """The lines of a file that says nothing yet."""
    from provd.configuration import KEYS  # noqa: PLC0415

    yield "# The settings of provd. What is commented out has its default; provd config check finds mistakes."
    told = ""
    for name, key in KEYS.items():
        section, _, last = name.rpartition(".")
        yield ""
        if section != told:
            told = section
            yield f"[{section}]"
        yield f"# {key.meaning} ({key.kind.wanted})"
        yield f"#{last} = {json.dumps(key.default)}"


@config.command(cls=Command, examples=("provd config check", "provd config check ./config.toml --json"))
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-q", "--quiet", is_flag=True, help="Print the mistakes alone, and nothing where there are none.")
@json_option
def check(file: str | None, quiet: bool, as_json: bool) -> int:
    """All that is wrong with the file, one a line, without starting anything. Exit: 0 nothing, 1 something."""
    read = _read(file)
    if as_json:
        output.line_json({"path": _wire(read.path), "there": read.there, "mistakes": _mistakes(read)})
    else:
        for mistake in read.mistakes:
            output.line(output.symbol("dirty") + " " + output.printable(mistake.told(read.path)))
        if quiet:  # a unit runs this at each reload, and what it says is logged as an error
            pass
        elif read.mistakes:
            output.advise(f"provd config show  # lists the keys: correct {read.path}, then check it again")
        else:
            said = "nothing wrong" if read.there else "not there: the defaults hold"
            output.note(f"{output.name(_wire(read.path))}: {said}")
    return codes.FOUND if read.mistakes else 0


@config.command(cls=Command, examples=("provd config show", "provd config show --json | jq .settings"))
@json_option
@connected
def show(as_json: bool, at: Place) -> int:
    """Every setting, with where it comes from; the places; and whether a running daemon uses the same.

    Exit: 0, or 1 where the file has mistakes.
    """
    read = _read(None)
    told = _told(read, at)
    if as_json:
        output.line_json(told)
    else:
        for text in _lines(told):
            output.line(text)
        for mistake in read.mistakes:
            output.warn(mistake.told(read.path))
        if read.mistakes:
            output.advise(f"{_CHECK}  # when {read.path} is corrected")
    return codes.FOUND if read.mistakes else 0


@config.command("reload", cls=Command, examples=("provd config reload",))
@json_option
@connected
def reload_(as_json: bool, at: Place) -> int:
    """Have the daemon read its file again. What only a restart can change is named."""
    with at.connect() as client:
        try:
            answer = client.call("daemon.reload")
        except RpcError as error:
            if error.code != "root.missing":
                raise
            # What is missing is named by the file: that has to be corrected, and nothing that was asked here.
            raise hints.Advised(error.code, error.message, error.hint, error.data) from None
    if as_json:
        output.line_json(answer)
        return 0
    changed = ", ".join(answer["changed"]) or "nothing"
    path = output.name(answer["path"])
    if os.path.exists(local_path(answer["path"])):
        output.note(f"reloaded {path}: {changed} changed")
    else:
        output.note(f"{path} is not there, the defaults hold: {changed} changed")
    if answer["restart"]:
        output.warn(f"needs a restart ({_RESTART}): {', '.join(answer['restart'])}")
    return 0


def _read(file: str | None) -> File:
    """The file of that name, else the one that a daemon would read; with the roots that are not there."""
    from provd import configuration  # noqa: PLC0415  (few commands need it)

    if file is not None:
        return configuration.with_roots(configuration.read(file, needed=True))
    place = places.config_place()
    return configuration.with_roots(configuration.read(place.path, needed=place.named))


def _mistakes(read: File) -> list[Json]:
    return [{"line": mistake.line, "key": mistake.key, "message": mistake.message} for mistake in read.mistakes]


def _told(read: File, at: Place) -> Json:
    """What `show` tells, as JSON has it."""
    from provd.configuration import KEYS  # noqa: PLC0415

    found = {
        "config": {**_place(places.config_place()), "there": read.there},
        "state": _place(places.state_place(at.state)),
        "socket": _place(places.socket_place(at.socket, at.state)),
    }
    values = {
        name: {
            "value": read.values.get(name, key.default),
            "from": "file" if name in read.values else "default",
            "flag": key.flag or None,
            "reloads": key.reloads,
        }
        for name, key in KEYS.items()
    }
    return {**found, "settings": values, "mistakes": _mistakes(read), "daemon": _daemon(at, found, values)}


def _daemon(at: Place, found: Json, values: Json) -> Json | None:
    """What a running daemon uses that is not the same; None where none answers."""
    try:
        with at.connect() as client:
            pid, told = client.hello()["pid"], client.call("daemon.config")
    except ProvdUnreachable as error:
        if error.kind in _NOBODY:
            return None
        return {"error": {"code": "unreachable", "message": error.message, "hint": error.hint}}
    except RpcError as error:  # an older daemon, or one that stops
        return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    differs = {}
    if told["path"] == found["config"]["path"]:
        for name, here in values.items():
            there = told["settings"].get(name)
            if there is not None and there["from"] != "flag" and there["value"] != here["value"]:
                differs[name] = {"value": there["value"], "next": "reload" if here["reloads"] else "restart"}
    return {"pid": pid, "differs": differs, **told}


def _place(place: places.Place) -> Json:
    return {"path": _wire(place.path), "from": place.source}


def _wire(text: str) -> Any:
    return wire_path(os.fsencode(text))


def _lines(told: Json) -> Iterator[str]:
    for word in ("config", "state", "socket"):
        place = told[word]
        absent = "" if place.get("there", True) else ", not there"
        yield f"{word:<8}{output.name(place['path'])}  ({place['from']}{absent})"
    daemon = told["daemon"]
    used = daemon["settings"] if daemon is not None and "settings" in daemon else {}
    rows = [(name, _value(key["value"]), _source(key, used.get(name))) for name, key in told["settings"].items()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    yield ""
    for row in rows:
        yield f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}"
    yield ""
    yield from _of_daemon(daemon, told)


def _source(key: Json, used: Json | None) -> str:
    """Where a value comes from; an option that a daemon was started with is its own."""
    if used is not None and used["from"] == "flag":
        return f"{key['from']}; the daemon has {_value(used['value'])} by {key['flag']}"
    return f"{key['from']}  (or {key['flag']})" if key["flag"] else str(key["from"])


def _of_daemon(daemon: Json | None, told: Json) -> Iterator[str]:
    if daemon is None:
        yield "daemon  none answers: this is for the next one"
        return
    if "error" in daemon:
        yield f"daemon  does not tell its settings: {output.printable(daemon['error']['message'])}"
        for text in steps.lines(daemon["error"]["hint"]):
            yield f"  {output.printable(text)}"
        return
    name = f"daemon  pid {daemon['pid']}"
    if daemon["path"] != told["config"]["path"]:
        yield f"{name} reads another file: {output.name(daemon['path'])}"
        return
    if not daemon["differs"]:
        yield f"{name} uses the same"
        return
    yield f"{name} still uses other values:"
    for key, there in daemon["differs"].items():
        take = _RELOAD if there["next"] == "reload" else _RESTART
        yield f"  {key} = {_value(there['value'])}  next: {steps.filled(_CHECK if told['mistakes'] else take)}"


def _value(value: Any) -> str:
    """A value as the file has it."""
    return output.printable(json.dumps(value, ensure_ascii=False))
