"""What the daemon answers to a put, in words.

Rule: whatever makes the entry less than it seems is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from provd.cli import output
from provd.cli.command import Failure
from provd.cli.given import present
from provd.cli.words import hints, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.client import WirePath

Json = dict[str, Any]

_SHOWN: Final = 3


class Remark(NamedTuple):
    """A line of what makes an entry less than it seems, and what to do about it."""

    text: str
    hint: str = ""


def outcome(answer: Json) -> str:
    """What became of the value: its version, or that another one stands."""
    if not answer.get("late"):
        return f"version {answer['version']}"
    version, verdict = _stands(answer)
    return f"late: version {version} stands" + (f" ({verdict})" if verdict else "")


def ended(answer: Json, key: str, op: str | None) -> Failure:
    """That a retry put nothing, and that what its first try put does not stand any more."""
    stands = (answer.get("stands") or {}).get("version")
    now = f"version {stands} stands" if stands else "there is no such entry"
    message = f"nothing was put: --op {op} put version {answer['version']} of {key!r} before, and now {now}"
    step = f"provd get {output.quoted(key)}" if stands else "provd ls"
    return Failure(output.printable(message), f"{step}  # what is there; to put it anew give another --op")


def warnings(answer: Json, *, without_provenance: bool) -> Iterator[Remark]:
    """Whatever makes the entry less than it seems."""
    if answer.get("late"):
        yield Remark(_late(answer))
        return
    if without_provenance:
        yield Remark("no dependencies were given: it will be unknown (no-provenance); say --sums, --dep or --no-deps")
    yield from unproven(answer)
    verdict = answer.get("verdict")
    word = verdict.get("verdict") if isinstance(verdict, dict) else verdict
    if word not in (None, "fresh") and not without_provenance:
        why = str(verdict.get("why") or "") if isinstance(verdict, dict) else ""
        told = next((verdicts.reason(item) for item in _evidence(answer).values() if item.get("why") == why), why)
        reason = f" ({told})" if told else ""
        missing = _missing(answer)
        if missing:
            reason += f": there is no entry {output.printable(output.some(missing, _SHOWN))}"
        hint = hints.put_first(missing) if missing else f"provd why {output.quoted(str(answer.get('key', 'KEY')))}"
        yield Remark(f"it is {word} at birth{reason}", hint)


def _missing(answer: Json) -> list[str]:
    """The keys of entries that it rests on, and of which there are none."""
    return [
        name.removeprefix("entry:")
        for name, item in _evidence(answer).items()
        if item.get("why") == "entry-missing" and name.startswith("entry:")
    ]


def unproven(answer: Json) -> Iterator[Remark]:
    """The dependencies that are not there, and those that were kept without proof; what helps several is said once."""
    for dep in answer.get("absent") or []:
        yield Remark(f"absent: {_named(dep)} {present.absence(_told(dep))}")
    if more := answer.get("absent_more"):
        yield Remark(f"absent: {more} more")
    evidence = _evidence(answer)
    absent = {_named(dep): {"absent": True} for dep in answer.get("absent") or []}
    told = hints.unproven(
        [
            (dep, evidence.get(_named(dep), {}) | absent.get(_named(dep), {}))
            for dep in map(_told, answer.get("unproven") or [])
        ]
    )
    last = {hint: at for at, (_, _, hint) in enumerate(told)}
    for at, (dep, why, hint) in enumerate(told):
        name = output.name(dep)
        yield Remark(f"unproven: {name}: {why}", hint if last[hint] == at else "")
    if more := answer.get("unproven_more"):
        yield Remark(f"unproven: {more} more")


def _stands(answer: Json) -> tuple[str, str]:
    """Version and verdict of what a late put did not displace."""
    stands = answer.get("stands")
    told = stands if isinstance(stands, dict) else {"version": stands or answer.get("version")}
    return output.printable(str(told.get("version"))), output.printable(str(told.get("verdict") or ""))


def _late(answer: Json) -> str:
    version, _ = _stands(answer)
    told = f"this value was archived and provd get does not show it, since it {_why_late(answer, 'was read before')}"
    return f"{told}: version {version} stands"


def unconfirmed(answer: Json) -> Remark:
    """That a confirmation changed nothing, since it came late: the same value stands as it did."""
    version, verdict = _stands(answer)
    told = f"nothing was confirmed, since this reading {_why_late(answer, 'was before')}: version {version} stands"
    return Remark(told + (f" ({verdict})" if verdict else ""), hints.LOOK_AGAIN)


def _why_late(answer: Json, before: str) -> str:
    born = answer.get("verdict") or {}
    if isinstance(born, dict) and born.get("verdict") != "fresh":
        return f"is {born.get('verdict')} ({born.get('why')})"
    return f"{before} what stands"


def _evidence(answer: Json) -> dict[str, Json]:
    """What the verdict at birth says of dependencies, by their names."""
    verdict = answer.get("verdict")
    found = verdict.get("evidence") or [] if isinstance(verdict, dict) else []
    return {_named(item["dep"]): item for item in found if item.get("dep") is not None}


def _named(dep: Any) -> str:
    return output.name(_told(dep))


def _told(dep: Any) -> WirePath:
    """A dependency in an answer: a name, or an object that holds it."""
    told: WirePath = dep["dep"] if isinstance(dep, dict) and "dep" in dep else dep
    return told
