"""`provd why` of what was dirty before it was put, and of what the log cannot tell: no wrong record is marked."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from screens import Desk, Seen, desk
from support import HANG

from provd.cli import main
from provd.cli.commands import why

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["desk"]

_BORN = "it was dirty before it was put, as far as the log knows: "
_KNOWN = "it was dirty when it was put: "
_UNKNOWN = "│   ? which change made it dirty the log cannot tell: "


@pytest.fixture
def older(desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Seen]:
    """What is told of an entry where the verdict of its put is not known, since an older version put it."""
    explained = why._explained
    monkeypatch.setattr(why, "_explained", lambda *asked: explained(*asked) | {"born": None})

    def told(key: str) -> Seen:
        code = main(["why", key, "--socket", desk.daemon.socket, "--root", desk.daemon.root])
        return Seen(code, desk.normal(capsys.readouterr().out))

    return told


def _digest_by_the_log(desk: Desk, name: str) -> dict[str, str]:
    dep = f"file:{desk.daemon.root}/{name}"
    return {"dep": dep, "digest": desk.daemon.rpc("deps.snapshot", deps=[dep])["digests"][0]["digest"]}


def test_a_put_that_was_dirty_stays_so_whatever_is_written_later(desk: Desk) -> None:
    desk.save("f", "one\n")
    read = desk.read("f")
    desk.save("f", "two\n")
    desk.put("k", read)
    desk.save("f", "three\n")

    told = desk.pipe("why", "k")

    assert [line.endswith("  put") for line in told.marked] == [True]
    assert f"│   ✗ {_KNOWN}file:" in told.text
    assert _UNKNOWN not in told.text


def test_a_write_after_a_put_that_may_have_been_born_stale_is_not_marked(
    desk: Desk, older: Callable[[str], Seen]
) -> None:
    desk.save("f", "one\n")
    read = desk.read("f")
    desk.save("f", "two\n")
    desk.put("k", read)
    desk.save("f", "three\n")

    told = older("k")

    assert told.marked == []
    assert f"{_UNKNOWN}what f was when it was read is not known\n" in told.text
    assert "the first change since it was put" in told.text


def test_where_the_log_can_compare_it_stays_born_stale_whatever_is_written(
    desk: Desk, older: Callable[[str], Seen]
) -> None:
    desk.save("f", "one\n")
    read = _digest_by_the_log(desk, "f")
    desk.save("f", "two\n")
    desk.put("k", read)
    desk.save("f", "three\n")

    told = older("k")

    assert [line.endswith("  the last change before it was put") for line in told.marked] == [True]
    assert _BORN in told.text


def test_where_the_log_can_compare_a_write_after_several_is_the_one(desk: Desk) -> None:
    for content in ("one\n", "two\n"):
        desk.save("f", content)
    desk.put("k", _digest_by_the_log(desk, "f"))
    desk.save("f", "three\n")

    told = desk.pipe("why", "k")

    assert ["the first change since it was put" in line for line in told.marked] == [True]
    assert _BORN not in told.text
    assert _UNKNOWN not in told.text


def test_a_record_of_what_is_in_order_is_not_marked(desk: Desk, older: Callable[[str], Seen]) -> None:
    desk.save("src/f", "one\n")
    os.mkdir(os.path.join(desk.daemon.root, ".git"))
    with open(os.path.join(desk.daemon.root, ".git/HEAD"), "w") as file:
        file.write("one\n")
    desk.clock()
    desk.put("k", f"tree:{desk.daemon.root}/src", f"file:{desk.daemon.root}/.git/HEAD", as_of="put")
    desk.save("src/made", "for a while\n")
    os.remove(os.path.join(desk.daemon.root, "src/made"))
    with open(os.path.join(desk.daemon.root, ".git/HEAD"), "w") as file:
        file.write("two\n")

    told = older("k")

    assert " src/made" in told.text
    assert told.marked == []


def test_what_was_proven_since_is_marked_though_it_had_changed_before(desk: Desk) -> None:
    for content in ("one\n", "two\n"):
        desk.save("f", content)
    desk.put("k", desk.read("f"))
    desk.daemon.rpc("entry.revalidate", key="k", root=desk.daemon.root)
    desk.save("f", "three\n")

    assert len(desk.pipe("why", "k").marked) == 1


@pytest.mark.parametrize("digest", ["of the log", "of another algorithm"])
def test_what_was_undone_before_an_import_is_not_marked(desk: Desk, digest: str) -> None:
    rpc, root = desk.daemon.rpc, desk.daemon.root
    path, other = os.path.join(root, "a"), os.path.join(root, "b")
    desk.save("a", "one\n")
    desk.put("k", _digest_by_the_log(desk, "a") if digest == "of the log" else desk.read("a"))
    clock = desk.clock()
    os.rename(path, other)
    desk.clock()
    os.rename(other, path)
    desk.hashed(clock)
    exported = os.path.join(desk.daemon.outside, "exported")
    with open(exported, "wb") as out:
        subprocess.run(desk.command("export"), stdout=out, check=True, cwd=root, env=desk.environment(), timeout=HANG)
    rpc("entry.forget", key="k", root=root)
    assert desk.pipe("import", exported).code == 0
    assert rpc("entry.check", key="k", root=root)["verdict"] == "fresh"
    desk.daemon.stop()
    with open(path, "w") as file:
        file.write("another\n")
    desk.daemon.start().scanned()

    told = desk.pipe("why", "k")

    assert told.code == 1
    assert [line for line in told.marked if "moved" in line] == []
    assert "before it was imported" not in told.text


def test_of_what_was_imported_from_elsewhere_nobody_knows_what_was_here_when_it_came(desk: Desk) -> None:
    desk.save("f", "one\n")
    desk.put("k", desk.read("f"))
    exported = subprocess.run(
        desk.command("export"),
        capture_output=True,
        check=True,
        cwd=desk.daemon.root,
        env=desk.environment(),
        timeout=HANG,
    ).stdout
    log = json.loads(exported.partition(b"\n")[0])["log"].encode()
    desk.daemon.rpc("entry.forget", key="k", root=desk.daemon.root)
    path = os.path.join(desk.daemon.outside, "exported")
    with open(path, "wb") as file:
        file.write(exported.replace(log, b"f" * len(log)))  # that of another store
    assert desk.pipe("import", path).code == 0
    desk.save("f", "two\n")

    told = desk.pipe("why", "k")

    assert "put elsewhere" in told.text
    assert told.marked == []
    assert _UNKNOWN in told.text


@pytest.mark.parametrize("content", ["two\n", "three\n"])
def test_an_entry_derived_from_what_was_dirty_stays_born_stale(desk: Desk, content: str) -> None:
    desk.save("f", "one\n")
    desk.put("below", f"file:{desk.daemon.root}/f", as_of="put")
    desk.save("f", "two\n")
    desk.put("above", "entry:below", fetched_at=desk.clock())
    before = desk.pipe("why", "above").marked
    desk.save("f", content)

    told = desk.pipe("why", "above")

    assert len(before) == 1
    assert told.marked == before
    assert "│   ✗ it was dirty before it was put: so was entry:below\n" in told.text


def test_of_an_entry_below_that_may_have_been_born_stale_no_record_is_marked(
    desk: Desk, older: Callable[[str], Seen]
) -> None:
    desk.save("f", "one\n")
    read = desk.read("f")
    desk.save("f", "two\n")
    desk.put("below", read)
    desk.put("above", "entry:below", fetched_at=desk.clock())
    desk.save("f", "three\n")

    told = older("above")

    assert told.marked == []
    assert "  through entry:below" in told.text
    assert "│   ? when entry:below became dirty the log cannot tell\n" in told.text


def test_whether_it_was_put_or_confirmed_last_is_not_said_where_its_record_is_not_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.save("f", "one\n")
    desk.put("k", desk.read("f"))
    at = ["--socket", desk.daemon.socket, "--root", desk.daemon.root]
    assert main(["confirm", "k", "--as-of-now", *at]) == 0
    desk.save("g", "one\n")
    capsys.readouterr()

    assert main(["why", "k", *at]) == 0
    assert " confirmed (put once, confirmed once)\n" in capsys.readouterr().out
    monkeypatch.setattr(why, "_NEWEST", 1)
    assert main(["why", "k", *at]) == 0
    assert " last put or confirmed (put once, confirmed once)\n" in capsys.readouterr().out


def test_of_a_digest_that_no_content_had_it_is_said_that_it_differs(desk: Desk) -> None:
    desk.save("f", "one\n")
    desk.put("k", {"dep": f"file:{desk.daemon.root}/f", "digest": f"sha256:{7:064x}"})

    told = desk.pipe("why", "k")

    assert f"│   ✗ {_KNOWN}file:/tmp/provd-HOME0000/root/f differs from the digest that was given\n" in told.text
    assert "changed between" not in told.text
