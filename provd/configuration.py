"""The configuration file: its keys, what may stand there, and all that is wrong with one.

Rule: this is the one place that knows the keys. Nothing heavy is imported, since the command line reads the file too,
and nothing is refused here: what is wrong is a value like any other, told by file, line and key.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from dataclasses import dataclass, field, replace
from typing import Any, Final

_MOST: Final = 1024 * 1024
"""Bytes of a file; more is no configuration."""
_LARGEST: Final = 2**63 - 1
"""The largest integer of TOML."""
_NEAR: Final = 0.65
"""How alike a wrong name and its suggestion must be."""
_SHOWN: Final = 40


@dataclass(frozen=True)
class Whole:
    """An integer from `low` to `high`; None is no limit."""

    low: int
    high: int | None = None

    @property
    def wanted(self) -> str:
        """What may stand there."""
        return f"integer, {self.low} to {self.high}" if self.high is not None else f"integer, at least {self.low}"

    def fits(self, value: object) -> bool:
        """Whether `value` may stand there."""
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return self.low <= value <= (_LARGEST if self.high is None else self.high)


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, with or without a fraction."""

    low: float
    high: float

    @property
    def wanted(self) -> str:
        """What may stand there."""
        return f"number, {self.low:g} to {self.high:g}"

    def fits(self, value: object) -> bool:
        """Whether `value` may stand there; `nan` may not."""
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class Word:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """What may stand there."""
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    def fits(self, value: object) -> bool:
        """Whether `value` may stand there."""
        return value in self.words


@dataclass(frozen=True)
class Directories:
    """A list of directories, absolute or below a home directory."""

    wanted: str = "list of absolute paths"

    def fits(self, value: object) -> bool:
        """Whether `value` may stand there."""
        return isinstance(value, list) and all(isinstance(part, str) and directory(part) for part in value)


@dataclass(frozen=True)
class Key:
    """A key: what may stand there, its default, its meaning as docs/configuration.md has it.

    `flag` is the option of `provd run` that says the same and wins. `reloads`: a running daemon takes a new value.
    """

    name: str
    kind: Whole | Number | Word | Directories
    default: Any
    meaning: str
    flag: str = ""
    reloads: bool = True


AUTO: Final = "auto"
BACKENDS: Final = (AUTO, "inotify", "watchdog", "poll")
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = (AUTO, "console", "json")

KEYS: Final[dict[str, Key]] = {
    key.name: key
    for key in (
        Key("roots", Directories(), [], "directories to watch beside those of `--root`; `~` is the home directory"),
        Key(
            "store.map_gib",
            Whole(1, 65536),
            64,
            "address space for the store, in GiB; the file is as long as what it holds",
            reloads=False,
        ),
        Key("log.max_records", Whole(1000), 10_000_000, "records kept; older ones are trimmed"),
        Key("log.max_age_days", Whole(1, 100_000), 90, "days for which records are kept"),
        Key("watch.backend", Word(BACKENDS), "auto", "how roots are watched", flag="--backend", reloads=False),
        Key("watch.poll_seconds", Number(0.1, 86400), 10.0, "seconds between two scans of a polled root"),
        Key("self_check.share", Number(0, 1), 0.001, "share of the answers by seals that are read in whole afterwards"),
        Key("logging.level", Word(LEVELS), "info", "the least that the daemon logs", flag="--log-level"),
        Key(
            "logging.format",
            Word(FORMATS),
            AUTO,
            "how it logs; `auto`: in the journal's own fields under systemd, else as `console`",
            flag="--log-format",
            reloads=False,
        ),
    )
}
CORRECT: Final = "provd config check  # lists what is wrong; provd config show lists the keys"
SECTIONS: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name))


@dataclass(frozen=True)
class Mistake:
    """Something that cannot stand in the file. `key` is "" and `line` None where none can be named."""

    message: str
    key: str = ""
    line: int | None = None

    def told(self, path: str = "") -> str:
        """The mistake with its place, as compilers tell it; without `path` as one more of the same file."""
        if not path:
            return f"line {self.line}: {self.message}" if self.line is not None else self.message
        return f"{path}:{self.line}: {self.message}" if self.line is not None else f"{path}: {self.message}"


@dataclass(frozen=True)
class File:
    """What the file at `path` says: the values of those keys that are right, the mistakes, where each stands."""

    path: str
    there: bool
    values: dict[str, Any] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def mistaken(self) -> str:
        """All its mistakes in a line; empty where there are none."""
        return "; ".join(mistake.told("" if at else self.path) for at, mistake in enumerate(self.mistakes))


def directory(text: str) -> bytes | None:
    """The directory that a root of the file names, in bytes (the file is UTF-8); None where it is not absolute."""
    try:
        path = os.path.expanduser(text.encode())
    except ValueError:  # no user is looked up by a name that is not ASCII, or has a NUL
        return None
    return path if os.path.isabs(path) else None


def read(path: str, *, needed: bool = False) -> File:
    """Reads the file; one that is not there says nothing, or is a mistake where it is `needed`."""
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError) as e:
        absence = (Mistake(f"it cannot be read: {e.strerror}"),) if needed else ()
        return File(path, there=False, mistakes=absence)
    except OSError as e:
        return File(path, there=True, mistakes=(Mistake(f"it cannot be read: {e.strerror or e}"),))
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        return File(path, there=True, mistakes=(Mistake(f"byte {e.start} is not UTF-8"),))
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        return File(path, there=True, mistakes=(_no_toml(e, text),))
    lines = _lines(text)
    values, mistakes = _judged(given, lines)
    return File(path, there=True, values=values, mistakes=tuple(mistakes), lines=lines)


