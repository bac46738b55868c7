"""Random work on a tree, as a process of its own: `churn.py TOP OUTSIDE SEED STEPS`.

Rule: the same arguments do the same, as far as the other process lets it; what lost a race is no error.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys


def place(choose: random.Random) -> str:
    """A path one to four levels down; few names, so that they meet."""
    return "/".join(f"d{choose.randrange(3)}" for _ in range(choose.randrange(1, 4))) + f"/f{choose.randrange(3)}"


def write(choose: random.Random, path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, choose.choice(["w", "w", "a"])) as file:
        file.write(text)


def step(choose: random.Random, outside: str, number: int) -> None:
    one, two = place(choose), place(choose)
    match choose.randrange(14):
        case 0 | 1 | 2:
            write(choose, one, str(choose.randrange(10 ** choose.randrange(1, 5))))
        case 3:
            write(choose, f"{one}.tmp", str(number))
            os.replace(f"{one}.tmp", one)
        case 4:
            os.unlink(one)
        case 5:
            os.rename(one, two)
        case 6 | 7 | 8:
            os.rename(os.path.dirname(one), os.path.dirname(two))
        case 9:  # written beside, then put in its place, as package managers do
            staging = f".staging{os.getpid()}-{number}"
            for name in ("a/f", "a/b/f", "c/f"):
                write(choose, f"{staging}/{name}", name)
            os.rename(staging, os.path.dirname(two) + choose.choice(["", "-x"]))
        case 10:
            shutil.rmtree(os.path.dirname(one))
        case 11:
            away = os.path.join(outside, f"{os.getpid()}-{number}")
            os.rename(os.path.dirname(one), away)
            write(choose, f"{away}/made outside", "x")
            os.rename(away, os.path.dirname(two))
        case 12:
            os.symlink(choose.choice(["d0", "nowhere"]), one)
        case _:  # two directories change places by way of a third name
            middle = f"middle{os.getpid()}"
            os.rename(os.path.dirname(one), middle)
            with contextlib.suppress(OSError):
                os.rename(os.path.dirname(two), os.path.dirname(one))
            os.rename(middle, os.path.dirname(two))


def main() -> None:
    top, outside, seed, steps = sys.argv[1:]
    os.chdir(top)
    choose = random.Random(int(seed))
    for number in range(int(steps)):
        with contextlib.suppress(OSError, shutil.Error):
            step(choose, outside, number)


if __name__ == "__main__":
    main()
