"""A verdict at length: what the entry is, what it rests on, and the evidence.

Rule: what the daemon said is told whole or counted; nothing is made of what it did not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import hints, output, records, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_LONG: Final = 20
"""Dependencies that a long answer names."""
_DIRTY: Final = frozenset(
    {"changed", "created", "deleted", "type-changed", "listing-changed", "touched", "written"}
    | {"entry-replaced", "entry-revoked", "entry-missing", "entry-dirty"}
)


def account(verdict: Json, label: str, *, strict: bool = False) -> Iterator[str]:
    """All that an answer says, for reading. `strict`: nothing was to be read for it."""
    yield verdicts.headline(verdict, label)
    facts = {
        "standing": verdict.get("standing"),
        "version": verdict.get("version"),
        "checked": verdict.get("checked"),
        "as of": verdict.get("clock"),
        "ignored": verdict.get("ignored"),
    }
    yield "  " + ", ".join(f"{name} {output.printable(str(value))}" for name, value in facts.items() if value)
    for item in verdict.get("evidence") or []:
        yield from _evidence(item, "  ", strict=strict)
    if more := verdicts.more(verdict):
        yield f"  and {more} more {'dependency' if more == 1 else 'dependencies'} at fault"
    if hint := verdict.get("hint"):
        yield f"  next: {output.printable(str(hint))}"


def origin(verdict: Json) -> str:
    """Where an entry lives, and who put it when."""
    facts = []
    if verdict.get("root") is not None:
        facts.append(f"root {output.name(verdict['root'])}")
    if verdict.get("scope") is not None:
        facts.append(f"scope {output.printable(str(verdict['scope']))}")
    session = "" if verdict.get("session") is None else f" by session {output.printable(str(verdict['session']))}"
    if verdict.get("at") is not None or session:
        at = "" if verdict.get("at") is None else f" {output.moment(verdict['at'])}"
        facts.append(f"put{at}{session}")
    if verdict.get("turn") is not None:
        facts.append(f"turn {output.printable(str(verdict['turn']))}")
    if isinstance(supports := verdict.get("supports"), int) and supports > 1:
        facts.append(f"{supports} times")
    if verdict.get("clock_of_entry") is not None:
        facts.append(f"clock {output.printable(str(verdict['clock_of_entry']))}")
    return ", ".join(facts)


def ground(verdict: Json) -> Iterator[str]:
    """What an entry rests on, a line each."""
    deps = verdict.get("deps")
    if not isinstance(deps, list):
        return
    yield ""
    yield "  rests on:" if deps else "  rests on nothing"
    faults = {verdicts.dependency(item): str(item.get("why")) for item in verdict.get("evidence") or []}
    whole = verdict.get("verdict") == "fresh" or not (verdicts.more(verdict) or "the entry itself" in faults)
    for item in deps[:_LONG]:
        why = faults.get(verdicts.dependency(item))
        word = "dirty" if why in _DIRTY else "fresh" if why is None and whole else "unknown"
        yield f"    {output.symbol(word)} {verdicts.dependency(item)}  {_kept(item)}".rstrip()
    if len(deps) > _LONG:
        yield f"    and {len(deps) - _LONG} more"


def _kept(item: Json) -> str:
    """How an entry keeps a dependency."""
    if item.get("version") is not None:
        return f"version {output.printable(str(item['version']))}"
    digest = f" {output.digest(item['digest'])}" if item.get("digest") is not None else ""
    return output.printable(str(item.get("kept") or "")) + digest


def _evidence(item: Json, indent: str, *, strict: bool) -> Iterator[str]:
    yield ""
    yield f"{indent}{output.paint(verdicts.dependency(item), 'bold')}  {output.printable(str(item.get('why', '')))}"
    below = indent + "    "
    for word in ("was", "is"):
        if item.get(word) is not None:
            yield f"{below}{word:<4}{output.digest(item[word])}"
    if paths := item.get("paths"):
        yield f"{below}members that differ:"
        yield from (f"{below}  {output.name(path)}" for path in paths)
    if (mutation := item.get("mutation")) is not None:
        yield f"{below}touched by {_mutation(mutation)}"
    if detail := item.get("detail"):
        yield f"{below}{output.printable(str(detail))}"
    for cause in item.get("because") or []:
        yield f"{below}because {verdicts.dependency(cause)}  {output.printable(str(cause.get('why', '')))}"
    if hint := hints.fault(item, strict=strict):
        yield f"{below}next: {output.printable(hint)}"


def _mutation(mutation: Any) -> str:
    """A record that touched a dependency: its number, or the record as the log has it."""
    if not isinstance(mutation, dict):
        return f"record {output.printable(str(mutation))}"
    who = records.who(mutation)
    words = [
        f"record {mutation.get('seq', '?')}",
        output.printable(_what(mutation)),
    ]
    if mutation.get("path") is not None:
        words.append(output.name(mutation["path"]))
    if mutation.get("at") is not None:
        words.append(f"at {output.moment(mutation['at'])}")
    return " ".join(word for word in words if word) + (f" ({who})" if who else "")


def _what(mutation: Json) -> str:
    """What kind of record it is: `modified`, or `action 17 end`."""
    if "kind" in mutation:
        return str(mutation["kind"])
    return " ".join(str(mutation[word]) for word in ("type", "id", "event") if word in mutation)
