"""A launchd agent's property list, by Apple's launchd.plist(5).

Rule: a pure function; the keys and why are in docs/macos.md.
"""

from __future__ import annotations

import plistlib
from typing import TYPE_CHECKING, Any, Final

from provd.services.base import ServiceError

if TYPE_CHECKING:
    from provd.services.base import Plan

LABEL: Final = "local.provd"
_DESCRIPTORS: Final = 10240
"""OPEN_MAX of macOS; launchd gives 256."""
_AGAIN_S: Final = 10
"""Seconds between two starts, launchd's own default, said for the reader."""
_UMASK: Final = 0o077


def rendered(plan: Plan, log: str) -> str:
    """The property list that runs `plan` and lets early words go to the file `log`; raises ServiceError."""
    keys: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(plan.command),
        "EnvironmentVariables": dict(plan.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _AGAIN_S,
        "ProcessType": "Standard",
        "LowPriorityIO": False,
        "SoftResourceLimits": {"NumberOfFiles": _DESCRIPTORS},
        "Umask": _UMASK,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    if not plan.environment:
        del keys["EnvironmentVariables"]
    try:
        return plistlib.dumps(keys, sort_keys=False).decode()
    except (UnicodeEncodeError, ValueError):
        raise ServiceError(
            "a path of the command holds what no property list can: control characters or bytes that are not UTF-8",
            "provd start  # without a service manager; or give other paths",
        ) from None


def command_of(text: bytes) -> list[str]:
    """The words of the command of a property list; empty where it is none, or has none."""
    try:
        words = plistlib.loads(text)["ProgramArguments"]
    except (ValueError, KeyError, TypeError, plistlib.InvalidFileException):
        return []
    except Exception:  # noqa: BLE001  (expat's own error is not exported by plistlib)
        return []
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
