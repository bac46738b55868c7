"""`provd why` of what changed, came back and changed again: the mark stands on what was not undone."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from screens import ROOT, Desk, desk

if TYPE_CHECKING:
    pass

__all__ = ["desk"]

_NOT_SEEN: Final = "│   ✗ something that the log did not see changed it: {} differs from what was put\n"
_UNKNOWN: Final = "│   ? which change made it dirty the log cannot tell: "
_LEFT_OTHER: Final = ", which did not leave what is there now\n"


def _moved(desk: Desk, source: str, target: str) -> None:
    """Renames, and goes on when the log has it as a move of its own."""
    clock = desk.clock()
    os.rename(os.path.join(desk.daemon.root, source), os.path.join(desk.daemon.root, target))
    desk.hashed(clock)


def _away_and_back(desk: Desk, name: str, other: str) -> None:
    _moved(desk, name, other)
    _moved(desk, other, name)


@pytest.mark.parametrize("dep", ["glob:d/*", "tree:d", "file:d/a"])
def test_a_file_that_was_moved_away_and_copied_back_is_not_what_made_it_dirty(desk: Desk, dep: str) -> None:
    desk.save("d/a", "one\n")
    desk.put_as_it_is("k", dep)
    desk.put("above", "entry:k", fetched_at=desk.clock())
    _moved(desk, "d/a", "d/a~")
    clock = desk.clock()
    shutil.copy(os.path.join(desk.daemon.root, "d/a~"), os.path.join(desk.daemon.root, "d/a"))
    desk.hashed(clock)
    os.remove(os.path.join(desk.daemon.root, "d/a~"))
    assert desk.daemon.rpc("entry.check", key="k", root=desk.daemon.root)["verdict"] == "fresh"
    desk.save("d/a", "two\n")

    told, above = desk.pipe("why", "k"), desk.pipe("why", "above")

    assert ["~ modified d/a xxh3:" in line for line in told.marked] == [True]
    assert ["the first change that was not undone" in line or "here it" in line for line in told.marked] == [True]
    assert ["~ modified d/a xxh3:" in line for line in above.marked] == [True]


def test_of_what_the_log_did_not_know_the_mark_is_on_the_newest_change_and_called_so(desk: Desk) -> None:
    os.makedirs(os.path.join(desk.daemon.root, "d"))
    desk.daemon.stop()
    for name in ("d/a", "d/b"):
        with open(os.path.join(desk.daemon.root, name), "w") as file:
            file.write("one\n")
    desk.daemon.start().scanned()  # a scan reads no content
    desk.put_as_it_is("k", "glob:d/*")
    for content in ("two\n", "one\n", "two\n"):
        os.remove(os.path.join(desk.daemon.root, "d/a"))
        desk.save("d/a", content)

    told = desk.pipe("why", "k")

    (marked,) = told.marked
    if marked.endswith("  the first change since it was put"):
        return  # it was read between the scan and its first change, as under load: then the log knows what it was
    assert marked.endswith("  the newest change since it was put")
    changes = [line for line in told.lines if line[2:].startswith("HH:MM") and " d/a" in line]
    assert changes[-1].startswith("✗")


@pytest.mark.parametrize("dep", ["file", "file of the log", "glob", "tree"])
def test_a_directory_that_was_renamed_and_renamed_back_changed_nothing(desk: Desk, dep: str) -> None:
    desk.save("A/x", "one\n")
    path = f"{desk.daemon.root}/A"
    if dep == "file":
        desk.put("k", desk.read("A/x"))
    else:
        desk.put_as_it_is("k", {"glob": f"glob:{path}/*", "tree": f"tree:{path}"}.get(dep, f"file:{path}/x"))
    _away_and_back(desk, "A", "A2")
    other = os.path.join(desk.daemon.outside, "other")
    os.link(f"{path}/x", other)
    with open(other, "w") as file:
        file.write("two\n")

    told = desk.pipe("why", "k")

    assert told.code == 1
    assert told.marked == []
    if dep == "glob":  # whose members may be links: what changed behind them need not be told as theirs
        assert f"{_UNKNOWN}glob:{ROOT}/A/* differs from what was put\n" in told.text
    else:
        assert _NOT_SEEN.format(f"tree:{ROOT}/A" if dep == "tree" else f"file:{ROOT}/A/x") in told.text
        assert _LEFT_OTHER in told.text


def test_what_is_written_after_a_directory_came_back_is_the_one(desk: Desk) -> None:
    desk.save("A/x", "one\n")
    desk.put("k", desk.read("A/x"))
    _away_and_back(desk, "A", "A2")
    desk.save("A/x", "two\n")

    told = desk.pipe("why", "k")

    assert ["~ modified A/x" in line for line in told.marked] == [True]
    assert _LEFT_OTHER not in told.text


def test_what_was_written_while_its_directory_had_another_name_came_back_with_it(desk: Desk) -> None:
    desk.save("A/x", "one\n")
    desk.put("k", desk.read("A/x"))
    _moved(desk, "A", "A2")
    desk.save("A2/x", "two\n")
    _moved(desk, "A2", "A")

    told = desk.pipe("why", "k")

    assert ["> moved A from A2  the newest change since it was put" in line for line in told.marked] == [True]


def test_a_directory_that_took_the_place_of_another_is_the_one(desk: Desk) -> None:
    desk.save("A/x", "one\n")
    desk.save("N/x", "two\n")
    desk.put("k", desk.read("A/x"))
    _moved(desk, "A", "A.old")
    _moved(desk, "N", "A")

    told = desk.pipe("why", "k")

    assert ["> moved A.old from A  the first change since it was put" in line for line in told.marked] == [True]


def test_what_changed_before_and_came_back_is_no_first_change(desk: Desk) -> None:
    for name in ("s/a", "s/b"):
        desk.save(name, "one\n")
    desk.put_as_it_is("k", "tree:s")
    for content in ("two\n", "one\n"):
        desk.save("s/a", content)
    desk.save("s/b", "two\n")

    told = desk.pipe("why", "k")

    assert [line.endswith("  the first change that was not undone") for line in told.marked] == [True]


@pytest.mark.parametrize("dep", ["glob:d/*", "tree:d"])
def test_where_more_members_differ_than_are_named_what_was_undone_is_not_marked(desk: Desk, dep: str) -> None:
    names = [f"d/{number:02}" for number in range(20)]
    for name in names:
        desk.save(name, "one\n")
    desk.put_as_it_is("k", dep)
    _away_and_back(desk, names[-1], "d/away")
    _away_and_back(desk, names[0], "d/away")
    for name in names:
        desk.save(name, "two\n")

    told = desk.pipe("why", "k")

    assert [f"~ modified {names[0]} " in line for line in told.marked] == [True]


def test_a_tree_that_is_gone_was_changed_by_the_first_deletion(desk: Desk) -> None:
    for name in ("d/a", "d/b"):
        desk.save(name, "one\n")
    desk.put_as_it_is("k", "tree:d")
    clock = desk.clock()
    shutil.rmtree(os.path.join(desk.daemon.root, "d"))
    desk.hashed(clock)

    told = desk.pipe("why", "k")

    assert ["- deleted d" in line for line in told.marked] == [True]
    assert "the first change since it was put" in told.text


def test_a_record_that_left_what_was_known_is_not_said_to_have_made_it_dirty(desk: Desk) -> None:
    desk.save("f", "one\n")
    desk.put("k", desk.read("f"))
    desk.save("f", "one\n")
    other = os.path.join(desk.daemon.outside, "other")
    os.link(os.path.join(desk.daemon.root, "f"), other)
    with open(other, "w") as file:
        file.write("two\n")

    told = desk.pipe("why", "k").text

    assert "(the same content)\n" in told
    assert _NOT_SEEN.format(f"file:{ROOT}/f") in told
    assert "      touched by record " in told
    assert _LEFT_OTHER in told


def test_a_digest_that_was_found_by_another_name_is_shown(desk: Desk) -> None:
    desk.save("d/a", "one\n")
    desk.put_as_it_is("k", f"file:{desk.daemon.root}/d/a")
    _away_and_back(desk, "d/a", "d/q")

    told = desk.pipe("why", "k").text

    assert "> moved d/q from d/a xxh3:" in told
    assert "not hashed yet" not in told
