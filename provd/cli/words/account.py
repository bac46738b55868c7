"""A verdict at length: what the entry is, what it rests on, and the evidence.

Rule: what the daemon said is told whole or counted; nothing is made of what it did not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import output, steps
from provd.cli.screens import drawing
from provd.cli.screens.drawing import Piece
from provd.cli.words import causes, hints, records, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provd.cli.words.causes import Cause

Json = dict[str, Any]

_ACTIONS: Final = {"begin": "begun", "end": "ended", "record": "declared afterwards"}
_LONG: Final = 20
"""Dependencies that a long answer names."""


def account(
    verdict: Json,
    label: str,
    faults: Sequence[Cause],
    declared: Mapping[Any, Json],
    unseen: Sequence[str],
    now: int,
    *,
    strict: bool = False,
) -> Iterator[str]:
    """All that an answer says, for reading.

    `faults`: what made each so; `declared`: the actions that were declared afterwards, by the number of the mutation
    that each explains; `unseen`: what no record that touched it made so; `now`: nanoseconds since the epoch;
    `strict`: nothing was to be read for it.
    """
    chains = {fault.name: fault for fault in faults if fault.below}
    yield verdicts.headline(verdict, label)
    facts = {
        "standing": verdict.get("standing"),
        "version": verdict.get("version"),
        "checked": None if verdict.get("why") == "no-entry" else verdict.get("checked"),  # there was nothing to check
        "as of": verdict.get("clock"),
        "ignored": verdict.get("ignored"),
    }
    yield from _facts([f"{name} {output.printable(str(value))}" for name, value in facts.items() if value])
    for item in verdict.get("evidence") or []:
        chain = chains.get(verdicts.dependency(item)) or causes.as_told(item)
        witness = [] if item.get("mutation") is None else _mutation(item["mutation"], declared, now)
        if witness and verdicts.dependency(item) in unseen:
            first, *rest = drawing.words("which did not leave what is there now")
            witness += [first._replace(glue=", "), *rest]
        yield from _evidence(item, label, chain if chain.below else None, witness, strict=strict)
    if more := verdicts.more(verdict):
        yield f"  and {more} more {'dependency' if more == 1 else 'dependencies'} at fault"
    if hint := verdict.get("hint"):
        yield from _next(str(hint), "  ")


def origin(verdict: Json) -> Iterator[str]:
    """Where an entry lives, and the clock that it was put with."""
    facts = []
    if verdict.get("root") is not None:
        facts.append(f"root {output.name(verdict['root'])}")
    if verdict.get("scope") is not None:
        facts.append(f"scope {output.printable(str(verdict['scope']))}")
    if verdict.get("clock_of_entry") is not None:
        facts.append(f"clock {output.printable(str(verdict['clock_of_entry']))}")
    if facts:
        yield from _facts(facts)


def by(verdict: Json) -> str:
    """Who put or confirmed an entry, and how often that was done."""
    facts = []
    if verdict.get("session") is not None:
        facts.append(f"by session {output.printable(str(verdict['session']))}")
    if verdict.get("turn") is not None:
        facts.append(f"turn {output.printable(str(verdict['turn']))}")
    confirms = records.number(verdict, "confirms")
    puts = records.number(verdict, "supports") - confirms
    counted = f"(put {_times(puts)}, confirmed {_times(confirms)})" if confirms else ""
    if puts > 1 and verdict.get("imported"):  # an export does not tell which of that were confirmations
        counted = f"(put or confirmed {_times(puts)})"
    elif not confirms and puts > 1:
        facts.append(_times(puts))
    return " ".join(filter(None, (", ".join(facts), counted)))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def ground(verdict: Json, indent: str) -> Iterator[str]:
    """What an entry rests on, a line each."""
    deps = verdict.get("deps")
    if not isinstance(deps, list):
        return
    yield f"{indent}rests on:" if deps else f"{indent}rests on nothing"
    faults = {verdicts.dependency(item): str(item.get("why")) for item in verdict.get("evidence") or []}
    whole = verdict.get("verdict") == "fresh" or not (verdicts.more(verdict) or "the entry itself" in faults)
    for item in deps[:_LONG]:
        why = faults.get(verdicts.dependency(item))
        word = "dirty" if why in causes.DIRTYING else "fresh" if why is None and whole else "unknown"
        pieces = [causes.dependency(item), Piece(_kept(item), glue="  ")]
        yield from drawing.fold(f"{indent}  {output.symbol(word)} ", pieces, f"{indent}    ")
    if len(deps) > _LONG:
        yield f"{indent}  and {len(deps) - _LONG} more"


def _facts(facts: list[str]) -> Iterator[str]:
    """Some facts with commas between them, none of them cut in two."""
    last = len(facts) - 1
    yield from drawing.fold("  ", [Piece(fact + ("" if at == last else ",")) for at, fact in enumerate(facts)], "  ")


def _kept(item: Json) -> str:
    """How an entry keeps a dependency."""
    if item.get("version") is not None:
        return f"version {output.printable(str(item['version']))}"
    digest = f" {output.digest(item['digest'])}" if item.get("digest") is not None else ""
    return output.printable(str(item.get("kept") or "")) + digest


def _evidence(item: Json, label: str, chain: Cause | None, witness: list[Piece], *, strict: bool) -> Iterator[str]:
    yield ""
    why = output.printable(str(item.get("why", "")))
    yield from drawing.fold("  ", [causes.dependency(item, "bold"), Piece(why, glue="  ")], "    ")
    below = "      "
    for word in ("was", "is"):
        if item.get(word) is not None:
            yield f"{below}{word:<4}{output.digest(item[word])}"
    if paths := item.get("paths"):
        yield f"{below}members that differ:"
        for path in paths:
            yield from drawing.fold(f"{below}  ", [Piece(output.name(path), elastic=True)])
    if witness:
        yield from drawing.fold(below, witness, f"{below}  ")
    if detail := item.get("detail"):
        yield from drawing.fold(below, drawing.words(output.printable(str(detail))), below)
    if chain is not None:
        yield from causes.told(label, chain, below)
    if hint := hints.fault(item, strict=strict):
        yield from _next(hint, below)


def _next(hint: str, indent: str) -> Iterator[str]:
    for text in steps.lines(hint):
        yield indent + output.printable(text)  # never folded: it is there to be pasted


def _mutation(mutation: Any, declared: Mapping[Any, Json], now: int) -> list[Piece]:
    """A record that touched a dependency: its number, or the record as the log has it."""
    told = drawing.words("touched by record")
    if not isinstance(mutation, dict):
        return [*told, Piece(output.printable(str(mutation)))]
    if mutation.get("type") == "action" and mutation.get("id") == mutation.get("seq"):
        told = drawing.words("touched by")  # its number is that of its record: it is said once
    else:
        told.append(Piece(str(mutation.get("seq", "?"))))
    if what := _what(mutation):
        told.append(Piece(output.printable(what)))
    if mutation.get("path") is not None:
        told.append(Piece(output.name(mutation["path"]), elastic=True))
    if mutation.get("at") is not None:
        age = drawing.ago(mutation["at"], now)
        told.append(Piece(f"at {output.moment(mutation['at'])}{', ' if age else ''}{age}"))
    action = declared.get(mutation.get("seq"))
    if who := records.who(mutation) if action is None else records.declared(action):
        told.append(Piece(f"({who})"))
    return told


def _what(mutation: Json) -> str:
    """What kind of record it is: `modified`, or `action 17 ended`."""
    if "kind" in mutation:
        return str(mutation["kind"])
    event = str(mutation.get("event", ""))
    words = [mutation.get("type"), mutation.get("id"), _ACTIONS.get(event, event)]
    return " ".join(str(word) for word in words if word not in {None, ""})
