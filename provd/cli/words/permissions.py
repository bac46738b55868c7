"""What may not be read by the daemon, who is the same user as the one that asks: which place it is, and how to open it.

Rule: it is looked at here, not believed; what cannot be seen from here is said of the name that was told.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING, Final

from provd.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

AS_ROOT: Final = "sudo"
_DENIED: Final = re.compile(r"permission denied|no permission|unreadable|not readable|EACCES|EPERM", re.IGNORECASE)


def are_missing(why: str) -> bool:
    """Whether a reason of the daemon's says that it had no permission."""
    return _DENIED.search(why) is not None


def closed(path: bytes) -> bytes | None:
    """What keeps this user from reading an absolute path: the first directory above it that may not be searched, or it.

    None where it can be read, or is not there.
    """
    at = path.find(b"/", 1)
    while at >= 0:
        above = path[:at]
        if not os.access(above, os.X_OK):
            return above if os.path.lexists(above) else None
        at = path.find(b"/", at + 1)
    try:
        is_dir = os.path.isdir(path)
    except ValueError:  # no path of this system
        return None
    needed = os.R_OK | os.X_OK if is_dir else os.R_OK
    return path if os.path.exists(path) and not os.access(path, needed) else None


def opening(paths: Sequence[bytes]) -> str:
    """The command after which files and directories can be read."""
    named = " ".join(quoted(path) for path in paths)
    if all(_is_own(path) for path in paths):
        return f"chmod u+rX {named}"
    return f"{AS_ROOT} setfacl -m u:{user(os.geteuid())}:rX {named}"


def quoted(path: bytes) -> str:
    """A path as a shell can be given it."""
    return output.quoted(os.fsdecode(path))


def _is_own(path: bytes) -> bool:
    """Whether this user may change permissions; what cannot be seen is taken for his."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return True
    return os.geteuid() in {owner, 0}


def user(number: int) -> str:
    """The name of a user; the number where there is none, as in containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
