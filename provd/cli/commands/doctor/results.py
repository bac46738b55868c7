"""What a check says: all is well, or a finding with what, why and the next command.

Rule: a check is a pure function of facts. One that says nothing had nothing to look at; one that fails is a finding
itself, so that the others are heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from provd.cli import steps

if TYPE_CHECKING:
    from provd.cli.commands.doctor.facts import Facts

OK: Final = "ok"
NOTE: Final = "note"
WARN: Final = "warn"
FAIL: Final = "fail"
SKIPPED: Final = "skipped"
_ORDER: Final = (SKIPPED, OK, NOTE, WARN, FAIL)


@dataclass(frozen=True)
class Result:
    """One line of a check. `code` is the finding's stable name (`socket.stale`), empty where all is well."""

    level: str
    what: str
    code: str = ""
    why: str = ""
    next: str = ""


class Check(NamedTuple):
    """A name that people see, and what looks."""

    name: str
    look: Callable[[Facts], Iterable[Result]]


@dataclass(frozen=True)
class Checked:
    """A check that was made: the worst level of its results, and those."""

    name: str
    results: tuple[Result, ...]

    @property
    def level(self) -> str:
        """`ok`, `note`, `warn`, `fail`, or `skipped` where there was nothing to look at."""
        return max((result.level for result in self.results), key=_ORDER.index, default=SKIPPED)

    @property
    def findings(self) -> list[Result]:
        """What is not well."""
        return [result for result in self.results if result.level in {NOTE, WARN, FAIL}]


def ok(what: str) -> Result:
    """All is well, in words."""
    return Result(OK, what)


def note(code: str, what: str, why: str = "", next: str = "") -> Result:  # noqa: A002  as the wire calls it
    """It is as it can be here, and somebody may want to know."""
    return Result(NOTE, what, code, why, next)


def warn(code: str, what: str, why: str = "", next: str = "") -> Result:  # noqa: A002  as the wire calls it
    """It works, and somebody should look at it."""
    return Result(WARN, what, code, why, next)


def fail(code: str, what: str, why: str = "", next: str = "") -> Result:  # noqa: A002
    """Something does not work."""
    return Result(FAIL, what, code, why, next)


def examine(facts: Facts, checks: Sequence[Check]) -> list[Checked]:
    """Makes the checks, in their order; never raises."""
    return [Checked(check.name, tuple(_looked(check, facts))) for check in checks]


def _looked(check: Check, facts: Facts) -> Iterator[Result]:
    try:
        yield from check.look(facts)
    except Exception as error:  # noqa: BLE001  whatever it is, the other checks go on
        why = f"{type(error).__name__}: {error}"
        yield fail(
            "internal",
            f"the check {check.name!r} failed itself",
            why,
            "provd version  # please report it with this line",
        )


def findings_of(checked: Iterable[Checked]) -> list[Result]:
    """All findings, in the order of the checks."""
    return [finding for each in checked for finding in each.findings]


def to_json(checked: Sequence[Checked]) -> dict[str, Any]:
    """`{findings: [{check, level, code, what, why, next}], checks: [{check, level, what}]}`."""
    found = [
        {
            "check": each.name,
            "level": result.level,
            "code": result.code,
            "what": result.what,
            "why": result.why,
            "next": steps.filled(result.next),
        }
        for each in checked
        for result in each.findings
    ]
    made = [
        {"check": each.name, "level": each.level, "what": "; ".join(result.what for result in each.results)}
        for each in checked
    ]
    return {"findings": found, "checks": made}
