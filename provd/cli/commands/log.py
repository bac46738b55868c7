"""The log: clock, since, log.

Rule: whoever reads a stretch of the log is told whether it is whole.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli import output
from provd.cli.command import WORK_PATIENCE, Command, connected, json_option
from provd.cli.given import names
from provd.cli.given.looking import real_paths
from provd.cli.screens.following import Follower, Subscription
from provd.cli.screens.screen import Screen
from provd.cli.words import hints, records
from provd.client import RpcError, local_path

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

    from provd.cli.command import Place
    from provd.client import Client

    Show = Callable[[Iterable[dict[str, Any]]], None]

_PAGE: Final = 1000
_BIG_PAGE: Final = 10_000
_PLACES: Final = 3
_NO_CLOCK: Final = "provd log  # needs none; a clock is what provd clock printed, or provd since behind its next:"

Json = dict[str, Any]


@click.command(
    cls=Command,
    examples=(
        "c=$(provd clock)     # now read the files, or look at the object, then",
        "provd put api --value-file api.md --dep src/api.py --fetched-at $c",
        "provd put replicas --value 3 --dep object:svc:api --fetched-at $c",
        "c=$(provd clock)     # a new one, since replicas was put after the first",
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
@click.option("--path", "paths", metavar="PATH", multiple=True, help="Only what concerns PATH.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N records (default: all).")
@json_option
@connected
def since(clock_token: str, paths: tuple[str, ...], limit: int | None, as_json: bool, at: Place) -> int:
    """The records after a clock, one a line. With --json: the daemon's pages, one a line."""
    asked = {"paths": [names.path(path) for path in paths]} if paths else {}
    with _told_of_clocks(), at.connect(WORK_PATIENCE) as client:
        page, whole = _read(client, clock_token, asked, _shower_of_pages(client, as_json), limit)
        uncovered = [] if as_json else _uncovered(client, page)
    if not as_json:
        _tell_end(page, whole, uncovered)
    return 0


@contextmanager
def _told_of_clocks() -> Iterator[None]:
    """What is no clock is refused with where one is found: nothing is put here, before which one would be taken."""
    try:
        yield
    except RpcError as error:
        if error.code != "clock.malformed":
            raise
        raise hints.Advised(error.code, error.message, _NO_CLOCK, error.data) from None


def _read(
    client: Client, clock: str, asked: Json, show: Callable[[Json], None], limit: int | None
) -> tuple[Json, bool]:
    """Shows the pages after a clock; the last of them, and whether all are complete."""
    left, whole = limit, True
    while True:
        page = client.call("log.since", clock=clock, **asked, limit=_PAGE if left is None else min(left, _PAGE))
        whole = whole and bool(page.get("complete"))
        show(page)
        left = None if left is None else left - len(page["records"])
        # A page may have no records and yet more behind it: none of those it looked at concern the paths.
        if not page.get("more") or page["clock"] == clock or (left is not None and left <= 0):
            return page, whole
        clock = page["clock"]


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
        f"next: provd since {output.printable(page['clock'])}" + ("  # there is more" if page.get("more") else "")
    )
    _tell_whole(whole, uncovered, foreign=bool(page.get("foreign")))


def _tell_whole(whole: bool, uncovered: list[str], *, foreign: bool) -> None:
    if foreign:
        output.warn(f"incomplete: {records.FOREIGN}, so what happened to yours is not known")
    elif uncovered:
        shown, *whys = uncovered
        output.warn(f"incomplete: not wholly watched: {shown}" + (f" ({whys[0]})" if whys else ""))
    elif not whole:
        output.warn("incomplete: something that nobody saw may lie between; provd check answers by reading")


@click.command(cls=Command, examples=("provd log -n 20", "provd log -f --path src", "provd log -f --json"))
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--since", "start", metavar="CLOCK", help="Start after this clock.")
@click.option("--path", "paths", metavar="PATH", multiple=True, help="Only what concerns PATH.")
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=0, max=_BIG_PAGE),
    default=50,
    help="How many lines (with --json records; default 50) where no clock is given.",
)
@json_option
@connected
def log(follow: bool, start: str | None, paths: tuple[str, ...], last: int, as_json: bool, at: Place) -> int:
    """The latest records, one a line: + created, ~ modified, - deleted, > moved, @ only its attributes.

    A digest is a record of its own: it is shown with its mutation and its number is skipped; where the mutation was
    shown before it has a line "hashed". On a terminal -f counts what is more than 50 a second in one directory.
    With --json: the daemon's pages, one a line; with -f its records, one a line.
    """
    asked = {"paths": [names.path(path) for path in paths]} if paths else {}
    with _told_of_clocks(), at.connect(WORK_PATIENCE) as client:
        if not follow:
            _log(client, start, last, asked, as_json=as_json)
            return 0
        found, clock = ([], start) if start is not None else _latest(client, last, asked, lines=not as_json)
        latest = [record for page in found for record in page["records"]]
        if as_json:
            _follow_json(client, latest, clock, _real(paths))
        else:
            _follow(client, latest, clock, _real(paths), _shower(client))
    return 0


