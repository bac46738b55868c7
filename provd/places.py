"""Where the socket, the state and the configuration are, and why there.

Rule: client and daemon ask here, so that they agree. A flag wins over provd's own variables, those over the
service manager's, those over the desktop's. Nothing is created, opened or normalised.

A state directory that was named (`--state` or `$PROVD_STATE_DIR`) takes the socket with it, unless the socket
was named too: daemons on several states never meet on one socket.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys

TYPE_CHECKING = False  # typing would be most of what a question asked as a whole process costs
if TYPE_CHECKING:
    from typing import Self

SOCKET_NAME = "provd.sock"
DESKTOP_RUNTIME = "/run/user"
"""Where `$XDG_RUNTIME_DIR` is, by the user's number, under systemd."""
SYSTEM_SOCKETS = "/run/provd"
"""Where the instances of the system's unit have their sockets, by the user's name."""
LOCK_NAME = "lock"
STORE_NAME = "store"
LOG_NAME = "provd.log"
START_LOCK_NAME = "start.lock"
UNUSABLE = ".unusable-"
"""Between the store's name and a time: a store that could not be opened, put aside."""
SAVE = "provd export --all > FILE && provd restart && provd import FILE"
"""How what only an open store has is kept, where the next start would not find it."""
OF_FORMAT = ".format-"
"""Between the store's name and a number: a store of an older format."""
_OURS = frozenset((SOCKET_NAME, LOCK_NAME, STORE_NAME, LOG_NAME, START_LOCK_NAME))
_OURS_BEGIN = (f"{LOG_NAME}.", f"{STORE_NAME}{UNUSABLE}", f"{STORE_NAME}{OF_FORMAT}")
_CONFIG_NAME = "config.toml"
_USERS = "the system's list of users"


class Place(tuple[str, str]):
    """An absolute path, and what says so: an option, a variable (`$NAME`), or the system's list."""

    __slots__ = ()

    def __new__(cls, path: str, source: str) -> Self:
        """Of both."""
        return super().__new__(cls, (path, source))

    @property
    def path(self) -> str:
        """The path itself."""
        return self[0]

    @property
    def source(self) -> str:
        """What says so."""
        return self[1]

    @property
    def named(self) -> bool:
        """Whether somebody named this very path for provd."""
        return self.source.startswith(("--", "$PROVD_"))


def socket_path(explicit: str | None = None, state: str | None = None) -> str:
    """The path of `socket_place`."""
    return socket_place(explicit, state).path


def system_socket(user: str) -> str:
    """The socket of the system's unit for a user."""
    return os.path.join(SYSTEM_SOCKETS, user, SOCKET_NAME)


def state_dir(explicit: str | None = None) -> str:
    """The path of `state_place`."""
    return state_place(explicit).path


def config_path() -> str:
    """The path of `config_place`."""
    return config_place().path


def socket_place(explicit: str | None = None, state: str | None = None) -> Place:
    """The daemon's socket. `explicit` and `state` are the values of `--socket` and `--state`, if given.

    In turn: `--socket`, `$PROVD_SOCKET`, the state directory where one was named, `$RUNTIME_DIRECTORY`,
    `$XDG_RUNTIME_DIR/provd`, the state directory.
    """
    if explicit:
        return Place(absolute(explicit), "--socket")
    if named := _variable("PROVD_SOCKET"):
        return Place(absolute(named), "$PROVD_SOCKET")
    return _unnamed_socket(state)


def usual_socket() -> str:
    """The daemon's socket where nothing names it: that of `socket_place` if `$PROVD_SOCKET` had no value."""
    return _unnamed_socket(None).path


