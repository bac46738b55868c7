"""Many changes at once, as builds, checkouts and package managers make them. `benchmarks/watch` has the full sizes."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from asking import sh
from support import HANG, Workspace, records_since
from watching import Replay, gaps, settled, since, walk

if TYPE_CHECKING:
    from collections.abc import Iterable


def accounted_for(ws: Workspace, clock: str, before: Iterable[bytes] = (), *, skip: Iterable[str] = ()) -> Replay:
    """Every file is in the log with its digest; where events were lost, a gap says so and a scan brought them."""
    skipped = [os.path.join(ws.root, name) for name in skip]
    records = settled(ws.daemon, clock)
    replay = Replay(before).follow(records)
    if gaps(records, ws.root):
        assert since(ws, clock)["complete"] is False
    else:
        assert since(ws, clock)["complete"] is True
    replay.agrees(ws.root, skip=skipped)
    known = set(before)
    for path in walk(ws.root, skip=skipped):
        if os.path.isfile(path) and not os.path.islink(path) and path not in known:
            assert replay.digests.get(path), path
    assert ws.rpc("daemon.audit")["mismatches"] == []
    return replay


def test_ten_thousand_files_in_new_directories(own: Workspace) -> None:
    clock = own.clock()
    for number in range(10_000):
        if number < 100:
            os.makedirs(own.path(f"d{number}/sub"))
        with open(own.path(f"d{number % 100}/sub/f{number}"), "wb") as file:
            file.write(b"%d" % number)
    own.put("k", "tree:d99")
    own.write("d99/sub/f9999", "changed\n")
    assert own.verdict("k") == "dirty"
    accounted_for(own, clock)


def test_a_checkout_of_two_thousand_files(own: Workspace) -> None:
    git = "git -c user.name=t -c user.email=t@example.invalid -c init.defaultBranch=main -c gc.auto=0"
    script = f"""
        {git} init -q .; for n in $(seq 2000); do mkdir -p src/$((n % 40)); echo one $n > src/$((n % 40))/f$n; done
        {git} add -A; {git} commit -qm one; {git} checkout -q -b two
        for n in $(seq 2 2 2000); do echo two $n > src/$((n % 40))/f$n; done
        git rm -q -r src/7; mkdir src/new; echo x > src/new/f; {git} add -A; {git} commit -qm two
        {git} checkout -q main
    """
    sh(own, script)
    own.put("k", "tree:src")
    own.put("same", "file:src/1/f1")
    before = walk(own.root, skip=[os.path.join(own.root, ".git")])
    clock = own.clock()
    sh(own, f"{git} checkout -q two")
    assert own.verdict("k") == "dirty"
    assert own.verdict("same") == "fresh"
    accounted_for(own, clock, before, skip=[".git"])
    sh(own, f"{git} checkout -q main")
    assert own.verdict("k") == "fresh"
    accounted_for(own, clock, before, skip=[".git"])


def test_five_thousand_files_as_a_package_manager_writes_them(own: Workspace) -> None:
    """Each package is written under a temporary name beside the others and renamed into its place."""
    clock = own.clock()
    modules = own.path("node_modules")
    for package in range(250):
        staging = os.path.join(modules, b".staging-%d" % package)
        for number in range(20):
            path = os.path.join(staging, b"lib", b"part%d" % (number % 4), b"file%d.js" % number)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"module %d %d" % (package, number))
        os.makedirs(os.path.join(modules, b"@scope%d" % (package % 10)), exist_ok=True)
        final = os.path.join(modules, b"@scope%d" % (package % 10), b"package%d" % package)
        os.rename(staging, final)
        os.makedirs(os.path.join(modules, b".bin"), exist_ok=True)
        os.symlink(os.path.join(final, b"lib/part0/file0.js"), os.path.join(modules, b".bin", b"tool%d" % package))
    own.put("k", "tree:node_modules/@scope9")
    own.write("node_modules/@scope9/package249/lib/part0/file0.js", "changed")
    assert own.verdict("k") == "dirty"
    accounted_for(own, clock)


def test_removing_it_all_is_told_file_by_file(own: Workspace) -> None:
    for number in range(5000):
        own.write(f"d{number % 50}/e{number % 7}/f{number}", "x")
    own.put("k", "tree:.")
    own.put("absent", "file:d0/none")
    before = walk(own.root)
    clock = own.clock()
    subprocess.run(["rm", "-rf", *map(own.path, os.listdir(own.root))], check=True, timeout=HANG)
    assert own.verdict("k") == "dirty"
    assert own.verdict("absent") == "fresh"
    replay = accounted_for(own, clock, before)
    assert replay.names == set()
    records = records_since(own.rpc, clock)
    if not gaps(records, own.root):
        deleted = {r["path"] for r in records if r["type"] == "mutation" and r["kind"] == "deleted"}
        assert len(deleted) >= 5000


def test_one_file_written_thousands_of_times_ends_with_its_last_content(own: Workspace) -> None:
    clock = own.clock()
    with open(own.path("log"), "ab") as file:
        for number in range(20_000):
            os.write(file.fileno(), b"%d\n" % number)
    own.put("k", "file:log")
    assert own.verdict("k") == "fresh"
    replay = accounted_for(own, clock)
    assert replay.digests[own.path("log")]
    records = [r for r in records_since(own.rpc, clock) if r["type"] == "mutation"]
    assert len(records) < 20_000, "many writes of one file need not be many records"


def test_a_question_in_the_middle_of_a_burst_is_true(own: Workspace) -> None:
    own.write("quiet/f", "one")
    own.put("quiet", "file:quiet/f")
    clock = own.clock()
    for number in range(3000):
        path = own.write(f"d{number % 30}/f{number}", str(number))
        if number % 100 == 0:
            assert own.verdict("quiet") == "fresh"
            own.put("k", f"file:d{number % 30}/f{number}")
            with open(path, "ab") as file:
                file.write(b"more")
            assert own.verdict("k") == "dirty", number
    accounted_for(own, clock, {own.path("quiet"), own.path("quiet/f")})


def test_a_tree_copied_removed_and_copied_again(own: Workspace) -> None:
    clock = own.clock()
    for number in range(600):
        own.write(f"src/d{number % 20}/f{number}", str(number))
    source, copy = os.fsdecode(own.path("src")), os.fsdecode(own.path("copy"))
    for _ in range(3):
        shutil.copytree(source, copy)
        own.put("k", "tree:copy")
        shutil.rmtree(copy)
        assert own.verdict("k") == "dirty"
    shutil.copytree(source, copy)
    assert own.verdict("k") == "fresh"
    accounted_for(own, clock)
