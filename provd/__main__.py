"""The command `provd`, also as `python -m provd`.

Rule: imported by name alone it does nothing. Who interrupts while the command is still being imported sees what an
interrupted command shows: nothing.
"""

from __future__ import annotations

import os
import sys

from provd import codes, fastpath


def run() -> int:
    """Run the command that was typed; its exit code."""
    try:
        if (code := fastpath.run(sys.argv[1:])) is not None:
            # Nothing is written or held, and the interpreter takes longer to put itself away than the question took.
            os._exit(code)
        from provd.cli import main  # noqa: PLC0415  (it takes its time, and may be interrupted)

        return main()
    except ImportError as missing:
        again = "  next: provd version  # when it is installed again, or its checkout is whole"
        sys.stderr.write(f"provd: its own code cannot be loaded: {missing}\n{again}\n")
        return codes.REFUSED
    except KeyboardInterrupt:
        return codes.INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
