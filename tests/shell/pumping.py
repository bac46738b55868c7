"""A pump with a scripted watcher on a real directory, and a model of what the kernel would tell of operations there."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import xxhash

from provd.core.mutation import FILE, State
from provd.core.notice import Appeared, Lost, Moved, Notice, Touched, What
from provd.core.records import DigestState, Gap, Hashed, Mutation, Record
from provd.disk.states import state_of
from provd.disk.workers import Workers
from provd.recorder.mutations import Pump
from provd.store import Store
from provd.store.files import Files
from provd.watch.base import RootState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from provd.store.files import Row
    from provd.watch.base import Ignored, Uncovered

T = TypeVar("T")
C, M, A, D = What.CREATED, What.MODIFIED, What.ATTRIB, What.DELETED
DONE, PENDING, SUPERSEDED, UNREADABLE = (
    DigestState.DONE,
    DigestState.PENDING,
    DigestState.SUPERSEDED,
    DigestState.UNREADABLE,
)


def digest(content: bytes) -> str:
    """The digest of a content, as records have it."""
    return f"xxh3:{xxhash.xxh3_128_digest(content).hex()}"


class ScriptedWatcher:
    """A watcher that tells what it was given. `kernel` is what was not read yet, `memory` what was."""

    backend = "scripted"

    def __init__(self) -> None:
        self.kernel: deque[Notice] = deque()
        self.memory: deque[Notice] = deque()
        self.takes = 0

    def tell(self, *notices: Notice) -> None:
        self.kernel.extend(notices)

    def fileno(self) -> int:
        return -1

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        return iter(())

    def remove(self, root: bytes) -> None:
        pass

    def read(self) -> int:
        self.memory.extend(self.kernel)
        self.kernel.clear()
        return len(self.memory)

    def pressing(self) -> bool:
        return self.waiting()

    def waiting(self) -> bool:
        return bool(self.memory)

    def take(self, limit: int) -> list[Notice]:
        self.takes += 1
        return [self.memory.popleft() for _ in range(min(limit, len(self.memory)))]

    def check(self, *, mounts: bool = True) -> None:
        pass

    def uncovered(self, path: bytes) -> list[Uncovered]:
        return []

    def state(self, root: bytes) -> RootState:
        return RootState("scripted", "watching", "whole")

    def close(self) -> None:
        pass


class Scene:
    """A root, a store, a watcher and a pump, in a loop that runs."""

    def __init__(self, base: Any, root: bytes | None = None, watcher: Any = None, **more: Any) -> None:
        self.base = os.fsencode(base)
        self.root = root or self.base + b"/root"
        os.makedirs(self.root, exist_ok=True)
        self.store = Store(os.path.join(os.fsdecode(self.base), "store"), **more)
        self.store.start(asyncio.get_running_loop())
        self.workers = Workers()
        self.watcher: Any = watcher or ScriptedWatcher()
        self.options: dict[str, Any] = {}
        self.pump = self.new_pump()

    def new_pump(self, **more: Any) -> Pump:
        """A pump in a hurry. What it is to be like besides stays for the next one."""
        self.options |= more
        pump = Pump(self.store, self.watcher, self.workers, roots=lambda: [self.root], **self.options)
        pump.rest = 0
        pump.scanning.backoff = 0.001
        pump.owing.retry = 0.001
        return pump

    def close(self) -> None:
        self.pump.close()
        self.workers.close()
        self.store.stop()

    # files

    def path(self, name: str) -> bytes:
        return self.root + b"/" + name.encode() if name else self.root

    async def begin(self, *names: str) -> int:
        """Files that are there from the start; the head of the log when they are known."""
        for name in names:
            self.write(name)
        await self.pump.scan(self.root, first=True)
        return self.store.head

    def touch(self, name: str, what: What = What.MODIFIED, *, is_dir: bool = False) -> None:
        self.watcher.tell(Touched(self.path(name), what, is_dir))

    def write(self, name: str, content: bytes = b"x") -> bytes:
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    # what is known

    def records(self, after: int = 0) -> list[tuple[int, Record]]:
        with self.store.view() as view:
            return view.records(after, 1_000_000, 1 << 40)

    def mutations(self, after: int = 0) -> list[tuple[str, str]]:
        return [(str(r.kind), self.name(r.path)) for _, r in self.records(after) if isinstance(r, Mutation)]

    def gaps(self) -> list[tuple[str, str]]:
        return [(self.name(r.scope), r.reason) for _, r in self.records() if isinstance(r, Gap)]

    def of(self, name: str) -> list[Mutation]:
        return [r for _, r in self.records() if isinstance(r, Mutation) and r.path == self.path(name)]

    def hashed(self) -> list[Hashed]:
        return [r for _, r in self.records() if isinstance(r, Hashed)]

    def name(self, path: bytes) -> str:
        return os.fsdecode(path[len(self.root) + 1 :] if path.startswith(self.root) else path)

    def row(self, name: str) -> Row | None:
        with self.store.view() as view:
            return Files(view).get(self.path(name))

    def table(self, root: bytes | None = None) -> dict[bytes, State]:
        """What the table says is below the root."""
        with self.store.view() as view:
            return {path: row.state for path, row in Files(view).below(root or self.root)}


def on_disk(root: bytes) -> dict[bytes, State]:
    """What is below a directory."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = directory + b"/" + name
            found[path] = state_of(os.lstat(path))
    return found


