"""Twelve incidents that users of agents reported, each as a small story with the answer that was wanted there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from scening import (
    all_say,
    begin,
    code,
    exported,
    gaps,
    mutations,
    never_fresh,
    one,
    overflow,
    records_since,
    sh,
    since,
)
from support import HANG, Json, RpcError, Workspace, unwire

TRIALS = 20


def python(ws: Workspace, script: str) -> None:
    """A line of Python behind a shell, of which no tool could tell what it writes."""
    subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{script}"'], cwd=ws.root, check=True, timeout=HANG)


def test_a_shell_command_wrote_and_the_answer_names_it_before_any_later_edit(watched: Workspace) -> None:
    """The next edit would have undone what the shell's command did, from a snapshot that nobody doubted."""
    watched.write("f", "one\n")
    watched.put("read f", "file:f", fetched_at=watched.clock(), session="agent", turn=1)
    action = begin(watched, "tree:.", session="agent", turn=2, note="python -c ...")
    python(watched, "open('f', 'w').write('two')")
    watched("action.end", id=action, outcome="done")
    never_fresh(watched, "read f")
    assert one(watched.check("read f"))["mutation"]["actor"] == {"session": "agent", "turn": 2, "action": action}
    assert code(watched, "action.begin", writes=["file:f"], if_usable=["read f"]) == "action.stale"


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_a_branch_that_was_checked_out_and_left_again(watched: Workspace) -> None:
    """Never *unchanged* in between, and fresh again with the same bytes under newer times."""
    who = "-c user.name=a -c user.email=a@example.invalid"
    sh(watched, f"git init -q -b one; printf one > f; git add f; git {who} commit -qm one")
    sh(watched, f"git checkout -qb two; printf two > f; git {who} commit -qam two; git checkout -q one")
    watched.put("k", "file:f", fetched_at=watched.clock())
    was = os.stat(watched.path("f"))
    sh(watched, "git checkout -q two")
    never_fresh(watched, "k")
    sh(watched, "git checkout -q one")
    assert os.stat(watched.path("f")).st_mtime_ns > was.st_mtime_ns
    all_say(watched, "k", "fresh")


def test_of_two_sessions_that_write_one_memory_none_wins_in_silence(ws: Workspace) -> None:
    first = ws("entry.put", key="m", value="first", deps=[], session="A")["version"]
    ws("entry.put", key="m", value="of A", deps=[], based_on=first, session="A")
    with pytest.raises(RpcError) as caught:
        ws("entry.put", key="m", value="of B", deps=[], based_on=first, session="B")
    assert caught.value.code == "entry.conflict"
    assert ws("entry.get", key="m")["value"] == "of A"
    ws("entry.put", key="m", value="of B", deps=[], based_on=caught.value.data["version"], session="B")
    kept = {each["value"]: each["standing"] for each in exported(ws)}
    assert kept == {"first": "revoked", "of A": "revoked", "of B": "active"}


def test_who_read_before_another_wrote_may_not_write_on_what_it_read(watched: Workspace) -> None:
    """Read, read, write, write: a lock on the file protects the bytes and not what was thought of them."""
    watched.write("notes", "base\n")
    for session in "AB":
        watched.put(f"{session}'s copy", "file:notes", fetched_at=watched.clock(), session=session)
    action = begin(watched, "file:notes", session="A", if_usable=["A's copy"])
    watched.write("notes", "base\nof A\n")
    watched("action.end", id=action, outcome="done")
    never_fresh(watched, "B's copy")
    assert one(watched.check("B's copy"))["mutation"]["actor"]["session"] == "A"
    with pytest.raises(RpcError) as caught:
        watched("action.begin", writes=["file:notes"], session="B", if_usable=["B's copy"])
    assert caught.value.code == "action.stale"
    assert caught.value.data["verdicts"]["B's copy"]["verdict"] == "dirty"