def _unnamed_socket(state: str | None) -> Place:
    if state or _variable("PROVD_STATE_DIR"):
        directory, source = state_place(state)
        return Place(os.path.join(directory, SOCKET_NAME), source)
    if runtime := _first("RUNTIME_DIRECTORY"):
        return Place(os.path.join(absolute(runtime), SOCKET_NAME), "$RUNTIME_DIRECTORY")
    if runtime := _xdg("XDG_RUNTIME_DIR"):
        return Place(os.path.join(runtime, "provd", SOCKET_NAME), "$XDG_RUNTIME_DIR")
    directory, source = state_place()
    return Place(os.path.join(directory, SOCKET_NAME), source)


def state_place(explicit: str | None = None) -> Place:
    """The daemon's state directory. `explicit` is the value of `--state`, if given.

    In turn: `--state`, `$PROVD_STATE_DIR`, `$STATE_DIRECTORY`, `$XDG_STATE_HOME/provd`, `~/.local/state/provd`
    (on macOS `~/Library/Application Support/provd`).
    """
    if explicit:
        return Place(absolute(explicit), "--state")
    if named := _variable("PROVD_STATE_DIR"):
        return Place(absolute(named), "$PROVD_STATE_DIR")
    if named := _first("STATE_DIRECTORY"):
        return Place(absolute(named), "$STATE_DIRECTORY")
    if home := _xdg("XDG_STATE_HOME"):
        return Place(os.path.join(home, "provd"), "$XDG_STATE_HOME")
    if sys.platform == "darwin":
        return _in_home("Library", "Application Support", "provd")
    return _in_home(".local", "state", "provd")


def config_home() -> Place:
    """The directory in which every program of this user has its configuration, whatever provd's own variables say.

    In turn: `$XDG_CONFIG_HOME`, `~/.config`.
    """
    if base := _xdg("XDG_CONFIG_HOME"):
        return Place(base, "$XDG_CONFIG_HOME")
    return _in_home(".config")


def config_place() -> Place:
    """The configuration file, whether it exists or not.

    In turn: `$PROVD_CONFIG`, `$CONFIGURATION_DIRECTORY`, `$XDG_CONFIG_HOME/provd`, `~/.config/provd`.
    """
    if named := _variable("PROVD_CONFIG"):
        return Place(absolute(named), "$PROVD_CONFIG")
    if directory := _first("CONFIGURATION_DIRECTORY"):
        return Place(os.path.join(absolute(directory), _CONFIG_NAME), "$CONFIGURATION_DIRECTORY")
    base, source = config_home()
    return Place(os.path.join(base, "provd", _CONFIG_NAME), source)


def is_ours(name: str) -> bool:
    """Whether provd itself makes a file of this name in its state directory."""
    return name in _OURS or name.startswith(_OURS_BEGIN)


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


def _in_home(*names: str) -> Place:
    """A path in the home directory: `$HOME`, else what the system knows of this user; `/` for a stranger.

    Nobody but root can write to `/`: whoever needs a place there is told so, by its path.
    """
    if home := _variable("HOME"):
        return Place(os.path.join(absolute(home), *names), "$HOME")
    try:
        known = absolute(pwd.getpwuid(os.getuid()).pw_dir or "/")
    except KeyError:
        known = "/"
    return Place(os.path.join(known, *names), _USERS)


def absolute(path: str) -> str:
    """The path from the root on. Where the current directory is gone it stays relative, and opening it fails."""
    if os.path.isabs(path):
        return path
    try:
        return os.path.join(os.getcwd(), path)
    except FileNotFoundError:
        return path


def shut(path: str) -> str:
    """The directory of this user's, `path` or one above it, that its mode keeps him out of; empty where there is none.

    Of those above only searching counts, of `path` itself, where it is a directory, all.
    """
    user = os.geteuid()
    at = path.find("/", 1)
    above = []
    while at >= 0:
        above.append(path[:at])
        at = path.find("/", at + 1)
    for directory, needed in (*((each, stat.S_IXUSR) for each in above), (path, stat.S_IRWXU)):
        try:
            status = os.stat(directory)
        except OSError:
            return ""
        if user and status.st_uid == user and stat.S_ISDIR(status.st_mode) and status.st_mode & needed != needed:
            return directory
    return ""
