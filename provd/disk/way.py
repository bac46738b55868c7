"""The names that are looked up where a path is resolved, links followed by hand.

Rule: silence about a path counts only if every name on the way to it is watched, so each is told by its real place.
These are system calls that may hang: where that is possible they belong into a worker.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import msgspec

_LINKS: Final = 40
"""Links that the kernel follows in one path."""


class Route(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The way of one path.

    `hops` are the names looked up, in order, each in its real directory. It ends `at` the last of them: a real path
    where it is `there`, else the name that is missing, that is no directory, or a link too many.
    """

    hops: tuple[bytes, ...]
    at: bytes
    there: bool


def route_of(path: bytes) -> Route:
    """The way of the absolute `path` now; raises OSError where that cannot be seen."""
    hops: list[bytes] = []
    at, links = b"/", 0
    todo = path.split(b"/")[::-1]
    while todo:
        name = todo.pop()
        if name in {b"", b"."}:
            continue
        if name == b"..":
            at = os.path.dirname(at)
            continue
        hop = at + name if at == b"/" else at + b"/" + name
        target = b""
        try:
            target = os.readlink(hop)
        except OSError as error:
            if error.errno == errno.ENOTDIR:  # what came before is a file
                return Route(tuple(hops), at, there=False)
            hops.append(hop)
            if error.errno == errno.ENOENT:
                return Route(tuple(hops), hop, there=False)
            if error.errno != errno.EINVAL:
                raise
            at = hop
            continue
        hops.append(hop)
        links += 1
        if links > _LINKS:
            return Route(tuple(hops), hop, there=False)
        at = b"/" if target.startswith(b"/") else at
        todo += target.split(b"/")[::-1]
    return Route(tuple(hops), at, there=True)
