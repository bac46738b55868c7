"""What who answers says of itself (`daemon.hello`), and the watched root that is meant where nobody names one.

Rule: no import that takes long, typing among them: a question asked as a whole process waits for it (`fastpath`).
"""

from __future__ import annotations

import binascii
import os

TYPE_CHECKING = False  # typing costs more than all that is here
if TYPE_CHECKING:
    from typing import Any, Final

Json = dict[str, "Any"]
WirePath = str | dict[str, str]

PROTOCOL: Final = 1


def wire_path(path: str | bytes) -> WirePath:
    """A name as it travels: a string where it is UTF-8, else `{"b64": ...}`."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": binascii.b2a_base64(raw, newline=False).decode()}


def local_path(path: WirePath) -> bytes:
    """The bytes of a name that travelled."""
    return path.encode("utf-8") if isinstance(path, str) else binascii.a2b_base64(path["b64"])


def is_hello(answer: Any) -> bool:
    """Whether an answer to `daemon.hello` has what the protocol promises."""
    if not isinstance(answer, dict) or answer.get("name") != "provd":
        return False
    pid, roots = answer.get("pid"), answer.get("roots")
    try:
        return isinstance(pid, int) and pid > 0 and isinstance(roots, list) and all(map(local_path, roots))
    except (KeyError, TypeError, ValueError):
        return False


def watched(told: Json) -> list[bytes]:
    """The watched roots that a hello names, by their real paths."""
    return [local_path(root) for root in told["roots"]]


def holding(roots: list[bytes], path: bytes | None) -> bytes | None:
    """The innermost of some directories that is a real path or above it."""
    if path is None:
        return None
    around = [root for root in roots if path == root or path.startswith(root.rstrip(b"/") + b"/")]
    return max(around, key=len, default=None)


def here() -> bytes | None:
    """The current directory's real path; None where it is gone."""
    try:
        return os.getcwdb()  # the system gives it without links; a look at it might hang
    except FileNotFoundError:
        return None


def root_around(told: Json) -> bytes | None:
    """The innermost root of a hello that holds the current directory; else the directory itself; None: it is gone."""
    directory = here()
    return holding(watched(told), directory) or directory
