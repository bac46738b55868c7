"""`provd why` of entries that rest on entries, and of what was imported: who did it, when, and what is not told."""

from __future__ import annotations

import os
import subprocess

import pytest
from screens import Desk, desk
from support import HANG

__all__ = ["desk"]


def _chain(desk: Desk) -> None:
    """Entries a, b on a, c on b; a rests on a file."""
    desk.save("f", "one\n")
    desk.put("a", desk.read("f"))
    desk.put("b", "entry:a", fetched_at=desk.clock())
    desk.put("c", "entry:b", fetched_at=desk.clock())


@pytest.mark.parametrize("key", ["b", "c"])
def test_an_action_that_was_declared_afterwards_is_named_through_entries_too(desk: Desk, key: str) -> None:
    _chain(desk)
    desk.save("f", "two\n")
    desk.daemon.rpc("action.record", writes=[f"file:{desk.daemon.root}/f"], session="bob", root=desk.daemon.root)

    told = desk.pipe("why", key)

    assert [", session bob)  through entry:" in line for line in told.marked] == [True]
    assert "(declared afterwards by action " in told.marked[0]
    assert "where nobody is named" not in told.text


def test_what_nobody_declared_is_said_to_be_nobodys_through_entries_too(desk: Desk) -> None:
    _chain(desk)
    desk.save("f", "two\n")

    assert "where nobody is named, no action declared it" in desk.pipe("why", "c").text


@pytest.mark.parametrize("event", ["put", "forgotten"])
def test_an_entry_two_below_that_was_replaced_is_the_mark(desk: Desk, event: str) -> None:
    _chain(desk)
    if event == "put":
        desk.put("a", desk.read("f"), value="another")
    else:
        desk.daemon.rpc("entry.forget", key="a", root=desk.daemon.root)

    told = desk.pipe("why", "c")

    assert [f"entry {event} a " in line and line.endswith("  through entry:b") for line in told.marked] == [True]
    assert "nothing that it rests on was touched" not in told.text


def test_what_is_not_told_of_entries_below_is_said(desk: Desk) -> None:
    _chain(desk)
    for content in ("two\n", "one\n"):
        desk.save("f", content)

    told = desk.pipe("why", "c")

    assert told.code == 0
    assert "│ what entry:b rests on is not told here, but by: provd why b\n" in told.text


def test_an_entry_below_that_was_put_again_as_it_was_is_not_blamed(desk: Desk) -> None:
    _chain(desk)
    desk.put("a", desk.read("f"))
    desk.daemon.rpc("entry.revalidate", key="a", root=desk.daemon.root)
    desk.put("a", desk.read("f"), value="another")

    told = desk.pipe("why", "b")

    assert ["entry put a " in line for line in told.marked] == [True]


def test_what_was_imported_stands_where_it_came(desk: Desk) -> None:
    desk.save("f", "one\n")
    desk.put("k", desk.read("f"))
    desk.pipe("confirm", "k", "--as-of-now")
    exported = os.path.join(desk.daemon.outside, "exported")
    with open(exported, "wb") as out:
        subprocess.run(
            desk.command("export"),
            stdout=out,
            check=True,
            cwd=desk.daemon.root,
            env=desk.environment(),
            timeout=HANG,
        )
    desk.daemon.rpc("entry.forget", key="k", root=desk.daemon.root)
    assert desk.pipe("import", exported).code == 0
    last = [r for r in desk.daemon.rpc("log.since", last=5, limit=5)["records"] if r.get("event") == "imported"][-1]
    seconds, nanoseconds = divmod(int(last["at"]), 1_000_000_000)

    shown = subprocess.run(
        desk.command("why", "k"),
        capture_output=True,
        check=True,
        text=True,
        cwd=desk.daemon.root,
        env=desk.environment(),
        timeout=HANG,
    ).stdout.splitlines()

    put = next(line for line in shown if line.startswith("●"))
    of_day = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanoseconds // 1_000_000:03}"
    assert put.startswith(f"● {of_day}  ")
    assert "  imported: put into this log at " in put
    assert put.endswith(" (put or confirmed 2 times)")
    assert "○" in shown[shown.index(put) - 1]


def test_a_place_below_that_came_and_went_makes_no_trimmed_log(desk: Desk) -> None:
    """What the log has of objects and entries is whole. Broken: a page that is not complete for that alone."""
    desk.save("d/f", "one\n")
    desk.put("a", desk.read("d/f"))
    desk.put("b", "entry:a", fetched_at=desk.clock())
    there, away = os.path.join(desk.daemon.root, "d"), os.path.join(desk.daemon.outside, "d")
    for source, target in ((there, away), (away, there)):
        os.rename(source, target)
        desk.clock()
    desk.save("d/f", "two\n")

    told = desk.pipe("why", "b")

    assert "records were trimmed" not in told.text
    assert "moved in" in desk.pipe("why", "a").text
