"""`provd doctor` as a process beside a real daemon, and daemons whose process is another one than usual."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support import HANG, Daemon, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Json = dict[str, Any]

_SOME_FINDINGS = {"root.polled", "limits.watches", "state.full", "unit.linger", "descriptors"}
"""What a machine may have that these tests run on."""


def doctor(
    daemon: Daemon,
    *options: str,
    prefix: Sequence[str] = (),
    named: bool = True,
    home: str | None = None,
    prepare: Callable[[], None] | None = None,
    **run: Any,
) -> dict[str, Json]:
    """What it finds, by code; the exit code says the same."""
    places = ["--socket", daemon.socket, "--state", daemon.state] if named else []
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "provd", "doctor", "--json", *places, *options],
        env=clean_environment(home or daemon.home, {"PATH": "/usr/bin:/bin"}),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=HANG,
        check=False,
        preexec_fn=prepare,
        **run,
    )
    assert done.stderr == b"", done.stderr
    told = json.loads(done.stdout)
    assert done.returncode == int(any(found["level"] != "note" for found in told["findings"]))
    assert all(found["what"] and found["next"] for found in told["findings"])
    assert "internal" not in {found["code"] for found in told["findings"]}, told
    return {found["code"]: found for found in told["findings"]}


def news(daemon: Daemon, *options: str, **how: Any) -> dict[str, Json]:
    """The findings but for those of the machine."""
    return {code: found for code, found in doctor(daemon, *options, **how).items() if code not in _SOME_FINDINGS}


def changed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, change: str) -> Daemon:
    """The same daemon, in whose process a line of Python is carried out first."""
    usual = daemon.command()
    code = f"{change}; import sys; from provd.cli import main; sys.exit(main(sys.argv[1:]))"
    monkeypatch.setattr(daemon, "command", lambda: [sys.executable, "-c", code, *usual[3:]])
    return daemon


def set_clock(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, by: int) -> str:
    """The daemon's wall clock is so many seconds off while the file is there whose path is returned."""
    sign = os.path.join(daemon.home, "sign")
    other = f"lambda: usual() + {by} * 10**9 * os.path.exists({sign!r})"
    changed(daemon, monkeypatch, f"import os, time; usual = time.time_ns; time.time_ns = {other}")
    return sign


@pytest.fixture
def home() -> Iterator[Daemon]:
    """A daemon that a test starts itself."""
    daemon = Daemon()
    try:
        yield daemon
    finally:
        daemon.close()
