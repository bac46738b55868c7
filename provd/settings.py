"""Settings: what the command line, the environment and the configuration file say.

Rule: an unknown key or a wrong type is an error that names the file, the key and what may stand there.
"""

from __future__ import annotations

import os
import tomllib
from typing import Annotated, get_args

import msgspec

from provd import places
from provd.core import errors
from provd.watch.fleet import Choice


class _Store(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    map_gib: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 64


class _Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_records: Annotated[int, msgspec.Meta(ge=1000)] = 10_000_000
    max_age_days: Annotated[int, msgspec.Meta(ge=1)] = 90


class _Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backend: Choice = "auto"
    poll_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=86400)] = 10.0


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    store: _Store = _Store()
    log: _Log = _Log()
    watch: _Watch = _Watch()
    roots: list[str] = []


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a daemon needs to know. `state` and `socket` are absolute paths, `roots` absolute directories.

    `map_size` is in bytes, `max_age` and `poll_seconds` in seconds.
    """

    state: str
    socket: str
    roots: tuple[bytes, ...] = ()
    backend: Choice = "auto"
    poll_seconds: float = 10.0
    log_format: str | None = None
    log_file: str | None = None
    map_size: int = 64 * 1024**3
    max_records: int = 10_000_000
    max_age: int = 90 * 86400


def _directory(text: str) -> bytes:
    """A root of the file as an absolute path; `~` is the home directory."""
    return os.fsencode(os.path.join(os.getcwd(), os.path.expanduser(text)))


def _choice(backend: str) -> Choice:
    """The way of watching of that name; raises InvalidParams."""
    choices: tuple[Choice, ...] = get_args(Choice)
    known = next((choice for choice in choices if choice == backend), None)
    if known is None:
        raise errors.InvalidParams(f"there is no backend {backend!r}", f"one of {', '.join(choices)}")
    return known


def load(
    *,
    state: str | None = None,
    socket: str | None = None,
    roots: tuple[bytes, ...] = (),
    backend: str | None = None,
    log_format: str | None = None,
    log_file: str | None = None,
) -> Settings:
    """The settings of a daemon started with these options; raises InvalidParams where the file is wrong."""
    path = places.config_path()
    try:
        with open(path, "rb") as f:
            given = msgspec.convert(tomllib.load(f), _File)
    except FileNotFoundError:
        given = _File()
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as e:
        raise errors.InvalidParams(f"{path}: {e}", "correct it; docs/configuration.md has the keys") from None
    return Settings(
        state=places.state_dir(state),
        socket=places.socket_path(socket, state),
        roots=(*map(_directory, given.roots), *roots),
        backend=given.watch.backend if backend is None else _choice(backend),
        poll_seconds=given.watch.poll_seconds,
        log_format=log_format,
        log_file=None if log_file is None else os.path.join(os.getcwd(), log_file),
        map_size=given.store.map_gib * 1024**3,
        max_records=given.log.max_records,
        max_age=given.log.max_age_days * 86400,
    )
