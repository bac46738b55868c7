"""What to do about places that are not watched: a command that can be run as it stands.

Rule: leaving a place out keeps every rule that its root has.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING, Any, Final

from provd import ignoring
from provd.cli import hints, names, output
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

_DENIED: Final = re.compile(r"permission denied|no permission|unreadable|not readable|EACCES", re.IGNORECASE)
_MOST: Final = 8
"""Places that one command names; when it was run, the next ones are told."""


def fix(why: str, places: Sequence[bytes], roots: Sequence[Json]) -> str:
    """What to do about places that are not watched for one reason; empty where nothing helps.

    `places` are absolute paths, `roots` all that are watched, as the wire has them.
    """
    if not _DENIED.search(why):
        return hints.uncovered(why)
    some = sorted(places)[:_MOST]
    them = "it" if len(some) == 1 else "them"
    readable = _opening(some)
    ignored = "; ".join(_leaving_out(some, roots))
    return f"{readable}, or leave {them} out: {ignored}" if ignored else readable


def ignoring_too(root: Json, *more: str) -> str:
    """The command that gives a root further ignore rules."""
    kept = root.get("ignore")
    rules = [] if kept is None else [str(rule) for rule in kept]
    if kept is not None:  # `watch add` has the default ones always
        gone = [ignoring.undone(rule) for rule in ignoring.DEFAULT_PATTERNS if rule not in rules]
        rules = [*gone, *(rule for rule in rules if rule not in ignoring.DEFAULT_PATTERNS)]
    options = [f"--ignore {output.quoted(rule)}" for rule in dict.fromkeys((*rules, *more))]
    return " ".join(["provd watch add", _quoted(local_path(root["path"])), *options])


def _opening(places: Sequence[bytes]) -> str:
    """How the daemon's user, who is the one that asks, may look into directories."""
    named = " ".join(_quoted(place) for place in places)
    if all(_is_own(place) for place in places):
        return f"chmod u+rx {named}"
    return f"sudo setfacl -m u:{_user()}:rx {named}"


def _is_own(place: bytes) -> bool:
    """Whether this user may change a directory's permissions; what cannot be seen is taken for his."""
    try:
        owner = os.lstat(place).st_uid
    except OSError:
        return True
    return os.geteuid() in {owner, 0}


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _leaving_out(places: Sequence[bytes], roots: Sequence[Json]) -> list[str]:
    """A command for each innermost root that holds some of the places; a root itself cannot be left out."""
    rows = {local_path(root["path"]): root for root in roots}
    rules: dict[bytes, list[str]] = {}
    for place in places:
        held = names.holding(list(rows), place)
        if held is None or held == place:
            continue
        rule = ignoring.naming(place[len(held.rstrip(b"/")) + 1 :])
        if rule is not None:
            rules.setdefault(held, []).append(rule)
    return [ignoring_too(rows[held], *more) for held, more in rules.items()]


def _quoted(path: bytes) -> str:
    return output.quoted(os.fsdecode(path))
