"""A process between `exec` and its command, so that a kill of either leaves the other.

Rule: the keeper is a copy of us that is the command's parent and has the same connection open. The daemon ends the
action where that closes, so it goes on until both are gone; who is left waits for the command. Else what a command
writes after `exec` was killed would be an undeclared write. A connection that we make later lies in a pair of sockets
whose other end the keeper has: nobody takes it out, and it is open until that end is gone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Final, NoReturn

from provd import codes
from provd.cli.processes import child, orphans

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

    from provd.cli.processes.held import Held

_WORDS: Final = 500
"""Characters of a refusal: as JSON they have room in the shortest pipe, which nobody reads from yet."""


def run(command: Sequence[str], held: Held, *, wait: bool) -> int:
    """The same as `child.run`, while an action is held; from here on it is watched. Raises NotStarted.

    Where the keeper is killed it returns when all that it left has ended (Linux).
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else both would write what waits there
    alive, ours = os.pipe()
    told, tells = os.pipe()
    kept, shared = socket.socketpair()
    with child.blocked() as mask:
        us, pid = os.getpid(), _forked()
        if not pid:
            os.close(ours)
            shared.close()
            _keep(command, held, mask, us, alive, tells, wait=wait)
        kept.close()
        held.share(shared)
        held.watch()
        code = child.wait_for(pid)
        if code < 0:
            child.wait_for_orphans()
    os.close(alive)
    os.close(tells)
    os.close(ours)
    with open(told, encoding="utf-8") as file:
        if said := file.read():
            raise child.NotStarted(*json.loads(said))
    return child.shell_code(code)


def _forked() -> int:
    try:
        return os.fork()
    except OSError as error:
        raise child.NotStarted(f"no process can be started: {error.strerror}", codes.REFUSED) from error


def _keep(
    command: Sequence[str],
    held: Held,
    mask: set[int | signal.Signals],
    parent: int,
    alive: int,
    tells: int,
    *,
    wait: bool,
) -> NoReturn:
    """The keeper's life. `alive` is at its end when the parent is gone: then daemons that end are its to wait for."""
    code = codes.REFUSED
    try:
        orphans.adopt()
        held.watch(after=alive)
        pid = child.start(command, mask)
        code = child.shell_code(child.wait_for(pid, for_all=wait, sender=parent))
    except child.NotStarted as error:
        code = error.code
        os.write(tells, json.dumps([str(error)[:_WORDS], error.code]).encode())
    except BaseException:  # noqa: BLE001  nobody else would tell of it
        traceback.print_exc()
    finally:
        os._exit(code)
