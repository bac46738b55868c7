"""The command `provd`, also as `python -m provd`.

Rule: imported by name alone it does nothing. Who interrupts while the command is still being imported sees what an
interrupted command shows: nothing.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def run() -> int:
    """Run the command that was typed; its exit code."""
    try:
        from provd.cli import main  # noqa: PLC0415  (it takes its time, and may be interrupted)

        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
