"""Files that have rested are shown by a clock alone: the common case of an agent that reads and puts."""

from __future__ import annotations

import os
import time

import pytest
from asking import sh
from support import Workspace
from watching import REST, comes_to_rest, put_by_clock, seals_hold

SETUPS = {
    "a file": (["file:s0/f"], "printf two > s0/f"),
    "an empty file": (["file:s1/empty"], "printf x > s1/empty"),
    "a big file": (["file:s2/big"], "printf x | dd of=s2/big conv=notrunc seek=100000 bs=1 status=none"),
    "an absent file": (["file:s3/none"], "printf x > s3/none"),
    "absent below an absent directory": (["file:s4/none/deep/er"], "mkdir -p s4/none/deep; printf x > s4/none/deep/er"),
    "absent below a file": (["file:s5/f/deep"], "rm s5/f; mkdir s5/f; printf x > s5/f/deep"),
    "a directory's names": (["dir:s6/d"], "printf x > s6/d/new"),
    "an empty directory": (["dir:s7/none-in-it"], "printf x > s7/none-in-it/first"),
    "a pattern": (["glob:s8/d/*"], "printf two > s8/d/a"),
    "a deep pattern": (["glob:s9/**/deep"], "printf two > s9/d/e/deep"),
    "names by a pattern": (["names:s10/d/*"], "rm s10/d/b"),
    "a tree": (["tree:s11/d"], "printf two > s11/d/e/deep"),
    "a link": (["file:s12/link"], "ln -s d/a s12/new; mv -T s12/new s12/link"),
    "through a linked directory": (["file:s13/dlink/e/deep"], "printf two > s13/d/e/deep"),
    "a chain of links": (["file:s14/chain"], "printf two > s14/f"),
    "a deeply nested file": (["file:s15/n/n/n/n/n/n/n/f"], "mv s15/n/n/n s15/away"),
    "a whole workspace": (["tree:s16"], "rm s16/link"),
    "many at once": (["file:s17/f", "dir:s17/d", "glob:s17/d/*", "tree:s17/d", "file:s17/none"], "printf 2 > s17/d/b"),
    "an absent set": (["tree:s18/none", "dir:s18/none", "glob:s18/none/*"], "mkdir s18/none; printf x > s18/none/f"),
    "one renamed over": (["file:s19/f"], "printf 2 > s19/.t; mv s19/.t s19/f"),
}
"""What is put, and what changes it."""


def furnish(ws: Workspace, name: str) -> None:
    for file in ("f", "empty", "d/a", "d/b", "d/e/deep", "n/n/n/n/n/n/n/f", "g"):
        ws.write(f"{name}/{file}", "" if file == "empty" else f"content of {file}\n")
    ws.write(f"{name}/big", b"0123456789abcdef" * (1 << 16))
    os.mkdir(ws.path(f"{name}/none-in-it"))
    for link, target in (("link", "f"), ("dlink", "d"), ("chain", "link")):
        os.symlink(target, ws.path(f"{name}/{link}"))


def test_what_has_rested_is_fresh_by_a_clock_alone_and_never_once_it_changed(own: Workspace) -> None:
    if not seals_hold(own.root):
        pytest.skip("files on this file system cannot be shown to be at rest")
    for number in range(len(SETUPS)):
        furnish(own, f"s{number}")
    own.write("probe", "the last that was written\n")
    assert comes_to_rest(own, "file:probe")
    clock = own.clock()
    puts = {name: put_by_clock(own, name, *deps, clock=clock) for name, (deps, _) in SETUPS.items()}
    wanted = sum(len(deps) for deps, _ in SETUPS.values())
    unproven = {name: answer["unproven"] for name, answer in puts.items() if answer["unproven"]}
    shown = wanted - sum(map(len, unproven.values()))
    assert shown >= 0.9 * wanted, unproven
    for name, answer in puts.items():
        if not answer["unproven"]:
            assert answer["verdict"]["verdict"] == "fresh", answer
            assert own.verdict(name) == "fresh", name

    names = list(SETUPS)
    for number, (name, (_, change)) in enumerate(SETUPS.items()):
        sh(own, change)
        verdicts = {n: answer["verdict"] for n, answer in own("entry.check", keys=names)["verdicts"].items()}
        assert verdicts[name] != "fresh", name
        assert name in unproven or verdicts[name] == "dirty", name
        wrong = [n for n in names[number + 1 :] if verdicts[n] != "fresh" and n not in unproven]
        assert wrong == [], f"{name} changed, and nothing else did"


def test_a_clock_taken_before_the_rest_was_long_enough_shows_nothing(own: Workspace) -> None:
    """Just written files are unproven, and stay so for that clock however late the put comes."""
    path = own.write("f", "one\n")
    later = time.time_ns() + int(REST / 3 * 1e9)  # its time is near the clock's, however slow this machine is
    os.utime(path, ns=(later, later))
    early = own.clock()
    assert put_by_clock(own, "k", "file:f", clock=early)["unproven"] == ["file:f"]
    if not seals_hold(own.root):
        pytest.skip("files on this file system cannot be shown to be at rest")
    assert comes_to_rest(own, "file:f")
    assert put_by_clock(own, "late", "file:f", clock=early)["unproven"] == ["file:f"]
    assert own.verdict("late") == "unknown"
    answer = put_by_clock(own, "k", "file:f")
    assert (answer["unproven"], own.verdict("k")) == ([], "fresh")
