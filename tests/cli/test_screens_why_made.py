"""`provd why` where directories came and went with what is at fault: the mark is on the record that broke something."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING

from screens import Desk, desk
from support import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["desk"]

_UNKNOWN = "which change made it dirty the log cannot tell"


def _place(desk: Desk, name: str) -> str:
    return os.path.join(desk.daemon.root, name)


def _told(desk: Desk, dep: str, *changes: Callable[[], object]) -> tuple[list[str], str]:
    """What is marked, without its time, after `changes` to what an entry rests on; and all that is told."""
    kind, _, name = dep.partition(":")
    put = desk.command("put", "k", "--value", "1", "--dep", f"{kind}:{_place(desk, name)}", "--as-of-now")
    subprocess.run(put, check=True, timeout=HANG, capture_output=True, env=desk.environment(), cwd=desk.daemon.root)
    for change in changes:
        change()
        desk.clock()  # what is made in a new directory is seen from now on
    told = desk.pipe("why", "k")
    assert told.code == 1
    return [line.split("AGO", 1)[1].strip() for line in told.lines if line.startswith("✗ HH:MM")], told.text


def test_a_directory_made_on_the_way_to_a_member_is_not_marked(desk: Desk) -> None:
    os.mkdir(_place(desk, "g"))
    make = [lambda: os.mkdir(_place(desk, "g/pkg")), lambda: desk.save("g/pkg/b.py", "one\n")]

    (marked,), text = _told(desk, "glob:g/**/*.py", *make)

    assert marked.startswith("+ created g/pkg/b.py "), marked
    assert marked.endswith("  the first change since it was put")
    assert "├ HH:MM:SS.mmm  AGO         + created g/pkg\n" in text


def test_nor_is_one_above_a_file_that_was_absent(desk: Desk) -> None:
    os.mkdir(_place(desk, "g"))
    make = [lambda: os.mkdir(_place(desk, "g/pkg")), lambda: desk.save("g/pkg/b.py", "one\n")]

    (marked,), _ = _told(desk, "file:g/pkg/b.py", *make)

    assert "g/pkg/b.py" in marked
    assert marked.endswith("  the first change since it was put")


def test_a_member_that_was_deleted_is_marked_and_not_its_directory_after_it(desk: Desk) -> None:
    desk.save("m/n.py", "one\n")
    os.rename(_place(desk, "m"), _place(desk, "s"))  # of what came in it the log has no digest

    marked, text = _told(desk, "glob:**/*.py", lambda: shutil.rmtree(_place(desk, "s")))

    assert marked == ["- deleted s/n.py  the first change since it was put"]
    assert "├ HH:MM:SS.mmm  AGO         - deleted s\n" in text


def test_a_directory_that_is_a_member_is_the_cause_though_it_has_no_content(desk: Desk) -> None:
    for dep in ("names:z/*", "names:zz/**", "tree:t"):
        above = dep.partition(":")[2].partition("/")[0]
        os.mkdir(_place(desk, above))

        marked, text = _told(desk, dep, partial(os.mkdir, _place(desk, f"{above}/sub")))

        assert marked == [f"+ created {above}/sub  the first change since it was put"]
        assert _UNKNOWN not in text


def test_a_link_that_is_a_member_is_the_cause_whatever_it_leads_to(desk: Desk) -> None:
    os.mkdir(_place(desk, "z"))

    marked, text = _told(desk, "names:z/*", lambda: os.symlink("nowhere", _place(desk, "z/l")))

    assert marked == ["+ created z/l  the first change since it was put"]
    assert _UNKNOWN not in text


def test_the_move_of_a_directory_is_the_cause_of_what_came_in_it(desk: Desk) -> None:
    desk.save("m/x.py", "one\n")
    os.mkdir(_place(desk, "w"))

    marked, text = _told(desk, "glob:w/**/*.py", lambda: os.rename(_place(desk, "m"), _place(desk, "w/m")))

    assert marked == ["> moved w/m from m  the first change since it was put"]
    assert _UNKNOWN not in text


def test_a_link_to_a_directory_stays_the_cause_of_members_that_no_record_names(desk: Desk) -> None:
    desk.save("b/x.py", "one\n")
    os.mkdir(_place(desk, "g"))

    marked, _ = _told(
        desk,
        "glob:g/*/x.py",
        partial(os.symlink, "../b", _place(desk, "g/l")),
        partial(os.mkdir, _place(desk, "g/d")),
        partial(desk.save, "g/d/x.py", "one\n"),
    )

    assert marked == ["+ created g/l  the first change since it was put"]
