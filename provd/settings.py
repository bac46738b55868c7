"""Settings: what the command line, the environment and the configuration file say, put together.

Rule: an option wins over the file, the file over the default. A file with a mistake is refused as a whole, with all
its mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from provd import configuration, places
from provd.configuration import AUTO, KEYS, File
from provd.core import errors
from provd.watch.fleet import Choice

DEFAULT: Final = "default"
FILE: Final = "file"
FLAG: Final = "flag"


class Flags(msgspec.Struct, frozen=True):
    """What the command line says beside the file, kept so that a reload finds it again. None: not said."""

    roots: tuple[bytes, ...] = ()
    backend: str | None = None
    log_format: str | None = None
    log_level: str | None = None

    def by_key(self) -> dict[str, str]:
        """Those that stand for a key of the file, and win."""
        told = {"watch.backend": self.backend, "logging.format": self.log_format, "logging.level": self.log_level}
        return {name: value for name, value in told.items() if value is not None}


class Value(msgspec.Struct, frozen=True):
    """The value of a key, and where it comes from: `default`, `file` or `flag`."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a daemon needs to know. `state`, `socket` and `config` are absolute paths, `roots` directories.

    `log_format` is None where it is left to the place that the log goes to. `map_size` is in bytes, `max_age` and
    `poll_seconds` in seconds. `values` has what these are made from, by key.
    """

    state: str
    socket: str
    config: str = ""
    roots: tuple[bytes, ...] = ()
    backend: Choice = "auto"
    poll_seconds: float = 10.0
    log_format: str | None = None
    log_file: str | None = None
    log_level: str = "info"
    map_size: int = 64 * 1024**3
    max_records: int = 10_000_000
    max_age: int = 90 * 86400
    self_check: float = 0.001
    flags: Flags = Flags()
    values: Mapping[str, Value] = {}


def effective(file: File, flags: Flags) -> dict[str, Value]:
    """The value of every key; mistakes of the file count as not said."""
    said = flags.by_key()
    found = {}
    for name, key in KEYS.items():
        if name in said:
            found[name] = Value(said[name], FLAG)
        else:
            found[name] = Value(file.values.get(name, key.default), FILE if name in file.values else DEFAULT)
    return found


def load(
    *,
    state: str | None = None,
    socket: str | None = None,
    roots: tuple[bytes, ...] = (),
    backend: str | None = None,
    log_format: str | None = None,
    log_file: str | None = None,
    log_level: str | None = None,
) -> Settings:
    """The settings of a daemon started with these options; raises InvalidParams where they or the file are wrong."""
    flags = Flags(roots, backend, log_format, log_level)
    for name, value in flags.by_key().items():
        if not KEYS[name].kind.fits(value):
            raise errors.InvalidParams(
                f"{KEYS[name].flag}: wanted {KEYS[name].kind.wanted}; there stands {value}", "provd run --help"
            )
    place = places.config_place()
    file = configuration.read(place.path, needed=place.named)
    refuse(file)
    values = effective(file, flags)

    return Settings(
        state=places.state_dir(state),
        socket=places.socket_path(socket, state),
        config=place.path,
        log_file=None if log_file is None else places.absolute(log_file),
        flags=flags,
        **_made_from(values, flags),
    )


def using(settings: Settings, values: Mapping[str, Value]) -> Settings:
    """The same settings with other values of the keys."""
    return msgspec.structs.replace(settings, **_made_from(values, settings.flags))


def _made_from(values: Mapping[str, Value], flags: Flags) -> dict[str, Any]:
    """The fields of `Settings` that the keys make."""
    return {
        "roots": (*directories(values), *flags.roots),
        "backend": cast("Choice", values["watch.backend"].value),
        "poll_seconds": float(values["watch.poll_seconds"].value),
        "log_format": None if values["logging.format"].value == AUTO else values["logging.format"].value,
        "log_level": values["logging.level"].value,
        "map_size": values["store.map_gib"].value * 1024**3,
        "max_records": values["log.max_records"].value,
        "max_age": values["log.max_age_days"].value * 86400,
        "self_check": float(values["self_check.share"].value),
        "values": values,
    }


def again(settings: Settings) -> Settings:
    """The same from what the file says now; raises InvalidParams where it is wrong."""
    flags = settings.flags
    return load(
        state=settings.state,
        socket=settings.socket,
        roots=flags.roots,
        backend=flags.backend,
        log_format=flags.log_format,
        log_file=settings.log_file,
        log_level=flags.log_level,
    )


def refuse(file: File) -> None:
    """Raises InvalidParams with all mistakes of the file, if there are any."""
    if file.mistakes:
        raise errors.InvalidParams(file.mistaken, configuration.CORRECT)


def directories(values: Mapping[str, Value]) -> tuple[bytes, ...]:
    """The roots of the file as absolute paths, in bytes."""
    found = (configuration.directory(text) for text in values["roots"].value)
    return tuple(path for path in found if path is not None)
