"""Keys of another directory are not those of this one, and an answer that there is nothing says where it looked."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from real_cli import RealCli

if TYPE_CHECKING:
    from collections.abc import Callable

    from support import Daemon


@pytest.fixture
def cli(
    make_daemon: Callable[..., Daemon], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> RealCli:
    return RealCli(make_daemon(roots=[]).start(), capsys, monkeypatch)


@pytest.fixture
def other(cli: RealCli) -> str:
    """A directory that is not watched, beside the only one that is."""
    path = os.path.join(cli.daemon.home, "other")
    os.mkdir(path)
    return path


def test_an_unwatched_directory_has_keys_of_its_own(cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("put", "summary", "--value", "of the root", "--no-deps")
    monkeypatch.chdir(other)

    missing = cli("check", "summary", code=4)
    cli("put", "summary", "--value", "of the other", "--no-deps")

    assert "no-entry" in missing.out
    where = f"no entry summary in {other}, which is in no watched directory; roots: {cli.root}"
    assert (
        missing.err == f"{where}\n  summary is in: --root {cli.root}\n  next: provd check summary --root {cli.root}\n"
    )
    assert cli("get", "summary").out.strip() == "of the other"
    monkeypatch.chdir(cli.root)
    assert cli("get", "summary").out.strip() == "of the root"


def test_to_revalidate_what_is_not_there_names_the_place_and_the_next_step(cli: RealCli) -> None:
    done = cli("revalidate", "nope", code=4)

    assert "no-entry" in done.out
    assert done.err.startswith(f"no entry nope in {cli.root}\n  next: provd ls --root {cli.root}  # ")


def test_a_put_in_a_directory_that_is_not_watched_says_so(
    cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("put", "here", "--value", "v", "--no-deps").err == ""
    monkeypatch.chdir(other)

    assert cli("put", "k", "--value", "v", "--no-deps").err == (
        f"{other} is in no watched directory: from elsewhere the key is found with --root only\n"
        "  next: provd watch add .  # then it is found from all below, and the log tells what changed\n"
    )
    for options in (["--scope", "global"], ["--json"], ["--root", cli.root]):
        assert cli("put", "k", "--value", "v", "--no-deps", *options).err == ""


def test_a_put_in_what_is_named_and_no_root_says_so(cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("src")

    assert cli("put", "k", "--value", "v", "--no-deps", "--root", "src").err == (
        f"{cli.root}/src is no watched directory of its own, it lies in {cli.root}: the key is found with --root only\n"
        f"  next: provd watch add {cli.root}/src  # then it is found from all below\n"
    )
    monkeypatch.chdir("src")
    assert "no-entry" in cli("check", "k", code=4).out, "what is said is so"
    assert f"{other} is in no watched directory: the key is found with --root only\n" in (
        cli("put", "k", "--value", "v", "--no-deps", "--root", other).err
    )
    monkeypatch.chdir(other)
    assert f"\n  or: provd ls --root {cli.root}  # another place\n" in cli("check", "k2", code=4).err


@pytest.mark.parametrize("command", [["check", "k"], ["ls"]])
def test_where_a_watched_directory_has_gone_its_entries_can_be_taken_along(
    cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    cli("put", "k", "--value", "kept", "--no-deps")
    moved = f"{cli.root} (2)"
    monkeypatch.chdir(other)
    os.rename(cli.root, moved)
    monkeypatch.chdir(moved)

    err = cli(*command, code=None).err

    step = f"provd watch add . && provd export --root {cli.root} | provd import --as-root . -"
    assert f"  next: {step}  # if it is {cli.root}, which is gone, moved\n  or: provd watch add .\n" in err
    exported = cli("export", "--root", cli.root)
    cli("watch", "add", ".")
    done = subprocess.run(
        [sys.executable, "-m", "provd", "import", "--as-root", ".", "-"],
        input=exported.out.encode(),
        env=cli.environment(),
        cwd=moved,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert cli("get", "k").out.strip() == "kept"


@pytest.mark.parametrize("command", ["check", "get", "why"])
def test_a_key_that_is_not_there(cli: RealCli, command: str) -> None:
    got = cli(command, "k", code=4)

    step = f"provd ls --root {cli.root}  # the keys that are there; provd put keeps another"
    assert f"no entry k in {cli.root}\n  next: {step}\n" in got.err
    scoped = (
        "no entry k in the scope s\n  next: provd ls --scope s  # the keys that are there; provd put keeps another\n"
    )
    assert scoped in cli(command, "k", "--scope", "s", code=4).err
    assert cli(command, "k", "--json", code=4).err == ""


def test_a_list_without_entries(cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("put", "summary", "--value", "v", "--no-deps")
    assert cli("ls").err == ""
    assert cli("ls", "--dirty").err == ""  # cron mails what is printed
    monkeypatch.chdir(other)
    assert cli("ls", "--dirty").err.startswith(f"no such entries in {other}, which is in no watched directory")

    got = cli("ls")

    assert got.out == ""
    assert got.err.startswith(f"no entries in {other}, which is in no watched directory; roots: {cli.root}\n")
    assert got.err.endswith(f"  or: provd ls --root {cli.root}\n")
    cli("forget", "summary", "--root", cli.root)
    assert cli("ls", "--root", cli.root).err.endswith("  next: provd put --help  # keeps an entry here\n")
    assert f"  entries are in: {cli.root}\n" in got.err
    assert cli("ls", "--json").err == ""
    assert f"there was no summary in {other}, " in cli("forget", "summary").err


def test_where_else_a_key_is(cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (["--root", cli.root], ["--scope", "global"]):
        cli("put", "summary", "--value", "v", "--no-deps", *where)
        cli("put", "summary of more", "--value", "v", "--no-deps", *where)
    monkeypatch.chdir(other)

    for command in ("check", "get", "why"):
        assert f"  summary is in: --root {cli.root}, --scope global\n" in cli(command, "summary", code=4).err
    assert "is in:" not in cli("check", "summ", code=4).err
    assert "k2 is in" not in cli("check", "summary", "k2", code=4).err
    assert "--root" not in cli("check", "summary", "--root", cli.root).err


@pytest.mark.parametrize("command", ["check", "get", "why"])
def test_what_was_asked_is_what_is_led_to(
    cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    cli("put", "summary", "--value", "v", "--no-deps")
    monkeypatch.chdir(other)

    got = cli(command, "summary", code=4)

    assert f"  next: provd {command} summary --root {cli.root}\n" in got.err
    assert "next:" not in got.out, "another one, that lists the place where nothing is"


def test_forgetting_what_is_not_there_is_said_and_no_error(cli: RealCli) -> None:
    assert cli("forget", "none", code=0).err == f"there was no none in {cli.root}\n"


def test_a_key_is_found_in_any_scope_and_in_what_is_not_watched(
    cli: RealCli, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("put", "k", "--value", "1", "--no-deps", "--scope", "a scope")
    with monkeypatch.context() as there:
        there.chdir(other)
        cli("put", "l", "--value", "2", "--no-deps")

    assert "\n  next: provd check k --scope 'a scope'\n" in cli("check", "k", code=4).err
    assert f"\n  next: provd check l --root {other}\n" in cli("check", "l", code=4).err


def test_a_key_is_found_however_many_others_there_are(cli: RealCli) -> None:
    made = {
        "made": "c:00000000000000aa:00000000000000bb:1",
        "renewed": "c:00000000000000aa:00000000000000bb:1",
        "version": 1,
        "at": "1",
        "deps": [],
        "value": 1,
    }
    lines = [{"scope": "full", "key": f"{number}"} | made for number in range(1100)]
    assert cli.daemon.rpc("entry.import", entries=lines)["refused"] == []
    cli("put", "k", "--value", "1", "--no-deps", "--scope", "last")

    assert "\n  next: provd check k --scope last\n" in cli("check", "k", code=4).err
