"""One entry's life: when it was put and what it rests on, what touched that since, and the verdict now.

Rule: the log tells what happened, the verdict what it came to. A story that the log does not hold whole says so, and
never changes the exit code.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from provd import codes
from provd.cli import output
from provd.cli.command import Command
from provd.cli.given import asking, names
from provd.cli.given.exact import ExactClient, exact_json
from provd.cli.screens import birth
from provd.cli.screens.story import Story
from provd.cli.screens.timeline import Timeline
from provd.cli.words import account, causes, nothing, records
from provd.cli.words.causes import Tree
from provd.client import RpcError, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place
    from provd.cli.words.causes import Cause
    from provd.client import Client

Json = dict[str, Any]

_REASONS: Final = 3
_PAGE: Final = 5000
_LOOKED_AT: Final = 16
"""Dependencies of which it is asked whether they are watched."""
_SEEN: Final = 64
"""Files at fault that are read once more, in the log's own algorithm."""
_STORIES: Final = 8
"""Entries below whose own stories are read."""
_NEWEST: Final = 5000
"""Records, the newest of the log, among which the entry's own are looked for."""


@click.command(cls=Command, examples=("provd why api", "provd why api --json | jq -c 'select(.records).records[]'"))
@click.argument("key", metavar="KEY")
@asking.how
@asking.keyed
def why(
    key: str,
    verify: str | None,
    timeout_ms: int | None,
    no_revalidate: bool,
    where: names.Scope,
    as_json: bool,
    at: Place,
) -> int:
    """An entry's life: what it rests on, what touched that since, the verdict and its evidence.

    Drawn as a line through time: its earlier versions (of the log's newest 5000 records), the put, what happened
    since, gaps, and a mark where it became dirty.

    Exits as check does. With --json: what entry.get answered (with the value, where the entry may be used), then
    the pages of the log, one a line.
    """
    with at.connect(asking.patience(timeout_ms), ExactClient) as client:
        place = where.params(client)
        manner = asking.manner(verify, timeout_ms, no_revalidate) | place
        answer = _explained(client, key, manner)
        if as_json:
            output.line_written(exact_json(answer, ", ", ": "))
        story, faults = _followed(client, answer, manner, as_json)
        if not as_json:
            for text in _told(answer, key, story, faults, strict=no_revalidate):
                output.line(text)
            nothing.tell_missing(client, [(key, answer)], place)
    return codes.of_verdicts([answer])


def _explained(client: Client, key: str, params: Json) -> Json:
    """The verdict with what the entry rests on, where the daemon is new enough to tell."""
    try:
        return client.get(key, deps=True, **params)
    except RpcError as error:
        if error.code != "params":
            raise
        return client.check(key, **params)


def _followed(client: Client, answer: Json, manner: Json, as_json: bool) -> tuple[Story, list[Cause]]:
    """The entry's story, and what made it dirty. For programs only what they are promised is asked for."""
    story = Story(answer)
    faults: list[Cause] = []
    if not as_json and answer.get("version") is not None and "deps" in answer:
        faults = Tree(client, manner).of(answer)
        own = list(_newest(client))
        _own(story, own)
        below = _Below(client, manner, own)
        for fault in faults:
            _lead(story, fault, fault.name, below)
    if answer.get("deps") and answer.get("clock_of_entry"):
        story.followed = True
        if not as_json:
            _see(client, answer, story)  # before the log is read, so that all that led to it is in there
        _read(client, answer, story, as_json)
        if not as_json:
            _look(client, answer, story)
    return story, faults


class _Below:
    """The stories of the entries that an entry rests on, each read once, and only so many."""

    def __init__(self, client: Client, manner: Json, own: list[Json]) -> None:
        self._client = client
        self._manner = manner
        self._own = own
        self._known: dict[str, Story | None] = {}

    def story(self, key: str) -> Story | None:
        """What the log has of it; None where that is not told."""
        if key not in self._known:
            self._known[key] = self._asked(key) if len(self._known) < _STORIES else None
        return self._known[key]

    def _asked(self, key: str) -> Story | None:
        try:
            answer = _explained(self._client, key, self._manner)
        except RpcError:
            return None
        if not (answer.get("deps") and answer.get("clock_of_entry")):
            return None
        story = Story(answer)
        _own(story, self._own)
        story.followed = True
        _read(self._client, answer, story, as_json=False)
        return story


