"""Daemons of one kind that fail, one scene after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections import Counter

from injected_scene import Fault, Injected, Scene
from support import HANG, RpcError, StartError

_ENDINGS = frozenset({0, 1, 2, 3, 4, 5, 69, 70, 74, 75})
"""How a daemon may end of itself: with a word, and no crash."""
_WRONG = (AssertionError, Fault, TimeoutError, RpcError)


class Trial:
    """One kind of scene."""

    def __init__(self, kind: type[Scene]) -> None:
        self.kind = kind
        self.daemon: Injected = kind.daemon()
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []
        self.known: set[str] = set()
        """All sites of its daemon, passed or not."""
        self._number = 0

    def close(self) -> None:
        """Ends what runs, and takes all files away."""
        self.daemon.close()

    def passed(self) -> dict[str, dict[str, int]]:
        """How often each site is passed in a start, in a play and in a stop."""
        self.daemon.told_at_its_end()
        if not self.kind.starts:
            self.daemon.prepare()
            self.daemon.refused()
            told = self.daemon.told_at_its_end()
            self.known = set(told["known"])
            return {"start": told["passed"]}
        self.daemon.begin()
        self.daemon.scanned()
        started = self.daemon.tell(passed=True)
        scene = self._scene()
        arranged = self.daemon.tell(passed=True)
        scene.play()
        played = self.daemon.tell(passed=True)
        if scene.refused:
            raise Fault(f"{self.kind.__name__}: refused though nothing failed: {scene.refused}")
        scene.end()
        scene.close()
        scene = self._scene()
        scene.play()
        scene.leave()
        left = self.daemon.tell(passed=True)
        self._stop()
        told = self.daemon.told_at_its_end()
        self.known = set(told["known"])
        return {"start": started, "play": _more(played, arranged), "stop": _more(told["passed"], left)}

    def fail(self, when: str, site: str, error: str, nth: int) -> None:
        """One failure, and what comes of it."""
        where = f"{self.kind.__name__} {when} {site} {error} {nth}"
        {"start": self._fail_start, "play": self._fail_play, "stop": self._fail_stop}[when](where, site, error, nth)

    def _fail_play(self, where: str, site: str, error: str, nth: int, *, anew: bool = False) -> None:
        scene = None
        try:
            if not self.daemon.alive:
                self._up()
            scene = self._scene()
            self.daemon.arm(site, error, nth)
            scene.play()
            fired = self.daemon.disarm()
            if not fired and not anew:  # the first scene of a daemon may pass what no other does
                scene.end()
                scene.close()
                self.daemon.stop()
                self._fail_play(where, site, error, 1, anew=True)
                return
            self.counts["fired" if fired else "not passed"] += 1
            scene.end()
            scene.close()
            self.counts.update(f"refused: {word}" for word in set(scene.refused))
        except (ConnectionError, FileNotFoundError):
            self._ended(where, scene)
        except _WRONG as fault:
            self._wrong(where, fault)

    def _fail_start(self, where: str, site: str, error: str, nth: int) -> None:
        """It ends with an error, or serves."""
        if self.daemon.alive:
            self.daemon.stop()
        del nth  # it is armed before anything is counted
        scene = None
        try:
            if not self.kind.starts:
                self.daemon.prepare()
                raise self.daemon.refused(INJECTED_AT=f"{site} {error}")
            self.daemon.begin(INJECTED_AT=f"{site} {error}")
            with contextlib.suppress(RpcError):  # it failed there
                self.daemon.scanned()
            self.counts["fired" if self.daemon.disarm() else "not passed"] += 1
            self.daemon.scanned()
            scene = self._scene()
            scene.play()
            scene.end()
            scene.close()
            self.counts["started all the same"] += 1
        except StartError as ended:
            self.counts[f"did not start: {ended.code}"] += 1
            if ended.code not in _ENDINGS or not ended.stderr.strip():
                self.found.append(f"{where}: {ended}")
            self._again(where, scene)
        except (ConnectionError, FileNotFoundError):
            self._ended(where, scene)
        except _WRONG as fault:
            self._wrong(where, fault)

    def _fail_stop(self, where: str, site: str, error: str, nth: int) -> None:
        """It ends all the same, and the next one has all."""
        scene = None
        try:
            if not self.daemon.alive:
                self._up()
            scene = self._scene()
            scene.play()
            scene.leave()
            self.daemon.arm(site, error, nth)
            code = self._stop()
            self.counts["fired" if self.daemon.told_at_its_end()["fired"] else "not passed"] += 1
            self.counts[f"ended with {code}"] += 1
            if code not in _ENDINGS:
                self.found.append(f"{where}: ended with {code}: {self.daemon.said()[-1500:]}")
            self._again(where, scene)
            scene.close()
        except (ConnectionError, FileNotFoundError):
            self._ended(where, scene)
        except _WRONG as fault:
            self._wrong(where, fault)

    def _stop(self) -> int:
        """Ends the daemon while its clients are connected. Raises Fault where it does not end."""
        assert self.daemon.process is not None
        self.daemon.process.send_signal(signal.SIGTERM)
        try:
            return self.daemon.process.wait(HANG)
        except subprocess.TimeoutExpired:
            raise Fault(f"it did not end in {HANG} s: {self.daemon.said()[-3000:]}") from None
        finally:
            self.daemon.disconnect()

    def _ended(self, where: str, scene: Scene | None) -> None:
        """A connection ended, since the daemon did."""
        assert self.daemon.process is not None
        try:
            code = self.daemon.process.wait(HANG)
        except subprocess.TimeoutExpired:
            self.found.append(f"{where}: a connection ended, the daemon did not: {self.daemon.said()[-3000:]}")
            self.daemon.kill9()
            return
        self.counts[f"ended of itself with {code}"] += 1
        if code not in _ENDINGS:
            self.found.append(f"{where}: ended with {code}: {self.daemon.said()[-1500:]}")
        self._again(where, scene)

    def _again(self, where: str, scene: Scene | None) -> None:
        """Another daemon has all that was acknowledged."""
        try:
            self._up()
            if scene is not None:
                scene.end()
        except (*_WRONG, StartError) as fault:
            self._wrong(f"{where}, and a new start", fault)

    def _wrong(self, where: str, fault: Exception) -> None:
        self.found.append(f"{where}: {type(fault).__name__} {fault}")
        if self.daemon.alive:
            self.daemon.kill9()

    def _up(self) -> None:
        self.daemon.disconnect()
        if self.kind.starts:
            self.daemon.start().scanned()

    def _scene(self) -> Scene:
        self._number += 1
        return self.kind(self.daemon, self._number)


def _more(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {site: count - before.get(site, 0) for site, count in after.items() if count > before.get(site, 0)}