def same(table: dict[bytes, State], disk: dict[bytes, State]) -> bool:
    """Whether they agree, as far as it matters."""
    return {p: _told(s) for p, s in table.items()} == {p: _told(s) for p, s in disk.items()}


def _told(state: State) -> Any:
    return (state.sort, state.size, state.mtime_ns) if state.sort == FILE else state.sort


def play(base: Any, body: Callable[[Scene], Awaitable[T]], **more: Any) -> T:
    """Runs `body` with a scene."""

    async def main() -> T:
        scene = Scene(base, **more)
        try:
            return await body(scene)
        finally:
            scene.close()

    return asyncio.run(main())


class Kernel(ScriptedWatcher):
    """Operations on real files, and what inotify would tell of them: a directory tells only when it is watched.

    It is watched when what told of it is taken, so that what happens in it before is found by listing it.
    """

    def __init__(self, root: bytes) -> None:
        super().__init__()
        self.root = root
        self.named: set[bytes] = set()
        self._watched: dict[int, bytes] = {}
        self._raw: deque[tuple[str, int, bytes, int, int, bytes]] = deque()
        self._kernel: deque[tuple[str, int, bytes, int, int, bytes]] = deque()
        self._look_around()

    # what is done

    def _event(self, what: str, path: bytes, ino: int, target: bytes = b"") -> None:
        self.named.add(path)
        parent = _ino(os.path.dirname(path))
        other = _ino(os.path.dirname(target)) if target else 0
        if target:
            self.named.add(target)
        known_here, known_there = parent in self._watched, other in self._watched
        if what == "move" and known_here and known_there:
            self._kernel.append((what, parent, os.path.basename(path), ino, other, os.path.basename(target)))
        elif what == "move":
            if known_here:
                self._kernel.append(("delete", parent, os.path.basename(path), ino, 0, b""))
            if known_there:
                self._kernel.append(("create", other, os.path.basename(target), ino, 0, b""))
        elif known_here:
            self._kernel.append((what, parent, os.path.basename(path), ino, 0, b""))

    def write(self, path: bytes, content: bytes) -> None:
        was = os.path.lexists(path)
        with open(path, "wb") as file:
            file.write(content)
        if not was:
            self._event("create", path, 0)
        self._event("modify", path, 0)

    def mkdir(self, path: bytes) -> None:
        os.mkdir(path)
        self._event("create", path, _ino(path))

    def symlink(self, path: bytes) -> None:
        os.symlink(b"nowhere/at/all", path)
        self._event("create", path, 0)

    def chmod(self, path: bytes) -> None:
        os.chmod(path, 0o700 | (~os.stat(path).st_mode & 0o001))
        self._event("attrib", path, _ino(path) if os.path.isdir(path) else 0)

    def remove(self, path: bytes) -> None:
        """Like rm -rf."""
        if os.path.isdir(path) and not os.path.islink(path):
            for name in sorted(os.listdir(path)):
                self.remove(path + b"/" + name)
            ino = _ino(path)
            self._event("delete", path, ino)
            os.rmdir(path)
        else:
            self._event("delete", path, 0)
            os.unlink(path)

    def rename(self, source: bytes, path: bytes) -> None:
        ino = _ino(source) if os.path.isdir(source) and not os.path.islink(source) else 0
        self._event("move", source, ino, path)
        os.rename(source, path)

    def take_out(self, path: bytes, outside: bytes) -> None:
        ino = _ino(path) if os.path.isdir(path) and not os.path.islink(path) else 0
        self._event("delete", path, ino)
        os.rename(path, outside)

    def take_in(self, outside: bytes, path: bytes) -> None:
        os.rename(outside, path)
        self._event("create", path, _ino(path) if os.path.isdir(path) and not os.path.islink(path) else 0)

    def overflow(self) -> None:
        """What was not read is lost."""
        for _, parent, name, _, other, target in self._kernel:
            for directory, last in ((parent, name), (other, target)):
                lost = self._watched.get(directory, b"") + b"/" + last  # with all below, of which nothing was told
                self.named = {path for path in self.named if not (path + b"/").startswith(lost + b"/")}
        self._kernel.clear()
        self._kernel.append(("lost", 0, b"", 0, 0, b""))

    def restart(self) -> None:
        """Another watcher on the same directory."""
        self._kernel.clear()
        self._raw.clear()
        self.named.clear()
        self._look_around()

    def _look_around(self) -> None:
        self._watched = {_ino(self.root): self.root}
        for directory, directories, _ in os.walk(self.root):
            for name in directories:
                path = directory + b"/" + name
                if not os.path.islink(path):
                    self._watched[_ino(path)] = path

    # what is told

    def read(self) -> int:
        self._raw.extend(self._kernel)
        self._kernel.clear()
        return len(self._raw)

    def waiting(self) -> bool:
        return bool(self._raw)

    def take(self, limit: int) -> list[Notice]:
        self.takes += 1
        notices: list[Notice] = []
        while self._raw and len(notices) < limit:
            notices += self._notices(*self._raw.popleft())
        return notices

    def _notices(self, what: str, parent: int, name: bytes, ino: int, other: int, target: bytes) -> list[Notice]:
        if what == "lost":
            self._look_around()
            return [Lost(self.root, "lost")]
        here, there = self._watched.get(parent), self._watched.get(other)
        if what == "move" and here is not None and there is not None:
            source, path = here + b"/" + name, there + b"/" + target
            if ino:
                self._renamed(source, path)
            moved: list[Notice] = [Moved(source, path, bool(ino))]
            return moved + (self._watch(path) if ino and ino not in self._watched else [])
        if what == "move":
            what, here, name = ("delete", here, name) if here is not None else ("create", there, target)
        if here is None:
            return []
        path = here + b"/" + name
        if what == "create":
            return [Touched(path, What.CREATED, bool(ino)), *(self._watch(path) if ino else [])]
        if what == "delete":
            if ino:
                self._watched = {i: p for i, p in self._watched.items() if not (p + b"/").startswith(path + b"/")}
            return [Touched(path, What.DELETED, bool(ino))]
        return [Touched(path, What.MODIFIED if what == "modify" else What.ATTRIB, bool(ino))]

    def _renamed(self, source: bytes, path: bytes) -> None:
        below = source + b"/"
        self._watched = {
            i: path + p[len(source) :] if (p + b"/").startswith(below) else p for i, p in self._watched.items()
        }

    def _watch(self, path: bytes) -> list[Notice]:
        """The directory that lies there now is watched, with all below it."""
        if not os.path.isdir(path) or os.path.islink(path):
            return []
        ino = _ino(path)
        found: list[Notice] = [Appeared(path)]
        was = self._watched.get(ino)
        if was == path:
            return []
        if was is not None:  # it was moved into a directory that was not watched
            self._renamed(was, path)
            return [Moved(was, path, is_dir=True)]
        self._watched[ino] = path
        for name in sorted(os.listdir(path)):
            found += self._watch(path + b"/" + name)
        return found


def _ino(path: bytes) -> int:
    return os.lstat(path).st_ino
