"""What an argument may be, and what a shell may complete it to: paths where one is meant, keys as the daemon has them.

Rule: what an argument is goes by its metavar, so that no command has to say it twice: any bytes where it names a place
or a program, else text. A completion never waits for long and never says why it has nothing to offer.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from provd.client import Client

T = TypeVar("T")
_PATIENCE: Final = 0.5
"""Seconds for each answer of the daemon: somebody waits with a finger on the key."""
_OFFERED: Final = 200
_KINDS: Final = ("file", "dir", "names", "glob", "tree", "object", "entry")
_OF_DIRECTORIES: Final = frozenset(("dir:", "tree:"))


class NotText(click.UsageError):
    """An argument that must be text is not UTF-8."""

    hint: Final = "only paths may be other bytes: write it in UTF-8"


class _File(click.types.StringParamType):
    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return [CompletionItem(incomplete, type="file")]


class _Directory(click.types.StringParamType):
    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return [CompletionItem(incomplete, type="dir")]


class _Text(click.types.StringParamType):
    """What must be UTF-8, whatever the locale is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; raises NotText."""
        try:
            return os.fsencode(value).decode("utf-8")
        except UnicodeDecodeError:
            raise NotText(f"{_what(param)} is not UTF-8: {value!r}", ctx) from None


class _Key(_Text):
    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return [CompletionItem(key) for key in _keys(ctx, incomplete)]


class _Dependency(click.types.StringParamType):
    """A kind, a path behind it, or a key."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        kind, colon, rest = incomplete.partition(":")
        if colon and kind == "entry":
            return [CompletionItem(f"entry:{key}") for key in _keys(ctx, rest)]
        if colon and kind == "object":
            return []
        kinds = [f"{word}:" for word in _KINDS if incomplete and word.startswith(incomplete)]
        if kinds:
            return [CompletionItem(word) for word in kinds]
        before = f"{kind}:" if colon and kind in _KINDS else ""
        sort = "dir" if before in _OF_DIRECTORIES else "file"
        return [CompletionItem(incomplete.removeprefix(before), type=sort, help=before)]


def program(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a program that is to be run, and what it is given, may be completed to: files where no program is meant."""
    begun = context.params.get(parameter.name or "")
    named = incomplete and not begun and os.path.basename(incomplete) == incomplete
    found = _programs(incomplete) if named else []
    return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]


def roots(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The watched directories that begin so, by their real paths or as seen from here."""
    from provd import hello  # noqa: PLC0415
    from provd.cli.given import names  # noqa: PLC0415  (which needs the module that this one serves)

    found = [os.fsdecode(root) for root in _told(context, names.watched) or ()]
    here = os.path.join(os.fsdecode(hello.here() or b"/"), "")
    spelled = [name for root in found for name in dict.fromkeys((root, root.removeprefix(here)))]
    return [CompletionItem(name) for name in spelled if name.startswith(incomplete) and name.isprintable()]


def open_actions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The ids of the open actions that begin so, each with whose it is."""
    found = _told(context, lambda client: client.call("action.list")["actions"]) or ()
    whose = {str(item["id"]): str(item.get("session") or item.get("note") or "") for item in found}
    return [
        CompletionItem(number, help=who if who.isprintable() else None)
        for number, who in whose.items()
        if number.startswith(incomplete)
    ]


_BY_METAVAR: Final[dict[str, click.types.StringParamType]] = {
    "FILE": _File(),
    "[FILE]": _File(),
    "PATH": _File(),
    "DIR": _Directory(),
    "DIR...": _Directory(),
    "KEY": _Key(),
    "KEY...": _Key(),
    "[KEY]...": _Key(),
    "D": _Dependency(),
    "CMD...": click.STRING,
}
_TEXT: Final = _Text()


def equip(parameters: Iterable[click.Parameter]) -> None:
    """Gives the parameters that are no numbers and choices the type of what their metavar names."""
    for parameter in parameters:
        if parameter.type is click.STRING:
            parameter.type = _BY_METAVAR.get(parameter.metavar or "", _TEXT)


def _what(parameter: click.Parameter | None) -> str:
    """How an error names a parameter."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    name = "" if parameter is None else (parameter.metavar or "").strip("[].")
    return "a key" if name == "KEY" else name or "an argument"


def _programs(prefix: str) -> list[str]:
    """The programs of $PATH whose names begin so."""
    found: set[str] = set()
    for directory in os.get_exec_path():
        with contextlib.suppress(OSError), os.scandir(directory or ".") as there:
            found |= {each.name for each in there if each.name.startswith(prefix) and _runs(each)}
    return sorted(name for name in found if name.isprintable())


def _runs(there: os.DirEntry[str]) -> bool:
    return there.is_file() and os.access(there.path, os.X_OK)


def _keys(context: click.Context, prefix: str) -> list[str]:
    """The keys that begin so, of the scope and the daemon that the line names; none where anything is in the way."""
    from provd.cli.given import names  # noqa: PLC0415  (which needs the module that this one serves)

    def asked(client: Client) -> list[str]:
        where = names.Scope(context.params.get("root"), context.params.get("scope")).params(client)
        page = client.call("entry.list", prefix=prefix, limit=_OFFERED, **where)
        return [key for entry in page["entries"] if (key := str(entry["key"])).isprintable()]

    return _told(context, asked) or []


def _told(context: click.Context, asked: Callable[[Client], T]) -> T | None:
    """What the daemon that the line names is `asked`; None where anything is in the way."""
    from provd.cli.command import Place  # noqa: PLC0415

    try:
        with Place(context.params.get("socket"), context.params.get("state")).connect(_PATIENCE) as client:
            return asked(client)
    except Exception:  # noqa: BLE001  (whatever it is, the shell's line must not be disturbed)
        return None
