"""Where nothing was found: which place was looked at, and where else it may be.

Rule: an answer that there is nothing names its place, since keys live below a root and the next directory has others.
Nothing is asked of the daemon where something was found.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

import click

from provd import hello
from provd.cli import output, steps
from provd.cli.given import looking, names
from provd.cli.given.looking import real_path
from provd.cli.words import hints, permissions
from provd.client import ProvdUnreachable, RpcError, WirePath, local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provd.client import Client

Json = dict[str, Any]

_SHOWN: Final = 3
_ASKED: Final = 20
"""Roots that are asked whether they hold entries."""
_KEEP: Final = "provd put --help  # keeps an entry here"
_USUAL: Final = "global"
"""The scope that the documents name."""


def tell_missing(client: Client, verdicts: Iterable[tuple[str, Json]], place: Json) -> None:
    """Of those of some keys that there are no entries of: where they were looked for, and what to do."""
    keys = [key for key, verdict in verdicts if verdict.get("why") == "no-entry"]
    if keys:
        found: list[str] = []
        output.note(f"no entry {output.printable(output.some(keys, _SHOWN))} in {place_of(client, place)}")
        for key in keys[:_SHOWN]:
            if there := _elsewhere(client, key, place):
                output.note(f"  {output.printable(key)} is in: {output.some(there, _SHOWN)}")
                found.append(" ".join([_asked(), output.quoted(key), there[0]]))
        unwatched = "root" in place and not _is_watched(client, local_path(place["root"]))
        gone = _gone(client) if unwatched else None
        if found and (gone is None or f"--root {permissions.quoted(gone)}" not in found[0]):
            output.advise(found[0])  # watching another directory would not find it
            return
        output.advise(_next(client, place, found or (_others(client, place) if unwatched else []) or [_listing(place)]))


def _asked() -> str:
    """The command that was asked, which finds there what it did not find here."""
    context = click.get_current_context(silent=True)
    return "provd get" if context is None else context.command_path


def _elsewhere(client: Client, key: str, place: Json) -> list[str]:
    """The options that name where else a key has an entry, watched roots and the usual scope first; none is judged."""
    first: list[Json] = [*({"root": wire_path(root)} for root in names.watched(client)), {"scope": _USUAL}]
    try:
        there = client.call("entry.places", key=key)["places"]
    except (ProvdUnreachable, RpcError):  # it was to be of help, and the answer has been given
        return []
    found = sorted(there, key=lambda other: first.index(other) if other in first else len(first))
    return [
        f"--scope {output.quoted(str(other['scope']))}"
        if "scope" in other
        else f"--root {output.quoted(_local(other['root']))}"
        for other in found
        if other != place
    ]


def _local(path: WirePath) -> str:
    return os.fsdecode(local_path(path))


def tell_empty(client: Client, place: Json, *, sifted: bool) -> None:
    """That a list has nothing: of which place it is, and which roots have entries; `sifted`: all were not asked for."""
    where = place_of(client, place)
    if sifted:  # that nothing is dirty is what one hopes for, and no news, in a place where something may be
        if "root" in place and not _is_watched(client, local_path(place["root"])):
            output.note(f"no such entries in {where}")
        return
    output.note(f"no entries in {where}")
    others = [wire_path(root) for root in names.watched(client)[:_ASKED]]
    full = [root for root in others if root != place.get("root") and _holds_any(client, root)]
    if full:
        output.note(f"  entries are in: {output.some([output.name(root) for root in full], _SHOWN)}")
    elsewhere = [f"provd ls --root {permissions.quoted(local_path(root))}" for root in full]
    output.advise(_next(client, place, elsewhere or _others(client, place) or [_KEEP]))


def tell_no_root(client: Client, place: Json) -> None:
    """Of a directory where something was put: that it is no watched one, if it is so, and what that means."""
    path = local_path(place["root"])
    real = real_path(path)
    if real in (roots := names.watched(client)):
        return
    outer, here, name = hello.holding(roots, real), hello.here() == real, output.name_of(path)
    inside = (
        f"no watched directory of its own, it lies in {output.name_of(outer)}" if outer else "in no watched directory"
    )
    output.note(
        f"{name} is {inside}: {'from elsewhere ' if here and not outer else ''}the key is found with --root only"
    )
    add = f"provd watch add {'.' if here else permissions.quoted(path)}"
    output.advise(f"{add}  # then it is found from all below" + ("" if outer else ", and the log tells what changed"))


def _holds_any(client: Client, root: WirePath) -> bool:
    return bool(client.call("entry.list", root=root, limit=1)["entries"])


def place_of(client: Client, place: Json) -> str:
    """A place of keys; of a directory that is not watched, also which are."""
    if "scope" in place:
        return f"the scope {output.printable(str(place['scope']))}"
    path = local_path(place["root"])
    if _is_watched(client, path):
        return output.name_of(path)
    there = output.some([output.name_of(root) for root in names.watched(client)], _SHOWN) or "none"
    return f"{output.name_of(path)}, which is in no watched directory; roots: {there}"


def _others(client: Client, place: Json) -> list[str]:
    """The commands that list what other watched directories have."""
    others = [root for root in names.watched(client)[:_SHOWN] if wire_path(root) != place.get("root")]
    return [f"provd ls --root {permissions.quoted(root)}  # another place" for root in others]


def _listing(place: Json) -> str:
    """The command that lists what a place of keys has, which may be the one that was meant."""
    if "scope" in place:
        listing = f"provd ls --scope {output.quoted(str(place['scope']))}"
    else:
        listing = f"provd ls --root {permissions.quoted(local_path(place['root']))}"
    return steps.because(listing, hints.LISTS)


def _next(client: Client, place: Json, elsewhere: list[str]) -> str:
    """What to try where nothing was found; `elsewhere`: the commands that show what else there is, the best first."""
    if "scope" in place:
        return steps.ways(*elsewhere[:1])
    path = local_path(place["root"])
    if _is_watched(client, path):
        return steps.ways(*elsewhere[:1])
    here = "." if hello.here() == real_path(path) else permissions.quoted(path)
    add = f"provd watch add {here}"
    gone = _gone(client)
    old = permissions.quoted(gone) if gone is not None else ""
    moved = (
        f"{add} && provd export --root {old} | provd import --as-root {here} -  # if it is {old}, which is gone, moved"
    )
    return steps.ways(moved if gone is not None else "", add, *elsewhere[:1])


def _gone(client: Client) -> bytes | None:
    """A watched directory that has entries and is not there any more: it may have been moved."""
    roots = names.watched(client)[:_ASKED]
    seen = looking.look(roots)
    gone = [root for root in roots if root in seen and seen[root].name is None]
    with contextlib.suppress(ProvdUnreachable, RpcError):  # it was to be of help, and the answer has been given
        return next((root for root in gone if _holds_any(client, wire_path(root))), None)
    return None


def _is_watched(client: Client, path: bytes) -> bool:
    """Whether a directory lies in a watched one."""
    return hello.holding(names.watched(client), real_path(path)) is not None
