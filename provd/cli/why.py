"""One entry's life: when it was put and what it rests on, what touched that since, and the verdict now.

Rule: the log tells what happened, the verdict what it came to. A story that the log does not hold whole says so, and
never changes the exit code.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from provd.cli import account, asking, names, output, records, verdicts
from provd.cli.command import Command, connected, json_option, root_option, scope_option
from provd.cli.concern import Ground
from provd.client import RpcError, local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place
    from provd.client import Client

Json = dict[str, Any]

_SHOWN: Final = 50
"""Records that the story names, the newest."""
_REASONS: Final = 3
_PAGE: Final = 5000


@click.command(cls=Command, examples=("provd why api", "provd why api --json | jq -c 'select(.records).records[]'"))
@click.argument("key", metavar="KEY")
@asking.how
@root_option
@scope_option
@json_option
@connected
def why(
    key: str,
    verify: str | None,
    timeout_ms: int | None,
    no_revalidate: bool,
    root: str | None,
    scope: str | None,
    as_json: bool,
    at: Place,
) -> int:
    """An entry's life: what it rests on, what touched that since, the verdict and its evidence.

    Exits as check does. With --json: what entry.get answered (with the value, where the entry may be used), then
    the pages of the log, one a line.
    """
    where = names.Scope(root, scope)
    wanted = names.key(key)
    with at.connect(asking.patience(timeout_ms)) as client:
        answer = _explained(client, wanted, asking.manner(verify, timeout_ms, no_revalidate) | where.params(client))
        if as_json:
            output.line_json(answer)
        story = _Story(answer)
        if answer.get("deps") and answer.get("clock_of_entry"):
            _read(client, answer, story, as_json)
    if not as_json:
        for text in _told(answer, wanted, story, strict=no_revalidate):
            output.line(text)
    return verdicts.exit_code([answer])


def _explained(client: Client, key: str, params: Json) -> Json:
    """The verdict with what the entry rests on, where the daemon is new enough to tell."""
    try:
        return client.get(key, deps=True, **params)
    except RpcError as error:
        if error.code != "params":
            raise
        return client.check(key, **params)


@dataclass
class _Event:
    """One record of the story, and the digest that was known of its path before."""

    record: Json
    known: str | None = None


class _Story:
    """What the log has of an entry since its clock: the newest records, and why it may not be all."""

    def __init__(self, answer: Json) -> None:
        self.ground = Ground(answer)
        self.events: deque[_Event] = deque(maxlen=_SHOWN)
        self.count = 0
        self.reasons: dict[str, None] = {}
        self.others: deque[_Event] = deque(maxlen=_SHOWN)
        """The records of objects and entries, read apart."""
        self._digests = self.ground.digests
        self._mutations: dict[Any, _Event] = {}

    def take(self, record: Json) -> None:
        """Takes a record that the daemon found to be about the paths rested on."""
        if record.get("type") == "hashed":
            self._hashed(record)
        elif self.ground.touched(record):
            event = _Event(record)
            if record.get("type") == "mutation":
                self._mutation(event)
            self._gap(record)
            self.events.append(event)
            self.count += 1

    def take_other(self, record: Json) -> None:
        """Takes a record of the whole log: what it says of objects and entries rested on."""
        if not self.ground.told(record) or (record.get("type") == "gap" and self.ground.bases):
            return
        self._gap(record)
        self.others.append(_Event(record))
        self.count += 1

    def newest(self) -> list[_Event]:
        """The newest records of both, in order, each once."""
        found = {event.record.get("seq"): event for event in (*self.events, *self.others)}
        self.count -= len(self.events) + len(self.others) - len(found)
        return sorted(found.values(), key=lambda event: int(event.record.get("seq") or 0))[-_SHOWN:]

    def _mutation(self, event: _Event) -> None:
        record = event.record
        paths = records.places(record)
        event.known = self._digests.pop(paths[-1], None) if len(paths) > 1 else self._digests.get(paths[0])
        if known := record.get("digest") or event.known:
            self._digests[paths[0]] = known
        if record.get("digest_state") == "pending":
            self._mutations[record.get("seq")] = event

    def _hashed(self, record: Json) -> None:
        """The digest of a mutation, found later: shown with it, and known from then on."""
        event = self._mutations.pop(record.get("of"), None)
        if event is not None:
            records.fill(event.record, record)
            if record.get("digest"):
                self._digests[local_path(record["path"])] = record["digest"]

    def _gap(self, record: Json) -> None:
        if record.get("type") == "gap":
            self.reasons[f"{records.display(record.get('scope'))}: {record.get('reason')}"] = None


def _read(client: Client, answer: Json, story: _Story, as_json: bool) -> None:
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


def _pages(client: Client, answer: Json, asked: Json, story: _Story, as_json: bool) -> None:
    """All pages after the entry's clock; of the whole log where `asked` names no paths."""
    take = story.take if asked else story.take_other
    clock, whole = answer["clock_of_entry"], True
    while True:
        page = client.call("log.since", clock=clock, limit=_PAGE, **asked)
        if as_json:
            output.line_json(page)
        # Of the whole log, places that are not watched are of no concern: objects and entries are not watched.
        whole = whole and bool(page.get("complete") or (not asked and page.get("uncovered")))
        for record in page["records"]:
            take(record)
        if not page.get("more") or page["clock"] == clock:
            break
        clock = page["clock"]
    uncovered = [records.uncovered(place) for place in page.get("uncovered") or []] if asked else []
    if uncovered:
        shown = output.some(uncovered, _REASONS, records.number(page, "uncovered_more"))
        story.reasons[f"not wholly watched: {shown}"] = None
    elif not whole and not story.reasons:
        story.reasons["records were trimmed, or the clock is not of this run"] = None


