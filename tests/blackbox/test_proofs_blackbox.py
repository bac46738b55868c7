"""Proofs, dependencies without an entry, chains and peers of other namespaces, by SPEC 5 and 9."""

from __future__ import annotations

import json
import mmap
import os
import threading

import pytest
import xxhash
from asking import ask_from, keys_of, may_unshare, one, sh
from support import SHOWN, Json, Workspace

# ---- proofs


@pytest.mark.parametrize("written", ["file:f", "file:link/f", "file:d", "dir:d", "tree:.", "file:hard/../d/f"])
def test_the_strict_rule_calls_a_declared_write_dirty_without_reading(ws: Workspace, written: str) -> None:
    sh(ws, "mkdir d hard; echo one > d/f; ln -s d link; ln -s d/f f")
    ws.put("k", "file:d/f", fetched_at=ws.clock())
    assert ws.found("k", revalidate=False)[0] != "dirty"
    ws("action.record", writes=[written])
    assert ws.found("k", revalidate=False) == ("dirty", "touched")  # it, its real path, or a directory above
    assert ws.verdict("k") == "fresh"


def test_the_strict_rule_says_fresh_of_nothing_that_changed(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", fetched_at=ws.clock())
    ws.write("f", "two, and longer")
    assert ws.verdict("k", revalidate=False) != "fresh"
    os.unlink(ws.path("f"))
    assert ws.verdict("k", revalidate=False) != "fresh"


def test_the_strict_rule_answers_objects_and_the_empty_set(ws: Workspace) -> None:
    ws("entry.put", key="e", value=1, deps=[])
    ws("entry.put", key="o", value=1, deps=[ws.object("x")], fetched_at=ws.clock())
    assert ws.found("e", revalidate=False) == ("fresh", "no-dependencies")
    assert ws.found("o", revalidate=False) == ("fresh", "declared")
    ws("action.record", writes=[ws.object("x")])
    assert ws.found("o", revalidate=False) == ("dirty", "written")


@pytest.mark.parametrize("verify", ["auto", "content", "log"])
def test_whatever_proof_is_asked_for_a_change_is_seen(ws: Workspace, verify: str) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", fetched_at=ws.clock())
    answer = ws.check("k", verify=verify)
    if answer["verdict"] == "fresh":
        assert answer["checked"] in ({"content"} if verify == "content" else SHOWN)
    elif verify != "log":
        pytest.fail(json.dumps(answer))
    ws.write("f", "two")
    assert ws.verdict("k", verify=verify) != "fresh"


def test_checked_is_the_weakest_proof_that_was_used(ws: Workspace) -> None:
    ws.write("f", "one")
    clock = ws.clock()
    ws("entry.put", key="o", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("entry.put", key="both", value=1, deps=[ws.object("x"), ws.dep("file:f")], fetched_at=clock)
    ws("entry.put", key="file", value=1, deps=[ws.dep("file:f")], fetched_at=clock)
    proofs = [ws.check(key, verify="content")["checked"] for key in ("o", "both", "file")]
    assert proofs == ["declared", "declared", "content"]


def test_what_cannot_be_read_in_time_is_unknown_and_nobody_else_waits(ws: Workspace) -> None:
    with open(ws.path("big"), "wb") as file:
        os.truncate(file.fileno(), 1 << 40)
    ws.write("f", "one")
    ws.put("k", "file:f")
    slow = ws.daemon.connect()
    big = {"dep": f"file:{ws.root}/big", "digest": "xxh3:" + "0" * 32}
    number = slow.send("deps.check", deps=[big], timeout_ms=600)
    assert ws.verdict("k") == "fresh"
    answer = slow.result(number)
    assert (answer["verdict"], answer["why"], one(answer)["why"]) == ("unknown", "timeout", "timeout")
    assert ws.verdict("k") == "fresh"


def test_a_store_through_a_mapping_that_moves_no_time_is_seen(ws: Workspace) -> None:
    path = ws.write("f", b"-" * 4096)
    ws.write("other")
    ws.put("other", "file:other")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:1] = b"a"  # the page is dirty from here on: later stores move no time
        ws.put("k", "file:f", "tree:.", "glob:*")
        for _ in range(500):  # other questions, so that the file is old when it is asked for
            ws.check("other")
        for number in range(100):
            assert ws.verdict("k") == "fresh"
            mapping[0:1] = b"b"
            assert ws.verdict("k") == "dirty", number
            mapping[0:1] = b"a"


def test_rewrites_within_one_tick_are_seen(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", "tree:.", "glob:*")
    for number in range(200):
        ws.write("f", "two")
        assert ws.verdict("k") == "dirty", number
        ws.write("f", "one")
        assert ws.verdict("k") == "fresh", number


@pytest.mark.parametrize("size", [100, 3 << 20], ids=["small", "large"])
def test_a_question_never_shares_a_reading_that_began_before_it(ws: Workspace, size: int) -> None:
    """Others ask the same without a pause; a change that was finished before a question is in its answer."""
    content = {b"a": b"a" * size, b"b": b"b" + b"a" * (size - 1)}
    ws.write("f", content[b"a"])
    ws.put("k", "file:f", "tree:.")
    stop = threading.Event()
    odd: list[Json] = []

    def hammer() -> None:
        rpc = ws.daemon.connect()
        while not stop.is_set():
            numbers = [rpc.send("entry.check", key="k", root=ws.root) for _ in range(4)]
            odd.extend(a for a in map(rpc.result, numbers) if a["verdict"] == "unknown" and a["why"] != "moving")

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with open(ws.path("f"), "r+b") as file:
            for number in range(30):
                os.pwrite(file.fileno(), b"b", 0)
                assert ws.verdict("k") == "dirty", number
                os.pwrite(file.fileno(), b"a", 0)
                assert ws.verdict("k") == "fresh", number
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [answer for answer in odd if answer["why"] != "timeout"] == []


def test_hundreds_of_questions_in_flight_are_all_answered(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f")
    numbers = [ws.rpc.send("entry.check", key="k", root=ws.root) for _ in range(500)]
    assert {ws.rpc.result(number)["verdict"] for number in numbers} == {"fresh"}


# ---- dependencies without an entry


def test_deps_check_judges_without_keeping_anything(ws: Workspace) -> None:
    ws.write("f", "one")
    clock = ws.clock()
    before = ws.clock()
    assert ws("deps.check", deps=[ws.dep("file:f"), ws.dep("tree:.")])["verdict"] == "fresh"
    assert ws("deps.check", deps=["file:f"], fetched_at=clock)["verdict"] == "unknown"
    assert ws("deps.check", deps=[ws.object("x")], fetched_at=clock)["verdict"] == "fresh"
    assert ws("deps.check", deps=[])["why"] == "no-dependencies"
    assert ws.rpc("log.since", clock=before)["records"] == []
    read = ws.dep("file:f")
    ws.write("f", "two")
    answer = ws("deps.check", deps=[read])
    assert (answer["verdict"], answer["why"]) == ("dirty", "changed")
    assert (one(answer)["was"], one(answer)["is"]) == (read["digest"], ws.digest("file:f"))
    ws("action.record", writes=[ws.object("x")])
    assert ws("deps.check", deps=[ws.object("x")], fetched_at=clock)["why"] == "written"
    assert keys_of(ws("entry.list")) == []


def test_a_snapshot_gives_a_digest_for_each_dependency_in_order(ws: Workspace) -> None:
    ws.write("d/f", "one")
    snapshot = ws("deps.snapshot", deps=["file:d/f", "file:none", "file:d", "tree:d", "glob:d/*", "dir:none"])
    assert snapshot["clock"]
    digests = [told["digest"] for told in snapshot["digests"]]
    assert [told["dep"] for told in snapshot["digests"]][:2] == ["file:d/f", "file:none"]
    assert digests[:3] == ["xxh3:" + xxhash.xxh3_128_hexdigest(b"one"), "absent", "type:dir"]
    row = b"f\0f\0" + xxhash.xxh3_128_digest(b"one") + b"\0"
    assert digests[3:] == ["xxh3:" + xxhash.xxh3_128_hexdigest(row)] * 2 + ["absent"]
    deps = [{"dep": dep, "digest": digest} for dep, digest in zip(["file:d/f", "file:none"], digests[:2], strict=True)]
    assert ws("deps.check", deps=deps)["verdict"] == "fresh"


# ---- chains


def pipelined(ws: Workspace, puts: list[dict[str, Json]]) -> list[Json]:
    numbers = [ws.rpc.send("entry.put", root=ws.root, **put) for put in puts]
    return [ws.rpc.result(number) for number in numbers]


def chain(ws: Workspace, length: int, first: Json) -> None:
    """`e0` rests on `first`, `eN` on `e(N-1)`, up to `length`: equal values keep their versions when put again."""
    pipelined(ws, [{"key": f"e{number}", "value": 1, "deps": []} for number in range(length + 1)])
    clock = ws.clock()
    puts = [
        {"key": f"e{number}", "value": 1, "deps": [f"entry:e{number - 1}"], "fetched_at": clock}
        for number in range(length, 0, -1)
    ]
    pipelined(ws, [*puts, {"key": "e0", "value": 1, "deps": first}])


def test_a_chain_of_1000_is_judged_and_a_deeper_one_says_so(ws: Workspace) -> None:
    ws.write("f", "one")
    chain(ws, 1002, [ws.dep("file:f")])
    assert ws.verdict("e1000") == "fresh"
    assert ws.found("e1002") == ("unknown", "too-deep")
    ws.write("f", "two")
    assert ws.found("e0") == ("dirty", "changed")
    assert ws.found("e1000") == ("dirty", "entry-dirty")
    assert ws.verdict("e1002") != "fresh"
    ws.write("f", "one")
    assert ws.verdict("e1000") == "fresh"


def test_a_lattice_of_entries_is_judged_once_each(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("l0", "file:f")
    ws.put("r0", "file:f")
    for number in range(1, 60):  # 2**59 ways from top to bottom
        clock = ws.clock()
        deps = [f"entry:l{number - 1}", f"entry:r{number - 1}"]
        pipelined(ws, [{"key": f"{side}{number}", "value": 1, "deps": deps, "fetched_at": clock} for side in "lr"])
    assert ws.verdict("l59") == "fresh"
    ws.write("f", "two")
    assert ws.found("l59") == ("dirty", "entry-dirty")


def test_an_entry_is_as_good_as_what_it_rests_on(ws: Workspace) -> None:
    ws("entry.put", key="unknown", value=1)
    ws("entry.put", key="fresh", value=1, deps=[])
    clock = ws.clock()
    ws("entry.put", key="a", value=1, deps=["entry:fresh"], fetched_at=clock)
    ws("entry.put", key="b", value=1, deps=["entry:unknown"], fetched_at=clock)
    ws("entry.put", key="c", value=1, deps=["entry:none"], fetched_at=clock)
    assert ws.verdict("a") == "fresh"
    assert ws.found("b") == ("unknown", "entry-unknown")
    assert ws.found("c") == ("dirty", "entry-missing")
    ws("entry.put", key="fresh", value=1, deps=[])  # an equal value keeps its version
    assert ws.verdict("a") == "fresh"
    ws("entry.put", key="fresh", value=2, deps=[])
    assert ws.found("a") == ("dirty", "entry-replaced")


# ---- other namespaces


@pytest.mark.parametrize("how", ["mount namespace", "root directory"])
def test_a_peer_of_another_namespace_gets_unknown_for_paths_alone(ws: Workspace, how: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a namespace and to change the root directory")
    if how == "mount namespace" and not may_unshare():
        pytest.skip("no mount namespace may be made here")
    ws.write("f", "one")
    clock = ws.clock()
    ws.put("file", "file:f")
    ws.put("tree", "tree:.")
    ws("entry.put", key="object", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("entry.put", key="empty", value=1, deps=[])
    ws("entry.put", key="derived", value=1, deps=["entry:file"], fetched_at=ws.clock())
    keys = ["file", "tree", "object", "empty", "derived"]
    prefix = ["unshare", "--mount"] if how == "mount namespace" else []
    chroot = "" if prefix else ws.daemon.home
    replies = ask_from(ws, prefix, chroot, [("entry.check", {"keys": keys, "root": ws.root})])
    verdicts = replies[0]["result"]["verdicts"]
    assert {key: (answer["verdict"], answer["why"]) for key, answer in verdicts.items()} == {
        "file": ("unknown", "namespace"),
        "tree": ("unknown", "namespace"),
        "object": ("fresh", "declared"),
        "empty": ("fresh", "no-dependencies"),
        "derived": ("unknown", "entry-unknown"),
    }
    assert ws.verdict("file") == "fresh"
