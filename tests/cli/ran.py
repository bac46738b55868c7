"""What a command did, and how a test runs one in its own process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provd.cli import main

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


class InProcess:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | bytes, code: int | None = 0) -> Result:
        """Run one command, which must end with `code` (None: with any)."""
        got = main([os.fsdecode(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert code in (None, got), (arguments, out, err)
        return Result(got, out, err)
