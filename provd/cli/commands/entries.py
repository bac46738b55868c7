"""Entries: put, ls, forget.

Rule: a put says on stderr whatever makes the entry less than it seems; stdout has only what was asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from provd import codes
from provd.cli import output, steps
from provd.cli.command import (
    WORK_PATIENCE,
    Command,
    Usage,
    given,
    read_file,
)
from provd.cli.given import asking, exact, names, present
from provd.cli.given.sums import dependencies
from provd.cli.words import hints, kept, nothing
from provd.client import MAX_VALUE, RpcError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provd.cli.command import Place
    from provd.cli.given.exact import Written
    from provd.client import Client

Json = dict[str, Any]

_PAGE: Final = 1000
_SHOWN: Final = 3
_NAMED: Final = 10
_AROUND: Final = 40
"""Characters that are shown of what is no JSON."""
_JSON_VALUE: Final = (
    """provd put KEY --json-value --value '{"name": [1, "a text"]}'  # so is JSON; without --json-value it is a text"""
)
_JSON_META: Final = """provd put KEY --meta '{"name": [1, "a text"]}'  # so is JSON: its texts are in double quotes"""
_TOO_BIG: Final = RpcError("entry.too_big", "the value is over 8 MiB", "keep a path to it instead")


@click.command(
    cls=Command,
    rare=("json_value", "no_value", "based_on", "session", "turn", "op", "meta"),
    examples=(
        "sha256sum src/api.py > sums            # before you read it, then",
        "provd put api --value-file api.md --sums sums",
        "c=$(provd clock)                       # or this, before you read it, then",
        "provd put api --value-file api.md --dep src/api.py --fetched-at $c",
        "provd put report --value-file report.md --dep tree:data --fetched-at $c",
    ),
)
@click.argument("key", metavar="KEY")
@click.option(
    "--dep",
    "deps",
    metavar="D",
    multiple=True,
    help="Rests on a PATH, dir: glob: object: ...",
)
@click.option("--sums", metavar="FILE", help="It rests on what sha256sum read: its lines; - is stdin.")
@click.option("--no-deps", is_flag=True, help="It rests on nothing.")
@click.option("--value", metavar="TEXT", help="The value, as it is.")
@click.option("--value-file", metavar="FILE", help="The value is this file's content; - is stdin.")
@click.option("--json-value", is_flag=True, help="The value is JSON, not text.")
@click.option("--no-value", is_flag=True, help="An entry without a value (as when none is given).")
@asking.putting
@click.option("--op", metavar="ID", help="The same ID again gets the first answer: a safe retry.")
@click.option("--meta", metavar="JSON", help="Kept with the value.")
@asking.keyed
def put(
    key: str,
    deps: tuple[str, ...],
    sums: str | None,
    no_deps: bool,
    timed: Json,
    told: Json,
    op: str | None,
    meta: str | None,
    where: names.Scope,
    as_json: bool,
    at: Place,
    **value: Any,
) -> int:
    """Keep a value with what it rests on. Prints the key and its version: a new one, or with an equal value the old."""
    if sums == "-" and value["value_file"] == "-":
        raise Usage("--sums - and --value-file - both read stdin", "give one of them as a file")
    params: dict[str, Any] = {"key": key}
    params["deps"] = _dependencies(deps, sums, no_deps, timed=bool(timed))
    params |= _value(**value)
    params |= timed | told | given(op=op)
    if meta is not None:
        params["meta"] = _written(meta, "--meta", _JSON_META)
    with at.connect(WORK_PATIENCE, exact.ExactClient) as client:
        place = where.params(client)
        try:
            answer = client.put(**params, **place)
        except RpcError as error:
            raise _timeless(client, error, params["deps"], place) if "as_of" in timed else error from None
        if answer.get("ended"):
            raise kept.ended(answer, params["key"], op)
        empty = present.unmatched(client, deps)
    if as_json:
        output.line_json(answer)
    else:
        output.line(f"{output.printable(params['key'])}  {kept.outcome(answer)}")
    for warning in kept.warnings(answer, without_provenance=params["deps"] is None):
        output.warn(*warning)
    for remark in present.remarks(deps, empty):
        output.warn(remark)
    if where.name is None and not as_json:
        nothing.tell_no_root(client, place)
    return 0


def _dependencies(
    deps: tuple[str, ...], sums: str | None, no_deps: bool, *, timed: bool
) -> list[str | dict[str, Any]] | None:
    """`deps` of the request: None where nothing was said about them; raises Usage."""
    if (deps or sums is not None) and no_deps:
        option = "--dep" if deps else "--sums"
        raise Usage(f"{option} and --no-deps exclude each other", "say what it rests on, or that it rests on nothing")
    if deps and not timed:
        raise Usage("--dep needs --fetched-at or --as-of-now", hints.TAKE_CLOCK)
    if no_deps:
        return []
    present.check(deps)
    named: list[str | dict[str, Any]] = [names.dependency(dep) for dep in deps]
    if sums is not None:
        named += dependencies(sums)
    return named or None


