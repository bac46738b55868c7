"""LMDB, and the only door to it: the log, the entries, what actions declared.

Rule: one environment, opened only by the daemon. What is acknowledged was committed and synced before. A
snapshot is copied out and closed before any file is read, so that no reader holds old pages.
"""

from provd.store.commit import Store
from provd.store.reads import View
from provd.store.touching import Touching
from provd.store.writes import Writer

__all__ = ["Store", "Touching", "View", "Writer"]
