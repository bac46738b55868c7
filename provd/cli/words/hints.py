"""What to do next, in the words of the command line.

Rule: the daemon's hints speak of the wire. Where they name its fields, this table speaks of options instead; every
other hint is handed on as it came.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.given import names
from provd.client import RpcError, local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provd.client import WirePath

TAKE_CLOCK: Final = "c=$(provd clock) before it is read, then --fetched-at $c; for files --sums needs no clock"
LOOK_AGAIN: Final = "c=$(provd clock), look again, then --fetched-at $c"
_VERSIONS: Final = (
    "the daemon is of another version than this command: provd version tells both, provd restart ends that"
)
_REFUSED: Final = {
    "-32601": _VERSIONS,  # no such method
    "clock.missing": TAKE_CLOCK,
    "method": _VERSIONS,
    "root.ambiguous": "--root DIR, or --scope NAME for what belongs to no directory; provd watch ls lists the roots",
    "root.missing": "name a directory that exists; provd watch ls lists the roots",
    "action.stale": "look again, put the entries anew, then begin",
}
_UNDECLARED: Final = "the objects named in --write count as unknown until they are looked at again"

_PROVE: Final = "put it again with --sums (sha256sum, taken before it is read) or --as-of-now"
_WHY: Final = {
    "touched": "it was written since the clock: read it again and put it anew",
    "unproven": f"nothing shows what was read: {_PROVE}",
    "timeout": "raise --timeout-ms, or depend on something smaller",
    "no-provenance": "put it with --sums or --dep; --no-deps says that it rests on nothing",
    "no-active": "put it anew: none of its values is active",
}
_UNPROVEN_ENTRY: Final = "nobody knows which version was read: c=$(provd clock), get it, put again with --fetched-at $c"
_UNPROVEN_UNREAD: Final = "nothing was read: ask without --no-revalidate"
_UNREAD: Final = frozenset({"unproven", "unreadable"})
_FEW: Final = 3
"""Places without permission that one hint names."""
_NAMED: Final = 10
_LENGTH: Final = re.compile(r"\blength <= (\d+)")
_LIMIT: Final = re.compile(r"\b((?:fs\.inotify|user)\.max_\w+)(?:\D{0,12}(\d+))?")
_LEAST: Final = {"watches": 524_288, "instances": 1024, "queued": 262_144, "": 1024}
"""What to allow at least, by a word of the setting. If all are used, so many watches take a GiB of the kernel."""


class Advised(RpcError):
    """A refusal for which the command that met it knows better what to do next."""


def unguarded(error: RpcError, writes: Sequence[WirePath]) -> RpcError:
    """The refusal of a guarded begin, that speaks of objects only where its `writes` name any; others as they are."""
    if error.code != "action.stale" or any(map(names.is_object, writes)):
        return error
    message, hint = refusal(error)
    return Advised(error.code, message.removesuffix(f"; {_UNDECLARED}"), hint, error.data)


def refusal(error: RpcError) -> tuple[str, str]:
    """What went wrong and what to do next, of an error that the daemon sent."""
    if isinstance(error, Advised):
        return error.message, error.hint
    message, hint = error.message, _REFUSED.get(error.code, error.hint)
    if error.code == "params" and (longest := _LENGTH.search(message)) is not None:
        hint = f"shorter: it may have at most {longest[1]} characters"
    verdicts = error.data.get("verdicts")
    if error.code == "action.stale" and isinstance(verdicts, dict):
        unusable = [f"{key} ({v.get('why')})" for key, v in verdicts.items() if not v.get("usable")]
        if unusable:
            message = f"nothing was begun: not usable: {output.some(unusable, _NAMED)}; {_UNDECLARED}"
    if error.code == "entry.conflict" and isinstance(stands := error.data.get("version"), int):
        hint = f"see what stands (provd get), then put with --based-on {stands}"
    return message, hint


def fault(item: dict[str, Any], *, strict: bool = False) -> str:
    """What to do next about one item of evidence. `strict`: the question was asked with --no-revalidate."""
    why = str(item.get("why", ""))
    if why == "unproven" and strict:
        return _UNPROVEN_UNREAD
    if why == "touched" and strict:
        return f"{_WHY[why]}, or ask without --no-revalidate"
    if why == "unproven" and str(item.get("dep")).startswith("entry:"):
        return _UNPROVEN_ENTRY
    if why in _UNREAD and (shut := denied(item)):
        return f"{shut}, then {'put it again' if why == 'unproven' else 'ask again'}"
    return _WHY.get(why) or str(item.get("hint") or "")


def denied(item: dict[str, Any]) -> str:
    """What may not be read of a dependency, and the command that opens it; empty where permission is not what lacks."""
    from provd.cli.words import permissions  # noqa: PLC0415  (few answers need it)

    kind, path = names.parts(names.named(item)) if item.get("dep") is not None else (b"", b"")
    told = [local_path(path) for path in item.get("paths") or []]
    if not told and kind in names.PATH_KINDS and path.startswith(b"/"):
        told = [path]
    detail = str(item.get("detail") or "")
    shut = [permissions.closed(each) for each in told]
    places = sorted({place for place in shut if place is not None})
    if not places and permissions.are_missing(detail.removeprefix("unreadable: ")):
        places = told
    if not places:
        return ""
    named = output.some([output.name_of(place) for place in places], _FEW)
    return f"permission denied (EACCES) for {named}: {permissions.opening(places[:_FEW])}"


def uncovered(why: str) -> str:
    """What to do about a place that is not watched, where the reason alone tells; empty where it does not."""
    found = _LIMIT.search(why)
    if found is not None:
        limit = int(found[2] or 0)
        setting = found[1]
        raised = max(next(least for word, least in _LEAST.items() if word in setting), 2 * limit)
        if setting.startswith("user."):
            return f"sysctl {setting}={raised}, as root of the daemon's user namespace"
        again = ", then start provd again" if "watches" not in setting else ""
        return f"sudo sysctl {setting}={raised} (to keep it: a line in /etc/sysctl.d/){again}"
    if "table of mounts" in why:
        return "let the daemon read /proc/self/mountinfo (mount /proc where it runs), then start it again"
    return ""


def unproven(dep: Any, item: dict[str, Any]) -> str:
    """What to do about a dependency that a put kept without proof; `item` is its evidence, where there is any."""
    if item.get("why") == "namespace":  # another way of putting it would show no more
        return f"unknown (namespace): {fault(item)}"
    return fault({"dep": dep, **item, "why": "unproven"})