def test_what_changes_while_an_edit_waits_for_approval_refuses_it(watched: Workspace) -> None:
    """The check belongs to the moment of the write: an answer of before the question to the user is none."""
    for number in range(TRIALS):
        watched.write("f", f"one {number}")
        watched.put("edit of f", "file:f", fetched_at=watched.clock())
        assert watched.verdict("edit of f") == "fresh"
        python(watched, f"open('f', 'w').write('by the user {number}')")
        before = watched("action.list")["actions"]
        assert code(watched, "action.begin", writes=["file:f"], if_usable=["edit of f"]) == "action.stale", number
        assert watched("action.list")["actions"] == before, "nothing has begun"
        with open(watched.path("f"), "rb") as file:
            assert file.read() == b"by the user %d" % number, "and nothing was written by who asked"


def test_a_rewrite_of_the_same_length_in_the_same_tick_with_its_time_restored(watched: Workspace) -> None:
    for number in range(TRIALS):
        path = watched.write("f", f"one {number:02}")
        was = os.stat(path)
        watched.put("k", "file:f", fetched_at=watched.clock())
        watched.write("f", f"two {number:02}")
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        now = os.stat(path)
        assert (now.st_size, now.st_mtime_ns) == (was.st_size, was.st_mtime_ns)
        never_fresh(watched, "k")


def test_an_older_copy_in_its_place_is_another_although_its_time_went_back(watched: Workspace) -> None:
    """Newer than is no question to ask of a time; not equal is one."""
    watched.write("old", "old\n")
    os.utime(watched.path("old"), (1_000_000_000, 1_000_000_000))
    for script in ("cp -p old f", "cp -p old f.new; mv f.new f", "mv old f"):
        watched.write("f", "new\n")
        watched.put("k", "file:f", fetched_at=watched.clock())
        sh(watched, script)
        assert os.stat(watched.path("f")).st_mtime == 1_000_000_000
        never_fresh(watched, "k")
    watched.put("k", "file:f", fetched_at=watched.clock())
    sh(watched, "touch f")
    all_say(watched, "k", "fresh")


def test_what_was_derived_by_a_tool_rests_on_the_tools_settings_too(watched: Workspace) -> None:
    """The settings were wrong, and so was all that came of them, from a file that nobody ever changed."""
    watched.write("f", "source\n")
    watched.write("tool.toml", "broken\n")
    watched.put("parsed f", "file:f", "file:tool.toml", value="nothing found", fetched_at=watched.clock())
    watched("entry.put", key="report", value=0, deps=["entry:parsed f"], fetched_at=watched.clock())
    watched.write("tool.toml", "repaired\n")
    never_fresh(watched, "parsed f")
    assert one(watched.check("parsed f"))["dep"] == "file:tool.toml"
    assert watched.found("report") == ("dirty", "entry-dirty")
    done = watched.put("parsed f", "file:f", "file:tool.toml", value="three found", fetched_at=watched.clock())
    assert done["verdict"]["verdict"] == "fresh"
    assert "late" not in done
    assert watched.found("report") == ("dirty", "entry-replaced")


def test_an_autosave_with_the_bytes_to_come_is_renamed_over_the_file(watched: Workspace) -> None:
    """Known by its content, it would be taken for the autosave that moved, and never be looked at again."""
    watched.write("f", "saved\n")
    watched.write("f~", "being typed\n")
    for key in ("f", "f~"):
        watched.put(key, f"file:{key}", fetched_at=watched.clock())
    os.rename(watched.path("f~"), watched.path("f"))
    never_fresh(watched, "f", "f~")
    assert [watched.check(key)["why"] for key in ("f", "f~")] == ["changed", "deleted"]
    watched.put("f", "file:f", fetched_at=watched.clock())
    all_say(watched, "f", "fresh")
    watched.write("f", "typed on\n")
    never_fresh(watched, "f")


