"""The scenes that are played, in turn: a site fails in the first one that passes it."""

from __future__ import annotations

from typing import Final

from injected_asking import Asking, Carrying, Checking, Declaring, Streaming
from injected_places import Failing, Managing, Moving, Observing, Polling
from injected_scene import Scene
from injected_starts import Damaged, Hanging, Held, Locked, Migrating, Settling, Unmade

SCENES: Final[tuple[type[Scene], ...]] = (
    *(Scene, Asking, Declaring, Carrying, Checking, Streaming),
    *(Managing, Polling, Observing, Moving, Failing),
    *(Held, Damaged, Migrating, Settling, Locked, Unmade, Hanging),
)
