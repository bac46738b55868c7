"""What an error of LMDB or of the system means for the user: damage, no room, or a store that cannot be used.

Rule: each says what, why and the next step. Nothing is opened or changed here.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

import lmdb

from provd import ownfile, refusals
from provd.core import errors
from provd.store.decoding import Damaged

PAGES: Final = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.BadTxnError)
"""What LMDB raises of a page that is not as it was written; the last where it met one before in that transaction."""
DAMAGE: Final = (lmdb.Error, Damaged)
"""What may come of a store whose pages or rows are not as they were written."""
SAVE_REST: Final = (
    "provd export --all > FILE && provd stop  # saves what can be read; then move it away, start, and import"
)
DATA: Final = "data.mdb"
"""The file of what is kept, as LMDB names it."""
_FULL: Final = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_ALMOST_NOTHING: Final = 16 * 1024 * 1024


def _largest(directory: str) -> int | None:
    """The bytes that this process may write a file to, where the store is about as long; else None."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most == resource.RLIM_INFINITY:
        return None
    try:
        size = os.stat(os.path.join(directory, DATA)).st_size
    except OSError:
        size = 0
    return most if size + _ALMOST_NOTHING > most else None


def _is_full(directory: str) -> bool:
    try:
        there = os.statvfs(directory)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize < _ALMOST_NOTHING


def damaged(error: Exception, directory: str) -> errors.StoreDamaged | None:
    """What an error says that comes of rows or pages which are not as they were written; None of any other."""
    if not isinstance(error, DAMAGE) or (isinstance(error, lmdb.Error) and not isinstance(error, PAGES)):
        return None
    hint = getattr(error, "hint", None) or SAVE_REST
    return errors.StoreDamaged(f"the store in {directory} is damaged: {error}", hint)


def says_read_only(error: BaseException | None) -> bool:
    """Whether an error is that of a file that takes no writes: LMDB's own, or that of its file system."""
    refusal = refusals.of(error, "")
    return isinstance(error, lmdb.ReadonlyError) or (refusal is not None and refusal.code == "readonly")


def unusable(error: Exception, directory: str) -> errors.StoreUnusable:
    """What is said of an error that is neither damage nor a want of room."""
    refusal = refusals.of(error, directory)
    what = f"the store in {directory} cannot be used: {error}"
    if refusal is None:
        return errors.StoreUnusable(what, "check the disk and its permissions")
    if refusal.code == "readonly":
        what = f"{refusal.what}: a daemon that runs goes on answering, and changes nothing"
    return errors.StoreUnusable(what, refusal.hint)


def full_or_unusable(error: Exception, directory: str) -> errors.ProvdError:
    """What an error of LMDB or of the system means for the user."""
    text = str(error)
    if (harm := damaged(error, directory)) is not None:
        return harm
    if isinstance(error, ownfile.NotAFile):
        return errors.StoreUnusable(f"the store in {directory} cannot be used: {error.strerror}", error.hint)
    if isinstance(error, lmdb.MapFullError):
        return errors.StoreFull(
            "the store's map is full: nothing was changed", "raise store.map_gib in the configuration"
        )
    if isinstance(error, lmdb.MemoryError):
        return errors.StoreUnusable(
            f"the store in {directory} cannot be mapped: {text}",
            "ulimit -v unlimited  # at least 2 GiB of address space, then start it again",
        )
    if (most := _largest(directory)) is not None and ("File too large" in text or "Input/output error" in text):
        return errors.StoreFull(
            f"no file in {directory} may be longer than {most} bytes (ulimit -f): nothing was changed",
            "ulimit -f unlimited && provd restart  # in the shell, or the unit, that starts it",
        )
    full = any(said in text for said in _FULL)
    if full or ("Input/output error" in text and _is_full(directory)):  # LMDB calls a short write that
        hint = "free space there; a daemon that runs goes on answering"
        return errors.StoreFull(f"no space left in {directory}: nothing was changed", hint)
    return unusable(error, directory)
