"""The status as metrics, in the text format that Prometheus's node_exporter collects from files.

Rule: base units (seconds, bytes), a HELP and a TYPE line before each family, nothing made up: what a daemon does not
tell has no sample. A path that is no text is told as `b64:` and its base64, so that no two are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli.words import times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from provd.client import WirePath

Json = dict[str, Any]
Sample = tuple[str, dict[str, str], float | int]
"""What follows the family's name (empty, `_bucket`), the labels, the value."""

_STATES: Final = ("watching", "scanning", "degraded", "gone")
_COVERAGE: Final = {"whole": 1.0, "partial": 0.5, "none": 0.0}
_KINDS: Final = ("fresh", "dirty", "unknown")


def text(answer: Json | None, version: str, now: int) -> Iterator[str]:
    """The lines. `answer` is `daemon.status`, None where no daemon answers; `now` is in nanoseconds."""
    yield from _family("up", "gauge", "Whether the daemon answered.", [("", {}, 0 if answer is None else 1)])
    if answer is None:
        return
    build = {"version": str(answer.get("version", "")), "command_version": version}
    yield from _family("build_info", "gauge", "Versions of the daemon and of the command.", [("", build, 1)])
    for name, kind, told, samples in (*_plain(answer), *_verdicts(answer), *_kept(answer), *_watched(answer, now)):
        yield from _family(name, kind, told, samples)


