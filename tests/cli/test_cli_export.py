"""provd export and provd import as a shell runs them, against real daemons."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import Daemon, Workspace, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable

ODD: Final = '{"a": 1.00, "big": 1e400, "long": ' + "7" * 5000 + ', "s": "\\u00e9\\ud83d\\ude00", "t": "é"}'
"""A value that no parser of numbers may touch."""


def provd(daemon: Daemon, *arguments: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "provd", *arguments, "--socket", daemon.socket]
    environment = clean_environment(daemon.home, env)
    return subprocess.run(command, input=stdin, capture_output=True, check=False, cwd=daemon.root, env=environment)


def put_raw(ws: Workspace, key: str, value: str) -> None:
    """Puts a value to the letter."""
    params = json.dumps({"key": key, "root": ws.root, "deps": []})[:-1] + f', "value": {value}}}'
    ws.rpc.send_raw(f'{{"jsonrpc": "2.0", "id": 999, "method": "entry.put", "params": {params}}}\n'.encode())
    ws.rpc.answer(999)


@pytest.fixture
def other(make_daemon: Callable[..., Daemon], own: Workspace) -> Daemon:
    """Another daemon that watches the same directory."""
    return make_daemon(roots=[own.root]).start()


def exported(daemon: Daemon, *arguments: str, **env: str) -> bytes:
    place = [] if {"--all", "--root", "--scope"} & set(arguments) else ["--root", daemon.roots[0]]
    done = provd(daemon, "export", *place, *arguments, stdin=b"", **env)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_a_file_has_a_header_lines_and_an_end(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    header, line, end = map(json.loads, exported(own.daemon).splitlines())
    hello = own.rpc("daemon.hello", protocol=1)
    assert (header["provd-export"], header["log"], header["version"]) == (1, hello["log"], hello["version"])
    assert (header["root"], line["key"], end) == (own.root, "k", {"provd-export-end": 1})


def test_values_go_through_to_the_letter_in_any_locale(own: Workspace, other: Daemon) -> None:
    put_raw(own, "odd", ODD)
    own.put("k", "names:*", value="é")
    file = exported(own.daemon, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert ODD.encode() in file
    done = provd(other, "import", "-", stdin=file, LC_ALL="C")
    assert (done.returncode, done.stdout) == (0, b"2 added, 0 archived, 0 replaced, 0 late, 0 unchanged\n"), done.stderr
    assert ODD.encode() in exported(other)


def test_a_file_that_is_imported_twice_is_imported_once(own: Workspace, other: Daemon) -> None:
    own.write("a")
    for number in range(3):
        own.put("k", "file:a", value=number)
    path = os.path.join(own.daemon.home, "file")
    with open(path, "wb") as file:
        file.write(exported(own.daemon))
    told = [json.loads(provd(other, "import", path, "--json").stdout) for _ in range(2)]
    nothing = {"added": 0, "archived": 0, "replaced": 0, "late": 0, "unchanged": 0, "refused": []}
    assert told == [nothing | {"added": 1, "archived": 2}, nothing | {"unchanged": 3}]


def test_all_scopes_are_exported_by_all(own: Workspace, other: Daemon) -> None:
    own("entry.put", key="here", value=1, deps=[])
    own("entry.put", key="everywhere", value=1, deps=[], scope="global")
    assert exported(own.daemon).count(b"\n") == 3
    assert exported(own.daemon, "--scope", "global").count(b"\n") == 3
    file = exported(own.daemon, "--all")
    assert file.count(b"\n") == 4
    assert provd(other, "import", "-", stdin=file).returncode == 0
    assert exported(other, "--all").count(b"\n") == 4


def test_more_lines_than_a_request_takes_all_arrive(own: Workspace, other: Daemon) -> None:
    lines = [line_of(number, value="x" * 2000) for number in range(2500)]
    file = "\n".join([HEADER, *lines, end(2500)]).encode()
    done = provd(other, "import", "-", stdin=file)
    assert (done.returncode, done.stdout[:11]) == (0, b"2500 added,"), done.stderr
    assert exported(other, "--scope", "s").count(b"\n") == 2502


HEADER: Final = '{"provd-export": 1, "version": "0", "log": "0000000000000000"}'


def end(count: int) -> str:
    return json.dumps({"provd-export-end": count})


def line_of(number: int, **more: Any) -> str:
    token = f"c:{'1' * 16}:{number:016x}:5"
    told = {"scope": "s", "key": f"k{number}", "version": 1, "made": token, "renewed": token, "deps": [], "value": 1}
    return json.dumps(told | more)


BAD: Final = (
    b"no JSON",
    b'{"a": NaN}',
    b"[1]",
    b"\xff\xfe",
    b'{"scope": "s", "key": "\\ud800"}',
    b"[" * 100_000,
    b'{"scope": "s"}',
)


def test_bad_lines_are_told_by_number_and_all_others_are_taken(own: Workspace) -> None:
    lines = [HEADER.encode()]
    for number, bad in enumerate(BAD):
        lines += [line_of(number).encode(), bad, b""]
    file = b"\n".join([*lines, end(len(lines) - 1).encode(), b""])
    done = provd(own.daemon, "import", "-", stdin=file)
    assert done.returncode == 5
    assert done.stdout.startswith(b"%d added, " % len(BAD))
    for number in range(len(BAD)):
        assert b"line %d: " % (3 * number + 3) in done.stderr, done.stderr
    again = "next: provd import --help  # when these lines are mended"
    assert again.encode() in done.stderr
    told = json.loads(provd(own.daemon, "import", "-", "--json", stdin=file).stdout)
    assert told["unchanged"] == len(BAD)
    assert [one["line"] for one in told["refused"]] == [3 * number + 3 for number in range(len(BAD))]
    assert all(one["code"] and one["message"] for one in told["refused"])


def test_a_file_that_was_cut_short_is_told_and_what_it_has_is_taken(own: Workspace) -> None:
    done = provd(own.daemon, "import", "-", stdin="\n".join([HEADER, line_of(1)]).encode())
    assert (done.returncode, done.stdout[:8]) == (5, b"1 added,")
    assert b"cut short" in done.stderr


@pytest.mark.parametrize("said", [1, 3, 0, -1, "two", None])
def test_a_file_that_says_of_more_or_fewer_lines_is_told_and_what_it_has_is_taken(
    module_daemon: Daemon, said: int | str | None
) -> None:
    lines = [
        HEADER,
        line_of(1, scope=f"{said}"),
        "",
        line_of(2, scope=f"{said}"),
        json.dumps({"provd-export-end": said}),
    ]
    done = provd(module_daemon, "import", "-", stdin="\n".join(lines).encode())
    assert (done.returncode, done.stdout[:8]) == (5, b"2 added,")
    assert b"lines" in done.stderr or b"cut short" in done.stderr


@pytest.mark.parametrize("content", [b"", b"{}", b"text\n", line_of(1).encode(), b"\xff", b"[]"])
def test_what_is_no_export_is_refused_whole(module_daemon: Daemon, content: bytes) -> None:
    done = provd(module_daemon, "import", "-", stdin=content)
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"is no export of provd" in done.stderr
    assert b"next: " in done.stderr


def test_a_file_of_a_newer_provd_is_refused_whole(module_daemon: Daemon) -> None:
    done = provd(module_daemon, "import", "-", stdin=HEADER.replace("1", "2", 1).encode())
    assert done.returncode == 5
    assert b"newer provd" in done.stderr


def test_a_file_that_is_not_there_is_a_wrong_usage(module_daemon: Daemon) -> None:
    done = provd(module_daemon, "import", "nowhere")
    assert done.returncode == 2
    assert b"cannot read nowhere" in done.stderr


def test_the_exported_root_may_be_another_directory(own: Workspace, make_daemon: Callable[..., Daemon]) -> None:
    own.write("a")
    own.put("k", "file:a", value=1)
    file = exported(own.daemon)
    moved = make_daemon().start()
    Workspace(moved, moved.root, "").write("a")
    assert provd(moved, "import", "-", "--as-root", ".", stdin=file).returncode == 0
    assert moved.rpc("entry.check", key="k", root=moved.root)["verdict"] == "fresh"
    everything = exported(own.daemon, "--all")
    done = provd(moved, "import", "-", "--as-root", ".", stdin=everything)
    assert done.returncode == 2
    assert b"--as-root needs an export of one root" in done.stderr


def test_options_that_exclude_each_other_are_a_wrong_usage(module_daemon: Daemon) -> None:
    assert provd(module_daemon, "export", "--all", "--scope", "s").returncode == 2
    assert provd(module_daemon, "export", "--root", ".", "--scope", "s").returncode == 2


def test_a_value_that_fills_a_line_goes_through(own: Workspace, other: Daemon) -> None:
    put_raw(own, "big", '"' + "\\n" * (4 * 1024 * 1024 - 1) + '"')
    file = exported(own.daemon)
    assert provd(other, "import", "-", stdin=file).returncode == 0
    assert len(exported(other)) >= 8 * 1024 * 1024


def test_without_a_daemon_nothing_is_written(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    for arguments in (("export",), ("import", "-")):
        done = provd(daemon, *arguments, stdin=HEADER.encode())
        assert (done.returncode, done.stdout) == (3, b"")


def test_what_came_home_was_put_here_and_how_often_counts_its_puts(own: Workspace) -> None:
    for _ in range(3):
        own.put("k", value="a")
    file = exported(own.daemon)
    own.daemon.rpc("entry.forget", key="k", root=own.root)

    assert provd(own.daemon, "import", "-", stdin=file).returncode == 0

    told = provd(own.daemon, "why", "k", "--root", own.root).stdout.decode()
    assert re.search(r"  imported: put into this log at \S+ \S+ \(put or confirmed 3 times\)\n", told)


def test_what_was_imported_is_told_as_that(own: Workspace, other: Daemon) -> None:
    own.write("a", "one")
    for value in (1, 2):
        own.put("k", "file:a", value=value)
    file = exported(own.daemon)
    own.write("a", "changed before it came")
    other.rpc("log.clock")

    assert provd(other, "import", "-", stdin=file).returncode == 0

    told = provd(other, "why", "k", "--root", own.root).stdout.decode()
    assert "  imported: put elsewhere at " in told
    assert "times" not in told
    assert "between reading and remembering" not in told
    assert "from before it was imported" in told or "is not what was read where it was put" in told
    log = [line.split("entry     ", 1)[-1] for line in provd(other, "log").stdout.decode().splitlines()]
    assert [line for line in log if "imported" in line] == [
        f"imported k version {(version := other.rpc('entry.get', key='k', root=own.root)['version'])} in {own.root}",
        f"imported k into the archive, version {version} stands in {own.root}",
    ]


def test_a_put_after_an_import_is_no_import(own: Workspace, other: Daemon) -> None:
    own.write("a", "one")
    own.put("k", "file:a", value=1)
    assert provd(other, "import", "-", stdin=exported(own.daemon)).returncode == 0
    asked = {"key": "k", "root": own.root, "deps": True}
    assert other.rpc("entry.get", **asked)["imported"] is True
    other.rpc("entry.put", key="k", value=1, deps=["file:a"], as_of="put", root=own.root)
    assert "imported" not in other.rpc("entry.get", **asked)
    assert "imported" not in provd(other, "why", "k", "--root", own.root).stdout.decode().split("●")[1].split("\n")[0]


@pytest.mark.parametrize(
    ("module", "program"), [("gzip", "gunzip"), ("bz2", "bunzip2"), ("lzma", "unxz"), ("zstd", "unzstd")]
)
def test_a_compressed_file_is_told_with_what_undoes_it(own: Workspace, module: str, program: str) -> None:
    own("entry.put", key="k", value=1, deps=[])
    raw = exported(own.daemon)
    made = b"\x28\xb5\x2f\xfd..." if module == "zstd" else importlib.import_module(module).compress(raw)
    file = os.path.join(own.daemon.home, "all (1)")
    with open(file, "wb") as out:
        out.write(made)

    done = provd(own.daemon, "import", file, "--as-root", "/r", stdin=b"")

    assert done.returncode == 5
    here = f"--socket {own.daemon.socket}"
    assert f"  next: {program} -c '{file}' | provd import - --as-root /r {here}\n".encode() in done.stderr
    assert (
        f"next: provd import --help  # pipe it through {program} -c first".encode()
        in provd(own.daemon, "import", "-", stdin=made).stderr
    )
