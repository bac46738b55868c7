"""One small file, read at once: the commonest question needs no job."""

from __future__ import annotations

from provd.core.reading import Found, Trouble
from provd.disk.files import Attempt, Changed, NotQuick, read_file
from provd.disk.seals import Sealer
from provd.disk.sets import reason
from provd.filesystems import FileSystems


def read_single(
    path: bytes,
    algorithm: str,
    most: int,
    sealer: Sealer | None = None,
    *,
    by_seal: bool = False,
    may_be_young: bool = False,
) -> Found | None:
    """What one file gives; None where that takes more: over `most` bytes, changing, or not sure.

    What may be young is to be read once more.
    """
    attempt = Attempt(algorithm, FileSystems(), _never, most=most, sealer=sealer, by_seal=by_seal)
    try:
        found = read_file(path, attempt)
    except (Changed, NotQuick):
        return None
    except OSError as error:
        return Found(trouble=Trouble.UNREADABLE, detail=reason(error))
    if found.sealed and sealer is not None and not sealer.holds():
        return None
    return None if not may_be_young and any(thing.young for thing in attempt.seen) else found


def _never() -> bool:
    return False