def _family(name: str, kind: str, told: str, samples: Iterable[Sample]) -> Iterator[str]:
    lines = [f"provd_{name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in samples]
    if lines:
        yield f"# HELP provd_{name} {told}"
        yield f"# TYPE provd_{name} {kind}"
        yield from lines


def _labels(labels: dict[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(value: str) -> str:
    """A label's value: the format knows three escapes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _path(path: WirePath) -> str:
    return path if isinstance(path, str) else f"b64:{path.get('b64', '')}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


Family = tuple[str, str, str, list[Sample]]


def _value(name: str, kind: str, told: str, value: Any, scale: float = 1) -> Iterator[Family]:
    """A family with one sample; none where there is no number."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, kind, told, [("", {}, value if scale == 1 else value * scale)]


def _plain(answer: Json) -> Iterator[Family]:
    for name, kind, told, value, scale in (
        ("start_time_seconds", "gauge", "When the daemon started, in Unix time.", answer.get("started_at"), 1e-9),
        ("uptime_seconds", "gauge", "How long the daemon runs.", answer.get("uptime_s"), 1),
        ("queue_length", "gauge", "What was seen and is not recorded and hashed yet.", answer.get("queue"), 1),
        ("losses_total", "counter", "How often something may have gone unseen.", answer.get("drops"), 1),
        ("rescans_total", "counter", "Scans that were begun.", answer.get("rescans"), 1),
        ("watches", "gauge", "Directories that are watched.", answer.get("watches"), 1),
        ("files", "gauge", "Files, directories and links in the table of files.", answer.get("files"), 1),
        ("log_records", "gauge", "Records that the log holds.", answer.get("records"), 1),
        ("store_bytes", "gauge", "What the store takes on disk, the log with it.", answer.get("bytes"), 1),
        ("store_map_bytes", "gauge", "What the store can hold at most.", _in(answer, "store", "map_bytes"), 1),
        ("store_reopened_total", "counter", "Failed writes.", _in(answer, "store", "reopened"), 1),
        ("open_fds", "gauge", "Open file descriptors.", _in(answer, "descriptors", "used"), 1),
        ("max_fds", "gauge", "Descriptors that may be open.", _in(answer, "descriptors", "limit"), 1),
        ("audits_total", "counter", "Audits that were made.", _in(answer, "audits", "count"), 1),
        ("audit_mismatches_total", "counter", "What audits found.", _in(answer, "audits", "mismatches"), 1),
        (
            "self_checks_total",
            "counter",
            "Answers by seals that were read again.",
            _in(answer, "self_check", "checked"),
            1,
        ),
        ("self_check_mismatches_total", "counter", "Untrue ones.", _in(answer, "self_check", "mismatches"), 1),
        ("wall_clock_step_seconds", "gauge", "How the clock was set since.", _in(answer, "wall_clock", "stepped_s"), 1),
    ):
        yield from _value(name, kind, told, value, scale)


def _in(answer: Json, part: str, name: str) -> Any:
    value = answer.get(part)
    return value.get(name) if isinstance(value, dict) else None


def _verdicts(answer: Json) -> Iterator[Family]:
    told = answer.get("verdicts")
    if not isinstance(told, dict):
        return
    kinds: list[Sample] = [("", {"verdict": kind}, told[kind]) for kind in _KINDS if isinstance(told.get(kind), int)]
    yield "verdicts_total", "counter", "Verdicts that were given.", kinds
    rows, count, total = told.get("buckets"), told.get("count"), told.get("sum_us")
    if not isinstance(rows, list) or not isinstance(count, int) or not isinstance(total, int | float):
        return
    buckets: list[Sample] = [("_bucket", {"le": _number(row["le_us"] / 1e6)}, row["count"]) for row in rows]
    ends: list[Sample] = [("_bucket", {"le": "+Inf"}, count), ("_sum", {}, total / 1e6), ("_count", {}, count)]
    yield "verdict_duration_seconds", "histogram", "How long questions took.", buckets + ends


def _kept(answer: Json) -> Iterator[Family]:
    entries = answer.get("entries")
    if isinstance(entries, dict):
        rows: list[Sample] = [("", {"standing": str(word)}, n) for word, n in entries.items() if isinstance(n, int)]
        yield "entries", "gauge", "Entries by standing.", rows
    gaps = answer.get("gaps")
    if isinstance(gaps, list):
        counted: list[Sample] = [("", {"reason": str(row.get("reason", ""))}, row.get("count", 0)) for row in gaps]
        yield "gaps_total", "counter", "Stretches that nobody vouches for, by reason.", counted
    limits = answer.get("limits")
    if isinstance(limits, dict):
        set_to: list[Sample] = [("", {"limit": str(name)}, n) for name, n in limits.items() if isinstance(n, int)]
        yield "inotify_limit", "gauge", "Limits of the system.", set_to


def _watched(answer: Json, now: int) -> Iterator[Family]:
    actions = answer.get("actions")
    if isinstance(actions, list):
        ages = [age for action in actions if (age := times.age(action.get("at"), now)) is not None]
        yield "open_actions", "gauge", "Actions that have begun and not ended.", [("", {}, len(actions))]
        oldest = [("", dict[str, str](), max(ages))] if ages else []
        yield "oldest_open_action_seconds", "gauge", "How long the oldest open action is open.", list(oldest)
    roots = answer.get("roots")
    if not isinstance(roots, list):
        return
    named = [(root, {"root": _path(root["path"])}) for root in roots if "path" in root]
    states: list[Sample] = []
    for root, labels in named:
        told = str(root.get("state", ""))
        states += [("", labels | {"state": state}, int(told == state)) for state in dict.fromkeys((*_STATES, told))]
    coverage: list[Sample] = [
        ("", labels | {"backend": str(root.get("backend", ""))}, _COVERAGE[str(root["coverage"])])
        for root, labels in named
        if root.get("coverage") in _COVERAGE
    ]
    yield "root_state", "gauge", "1 for the state that a root is in.", states
    yield "root_coverage", "gauge", "How much of a root is watched: 1 all, 0.5 a part, 0 nothing.", coverage
    for field, told in (("files", "Files in a root."), ("directories", "Directories of a root that are watched.")):
        counts: list[Sample] = [("", labels, root[field]) for root, labels in named if isinstance(root.get(field), int)]
        yield f"root_{field}", "gauge", told, counts
    blind: list[Sample] = [
        ("", labels, len(root.get("uncovered") or []) + (root.get("uncovered_more") or 0)) for root, labels in named
    ]
    yield "root_uncovered_places", "gauge", "Places in a root that are not watched.", blind
