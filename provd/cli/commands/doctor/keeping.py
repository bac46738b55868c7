"""Checks of what the daemon keeps and needs: state directory, store, audits, descriptors, clock, actions, queue.

Rule: the daemon's places are judged only where this command sees the same files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from provd import places
from provd.cli import output, steps
from provd.cli.commands.doctor.facts import HUNG
from provd.cli.commands.doctor.results import Result, fail, ok, warn
from provd.cli.given import names
from provd.cli.words import times
from provd.cli.words.records import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.commands.doctor.facts import Directory, Facts
    from provd.refusals import Refusal

_ANOTHER: Final = "provd start --state DIR"
_MIB: Final = 1024**2
_LOW: Final = 512 * _MIB
_NOTHING: Final = 16 * _MIB
"""Bytes free below which the store takes no more changes."""
_MAP_NEAR: Final = 0.8
_DESCRIPTORS: Final = 1200
"""1,024 clients, and what the daemon itself needs."""
_OLD: Final = 3600
"""Seconds after which an open action may have been forgotten."""
_HELD_UP: Final = "until it ends, what rests on the objects that it names is dirty"
_HELD_DOING: Final = (
    "until it ends, what changes at the paths that it names counts as its doing; no verdict hangs on that"
)
_STEP: Final = 1.0
"""Seconds by which a wall clock must differ to be told of."""
_BEHIND: Final = 10_000


def directory(facts: Facts) -> Iterator[Result]:
    """The state directory: whose, how open, where, and how much room."""
    seen = facts.directory
    if seen is None or facts.answer.get("foreign"):
        return
    if seen.gone:
        if facts.answered:
            why = "the daemon runs on a directory that was removed: after a restart nothing of it is left"
            yield fail("state.gone", f"{seen.path} is not there", why, places.SAVE)
        elif seen.refusal is not None:
            yield _refused(seen.refusal)
        elif not seen.writable:
            why = "what lies above it cannot be written"
            yield fail("state.denied", f"{seen.path} is not there and cannot be made", why, _ANOTHER)
        else:
            yield ok(f"{seen.path} is not there yet: the first start makes it")
    elif seen.trouble and seen.refusal is not None:
        yield _refused(seen.refusal)
    elif seen.trouble:
        hint = (
            f"chmod 700 {output.quoted(seen.shut)}"
            if seen.shut
            else f"ls -ld {output.quoted(seen.path)}  # look at its disk and permissions"
        )
        hint = HUNG if seen.hangs else hint
        yield fail("state.unseen", f"{seen.path} cannot be looked at", seen.trouble, hint)
    else:
        yield from list(_directory(facts, seen)) or [ok(f"{seen.path}, {_room(seen)}")]


def _refused(refusal: Refusal) -> Result:
    why = "a daemon that runs goes on answering and takes no changes (store.unusable); none can start there"
    if refusal.code == "readonly":
        return fail("state.readonly", refusal.what, why, refusal.hint)
    return fail("state.failing", refusal.what, why, refusal.hint)


def _room(seen: Directory) -> str:
    return "" if seen.free is None else f"{times.size(seen.free)} free"


def _directory(facts: Facts, seen: Directory) -> Iterator[Result]:
    quoted = output.quoted(seen.path)
    if seen.network:
        why = "the store is not safe there: a daemon refuses to start"
        yield fail("state.network", f"{seen.path} lies on a network file system", why, f"{_ANOTHER}  # on a local disk")
    if facts.user not in {seen.owner, 0}:
        why = f"it belongs to user {seen.owner}, you are user {facts.user}"
        yield fail("state.owner", f"{seen.path} is not yours", why, f"sudo -u '#{seen.owner}' provd doctor\n{_ANOTHER}")
    if seen.refusal is not None:
        yield _refused(seen.refusal)
    elif not seen.writable and facts.user in {seen.owner, 0}:
        why = "its permissions forbid it: a daemon cannot start on it"
        yield fail("state.denied", f"{seen.path} cannot be written", why, f"chmod 700 {quoted}\n{_ANOTHER}")
    if seen.mode & 0o077:
        why = f"its mode is {seen.mode:04o}, and values lie in it unencrypted"
        yield warn("state.mode", f"others may look into {seen.path}", why, f"chmod 700 {quoted}")
    if seen.refusal is None and seen.free is not None and seen.free < _LOW:
        level = fail if seen.free < _NOTHING else warn
        why = f"{times.size(seen.free)} free: without room changes are refused (store.full), questions go on"
        yield level("state.full", f"the disk of {seen.path} is nearly full", why, f"df -h {quoted}  # free space there")


def store(facts: Facts) -> Iterator[Result]:
    """What the store went through, and how full it is."""
    told = facts.part("store")
    seen = facts.directory
    found = [*_aside(facts, seen), *_trouble(facts, told)]
    if found:
        yield from found
    elif facts.answered and "bytes" in facts.answer:
        held = number(facts.answer, "records")
        size = times.size(number(facts.answer, "bytes"))
        yield ok(f"{held:,} {output.noun(held, 'record', 'records')}, {size}")


def _aside(facts: Facts, seen: Directory | None) -> Iterator[Result]:
    told = facts.answer.get("set_aside")
    names = (
        [] if seen is None else [name for name in seen.names if name.startswith(places.STORE_NAME + places.UNUSABLE)]
    )
    kept = [os.path.join(seen.path, name) for name in names] if seen is not None else []
    if isinstance(told, str) and told not in kept:
        kept.append(told)
    reason = output.printable(str(facts.answer.get("set_aside_why") or ""))
    for path in kept:
        cause = f"{reason}; " if reason and path == told else ""
        yield warn(
            "store.aside",
            f"a store that could not be opened lies at {output.printable(path)}",
            f"{cause}its entries and clocks are not known any more; a new log was begun",
            f"rm -r {output.quoted(path)}  # or keep it, to have it looked at",
        )
    migrated = facts.answer.get("migrated")
    if isinstance(migrated, dict) and (at := migrated.get("kept")):
        place = output.printable(str(at))
        why = "the store was taken over from an older version; after an orderly end the next start removes the old one"
        yield warn("store.migrated", f"the store of before the upgrade is kept at {place}", why, "provd restart")


def _trouble(facts: Facts, told: dict[str, Any]) -> Iterator[Result]:
    refused = facts.directory is not None and facts.directory.refusal is not None
    if "unusable" in told and not refused and not (facts.directory and facts.directory.gone):  # else that was said
        yield fail(
            "store.astray",
            "the store was moved or removed under the daemon: changes are refused (store.unusable), questions go on",
            output.printable(str(told["unusable"])),
            f"{places.SAVE}  # or put it back",
        )
    if "damaged" in told:
        yield fail(
            "store.damaged",
            "something in the store is not as it was written: it is unknown (damaged), or refused (store.damaged)",
            output.printable(str(told["damaged"])),
            "provd export --all > FILE  # saves what can be read; then stop, move the store away, start, import FILE",
        )
    if "reading_only" in told and not refused:
        yield fail(
            "store.reading",
            "the store is open for reading alone: changes are refused (store.unusable, store.full), questions go on",
            output.printable(str(told["reading_only"])),
            "provd doctor  # when that is mended: each change, and what is recorded, tries to open it again",
        )
    elif (times_reopened := number(told, "reopened")) and not refused:
        yield warn(
            "store.reopened",
            f"the store was opened again {output.count(times_reopened, 'time', 'times')} after a failed write",
            "nothing that was acknowledged is lost, but its disk failed or is full",
            "provd restart  # when its disk was looked at (dmesg, df)",
        )
    room, used = number(told, "map_bytes"), number(facts.answer, "bytes")
    if room and used > _MAP_NEAR * room:
        gib = max(2, 2 * room // 1024**3)
        yield warn(
            "store.map",
            f"the store has {times.size(used)} of at most {times.size(room)}",
            "when that is full, changes are refused (store.full), questions go on",
            f"provd restart  # when {output.printable(facts.config)} has, under [store], map_gib = {gib}",
        )


def audits(facts: Facts) -> Iterator[Result]:
    """Whether what the daemon believes was another than what is there, when an audit last looked."""
    told = facts.part("audits")
    count = number(told, "count")
    mismatches = number(told, "differing" if "differing" in told else "mismatches")  # an older daemon counts all
    made = f"{output.count(count, 'audit', 'audits')} since the start"
    if mismatches:
        yield warn(
            "audit.mismatch",
            f"{made} found {output.count(mismatches, 'mismatch', 'mismatches')}",
            "what was there was another than the daemon knew: changes that nobody told, a disk that lost something, "
            "or provd's own fault",
            steps.ways("provd audit  # tells what still differs", "provd restart  # ends this message"),
        )
    elif told:
        found = "nothing differs any more" if number(told, "mismatches") else "nothing differed"
        yield ok(f"{made}, {found}" if count else "none since the start")


def self_check(facts: Facts) -> Iterator[Result]:
    """Whether a seal stood for another content than was there."""
    told = facts.part("self_check")
    checked, mismatches = number(told, "checked"), number(told, "mismatches")
    made = f"{output.count(checked, 'answer', 'answers')} by seals read again since the start"
    if mismatches:
        yield warn(
            "selfcheck.mismatch",
            f"{made}, {output.count(mismatches, 'one was', 'were')} not true",
            "a stat was what it had been and the content another: a disk or a file system that lost something, a write "
            "below it, or provd's own fault",
            "provd audit  # compares all with the disk; the daemon's own log names the file",
        )
    elif told:
        yield ok(f"{made}, all were true" if checked else "no answer by seals was read again since the start")


def descriptors(facts: Facts) -> Iterator[Result]:
    """Whether the daemon may open enough."""
    told = facts.part("descriptors")
    limit, used = number(told, "limit"), number(told, "used")
    if not limit:
        return
    if limit < _DESCRIPTORS or used > _MAP_NEAR * limit:
        yield warn(
            "descriptors",
            f"the daemon has {used} of at most {limit} open files",
            "each client is one, and 1,024 clients are allowed; past the limit they are refused",
            f"ulimit -Hn {max(4096, 2 * limit)} && provd restart  # as root; in a unit: LimitNOFILE=",
        )
    else:
        yield ok(f"{used} of {limit:,} open files")


def clock(facts: Facts) -> Iterator[Result]:
    """Whether somebody set the wall clock."""
    told = facts.part("wall_clock")
    if not told:
        return
    stepped, ahead = (told.get(name) for name in ("stepped_s", "ahead_s"))
    found = False
    if isinstance(stepped, int | float) and abs(stepped) > _STEP:
        found = True
        way = "forward" if stepped > 0 else "back"
        yield warn(
            "clock.set",
            f"the wall clock was set {way} by {times.duration(abs(stepped))} since the daemon started",
            "clocks from before it prove less (what was put by them may be unproven); the order of records stands",
            "provd restart  # ends this message; take new clocks for what you put",
        )
    if isinstance(ahead, int | float) and ahead > _STEP:
        found = True
        yield warn(
            "clock.future",
            f"the newest records are dated {times.duration(ahead)} in the future",
            "the wall clock was set back after they were written; the order of records stands, their dates do not",
            "timedatectl  # is the machine's time right?",
        )
    if not found:
        yield ok("nobody set the wall clock since the start")


def actions(facts: Facts) -> Iterator[Result]:
    """Whether actions are open that nobody may end any more. (A held one ends with its connection.)"""
    if "actions" not in facts.answer:
        return
    rows = facts.rows("actions")
    old = [(row, age) for row in rows if (age := times.age(row.get("at"), facts.now)) is not None and age > _OLD]
    for row, age in old:
        writes = output.some([output.name(write) for write in row.get("writes") or []], 3)
        session = "" if row.get("session") is None else f", by session {output.printable(str(row['session']))}"
        yield warn(
            "actions.old",
            f"action {row.get('id')} is open since {times.duration(age)}{session}: {writes}",
            _HELD_UP if any(names.is_object(write) for write in row.get("writes") or []) else _HELD_DOING,
            f"provd action end {row.get('id')}  # --outcome aborted: nothing was attempted",
        )
    if not old:
        yield ok(f"{len(rows)} open" if rows else "none open")


def queue(facts: Facts) -> Iterator[Result]:
    """Whether the daemon keeps up."""
    if not isinstance(waiting := facts.answer.get("queue"), int):
        return
    if waiting > _BEHIND:
        yield warn(
            "queue",
            f"{waiting:,} changes and files wait to be recorded and hashed",
            "more happens than is recorded; answers wait for it, and stay true",
            "provd watch add DIR --ignore build/  # leaves out what is built or downloaded",
        )
    else:
        yield ok(f"{waiting} waiting")
