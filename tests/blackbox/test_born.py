"""What the verdict of a put was stays with the entry, and a confirmation is told from another put."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import Daemon, records_since

if TYPE_CHECKING:
    from support import Json, Workspace

_ABSENT = {"dep": "file:f", "digest": "absent"}


def _got(ws: Workspace, key: str = "k") -> Any:
    return ws("entry.get", key=key, even_if=["dirty", "unknown"], deps=True)


@pytest.mark.parametrize(
    ("deps", "born"),
    [(["file:f"], "fresh"), ([_ABSENT], "dirty"), (None, "unknown"), ([_ABSENT, "file:f"], "dirty"), ([], "fresh")],
)
def test_it_is_told_what_the_verdict_of_the_put_was(ws: Workspace, deps: Json, born: str) -> None:
    ws.write("f")
    assert ws("entry.put", key="k", value=1, deps=deps, as_of="put")["verdict"]["verdict"] == born
    ws.write("f", "another\n")

    assert _got(ws)["born"] == born


def test_it_is_that_of_the_newest_put_and_proving_does_not_change_it(ws: Workspace) -> None:
    ws("entry.put", key="k", value=1, deps=[_ABSENT])
    ws.write("f")
    ws("entry.put", key="k", value=1, deps=[_ABSENT])
    assert _got(ws)["born"] == "dirty"

    ws("entry.put", key="k", value=1, deps=["file:f"], as_of="put")
    ws("entry.revalidate", key="k")

    assert _got(ws)["born"] == "fresh"


def test_a_daemon_that_starts_again_knows_it(daemon: Daemon) -> None:
    where = {"key": "k", "root": daemon.root}
    daemon.rpc("entry.put", value=1, deps=["file:f"], as_of="put", **where)
    daemon.stop()
    daemon.start()

    assert daemon.rpc("entry.get", deps=True, **where)["born"] == "fresh"


def test_what_was_put_again_on_top_of_itself_is_confirmed(ws: Workspace) -> None:
    clock = ws("log.clock")["clock"]
    ground = {"deps": ["file:f"], "as_of": "put"}
    version = ws("entry.put", key="k", value=1, **ground)["version"]
    ws("entry.put", key="k", value=1, **ground)
    ws("entry.put", key="k", value=1, deps=["file:f", "file:g"], as_of="put", based_on=version)
    ws("entry.put", key="k", value=1, deps=["file:g", f"file:{ws.root}/f"], as_of="put", based_on=version)

    told = [r for r in records_since(ws.rpc, clock) if r["type"] == "entry" and r.get("root") == ws.root]
    assert [(r["event"], r.get("confirmed", False)) for r in told] == [
        ("put", False),
        ("supported", False),
        ("supported", False),
        ("supported", True),
    ]
    assert (_got(ws)["supports"], _got(ws)["confirms"]) == (4, 1)


def test_another_value_confirms_nothing(ws: Workspace) -> None:
    version = ws("entry.put", key="k", value=1, deps=[])["version"]
    ws("entry.put", key="k", value=1, deps=[], based_on=version)
    ws("entry.put", key="k", value=2, deps=[], based_on=version)

    assert "confirms" not in _got(ws)