def _timeless(client: Client, error: RpcError, deps: Sequence[Any] | None, place: Json) -> RpcError:
    """The refusal of a put as of now that rests on an entry or an object: of those only a clock says what was seen."""
    told = [dep for dep in deps or () if isinstance(dep, str) and names.parts(dep.encode())[0] in names.TIMELESS]
    if error.code != "clock.missing" or not told:
        return error
    message = f"--as-of-now does not count for {output.some([output.name(dep) for dep in told], _SHOWN)}"
    keys = [rest.decode() for kind, rest in (names.parts(dep.encode()) for dep in told) if kind == b"entry"]
    answers = client.call("entry.check", keys=keys, revalidate=False, **place)["verdicts"] if keys else {}
    missing = [output.printable(key) for key, verdict in answers.items() if verdict.get("why") == "no-entry"]
    if missing:
        message += f", and there is no entry {output.some(missing, _SHOWN)} in {nothing.place_of(client, place)}"
    hint = steps.because(hints.put_first(missing), "then take a clock") if missing else hints.LOOK_AGAIN
    return hints.Advised(error.code, message, hint, error.data)


def _value(value: str | None, value_file: str | None, json_value: bool, no_value: bool) -> dict[str, Any]:
    """`value` of the request, or nothing where there is none; raises Usage."""
    if sum((value is not None, value_file is not None, no_value)) > 1:
        raise Usage("--value, --value-file and --no-value exclude each other", "give one of them")
    if value is not None:
        content = value
    elif value_file is not None:
        content = _read(value_file)
    elif json_value:
        raise Usage("--json-value needs a value", "give it with --value or --value-file")
    else:
        return {}
    return {"value": _written(content, "the value", _JSON_VALUE) if json_value else content}


def _read(file: str) -> str:
    try:
        return read_file(file, "the value", MAX_VALUE, _TOO_BIG).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Usage(f"the value is not UTF-8: {error}", "values are text or JSON: encode it, in base64 say") from None


def _written(content: str, what: str, hint: str) -> Written:
    """What was given as JSON, and is `what`; raises Usage that tells where it is none."""
    try:
        return exact.written(content)
    except ValueError as error:
        why = str(error)
        if isinstance(error, json.JSONDecodeError):
            there = content[error.pos : error.pos + _AROUND]
            where = f": {there!r}" if there else ", where it ends"
            why = f"{error.msg} (line {error.lineno}, column {error.colno}){where}"
        raise Usage(f"{what} is not JSON: {why}", hint) from None


@click.command(cls=Command, examples=("provd ls --dirty", "provd ls --touching src/api.py"))
@click.option("--prefix", metavar="KEY", help="Keys that start so.")
@click.option("--dirty", is_flag=True, help="Only what is dirty (each is judged).")
@click.option("--unknown", is_flag=True, help="Only what is unknown (each is judged).")
@click.option("--touching", metavar="PATH", help="Only what rests on PATH.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N entries.")
@asking.keyed
def ls(
    prefix: str | None,
    dirty: bool,
    unknown: bool,
    touching: str | None,
    limit: int | None,
    where: names.Scope,
    as_json: bool,
    at: Place,
) -> int:
    """The entries of a root or scope. With --json: the daemon's pages, one a line."""
    if dirty and unknown:
        raise Usage("--dirty and --unknown exclude each other", "ask twice")
    asked = given(
        prefix=prefix,
        verdict="dirty" if dirty else "unknown" if unknown else None,
        touching=None if touching is None else names.path(touching),
    )
    left, sifted, any_there = limit, bool(asked), False
    damaged: dict[str, None] = {}
    with at.connect(WORK_PATIENCE) as client:
        place = where.params(client)
        asked |= place
        while True:
            page = client.call("entry.list", **asked, limit=_PAGE if left is None else min(left, _PAGE))
            _print_page(page, as_json)
            any_there = any_there or bool(page["entries"])
            damaged |= dict.fromkeys(page.get("damaged") or ())
            left = None if left is None else left - len(page["entries"])
            if page.get("after") is None or (left is not None and left <= 0):
                break
            asked["after"] = page["after"]
        if not any_there and not damaged and not as_json:
            nothing.tell_empty(client, place, sifted=sifted)
    if damaged:
        named = " ".join(output.quoted(key) for key in list(damaged)[:_NAMED])
        again = "then put anew: what the store held cannot be read any more"
        output.complain(
            f"damaged in the store, and left out: {output.some(list(damaged), _NAMED)}",
            steps.because(f"provd forget {named}", again),
        )
        return codes.REFUSED
    return 0


def _print_page(page: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.line_json(page)
        return
    for entry in page["entries"]:
        verdict = f"{output.verdict_word(str(entry['verdict']))}  " if "verdict" in entry else ""
        why = f"  ({output.printable(str(entry['why']))})" if entry.get("why") else ""
        deps = "none given" if entry.get("dependencies") is None else entry["dependencies"]
        facts = f"{entry.get('standing', ''):<10}  version {entry.get('version')}  deps {deps}"
        output.line(f"{verdict}{facts:<42}  {output.printable(str(entry['key']))}{why}")


@click.command(cls=Command, examples=("provd forget api",))
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@asking.keyed
def forget(keys: tuple[str, ...], where: names.Scope, as_json: bool, at: Place) -> int:
    """Drop entries with their values and history. What rests on them becomes dirty.

    What is not there is said, and no error: there is none afterwards either way.

    With --json: one answer a line, in the order of the keys.
    """
    with at.connect() as client:
        place = where.params(client)
        for key in keys:
            answer = client.call("entry.forget", key=key, **place)
            if as_json:
                output.line_json(answer)
            elif answer.get("gone"):
                output.note(f"forgot {output.printable(key)}")
            else:
                output.note(f"there was no {output.printable(key)} in {nothing.place_of(client, place)}")
    return 0
