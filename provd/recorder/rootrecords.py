"""The commands that change roots: what is recorded of them.

Rule: every change of what is watched is a record, with a gap for the subtree, and takes as long with one root as with
thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from provd.core import errors, records
from provd.disk import Directory
from provd.store import Writer
from provd.store.keys import Root


class Change(StrEnum):
    """What adding a root has changed, as its gap says it."""

    ADDED = "root added"
    RULES = "rules changed"
    REPLACED = "root replaced"


def adding(directory: Directory, ignore: tuple[str, ...] | None) -> Callable[[Writer], tuple[Root, Change | None]]:
    """The command that adds a root, or gives it other rules; it returns the root and what changed, None if nothing."""
    path = directory.path

    def command(writer: Writer) -> tuple[Root, Change | None]:
        there = writer.root(path)
        rules = ignore if ignore is not None or there is None else there.ignore
        root = Root(path, directory.dev, directory.ino, rules)
        if there is not None and msgspec.structs.replace(there, gap=0) == root:
            return there, None
        if there is None:
            writer.append(records.RootChange(writer.now, records.ADDED, path))
            change = Change.ADDED
        else:
            same = (there.dev, there.ino) == (root.dev, root.ino)
            change = Change.RULES if same else Change.REPLACED
        return _gap(writer, root, change), change

    return command


def covering(path: bytes, reason: str) -> Callable[[Writer], Root | None]:
    """The command for a moment from which a root is watched in another way: a gap. None where it is no root now."""

    def command(writer: Writer) -> Root | None:
        root = writer.root(path)
        return None if root is None else _gap(writer, root, reason)

    return command


def removing(path: bytes) -> Callable[[Writer], None]:
    """The command that removes a root; raises RootMissing."""

    def command(writer: Writer) -> None:
        if writer.root(path) is None:
            shown = path.decode("utf-8", "backslashreplace")
            raise errors.RootMissing(f"{shown} is no root", "provd watch ls  # the roots")
        writer.append(records.RootChange(writer.now, records.REMOVED, path))
        writer.append(records.Gap(writer.now, path, "root removed"))
        writer.delete_root(path)

    return command


def _gap(writer: Writer, root: Root, reason: str) -> Root:
    """The root with a new gap of its own, both written."""
    gap = writer.append(records.Gap(writer.now, root.path, reason))
    root = msgspec.structs.replace(root, gap=gap)
    writer.put_root(root)
    return root