def _log(client: Client, start: str | None, last: int, asked: Json, *, as_json: bool) -> None:
    """What the log has up to now: after a clock, or the latest."""
    show = _shower_of_pages(client, as_json)
    if start is None:
        found, _ = _latest(client, last, asked, lines=not as_json)
        if as_json:
            for page in found:
                show(page)
        else:
            show({"records": [record for page in found for record in page["records"]]})
        return
    page, whole = _read(client, start, asked, show, None)
    _tell_whole(whole, _uncovered(client, page), foreign=bool(page.get("foreign")))


def _real(paths: tuple[str, ...]) -> list[bytes]:
    """The paths as they were named, and as records name them."""
    named = [names.absolute(path) for path in paths]
    return [*named, *real_paths(named)]


def _latest(client: Client, last: int, asked: Json, *, lines: bool) -> tuple[list[Json], str]:
    """The pages of the last records, and the clock after them; of `lines` one page, with digests in their mutations."""
    if last == 0:
        return [], client.clock()
    number = 2 * last if lines else last  # a line has two records at most
    found, clock = (_latest_of if asked else _latest_of_all)(client, number, asked)
    if lines:
        whole = records.merged(record for page in found for record in page["records"])
        found = [{"records": whole[-last:]}]
    few = asked and sum(len(page["records"]) for page in found) < last
    if few and int(client.call("daemon.status").get("records") or 0) > _BIG_PAGE:
        output.note(f"of the newest {_BIG_PAGE} records; provd since CLOCK --path PATH looks further back")
    return found, clock


def _latest_of_all(client: Client, last: int, _: Json) -> tuple[list[Json], str]:
    """The pages of the last records of the log, and the clock after them."""
    page = client.call("log.since", last=last, limit=min(last, _BIG_PAGE))
    found = [page]
    left = last - len(page["records"])
    while page.get("more") and page["records"] and left > 0:  # a page holds only so much
        page = client.call("log.since", clock=page["clock"], limit=min(left, _BIG_PAGE))
        found.append(page)
        left -= len(page["records"])
    return found, page["clock"]


def _latest_of(client: Client, last: int, asked: Json) -> tuple[list[Json], str]:
    """The last records that concern some paths, as far as the newest of the log have them, as one page."""
    page = client.call("log.since", last=_BIG_PAGE, limit=_BIG_PAGE, **asked)
    found = deque(page["records"], maxlen=last)
    clock, whole = "", bool(page.get("complete"))
    while page.get("more") and page["clock"] != clock:
        clock = page["clock"]
        page = client.call("log.since", clock=clock, limit=_BIG_PAGE, **asked)
        whole = whole and bool(page.get("complete"))
        found.extend(page["records"])
    return [page | {"records": list(found), "complete": whole}], page["clock"]


def _follow_json(client: Client, found: list[Json], clock: str, paths: list[bytes]) -> None:
    """The records found so far, then every record and every loss as it comes, one a line."""
    for record in found:
        output.line_json(record)
    subscription = _subscribe(client, clock)
    while True:
        notification = subscription.next() or {}
        told = notification.get("params") or {}
        if notification.get("method") == "log.record" and _wanted(told, paths):
            output.line_json(told)
        elif notification.get("method") == "log.lost":
            output.line_json(notification)
        sys.stdout.flush()


def _follow(client: Client, found: list[Json], clock: str, paths: list[bytes], show: Show) -> None:
    """The records found so far, then what comes. What is held back is shown whatever ends it."""
    asked = max((int(record.get("seq") or 0) for record in found), default=0)
    follower = Follower(lambda record: show([record]), show.more if isinstance(show, _OnScreen) else None, asked)
    try:
        for record in found:
            follower.take(record)
        subscription = _subscribe(client, clock)
        while True:
            follower.show()
            sys.stdout.flush()
            notification = subscription.next(follower.wait()) or {}
            told = notification.get("params") or {}
            if notification.get("method") == "log.record" and _wanted(told, paths):
                follower.take(told)
            elif notification.get("method") == "log.lost":
                follower.show(all_of_it=True)
                sys.stdout.flush()  # what came before it stands before it
                span = f"{told.get('from', '?')} to {told.get('to', '?')}"
                output.warn(f"incomplete: records {span} are lost: {told.get('reason', '?')}")
    finally:
        follower.show(all_of_it=True)


def _subscribe(client: Client, clock: str) -> Subscription:
    subscription = Subscription(client, clock)
    _tell_whole(subscription.complete, [], foreign=subscription.foreign)
    return subscription


def _wanted(record: Json, paths: list[bytes]) -> bool:
    return not paths or records.about(record, paths)


def _shower_of_pages(client: Client, as_json: bool) -> Callable[[Json], None]:
    """How pages are shown: as the daemon sent them, or their records."""
    if as_json:
        return output.line_json
    show = _shower(client)
    return lambda page: show(page["records"])


def _shower(client: Client) -> Show:
    """How records are shown where stdout leads."""
    if sys.stdout.isatty():
        return _OnScreen(Screen([local_path(root) for root in client.hello()["roots"]]))
    return _as_lines


def _as_lines(found: Iterable[Json]) -> None:
    for record in records.merged(found):
        output.line(records.record_line(record))


class _OnScreen:
    """Shows records in columns."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __call__(self, found: Iterable[Json]) -> None:
        """Shows some."""
        for record in records.merged(found):
            for text in self._screen.lines(record):
                output.line(text)

    def more(self, directory: bytes, kinds: Counter[str]) -> None:
        """Says how many are not shown."""
        output.line(self._screen.more(directory, kinds))
