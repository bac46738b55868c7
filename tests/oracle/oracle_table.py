"""The table of a run: mutation kind by dependency kind, and what was answered in each cell.

Rule: a question counts once, in the cell of the newest mutation that touched one of its entry's dependencies, or an
alias of one, since it was last found fresh or put; else among the untouched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS: Final = ("file", "absent", "dir", "names", "glob", "tree", "object", "entry")
"""The columns. `absent` is a file that was not there when the entry was put."""
ENOUGH: Final = 100
"""How many questions a cell has to have,"""
QUESTIONS: Final = 1_000_000
"""a complete run,"""
AFTER_MUTATION: Final = 0.5
"""and which share of them is to come after a mutation of what they rest on."""
FALSE_DIRTY_UNDER: Final = 0.001
NEEDLESS_UNDER: Final = 0.005
UNTOUCHED: Final = "(untouched)"


class Finding(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    FALSE_FRESH = "false fresh"
    FALSE_DIRTY = "false dirty"
    NEEDLESS = "needless"
    WRONG_EVIDENCE = "wrong evidence"


_COLUMNS: Final = ("asked", "fresh", "dirty", "unknown", *(each.value for each in Finding if each != Finding.RIGHT))


class Condition(NamedTuple):
    """Something that a run is to meet. `amount`: only a complete one can."""

    held: bool
    words: str
    amount: bool = False


class Table:
    """Counts. `reach` has each kind of mutation with the columns that it can touch."""

    def __init__(self, reach: Mapping[str, Iterable[str]]) -> None:
        self._reach = {name: tuple(kinds) for name, kinds in reach.items()}
        self.cells: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.total: Counter[str] = Counter()

    def count(self, mutation: str, kind: str, verdict: str, finding: Finding) -> None:
        """One answer."""
        for counter in (self.cells[mutation, kind], self.total):
            counter["asked"] += 1
            counter[verdict] += 1
            if finding is not Finding.RIGHT:
                counter[finding] += 1
        self.total["after a mutation"] += mutation != UNTOUCHED

    def asked(self, mutation: str, kind: str) -> int:
        """How many questions this cell has."""
        return self.cells[mutation, kind]["asked"] if (mutation, kind) in self.cells else 0

    def wanted(self, mutation: str) -> int:
        """How many the thinnest cell of a row has."""
        return min((self.asked(mutation, kind) for kind in self._reach[mutation]), default=0)

    def thin(self) -> list[tuple[int, str, str]]:
        """Cells with fewer than enough questions, of those that can be and those that were: the thinnest first."""
        cells = {(mutation, kind) for mutation, kinds in self._reach.items() for kind in kinds}
        cells |= {cell for cell in self.cells if cell[0] != UNTOUCHED}
        return sorted((self.asked(*cell), *cell) for cell in cells if self.asked(*cell) < ENOUGH)

    def thinnest(self, mutation: str) -> str:
        """The column of a row that was asked about least."""
        return min(self._reach[mutation], key=lambda kind: self.asked(mutation, kind))

    def conditions(self) -> list[Condition]:
        """What a run is to meet, and whether this one did."""
        asked, total = self.total["asked"], self.total
        share, thin = total["after a mutation"] / max(asked, 1), len(self.thin())
        return [
            Condition(asked >= QUESTIONS, f"{asked} questions; at least {QUESTIONS}", amount=True),
            Condition(
                share >= AFTER_MUTATION,
                f"{share:.1%} of them after a mutation of what they rest on; at least {AFTER_MUTATION:.0%}",
                amount=True,
            ),
            Condition(not thin, f"{thin} cells under {ENOUGH}; none", amount=True),
            *(
                Condition(not total[each], f"{total[each]} {each}; none")
                for each in (Finding.FALSE_FRESH, Finding.WRONG_EVIDENCE)
            ),
            self._rare(Finding.FALSE_DIRTY, FALSE_DIRTY_UNDER),
            self._rare(Finding.NEEDLESS, NEEDLESS_UNDER),
        ]

    def _rare(self, finding: Finding, under: float) -> Condition:
        found, asked = self.total[finding], self.total["asked"]
        held = not found or found < under * asked
        return Condition(held, f"{found} {finding}, {found / max(asked, 1):.3%}; under {under:.1%}")

    def faults(self) -> list[str]:
        """Which answers were not as they must be, in a run of any length: each a line."""
        return [each.words for each in self.conditions() if not each.held and not each.amount]

    def text(self) -> str:
        """The table, its totals, and its thin cells."""
        head = ("mutation", "dependency", *_COLUMNS)
        rows = [(*cell, *(str(counter[column]) for column in _COLUMNS)) for cell, counter in sorted(self.cells.items())]
        rows.append(("total", "", *(str(self.total[column]) for column in _COLUMNS)))
        widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
        lines = ["  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)) for row in (head, *rows)]
        thin = [f"  {mutation} / {kind}: {count}" for count, mutation, kind in self.thin()]
        lines.append(f"cells under {ENOUGH}: {len(thin)}")
        return "\n".join(line.rstrip() for line in [*lines, *thin])


def told(conditions: Iterable[Condition], *, complete: bool) -> tuple[str, bool]:
    """Each condition as a line that says whether it held, and whether none failed that had to hold."""
    lines, right = [], True
    for each in conditions:
        needed = complete or not each.amount
        right = right and (each.held or not needed)
        lines.append(
            f"{'held' if each.held else 'NOT HELD' if needed else 'not held, nor asked of this run'}: {each.words}"
        )
    return "\n".join(lines), right
