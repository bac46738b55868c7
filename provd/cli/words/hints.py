"""What to do next, in the words of the command line.

Rule: the daemon's hints speak of the wire. Where they name its fields, this table speaks of options instead; every
other hint is handed on as it came.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output, steps
from provd.cli.given import names
from provd.cli.words import permissions
from provd.client import RpcError, local_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provd.client import WirePath

TAKE_CLOCK: Final = "c=$(provd clock)  # before it is read, then --fetched-at $c; for files --sums needs no clock"
LOOK_AGAIN: Final = "c=$(provd clock)  # then look again, and --fetched-at $c"
OWN_DAEMON: Final = "provd start --state DIR  # runs one in here, on a state of its own"
LISTS: Final = "the keys that are there; provd put keeps another"
"""What `provd ls` is good for where there is no entry of a key."""
_VERSIONS: Final = "provd version  # the daemon is of another version than this command\nprovd restart  # ends that"
_REFUSED: Final = {
    "-32601": _VERSIONS,  # no such method
    "clock.missing": TAKE_CLOCK,
    "method": _VERSIONS,
    "root.ambiguous": "provd watch ls  # lists the roots: --root DIR, or --scope NAME for what belongs to no directory",
    "root.missing": "provd watch ls  # lists the roots: name a directory that exists",
    "action.stale": "c=$(provd clock)  # look again, put the entries anew with --fetched-at $c, then begin",
}
_HELP: Final = {
    "clock": "provd help clocks",
    "dep": "provd help dependencies",
    "version": "provd version",
}
"""What tells more, by the first word of an error's code."""
_ASKED: Final = frozenset(("action", "entry", "limit", "params", "request", "root"))
"""What is about how it was asked."""
_UNDECLARED: Final = "the objects named in --write count as unknown until they are looked at again"

_NOTHING_STANDS: Final = "provd put --help  # --based-on 0 says that there is nothing yet"
_CLOCK: Final = "c=$(provd clock)"
_NEXT: Final = {  # by why, where the daemon's hint needs no other words than its own
    **dict.fromkeys(("changed", "created", "deleted", "type-changed", "listing-changed"), _CLOCK),
    **dict.fromkeys(("written", "gap", "entry-replaced", "entry-revoked"), _CLOCK),
    "moving": "provd check KEY",
    "namespace": "provd start --state DIR",
}
_PUT_ANEW: Final = "provd put --help  # put it anew"
_WHY: Final = {
    "no-entry": "",  # `nothing` says where it is looked for, and leads on from there
    "touched": f"{_CLOCK}  # it was written since the last one: read it again and put it anew, with --fetched-at $c",
    "timeout": "provd check KEY --timeout-ms 60000  # or depend on something smaller",
    "no-provenance": f"{_PUT_ANEW}, with what it rests on: --sums or --dep; --no-deps: on nothing",
    "damaged": "provd forget KEY  # then put it anew: what the store held of it cannot be read any more",
    "no-active": f"{_PUT_ANEW}: none of its values is active",
}
_UNPROVEN_ENTRY: Final = (
    "c=$(provd clock)  # then get that entry, since its version is not known, and put with --fetched-at $c"
)
_UNPROVEN_UNREAD: Final = "provd check KEY  # nothing was read: ask without --no-revalidate"
_READING: Final = "without revalidate: false"
"""What the daemon's words on a touch have where a digest is kept, which a question that reads would compare."""
_SPECIAL: Final = "a special file"
"""How the daemon's words on what is never opened begin."""
_NEVER: Final = "provd help dependencies  # what rests on that is never fresh: depend on what has content"
_UNREAD: Final = frozenset({"unproven", "unreadable"})
_ENTRY: Final = frozenset({"entry-missing", "entry-dirty", "entry-unknown"})
_OPEN: Final = re.compile(r"end action (\d+), ")
"""How the daemon says that a write goes on."""
_OR_FORGET: Final = ", or forget it"
"""How the daemon's hints name the other way out."""
_SPENT: Final = " after that clock was taken"
"""How the daemon's words on a clock that shows nothing any more end."""
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
        hint = f"provd get KEY  # what stands; then put with --based-on {stands}" if stands else _NOTHING_STANDS
    return message, hint


def help_on(code: str) -> str:
    """The command that tells more about an error of the daemon's; empty where that is the command's own help."""
    word = code.partition(".")[0]
    return _HELP.get(word, "" if word in _ASKED else steps.MORE)


def fault(item: dict[str, Any], *, strict: bool = False) -> str:
    """What to do next about one item of evidence. `strict`: the question was asked with --no-revalidate."""
    why = str(item.get("why", ""))
    if why == "unproven" and strict:
        return _UNPROVEN_UNREAD
    if why == "touched" and strict and _READING in str(item.get("hint")):
        return steps.because(_WHY[why], "or ask without --no-revalidate")
    if why == "unproven" and str(item.get("dep")).startswith("entry:"):
        return _UNPROVEN_ENTRY
    if why in _UNREAD and (shut := denied(item, f"then {'put it again' if why == 'unproven' else 'ask again'}")):
        return shut
    if why == "unreadable" and (look := _unreadable(item)):
        return look
    if why == "unproven":
        return unproven_again([item])
    if why in _WHY:
        return _WHY[why]
    told = str(item.get("hint") or "")
    if why == "written" and (begun := _OPEN.match(told)) is not None:
        return steps.because(f"provd action end {begun[1]}", told[begun.end() :])
    if why in _ENTRY and str(item.get("dep")).startswith("entry:"):
        key = str(item["dep"]).removeprefix("entry:")
        if why == "entry-missing":
            return put_first([key])
        return steps.pasteable(told, f"provd why {output.quoted(key)}")
    command = _NEXT.get(why, steps.MORE)
    if command == _CLOCK and told:
        anew, forget, _ = told.partition(_OR_FORGET)  # that needs no clock
        told = f"{anew}, with --fetched-at $c{forget}"
    return steps.pasteable(told, command)


