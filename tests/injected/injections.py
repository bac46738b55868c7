"""`python -m tests.injected.injections [--sites N] [--seed S]`: each await and each call of the daemon fails once.

A scene is played once to learn which sites it passes; then once for each of them and each error that it can raise.
Sites that are passed while the daemon starts fail there. Prints what came of it. Exit status: 0, or 1 where an answer
was false, a client waited for ever, something acknowledged was lost, or the log was silent.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from random import Random, SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, TESTS, os.path.dirname(TESTS)]

from injected_scene import Fault, Injected, Scene  # noqa: E402
from support import RpcError, StartError  # noqa: E402

_ERRORS = {
    "os": ("os", "memory"),
    "lmdb": ("lmdb", "memory"),
    "await": ("runtime", "os"),
    "thread": ("runtime",),
    "memory": ("memory",),
}
"""What each kind of site can raise."""


class Trial:
    """Daemons that fail, one scene after the other."""

    def __init__(self) -> None:
        self.daemon = Injected()
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []
        self.known: list[str] = []
        """All sites, passed or not."""
        self._number = 0

    def passed(self) -> tuple[dict[str, int], dict[str, int]]:
        """How often each site is passed while it starts, and while a scene is played."""
        self._up()
        before = self.daemon.tell(passed=True)
        scene = self._scene()
        scene.play()
        if scene.refused:
            raise Fault(f"refused though nothing failed: {scene.refused}")
        scene.end()
        after = self.daemon.tell(passed=True)
        self.known = self.daemon.tell(known=True)
        self.daemon.stop()
        return before, {
            site: count - before.get(site, 0) for site, count in after.items() if count > before.get(site, 0)
        }

    def fail(self, site: str, error: str, nth: int) -> None:
        """One scene while this fails."""
        if not self.daemon.alive:
            self._up()
        where, scene = f"{site} {error} {nth}", None
        try:
            scene = self._scene()
            self.daemon.arm(site, error, nth)
            scene.play()
            self.counts["fired" if self.daemon.disarm() else "not passed"] += 1
            scene.end()
            shutil.rmtree(scene.root)
            self.counts.update(f"refused: {word}" for word in set(scene.refused))
        except (ConnectionError, FileNotFoundError):
            assert self.daemon.process is not None
            try:
                code = self.daemon.process.wait(60)
            except subprocess.TimeoutExpired:
                self.found.append(f"{where}: a connection ended, the daemon did not: {self.daemon.said()[-3000:]}")
                self.daemon.kill9()
                return
            self.counts["ended of itself"] += 1
            if code not in {0, 1, 2, 3, 4, 5, 69, 70, 74, 75}:
                self.found.append(f"{where}: ended with {code}: {self.daemon.said()[-1500:]}")
            self._again(where, scene)
        except (Fault, TimeoutError, RpcError) as fault:
            self.found.append(f"{where}: {type(fault).__name__} {fault}")
            self.daemon.kill9()

    def fail_start(self, site: str, error: str) -> None:
        """One start while this fails: it ends with an error, or serves."""
        if self.daemon.alive:
            self.daemon.stop()
        where, scene = f"start {site} {error}", None
        try:
            self.daemon.start(INJECTED_AT=f"{site} {error}")
            with contextlib.suppress(RpcError):  # it failed there
                self.daemon.scanned()
            self.daemon.disarm()
            self.daemon.scanned()
            self.counts["started all the same"] += 1
            scene = self._scene()
            scene.play()
            scene.end()
        except StartError as ended:
            self.counts[f"did not start: {ended.code}"] += 1
            if ended.code < 0 or not ended.stderr.strip():
                self.found.append(f"{where}: {ended}")
            self._again(where, scene)
        except (ConnectionError, FileNotFoundError):
            self.counts["ended of itself"] += 1
            self._again(where, scene)
        except (AssertionError, Fault, TimeoutError, RpcError) as fault:
            self.found.append(f"{where}: {type(fault).__name__} {fault}")
            self.daemon.kill9()

    def _again(self, where: str, scene: Scene | None) -> None:
        """Another daemon has all that was acknowledged."""
        try:
            self._up()
            if scene is not None:
                scene.end()
        except (AssertionError, Fault, TimeoutError, RpcError, StartError) as fault:
            self.found.append(f"{where}, and a new start: {type(fault).__name__} {fault}")
            if self.daemon.alive:
                self.daemon.kill9()

    def _up(self) -> None:
        self.daemon.disconnect()
        self.daemon.start().scanned()

    def _scene(self) -> Scene:
        self._number += 1
        return Scene(self.daemon, self._number)


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.injected.injections", description="each call fails once")
    options.add_argument("--sites", type=int, help="as many of them, drawn at random (all)")
    options.add_argument("--when", choices=("play", "start", "both"), default="both", help="(%(default)s)")
    options.add_argument("--list", action="store_true", help="only name the sites that are never passed")
    options.add_argument("--only", default="", help="those whose name has this")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    given = options.parse_args()
    random, trial, out = Random(given.seed), Trial(), sys.stdout.write
    told = done = 0
    try:
        starting, playing = trial.passed()
        if given.list:
            out("".join(f"{site}\n" for site in trial.known if site not in playing and site not in starting))
            return 0
        plan = [(site, error, count) for site, count in playing.items() for error in _ERRORS[site.rpartition(":")[2]]]
        plan += [(site, error, 0) for site in starting for error in _ERRORS[site.rpartition(":")[2]]]
        when = {"play": (True,), "start": (False,), "both": (True, False)}[given.when]
        plan = [each for each in plan if given.only in each[0] and (each[2] > 0) in when]
        if given.sites:
            plan = random.sample(plan, min(given.sites, len(plan)))
        with contextlib.suppress(KeyboardInterrupt):
            for site, error, count in plan:
                done += 1
                if count:
                    trial.fail(site, error, random.choice((1, 1, random.randint(1, count))))
                else:
                    trial.fail_start(site, error)
                for each in trial.found[told:]:
                    out(f"{each}\n")
                    sys.stdout.flush()
                told = len(trial.found)
    finally:
        trial.daemon.close()
    out(f"{len(trial.known)} sites, {len(playing)} of them passed in a scene, {len(starting)} in a start; ")
    out(f"{done} of {len(plan)} failures, seed {given.seed}\n")
    out(", ".join(f"{name}: {count}" for name, count in sorted(trial.counts.items())) + "\n")
    return 1 if trial.found else 0


if __name__ == "__main__":
    sys.exit(main())
