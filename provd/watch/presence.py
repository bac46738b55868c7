"""Whether a root is the directory that it was, as far as looking at its path can tell.

Rule: who looks may hang, so looking is done in threads; here only the answers are judged. A root that does not
answer is not gone, and nothing is known of it.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum

Identity = tuple[int, int]
"""Device and inode of a directory."""

Found = Identity | str | None
"""What looking at a path gave: the directory there, or why there is none; None where no answer came in time."""


class Standing(StrEnum):
    """What looking has shown last."""

    THERE = "there"
    GONE = "gone"
    SILENT = "silent"


def identity_of(path: bytes) -> Identity | str:
    """The directory at `path`, links not followed, or why there is none. May hang, so it is called in threads."""
    try:
        st = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "the directory is gone"
    except OSError as e:
        return f"the directory cannot be seen: {e.strerror}"
    return (st.st_dev, st.st_ino) if stat.S_ISDIR(st.st_mode) else "it is no directory any more"


class Presence:
    """One root. `identity` is that of the directory that is meant; the first one that is found where it is None.

    `why` says what is wrong, "" while the directory is there.
    """

    def __init__(self, identity: Identity | None = None) -> None:
        self.identity = identity
        self.standing = Standing.THERE
        self.why = ""

    def looked(self, found: Found) -> bool:
        """Takes an answer; True if it differs from the one before."""
        before = self.standing
        if found is None:
            self.standing, self.why = Standing.SILENT, "the directory does not answer: its file system may hang"
        elif isinstance(found, str):
            self.standing, self.why = Standing.GONE, found
        elif self.identity is not None and self.identity != found:
            self.standing, self.why = Standing.GONE, "the directory was replaced by another one"
        else:
            self.identity = found
            self.standing, self.why = Standing.THERE, ""
        return self.standing is not before
