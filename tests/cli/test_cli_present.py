"""Dependencies that name something else than what was meant: refused, or said."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from real_cli import RealCli, cli

from provd.cli.given import present
from provd.client import wire_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cli"]

_ONE = "is taken as the name of one directory"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "f").write_text("")
    (tmp_path / "d").mkdir()
    (tmp_path / "to-f").symlink_to("f")
    (tmp_path / "to-d").symlink_to("d")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "dangling").symlink_to("none")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("sock")
    return tmp_path


@pytest.mark.parametrize("kind", ["dir", "tree"])
@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("f", "f is a file, no directory", "for its content: --dep file:f"),
        ("f/", "f is a file, no directory", "for its content: --dep file:f"),
        ("to-f", "to-f is a file (by a link), no directory", "for its content: --dep file:to-f"),
        ("fifo", "it is a FIFO, no directory", "--dep dir:."),
        ("sock", "it is a socket, no directory", "--dep dir:."),
        ("/dev/null", "it is a device, no directory", "--dep dir:/dev"),
    ],
)
def test_what_is_no_directory_is_refused(cli: RealCli, here: Path, kind: str, name: str, what: str, hint: str) -> None:
    os.chdir(here)

    for arguments in (("put", "k", "--as-of-now"), ("check", "--fetched-at", "c:1")):
        got = cli(*arguments, "--dep", f"{kind}:{name}", code=2)

        assert what in got.err
        assert got.err.rstrip().endswith(hint)


@pytest.mark.usefixtures("here")
def test_directories_and_what_is_not_there_are_taken() -> None:
    present.check(["dir:d", "tree:d/", "tree:to-d", "dir:none", "tree:dangling", "tree:f/below", "file:f", "object:f"])


@pytest.mark.parametrize(
    ("dep", "said"),
    [
        ("d", "d is a directory, and file: of it says only that: dir:d names what is in it, tree:d all below"),
        ("to-d", "to-d is a directory, and file: of it says only that"),
        (
            "file:d",
            "file:d is a directory, and file: of it says only that: dir:d names what is in it, tree:d all below",
        ),
        ("round", "round is a link that leads to itself, so it has no content"),
        ("file:round", "file:round is a link that leads to itself, so it has no content"),
        ("dangling", ""),
        ("dir:d", ""),
        ("f", ""),
        ("none", ""),
        ("glob:sc/**", "glob:sc/**: there is no directory sc yet"),
        (
            "glob:{a,b}/*",
            "glob:{a,b}/*: there is no directory {a,b} yet: the first match will make it dirty; braces are",
        ),
        ("names:d/sub/*/x/*.py", "names:d/sub/*/x/*.py: there is no directory d/sub yet"),
        ("glob:f/*", "glob:f/*: f is a file, so nothing can match"),
        ("glob:d/*.py", ""),
        ("glob:*.py", ""),
        ("glob:/*", ""),
        ("glob:[s]c/*", ""),
        ("d/*.py", "d/*.py is taken as the name of one file: did you mean 'glob:d/*.py'?"),
        ("file:d/[ab]", "file:d/[ab] is taken as the name of one file: did you mean 'glob:d/[ab]'?"),
        ("object:*", ""),
        ("{a,b}.py", "{a,b}.py is taken as the name of one file: braces are no alternatives, but signs as any other"),
        ("file:{a}.py", ""),
        (
            "tree:*.zz",
            f"tree:*.zz {_ONE}: did you mean 'glob:*.zz', or for what is in each 'glob:*.zz/**'?",
        ),
        (
            "dir:d*/",
            f"dir:d*/ {_ONE}: did you mean 'glob:d*/', or for what is in each 'names:d*/*'?",
        ),
        (
            "tree:{a,b}",
            "tree:{a,b} is taken as the name of one directory: braces are no alternatives, but signs as any other",
        ),
        ("tree:none", ""),
        ("glob:none/", "glob:none/: there is no directory none yet: the first match will make it dirty"),
        ("glob:none/**/*.rs", "glob:none/**/*.rs: there is no directory none yet: the first match will make it dirty"),
        ("glob:~/*.py", "glob:~/*.py: ~ is a name as any other here, since a shell replaces it only unquoted"),
        ("tree:~/src", "tree:~/src: ~ is a name as any other here"),
        ("~/f", "~/f: ~ is a name as any other here"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_may_not_be_meant_is_said(dep: str, said: str) -> None:
    told = "\n".join(present.remarks([dep]))

    assert told.startswith(said) if said else not told


def test_a_file_whose_name_looks_like_a_pattern_is_one(here: Path) -> None:
    (here / "a[1].txt").write_text("")
    (here / "~").mkdir()

    assert list(present.remarks(["a[1].txt", "tree:~", "glob:~/*.py"])) == []


@pytest.mark.parametrize(
    ("dep", "said"),
    [
        ("tree:f", "is a file, no directory"),
        ("dir:fifo", "is a FIFO, no directory"),
        ("file:f/", "is a file, no directory"),
        ("file:dangling", "is a link to what does not exist"),
        ("file:none", "does not exist"),
        ("tree:none", "does not exist"),
        ("file:f", "was not there"),
    ],
)
def test_absent_in_words(here: Path, dep: str, said: str) -> None:
    kind, _, name = dep.partition(":")

    assert present.absence(f"{kind}:{here}/{name}") == said


def test_a_relative_name_of_another_client_is_not_looked_for() -> None:
    assert present.absence("file:.") == "does not exist"
    assert present.absence(wire_path(b"file:/\xff")) == "does not exist"


def test_put_and_check_say_it(cli: RealCli) -> None:
    os.mkdir("d")
    clock = cli("clock").out.strip()

    got = cli("put", "k", "--dep", "d", "--dep", "glob:sc/**", "--as-of-now")
    asked = cli("check", "--dep", "d", "--fetched-at", clock, code=None)
    quiet = cli("check", "-q", "--dep", "d", "--fetched-at", clock, code=None)

    assert "d is a directory, and file: of it says only that" in got.err
    assert "there is no directory sc yet" in got.err
    assert "d is a directory" in asked.err
    assert quiet.err == ""


def test_a_file_that_comes_later_where_tree_named_nothing_changes_nothing(cli: RealCli) -> None:
    """As the contract has it: what is no directory is absent to `tree:`."""
    assert f"absent: tree:{cli.root}/later does not exist" in cli("put", "k", "--dep", "tree:later", "--as-of-now").err

    cli.write("later", "x")

    assert cli("check", "k").code == 0
    assert "is a file, no directory" in cli("confirm", "k", "--as-of-now").err


def test_as_of_now_with_an_entry_or_an_object(cli: RealCli) -> None:
    cli("put", "there", "--no-deps")

    missing = cli("put", "k", "--dep", "entry:nosuch", "--dep", "file:f", "--as-of-now", code=5).err
    other = cli("put", "k", "--dep", "entry:there", "--dep", "object:o", "--as-of-now", code=5).err

    nosuch = f"entry:nosuch, and there is no entry nosuch in {cli.root}"
    assert missing.startswith(f"provd: --as-of-now does not count for {nosuch} [clock.missing]\n")
    first = "  next: provd ls  # the keys that are there: put nosuch first"
    assert missing.endswith(f"{first}, then take a clock\n")
    assert other.startswith("provd: --as-of-now does not count for entry:there, object:o [clock.missing]\n")
    assert other.endswith("  next: c=$(provd clock)  # then look again, and --fetched-at $c\n")
    early = cli("put", "k", "--dep", "entry:nosuch", "--fetched-at", cli("clock").out.strip()).err
    born = "provd: it is dirty at birth (entry-missing): there is no entry nosuch"
    assert early == f"{born}\n{first}\n"
    assert cli("why", "k", code=1).out.endswith(f"    {first}\n")


def test_what_has_no_content_is_told_to_be_never_fresh(cli: RealCli) -> None:
    os.mkfifo("pipe")
    why = "unreadable: a special file has no content to compare"

    born = cli("put", "k", "--dep", "pipe", "--as-of-now").err

    assert born == f"provd: it is unknown at birth ({why})\n  next: provd why k\n"
    assert f"{cli.root}/pipe  {why}\n" in cli("check", "k", code=4).out
    assert "next: provd help dependencies  # what rests on that is never fresh" in cli("why", "k", code=4).out


def test_of_no_entry_the_next_step_is_no_put_of_placeholders(cli: RealCli) -> None:
    told = cli("why", "none", code=4).err
    assert told.endswith(f"next: provd ls --root {cli.root}  # the keys that are there; provd put keeps another\n")


def test_a_pattern_that_matches_nothing_now_is_told_at_a_put(cli: RealCli) -> None:
    cli.write("a.py", "")
    patterns = ["names:*.py", "names:{a,b}.py", "glob:*.md", "glob:none/*"]

    told = cli("put", "k", *(word for dep in patterns for word in ("--dep", dep)), "--as-of-now").err

    braces = "braces are no alternatives, but signs as any other: a --dep for each way"
    assert told.splitlines() == [
        f"provd: names:{{a,b}}.py matches nothing now: the first match will make it dirty; {braces}",
        "provd: glob:*.md matches nothing now: the first match will make it dirty",
        "provd: glob:none/*: there is no directory none yet: the first match will make it dirty",
    ]


def test_an_op_of_another_request_is_refused(cli: RealCli) -> None:
    version = cli("put", "k", "--value", "1", "--no-deps", "--op", "o").out

    assert cli("put", "k", "--value", "1", "--no-deps", "--op", "o").out == version
    others = (["--value", "2"], ["--no-value"], ["--value", "1", "--json-value"])
    for other in (*([*other, "--no-deps"] for other in others), ["--value", "1", "--dep", "f", "--as-of-now"]):
        told = cli("put", "k", *other, "--op", "o", code=5).err
        assert "nothing was put: the op 'o' came with another request before" in told
        assert "\n  next: provd get k  # what it put; for anything else another op\n" in told
    assert cli("get", "k").out == "1"


def test_a_retry_of_what_does_not_stand_any_more_says_so(cli: RealCli) -> None:
    first = cli("put", "k", "--value", "1", "--no-deps", "--op", "o").out.split()[-1]
    other = cli("put", "k", "--value", "3", "--no-deps").out.split()[-1]
    put = ("put", "k", "--value", "1", "--no-deps", "--op", "o")
    said = f"provd: nothing was put: --op o put version {first} of 'k' before, and now"

    assert cli(*put, code=5).err.startswith(f"{said} version {other} stands\n  next: provd get k  # ")
    cli("forget", "k")
    assert cli(*put, code=5).err.startswith(f"{said} there is no such entry\n  next: provd ls  # ")


def test_an_object_lies_in_no_other_and_the_help_says_so(cli: RealCli) -> None:
    cli("put", "k", "--dep", "object:svc", "--fetched-at", cli("clock").out.strip())

    cli("action", "record", "--write", "object:svc:x")

    assert cli("check", "k").code == 0
    assert "to this very ID, which is no path: svc:x is nothing in svc\n" in cli("help", "dependencies").out
