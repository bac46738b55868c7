"""`provd check -q KEY...` in its common form, for whoever starts a process a question.

Rule: it answers what it understands wholly, and says nothing. Every other form, every oddity and every error is left to
the command line, which asks again and says it properly. So it needs no message, and no import that takes long: typing,
socket, re (which json needs) and click each cost more than the question.
"""

from __future__ import annotations

import os
import sys

from provd import codes, hello, places

TYPE_CHECKING = False  # typing costs more than all that is here
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Final

    Json = dict[str, Any]

COMPLETE: Final = "_PROVD_COMPLETE"
"""The variable that the scripts of `provd completion` set: a shell asks what it may offer, and no command is run."""
_QUIET: Final = ("-q", "--quiet")
_VALUED: Final = ("--root", "--scope", "--socket")
_GREETING: Final = 1.0
"""Seconds for who answers to say so. The command line has more patience, and tells of its end."""
_ANSWER: Final = 3.0
"""Seconds for a verdict, which the daemon gives within two where nobody says how long it may take."""


def run(arguments: Sequence[str]) -> int | None:
    """The exit code of a command; None where the command line has to run it. Nothing is printed."""
    if arguments[:1] != ["check"] or os.environ.get(COMPLETE):
        return None
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:  # the connection would take its number
        return None
    if (asked := _read(arguments[1:])) is None:
        return None
    try:
        return _ask(*asked)
    except Exception:  # noqa: BLE001  (whatever it is, the command line meets it again and tells of it)
        return None


def about(keys: Iterable[str]) -> Json:
    """What `entry.check` is asked about, as parameters. `keys`: one or more."""
    first, *others = keys
    return {"keys": list(dict.fromkeys((first, *others)))} if others else {"key": first}


def verdicts(answer: Json, label: str) -> dict[str, Json]:
    """The verdicts of an answer by what they are about; `label` stands where the answer does not say it."""
    found: dict[str, Json] = answer["verdicts"] if "verdicts" in answer else {str(answer.get("key") or label): answer}
    return found


def _read(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
    """The keys, and the options with their values; None for what is not the common form."""
    keys: list[str] = []
    options: dict[str, str] = {}
    quiet = False
    left = iter(arguments)
    for argument in left:
        if argument in _QUIET:
            quiet = True
        elif argument in _VALUED and argument not in options:
            options[argument] = next(left, "")
        else:
            keys.append(argument)
    if not quiet or not keys or not all(map(_is_plain, (*keys, *options.values()))):
        return None
    root = options.get("--root", "/")
    if ("--root" in options and "--scope" in options) or not _is_clean(root):
        return None
    return keys, options


def _is_clean(root: str) -> bool:
    """Whether a path needs no more reading: what `..` leads out of is to be looked at."""
    return os.path.isabs(root) and os.path.normpath(root) == root and root[:2] != "//"


def _is_plain(argument: str) -> bool:
    """Whether an argument is text that needs no care: not empty, and no option."""
    return argument.isprintable() and argument.isascii() and argument[:1] not in {"", "-"}


def _ask(keys: list[str], options: dict[str, str]) -> int | None:
    """The exit code for the verdicts on some keys; None, or anything raised, where there are none to rely on."""
    from provd import fastwire  # noqa: PLC0415  (private to Python, what it rests on: it may not be there)

    with fastwire.Connection(places.socket_path(options.get("--socket")), _GREETING) as connection:
        told = connection.call("daemon.hello", {"protocol": hello.PROTOCOL}, _GREETING)
        if not hello.is_hello(told) or (place := _place(told, options)) is None:
            return None
        answer = connection.call("entry.check", about(keys) | place, _ANSWER)
    return codes.of_verdicts(verdicts(answer, "").values())


def _place(told: Json, options: dict[str, str]) -> Json | None:
    """Where the keys live, as parameters; None where the current directory is gone."""
    if "--scope" in options:
        return {"scope": options["--scope"]}
    root = options.get("--root") or hello.root_around(told)
    return None if root is None else {"root": hello.wire_path(root)}
