"""Workspaces on file systems that hide changes or give errors: answers are true or unknown, and coverage says so.

Each in a mount namespace of its own.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from typing import TYPE_CHECKING, Final

import pytest
from hung_mount import Hung
from sealing_help import in_namespace, may_mount, mount, skip
from support import Daemon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import Json

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
WAYS: Final[tuple[dict[str, Json], ...]] = ({}, {"verify": "content"}, {"verify": "log"}, {"revalidate": False})
"""All ways to ask: none may say fresh of what differs, the last two need not read what is the same."""
DEPS: Final = ("file:f", "file:g", "file:none", "dir:d", "names:d/*", "glob:d/*", "tree:d", "tree:.")


class Watched:
    """A daemon whose root is this place, and an entry for each dependency."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.ws = daemon.workspace()

    def put(self) -> None:
        """Each rests on what is there now."""
        self.kept = {dep: self.ws.digest(dep) for dep in DEPS}
        for dep in DEPS:
            assert self.ws.put(dep, dep)["verdict"]["verdict"] == "fresh", dep

    def judge(self, what: str, *changed: str) -> None:
        """Each answer is what a reading gives; `changed` are those of which it must give something else."""
        now = {dep: self.ws.digest(dep) for dep in DEPS}
        assert {dep for dep in DEPS if now[dep] != self.kept[dep]} >= set(changed), what
        for dep in DEPS:
            for way in WAYS:
                told = self.ws.check(dep, **way)
                if now[dep] != self.kept[dep]:
                    assert told["verdict"] != "fresh", (what, way, told)
                if not {"revalidate"} & way.keys():
                    assert told["verdict"] == ("fresh" if now[dep] == self.kept[dep] else "dirty"), (what, way, told)

    def uncovered(self) -> tuple[str, str]:
        """How much of the root is watched, and why not more."""
        (root,) = self.ws.rpc("root.list")["roots"]
        return root["coverage"], str(root.get("uncovered"))


@contextlib.contextmanager
def watched(home: bytes, root: bytes) -> Iterator[Watched]:
    """A daemon for this root, started and scanned."""
    daemon = Daemon(roots=[os.fsdecode(root)])
    daemon.root = os.fsdecode(root)
    try:
        yield Watched(daemon.start().scanned())
        assert daemon.alive, daemon.said()
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def write(path: bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def furnish(root: bytes) -> None:
    os.mkdir(root + b"/d")
    for name in (b"/f", b"/g", b"/d/one", b"/d/two"):
        write(root + name, b"one " + name)


def store(path: bytes, content: bytes) -> None:
    """Through a mapping whose page was stored into before: that moves no time on some file systems."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[: len(content)] = content


def layers_of_an_overlay_are_edited_behind_it(home: bytes) -> None:
    """Broken: events of what is merged are taken for all that happens to it."""
    low, up, root = home + b"/low", home + b"/up", home + b"/over"
    for path in (low, up, home + b"/work", root):
        os.mkdir(path)
    furnish(low)
    layers = b"lowerdir=%s,upperdir=%s,workdir=%s/work" % (low, up, home)
    mount("-t", "overlay", "overlay", "-o", layers, root)
    write(root + b"/g", b"in the upper one")
    with watched(home, root) as there:
        coverage, why = there.uncovered()
        assert coverage != "whole"
        assert "layers" in why
        acts: list[tuple[str, Callable[[], object], tuple[str, ...]]] = [
            ("lower, in place", lambda: write(low + b"/f", b"two /f"), ("file:f",)),
            ("upper, in place", lambda: write(up + b"/g", b"in the upper two"), ("file:g",)),
            ("lower, by a mapping", lambda: store(low + b"/f", b"333"), ("file:f",)),
            ("upper, by a mapping", lambda: store(up + b"/g", b"333"), ("file:g",)),
            ("lower, in a directory", lambda: write(low + b"/d/one", b"two"), ("glob:d/*", "tree:d")),
            ("copied up", lambda: write(root + b"/d/two", b"up"), ("glob:d/*", "tree:d")),
            ("lower, renamed", lambda: os.rename(low + b"/d/one", low + b"/d/other"), ()),
            ("upper, a file over one", lambda: write(up + b"/f", b"above"), ()),
            ("upper, a name that is new", lambda: write(up + b"/none", b"now"), ()),
            ("upper, a whiteout", lambda: os.mknod(up + b"/d/three", 0o20000, os.makedev(0, 0)), ()),
            ("upper, unlinked", lambda: os.unlink(up + b"/g"), ()),
        ]
        for what, act, changed in acts:
            there.put()
            act()
            there.judge(what, *changed)


def a_tmpfs_is_stored_into_through_mappings(home: bytes) -> None:
    """There it makes no event and moves no time. Broken: what a lease and two looks at the times show there."""
    mount("-t", "tmpfs", "none", home)
    root = home + b"/root"
    os.mkdir(root)
    furnish(root)
    with watched(home, root) as there:
        assert there.uncovered()[0] == "whole"
        there.put()
        write(root + b"/d/three", b"new")
        there.judge("a file", "dir:d", "tree:d")
        there.put()
        with open(root + b"/f", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[0:1] = mapping[0:1]
            mapping[:3] = b"two"
            for way in WAYS:
                if way.get("verify") != "log":  # who asks the log alone asks for less
                    assert there.ws.verdict("file:f", **way) != "fresh", way
            assert there.ws.found("file:f") == ("dirty", "changed")
            assert there.ws.found("file:g") == ("fresh", "same")


def a_file_cannot_be_read_and_looks_as_before(home: bytes) -> None:
    """Broken: what has the same `stat` is taken for the same."""
    root = home + b"/root"
    os.makedirs(root + b"/sick")
    write(root + b"/well", b"one")
    try:
        sick = Hung(os.fsdecode(root) + "/sick")
    except OSError as error:
        skip(f"no FUSE here: {error}")
        return
    sick.content = b"one"
    try:
        with watched(home, root) as there:
            ws = there.ws
            coverage, why = there.uncovered()
            assert coverage == "partial"
            assert "sick" in why
            for name in ("sick/f", "well"):
                assert ws.put(name, f"file:{name}")["verdict"]["verdict"] == "fresh"
            before = os.stat(root + b"/sick/f")
            sick.error = errno.EIO
            for way in WAYS:
                told = ws.check("sick/f", **way)
                assert told["verdict"] == "unknown", (way, told)
                if "revalidate" not in way:
                    assert told["why"] == "unreadable", (way, told)
                assert ws.verdict("well", **way) in {"fresh", "unknown" if "revalidate" in way else "fresh"}
            answer = ws("entry.put", key="now", value=1, deps=["file:sick/f"], as_of="put")
            assert answer["verdict"]["verdict"] == "unknown"
            sick.error, sick.content = 0, b"two"  # of which nobody was told, and no time moved
            assert os.stat(root + b"/sick/f") == before
            for way in WAYS:
                told = ws.check("sick/f", **way)
                assert told["verdict"] == ("unknown" if "revalidate" in way else "dirty"), (way, told)
            sick.content = b"one"
            assert ws.found("sick/f") == ("fresh", "same")
    finally:
        sick.end()


CASES = [
    layers_of_an_overlay_are_edited_behind_it,
    a_tmpfs_is_stored_into_through_mappings,
    a_file_cannot_be_read_and_looks_as_before,
]


@pytest.mark.parametrize("case", CASES)
def test_where(case: Callable[[bytes], None], tmp_path: os.PathLike[str]) -> None:
    in_namespace(case, os.fsencode(tmp_path))
