"""A peer for `benchmarks/watch`: watchdog's Observer as its users use it, in a process of its own.

    observer.py ROOT

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

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

QUIET = 2.0


class Told(FileSystemEventHandler):
    """What was told until now."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.events = 0
        self.at = time.monotonic()
        self.lock = threading.Lock()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Keeps the paths that an event names."""
        with self.lock:
            self.events += 1
            self.at = time.monotonic()
            self.paths.update(os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)


def main() -> None:
    """See the module."""
    root, told, observer = sys.argv[1], Told(), Observer()
    observer.schedule(told, root, recursive=True)
    observer.start()
    before = {os.path.join(at, name) for at, directories, files in os.walk(root) for name in directories + files}
    print("ready", flush=True)
    for _ in sys.stdin:
        asked = time.monotonic()
        while time.monotonic() - max(told.at, asked) < QUIET:
            time.sleep(0.1)
        there = {os.path.join(at, name) for at, directories, files in os.walk(root) for name in directories + files}
        with told.lock:
            missing = len(there - before - told.paths)
            row = {"events": told.events, "missing": missing, "quiet_s": max(0.0, told.at - asked)}
        print(json.dumps(row), flush=True)
    observer.stop()
    observer.join()


if __name__ == "__main__":
    main()
