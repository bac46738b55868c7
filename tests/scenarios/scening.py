"""What the scenarios share: helpers of the tests from outside, and the four ways of asking as one question.

Rule: a scenario asks a real daemon about real files, and says in its docstring what others get wrong there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import pytest

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(_TESTS, "blackbox"), _TESTS]

from asking import begin, code, one, sh  # noqa: E402
from carrying import exported  # noqa: E402
from humble import humble  # noqa: E402
from support import Daemon, Workspace, records_since  # noqa: E402
from test_seals_blackbox import comes_to_be_sealed  # noqa: E402
from test_watch_limits import Confined, may_confine  # noqa: E402
from test_watch_moves import exchange  # noqa: E402
from watching import (  # noqa: E402
    eventually,
    gaps,
    mutations,
    overflow,
    position,
    root_of,
    seals_hold,
    since,
    stopped,
)

__all__ = [
    "Confined",
    "all_say",
    "begin",
    "code",
    "comes_to_be_sealed",
    "eventually",
    "exchange",
    "exported",
    "gaps",
    "humble",
    "may_confine",
    "mutations",
    "never_fresh",
    "one",
    "overflow",
    "position",
    "records_since",
    "root_of",
    "sealing",
    "seals_hold",
    "sh",
    "since",
    "stopped",
]


@contextlib.contextmanager
def sealing() -> Iterator[Workspace]:
    """The root of a daemon for many tests, where files can be sealed."""
    daemon = Daemon()
    try:
        ws = daemon.start().scanned().workspace()
        if not seals_hold(ws.root):
            pytest.skip("nothing can be sealed here")
        yield ws
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def never_fresh(ws: Workspace, *keys: str, by_log: bool = True) -> None:
    """Asks in each way that there is: the answer is dirty by what is there, and by the strict rule it is not fresh.

    `by_log`: by the watcher's log, too; not where the change is one of which no event tells.
    """
    for key in keys:
        for verify in ("log", "auto", "content") if by_log else ("auto", "content"):
            answer = ws.check(key, verify=verify)
            assert answer["verdict"] == "dirty", (key, verify, answer)
        answer = ws.check(key, revalidate=False)
        assert answer["verdict"] != "fresh", (key, answer)


def all_say(ws: Workspace, key: str, *verdicts: str) -> None:
    """The answer in each way of asking that looks at what is there is one of these."""
    for verify in ("log", "auto", "content"):
        answer = ws.check(key, verify=verify)
        assert answer["verdict"] in verdicts, (verify, answer)
