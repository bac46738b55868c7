"""The strict causal rule and `verify: "log"`: what is said without reading, by SPEC 4.1 and 4.3."""

from __future__ import annotations

import os

import pytest
from asking import one, sh
from support import SHOWN, Json, Workspace, unwire
from watching import overflow, put_by_clock

UNTOUCHED = {("unknown", "unproven"), ("fresh", "untouched")}
"""Nothing shows a touch: unknown, or fresh where a seal holds."""
READ = {("fresh", proof) for proof in SHOWN}
"""The log was no proof."""


def strict(ws: Workspace, key: str = "k") -> tuple[str, str]:
    answer = ws.check(key, revalidate=False)
    return answer["verdict"], answer["why"]


def standard(ws: Workspace) -> None:
    ws.write("f", "one\n")
    ws.write("d/a", "one\n")
    ws.write("d/e/b", "one\n")
    os.symlink("f", ws.path("link"))
    os.symlink("d", ws.path("dlink"))


# ---- the strict rule


@pytest.mark.parametrize("dep", ["file:f", "file:link", "file:dlink/a", "tree:d", "glob:d/*", "dir:d", "file:none"])
def test_what_nobody_touched_is_never_dirty_by_the_strict_rule(watched: Workspace, dep: str) -> None:
    standard(watched)
    watched.put("k", dep, fetched_at=watched.clock())
    watched.write("other", "x")
    watched.write("f2", "x")
    assert strict(watched) in UNTOUCHED
    assert watched.verdict("k") == "fresh"


@pytest.mark.parametrize(
    ("dep", "script"),
    [
        ("file:f", "printf 'two\n' > f; printf 'one\n' > f"),
        ("file:f", "printf 'one\n' > .t; mv .t f"),
        ("file:f", "mv f g; mv g f"),
        ("file:f", "rm f; printf 'one\n' > f"),
        ("file:link", "printf 'two\n' > f; printf 'one\n' > f"),
        ("file:link", "ln -s d n; mv -T n link; ln -s f n; mv -T n link"),
        ("file:dlink/a", "mv d away; mv away d"),
        ("file:dlink/a", "printf 'one\n' > d/a"),
        ("file:d/e/b", "mv d away; mv away d"),
        ("file:none", "touch none; rm none"),
        ("dir:d", "touch d/new; rm d/new"),
        ("names:d/*", "touch d/new; rm d/new"),
        ("glob:d/*", "printf 'two\n' > d/a; printf 'one\n' > d/a"),
        ("glob:d/**/*", "mv d/e d/g; mv d/g d/e"),
        ("tree:d", "printf 'two\n' > d/e/b; printf 'one\n' > d/e/b"),
        ("tree:d", "mv d away; mv away d"),
    ],
)
def test_touched_is_dirty_by_the_strict_rule_though_the_content_is_back(
    watched: Workspace, dep: str, script: str
) -> None:
    standard(watched)
    watched.put("k", dep, fetched_at=watched.clock())
    sh(watched, script)
    answer = watched.check("k", revalidate=False)
    assert (answer["verdict"], answer["why"]) == ("dirty", "touched")
    assert one(answer)["mutation"]
    assert watched.verdict("k") == "fresh", "by content it is what it was"


def test_the_evidence_of_touched_names_the_newest_mutation(watched: Workspace) -> None:
    standard(watched)
    watched.put("k", "file:f", fetched_at=watched.clock())
    sh(watched, "printf 'two\n' > f; mv f g; mv g f")
    mutation = one(watched.check("k", revalidate=False))["mutation"]
    assert (mutation["kind"], unwire(mutation["path"])) == ("moved", watched.path("f"))


def test_where_nothing_is_watched_a_differing_stat_is_a_touch(watched: Workspace) -> None:
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    with open(outside, "w") as file:
        file.write("one\n")
    watched.put("k", f"file:{outside}", fetched_at=watched.clock())
    assert strict(watched) in UNTOUCHED
    with open(outside, "w") as file:
        file.write("two\n")
    with open(outside, "w") as file:
        file.write("one\n")
    assert strict(watched) == ("dirty", "touched")
    assert watched.verdict("k") == "fresh"
    os.unlink(outside)
    assert strict(watched) == ("dirty", "touched")


def test_a_declared_write_of_a_path_is_a_touch(watched: Workspace) -> None:
    standard(watched)
    watched.put("k", "file:d/a", fetched_at=watched.clock())
    watched("action.record", writes=["file:d/other"])
    assert strict(watched) in UNTOUCHED
    watched("action.record", writes=["file:d/a"])
    assert strict(watched) == ("dirty", "touched")
    assert watched.verdict("k") == "fresh"


def test_a_touch_before_the_clock_is_none(watched: Workspace) -> None:
    standard(watched)
    watched.write("f", "two\n")
    watched.put("k", "file:f", fetched_at=watched.clock())
    assert strict(watched) in UNTOUCHED


def test_a_touch_between_the_clock_and_the_put_is_one(watched: Workspace) -> None:
    standard(watched)
    clock = watched.clock()
    watched.write("f", "one\n")
    watched.put("k", "file:f", fetched_at=clock)
    assert strict(watched) == ("dirty", "touched")
    assert watched.verdict("k") == "fresh"


