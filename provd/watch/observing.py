"""watchdog's side of the observer: its threads, and what it keeps to itself.

Rule: everything here runs in a thread of its own or in watchdog's, never in the loop: scheduling walks the tree,
stopping waits for threads. What happens is told through an inbox. watchdog tells handlers nothing of dropped events,
of directories that it could not watch and of threads that died, so those are caught where they pass.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, EventEmitter, ObservedWatch

from provd.core.notice import Lost
from provd.watch.inbox import Inbox

FSEVENTS_LOSSES: Final = {
    0x01: "events lost: the tree below was changed in ways that were not told one by one",
    0x02: "events lost: they came faster than they were taken",
    0x04: "events lost: the kernel dropped them",
    0x08: "events lost: their numbers began anew",
    0x20: "the root or a directory above it was moved",
    0x40: "something was mounted here",
    0x80: "something was unmounted here",
}
"""What the flags of FSEvents mean (FSEvents.h) that watchdog passes over. The first is about the event's own path."""
_MUST_SCAN: Final = 0x01

OVERFLOW: Final = "events lost: the kernel's queue overflowed"


class Event(msgspec.Struct, frozen=True):
    """One event as watchdog told it of the root that was scheduled in the round numbered `number`."""

    number: int
    event: FileSystemEvent


class Scheduled(msgspec.Struct, frozen=True):
    """watchdog watches a root from now on, or does not: then `why` says the reason."""

    number: int
    why: str = ""


class Blind(msgspec.Struct, frozen=True):
    """The directory `path` is not watched, for `why`."""

    path: bytes
    why: str


class Dead(msgspec.Struct, frozen=True):
    """A thread has ended: that of the root, or with None the one that serves all."""

    root: bytes | None
    why: str


class LostAll(msgspec.Struct, frozen=True):
    """Events of all roots were lost."""

    reason: str


Item = Event | Scheduled | Blind | Dead | LostAll | Lost
Make = Callable[[], BaseObserver]
"""Makes an observer, not started. Raises OSError."""


class _Handler(FileSystemEventHandler):
    """Puts all events of one root into the inbox. It must not raise: that would end the thread that serves all."""

    def __init__(self, inbox: Inbox[Item], number: int) -> None:
        self._inbox = inbox
        self._number = number

    def dispatch(self, event: FileSystemEvent) -> None:
        self._inbox.put(Event(self._number, event))


class Observing:
    """One observer with all its roots, in the hands of a thread of its own; the methods only leave word for that."""

    def __init__(self, inbox: Inbox[Item], make: Make = Observer) -> None:
        self._inbox = inbox
        self._make = make
        self._observer: BaseObserver | None = None
        self._watches: dict[bytes, ObservedWatch] = {}
        self._words: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="provd-watchdog", daemon=True)
        self._thread.start()

    def schedule(self, root: bytes, number: int) -> None:
        """Begins to watch `root`, anew if it is watched already; `Scheduled` tells when it is done."""
        self._words.put(lambda: self._schedule(root, number))

    def unschedule(self, root: bytes) -> None:
        """Ends watching `root`."""
        self._words.put(lambda: self._unschedule(root))

    def restart(self) -> None:
        """Lets go of the observer with all its roots; the next `schedule` makes another one."""
        self._words.put(self._drop)

    def close(self, patience: float) -> None:
        """Ends everything; does not wait for longer than `patience` seconds."""
        self._words.put(None)
        self._thread.join(patience)

    def is_alive(self) -> bool:
        """Whether the threads that serve all roots live, if there should be any."""
        observer = self._observer
        if observer is None:
            return True
        reader = getattr(observer, "_inotify_fd", None)
        return observer.is_alive() and (reader is None or bool(reader.is_alive()))

    def _work(self) -> None:
        while (word := self._words.get()) is not None:
            try:
                word()
            except Exception as e:  # noqa: BLE001  the thread goes on, and it is said
                self._inbox.put(LostAll(f"internal: {e!r}"))
        self._drop()

    def _schedule(self, root: bytes, number: int) -> None:
        self._unschedule(root)
        try:
            _must_be_readable(root)
            observer = self._observer or self._start()
            handler = _Handler(self._inbox, number)
            self._watches[root] = observer.schedule(handler, os.fsdecode(root), recursive=True)
        except Exception as e:  # noqa: BLE001  whatever it is, the root is not watched
            self._inbox.put(Scheduled(number, _reason(e)))
        else:
            self._inbox.put(Scheduled(number))

    def _start(self) -> BaseObserver:
        # It warns whenever directories are made quickly in each other; what else it logs is told by the inbox.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        for name in ("watchdog", "fsevents"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        observer = self._make()
        listen_in(observer, self._inbox)
        observer.start()
        self._observer = observer
        return observer

    def _unschedule(self, root: bytes) -> None:
        watch = self._watches.pop(root, None)
        if watch is not None and self._observer is not None:
            self._observer.unschedule(watch)

    def _drop(self) -> None:
        observer, self._observer = self._observer, None
        self._watches.clear()
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join()


