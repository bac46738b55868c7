"""provd with a wall clock that SIGUSR2 sets back, and the next one forward again; the machine's clock stays.

It runs in the daemon's process. `$ORACLE_STEPPED` names a file that is made when the step was taken. The clock is never
ahead of the machine's: files would look as if they were at rest, since their times are the kernel's.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from provd.__main__ import run
from provd.disk import epoch

if TYPE_CHECKING:
    from types import FrameType

_BACK = 3600 * 10**9
_COARSE = getattr(time, "CLOCK_REALTIME_COARSE", 5)
_real_ns, _real_gettime = time.time_ns, time.clock_gettime_ns
_state = {"back": 0}
_told, _tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


def _time_ns() -> int:
    return _real_ns() - _state["back"]


def _gettime_ns(clock: int) -> int:
    back = _state["back"] if clock in {time.CLOCK_REALTIME, _COARSE} else 0
    return _real_gettime(clock) - back


def _step(number: int, frame: FrameType | None) -> None:
    _state["back"] = _BACK - _state["back"]
    os.write(_tell, b"12345678")
    with open(os.environ["ORACLE_STEPPED"], "wb"):
        pass


def main() -> int:
    """The daemon, in a session of its own: an interrupt from the terminal is for who asks, who then tells."""
    os.setsid()
    time.time_ns, time.clock_gettime_ns = _time_ns, _gettime_ns
    time.time = lambda: _time_ns() / 1e9
    epoch.clock_watch = lambda: _told
    epoch._arm = lambda descriptor: None  # a pipe is armed already
    signal.signal(signal.SIGUSR2, _step)
    return run()


if __name__ == "__main__":
    sys.exit(main())
