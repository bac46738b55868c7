"""Checks of what is watched, and how well: the roots, the system's limits, the gaps.

Rule: what is not watched is answered by reading, so it warns; only where nothing can be read or watched does it fail.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.commands.doctor.results import Result, fail, note, ok, warn
from provd.cli.given.looking import is_directory
from provd.cli.words import gaps as meanings
from provd.cli.words import hints, permissions, roots, times, unwatched
from provd.cli.words.records import number
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.cli.commands.doctor.facts import Facts

_LONG: Final = 300
"""Seconds after which a scan takes long."""
_REASONS: Final = 4
"""Reasons for which places of one root are not watched, and that are told apart."""
_NEAR: Final = 0.8
_RECENT: Final = 86400
"""Seconds for which a gap is news."""
_SLOWER: Final = "answers are by reading, and changes are found at intervals; nothing else is lost"
_LOOK: Final = "provd watch add DIR  # tries again; see what the daemon logs"
_CHOSEN: Final = "was chosen"
"""How the daemon says that a backend is somebody's wish."""
_UNCHOSEN: Final = (
    'provd restart --backend auto  # or leave it so; for good: [watch] backend = "auto" in the configuration'
)
_NOTHING: Final = "provd status  # nothing has to be done: what is there is found by reading"
_LOCAL: Final = "provd watch ls  # leave it so, or keep the directory on a local file system (ext4, xfs, btrfs)"


def watched(facts: Facts) -> Iterator[Result]:
    """Each root: whether it is there, and what of it is not watched."""
    if not isinstance(facts.answer.get("roots"), list):
        return
    rows = facts.rows("roots")
    if not rows:
        why = "without roots answers are true all the same, but nothing tells what changed, when and by whom"
        yield warn("roots.none", "nothing is watched", why, "provd watch add .  # or another directory")
        return
    found = [result for row in rows for result in _root(row, rows, facts.now)]
    scanning = sum(roots.word(row, "state") == "scanning" for row in rows)
    still = f", {scanning} of them scanned for the first time" if scanning else ", wholly watched"
    yield from found or [ok(output.count(len(rows), "root", "roots") + still)]


def _root(root: dict[str, Any], rows: Sequence[dict[str, Any]], now: int) -> Iterator[Result]:
    name = output.name(root.get("path", "?"))
    state, coverage, backend = (roots.word(root, field) for field in ("state", "coverage", "backend"))
    if state == "gone":
        quoted = output.quoted(os.fsdecode(local_path(root.get("path", "?"))))
        if there := is_directory(local_path(root.get("path", "?"))):
            next_step = f"provd watch add {quoted}  # watches the one that stands there now"
        else:
            next_step = f"provd watch rm {quoted}  # or bring it back"
        what = f"{name} is another directory than the one that was watched" if there else f"{name} is gone"
        yield fail("root.gone", what, roots.meaning(root), next_step)
        return
    if state == "scanning":
        gap = root.get("last_gap")
        since = times.age(gap.get("at"), now) if isinstance(gap, dict) else None
        if since is not None and since > _LONG:
            why = "until it is scanned, answers about it are by reading"
            next_step = f"{unwatched.ignoring_too(root, 'node_modules/')}  # leaves out what is built or downloaded"
            yield warn("root.scanning", f"{name} is being scanned since {times.duration(since)}", why, next_step)
        return
    if root.get("all_ignored") is True:
        rules = ", ".join(output.printable(str(rule)) for rule in root.get("ignore") or [])
        where = permissions.quoted(local_path(root.get("path", "?")))
        again = f"provd watch add {where} --ignore .git/  # other rules, as the default ones"
        yield warn("root.ignored", f"nothing of {name} is watched: its rules ignore all", f"they are: {rules}", again)
    if coverage in {"whole", ""}:
        return
    path = local_path(root.get("path", "?"))
    own, places = _parted(root)
    if backend in {"poll", "watchdog"}:
        why = own or "its file system tells too little"
        word = "polled" if backend == "poll" else "watched by watchdog, which may drop events"
        fix = unwatched.fix(why, [path], rows)
        # Where the file system is the reason, or polling was chosen, nothing is wrong; watchdog may drop events.
        level = warn if fix or (backend == "watchdog" and sys.platform == "linux") else note
        if not fix and (backend == "watchdog" or _CHOSEN in why):
            fix = _UNCHOSEN if backend == "poll" or sys.platform == "linux" else _NOTHING
        yield level("root.polled", f"{name} is {word}", f"{why}; {_SLOWER}", fix or _LOCAL)
    elif coverage == "none":
        fix = unwatched.fix(own, [path], rows)
        yield fail("root.unwatched", f"{name} is not watched", own or roots.meaning(root), fix or _LOOK)
    elif own:
        fix = unwatched.fix(own, [path], rows)
        yield warn("root.doubted", f"{name} is watched, and its silence proves nothing", own, fix or _LOCAL)
    yield from _uncovered(name, places, number(root, "uncovered_more"), rows)


