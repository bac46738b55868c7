"""Makes a store of a released provd, and a description of what it holds: see README.md beside this file."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from typing import Any, Final

import lmdb
import support
from support import Daemon, Workspace

HOME: Final = "/tmp/provd-up-00000000"
"""As long as the homes of the tests, so that paths in rows can be replaced."""
FILES: Final = {
    "src/api.py": "def f(): return 1\n",
    "src/db.py": "x = 2\n",
    "docs/a.md": "# a\n",
    "docs/deep/b.md": "# b\n",
    "config.toml": "port = 8000\n",
    "old.txt": "old\n",
}
LONG: Final = "k" * 1000


def fill(ws: Workspace, held: dict[str, Any]) -> None:
    """Entries of every kind, their archive, operations and actions."""
    ws.put("file", "file:src/api.py", value={"text": "returns 1", "n": 1.50}, session="s1", turn=3, meta={"by": "tool"})
    ws.put("dir", "dir:docs", value="a listing")
    ws.put("names", "names:docs/**/*.md", value=["a", "b"])
    ws.put("glob", "glob:src/*.py", value=None)
    ws.put("tree", "tree:docs", value=17)
    ws.put("absent", "file:missing.txt", value="none there")
    ws.put("many", "file:src/api.py", "tree:src", "file:config.toml", value="all")
    clock = ws.clock()
    ws("entry.put", key="object", value=3, deps=["object:svc:api/replicas"], fetched_at=clock)
    ws("entry.put", key="written", value=3, deps=["object:svc:db"], fetched_at=clock)
    ws.put("base", "file:config.toml", value="port")
    ws("entry.put", key="derived", value="derived", deps=["entry:base"], fetched_at=ws.clock())
    ws("entry.put", key="unproven", value="?", deps=["old.txt"], fetched_at=clock)
    ws("entry.put", key="nothing", value="constant", deps=[])
    ws("entry.put", key="no-provenance", value="who knows")
    read = {"dep": "config.toml", "digest": ws.digest("file:config.toml")}
    ws("entry.put", key="no-value", deps=[read])
    ws("entry.put", key="now", value="as it was", deps=["file:config.toml", "tree:src"], as_of="put")
    ws("entry.put", key="global-one", scope="global", value="everywhere", deps=[])
    ws("entry.put", key=LONG, value="a long key", deps=[])
    for number in range(3):
        ws.put("thrice", "file:src/db.py", value=number)
    ws.put("thrice", "file:src/db.py", value=2)
    never = {"dep": "src/db.py", "digest": "xxh3:" + "0" * 32}
    assert ws("entry.put", key="thrice", value="late", deps=[never])["late"]
    ws.put("dirty", "file:old.txt", value="old")
    ws.write("old.txt", "new\n")
    held["files"]["old.txt"] = "new\n"
    ws("entry.revalidate", key="file")
    operate(ws, held, "entry.put", key="op", value="once", deps=[], op="put-1")
    writes = ["object:svc:web", "src/gen.py"]
    begin = {"writes": writes, "session": "s1", "turn": 4, "note": "open for good", "op": "begin-1"}
    held["action"] = operate(ws, held, "action.begin", **begin)["id"]
    ws("entry.put", key="open", value=1, deps=["object:svc:web"], fetched_at=ws.clock())
    ws("action.record", writes=["object:svc:db", "src/written.py"], session="s2")


def operate(ws: Workspace, held: dict[str, Any], method: str, **params: Any) -> Any:
    """A request with an op, noted with its answer."""
    answer = ws(method, **params)
    held["ops"].append({"method": method, "params": params, "answer": answer})
    return answer


def go_on(daemon: Daemon, ws: Workspace, code: str, held: dict[str, Any]) -> None:
    """The version in `code` goes on with the same store."""
    support.REPOSITORY = code  # type: ignore[misc]
    daemon.restart()
    daemon.scanned()
    ws.put("later", "file:src/api.py", value="put by the version with a watcher")
    ws.write("src/db.py", "x = 3\n")
    held["files"]["src/db.py"] = "x = 3\n"


def described(ws: Workspace, held: dict[str, Any]) -> None:
    """What there is, as that version tells it."""
    held["clock"] = ws.clock()
    held["records"] = ws.rpc("log.since", last=1000)["records"]
    held["log"] = ws.rpc("daemon.hello", protocol=1)["log"]
    for scope in (None, "global"):
        where = {} if scope is None else {"scope": scope}
        for row in ws("entry.list", **where)["entries"]:
            asked = {"key": row["key"], "even_if": ["dirty", "unknown"], "deps": True, **where}
            held["entries"].append(ws("entry.get", **asked))


def main(out: str, name: str, later: str | None = None) -> None:
    """Writes NAME.mdb.gz and NAME.json into `out`; `later` is the code of a version that goes on with the store."""
    shutil.rmtree(HOME, ignore_errors=True)
    held: dict[str, Any] = {"home": HOME, "files": dict(FILES), "entries": [], "ops": []}
    daemon = Daemon(home=HOME)
    ws = daemon.workspace()
    for file, content in FILES.items():
        ws.write(file, content)
    daemon.start().scanned()
    fill(ws, held)
    if later is not None:
        go_on(daemon, ws, later, held)
    described(ws, held)
    daemon.stop()
    with lmdb.open(f"{HOME}/state/store", max_dbs=64) as env:
        env.copy(HOME, compact=True)
    with open(f"{HOME}/data.mdb", "rb") as store, gzip.GzipFile(f"{out}/{name}.mdb.gz", "wb", 9, mtime=0) as packed:
        shutil.copyfileobj(store, packed)
    with open(f"{out}/{name}.json", "w", encoding="utf-8") as file_:
        json.dump(held, file_, indent=1, sort_keys=True)
        file_.write("\n")
    shutil.rmtree(HOME)


if __name__ == "__main__":
    main(*sys.argv[1:])