def test_evidence_about_one_thing_says_nothing_against_another(ws: Workspace) -> None:
    """Statements that look alike retire each other where they are compared by what they say."""
    for key in ("X uses", "Y uses"):
        ws("entry.put", key=key, value="postgres", deps=[])
    (before,) = [line for line in exported(ws) if line["key"] == "Y uses"]
    clock = ws.clock()
    put = ws("entry.put", key="X uses", value="sqlite", deps=[])
    assert {record["key"] for record in records_since(ws.rpc, clock)} == {"X uses"}
    assert [line for line in exported(ws) if line["key"] == "Y uses"] == [before]
    assert (ws("entry.get", key="Y uses")["value"], ws.verdict("Y uses")) == ("postgres", "fresh")
    (old,) = [line for line in exported(ws) if line["key"] == "X uses" and line["version"] == put["superseded"]]
    assert (old["value"], old["standing"], old["reason"]) == ("postgres", "revoked", "superseded")


def test_a_burst_that_no_queue_holds_hides_nothing(own: Workspace) -> None:
    """Among very many events those of one file are lost. What is read is true; what is not read is not vouched for."""
    keys = ["f", "g"]
    for key in keys:
        own.write(key, "one\n")
        own.put(key, f"file:{key}", fetched_at=own.clock())
    shown = own.clock()
    os.link(own.path("g"), own.path("linked"))  # so that a clock alone cannot show it
    clock = own.clock()
    own("entry.put", key="unproven", value=1, deps=["file:g"], fetched_at=clock)
    overflow(own.daemon, os.path.join(own.root, "burst"))
    own.write("f", "two\n")
    never_fresh(own, "f")
    all_say(own, "g", "fresh")
    assert own.check("g", verify="log")["checked"] != "log"
    assert own.verdict("unproven") != "fresh"
    assert since(own, clock)["complete"] is False
    assert gaps(records_since(own.rpc, shown), own.root), "the log says that it has a hole"
    late = own("entry.put", key="late", value=1, deps=["file:f"], fetched_at=clock)
    assert late["unproven"] == ["file:f"]


@pytest.mark.parametrize("resolved", [True, False], ids=["a path", "a bare name"])
def test_what_a_memory_cites_is_deleted_while_nobody_is_there(own: Workspace, *, resolved: bool) -> None:
    """A name in a sentence is no dependency: without one nothing is ever fresh."""
    own.write("tests/test_old.py", "one\n")
    cited: Json = "see test_old.py for the retry rules"
    if resolved:
        own.put("k", "file:tests/test_old.py", value=cited, fetched_at=own.clock())
    else:
        own("entry.put", key="k", value=cited)
    own.daemon.kill9()
    shutil.rmtree(own.path("tests"))
    own.daemon.start()
    assert own.found("k") == (("dirty", "deleted") if resolved else ("unknown", "no-provenance"))
    assert "value" not in own("entry.get", key="k")
    assert own.verdict("k", revalidate=False) != "fresh"


# ---- and those that were left over


def test_an_own_write_is_told_apart_from_a_strangers_by_what_was_declared(watched: Workspace) -> None:
    """One flag that says *the next event is mine* hides the next event of somebody else."""
    clock = watched.clock()
    action = begin(watched, "file:f", session="me")
    watched("action.end", id=action, outcome="done")  # it wrote nothing in the end
    watched.write("f", "by a stranger")
    action = begin(watched, "file:f", session="me")
    watched.write("f", "by me")
    watched("action.end", id=action, outcome="done")
    watched.write("f", "by a stranger again")
    told = [r for r in mutations(watched, clock) if unwire(r["path"]) == watched.path("f")]
    assert [r["actor"].get("session") for r in told if r["kind"] == "modified"][-2:] == ["me", None]
    assert told[0]["actor"].get("session") is None


def test_a_second_edit_on_what_was_known_before_the_first_is_refused(watched: Workspace) -> None:
    watched.write("f", "a\nb\nc\n")
    watched.put("anchors", "file:f", fetched_at=watched.clock())
    action = begin(watched, "file:f", session="me", if_usable=["anchors"])
    watched.write("f", "a\nnew\nb\nc\n")
    watched("action.end", id=action, outcome="done")
    assert code(watched, "action.begin", writes=["file:f"], session="me", if_usable=["anchors"]) == "action.stale"
