"""The status as a screen: the answer first, then who, what and how well.

Rule: a field that this version does not know is shown as it is, never dropped. Lines fit 80 columns, but for paths.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output, steps
from provd.cli.commands.action import open_line
from provd.cli.words import gaps, times
from provd.cli.words.records import is_below, number
from provd.cli.words.roots import meaning, size, uncovered, word
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.services import Service

Json = dict[str, Any]

_INDENT: Final = 11
_STAYS: Final = "this one goes on being watched, by itself"
"""What it means for a root that the one around it was removed."""
_SHOWN: Final = 20
"""Roots and actions that a screen has."""
_KNOWN: Final = frozenset(
    (
        *("version", "pid", "uptime_s", "started_at", "package", "roots", "actions", "socket", "state", "entries"),
        *("records", "bytes", "files", "oldest", "oldest_at", "queue", "drops", "rescans", "watches", "limits"),
        *("verdicts", "gaps", "audits", "self_check", "store", "set_aside", "set_aside_why", "migrated"),
        *("descriptors", "wall_clock", "foreign", "proc_missing"),
        *("clock", "log", "run"),
    )
)
_TOLD: Final = frozenset(
    (
        "path",
        "state",
        "backend",
        "coverage",
        "why",
        "uncovered",
        "uncovered_more",
        "files",
        "directories",
        "last_gap",
        "filesystem",
        "all_ignored",
    )
)
_ENTRIES: Final = {"revoked": "in the archive"}
_STATES: Final = {"watching": "ok", "gone": "fail"}


def lines(answer: Json, unit: Service | None, now: int, log_file: str = "") -> Iterator[str]:
    """All that a status says, but whether it is well. `now` is in nanoseconds of the wall clock.

    `log_file` is what the daemon writes its own log to, where that is a file and can be seen.
    """
    yield from _row("daemon", _daemon(answer))
    if unit is not None:
        yield from _row("unit", _unit(unit))
    for place in ("socket", "state", "package"):
        if place in answer:
            yield from _row(place, output.name(answer[place]))
    yield from _row("logs to", output.printable(log_file))
    yield ""
    yield from _roots(answer)
    yield ""
    yield from _row("entries", _counts(answer.get("entries")))
    yield from _actions(answer, now)
    yield from _row("answers", _answers(answer))
    yield from _row("log", _log(answer))
    yield from _row("store", _store(answer))
    yield from _row("watcher", _watcher(answer))
    yield from _gaps(answer)
    yield from _row("limits", _limits(answer))
    yield from _row("clock", _clock(answer))
    names = [f"{name} {output.printable(str(answer[name]))}" for name in ("run", "log") if name in answer]
    yield from _row("ids", ", ".join(names))
    for name, value in answer.items():
        if name not in _KNOWN:
            yield from _row(output.printable(name), plain(value))


def _row(label: str, told: str) -> Iterator[str]:
    """A label and what there is to say; nothing where there is nothing."""
    if told:
        head = f"{label:<{_INDENT}}" if len(label) < _INDENT else f"{label} "
        yield from output.wrapped(head, _INDENT, told)


def _daemon(answer: Json) -> str:
    facts = [f"{name} {output.printable(str(answer[name]))}" for name in ("version", "pid") if name in answer]
    if "uptime_s" in answer:
        facts.append(f"up {times.duration(answer['uptime_s'])}")
    if "started_at" in answer:
        facts.append(f"since {output.moment(answer['started_at'])[:19]}")
    if answer.get("foreign") is True:
        told = "cannot tell which files you see (no /proc)" if answer.get("proc_missing") is True else ""
        facts.append(told or "sees other files than you")
    return ", ".join(facts)


def _unit(unit: Service) -> str:
    facts = [f"{unit.name} ({unit.manager}): {unit.active}"]
    if unit.enabled is not None:
        facts.append("starts by itself" if unit.enabled else "does not start by itself")
    if unit.linger is not None:
        facts.append("stays after logout" if unit.linger else "ends at logout")
    return ", ".join(facts)


def _roots(answer: Json) -> Iterator[str]:
    roots = answer.get("roots") or []
    if not roots:
        yield from _row("roots", steps.filled("none: provd watch add .  # or another directory"))
        return
    yield "roots"
    if len(roots) > _SHOWN:  # then those first that are not as they should be
        roots = sorted(roots, key=lambda root: word(root, "state") == "watching")
    for root in roots[:_SHOWN]:
        yield from _root(root, roots)
    if len(roots) > _SHOWN:
        yield f"  and {len(roots) - _SHOWN:,} more: {steps.filled('provd watch ls')}"


def _root(root: Json, roots: Sequence[Json]) -> Iterator[str]:
    state = word(root, "state")
    looks = output.symbol(_STATES.get(state, "warn"), f" {output.printable(state)}")
    backend = f" by {output.printable(word(root, 'backend'))}" if word(root, "backend") else ""
    disk = f" on {output.printable(word(root, 'filesystem'))}" if word(root, "filesystem") else ""
    yield f"  {output.name(root['path'])}  {looks}{backend}{disk}"
    yield from output.wrapped("    ", 4, meaning(root))
    if holds := size(root):
        yield f"    holds {holds}"
    yield from uncovered(root, "    ", roots)
    gap = root.get("last_gap")
    if isinstance(gap, dict) and "reason" in gap:
        reason = str(gap["reason"])
        at = f"{output.moment(gap['at'])[:19]}, " if "at" in gap else ""
        # A place below may be one that another root is for: its gap concerns this one, and is not its own.
        scope = gap.get("scope", "all")
        where = "" if scope in ("all", root["path"]) else f"in {output.name(scope)}, "
        words = gaps.meaning(reason).words
        if where and is_below(local_path(root["path"]), local_path(scope)):
            where = f"of {output.name(scope)} around it, "
            words = _STAYS if reason == "root removed" else words
        told = f"{at}{where}{output.printable(reason)}: {words}"
        yield from output.wrapped("    last gap ", 13, told)
    for name, value in root.items():
        if name not in _TOLD and value not in (None, [], {}):
            yield from output.wrapped(f"    {output.printable(name.replace('_', ' '))} ", 13, plain(value))


def _actions(answer: Json, now: int) -> Iterator[str]:
    actions = answer.get("actions") or []
    yield from _row("actions", f"{len(actions)} open" if actions else "none open")
    for action in actions[:_SHOWN]:
        age = times.age(action.get("at"), now)
        since = "" if age is None else f"  open {times.duration(age)}"
        yield open_line({name: value for name, value in action.items() if name != "at"}) + since
    if len(actions) > _SHOWN:
        yield f"{'':<{_INDENT}}and {len(actions) - _SHOWN:,} more: {steps.filled('provd action ls')}"


def _counts(value: Any) -> str:
    return (
        plain(value)
        if not isinstance(value, dict)
        else ", ".join(f"{n} {_ENTRIES.get(w, output.printable(w))}" for w, n in value.items())
    )


def _answers(answer: Json) -> str:
    told = answer.get("verdicts")
    if not isinstance(told, dict):
        return ""
    facts = [output.count(number(told, "count"), "question", "questions") + " since the start"]
    kinds = [f"{told[kind]} {kind}" for kind in ("fresh", "dirty", "unknown") if isinstance(told.get(kind), int)]
    if kinds and number(told, "count"):
        facts.append(f"verdicts {', '.join(kinds)}")
    half, most = times.micros(told.get("p50_us")), times.micros(told.get("p99_us"))
    if half and most:
        facts.append(f"half of them within {half}, 99 % within {most}")
    audits = answer.get("audits")
    if isinstance(audits, dict) and number(audits, "count"):
        compared = output.count(number(audits, "count"), "audit", "audits")
        files = output.count(number(audits, "files"), "file", "files")
        facts.append(
            f"{compared} of {files} found {output.count(number(audits, 'mismatches'), 'mismatch', 'mismatches')}"
        )
    checks = answer.get("self_check")
    if isinstance(checks, dict) and (read := number(checks, "checked")):
        wrong = number(checks, "mismatches")
        facts.append(f"{output.count(read, 'answer', 'answers')} read again, {wrong or 'none'} untrue")
    return "; ".join(facts)


def _log(answer: Json) -> str:
    facts = [_many(answer, "records", "record", "records")] if "records" in answer else []
    if answer.get("oldest_at") is not None:
        facts.append(f"kept since {output.moment(answer['oldest_at'])[:19]}")
    if "files" in answer:
        facts.append(f"{_many(answer, 'files', 'path', 'paths')} known")
    return ", ".join(facts)


def _many(answer: Json, field: str, one: str, many: str) -> str:
    told = number(answer, field)
    return f"{told:,} {output.noun(told, one, many)}"


def _store(answer: Json) -> str:
    told = answer.get("store")
    facts = [f"{times.size(number(answer, 'bytes'))}"] if "bytes" in answer else []
    if isinstance(told, dict):
        if room := number(told, "map_bytes"):
            facts.append(f"of at most {times.size(room)} ({100 * number(answer, 'bytes') / room:.1f} %)")
        facts = [" ".join(facts)] if facts else []
        if again := number(told, "reopened"):
            facts.append(f"opened again {output.count(again, 'time', 'times')} after a failed write")
        if why := told.get("reading_only"):
            facts.append(f"open for reading alone: {output.printable(str(why))}")
        known = ("map_bytes", "reopened", "reading_only")
        facts += [f"{output.printable(name)} {plain(value)}" for name, value in told.items() if name not in known]
    migrated = answer.get("migrated")
    if isinstance(migrated, dict):
        at = f" on {output.moment(migrated['at'])[:19]}" if "at" in migrated else ""
        kept = f", the old one is kept at {output.name(migrated['kept'])}" if migrated.get("kept") else ""
        facts.append(f"taken over from format {output.printable(str(migrated.get('from', '?')))}{at}{kept}")
    if "set_aside" in answer:
        facts.append(f"one that could not be opened lies at {output.name(answer['set_aside'])}")
    return ", ".join(facts)


def _watcher(answer: Json) -> str:
    facts = [f"{plain(answer['queue'])} waiting"] if "queue" in answer else []
    for name, one, many in (("drops", "loss", "losses"), ("rescans", "scan", "scans"), ("watches", "watch", "watches")):
        if name in answer:
            facts.append(f"{plain(answer[name])} {one if answer[name] == 1 else many}")
    return ", ".join(facts)


def _gaps(answer: Json) -> Iterator[str]:
    rows = [row for row in answer.get("gaps") or [] if isinstance(row, dict)]
    told = [f"{output.printable(str(row.get('reason')))} ({number(row, 'count')})" for row in rows]
    yield from _row("gaps", "; ".join(told))


def _limits(answer: Json) -> str:
    limits, files = answer.get("limits"), answer.get("descriptors")
    facts = (
        [f"{output.printable(n)} {v:,}" for n, v in limits.items() if isinstance(v, int)]
        if isinstance(limits, dict)
        else []
    )
    if isinstance(files, dict) and "limit" in files:
        facts.append(f"open files {number(files, 'used')} of {number(files, 'limit'):,}")
    return ", ".join(facts)


def _clock(answer: Json) -> str:
    facts = [f"{output.printable(str(answer['clock']))}"] if "clock" in answer else []
    if "oldest" in answer:
        facts.append(f"the oldest held is {output.printable(str(answer['oldest']))}")
    wall = answer.get("wall_clock")
    if isinstance(wall, dict):
        step = wall.get("stepped_s")
        facts.append(_stepped(step if isinstance(step, int | float) else 0))
    return ", ".join(facts)


def _stepped(seconds: float) -> str:
    if not seconds:
        return "the wall clock was not set"
    by = times.duration(abs(seconds)) if abs(seconds) >= 1 else times.micros(1e6 * abs(seconds))
    return f"the wall clock was set {'forward' if seconds > 0 else 'back'} by {by}"


def plain(value: Any) -> str:
    """Any value on one line, for people."""
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return output.name(value)
        return ", ".join(
            f"{output.printable(str(name))} {plain(part)}" for name, part in value.items() if part is not None
        )
    if isinstance(value, list):
        return "; ".join(plain(part) for part in value) if value else "none"
    return output.printable(value if isinstance(value, str) else json.dumps(value))
