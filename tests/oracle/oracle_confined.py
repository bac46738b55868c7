"""Where a run happens: in namespaces of its own where that may be, so that its mounts and limits are nobody else's.

The kernel takes them all back when the last process in them has ended, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from oracle_place import libc, mount

if TYPE_CHECKING:
    from collections.abc import Iterator

INSIDE: Final = "PROVD_ORACLE_INSIDE"
_UNSHARE: Final = ("unshare", "--user", "--map-root-user", "--mount")
_SIZE: Final = "size=1g,mode=700"
_NEW_NAMESPACE: Final = 0x20000
_PRIVATE_ALL: Final = (1 << 18) | 16384
_IMAGE: Final = 600 << 20


def inside() -> bool:
    """Whether this process has namespaces of its own."""
    return bool(os.environ.get(INSIDE))


def enter(module: str, arguments: list[str]) -> None:
    """Begins this program anew in namespaces of its own; comes back where none are to be had."""
    probe = [*_UNSHARE, "mount", "-t", "tmpfs", "probe", tempfile.gettempdir()]
    with contextlib.suppress(OSError):
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, "-m", module, *arguments])


def small_disk(place: str) -> str:
    """A file system in memory at a new directory: for a state whose disk gets full."""
    path = os.path.join(place, "disk")
    os.mkdir(path)
    mount("oracle", path, "tmpfs", 0, _SIZE)
    return path


@contextlib.contextmanager
def image(kind: str) -> Iterator[str]:
    """A new file system of this kind (`xfs`, `btrfs`, `ext4`) in a loop device; gives where it is mounted.

    It is mounted in a mount namespace of this process, and goes with it. Needs root; raises OSError,
    subprocess.CalledProcessError.
    """
    place = tempfile.mkdtemp(prefix="provd-", dir="/tmp")
    try:
        libc("unshare", _NEW_NAMESPACE)
        mount("none", "/", None, _PRIVATE_ALL)
        file = os.path.join(place, "image")
        with open(file, "wb") as made:
            made.truncate(_IMAGE)
        subprocess.run([f"mkfs.{kind}", "-q", file], check=True, stdout=subprocess.DEVNULL)
        path = os.path.join(place, kind)
        os.mkdir(path)
        subprocess.run(["mount", "-o", "loop", file, path], check=True)
        try:
            yield path
        finally:
            subprocess.run(["umount", "-l", path], check=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
