"""What may not be read by the daemon, who is the same user as the one that asks: which place it is, and how to open it.

Rule: it is looked at here, not believed, and by `looking`, since a place that hangs may be among those that cannot be
read; what cannot be seen from here is said of the name that was told.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from typing import TYPE_CHECKING, Final

from provd.cli import output
from provd.cli.given.looking import look

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.cli.given.looking import Seen

AS_ROOT: Final = "sudo"
_DENIED: Final = re.compile(r"permission denied|no permission|unreadable|not readable|EACCES|EPERM", re.IGNORECASE)


def are_missing(why: str) -> bool:
    """Whether a reason of the daemon's says that it had no permission."""
    return _DENIED.search(why) is not None


def closed(paths: Sequence[bytes]) -> list[bytes]:
    """What keeps this user from reading absolute paths: of each the first directory above that is closed to him, or it.

    In order, each once; nothing of those that can be read, are not there, or cannot be looked at.
    """
    ways = [(*_above(path), path) for path in paths]
    seen = look(name for way in ways for name in way)
    shut = (next((name for name in way if not _is_open(seen.get(name), last=name is way[-1])), None) for way in ways)
    return sorted({name for name in shut if name is not None and name in seen and seen[name].name is not None})


def _above(path: bytes) -> Iterator[bytes]:
    """The directories that lead to an absolute path, outermost first, without `/`."""
    at = path.find(b"/", 1)
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def _is_open(seen: Seen | None, *, last: bool) -> bool:
    """Whether a name may be searched, or as the `last` one of a path be read."""
    if seen is None:
        return False
    if not last:
        return seen.entered
    return seen.end is None or (seen.readable and (seen.entered or not stat.S_ISDIR(seen.end)))


def opening(paths: Sequence[bytes]) -> str:
    """The command after which files and directories can be read; what cannot be seen is taken for this user's."""
    named = " ".join(quoted(path) for path in paths)
    seen = look(paths)
    mine = {os.geteuid(), -1}
    if os.geteuid() == 0 or all(path not in seen or seen[path].owner in mine for path in paths):
        return f"chmod u+rX {named}"
    return f"{AS_ROOT} setfacl -m u:{user(os.geteuid())}:rX {named}"


def quoted(path: bytes) -> str:
    """A path as a shell can be given it."""
    return output.quoted(os.fsdecode(path))


def user(number: int) -> str:
    """The name of a user; the number where there is none, as in containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