def spent(items: Iterable[dict[str, Any]]) -> str:
    """What happened after the clock was taken, so that it shows nothing any more; empty where that is not told."""
    told = (str(item.get("detail") or "") for item in items if item.get("why") == "unproven")
    return next((detail for detail in told if detail.endswith(_SPENT)), "")


def put_first(keys: Sequence[str]) -> str:
    """What to do where an entry rests on others, of which there are none under these keys."""
    return f"provd ls  # the keys that are there: put {output.printable(output.some(list(keys), _FEW))} first"


def _unreadable(item: dict[str, Any]) -> str:
    """What to do about a path that cannot be read, and not for permission; empty where none is named."""
    kind, path = names.parts(names.named(item)) if item.get("dep") is not None else (b"", b"")
    if str(item.get("detail") or "").startswith(_SPECIAL):
        return _NEVER
    if kind not in names.PATH_KINDS - names.PATTERN_KINDS or not path.startswith(b"/"):
        return ""
    return steps.because(f"ls -ld {permissions.quoted(path)}", str(item.get("hint") or "what is there"))


def unproven_again(items: Sequence[dict[str, Any]], then: str = "put") -> str:
    """What to do about dependencies that nothing shows, all at once: files have sums, of the rest a clock tells.

    `then`: what is done with them afterwards, `put` or `ask`. An item that is `absent` has no sum.
    """
    told = [names.parts(names.named(item)) if item.get("dep") is not None else (b"", b"") for item in items]
    files = [permissions.quoted(path) for kind, path in told if kind == b"file"]
    if len(files) < len(told) or len(files) > _NAMED or any(item.get("absent") for item in items):
        timeless = any(kind in names.TIMELESS for kind, _ in told)
        now = "" if timeless or then != "put" else ", or --as-of-now"
        return f"{_CLOCK}  # before it is read again; then {then} with --fetched-at $c{now}"
    now = ", or --as-of-now" if then == "put" else ""
    return f's=$(sha256sum {" ".join(files)})  # before it is read again; then {then} with --sums - <<< "$s"{now}'


def denied(item: dict[str, Any], then: str) -> str:
    """The command that opens what may not be read of a dependency, and `then`; empty where permission does not lack."""
    kind, path = names.parts(names.named(item)) if item.get("dep") is not None else (b"", b"")
    told = [local_path(path) for path in item.get("paths") or []]
    if not told and kind in names.PATH_KINDS and path.startswith(b"/"):
        told = [path]
    detail = str(item.get("detail") or "")
    places = permissions.closed(told)
    if not places and permissions.are_missing(detail.removeprefix("unreadable: ")):
        places = told
    if not places:
        return ""
    named = output.some([output.name_of(place) for place in places], _FEW)
    return steps.because(permissions.opening(places[:_FEW]), f"permission denied (EACCES) for {named}; {then}")


def uncovered(why: str) -> str:
    """What to do about a place that is not watched, where the reason alone tells; empty where it does not."""
    found = _LIMIT.search(why)
    if found is not None:
        limit = int(found[2] or 0)
        setting = found[1]
        raised = max(next(least for word, least in _LEAST.items() if word in setting), 2 * limit)
        if setting.startswith("user."):
            return f"sysctl {setting}={raised}  # as root of the daemon's user namespace"
        again = "" if "watches" in setting else " && provd restart"
        raise_it = f"sudo sysctl {setting}={raised}{again}  # to keep it: a line in /etc/sysctl.d/"
        if (other := why.partition(" or ")[2].split(" ")[0]).startswith("user."):
            return steps.ways(
                raise_it, f"sudo sysctl {other}={raised}  # where a user namespace above is what limits it"
            )
        return raise_it
    if "table of mounts" in why:
        return "ls /proc/self/mountinfo  # let the daemon read it (mount /proc where it runs), then start it again"
    return ""


def unproven(deps: Sequence[tuple[WirePath, dict[str, Any]]]) -> list[tuple[WirePath, str, str]]:
    """Why a put kept each dependency without proof, and what to do: one hint for all that are read again at once.

    With each is its evidence, {} where there is none.
    """
    items = [{"dep": dep, **item, "why": "unproven"} for dep, item in deps]
    hinted = [
        fault(item if told.get("why") != "namespace" else told) for item, (_, told) in zip(items, deps, strict=True)
    ]
    plain = [item for item, hint in zip(items, hinted, strict=True) if hint == unproven_again([item])]
    again = unproven_again(plain)
    return [
        (dep, "unknown (namespace)", hint)  # another way of putting it would show no more
        if told.get("why") == "namespace"
        else (dep, spent([item]) or "nothing shows what was read", again if item in plain else hint)
        for item, hint, (dep, told) in zip(items, hinted, deps, strict=True)
    ]
