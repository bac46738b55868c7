"""The log: clock, since, log.

Rule: whoever reads a stretch of the log is told whether it is whole.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli import names, output
from provd.cli.command import WORK_PATIENCE, Command, connected, given, json_option
from provd.client import local_path

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.client import Client

_PAGE: Final = 1000
_BIG_PAGE: Final = 10_000
_PLACES: Final = 3


@click.command(
    cls=Command,
    examples=(
        "c=$(provd clock)     # now look at the object, then",
        "provd put replicas --value 3 --dep object:svc:api --fetched-at $c",
        "c=$(provd clock)     # now get another entry, then",
        "provd put plan --value 'keep 3' --dep entry:replicas --fetched-at $c",
    ),
)
@json_option
@connected
def clock(as_json: bool, at: Place) -> int:
    """A token for this moment. Take it before what a value is made from is looked at.

    It proves what actions declare (object:) and what was put (entry:). That a file was not written since, this
    version cannot show: give the digest of what was read (put --sums), or say --as-of-now.
    """
    with at.connect() as client:
        answer = client.call("log.clock")
    if as_json:
        output.line_json(answer)
    else:
        output.line(answer["clock"])
    return 0


@click.command(cls=Command, examples=("provd since $c --path src", "provd since $c --json"))
@click.argument("clock_token", metavar="CLOCK")
@click.option("--path", "paths", metavar="P", multiple=True, help="Only what concerns P.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N records (default: all).")
@json_option
@connected
def since(clock_token: str, paths: tuple[str, ...], limit: int | None, as_json: bool, at: Place) -> int:
    """The records after a clock, one a line. With --json: the daemon's pages, one a line."""
    asked = given(clock=clock_token, paths=[names.path(path) for path in paths] or None)
    left, whole = limit, True
    with at.connect(WORK_PATIENCE) as client:
        while True:
            page = client.call("log.since", **asked, limit=_PAGE if left is None else min(left, _PAGE))
            whole = whole and bool(page.get("complete"))
            if as_json:
                output.line_json(page)
            else:
                _print(page["records"], as_json=False)
            left = None if left is None else left - len(page["records"])
            # A page may have no records and yet more behind it: none of those it looked at concern the paths.
            if not page.get("more") or page["clock"] == asked["clock"] or (left is not None and left <= 0):
                break
            asked["clock"] = page["clock"]
        uncovered = [] if as_json else _uncovered(client, page.get("uncovered") or [])
    if not as_json:
        _tell_end(page, whole, uncovered)
    return 0


def _uncovered(client: Client, places: list[Any]) -> list[str]:
    """What is not wholly watched, and at the end why, where the daemon tells it."""
    if not places:
        return []
    told = [place for place in places if isinstance(place, dict) and "path" in place]
    named = [local_path(place) for place in places if place not in told]
    roots = client.call("root.list")["roots"] if named else []
    told += [root for root in roots if any(_overlap(local_path(root["path"]), path) for path in named)]
    whys = dict.fromkeys(output.printable(str(root["why"])) for root in told if root.get("why"))
    return [output.some([_shown(place) for place in places], _PLACES), *whys]


def _overlap(one: bytes, other: bytes) -> bool:
    return any(a == b or a.startswith(b.rstrip(b"/") + b"/") for a, b in ((one, other), (other, one)))


def _tell_end(page: dict[str, Any], whole: bool, uncovered: list[str]) -> None:
    output.note(
        f"next: provd since {output.printable(page['clock'])}" + (" (there is more)" if page.get("more") else "")
    )
    _tell_whole(whole, uncovered)


def _tell_whole(whole: bool, uncovered: list[str]) -> None:
    if uncovered:
        shown, *whys = uncovered
        output.warn(f"incomplete: not wholly watched: {shown}" + (f" ({'; '.join(whys)})" if whys else ""))
    elif not whole:
        output.warn("incomplete: something that nobody saw may lie between; provd check answers by reading")