def with_roots(file: File) -> File:
    """The same file; a root that is no directory that can be seen is a mistake, as it is to a daemon that starts."""
    named = {text: directory(text) for text in file.values.get("roots", ())}
    missing = [text for text, path in named.items() if path is None or b"\0" in path or not os.path.isdir(path)]
    line = file.lines.get("roots")
    mistakes = (Mistake(f"roots: {text} is no directory that can be seen", "roots", line) for text in missing)
    return replace(file, mistakes=(*file.mistakes, *mistakes))


def _content(path: str) -> bytes:
    """The bytes of the file. One that would never end, or never begin, is refused with OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "it is a directory")
        if stat.S_ISFIFO(mode):  # a reload would find nothing in it
            raise OSError(None, "it is a pipe, not a file")
        content = file.read(_MOST + 1) or b""
    if len(content) > _MOST:
        raise OSError(None, "it is longer than 1 MiB")
    return content


def _no_toml(error: Exception, text: str) -> Mistake:
    """What the parser says of `text`; it tells where in words."""
    said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", said)
    if found is None:
        return Mistake(f"this is no TOML: {said}")
    line = int(found[1]) if found[1] else text.removesuffix("\n").count("\n") + 1  # no other sign ends one in TOML
    return Mistake(f"this is no TOML: {said[: found.start()]}", line=line)


def _judged(given: dict[str, Any], lines: dict[str, int]) -> tuple[dict[str, Any], list[Mistake]]:
    """The values that may stand, by key, and what is wrong with the others."""
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for name, value in _flat(given):
        key = KEYS.get(name)
        if key is not None and key.kind.fits(value):
            values[name] = value
            continue
        if key is not None:
            message = f"{name}: wanted is {_article(key.kind.wanted)}; there stands {_shown(value)}"
        elif name in SECTIONS:
            message = f"{name}: wanted is a section [{name}]; there stands {_shown(value)}"
        else:
            word = "section" if isinstance(value, dict) else "key"
            message = f"{name}: there is no such {word}, {_suggestion(name, value)}"
        mistakes.append(Mistake(message, name, lines.get(name)))
    return values, mistakes


def _flat(given: dict[str, Any]) -> list[tuple[str, Any]]:
    """The keys by their whole names; a section that there is not stands for all that is in it."""
    found: list[tuple[str, Any]] = []
    for name, value in given.items():
        if name in SECTIONS and isinstance(value, dict):
            found += [(f"{name}.{inner}", part) for inner, part in value.items()]
        else:
            found.append((name, value))
    return found


def _suggestion(name: str, value: object) -> str:
    """The nearest name that there is: of a section's key one of its own or of another's; of a section that is like none
    the one that has what stands in it. Where nothing is near, all that there are.
    """
    section, _, asked = name.rpartition(".")
    own = {key.removeprefix(f"{section}."): key for key in KEYS if section and key.startswith(f"{section}.")}
    other = {key.rpartition(".")[2]: key for key in KEYS}
    whole = {re.sub(r"\W", "_", key): key for key in KEYS}  # log_level, as the options and other programs have it
    places = {} if section else {each: f"[{each}]" for each in SECTIONS}  # it stands in a section that there is
    for names in (own, other | places, {} if section else whole):
        if near := _nearest(asked, names):
            return f"did you mean {near}?"
    inside = value if isinstance(value, dict) else {}
    if near := next(filter(None, (_nearest(each, own | other) for each in inside)), None):
        return f"did you mean {near}?"
    every = ", ".join(f"[{each}]" for each in SECTIONS)
    alone = ", ".join(key for key in KEYS if "." not in key)
    there = every if isinstance(value, dict) else f"{alone}, {every}"
    return f"[{section}] has {', '.join(own)}" if own else f"there are {there}"


def _nearest(asked: str, names: dict[str, str]) -> str | None:
    """What the most alike of the names stands for; None where none is alike enough."""
    near = difflib.get_close_matches(asked, names, n=1, cutoff=_NEAR)
    return names[near[0]] if near else None


def _article(wanted: str) -> str:
    """What is wanted, in a sentence."""
    begun = wanted.partition(",")[0].partition(" ")[0]
    return {"integer": "an ", "number": "a ", "list": "a "}.get(begun, "") + wanted


def _shown(value: object) -> str:
    """A value as the file may have it, shortened."""
    if isinstance(value, dict):
        return "a section"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:  # a date, or a list with one
        text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


_HEADER: Final = re.compile(r"\s*\[{1,2}([^\[\]#=]+)\]{1,2}\s*(?:#.*)?$")
_LINE: Final = re.compile(r"""\s*([\w."'\s-]+?)\s*=""")


def _lines(text: str) -> dict[str, int]:
    """On which line each key and section stands first, as far as that can be seen without taking TOML apart."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            section = _bare(header[1])
            found.setdefault(section, number)
            found.setdefault(section.partition(".")[0], number)
        elif begun := _LINE.match(line):
            name = _bare(begun[1])
            found.setdefault(f"{section}.{name}" if section else name, number)
            found.setdefault(section or name.partition(".")[0], number)
    return found


def _bare(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
