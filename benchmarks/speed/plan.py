"""What one run does, and what its rows share: sizes, a place for files, trees, and the tables that come of it."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Final

from speed.figures import Ask, Table, in_turn
from speed.processes import Placement

AGE: Final = 2.5
"""Seconds after which a file is at rest: the contract's step is 2 s."""
FANOUT: Final = 10


@dataclasses.dataclass
class Plan:
    """One run: so many rounds, and in a round so many questions or so many seconds for each thing that is measured.

    `share` is of the sizes that the rows name; `scale` asks for those that take long as well. `products` is the
    directory that other products are installed in, or None.
    """

    home: str
    rounds: int
    questions: int
    seconds: float
    share: float
    scale: bool
    placements: list[Placement]
    products: str | None = None
    tables: list[Table] = dataclasses.field(default_factory=list)
    _trees: dict[int, Tree] = dataclasses.field(default_factory=dict)
    _made: int = 0

    def size(self, full: int) -> int:
        """This number at the run's share."""
        return max(1, int(full * self.share))

    def place(self, name: str) -> str:
        """A path that nobody has yet, in the run's own directory."""
        self._made += 1
        return os.path.join(self.home, f"{name}{self._made}")

    def tree(self, files: int) -> Tree:
        """A tree of about so many files, made once a run, that no row changes; it is at rest."""
        if files not in self._trees:
            self._trees[files] = Tree(self.place("tree"), files)
        self._trees[files].rest()
        return self._trees[files]

    def measure(self, asks: dict[str, Ask]) -> dict[str, list[int]]:
        """Nanoseconds of each call, by name, in rounds."""
        return in_turn(asks, self.rounds, self.questions, self.seconds)

    def tell(self, table: Table) -> None:
        """A table is done: shown at once, and kept."""
        self.tables.append(table)
        print(table, end="\n\n", flush=True)


class Tree:
    """Files of 4 KiB, some in each directory, as deep as sources lie: ROOT/src/pA/mB/dC/fD.py."""

    def __init__(self, root: str, files: int, per_directory: int = 100) -> None:
        self.root = root
        self.paths: list[str] = []
        self.directories: list[str] = []
        for number in range(max(1, files // per_directory)):
            a, b = number // FANOUT**2, number // FANOUT % FANOUT
            directory = f"{root}/src/p{a}/m{b}/d{number % FANOUT}"
            os.makedirs(directory)
            self.directories.append(directory)
            for file in range(min(files, per_directory)):
                self.paths.append(f"{directory}/f{file}.py")
                write(self.paths[-1], f"# {number} {file}\n".encode().ljust(4096, b"."))
        self.made = time.monotonic()

    def rest(self) -> None:
        """Returns when the files are old enough to be sealed."""
        time.sleep(max(0.0, self.made + AGE - time.monotonic()))


def write(path: str, content: bytes) -> None:
    """A file with this content."""
    with open(path, "wb") as file:
        file.write(content)


def machine() -> dict[str, Any]:
    """What the figures hold for."""
    load = os.getloadavg()
    uname = os.uname()
    return {"system": f"{uname.sysname} {uname.release} {uname.machine}", "cpus": os.cpu_count(), "load": load}
