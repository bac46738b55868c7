"""Whether the store's file is as long as it says: a mapping of a file that was cut short kills who reads it.

Rule: the store of a file that is too short is walked by another process first. If that one dies or fails, the
store is unusable; else the file is made as long as it says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import lmdb

_WALK: Final = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[3])
import lmdb
env = lmdb.open(sys.argv[1], readonly=True, lock=False, max_dbs=64, map_size=int(sys.argv[2]))
with env.begin() as txn:
    for name, _ in list(txn.cursor()):
        for key, value in txn.cursor(db=env.open_db(name, txn=txn, create=False)):
            pass
env.copyfd(os.open(os.devnull, os.O_WRONLY), compact=True)  # follows the free pages too
"""


def check(env: lmdb.Environment, directory: str) -> None:
    """Raises lmdb.CorruptedError where the file of an environment that was just opened was cut short."""
    path = os.path.join(directory, "data.mdb")
    info = env.info()
    wanted = (info["last_pgno"] + 1) * env.stat()["psize"]
    if os.path.getsize(path) >= wanted:
        return
    paths = json.dumps(sys.path)
    walk = [sys.executable, "-c", _WALK, directory, str(info["map_size"]), paths]
    done = subprocess.run(walk, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        raise lmdb.CorruptedError(f"{path} was cut short: {os.path.getsize(path)} bytes of {wanted}")
    os.truncate(path, wanted)
