"""Scenes that begin with what an earlier daemon left, or that are refused; and mounts that hang."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any

from hung_mount import Hung
from injected_scene import Fault, Injected, Scene
from old_stores import bring, new_home
from support import HANG, Daemon


class _Left(Injected):
    """A daemon that finds the same each time: what one before it left in its state and its root."""

    def __init__(self, **others: Any) -> None:
        super().__init__(**others)
        self._kept = os.path.join(self.home, "kept")
        self.leave()
        os.makedirs(self._kept)
        for name in ("state", "root"):
            shutil.move(os.path.join(self.home, name), self._kept)

    def leave(self) -> None:
        """Makes it, once."""
        before = Daemon(home=self.home).start()
        before.scanned().rpc("entry.put", key="before", value=1, deps=[], root=self.root)
        before.rpc("action.begin", writes=["object:held"], hold=True, op="held", root=self.root)
        before.kill9()
        before.close()

    def prepare(self) -> None:
        """Puts it where it was."""
        for name in ("state", "root"):
            shutil.rmtree(os.path.join(self.home, name), ignore_errors=True)
            shutil.copytree(os.path.join(self._kept, name), os.path.join(self.home, name))


class _CutShort(_Left):
    """The file of the store is shorter than what is in it; an earlier one was set aside too."""

    def leave(self) -> None:
        super().leave()
        with open(os.path.join(self.state, "store", "data.mdb"), "r+b") as file:
            file.truncate(5 * 4096)
        os.mkdir(os.path.join(self.state, "store.unusable-1700000000000000000"))


class _Old(_Left):
    """A store of an older format, beside a copy that is of another one."""

    def __init__(self) -> None:
        super().__init__(home=new_home())
        self._owns_home = True

    def leave(self) -> None:
        bring("1-both", self.home)
        os.rename(os.path.join(self.state, "store"), os.path.join(self.home, "another"))
        bring("1-watched", self.home)
        os.rename(os.path.join(self.home, "another"), os.path.join(self.state, "store.format-1"))


class _Migrated(_Old):
    """A store that was migrated by a daemon that ended orderly: this one needs the copy no more."""

    def leave(self) -> None:
        super().leave()
        before = Daemon(home=self.home).start()
        before.stop()
        before.close()

    def scanned(self) -> Daemon:
        """Also waits until the copy is taken away, or it is said that it is kept."""
        deadline = time.monotonic() + HANG
        while os.path.lexists(os.path.join(self.state, "store.format-1")) and "is kept" not in self.said():
            assert time.monotonic() < deadline, self.said()
        return super().scanned()


class Held(Scene):
    """Somebody held an action when the daemon was killed."""

    @classmethod
    def daemon(cls) -> Injected:
        return _Left(quick={"provd.recorder.actions": {"GRACE": 0.02}})


class Damaged(Scene):
    """The store cannot be used."""

    @classmethod
    def daemon(cls) -> Injected:
        return _CutShort()


class Migrating(Scene):
    """The store is brought to today's format."""

    @classmethod
    def daemon(cls) -> Injected:
        return _Old()


class Settling(Scene):
    """The copy of a store that was migrated is taken away."""

    @classmethod
    def daemon(cls) -> Injected:
        return _Migrated()


class _Second(Injected):
    """Its state is in use."""

    def __init__(self) -> None:
        super().__init__()
        self._first = Daemon(home=self.home).start()

    def close(self) -> None:
        self._first.close()
        super().close()


class Locked(Scene):
    """Another daemon has the state directory."""

    starts = False

    @classmethod
    def daemon(cls) -> Injected:
        return _Second()


class Unmade(Scene):
    """The state directory cannot be made, since a file lies above it."""

    starts = False

    @classmethod
    def daemon(cls) -> Injected:
        made = Injected()
        made.state = os.path.join(made.home, "file", "state")
        with open(os.path.join(made.home, "file"), "wb"):
            return made


class _Closing(Hung):
    """One that is taken away at the end."""

    def close(self) -> None:
        """Takes it away."""
        self.end()


class Hanging(Scene):
    """A file system in the root that stops answering for a while."""

    mounts = True

    def arrange(self) -> None:
        self._far = os.path.join(self.root, "far")
        os.makedirs(self._far)
        self._hung = Hung(self._far, b"content")

    def theme(self) -> None:
        far = [{"dep": "file:far/f", "digest": "absent"}]
        self.ask()
        self.request("deps.check", deps=far, root=self.root)
        self._hung.hangs = True
        told = self.request("deps.check", deps=far, timeout_ms=200, root=self.root)
        if told is not None and told["verdict"] == "fresh":
            raise Fault(f"what nobody can have read: {told}")
        self.ask()
        self._hung.end()
        late = os.path.join(self.root, "late")
        os.mkdir(late)
        self._hung = Hung(late, b"content")
        self.ask()
        other = self.elsewhere("other")
        self.request("log.clock")
        with contextlib.closing(_Closing(os.path.join(other, "other"))):  # what was given before is spent
            self.request("log.clock")
        self.request("root.add", path=late)
        self.request("log.clock")
        self.request("daemon.audit", root=self.root)
        self.request("root.remove", path=late)

    def end(self) -> None:
        self._hung.end()
        super().end()
