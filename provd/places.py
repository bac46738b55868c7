"""Where the socket, the state and the configuration are.

Rule: client and daemon ask here, so that they agree. A flag wins over provd's own variables, those over the
service manager's, those over the desktop's. Nothing is created, opened or normalised.

A state directory that was named (`--state` or `$PROVD_STATE_DIR`) takes the socket with it, unless the socket
was named too: daemons on several states never meet on one socket.
"""

from __future__ import annotations

import os
import sys

SOCKET_NAME = "provd.sock"


def socket_path(explicit: str | None = None, state: str | None = None) -> str:
    """The daemon's socket. `explicit` and `state` are the values of `--socket` and `--state`, if given.

    In turn: `--socket`, `$PROVD_SOCKET`, the state directory where one was named, `$RUNTIME_DIRECTORY`,
    `$XDG_RUNTIME_DIR/provd`, the default state directory.
    """
    if named := explicit or _variable("PROVD_SOCKET"):
        return _absolute(named)
    if named := state or _variable("PROVD_STATE_DIR"):
        return os.path.join(_absolute(named), SOCKET_NAME)
    if runtime := _first("RUNTIME_DIRECTORY"):
        return os.path.join(_absolute(runtime), SOCKET_NAME)
    if runtime := _xdg("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "provd", SOCKET_NAME)
    return os.path.join(state_dir(), SOCKET_NAME)


def state_dir(explicit: str | None = None) -> str:
    """The daemon's state directory. `explicit` is the value of `--state`, if given.

    In turn: `--state`, `$PROVD_STATE_DIR`, `$STATE_DIRECTORY`, `$XDG_STATE_HOME/provd`, the platform's place.
    """
    if named := explicit or _variable("PROVD_STATE_DIR") or _first("STATE_DIRECTORY"):
        return _absolute(named)
    if home := _xdg("XDG_STATE_HOME"):
        return os.path.join(home, "provd")
    if sys.platform == "darwin":
        return os.path.join(_home(), "Library", "Application Support", "provd")
    return os.path.join(_home(), ".local", "state", "provd")


def config_path() -> str:
    """The configuration file, whether it exists or not: `$XDG_CONFIG_HOME/provd/config.toml`."""
    base = _xdg("XDG_CONFIG_HOME") or os.path.join(_home(), ".config")
    return os.path.join(base, "provd", "config.toml")


def _variable(name: str) -> str | None:
    """An environment variable; empty is as good as unset."""
    return os.environ.get(name) or None


def _first(name: str) -> str | None:
    """The first of the directories that the service manager lists, separated by colons."""
    return (_variable(name) or "").split(":")[0] or None


def _xdg(name: str) -> str | None:
    """A base directory; a relative one is ignored, as the XDG specification asks."""
    value = _variable(name)
    return value if value and os.path.isabs(value) else None


def _home() -> str:
    return _absolute(os.path.expanduser("~"))


def _absolute(path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
