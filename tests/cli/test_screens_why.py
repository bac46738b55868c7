"""`provd why` as a terminal shows it: one entry's life, compared as text."""

from __future__ import annotations

import os
import re
import sys

import pytest
from screens import COLOUR, Desk, coloured, desk

__all__ = ["desk"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the log is whole only where inotify tells")

_DIGESTS = "xxh3:06d430ccb342… → xxh3:736eedff46ea…"
_CLOCK = f"c:{'L' * 16}:{'R' * 16}"


def _changed(desk: Desk) -> None:
    """An entry that was put twice, and that a declared action made dirty."""
    desk.save("config.py", "import os\n")
    desk.put("summary", desk.read("config.py"), value="old", session="s0")
    desk.put("summary", desk.read("config.py"), value="new", session="s1", turn=3)
    action = desk.daemon.rpc("action.begin", writes=["file:config.py"], session="s2", turn=4, root=desk.daemon.root)
    desk.save("config.py", "import json\n")
    desk.daemon.rpc("action.end", id=action["id"], outcome="done")


_LIFE = """\
<bold>summary</>  version 9
  root /tmp/provd-HOME0000/root, clock CLOCK:8

│ <dim>YYYY-MM-DD</>
○ HH:MM:SS.mmm  <dim>AGO         </>version 8 put  (session s0)
<bold>●</> HH:MM:SS.mmm  <dim>AGO         </><bold>put by session s1, turn 3, superseding version 8</>
│   rests on:
│     <red>✗</> file:/tmp/provd-HOME0000/root/config.py  read sha256:3727adff524e…
├ HH:MM:SS.mmm  <dim>AGO         </>action begin 10 config.py  (session s2, turn 4)
<red>✗</> HH:MM:SS.mmm  <dim>AGO         </><yellow>~ modified</> config.py
│                           xxh3:06d430ccb342… → xxh3:736eedff46ea…
│                           (session s2, turn 4, action 10)
│                           <red>the first change since it was put</>
├ HH:MM:SS.mmm  <dim>AGO         </>action end 10 done  (session s2, turn 4)
<red>✗ dirty  </>  summary  (changed)
  standing active, version 9, checked content,
  as of CLOCK:13

  <bold>file:/tmp/provd-HOME0000/root/config.py</>  changed
      was sha256:3727adff524e…
      is  sha256:261a9112a291…
      touched by record 11 modified /tmp/provd-HOME0000/root/config.py
        at YYYY-MM-DD HH:MM:SS.mmm, AGO (session s2, turn 4, action 10)
      next: c=$(provd clock)  # read it again and put the entry anew, with --fetched-at $c
"""


def test_a_life_in_colours(desk: Desk) -> None:
    _changed(desk)

    seen = desk.look("why", "summary")

    assert coloured(seen.text) == _LIFE.replace("CLOCK", _CLOCK)
    assert seen.code == 1


_PIPED = """\
summary  version 9
  root /tmp/provd-HOME0000/root, clock CLOCK:8

│ YYYY-MM-DD
○ HH:MM:SS.mmm  AGO         version 8 put  (session s0)
● HH:MM:SS.mmm  AGO         put by session s1, turn 3, superseding version 8
│   rests on:
│     ✗ file:/tmp/provd-HOME0000/root/config.py  read sha256:3727adff524e…
├ HH:MM:SS.mmm  AGO         action begin 10 config.py  (session s2, turn 4)
✗ HH:MM:SS.mmm  AGO         ~ modified config.py DIGESTS  BY  the first change since it was put
├ HH:MM:SS.mmm  AGO         action end 10 done  (session s2, turn 4)
✗ dirty    summary  (changed)
  standing active, version 9, checked content, as of CLOCK:13

  file:/tmp/provd-HOME0000/root/config.py  changed
      was sha256:3727adff524e…
      is  sha256:261a9112a291…
      touched by record 11 modified /tmp/provd-HOME0000/root/config.py at YYYY-MM-DD HH:MM:SS.mmm, AGO BY
      next: c=$(provd clock)  # read it again and put the entry anew, with --fetched-at $c
"""


def test_the_same_words_through_a_pipe_a_line_each(desk: Desk) -> None:
    _changed(desk)

    piped = desk.pipe("why", "summary", COLUMNS="40")

    told = {"CLOCK": _CLOCK, "BY": "(session s2, turn 4, action 10)", "DIGESTS": _DIGESTS}
    assert piped.text == re.sub("|".join(told), lambda found: told[found[0]], _PIPED)
    assert piped.code == 1
    seen = desk.look("why", "summary").plain.split()
    assert [word for word in piped.text.split() if word != "│"] == [word for word in seen if word != "│"]


def test_without_colours(desk: Desk) -> None:
    _changed(desk)
    plain = desk.look("why", "summary").plain

    assert desk.look("why", "summary", NO_COLOR="1").text == plain
    assert desk.look("why", "summary", TERM="dumb").text == plain


def test_where_the_locale_is_c_all_of_it_is_ascii(desk: Desk) -> None:
    _changed(desk)
    signs = str.maketrans({"│": "|", "├": "+", "○": "o", "●": "*", "✗": "!", "…": "...", "→": "->"})
    drawn = desk.look("why", "summary", columns=120).text

    for locale in ({"LC_ALL": "C"}, {"LC_ALL": "", "LANG": "C"}, {"LC_ALL": "POSIX"}):
        text = desk.look("why", "summary", columns=120, **locale).text
        assert text.isascii()
        # What is longer in ASCII may be folded elsewhere.
        assert text.replace("|", " ").split() == drawn.translate(signs).replace("|", " ").split()
    assert desk.look("why", "summary", columns=120, LC_ALL="C", PYTHONUTF8="1").text == drawn


def test_a_terminal_of_forty_columns_is_enough(desk: Desk) -> None:
    name = f"src/{'deep/' * 12}config.py"
    desk.save(name, "one\n")
    desk.put("a key that is longer than all the columns of this terminal", desk.read(name))
    desk.save(name, "two\n")

    seen = desk.look("why", "a key that is longer than all the columns of this terminal", columns=40)

    assert "a key that is longer than all the columns of this terminal  version" in seen.plain
    assert name not in seen.plain
    assert "src/deep/de…ep/deep/deep/config.py" in seen.plain
    fits = [line for line in seen.lines if "a key" not in line and "as of c:" not in line and "clock c:" not in line]
    fits = [line for line in fits if "next: " not in line]
    assert [line for line in fits if len(line) > 40] == []
    assert name in desk.look("why", "a key that is longer than all the columns of this terminal", columns=200).plain


def test_born_stale_is_told_in_words(desk: Desk) -> None:
    desk.save("config.py", "as it was read\n")
    read = desk.read("config.py")
    desk.save("config.py", "changed meanwhile\n")
    desk.put("late", read)

    told = desk.pipe("why", "late").lines

    assert told[4].startswith("├ HH:MM:SS.mmm  AGO         ~ modified config.py xxh3:")
    assert told[4].endswith("  the last change before it was put")
    assert told[5] == "✗ HH:MM:SS.mmm  AGO         put", "by sha256 the log compares nothing"
    assert told[8] == (
        "│   ✗ it was dirty when it was put: file:/tmp/provd-HOME0000/root/config.py"
        " differs from the digest that was given"
    )
    assert told[9:11] == ["│ where nobody is named, no action declared it", "✗ dirty    late  (changed)"]


def test_what_was_changed_between_the_clock_and_the_put_stands_before_the_put(desk: Desk) -> None:
    desk.save("config.py", "as it was read\n")
    clock = desk.clock()
    desk.save("config.py", "changed meanwhile\n")
    desk.put("late", {"dep": f"file:{desk.daemon.root}/config.py"}, fetched_at=clock)

    told = desk.pipe("why", "late").lines

    assert told[4].startswith("✗ HH:MM:SS.mmm  AGO         ~ modified config.py xxh3:")
    assert told[4].endswith("  changed between reading and remembering")
    assert told[5] == "● HH:MM:SS.mmm  AGO         put"


def test_a_file_that_was_only_touched_since_is_born_stale_all_the_same(desk: Desk) -> None:
    desk.save("config.py", "as it was read\n")
    read = desk.read("config.py")
    desk.save("config.py", "changed meanwhile\n")
    desk.put("late", read)
    desk.save("config.py", "changed meanwhile\n")

    told = desk.pipe("why", "late").text

    assert "(the same content)\n" in told
    assert "first change" not in told
    assert "│   ✗ it was dirty when it was put: file:" in told


def test_what_left_the_content_as_it_was_is_not_the_first_change(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    desk.put("k", desk.read("config.py"))
    desk.save("config.py", "one\n")
    desk.save("config.py", "two\n")

    told = [line for line in desk.pipe("why", "k").lines if "~ modified config.py" in line]

    assert [line[0] for line in told] == ["├", "✗"]
    assert told[0].endswith("(the same content)")
    assert told[1].endswith("  the first change since it was put")


def test_nothing_is_said_to_be_born_stale_where_the_log_is_not_whole(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    desk.put("k", desk.read("config.py"))
    desk.daemon.stop()
    with open(os.path.join(desk.daemon.root, "config.py"), "w") as file:
        file.write("changed while the daemon was down\n")
    desk.daemon.start().scanned()

    told = desk.pipe("why", "k").lines

    assert [line for line in told if line.startswith("? HH") and "gap all: started" in line]
    assert [line for line in told if line.startswith("│   started (all): nobody watched before that")]
    assert not [line for line in told if "it was dirty before it was put" in line]


def test_nothing_is_said_to_be_born_stale_of_what_nobody_watches(desk: Desk) -> None:
    desk.save("../outside/f", "one\n")
    desk.put("k", desk.read("../outside/f"))
    desk.save("../outside/f", "two\n")

    told = desk.pipe("why", "k").text

    name = "file:/tmp/provd-HOME0000/root/../outside/f"
    assert f"│   ✗ when {name} was changed nobody knows: the log has nothing of what is not watched\n" in told
    assert "before that" not in told
    assert "the log is not whole since then: not wholly watched: " in told
    assert "it was dirty before it was put" not in told


def test_of_a_set_the_first_change_is_one_of_a_member_that_differs(desk: Desk) -> None:
    for name in ("s/a", "s/b", "s/c"):
        desk.save(name, "one\n")
    desk.put("k", "tree:s", as_of="put")
    desk.save("s/b", "one\n")
    desk.save("s/c", "two\n")
    desk.save("s/c", "one\n")
    desk.save("s/a", "two\n")

    told = [line for line in desk.pipe("why", "k").lines if line[2:].startswith("HH:MM") and " s/" in line]

    assert ["the first change" in line for line in told] == [False, False, False, True]
    assert told[-1].startswith("✗")
    assert " s/a " in told[-1]


@pytest.mark.parametrize("dep", ["tree:s", "glob:s/*", "s/a"])
def test_a_change_that_was_undone_is_not_the_first_one(desk: Desk, dep: str) -> None:
    desk.save("s/a", "one\n")
    desk.save("s/b", "one\n")
    desk.put("k", desk.read(dep) if dep == "s/a" else dep, as_of="put")  # the digest of another algorithm
    for content in ("two\n", "one\n", "three\n"):
        desk.save("s/a", content)

    told = [line for line in desk.pipe("why", "k").lines if "~ modified s/a" in line]

    assert [line[0] for line in told] == ["├", "├", "✗"]
    assert told[-1].endswith("  the first change that was not undone")


def test_what_was_changed_before_the_put_and_put_back_since_is_told_as_it_was(desk: Desk) -> None:
    desk.save("s/a", "one\n")
    clock = desk.clock()
    desk.save("s/a", "two\n")
    digest = desk.daemon.rpc("deps.snapshot", deps=["tree:s"], root=desk.daemon.root)["digests"][0]["digest"]
    desk.put("k", {"dep": "tree:s", "digest": digest}, fetched_at=clock)
    desk.save("s/a", "one\n")

    told = desk.pipe("why", "k")

    assert told.code == 1
    assert "dirty before it was put" not in told.plain


def test_what_came_back_is_not_marked(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    desk.put("k", desk.read("config.py"))
    desk.save("config.py", "two\n")
    desk.save("config.py", "one\n")

    told = desk.pipe("why", "k")

    assert told.code == 0
    assert [line[0] for line in told.lines[4:9]] == ["●", "│", "│", "├", "├"]
    assert told.lines[10].startswith("✓ fresh")


def test_the_moment_is_exact_where_the_log_can_compare(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    digest = desk.daemon.rpc("deps.snapshot", deps=[f"file:{desk.daemon.root}/config.py"])["digests"][0]["digest"]
    desk.put("k", {"dep": f"file:{desk.daemon.root}/config.py", "digest": digest})
    for content in ("two\n", "one\n", "three\n", "four\n"):
        desk.save("config.py", content)

    changes = [line for line in desk.pipe("why", "k").lines if "modified config.py" in line and "HH:MM" in line[:14]]

    assert [line[0] for line in changes] == ["├", "├", "✗", "├"]
    assert changes[2].endswith("  here it became dirty")


def test_what_was_proven_after_the_put_is_not_called_born_stale(desk: Desk) -> None:
    path = os.path.join(desk.daemon.root, "f")
    desk.save("f", "one\n")
    desk.put("k", desk.read("f"))
    desk.daemon.rpc("entry.revalidate", key="k", root=desk.daemon.root)
    os.link(path, os.path.join(desk.daemon.outside, "another-name"))
    desk.clock()
    desk.daemon.rpc("entry.revalidate", key="k", root=desk.daemon.root)
    with open(os.path.join(desk.daemon.outside, "another-name"), "w") as file:  # what no watcher of the root is told
        file.write("two\n")

    told = desk.pipe("why", "k").text

    assert told.count("○ HH:MM:SS.mmm  AGO         proven again, its clock renewed\n") == 2
    unseen = "something that the log did not see changed it"
    assert f"{unseen}: file:/tmp/provd-HOME0000/root/f differs from what was put\n" in told


_CHAIN = """\
  entry:plan  entry-dirty
      root cause: report ← entry:plan ← entry:summary ← file:/tmp/provd-HOME0000/root/config.py changed
      next: provd why plan  # put the entry that it rests on anew, then derive it again
"""


def test_a_derived_entry_tells_its_root_cause(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    desk.put("summary", desk.read("config.py"))
    desk.put("plan", "entry:summary", fetched_at=desk.clock())
    desk.put("report", "entry:plan", fetched_at=desk.clock())
    desk.save("config.py", "two\n")

    told = desk.pipe("why", "report")

    assert told.text.endswith(_CHAIN)
    touched = next(line for line in told.lines if line.startswith("✗ HH"))
    assert "~ modified config.py" in touched
    assert touched.endswith("  through entry:summary")


_TREE = """\
  entry:plan  entry-dirty
      root causes:
      ├ entry:one  entry-dirty
      │ └ file:/tmp/provd-HOME0000/root/1.py  changed
      └ entry:two  entry-dirty
        ├ file:/tmp/provd-HOME0000/root/2.py  deleted
        └ file:/tmp/provd-HOME0000/root/3.py  changed
      next: provd why plan  # put the entry that it rests on anew, then derive it again
"""


def test_several_causes_are_a_tree(desk: Desk) -> None:
    for name in ("1.py", "2.py", "3.py"):
        desk.save(name, "one\n")
    desk.put("one", desk.read("1.py"))
    desk.put("two", desk.read("2.py"), desk.read("3.py"))
    desk.put("plan", "entry:one", "entry:two", fetched_at=desk.clock())
    desk.put("report", "entry:plan", fetched_at=desk.clock())
    desk.save("1.py", "two\n")
    os.unlink(os.path.join(desk.daemon.root, "2.py"))
    desk.save("3.py", "two\n")

    assert desk.pipe("why", "report").text.endswith(_TREE)


def test_an_entry_derived_from_what_was_dirty_already_says_so(desk: Desk) -> None:
    desk.save("config.py", "one\n")
    desk.put("summary", desk.read("config.py"))
    desk.save("config.py", "two\n")
    desk.put("plan", "entry:summary", fetched_at=desk.clock())

    told = desk.pipe("why", "plan").lines

    assert "│   ✗ it was dirty before it was put: so was entry:summary" in told


def test_names_cannot_steer_the_terminal(desk: Desk) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202egnp\r.py"
    desk.save(evil, "one\n")
    desk.put("k\x1b[31m", desk.read(evil), session="s\x1b[1A")
    desk.save(evil, "two\n")

    for columns in (40, 80, 120):
        seen = desk.look("why", "k\x1b[31m", columns=columns)
        assert [c for c in COLOUR.sub("", seen.text) if not c.isprintable() and c != "\n"] == []
        assert "k\\x1b[31m  version" in seen.plain
