"""A daemon that modes keep out, as they do an ordinary user; who tests may still do all."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support import Daemon, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator


class Humble(Daemon):
    """A daemon that may not look into what is closed for everybody."""

    def command(self) -> list[str]:
        return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *super().command()]


@pytest.fixture
def humble() -> Iterator[Workspace]:
    """Its root, with `d/e/f` in it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root has something to take away from the daemon, with setpriv")
    daemon = Humble()
    try:
        daemon.workspace().write("d/e/f", "1")
        yield daemon.start().scanned().workspace()
        assert "Traceback" not in daemon.said()
    finally:
        os.chmod(daemon.root, 0o755)
        daemon.close()