@click.command(cls=Command, examples=("provd log -n 20", "provd log -f --json"))
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--since", "start", metavar="CLOCK", help="Start after this clock.")
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=0, max=_BIG_PAGE),
    default=50,
    help="How many (default 50) where no clock is given.",
)
@json_option
@connected
def log(follow: bool, start: str | None, last: int, as_json: bool, at: Place) -> int:
    """The latest records, one a line."""
    with at.connect(WORK_PATIENCE) as client:
        if start is None:
            start = _print_latest(client, last, as_json)
        elif not follow:
            _print_since(client, start, as_json)
        if follow:
            _follow(client, start, as_json)
    return 0


def _print_latest(client: Client, last: int, as_json: bool) -> str:
    """Prints the last records; the clock after them."""
    if last == 0:
        return client.clock()
    page = client.call("log.since", last=last, limit=last)
    _print(page["records"], as_json)
    left = last - len(page["records"])
    while page.get("more") and page["records"] and left > 0:  # a page holds only so many bytes
        page = client.call("log.since", clock=page["clock"], limit=left)
        _print(page["records"], as_json)
        left -= len(page["records"])
    clock: str = page["clock"]
    return clock


def _print_since(client: Client, clock: str, as_json: bool) -> None:
    whole = True
    while True:
        page = client.call("log.since", clock=clock, limit=_PAGE)
        whole = whole and bool(page.get("complete"))
        _print(page["records"], as_json)
        if not page.get("more") or page["clock"] == clock:
            break
        clock = page["clock"]
    _tell_whole(whole, _uncovered(client, page.get("uncovered") or []))


def _follow(client: Client, clock: str, as_json: bool) -> None:
    _tell_whole(client.call("log.subscribe", clock=clock).get("complete", True), [])
    for notification in client.notifications():
        method, told = notification.get("method"), notification.get("params") or {}
        if method == "log.record":
            _print([told], as_json)
        elif method == "log.lost" and as_json:
            output.line_json(notification)
        elif method == "log.lost":
            span = f"{told.get('from', '?')} to {told.get('to', '?')}"
            output.warn(f"incomplete: records {span} are lost: {told.get('reason', '?')}")
        sys.stdout.flush()


def _print(records: Any, as_json: bool) -> None:
    for record in records:
        if as_json:
            output.line_json(record)
        else:
            output.line(record_line(record))


def record_line(record: dict[str, Any]) -> str:
    """One record as a line: number, time, type, and what that type tells."""
    kind = str(record.get("type", "?"))
    head = f"{record.get('seq', '?'):>8}  {output.moment(record.get('at'))}  {kind:<8}  "
    who = [f"{word} {output.printable(str(record[word]))}" for word in ("session", "turn", "note") if record.get(word)]
    actor = record.get("actor") or {}
    who += [f"{word} {output.printable(str(actor[word]))}" for word in ("session", "turn", "pid") if actor.get(word)]
    return head + _what(kind, record) + (f"  ({', '.join(who)})" if who else "")


def _what(kind: str, record: dict[str, Any]) -> str:
    shown = {word: _shown(record[word]) for word in record}
    if kind == "mutation":
        return " ".join(
            [shown.get("kind", "?"), shown.get("path", "?"), *(["from", shown["from"]] if "from" in shown else [])]
        )
    if kind == "gap":
        return f"{shown.get('scope', '?')}: {shown.get('reason', '?')}"
    if kind == "action":
        outcome = f" {shown['outcome']}" if record.get("outcome") else ""
        return f"{shown.get('event', '?')} {shown.get('id', '')}{outcome} {shown.get('writes', '')}".rstrip()
    if kind == "entry":
        place = shown.get("root") or shown.get("scope", "")
        return f"{shown.get('event', '?')} {shown.get('key', '?')} version {shown.get('version', '?')} in {place}"
    if kind == "coverage":
        return f"{shown.get('path', '?')} {shown.get('coverage', '?')}" + (
            f": {shown['why']}" if record.get("why") else ""
        )
    rest = (word for word in shown if word not in {"seq", "at", "type"})
    return (
        " ".join(f"{word}={shown[word]}" for word in rest)
        if kind != "root"
        else f"{shown.get('event', '?')} {shown.get('path', '?')}"
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_shown(item) for item in value)
    if isinstance(value, dict) and "path" in value:
        return _shown(value["path"])
    if isinstance(value, str) or (isinstance(value, dict) and "b64" in value):
        return output.name(value)
    return output.printable(str(value))
