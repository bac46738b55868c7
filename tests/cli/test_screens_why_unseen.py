"""`provd why` of what was fresh when it was put: only what came later made it dirty, or what the log did not see."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from screens import ROOT, Desk, desk

from provd.cli.screens.story import Story

if TYPE_CHECKING:
    from screens import Seen

__all__ = ["desk"]

Json = dict[str, Any]

_NOT_SEEN: Final = "│   ✗ something that the log did not see changed it: file:{} differs from what was put\n"
_UNKNOWN: Final = "│   ? which change made it dirty the log cannot tell: "
_NOT_WATCHED: Final = "when file:{} was changed nobody knows: the log has nothing of what is not watched\n"


def _write_by(desk: Desk, path: str, content: str) -> None:
    with open(os.path.join(desk.daemon.root, path), "w") as file:
        file.write(content)
    desk.clock()


def _unmarked(told: Seen) -> None:
    assert told.marked == []
    assert "before it was put" not in told.text
    assert "nothing that it rests on was touched" not in told.text


@pytest.mark.parametrize("algorithm", ["of the log", "of another algorithm"])
def test_a_write_by_a_name_that_nobody_watches_is_not_laid_to_the_time_before_the_put(
    desk: Desk, algorithm: str
) -> None:
    desk.save("f", "one\n")
    other = os.path.join(desk.daemon.outside, "other")
    os.link(os.path.join(desk.daemon.root, "f"), other)
    if algorithm == "of the log":
        desk.put_as_it_is("k", f"file:{desk.daemon.root}/f")
    else:
        desk.put("k", desk.read("f"))
    _write_by(desk, other, "two\n")

    told = desk.pipe("why", "k")

    _unmarked(told)
    assert _NOT_SEEN.format(f"{ROOT}/f") in told.text


def test_a_store_through_a_mapping_is_not_laid_to_the_time_before_the_put(desk: Desk) -> None:
    desk.save("f", "one\n")
    with open(os.path.join(desk.daemon.root, "f"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:1] = b"O"
        desk.put_as_it_is("k", f"file:{desk.daemon.root}/f")
        mapping[0:1] = b"o"

        told = desk.pipe("why", "k")

    _unmarked(told)
    assert _NOT_SEEN.format(f"{ROOT}/f") in told.text


def test_a_record_of_a_set_is_not_blamed_for_what_lies_beside_it(desk: Desk) -> None:
    desk.save("src/f", "one\n")
    os.mkdir(os.path.join(desk.daemon.root, ".git"))
    _write_by(desk, ".git/HEAD", "one\n")
    desk.put_as_it_is("k", f"tree:{desk.daemon.root}/src", f"file:{desk.daemon.root}/.git/HEAD")
    desk.save("src/made", "for a while\n")
    os.remove(os.path.join(desk.daemon.root, "src/made"))
    _write_by(desk, ".git/HEAD", "two\n")

    told = desk.pipe("why", "k")

    _unmarked(told)
    assert _NOT_WATCHED.format(f"{ROOT}/.git/HEAD") in told.text


def test_nor_for_what_a_link_beside_it_leads_to(desk: Desk) -> None:
    desk.save("src/f", "one\n")
    target = os.path.join(desk.daemon.outside, "target")
    _write_by(desk, target, "one\n")
    os.symlink(target, os.path.join(desk.daemon.root, "link"))
    desk.put_as_it_is("k", f"tree:{desk.daemon.root}/src", f"file:{desk.daemon.root}/link")
    desk.save("src/made", "for a while\n")
    os.remove(os.path.join(desk.daemon.root, "src/made"))
    _write_by(desk, target, "two\n")

    told = desk.pipe("why", "k")

    _unmarked(told)
    assert _NOT_WATCHED.format(f"{ROOT}/link") in told.text


def test_what_changed_behind_a_link_is_the_one(desk: Desk) -> None:
    for name in ("src/f", "target"):
        desk.save(name, "one\n")
    os.symlink("target", os.path.join(desk.daemon.root, "link"))
    desk.put_as_it_is("k", f"tree:{desk.daemon.root}/src", f"file:{desk.daemon.root}/link")
    desk.save("src/made", "for a while\n")
    os.remove(os.path.join(desk.daemon.root, "src/made"))
    desk.save("target", "two\n")

    told = desk.pipe("why", "k").marked

    assert ["~ modified target" in line for line in told] == [True]


def test_a_digest_of_another_algorithm_is_enough_where_it_was_fresh(desk: Desk) -> None:
    for content in ("one\n", "two\n"):
        desk.save("f", content)
    desk.put("k", desk.read("f"))
    desk.save("f", "three\n")

    told = desk.pipe("why", "k")

    assert ["the first change since it was put" in line for line in told.marked] == [True]
    assert "the log cannot tell" not in told.text


def test_of_several_changes_of_what_the_log_does_not_know_it_is_the_one_that_left_what_is_there(desk: Desk) -> None:
    path = os.path.join(desk.daemon.root, "f")
    made = os.path.join(desk.daemon.outside, "f")
    with open(made, "w") as file:
        file.write("one\n")
    desk.daemon.stop()
    os.rename(made, path)
    desk.daemon.start().scanned()  # a scan reads no content
    desk.put("k", desk.read("f"))
    for content in ("one\n", "two\n", "three\n"):
        desk.save("f", content)

    told = desk.pipe("why", "k")

    (marked,) = told.marked
    # A file may be read between the scan and its first change, as under load: then the log knows what it was.
    assert marked.endswith(("  the newest change since it was put", "  the first change since it was put"))


def test_a_recorded_write_is_not_blamed_for_what_came_after_it(desk: Desk) -> None:
    for content in ("one\n", "two\n"):
        desk.save("f", content)
    desk.put("k", desk.read("f"))
    desk.save("f", "two\n")
    other = os.path.join(desk.daemon.outside, "other")
    os.link(os.path.join(desk.daemon.root, "f"), other)
    _write_by(desk, other, "three\n")

    told = desk.pipe("why", "k")

    _unmarked(told)
    assert _NOT_SEEN.format(f"{ROOT}/f") in told.text


def test_what_a_linked_member_leads_to_is_not_said_to_be_unseen(desk: Desk) -> None:
    desk.save("target", "one\n")
    os.mkdir(os.path.join(desk.daemon.root, "linked"))
    os.symlink("../target", os.path.join(desk.daemon.root, "linked", "link"))
    desk.put_as_it_is("k", f"glob:{desk.daemon.root}/linked/*")
    desk.save("target", "two\n")

    told = desk.pipe("why", "k")

    _unmarked(told)
    assert f"{_UNKNOWN}glob:{ROOT}/linked/* differs from what was put\n" in told.text


def test_an_entry_on_what_changed_unseen_says_that_nobody_knows_when(desk: Desk) -> None:
    desk.save("f", "one\n")
    other = os.path.join(desk.daemon.outside, "other")
    os.link(os.path.join(desk.daemon.root, "f"), other)
    desk.put_as_it_is("below", f"file:{desk.daemon.root}/f")
    desk.put("above", "entry:below", fetched_at=desk.clock())
    _write_by(desk, other, "two\n")

    told = desk.pipe("why", "above")

    _unmarked(told)
    assert "│   ? when entry:below became dirty the log cannot tell\n" in told.text


def test_a_confirmation_is_told_from_a_put(desk: Desk) -> None:
    desk.save("f", "one\n")
    for session in ("s1", "s2"):
        desk.put("k", f"file:{desk.daemon.root}/f", as_of="put", session=session)
    for _ in range(2):
        desk.pipe("confirm", "k", "--as-of-now", "--session", "s3")

    told = desk.pipe("why", "k").lines

    assert [line.partition("AGO         ")[2].partition("  (")[0] for line in told if line.startswith(("○", "●"))][
        1:
    ] == [
        "put again with the same value",
        "confirmed: its sources were read again, and the value holds",
        "confirmed by session s3 (put 2 times, confirmed 2 times)",
    ]
    assert desk.pipe("log").text.count(" confirmed k version ") == 2


# What no test can bring about at will: records that come early or late.

_F: Final = "xxh3:" + "f" * 32
_G: Final = "xxh3:" + "0" * 32


def _answer(**item: object) -> Json:
    """An entry that was put as record 9, on the file /r/d/f, and is dirty by that."""
    fault = {"dep": "file:/r/d/f", "why": "changed", "was": _F, "is": _G} | item
    deps = [{"dep": "file:/r/d/f", "kept": "read", "digest": _F}]
    told = {"key": "k", "version": 9, "record": 9, "born": "fresh", "verdict": "dirty", "root": "/r"}
    return told | {"deps": deps, "evidence": [fault], "clock_of_entry": "c:a:b:3"}


def _mutation(seq: int, path: str, kind: str, digest: str | None) -> Json:
    size = None if digest is None else 4
    return {"type": "mutation", "seq": seq, "path": path, "kind": kind, "digest": digest, "size": size}


def _story(answer: Json, *records: Json) -> Story:
    story = Story(answer)
    for record in records:
        story.take(record)
    return story


@pytest.mark.parametrize("left", [_G, "xxh3:" + "1" * 32])
def test_what_was_recorded_just_before_the_put_counts_where_it_left_what_is_there(left: str) -> None:
    turn = _story(_answer(), _mutation(5, "/r/d/f", "modified", left)).turn

    moment = turn.moment()
    assert (moment.seq if moment else None) == (5 if left == _G else None)
    assert turn.unseen() == ([] if left == _G else ["file:/r/d/f"])


def test_a_directory_above_that_is_made_after_the_put_did_not_change_what_was_there() -> None:
    made = _mutation(10, "/r/d", "created", None)
    turn = _story(_answer(mutation=made), made).turn

    assert turn.moment() is None
    assert turn.untold() == ["file:/r/d/f"]
    assert turn.unseen() == []


def test_of_what_the_daemon_knows_to_be_touched_it_is_not_said_that_the_log_did_not_see_it() -> None:
    turn = _story(
        _answer(mutation={"type": "action", "seq": 11, "paths": ["/r/d/f"]}), _mutation(5, "/r/o", "x", None)
    ).turn

    assert (turn.moment(), turn.unseen(), turn.untold()) == (None, [], ["file:/r/d/f"])
