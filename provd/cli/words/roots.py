"""Watched directories in words: how well each is watched, and what to do where it is not.

Rule: a place that is not watched is named with its reason; nothing here sounds better than the daemon said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import output, steps
from provd.cli.words import records, unwatched
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Json = dict[str, Any]

_KERNELS: Final = "a window into the kernel"
_PLACES: Final = 3
_COVERAGE: Final = {
    "whole": "all of it is watched",
    "partial": "watched in part: what its silence hides is found by reading",
    "none": "not watched: answers are by reading",
}
ALL_IGNORED: Final = "its rules ignore all that is in it, so nothing is watched: answers are by reading"
_GONE: Final = "the directory is gone, or another stands in its place"


def word(root: Json, field: str) -> str:
    """A field that is a word; empty where there is none."""
    value = root.get(field)
    return value if isinstance(value, str) else ""


def watched(root: Json) -> bool:
    """Whether at least some of it is watched."""
    return word(root, "state") != "gone" and word(root, "coverage") in {"whole", "partial"}


def is_unwatched(root: Json) -> bool:
    """Whether nothing of it is watched, and no scan will change that."""
    return not watched(root) and word(root, "state") != "scanning"


def meaning(root: Json) -> str:
    """How well a root is watched, in words."""
    why = output.printable(word(root, "why"))
    if word(root, "state") == "gone":
        return why or _reason_of_all(root) or _GONE
    if word(root, "state") == "scanning":
        return "first scan: until it is done, answers are by reading"
    coverage = word(root, "coverage")
    if coverage == "whole" and root.get("all_ignored") is True:
        return ALL_IGNORED
    told = _COVERAGE.get(coverage, output.printable(coverage))
    if coverage == "whole" or not (reason := why or _reason_of_all(root)):
        return told
    return f"{told.partition(':')[0]}: {reason}"


def is_kernels(root: Json) -> bool:
    """Whether a root is a file system of the kernel's own (proc, sysfs, devtmpfs), by the daemon's words."""
    return _KERNELS in (word(root, "why") or _reason_of_all(root))


def _reason_of_all(root: Json) -> str:
    """Why the whole root is not watched, where the daemon names the root itself."""
    for place in root.get("uncovered") or []:
        if isinstance(place, dict) and place.get("path") == root.get("path"):
            return output.printable(str(place.get("why") or ""))
    return ""


def size(root: Json) -> str:
    """What it holds: 1,234 files in 56 directories; empty where it is not told, gone, or all ignored."""
    if word(root, "state") == "gone" or root.get("all_ignored") is True:
        return ""
    told = []
    for field, one, many in (("files", "file", "files"), ("directories", "directory", "directories")):
        number = root.get(field)
        if isinstance(number, int) and (number or field == "files"):  # a polled root has no watched directories
            told.append(f"{number:,} {one if number == 1 else many}")
    return " in ".join(told)


def uncovered(root: Json, indent: str, roots: Sequence[Json]) -> Iterator[str]:
    """The places that are not watched, the first few, and what to do; not the root itself, which `meaning` has.

    `roots` are all that there are: the rules of the innermost one hold.
    """
    places = root.get("uncovered") or []
    own = root.get("path")
    listed = [place for place in places if own not in (place, place.get("path") if isinstance(place, dict) else None)]
    for place in listed[:_PLACES]:
        yield f"{indent}not watched: {records.uncovered(place)}"
    if (rest := max(0, len(listed) - _PLACES) + records.number(root, "uncovered_more")) > 0:
        yield f"{indent}and {rest:,} more: {steps.filled('provd watch ls --json')}"
    for why, found in _by_reason(root).items():
        if fix := unwatched.fix(why, found, roots):
            yield from (f"{indent}{output.printable(text)}" for text in steps.lines(fix))


def _by_reason(root: Json) -> dict[str, list[bytes]]:
    """The places of a root that are not watched, by their reasons; one that has none has that of the root."""
    places: dict[str, list[bytes]] = {}
    for place in root.get("uncovered") or []:
        path, why = (place.get("path"), place.get("why")) if isinstance(place, dict) else (place, None)
        places.setdefault(str(why or word(root, "why")), []).append(local_path(path or root["path"]))
    if why := word(root, "why"):
        places.setdefault(why, [local_path(root["path"])])
    return places
