"""The sites that no scene passes, and why.

Rule: a function is named, not a place in it; what is never passed and not named here is found, and so is a name that
is no function with a site any more.
"""

from __future__ import annotations

from typing import Final

APART: Final[dict[str, tuple[str, ...]]] = {}
"""Functions, as a site begins, by the reason."""


def unexplained(known: set[str], never: set[str]) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Of sites that are never passed: those of each reason, those of none; and the names that explain nothing."""
    reasons = {name: reason for reason, names in APART.items() for name in names}
    why: dict[str, list[str]] = {reason: [] for reason in APART}
    unknown = []
    for site in sorted(never):
        name = next((name for name in reasons if f"{site}:".startswith(f"{name}:")), None)
        if name is None:
            unknown.append(site)
        else:
            why[reasons[name]].append(site)
    gone = [name for name in reasons if not any(f"{site}:".startswith(f"{name}:") for site in known)]
    return why, unknown, gone
