"""`python -m tests.injected.injections [--sites N] [--seed S]`: each await and each call of the daemon fails once.

Each scene is played once to learn which sites it passes; then once for each of those that no scene before it passes,
and each error that it can raise. Sites that are passed while the daemon starts or ends fail there. Prints what came of
it. Exit status: 0, or 1 where an answer was false, a client waited for ever, something acknowledged was lost, or the
log was silent. `--list` says of each site that nothing passes why (`injected_apart`); status 1 where that is not known.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from random import Random, SystemRandom
from typing import TYPE_CHECKING, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, TESTS, os.path.join(TESTS, "oracle"), os.path.dirname(TESTS)]

from injected_apart import unexplained  # noqa: E402
from injected_scenes import SCENES  # noqa: E402
from injected_trial import Trial  # noqa: E402
from oracle_confined import enter, inside  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from injected_scene import Scene

_ERRORS = {
    "os": ("os", "memory"),
    "lmdb": ("lmdb", "memory"),
    "await": ("runtime", "os"),
    "thread": ("runtime",),
    "memory": ("memory",),
}
"""What each kind of site can raise."""
WHEN = ("start", "play", "stop")


class Failure(NamedTuple):
    """What is to fail: in which scene, when, where, how, and how often the site is passed there."""

    scene: int
    when: str
    site: str
    error: str
    times: int


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.injected.injections", description="each call fails once")
    options.add_argument("--sites", type=int, help="as many failures, drawn at random (all)")
    options.add_argument("--when", choices=(*WHEN, "all"), default="all", help="(%(default)s)")
    options.add_argument("--scenes", nargs="+", help="only these: " + " ".join(kind.__name__ for kind in SCENES))
    options.add_argument("--after", nargs="+", default=[], help="not the sites that these scenes pass")
    options.add_argument("--list", action="store_true", help="only play each scene, and name the sites never passed")
    options.add_argument("--only", default="", help="the sites whose name has this")
    options.add_argument("--part", default="1/1", help="of so many parts this one, as 2/5 (%(default)s)")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    given = options.parse_args()
    if not inside():
        enter("tests.injected.injections", sys.argv[1:])
    kinds = [kind for kind in SCENES if not given.scenes or kind.__name__ in {*given.scenes, *given.after}]
    kinds = [kind for kind in kinds if inside() or not kind.mounts]
    os.environ["INJECTED_CACHE"] = cache = tempfile.mkdtemp(prefix="provd-", dir="/tmp")
    random, out = Random(given.seed), sys.stdout.write
    run = Run(kinds, frozenset(given.after))
    try:
        run.learn()
        out("; ".join(f"{len(run.passed[when])} sites passed in a {when}" for when in WHEN))
        out(f"; {len(run.known)} known\n")
        if given.list:
            return _listed(run.known, run.never)
        plan = [each for each in run.plan if given.only in each.site and given.when in {each.when, "all"}]
        if given.sites:
            plan = random.sample(plan, min(given.sites, len(plan)))
            plan.sort(key=lambda each: each.scene)
        part, parts = map(int, given.part.split("/"))
        plan = plan[part - 1 :: parts]
        out(f"{len(plan)} failures to come\n")
        with contextlib.suppress(KeyboardInterrupt):
            run.fail(plan, random)
    finally:
        run.close()
        shutil.rmtree(cache, ignore_errors=True)
    counts: Counter[str] = sum((trial.counts for trial in run.trials), Counter())
    out(f"{len(run.never)} never passed; {run.done} of {len(plan)} failures, {run.found} findings, seed {given.seed}\n")
    out(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) + "\n")
    return 1 if run.found or run.done < len(plan) else 0


class Run:
    """Scenes of some kinds. Of those `after` which others are to be failed no site is failed."""

    def __init__(self, kinds: Sequence[type[Scene]], after: Collection[str]) -> None:
        self.trials = [Trial(kind) for kind in kinds]
        self.plan: list[Failure] = []
        self.known: set[str] = set()
        self.passed: dict[str, set[str]] = {when: set() for when in WHEN}
        self.done = self.found = 0
        self._after = after

    @property
    def never(self) -> set[str]:
        """The sites that nothing passes."""
        return self.known.difference(*self.passed.values())

    def learn(self) -> None:
        """Plays each scene, and plans the failures."""
        for number, trial in enumerate(self.trials):
            for when, sites in trial.passed().items():
                new = {site: count for site, count in sites.items() if site not in self.passed[when]}
                self.passed[when] |= new.keys()
                if trial.kind.__name__ not in self._after:
                    self.plan += [
                        Failure(number, when, site, error, count)
                        for site, count in new.items()
                        for error in _ERRORS[site.rpartition(":")[2]]
                    ]
            self.known |= trial.known

    def fail(self, plan: Sequence[Failure], random: Random) -> None:
        """Has one after another fail, and prints what is found."""
        for each in plan:
            self.done += 1
            trial = self.trials[each.scene]
            trial.fail(each.when, each.site, each.error, random.choice((1, 1, random.randint(1, each.times))))
            self.found += len(trial.found)
            sys.stdout.write("".join(f"{found}\n" for found in trial.found))
            trial.found.clear()
            sys.stdout.flush()

    def close(self) -> None:
        """Ends all daemons."""
        for trial in self.trials:
            trial.close()


def _listed(known: set[str], never: set[str]) -> int:
    """Says why sites are never passed; 1 where nobody knows."""
    why, unknown, gone = unexplained(known, never, mounts=inside())
    out = sys.stdout.write
    for reason, sites in why.items():
        out(f"{len(sites)}: {reason}\n" + "".join(f"    {site}\n" for site in sites))
    out("".join(f"nothing passes it, and nobody says why: {site}\n" for site in unknown))
    out("".join(f"it is explained, and is not there: {name}\n" for name in gone))
    return 1 if unknown or gone else 0


if __name__ == "__main__":
    sys.exit(main())
