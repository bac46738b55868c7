"""The table of a run: mutation kind by dependency kind, and what was answered in each cell.

Rule: a question counts once, in the cell of the newest mutation that touched one of its entry's dependencies, or an
alias of one, since it was last found fresh or put; else among the untouched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS: Final = ("file", "absent", "dir", "names", "glob", "tree", "object", "entry")
"""The columns. `absent` is a file that was not there when the entry was put."""
ENOUGH: Final = 100
FALSE_DIRTY_AT_MOST: Final = 0.001
NEEDLESS_AT_MOST: Final = 0.005
UNTOUCHED: Final = "(untouched)"


class Finding(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    FALSE_FRESH = "false fresh"
    FALSE_DIRTY = "false dirty"
    NEEDLESS = "needless"
    WRONG_EVIDENCE = "wrong evidence"


_COLUMNS: Final = ("asked", "fresh", "dirty", "unknown", *(each.value for each in Finding if each != Finding.RIGHT))


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
        """All cells that can be, those with the fewest questions first."""
        return sorted(
            (self.asked(mutation, kind), mutation, kind) for mutation, kinds in self._reach.items() for kind in kinds
        )

    def faults(self) -> list[str]:
        """What the whole of it must not be: each a line."""
        asked = max(self.total["asked"], 1)
        told = [f"{self.total[each]} {each}" for each in (Finding.FALSE_FRESH, Finding.WRONG_EVIDENCE)]
        told = [each for each in told if not each.startswith("0 ")]
        for each, most in ((Finding.FALSE_DIRTY, FALSE_DIRTY_AT_MOST), (Finding.NEEDLESS, NEEDLESS_AT_MOST)):
            if self.total[each] > most * asked:
                told.append(f"{self.total[each]} {each} of {asked}: more than {most:.1%}")
        return told

    def text(self) -> str:
        """The table, its totals, and its thin cells."""
        head = ("mutation", "dependency", *_COLUMNS)
        rows = [(*cell, *(str(counter[column]) for column in _COLUMNS)) for cell, counter in sorted(self.cells.items())]
        rows.append(("total", "", *(str(self.total[column]) for column in _COLUMNS)))
        widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
        lines = ["  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)) for row in (head, *rows)]
        thin = [f"  {mutation} / {kind}: {count}" for count, mutation, kind in self.thin() if count < ENOUGH]
        asked = self.total["asked"]
        share = self.total["after a mutation"] / max(asked, 1)
        lines.append(f"{share:.1%} of {asked} questions came after a mutation of what they rest on")
        lines.append(f"cells under {ENOUGH}: {len(thin)}")
        return "\n".join(line.rstrip() for line in [*lines, *thin])
