"""The mode of what is made, where the umask would keep even its maker out."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def usable() -> Iterator[None]:
    """What is made meanwhile this user may use, whatever the umask says; what others may is as it says."""
    before = os.umask(0o077)
    os.umask(before & 0o077)
    try:
        yield
    finally:
        os.umask(before)
