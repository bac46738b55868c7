"""confirm: the sources were read again, and the value still holds.

Rule: what is confirmed is the version that was fetched, or nothing: a value that somebody put meanwhile is nobody's to
bless unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from provd import codes
from provd.cli import output, steps
from provd.cli.command import (
    WORK_PATIENCE,
    Command,
    Failure,
    Usage,
)
from provd.cli.given import asking, names, sums
from provd.cli.given.exact import ExactClient
from provd.cli.words import hints, kept, nothing, verdicts
from provd.client import RpcError, local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place

Json = dict[str, Any]

_SHOWN: Final = 3
_ATTEMPTS: Final = 5
_OLDER: Final = "provd restart  # it is older than this command"


@click.command(
    cls=Command,
    examples=(
        "sha256sum src/api.py > sums       # you read src/api.py again: api still holds",
        "provd confirm api --sums sums",
        "c=$(provd clock)                  # or this, before you read it again, then",
        "provd confirm api --fetched-at $c",
        "provd confirm report --as-of-now  # the value is true of what is there now",
    ),
)
@click.argument("key", metavar="KEY")
@click.option("--sums", "summed", metavar="FILE", help="What sha256sum read of the files it rests on; - is stdin.")
@asking.putting
@asking.keyed
def confirm(
    key: str,
    summed: str | None,
    timed: Json,
    told: Json,
    where: names.Scope,
    as_json: bool,
    at: Place,
) -> int:
    """You read the sources again and the value still holds: put the same again, with what it rests on.

    Exits as check does, by the new verdict: unknown where there is no entry. Refused where another value
    was put meanwhile, and where what has no sum cannot be read.
    """
    if not timed and summed is None:
        raise Usage("nothing says when the sources were read again", hints.LOOK_AGAIN)
    read = [] if summed is None else sums.dependencies(summed)
    with at.connect(WORK_PATIENCE, ExactClient) as client:
        place = where.params(client)
        there = _stands(client, key, place)
        if there.get("why") == "no-entry":
            _print(key, {"verdict": there}, as_json)  # formed as the answer to a put
            if not as_json:
                nothing.tell_missing(client, [(key, there)], place)
            return codes.of_verdicts([there])
        version = _version(there, key, told.get("based_on"))
        again = told | {"deps": _dependencies(there, read, timed, key), "based_on": version} | timed | place
        again |= {name: there[name] for name in ("value", "meta") if name in there}
        _need_readable(client, again["deps"] or [])
        answer = _put(client, key, there, again)
    _print(key, answer, as_json)
    for warning in _warnings(answer, again):
        output.warn(*warning)
    return codes.of_verdicts([answer["verdict"]])


def _print(key: str, answer: Json, as_json: bool) -> None:
    if as_json:
        output.line_json(answer)
        return
    label = output.printable(key) + (" as it was read again" if answer.get("late") else "")
    for text in (verdicts.headline(answer["verdict"], label), *verdicts.brief(answer["verdict"])):
        output.line(text)


def _stands(client: ExactClient, key: str, place: Json) -> Json:
    """What stands, with its value and meta as they are written. Nothing is read: it is not asked if it is fresh."""
    return client.get(key, even_if=["dirty", "unknown"], deps=True, revalidate=False, **place)


def _version(there: Json, key: str, based_on: int | None) -> int:
    """The version that is confirmed; raises Failure where it is not told, or is another than was asked for."""
    version = there.get("version")
    if not isinstance(version, int):
        if there.get("why") == "damaged":
            raise Failure(f"nothing was confirmed: {key!r} is damaged in the store", hints.fault(there))
        raise Failure(f"the daemon does not tell which version of {key!r} stands", _OLDER)
    if based_on not in (None, version):  # whoever put it: it is not what is meant
        raise _refused(key, f"stands at version {version}, not {based_on}")
    return version


def _refused(key: str, what: str) -> Failure:
    hint = f"provd get {output.quoted(key)} --even-if dirty  # what stands now: confirm that if it holds"
    return Failure(f"nothing was confirmed: {key!r} {what}", hint)


def _replaced(key: str, what: str) -> Failure:
    return _refused(key, f"was put by somebody else: {what}")


def _dependencies(there: Json, read: list[Json], timed: Json, key: str) -> list[Json] | None:
    """What the entry rests on, with the digests of what was read; raises Usage where that does not say when."""
    if there["deps"] is None:
        return None
    digests = {local_path(item["dep"]): item["digest"] for item in read}
    foreign = dict.fromkeys(digests)
    told: list[Json] = []
    unsaid: list[str] = []
    for item in there["deps"]:
        name = names.named(item)
        kind, rest = names.parts(name)
        if kind in names.PATH_KINDS and not rest.startswith(b"/"):  # in another root it would be another one
            raise Failure(f"the daemon does not tell where {output.name(item['dep'])} is", _OLDER)
        wanted = names.spelled(kind + b":" + rest)
        digest = digests.get(wanted)
        foreign.pop(wanted, None)
        dep = wire_path(name)
        told.append({"dep": dep, "digest": digest} if digest else {"dep": dep})
        if digest is None and ("fetched_at" not in timed if kind in names.TIMELESS else not timed):
            unsaid.append(output.name(dep))
    if foreign:
        others = [output.name(item["dep"]) for item in read if local_path(item["dep"]) in foreign]
        raise Usage(
            f"{key!r} does not rest on {output.some(others, _SHOWN)}",
            f"provd why {output.quoted(key)}  # what it rests on: put it anew",
        )
    if unsaid:
        hint = hints.LOOK_AGAIN if timed else steps.because(hints.LOOK_AGAIN, "or give sums of all")
        raise Usage(f"nothing says when these were looked at again: {output.some(unsaid, _SHOWN)}", hint)
    return told


def _need_readable(client: ExactClient, told: list[Json]) -> None:
    """Raises Failure where the daemon cannot read what nobody gave a digest of: the entry would lose the one it has."""
    unsaid = [dep for dep in told if "digest" not in dep and names.parts(names.named(dep))[0] in names.PATH_KINDS]
    if not unsaid:
        return
    found = client.call("deps.snapshot", deps=unsaid)["digests"]
    if unread := [item for item in found if item["digest"] is None]:
        whys = [f"{output.name(item['dep'])} ({item.get('detail') or item.get('why')})" for item in unread]
        hint = hints.denied(unread[0], "then confirm again") or "see that it can be read, and rests; then confirm again"
        raise Failure(f"nothing was confirmed: it cannot be read now: {output.some(whys, _SHOWN)}", hint)


def _warnings(answer: Json, again: Json) -> Iterator[kept.Remark]:
    """What the headline does not say."""
    if again["deps"] is None and not answer.get("late"):
        yield kept.Remark(
            "nobody said what it rests on, so it stays unknown: put it anew with --sums, --dep or --no-deps"
        )
    elif answer.get("late"):
        yield kept.unconfirmed(answer)
    else:
        yield from kept.unproven(answer)


def _put(client: ExactClient, key: str, there: Json, again: Json) -> Json:
    """Puts it on top of what was fetched; raises Failure where that is not what stands any more.

    An equal value that somebody put meanwhile has the same version, and may rest on more: it goes by the entry's
    newest record. Where only that is another (it was proven, or confirmed by somebody else), it is tried again.
    """
    place: Json = {word: again[word] for word in ("root", "scope") if word in again}
    for _ in range(_ATTEMPTS):
        if "record" not in there:
            raise Failure(f"the daemon does not tell which record of {key!r} is its newest", _OLDER)
        try:
            return client.put(key, **again, based_on_record=there["record"])
        except RpcError as error:
            if error.code != "entry.conflict":
                raise
        before, there = there, _stands(client, key, place)
        again |= {"meta": there["meta"]} if "meta" in there else {}
        if there.get("version") != before["version"]:
            raise _replaced(key, f"version {before['version']} was fetched, {there.get('version')} stands")
        if _ground(there) != _ground(before):
            raise _replaced(key, "the same value, that rests on something else")
    raise _replaced(key, "again and again")


def _ground(there: Json) -> list[bytes] | None:
    """What an entry rests on, in order."""
    return None if there["deps"] is None else sorted(map(names.named, there["deps"]))
