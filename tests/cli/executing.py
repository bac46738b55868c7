"""exec in tests: its command line, a daemon that may be ended, and what the log has of its actions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from real_cli import RealCli
from support import records_since

if TYPE_CHECKING:
    from support import Daemon

EXEC: Final = [sys.executable, "-m", "provd", "exec"]


@pytest.fixture
def own(daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RealCli:
    """The same with a daemon that may be ended."""
    return RealCli(daemon, capsys, monkeypatch)


def actions(cli: RealCli, clock: str) -> list[Any]:
    """The records of actions since a clock."""
    return [record for record in records_since(cli.daemon.rpc, clock) if record["type"] == "action"]
