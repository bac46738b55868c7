"""A peer for `benchmarks/watch`: watchdog's Observer or watchfiles, as their users use them, in a process of its own.

    observer.py watchdog|watchfiles ROOT

Prints `ready` when it watches. At each line of standard input it waits until nothing was told for two seconds and
prints one line of JSON: `events` told, `missing` paths that are below ROOT on the disk and that no event named,
`quiet_s` seconds from the question to the last event.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable

QUIET = 2.0


class Told:
    """What was told until now."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.events = 0
        self.at = time.monotonic()
        self.lock = threading.Lock()

    def add(self, paths: Iterable[str]) -> None:
        """One event that names these paths."""
        with self.lock:
            self.events += 1
            self.at = time.monotonic()
            self.paths.update(paths)


def watchdog(root: str, told: Told) -> None:
    """Returns when its Observer watches."""
    from watchdog.events import FileSystemEvent, FileSystemEventHandler  # noqa: PLC0415  only one of the two is used
    from watchdog.observers import Observer  # noqa: PLC0415

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            told.add(os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)

    observer = Observer()
    observer.daemon = True
    observer.schedule(Handler(), root, recursive=True)
    observer.start()


def watchfiles(root: str, told: Told) -> None:
    """Returns when it watches; nothing is filtered out."""
    from watchfiles import watch  # noqa: PLC0415  only one of the two is used

    ready = threading.Event()

    def follow() -> None:
        for changes in watch(root, watch_filter=None, yield_on_timeout=True, rust_timeout=100):
            ready.set()  # it yields nothing for the first time when it has waited, and so watches
            for _, path in changes:
                told.add([path])

    threading.Thread(target=follow, daemon=True).start()
    ready.wait()


def below(root: str) -> set[str]:
    """All paths below a directory."""
    return {os.path.join(at, name) for at, directories, files in os.walk(root) for name in directories + files}


def main() -> None:
    """See the module."""
    name, root = sys.argv[1:]
    told = Told()
    {"watchdog": watchdog, "watchfiles": watchfiles}[name](root, told)
    before = below(root)
    print("ready", flush=True)
    for _ in sys.stdin:
        asked = time.monotonic()
        while time.monotonic() - max(told.at, asked) < QUIET:
            time.sleep(0.1)
        there = below(root)
        with told.lock:
            missing = len(there - before - told.paths)
            row = {"events": told.events, "missing": missing, "quiet_s": max(0.0, told.at - asked)}
        print(json.dumps(row), flush=True)
    os._exit(0)  # both have threads that would be waited for


if __name__ == "__main__":
    main()
