"""The log: clock, since, log.

Rule: whoever reads a stretch of the log is told whether it is whole.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli import names, output, records
from provd.cli.command import WORK_PATIENCE, Command, connected, given, json_option
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provd.cli.command import Place
    from provd.client import Client

_PAGE: Final = 1000
_BIG_PAGE: Final = 10_000
_PLACES: Final = 3


@click.command(
    cls=Command,
    examples=(
        "c=$(provd clock)     # now read the files, or look at the object, then",
        "provd put api --value-file api.md --dep src/api.py --fetched-at $c",
        "provd put replicas --value 3 --dep object:svc:api --fetched-at $c",
        "provd put plan --value 'keep 3' --dep entry:replicas --fetched-at $c",
    ),
)
@json_option
@connected
def clock(as_json: bool, at: Place) -> int:
    """A token for this moment. Take it before what a value is made from is read.

    It proves what actions declare (object:), what was put (entry:), and of files on a watched root that rest that
    nobody wrote them. Where it cannot (just written, open for writing, tmpfs, a network), put says unproven: there
    the digest of what was read is the surest (put --sums).
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
        uncovered = [] if as_json else _uncovered(client, page)
    if not as_json:
        _tell_end(page, whole, uncovered)
    return 0


def _uncovered(client: Client, page: dict[str, Any]) -> list[str]:
    """What is not wholly watched, and at the end why, where the daemon tells it."""
    if not (places := page.get("uncovered") or []):
        return []
    told = [place for place in places if isinstance(place, dict) and "path" in place]
    named = [local_path(place) for place in places if place not in told]
    roots = client.call("root.list")["roots"] if named else []
    told += [root for root in roots if any(records.overlap(local_path(root["path"]), path) for path in named)]
    whys = dict.fromkeys(output.printable(str(root["why"])) for root in told if root.get("why"))
    shown = output.some([records.display(place) for place in places], _PLACES, records.number(page, "uncovered_more"))
    return [shown, *([output.some(list(whys), _PLACES)] if whys else [])]


def _tell_end(page: dict[str, Any], whole: bool, uncovered: list[str]) -> None:
    output.note(
        f"next: provd since {output.printable(page['clock'])}" + (" (there is more)" if page.get("more") else "")
    )
    _tell_whole(whole, uncovered)


def _tell_whole(whole: bool, uncovered: list[str]) -> None:
    if uncovered:
        shown, *whys = uncovered
        output.warn(f"incomplete: not wholly watched: {shown}" + (f" ({whys[0]})" if whys else ""))
    elif not whole:
        output.warn("incomplete: something that nobody saw may lie between; provd check answers by reading")


@click.command(cls=Command, examples=("provd log -n 20", "provd log -f --path src", "provd log -f --json"))
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--since", "start", metavar="CLOCK", help="Start after this clock.")
@click.option("--path", "paths", metavar="P", multiple=True, help="Only what concerns P.")
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
def log(follow: bool, start: str | None, paths: tuple[str, ...], last: int, as_json: bool, at: Place) -> int:
    """The latest records, one a line: + created, ~ modified, - deleted, > moved, @ only its attributes.

    A digest comes later than its mutation: shown with it where both are at hand, else as a line "hashed".
    """
    asked = {"paths": [names.path(path) for path in paths]} if paths else {}
    with at.connect(WORK_PATIENCE) as client:
        if start is None:
            start = _print_latest(client, last, asked, as_json)
        elif not follow:
            _print_since(client, start, asked, as_json)
        if follow:
            _follow(client, start, _real(paths), as_json)
    return 0


def _real(paths: tuple[str, ...]) -> list[bytes]:
    """The paths as they were named, and as records name them."""
    named = [names.absolute(path) for path in paths]
    return [*named, *map(os.path.realpath, named)]


def _print_latest(client: Client, last: int, asked: dict[str, Any], as_json: bool) -> str:
    """Prints the last records; the clock after them."""
    if last == 0:
        return client.clock()
    if asked:
        return _print_latest_of(client, last, asked, as_json)
    page = client.call("log.since", last=last, limit=last)
    found = list(page["records"])
    left = last - len(found)
    while page.get("more") and page["records"] and left > 0:  # a page holds only so many bytes
        page = client.call("log.since", clock=page["clock"], limit=left)
        found += page["records"]
        left -= len(page["records"])
    _print(found, as_json)
    clock: str = page["clock"]
    return clock


def _print_latest_of(client: Client, last: int, asked: dict[str, Any], as_json: bool) -> str:
    """The last records that concern some paths, as far as the newest of the log have them."""
    page = client.call("log.since", last=_BIG_PAGE, limit=_BIG_PAGE, **asked)
    found = deque(page["records"], maxlen=last)
    clock = ""
    while page.get("more") and page["clock"] != clock:
        clock = page["clock"]
        page = client.call("log.since", clock=clock, limit=_BIG_PAGE, **asked)
        found.extend(page["records"])
    _print(found, as_json)
    if len(found) < last and int(client.call("daemon.status").get("records") or 0) > _BIG_PAGE:
        output.note(f"of the newest {_BIG_PAGE} records; provd since CLOCK --path P looks further back")
    end: str = page["clock"]
    return end


def _print_since(client: Client, clock: str, asked: dict[str, Any], as_json: bool) -> None:
    whole = True
    while True:
        page = client.call("log.since", clock=clock, limit=_PAGE, **asked)
        whole = whole and bool(page.get("complete"))
        _print(page["records"], as_json)
        if not page.get("more") or page["clock"] == clock:
            break
        clock = page["clock"]
    _tell_whole(whole, _uncovered(client, page))


def _follow(client: Client, clock: str, paths: list[bytes], as_json: bool) -> None:
    _tell_whole(client.call("log.subscribe", clock=clock).get("complete", True), [])
    for notification in client.notifications():
        method, told = notification.get("method"), notification.get("params") or {}
        if method == "log.record":
            if not paths or records.about(told, paths):
                _print([told], as_json)
        elif method == "log.lost" and as_json:
            output.line_json(notification)
        elif method == "log.lost":
            span = f"{told.get('from', '?')} to {told.get('to', '?')}"
            output.warn(f"incomplete: records {span} are lost: {told.get('reason', '?')}")
        sys.stdout.flush()


def _print(found: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for record in found:
            output.line_json(record)
    else:
        for record in records.merged(found):
            output.line(records.record_line(record))
