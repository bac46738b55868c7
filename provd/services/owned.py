"""Files that provd writes for a service manager, known again by their first line.

Rule: only what provd wrote, and nobody changed since, is replaced or removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from typing import Final

from provd.ownfile import NotAFile, open_file
from provd.quoting import quoted
from provd.services.base import ServiceError
from provd.umask import usable

Advice = Callable[[str], str]
"""What to do about a file, by its path, that is not provd's to replace or remove."""
_MARK: Final = re.compile(
    r"\A(?P<head>.*?)[^\n]*Written by provd service install \((?P<sum>[0-9a-f]{16})\)[^\n]*\n", re.DOTALL
)

_WHO: Final = "provd start  # without a service manager; or see who may write there"
_MODE: Final = 0o644
"""Whatever the umask is: the manager reads the file, and nobody else may write it."""


def marked(text: str, opening: str = "# ", closing: str = "", after: str = "") -> str:
    """`text` with provd's line, a comment, in front of it or behind its line that begins with `after`."""
    mark = f"{opening}Written by provd service install ({_sum(text)}); a copy that is changed is left alone.{closing}\n"
    if not after:
        return mark + text
    lines = text.splitlines(keepends=True)
    at = next((number for number, line in enumerate(lines) if line.startswith(after)), -1) + 1
    return "".join([*lines[:at], mark, *lines[at:]])


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def untouched(text: str) -> bool:
    """Whether provd wrote `text`, and nobody changed it since."""
    found = _MARK.match(text)
    return found is not None and found["sum"] == _sum(found["head"] + text[found.end() :])


def difference(printing: str, path: str, then: str) -> str:
    """The command that shows what somebody changed in a file; `printing` prints what provd would write there."""
    return f"{printing} | diff - {quoted(path)}  # shows the difference; {then}"


def read(path: str) -> str | None:
    """The text of a file; None where there is none. Raises ServiceError."""
    try:
        if os.path.realpath(path) == os.devnull:  # systemd's way to mask a unit
            return ""
        with open(open_file(path, os.O_RDONLY), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except NotAFile as error:
        raise ServiceError(str(error.strerror), error.hint) from None
    except OSError as error:
        raise ServiceError(f"cannot read {path}: {error.strerror}", "look at what stands there") from None


def check(path: str, advice: Advice) -> None:
    """Raises ServiceError where a file is there that is not provd's to replace or remove."""
    text = read(path)
    if text is not None and not untouched(text):
        raise ServiceError(f"{path} was not written by provd service install, or was changed since", advice(path))


def check_place(path: str, text: str, advice: Advice) -> None:
    """Raises ServiceError where `replace` would refuse, as far as that can be seen without writing."""
    if read(path) == text:
        return
    check(path, advice)
    above = os.path.dirname(path)
    while above != "/" and not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        raise ServiceError(f"cannot write {path}: {above} is no directory that can be written", _WHO)


def replace(path: str, text: str, advice: Advice) -> bool:
    """Writes the file whole; false where it already says this. Raises ServiceError."""
    if read(path) == text:
        return False
    check(path, advice)
    new = f"{path}.new"
    try:
        with usable():
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
            os.fchmod(file.fileno(), _MODE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise ServiceError(f"cannot write {path}: {error.strerror}", _WHO) from None
    return True


def remove(path: str, advice: Advice) -> bool:
    """Removes the file; false where there was none. Raises ServiceError."""
    check(path, advice)
    try:
        os.unlink(path)
        directory = os.path.dirname(path)
        if directory.endswith(".d"):  # of drop-ins, made for this one
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ServiceError(f"cannot remove {path}: {error.strerror}", "see who may write there") from None
    return True
