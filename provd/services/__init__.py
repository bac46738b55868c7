"""provd as a service of systemd or launchd.

Rule: the standard library only. What is written is made by pure functions (`units`, `plist`); what talks to a manager
goes through one small runner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys

from provd.services import itself
from provd.services.base import Kind, Plan, Service, ServiceError, option, options
from provd.services.launchd import Launchd
from provd.services.runner import Ran, Runner, run
from provd.services.systemd import Systemd, is_instance

__all__ = [
    "Kind",
    "Launchd",
    "Plan",
    "Ran",
    "Runner",
    "Service",
    "ServiceError",
    "Systemd",
    "found",
    "is_instance",
    "itself",
    "manager",
    "option",
    "options",
    "run",
]


PLATFORM = sys.platform
"""Tests say another."""


def manager(service: Service | None = None, runner: Runner = run) -> Systemd | Launchd:
    """The manager of a service; without one the manager of this user's own services on this system."""
    kind = service.manager if service is not None else ("launchd" if PLATFORM == "darwin" else "systemd-user")
    if kind == "launchd":
        return Launchd(runner)
    if service is not None and kind == "systemd-system":
        return Systemd(runner, service.name.removeprefix("provd@").removesuffix(".service"))
    return Systemd(runner)


def found(runner: Runner = run) -> Service | None:
    """The installed service of this user, or else of the system for this user; None where there is none.

    One that runs goes before one that does not. Never raises; where nothing is installed, no program is started.
    """
    candidates: list[Systemd | Launchd] = [manager(runner=runner)]
    if PLATFORM != "darwin":
        with contextlib.suppress(KeyError):
            candidates.append(Systemd(runner, pwd.getpwuid(os.getuid()).pw_name))
    services = []
    for candidate in candidates:
        with contextlib.suppress(Exception):
            services.append(candidate.service())
    installed = [service for service in services if service is not None]
    return next((service for service in installed if service.runs), installed[0] if installed else None)