def _parted(root: dict[str, Any]) -> tuple[str, dict[str, list[bytes]]]:
    """Why the root itself is not wholly watched, and the places in it, by their reasons."""
    own, places = "", dict[str, list[bytes]]()
    for place in root.get("uncovered") or []:
        if not isinstance(place, dict):
            continue
        why = str(place.get("why") or "no reason is told")
        if place.get("path") == root.get("path"):
            own = own or why
        else:
            places.setdefault(why, []).append(local_path(place.get("path", "?")))
    return own, places


def _uncovered(
    name: str, places: dict[str, list[bytes]], more: int, rows: Sequence[dict[str, Any]]
) -> Iterator[Result]:
    for index, (why, paths) in enumerate(list(places.items())[:_REASONS]):
        count = len(paths) + (more if index == 0 else 0)
        first = output.name_of(paths[0])
        one = f"{first} is not watched"
        many = f"{count} places in {name} are not watched, {first} is the first"
        fix = unwatched.fix(why, paths, rows)
        level, fix = (warn, fix) if fix else (note, _NOTHING)
        yield level("root.uncovered", one if count == 1 else many, output.printable(why), fix)


def limits(facts: Facts) -> Iterator[Result]:
    """Whether the watches of inotify are nearly used up."""
    told, used = facts.part("limits"), number(facts.answer, "watches")
    setting, most = "fs.inotify.max_user_watches", number(told, "max_user_watches")
    if own := number(told, "max_inotify_watches"):  # of the user namespace, and lower
        setting, most = "user.max_inotify_watches", own
    if not most:
        return
    if used > _NEAR * most:
        yield warn(
            "limits.watches",
            f"{used:,} of at most {most:,} watches are used, one a directory",
            "past the limit new directories are not watched; other programs of this user count too",
            hints.uncovered(f"{setting} (now {most})"),
        )
    else:
        yield ok(f"{used:,} of {most:,} watches")


def gaps(facts: Facts) -> Iterator[Result]:
    """Gaps of the last day that somebody should know the reason of."""
    if not isinstance(facts.answer.get("gaps"), list):
        return
    rows = facts.rows("gaps")
    found = []
    for row in rows:
        reason, last = str(row.get("reason", "")), row.get("last")
        told = last if isinstance(last, dict) else {}
        age = times.age(told.get("at"), facts.now)
        scope = told.get("scope", "all")
        place = None if scope == "all" else local_path(scope)
        if age is None or age > _RECENT:
            continue
        if not (next_step := meanings.fix(reason, place, facts.part("limits"), facts.rows("roots"))):
            continue
        where = "everything" if scope == "all" else output.name(scope)
        often = output.count(number(row, "count"), "time", "times")
        what = f"nobody vouched for {where}: {output.printable(str(told.get('reason', reason)))}"
        why = f"{often} since the start, {times.duration(age)} ago the last; {meanings.meaning(reason).words}"
        found.append(warn("gap", what, why, next_step))
    count = sum(number(row, "count") for row in rows)
    yield from found or [ok(f"{output.count(count, 'gap', 'gaps')} since the start, all of them ordinary")]
