"""What to do about places that are not watched: a command that can be run as it stands.

Rule: leaving a place out keeps every rule that its root has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from provd import hello, ignoring
from provd.cli import output, steps
from provd.cli.words import hints, permissions
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

_ABOVE: Final = " above it: "
"""What stands, in the reason of a root, behind the directory on the way to it that is the cause."""
_MOST: Final = 8
"""Places that one command names; when it was run, the next ones are told."""


def fix(why: str, places: Sequence[bytes], roots: Sequence[Json]) -> str:
    """What to do about places that are not watched for one reason; empty where nothing helps.

    `places` are absolute paths, `roots` all that are watched, as the wire has them.
    """
    if not permissions.are_missing(why):
        return hints.uncovered(why)
    above, told, _ = why.partition(_ABOVE)
    some = [os.fsencode(above)] if told else sorted(places)[:_MOST]
    them = "it" if len(some) == 1 else "them"
    readable = permissions.opening(some)
    ignored = " && ".join(_leaving_out(some, roots))
    if not ignored:
        return readable
    ways = steps.because(readable, f"opens {them}"), steps.because(ignored, f"leaves {them} out")
    if readable.startswith(permissions.AS_ROOT):  # places of the system are rarely what is meant
        return steps.ways(*reversed(ways))
    return steps.ways(*ways)


def ignoring_too(root: Json, *more: str) -> str:
    """The command that gives a root further ignore rules."""
    kept = root.get("ignore")
    rules = [] if kept is None else [str(rule) for rule in kept]
    if kept is not None:  # `watch add` has the default ones always
        gone = [ignoring.undone(rule) for rule in ignoring.DEFAULT_PATTERNS if rule not in rules]
        rules = [*gone, *(rule for rule in rules if rule not in ignoring.DEFAULT_PATTERNS)]
    options = [f"--ignore {output.quoted(rule)}" for rule in dict.fromkeys((*rules, *more))]
    return " ".join(["provd watch add", permissions.quoted(local_path(root["path"])), *options])


def _leaving_out(places: Sequence[bytes], roots: Sequence[Json]) -> list[str]:
    """A command for each innermost root that holds some of the places; a root itself cannot be left out."""
    rows = {local_path(root["path"]): root for root in roots}
    rules: dict[bytes, list[str]] = {}
    for place in places:
        held = hello.holding(list(rows), place)
        if held is None or held == place:
            continue
        rule = ignoring.naming(place[len(held.rstrip(b"/")) + 1 :])
        if rule is not None:
            rules.setdefault(held, []).append(rule)
    return [ignoring_too(rows[held], *more) for held, more in rules.items()]
