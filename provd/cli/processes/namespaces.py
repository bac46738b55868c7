"""Whether the daemon sees the files that this command sees, as far as namespaces go, and what is said otherwise.

Rule: a namespace that may not be looked at is another one only where nothing else explains that.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from provd import farend, reach
from provd.cli import output
from provd.cli.words import records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.client import Client

_NAMESPACE: Final = "/proc/{}/ns/mnt"


def is_outside(client: Client) -> bool:
    """Whether the daemon that answers sees other files than this command."""
    told = client.call("daemon.status")
    return told.get("foreign") is True and told.get("proc_missing") is not True


def sees(client: Client) -> None:
    """Says so where the daemon that answers sees other files than whoever asked for it."""
    told = client.call("daemon.status")
    if told.get("proc_missing") is True:
        output.warn(
            "nothing is mounted at /proc where it runs, so it cannot tell which files clients see: of paths it answers "
            "unknown (namespace) to all",
            "provd doctor  # what to do about it",
        )
    elif told.get("foreign") is True:
        output.warn(f"{records.FOREIGN}: of paths it answers you unknown (namespace)")


def began_in_here(*, was_outside: bool) -> None:
    """Says so where a daemon was begun in another namespace of mounts or users than this command came from.

    `was_outside`: the one before it saw other files.
    """
    if was_outside or outside() is not None:
        where, why = "mount", "it sees the files as they are in here"
    elif unseen() is not None:
        where, why = "user", "it may not see which files others see"
    else:
        return
    output.warn(
        f"it runs in this {where} namespace (of unshare, a container or a sandbox): {why}, and of paths it answers "
        "unknown (namespace) to whoever is outside",
        "provd stop  # to have it there; then start it outside",
    )


def outside() -> int | None:
    """The nearest process above this one that is in another mount namespace; None where none is known to be."""
    try:
        here = os.stat(_NAMESPACE.format("self"))
    except OSError:  # another system
        return None
    for above in _above():
        with contextlib.suppress(OSError):  # another user's: nobody can say
            there = os.stat(_NAMESPACE.format(above))
            if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
                return above
    return None


def unseen() -> int | None:
    """The nearest process above this one of which it may not see more, though it is this user's; None for none.

    In a namespace of users that is one outside of it.
    """
    if farend.is_outermost():
        return None
    for above in _above():
        try:
            if os.stat(f"/proc/{above}").st_uid == os.geteuid():
                os.stat(_NAMESPACE.format(above))
        except PermissionError:
            return above
        except OSError:  # it has ended
            continue
    return None


def _above() -> Iterator[int]:
    """The processes above this one, the nearest first, as far as they are told."""
    above = os.getppid()
    while above > 0:
        yield above
        above = int((reach.stat_of(above) or ["", "0"])[1])
