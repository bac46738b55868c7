"""The unit files that provd ships for systemd.

Rule: they lie in the package of an installed provd (`provd/systemd`), and beside the package in a checkout.
"""

from __future__ import annotations

import os
from typing import Final

NAMES: Final = ("user/provd.service", "system/provd@.service")
_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))


def read(name: str) -> str:
    """The text of one of NAMES; raises FileNotFoundError where this provd came without it."""
    path = os.path.join(_PACKAGE, "systemd", name)
    if not os.path.exists(path):
        path = os.path.join(os.path.dirname(_PACKAGE), "systemd", name)
    with open(path, encoding="utf-8") as f:
        return f.read()