def test_a_new_put_forgets_old_touches(watched: Workspace) -> None:
    standard(watched)
    watched.put("k", "file:f", fetched_at=watched.clock())
    watched.write("f", "one\n")
    assert strict(watched) == ("dirty", "touched")
    watched.put("k", "file:f", fetched_at=watched.clock())
    assert strict(watched) in UNTOUCHED


@pytest.mark.parametrize("how", ["touched", "untouched"])
def test_an_unproven_dependency_that_was_touched_is_dirty(watched: Workspace, how: str) -> None:
    """It has another name outside, so that a clock alone cannot show it, however long it rests."""
    standard(watched)
    os.link(watched.path("f"), os.path.join(watched.daemon.home, f"other name of {how}"))
    answer = put_by_clock(watched, "k", "file:f")
    assert answer["unproven"] == ["file:f"]
    assert watched.found("k") == ("unknown", "unproven")
    if how == "touched":
        sh(watched, "printf 'two\n' > f; printf 'one\n' > f")
        answer = watched.check("k")
        assert (answer["verdict"], answer["why"]) == ("dirty", "touched")
        assert one(answer)["mutation"]["kind"] == "modified"
    else:
        watched.write("g", "x")
        assert watched.found("k") == ("unknown", "unproven")


# ---- verify: "log"


def by_log(ws: Workspace, key: str = "k") -> tuple[str, str]:
    answer = ws.check(key, verify="log")
    return answer["verdict"], answer["checked"]


@pytest.mark.parametrize("dep", ["file:f", "file:link", "file:dlink/a", "tree:d", "glob:d/*", "dir:d", "file:none"])
def test_a_covered_path_that_no_record_names_is_fresh_by_the_log(watched: Workspace, dep: str) -> None:
    standard(watched)
    watched.put("k", dep, fetched_at=watched.clock())
    assert by_log(watched) == ("fresh", "log")
    watched.write("other", "x")
    assert by_log(watched) == ("fresh", "log")
    assert watched.check("k")["checked"] in SHOWN, "who does not ask for less gets no less"


@pytest.mark.parametrize("dep", ["file:f", "file:link", "tree:.", "glob:*"])
def test_after_a_touch_the_log_proves_nothing_and_it_is_read(watched: Workspace, dep: str) -> None:
    standard(watched)
    watched.put("k", dep, fetched_at=watched.clock())
    sh(watched, "printf 'two\n' > f; printf 'one\n' > f")
    assert by_log(watched) in READ
    watched.write("f", "two\n")
    assert watched.check("k", verify="log")["verdict"] == "dirty"


def test_a_change_right_before_the_question_is_dirty_by_the_log(watched: Workspace) -> None:
    for number in range(100):
        watched.write("f", f"{number}")
        watched.write("d/e/f", "x")
        watched.put("k", "file:f", "file:d/e/f", fetched_at=watched.clock())
        if number % 2:
            watched.write("f", f"{number} changed")
        else:
            os.rename(watched.path("d"), watched.path("away"))
        assert watched.check("k", verify="log")["verdict"] == "dirty", number
        if not number % 2:
            os.rename(watched.path("away"), watched.path("d"))


def test_a_directory_above_that_moved_and_another_in_its_place(watched: Workspace) -> None:
    watched.write("d/e/f", "one")
    watched.put("k", "file:d/e/f", fetched_at=watched.clock())
    os.rename(watched.path("d"), watched.path("old"))
    watched.write("d/e/f", "two")
    assert watched.check("k", verify="log")["verdict"] == "dirty"


def test_after_a_gap_the_log_proves_nothing(own: Workspace) -> None:
    standard(own)
    own.put("k", "file:f", fetched_at=own.clock())
    assert by_log(own) == ("fresh", "log")
    own.rpc("root.add", path=own.root, ignore=["nothing-of-that-name"])
    assert by_log(own) in READ
    own.put("k", "file:f", fetched_at=own.clock())
    assert by_log(own) == ("fresh", "log")
    own.daemon.restart().scanned()
    assert by_log(own) in READ


def test_after_an_overflow_the_log_proves_nothing(own: Workspace) -> None:
    standard(own)
    own.put("k", "file:f", fetched_at=own.clock())
    overflow(own.daemon, os.path.join(own.root, "burst"))
    assert by_log(own) in READ
    own.write("f", "two\n")
    assert own.check("k", verify="log")["verdict"] == "dirty"


@pytest.mark.parametrize("where", ["outside", "through a link", "ignored", "shared memory"])
def test_what_is_not_watched_is_read_whatever_is_asked(watched: Workspace, where: str) -> None:
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    os.mkdir(outside)
    path, dep = {
        "outside": (f"{outside}/f", f"file:{outside}/f"),
        "through a link": (f"{outside}/f", "file:out/f"),
        "ignored": (f"{watched.root}/.git/f", "file:.git/f"),
        "shared memory": (f"/dev/shm/provd-{os.getpid()}-{os.path.basename(watched.root)}", ""),
    }[where]
    os.symlink(outside, watched.path("out"))
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def write(content: str) -> None:
        with open(path, "w") as file:
            file.write(content)

    try:
        write("one")
        watched.put("k", dep or f"file:{path}", fetched_at=watched.clock())
        answer: Json = watched.check("k", verify="log")
        assert (answer["verdict"], answer["checked"]) in READ
        write("two")
        assert watched.check("k", verify="log")["verdict"] == "dirty"
    finally:
        os.unlink(path)
