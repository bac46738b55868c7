"""The daemon and the trees of a world, which may lose the ground that they lie on."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING, Any, Final

from crash_ledger import Ledger, LedgerRpc
from oracle_place import Place
from support import Daemon

if TYPE_CHECKING:
    from crash_ground import Ground

KEPT: Final = 1000
"""Records that a world with retention keeps."""


class Crashing(Daemon):
    """A daemon whose root lies on a ground, and its state too unless it `stays`; its socket and its log do not."""

    def __init__(self, ground: Ground, *, trims: bool, stays: bool) -> None:
        state = None if stays else os.path.join(ground.path, "state")
        super().__init__(state=state, roots=[os.path.join(ground.path, "root")])
        self.ledger = Ledger()
        os.mkdir(self.roots[0])
        if trims:
            self.env["PROVD_CONFIG"] = os.path.join(self.home, "config.toml")
            with open(self.env["PROVD_CONFIG"], "w", encoding="utf-8") as file:
                file.write(f"[log]\nmax_records = {KEPT}\n")

    def connect(self) -> LedgerRpc:
        """A connection that is written down."""
        rpc = LedgerRpc(self.socket, self.ledger)
        self._connections.append(rpc)
        return rpc


class Ends(Place):
    """A place whose file system may go down: then nobody stores through a mapping, which would end this process."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.storing = threading.Lock()
        self.down = False

    def act(self, name: str) -> bool:
        """Does one thing; false where nothing was done."""
        if "mapp" not in name:
            return super().act(name)
        with self.storing:
            return not self.down and super().act(name)


def photograph(path: str) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Each file below, but for the store's: what a stat says of it, and what is in it."""
    found: dict[str, tuple[tuple[int, ...], bytes]] = {}
    for directory, names, files in os.walk(path):
        if "state" in names:
            names.remove("state")
        for name in files:
            member = os.path.join(directory, name)
            try:
                descriptor = os.open(member, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                status = os.fstat(descriptor)
                told = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                found[member] = (told, os.read(descriptor, 1 << 20) if stat.S_ISREG(status.st_mode) else b"")
            finally:
                os.close(descriptor)
    return found
