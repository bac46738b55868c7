"""A systemd unit's text: the shipped one with the real command in it, and the command of a text read back.

Rule: pure functions. What is quoted here is unquoted by systemd to exactly the words that were given; the rules are
those of systemd.service(5), "Command lines", and systemd.syntax(7), "Quoting".
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from provd.services.base import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.services.base import Plan

_CHECK: Final = " config check --quiet"
"""What the shipped units run first at a reload."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.,:=@+-]+\Z")
_ODD_PROGRAM: Final = re.compile(r"[\x00-\x1f\x7f\"'\\]")
"""What systemd takes in no name of a program, however it is quoted."""
_BY_SHELL: Final = ("/bin/sh", "-c", 'exec "$0" "$@"')
"""Starts a program of any name, and becomes it."""
_TOKEN: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|%(.)|(.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_SPACE: Final = " \t\r\n"
_PREFIXES: Final = "@-:+!"


def quoted(word: str) -> str:
    """One word of a command line or an assignment, as it stands in a unit. `$` is left to `command_line`."""
    if _PLAIN.match(word):
        return word
    return '"' + "".join(map(_escaped, word)) + '"'


def _escaped(character: str) -> str:
    if character in '\\"':
        return "\\" + character
    if character == "%":
        return "%%"
    if character < " " or character == "\x7f":
        return f"\\x{ord(character):02x}"
    return character


def _utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def command_line(words: Sequence[str]) -> str:
    """The value of `ExecStart=`; `words[0]` is the absolute path of the program.

    Raises ServiceError for a word that is not UTF-8: systemd runs it, and cannot speak of that unit any more, since
    D-Bus knows no such string.
    """
    for word in words:
        if not _utf8(word):
            shown = os.fsencode(word).decode(errors="backslashreplace")
            raise ServiceError(
                f"{shown} is not UTF-8, and no unit can hold it", "provd watch add DIR  # and install it without --root"
            )
    if _ODD_PROGRAM.search(words[0]):
        words = (*_BY_SHELL, *words)
    literally = ":" if any("$" in word for word in words) else ""  # no variable is put in for a $
    return literally + " ".join(map(quoted, words))


def assignment(name: str, value: str) -> str:
    """A line `Environment=`; raises ServiceError for a value that no unit can hold."""
    if not _utf8(value):
        message = f"${name} is not UTF-8, and systemd takes no such variable"
        raise ServiceError(message, f"provd start  # without a service manager; or give ${name} another value")
    return f"Environment={quoted(f'{name}={value}')}"


def rendered(template: str, plan: Plan) -> str:
    """The unit `template`, made to run `plan` and to check its settings with the same program at a reload.

    Raises ServiceError where it cannot be said in a unit.
    """
    lines: list[str] = []
    for line in template.rstrip("\n").split("\n"):
        if line.startswith("ExecStart="):
            lines += [assignment(name, value) for name, value in plan.environment.items()]
            lines.append(f"ExecStart={command_line(plan.command)}")
        elif line.startswith("ExecReload=") and line.endswith(_CHECK):
            lines.append(f"ExecReload={command_line([*plan.program, *_CHECK.split()])}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def override(plan: Plan) -> str:
    """A drop-in that replaces the command of a unit by the one of `plan`."""
    return f"[Service]\nExecStart=\nExecStart={command_line(plan.command)}\n"


def command_of(text: str) -> list[str]:
    """The words of the last `ExecStart=` of a unit's text; empty where there is none."""
    lines = [line.partition("=")[2].strip() for line in text.split("\n") if line.startswith("ExecStart=")]
    line = lines[-1] if lines else ""
    command = line.lstrip(_PREFIXES)
    literally = ":" in line[: len(line) - len(command)]
    words = [text if literally else text.replace("$$", "$") for text in map(os.fsdecode, _words(command))]
    return words[len(_BY_SHELL) :] if tuple(words[: len(_BY_SHELL)]) == _BY_SHELL else words


def _words(line: str) -> Iterator[bytes]:
    """The words of a command line, without quotes and escapes."""
    word: bytes | None = None
    quote = ""
    for token in _TOKEN.finditer(line):
        code, escape, specifier, plain = token.groups()
        if plain is not None and plain == quote:
            quote = ""
        elif plain in {'"', "'"} and not quote:
            quote = plain
            word = word or b""
        elif plain is not None and plain in _SPACE and not quote:
            if word is not None:
                yield word
            word = None
        else:
            word = (word or b"") + _meant(code, escape, specifier, plain)
    if word is not None:
        yield word


def _meant(code: str | None, escape: str | None, specifier: str | None, plain: str | None) -> bytes:
    """What one escape, specifier or character stands for."""
    if code is not None:
        return bytes([int(code, 16)])
    if escape is not None:
        return os.fsencode(_ESCAPES.get(escape, escape))
    if specifier is not None:
        return os.fsencode({"%": "%", "h": os.path.expanduser("~")}.get(specifier, f"%{specifier}"))
    return os.fsencode(plain or "")
