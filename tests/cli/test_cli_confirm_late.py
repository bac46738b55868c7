"""What was read before what stands, or is not there any more, confirms nothing, and is not told as the entry."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from real_cli import cli

if TYPE_CHECKING:
    from real_cli import RealCli

__all__ = ["cli"]


def test_sums_of_an_older_content_confirm_nothing_and_say_so(cli: RealCli) -> None:
    cli.write("older", f"{hashlib.sha256(b'one').hexdigest()}  f\n")
    cli.write("f", "two")
    cli("put", "k", "--value", "v", "--dep", "f", "--as-of-now")

    got = cli("confirm", "k", "--sums", "older", code=1)

    assert got.out.startswith("✗ dirty    k as it was read again  (changed)\n")
    assert got.err.startswith("provd: nothing was confirmed, since this reading is dirty (changed): version ")
    assert " stands (fresh)\n  next: c=$(provd clock)  # then look again" in got.err
    assert cli("check", "k").out.startswith("✓ fresh    k")
