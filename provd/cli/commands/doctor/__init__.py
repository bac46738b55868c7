"""What is wrong, why, and what to do: one line a check, and three a finding.

Rule: it works without a daemon, where sockets are forbidden, and where things hang. Exit: 0 all is well, 1 there is a
finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from provd import codes
from provd.cli import output, steps
from provd.cli.command import Command, connected, json_option
from provd.cli.commands.doctor import keeping, reaching, watching
from provd.cli.commands.doctor.facts import PATIENCE, gather
from provd.cli.commands.doctor.results import FAIL, NOTE, SKIPPED, Check, Checked, examine, findings_of, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.cli.command import Place
    from provd.cli.commands.doctor.results import Result

CHECKS: Final = (
    Check("config", reaching.config),
    Check("socket", reaching.socket),
    Check("namespace", reaching.namespace),
    Check("version", reaching.version),
    Check("daemons", reaching.others),
    Check("unit", reaching.unit),
    Check("state", keeping.directory),
    Check("store", keeping.store),
    Check("roots", watching.watched),
    Check("limits", watching.limits),
    Check("gaps", watching.gaps),
    Check("audits", keeping.audits),
    Check("self-check", keeping.self_check),
    Check("queue", keeping.queue),
    Check("actions", keeping.actions),
    Check("clock", keeping.clock),
    Check("descriptors", keeping.descriptors),
)
_SHOWN: Final = 20
"""Findings of one check that people see."""


@click.command(cls=Command, examples=("provd doctor", "provd doctor --json | jq -r '.findings[].next'"))
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0.05, max=600),
    default=PATIENCE,
    help=f"How long to wait for each that is asked (default {PATIENCE:g}).",
)
@json_option
@connected
def doctor(timeout: float, as_json: bool, at: Place) -> int:
    """Find what is wrong, and say what to do. Exit: 0 all is well, or only notes; 1 there is a finding."""
    checked = examine(gather(at, timeout), CHECKS)
    findings = findings_of(checked)
    if as_json:
        output.line_json(to_json(checked))
    else:
        for text in _lines(checked):
            output.line(text)
        output.line()
        output.line(summary(findings))
    return codes.FOUND if any(finding.level != NOTE for finding in findings) else 0


def summary(findings: Sequence[Result], next_step: str = "") -> str:
    """The answer in a line: all well, or how many things to look at. `next_step` says how to see them."""
    wrong = [finding for finding in findings if finding.level != NOTE]
    notes = output.count(len(findings) - len(wrong), "note", "notes") if len(findings) > len(wrong) else ""
    if not wrong:
        return output.symbol("ok", " all well") + (f", {notes}{next_step}" if notes else "")
    told = f" {output.count(len(wrong), 'thing', 'things')} to look at" + (f", {notes}" if notes else "")
    return output.symbol("fail" if any(each.level == FAIL for each in wrong) else "warn", told) + next_step


def _lines(checked: list[Checked]) -> Iterator[str]:
    skipped = [each.name for each in checked if each.level == SKIPPED]
    for each in checked:
        for result in each.results[:_SHOWN]:
            word = f"{result.level:<7}"
            yield from output.wrapped(
                f"{output.symbol(result.level, f' {word}')} {each.name:<12}", 22, output.printable(result.what)
            )
            if result.why:
                yield from output.wrapped(f"{'':<22}why: ", 27, output.printable(result.why))
            for text in steps.lines(result.next):
                yield f"{'':<22}{output.printable(text)}"
        if (more := len(each.results) - _SHOWN) > 0:
            yield f"{'':<22}and {more} more: {steps.filled('provd doctor --json')}"
    if skipped:  # last, since what is wrong is of more interest
        yield from output.wrapped(f"{output.symbol(SKIPPED, ' skipped')} ", 10, f"{', '.join(skipped)}: nobody tells")
