"""Verdicts for people, and the exit codes that stand for them.

Rule: an exit code is 0 only where the verdict is `fresh`, whatever else an answer holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import hints, output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

FRESH: Final = 0
DIRTY: Final = 1
UNKNOWN: Final = 4
_BRIEF: Final = 3
"""Dependencies at fault that a short answer names."""
_LONG: Final = 20
"""Dependencies that a long answer names."""
_DIRTY: Final = frozenset(
    {"changed", "created", "deleted", "type-changed", "listing-changed", "touched", "written"}
    | {"entry-replaced", "entry-revoked", "entry-missing", "entry-dirty"}
)


def exit_code(verdicts: Iterable[Json]) -> int:
    """Dirty if any is, else unknown if any is not fresh, or if there is none."""
    words = {str(verdict.get("verdict")) for verdict in verdicts}
    if "dirty" in words:
        return DIRTY
    return FRESH if words == {"fresh"} else UNKNOWN


def headline(verdict: Json, label: str) -> str:
    """One line: the verdict, what it is about, and why."""
    why = verdict.get("why")
    about = f"  {label}" if label else ""
    return f"{output.verdict_word(str(verdict.get('verdict')))}{about}" + (
        f"  ({output.printable(why)})" if why else ""
    )


def brief(verdict: Json) -> Iterator[str]:
    """What is at fault, a line each, the first few; not the entry itself, whose fault the headline has."""
    evidence = [item for item in verdict.get("evidence") or [] if item.get("dep") is not None]
    for item in evidence[:_BRIEF]:
        yield f"    {_dependency(item)}  {output.printable(str(item.get('why', '')))}"
    rest = len(evidence) - _BRIEF + _more(verdict)
    if rest > 0:
        yield f"    and {rest} more"


def account(verdict: Json, label: str, *, strict: bool = False) -> Iterator[str]:
    """All that an answer says, for reading. `strict`: nothing was to be read for it."""
    yield headline(verdict, label)
    facts = {
        "standing": verdict.get("standing"),
        "version": verdict.get("version"),
        "checked": verdict.get("checked"),
        "as of": verdict.get("clock"),
        "ignored": verdict.get("ignored"),
    }
    yield "  " + ", ".join(f"{name} {output.printable(str(value))}" for name, value in facts.items() if value)
    if origin := _origin(verdict):
        yield f"  {origin}"
    for item in verdict.get("evidence") or []:
        yield from _evidence(item, "  ", strict=strict)
    if more := _more(verdict):
        yield f"  and {more} more {'dependency' if more == 1 else 'dependencies'} at fault"
    yield from _ground(verdict)
    if hint := verdict.get("hint"):
        yield f"  next: {output.printable(str(hint))}"


def _origin(verdict: Json) -> str:
    """Where an entry lives, and who put it when."""
    facts = []
    if verdict.get("root") is not None:
        facts.append(f"root {output.name(verdict['root'])}")
    if verdict.get("scope") is not None:
        facts.append(f"scope {output.printable(str(verdict['scope']))}")
    if verdict.get("at") is not None:
        facts.append(f"put {output.moment(verdict['at'])}")
    if isinstance(supports := verdict.get("supports"), int) and supports > 1:
        facts.append(f"{supports} times")
    told = {"session": "session", "turn": "turn", "clock_of_entry": "clock"}
    facts += [f"{told[f]} {output.printable(str(verdict[f]))}" for f in told if verdict.get(f) is not None]
    return ", ".join(facts)


def _ground(verdict: Json) -> Iterator[str]:
    """What an entry rests on, a line each."""
    deps = verdict.get("deps")
    if not isinstance(deps, list):
        return
    yield ""
    yield "  rests on:" if deps else "  rests on nothing"
    faults = {_dependency(item): str(item.get("why")) for item in verdict.get("evidence") or []}
    whole = verdict.get("verdict") == "fresh" or not (_more(verdict) or "the entry itself" in faults)
    for item in deps[:_LONG]:
        why = faults.get(_dependency(item))
        word = "dirty" if why in _DIRTY else "fresh" if why is None and whole else "unknown"
        yield f"    {output.symbol(word)} {_dependency(item)}  {_kept(item)}".rstrip()
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
    yield f"{indent}{output.paint(_dependency(item), 'bold')}  {output.printable(str(item.get('why', '')))}"
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
        yield f"{below}because {_dependency(cause)}  {output.printable(str(cause.get('why', '')))}"
    if hint := hints.fault(item, strict=strict):
        yield f"{below}next: {output.printable(hint)}"


def _dependency(item: Json) -> str:
    return output.name(item["dep"]) if item.get("dep") is not None else "the entry itself"


def _mutation(mutation: Any) -> str:
    """A record that touched a dependency: its number, or the record as the log has it."""
    if not isinstance(mutation, dict):
        return f"record {output.printable(str(mutation))}"
    actor = mutation.get("actor") or {}
    who = ", ".join(
        f"{name} {output.printable(str(actor[name]))}"
        for name in ("session", "turn", "pid")
        if actor.get(name) is not None
    )
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


def _more(verdict: Json) -> int:
    more = verdict.get("more")
    return more if isinstance(more, int) else 0