def listen_in(observer: BaseObserver, inbox: Inbox[Item]) -> None:
    """Has an observer that is not started tell what it keeps to itself."""
    observer._emitter_class = telling(observer._emitter_class, inbox)  # noqa: SLF001  there is no other way in
    reader = getattr(observer, "_inotify_fd", None)
    if reader is not None:
        _listen_to_inotify(reader, inbox)


def telling(emitter: type[EventEmitter], inbox: Inbox[Item]) -> type[EventEmitter]:
    """A class of emitters like `emitter` that tells when its thread ends, and which native events mean a loss."""

    def run(self: EventEmitter) -> None:
        why = "its thread ended"
        try:
            emitter.run(self)
        except Exception as e:  # noqa: BLE001  a thread that dies is told of, not printed
            why = f"its thread died: {e!r}"
        finally:
            inbox.put(Dead(os.fsencode(self.watch.path), f"watchdog stopped watching: {why}"))

    def queue_events(self: EventEmitter, timeout: float, *native: Any) -> None:
        root = os.fsencode(self.watch.path)
        for event in native[0] if native else ():
            for lost in losses(event, root):
                inbox.put(lost)
        try:
            emitter.queue_events(self, timeout, *native)
        except Exception as e:
            inbox.put(Lost(root, f"events lost: watchdog failed with {e!r}"))
            raise

    return type(emitter.__name__, (emitter,), {"run": run, "queue_events": queue_events})


class _Native(Protocol):
    """An event of FSEvents, as watchdog's extension gives it."""

    flags: int
    path: str


def losses(event: _Native, root: bytes) -> list[Lost]:
    """What a native event of FSEvents says of events that were lost."""
    path = os.fsencode(event.path)
    inside = path.startswith(root + b"/")
    return [
        Lost(path if inside and flag == _MUST_SCAN else root, reason)
        for flag, reason in FSEVENTS_LOSSES.items()
        if event.flags & flag
    ]


def _listen_to_inotify(reader: Any, inbox: Inbox[Item]) -> None:
    """Catches the overflow, and directories that cannot be watched, at watchdog's inotify descriptor (from 7.1)."""
    handle_event, add_callback = reader.handle_event, reader.add_callback

    def handle(event: Any) -> None:
        if event.is_queue_overflow:
            inbox.put(LostAll(OVERFLOW))
        handle_event(event)

    def add(path: bytes, *arguments: Any) -> int:
        try:
            descriptor: int = add_callback(path, *arguments)
        except OSError as e:
            if e.errno not in {errno.ENOENT, errno.ENOTDIR}:  # it went meanwhile
                inbox.put(Blind(path, _reason(e)))
            raise
        if descriptor == -1:
            inbox.put(Blind(path, "no permission to watch it"))
        return descriptor

    reader.handle_event, reader.add_callback = handle, add


def _must_be_readable(root: bytes) -> None:
    """Raises OSError where the system would refuse to watch: watchdog passes over some of that."""
    with os.scandir(root):
        pass


def _reason(error: Exception) -> str:
    """Why a directory is not watched, and what helps."""
    match error:
        case OSError(errno=errno.ENOSPC):
            return "the limit of watches is reached: raise fs.inotify.max_user_watches"
        case OSError(errno=errno.EMFILE):
            return "the limit of inotify instances is reached: raise fs.inotify.max_user_instances"
        case OSError(errno=errno.EACCES):
            return "no permission to watch it"
        case OSError():
            return f"it cannot be watched: {error.strerror or error}"
        case _:
            return f"it cannot be watched: {error!r}"
