"""`python -m provd` is the command `provd`."""

from __future__ import annotations

import sys

from provd.cli import main

if __name__ == "__main__":
    sys.exit(main())
