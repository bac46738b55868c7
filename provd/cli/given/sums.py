"""What was read, as `sha256sum` tells it: each line becomes a `file:` dependency with its digest.

Rule: a line is taken as sha256sum printed it or not at all, since a name half understood would be watched instead of
the one that was read.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from provd.cli.command import Usage, read_file
from provd.cli.given import names
from provd.client import MAX_LINE, RpcError, wire_path

if TYPE_CHECKING:
    from provd.client import WirePath

_LINE: Final = re.compile(rb"(\\?)([0-9a-f]{64}) [ *]([^\0]+)")
_ESCAPE: Final = re.compile(rb"\\(.?)", re.DOTALL)
_ESCAPED: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}
_SHOWN: Final = 80
_TOO_MANY: Final = RpcError(
    "limit", "the sums are over 16 MiB, more than one request holds", "name the directory instead: tree:DIR, or glob:"
)


def dependencies(file: str) -> list[dict[str, WirePath]]:
    """The dependencies that the lines of `file` (`-`: stdin) name, their paths made absolute; raises Usage."""
    lines = read_file(file, "the sums", MAX_LINE, _TOO_MANY).split(b"\n")
    if lines[-1] == b"":
        del lines[-1]
    if not lines:
        raise Usage("there are no sums", "see what sha256sum said: it prints none for what it cannot read")
    return [_dependency(line, number) for number, line in enumerate(lines, 1)]


def _dependency(line: bytes, number: int) -> dict[str, WirePath]:
    found = _LINE.fullmatch(line)
    path = None if found is None else _unescaped(found[3]) if found[1] else found[3]
    if found is None or path is None:
        shown = line[:_SHOWN].decode("utf-8", "backslashreplace")
        hint = "HEX  PATH, as sha256sum prints it, without --tag and --zero"
        raise Usage(f"line {number} of the sums is none: {shown!r}", hint)
    if path == b"-":
        raise Usage(f"line {number} of the sums names no file but stdin", "give sha256sum the names of the files")
    dep = wire_path(b"file:" + names.absolute(os.fsdecode(path)))
    return {"dep": dep, "digest": f"sha256:{found[2].decode()}"}


def _unescaped(path: bytes) -> bytes | None:
    """The name that an escaped one stands for; None where an escape is none of sha256sum's."""
    if any(escape not in _ESCAPED for escape in _ESCAPE.findall(path)):
        return None
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], path)