def _lead(story: Story, fault: Cause, dep: str, below: _Below) -> None:
    """Tells the story of what made the entries below dirty, as far as the log knows which record that was."""
    leaves = [cause.item for cause in fault.below if not cause.below and cause.item.get("why") in causes.DIRTYING]
    touched = [item["mutation"] for item in leaves if isinstance(item.get("mutation"), dict)]
    if leaves:
        story.lead(touched, dep, fault.name, below.story(causes.key_of(fault.item)))
    for cause in fault.below:
        _lead(story, cause, dep, below)


def _own(story: Story, newest: list[Json]) -> None:
    for record in newest:
        story.take_own(record)


def _newest(client: Client) -> Iterator[Json]:
    """The newest records of the log. That there are no more is no reason to doubt a story."""
    try:
        page = client.call("log.since", last=_NEWEST, limit=_NEWEST)
        while True:
            yield from page["records"]
            clock = page["clock"]
            if not page.get("more") or not page["records"]:
                break
            page = client.call("log.since", clock=clock, limit=_NEWEST)
    except RpcError:
        return


def _read(client: Client, answer: Json, story: Story, as_json: bool) -> None:
    """Reads the log since the entry's clock; what is not there is a reason why the story is not whole."""
    ground = story.ground
    if ground.relative:
        story.reasons[f"{ground.relative} of its paths are relative to a directory that is not known here"] = None
    try:
        if ground.bases:
            asked = {"paths": [wire_path(base) for base in ground.bases]}
            _pages(client, answer, asked, story, as_json)
        if ground.objects or ground.entries:
            _pages(client, answer, {}, story, as_json)
    except RpcError as error:
        story.reasons[f"the log could not be read: {error.message}"] = None


def _see(client: Client, answer: Json, story: Story) -> None:
    """Asks what is there now of what is at fault, in the log's own algorithm, where the verdict does not tell."""
    paths = birth.to_read(answer)[:_SEEN] if story.turn.fresh_once else []
    if not paths:
        return
    try:
        found = client.call("deps.snapshot", deps=[names.file(wire_path(path)) for path in paths])["digests"]
    except RpcError:
        return
    story.turn.now |= {path: item["digest"] for path, item in zip(paths, found, strict=True) if item["digest"]}


def _look(client: Client, answer: Json, story: Story) -> None:
    """Asks whether the log would have anything at all of what changed and no record tells of."""
    for name, base in islice(story.bases_untouched(), _LOOKED_AT):
        try:
            page = client.call("log.since", clock=answer["clock_of_entry"], limit=1, paths=[wire_path(base)])
        except RpcError:
            return
        if page.get("uncovered"):
            story.unwatched.add(name)


def _pages(client: Client, answer: Json, asked: Json, story: Story, as_json: bool) -> None:
    """All pages after the entry's clock; of the whole log where `asked` names no paths."""
    take = story.take if asked else story.take_other
    clock, whole = answer["clock_of_entry"], True
    while True:
        page = client.call("log.since", clock=clock, limit=_PAGE, **asked)
        if as_json:
            output.line_json(page)
        # Of the whole log, places are of no concern: objects and entries are not watched.
        whole = whole and bool(page.get("complete") or (not asked and _only_for_places(page, clock)))
        for record in page["records"]:
            take(record)
        if not page.get("more") or page["clock"] == clock:
            break
        clock = page["clock"]
    uncovered = [records.uncovered(place) for place in page.get("uncovered") or []] if asked else []
    if asked and page.get("foreign"):
        story.reasons[records.FOREIGN] = None
    elif uncovered:
        shown = output.some(uncovered, _REASONS, records.number(page, "uncovered_more"))
        story.reasons[f"not wholly watched: {shown}"] = None
    elif not whole and not story.missing():
        story.reasons["records were trimmed, or the clock is not of this run"] = None


def _only_for_places(page: Json, clock: str) -> bool:
    """Whether a page of the whole log is not complete for what happened to places alone: no record after `clock` is
    missing, and what it holds of gaps for all tells of itself.
    """
    if page.get("uncovered") or page.get("foreign"):
        return True
    numbers = [record["seq"] for record in page["records"]]
    follows = bool(numbers) and str(numbers[0] - 1) == clock.rpartition(":")[2]
    return follows and any(record["type"] == "gap" for record in page["records"])


def _told(answer: Json, key: str, story: Story, faults: list[Cause], *, strict: bool) -> Iterator[str]:
    label, now = output.printable(key), time.time_ns()
    if answer.get("version") is not None and "deps" in answer:
        yield f"{output.paint(label, 'bold')}  version {output.printable(str(answer['version']))}"
        yield from account.origin(answer)
        yield ""
        yield from Timeline(answer, story, now).lines()
    yield from account.account(answer, label, faults, story.declared, story.turn.unseen(), now, strict=strict)
