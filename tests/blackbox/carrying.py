"""What the tests of export and import share: a daemon full of entries, and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support import Json, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS: Final = ("version", "made", "renewed", "clock")
"""What a store gives anew to what it takes in."""


def pages(ws: Workspace, **params: Any) -> Iterator[Json]:
    after: Json = {}
    while True:
        page = ws("entry.export", **params, **after)
        yield page
        if "after" not in page:
            return
        after = {"after": page["after"]}


def exported(ws: Workspace, **params: Any) -> list[Json]:
    return [line for page in pages(ws, **params) for line in page["entries"]]


def taken(ws: Workspace, lines: list[Json], **params: Any) -> Json:
    """What was told of an import, without what there was none of."""
    answer = ws.rpc("entry.import", entries=lines, **params)
    return {word: count for word, count in answer.items() if count}


def portable(lines: list[Json]) -> list[Json]:
    """Lines without what belongs to one store."""
    told = []
    for line in lines:
        deps = line["deps"] and [{n: v for n, v in dep.items() if n not in OURS} for dep in line["deps"]]
        told.append({name: value for name, value in line.items() if name not in OURS} | {"deps": deps})
    return told


def records(ws: Workspace) -> list[Json]:
    return [r for r in ws.rpc("log.since", last=10_000)["records"] if r["type"] == "entry"]


def everything(ws: Workspace) -> None:
    """Entries of every kind with an archive."""
    for name in ("a.py", "b.py", "d/c.md"):
        ws.write(name, name)
    ws.put("derived-before", "file:a.py", value=1)
    ws.put("z-base", "file:a.py", value="base")
    ws("entry.put", key="derived-before", value=2, deps=["entry:z-base"], fetched_at=ws.clock())
    ws.put("sets", "dir:d", "names:*.py", "glob:*.py", "tree:d", value=[1])
    ws.put("absolute", f"file:{ws.root}/a.py", f"glob:{ws.root}/*.py", value=1)
    ws.put("absent", "file:missing", value=None)
    ws("entry.put", key="object", value=1, deps=[ws.object("o")], fetched_at=ws.clock())
    ws("entry.put", key="now", value=1, deps=["a.py"], as_of="put")
    ws("entry.put", key="unproven", value=1, deps=["entry:nobody", "a.py"], fetched_at=ws.clock())
    ws("entry.put", key="empty", deps=[])
    ws("entry.put", key="unsaid", value=1)
    ws("entry.put", key="k" * 1000, value={"deep": [{}]}, deps=[], meta={"m": 1}, session="s", turn=9)
    for number in range(3):
        ws.put("often", "file:b.py", value=number)
    ws.put("often", "file:b.py", value=2)
