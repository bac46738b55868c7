"""provd as a service of systemd or launchd.

Rule: the standard library only. What is written is made by pure functions (`units`, `plist`); what talks to a manager
goes through one small runner.
"""

from __future__ import annotations

from provd.services.base import Kind, Plan, Service, ServiceError
from provd.services.running import Ran, Runner, run

__all__ = ["Kind", "Plan", "Ran", "Runner", "Service", "ServiceError", "found", "run"]


def found(runner: Runner = run) -> Service | None:
    """The installed service of this user, or of the system for this user; None where there is none. Never raises."""
    del runner
    return None