def _told(answer: Json, key: str, story: _Story, *, strict: bool) -> Iterator[str]:
    label = output.printable(key)
    if answer.get("version") is not None and "deps" in answer:
        yield f"{output.paint(label, 'bold')}  version {output.printable(str(answer['version']))}"
        if origin := account.origin(answer):
            yield f"  {origin}"
        yield from account.ground(answer)
        if answer.get("deps") and answer.get("clock_of_entry"):
            yield from _since(answer, story)
        yield ""
    yield from account.account(answer, label, strict=strict)


def _since(answer: Json, story: _Story) -> Iterator[str]:
    """What happened to what it rests on since its clock, the newest last."""
    events = story.newest()
    yield ""
    if events:
        nobody = any(_by_nobody(event.record) for event in events)
        yield "  since then" + (" (where nobody is named, no action declared it):" if nobody else ":")
    else:
        yield "  none of these was touched since then, as far as the log knows"
    if (earlier := story.count - len(events)) > 0:
        yield f"    {output.ellipsis()} {earlier} earlier"
    version = answer["version"]
    before_put = bool(events) and isinstance(version, int) and int(events[0].record.get("seq") or 0) < version
    for event in events:
        if before_put and int(event.record.get("seq") or 0) > version:
            yield f"    {output.moment(answer.get('at'))}  (here it was put)"
            before_put = False
        yield f"    {_line(event)}"
    if before_put:
        yield f"    {output.moment(answer.get('at'))}  (here it was put)"
    if story.reasons:
        yield f"  the log is not whole since then: {output.printable(output.some(list(story.reasons), _REASONS))}"


def _by_nobody(record: Json) -> bool:
    """Whether it is a mutation of which nobody knows who made it."""
    return record.get("type") == "mutation" and (record.get("actor") or {"unknown": True}) == {"unknown": True}


def _line(event: _Event) -> str:
    record = event.record
    kind = "" if record.get("type") == "mutation" else f"{output.printable(str(record.get('type')))} "
    told = records.who(record)
    return f"{output.moment(record.get('at'))}  {kind}{records.what(record, event.known)}" + (
        f"  ({told})" if told else ""
    )
