"""What the command line makes of paths, dependencies, keys and the directory around it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon, cli, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli"]


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon(entry_check=verdict(), deps_check=verdict()) as daemon:
        yield daemon


def _dep(cli: Cli, argument: str | bytes) -> Any:
    cli("check", "--dep", argument, "--fetched-at", "c:1")
    return cli.fake.params_of("deps.check")["deps"][0]


@pytest.mark.parametrize(
    ("argument", "sent"),
    [
        ("f", "file:HERE/f"),
        ("file:f", "file:HERE/f"),
        ("/abs/f", "file:/abs/f"),
        ("a/link/../b", "file:HERE/a/link/../b"),
        ("./f", "file:HERE/f"),
        (".", "file:HERE"),
        ("./odd:name", "file:HERE/odd:name"),
        ("dir:d/", "dir:HERE/d/"),
        ("names:*.py", "names:HERE/*.py"),
        ("glob:src/**/*.py", "glob:HERE/src/**/*.py"),
        ("tree:/t", "tree:/t"),
        ("object:svc:api", "object:svc:api"),
        ("entry:other", "entry:other"),
        ("odd:name", "odd:name"),
        ("file:", "file:"),
        ("", "file:"),
        ("é", "file:HERE/é"),
    ],
)
def test_dependencies(cli: Cli, argument: str, sent: str) -> None:
    expected = sent.replace("HERE", cli.here) if argument else ""

    assert _dep(cli, argument) == expected


@pytest.mark.parametrize(
    ("argument", "sent"),
    [
        ("../f", "file:UP/f"),
        ("../../../../../../../f", "file:/f"),
        ("..", "file:UP"),
        ("../", "file:UP"),
        ("tree:..", "tree:UP"),
        ("tree:.", "tree:HERE"),
        ("glob:./d/../*.py", "glob:HERE/*.py"),
        ("glob:../b[*]c/*.py", "glob:UP/b[*]c/*.py"),
        ("glob:d/*/../f", "glob:HERE/d/*/../f"),
        ("d/../f", "file:HERE/f"),
        ("d/e/../../f", "file:HERE/f"),
        (".//d/./f", "file:HERE/d/f"),
        ("d/./", "file:HERE/d/"),
        ("d/.", "file:HERE/d/"),
        ("link/../f", "file:HERE/link/../f"),
        ("link/.././d/../f", "file:HERE/link/../f"),
        ("d/link2/../../f", "file:HERE/d/link2/../../f"),
        ("link/e/../f", "file:HERE/link/f"),
        ("none/../f", "file:HERE/none/../f"),
        ("f/../f", "file:HERE/f/../f"),
        ("/../f", "file:/f"),
        ("dir:/dev/../none", "dir:/none"),
    ],
)
def test_what_only_leads_back_out_of_a_directory_is_left_out(cli: Cli, argument: str, sent: str) -> None:
    """What is left means the same to the system, whatever is a link."""
    os.makedirs("d/e")
    os.symlink("d", "link")
    os.symlink("/dev", "d/link2")
    open("f", "w").close()
    expected = sent.replace("HERE", cli.here).replace("UP", os.path.dirname(cli.here))
    assert _dep(cli, argument) == expected.replace("//", "/")
    kind, _, name = argument.rpartition(":")
    if kind in {"", "dir", "tree"}:
        assert os.path.realpath(name) == os.path.realpath(_dep(cli, argument).partition(":")[2])


def test_bytes_that_are_not_utf8(cli: Cli) -> None:
    assert _dep(cli, b"/a\xff") == {"dep": {"b64": "ZmlsZTovYf8="}}
    assert _dep(cli, b"object:\xff") == {"dep": {"b64": "b2JqZWN0Ov8="}}


def test_a_directory_with_wildcards_in_its_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("a[b]*?")
    monkeypatch.chdir("a[b]*?")

    assert _dep(cli, "glob:*.py") == f"glob:{cli.here}/a[[]b][*][?]/*.py"
    assert _dep(cli, "tree:t") == f"tree:{cli.here}/a[b]*?/t"


def test_the_system_root(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert _dep(cli, "f") == "file:/f"


def test_a_directory_that_is_gone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("gone")
    monkeypatch.chdir("gone")
    os.rmdir("../gone")

    assert "no longer exists" in cli("check", "--dep", "f", "--fetched-at", "c:1", code=2).err
    assert "entry.check" not in [method for method, _ in cli.fake.asked]
    cli("check", "k", "--scope", "s")
    cli("check", "k")
    assert cli.fake.questions[-1] == ("entry.check", {"key": "k", "root": "/watched"})
    os.chdir("/")


@pytest.mark.parametrize("roots", [[], ["/a", "/b"]])
def test_a_directory_that_is_gone_and_not_one_root(cli: Cli, roots: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("gone")
    monkeypatch.chdir("gone")
    os.rmdir("../gone")
    cli.fake.answers["daemon.hello"] = HELLO | {"roots": roots}

    got = cli("check", "k", code=2)

    assert f"no longer exists, and {len(roots)} roots are watched" in got.err
    assert "--root DIR" in got.err
    assert cli.fake.questions == []
    os.chdir("/")


@pytest.mark.parametrize(
    ("roots", "inside", "root"),
    [
        (["HERE"], "d", "HERE"),
        (["HERE", "/"], "d", "HERE"),
        (["/", "HERE/d", "HERE"], "d", "HERE/d"),
        (["/"], "d", "/"),
        (["HERE/d"], "dd", "HERE/dd"),  # the only root is not taken for all places
        (["HERE/d", "/other"], "dd", "HERE/dd"),
        ([], "d", "HERE/d"),
    ],
)
def test_the_root_around(cli: Cli, roots: list[str], inside: str, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir(inside)
    monkeypatch.chdir(inside)
    cli.fake.answers["daemon.hello"] = HELLO | {"roots": [path.replace("HERE", cli.here) for path in roots]}

    cli("check", "k")

    expected = {"root": root.replace("HERE", cli.here)}
    asked = [("daemon.hello", {"protocol": 1}), ("entry.check", {"key": "k"} | expected)]
    assert cli.fake.asked == asked  # and not root.list, which looks at every root's disk


def test_a_root_that_is_not_utf8(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir(b"\xff")
    monkeypatch.chdir(os.fsdecode(b"\xff"))
    cli.fake.answers["daemon.hello"] = HELLO | {"roots": [{"b64": "L/8="}, "/other"]}

    cli("check", "k")

    assert set(cli.fake.params_of("entry.check")["root"]) == {"b64"}


def test_a_root_by_name(cli: Cli) -> None:
    cli("check", "k", "--root", "sub/..")

    assert cli.fake.questions == [("entry.check", {"key": "k", "root": f"{cli.here}/sub/.."})]


def test_keys_are_text(cli: Cli) -> None:
    cli("check", "é k")

    assert cli.fake.params_of("entry.check")["key"] == "é k"
    assert cli("check", b"k\xff", code=2).err.startswith("provd: a key is not UTF-8")
    assert cli("check", "k", "--scope", b"k\xff", code=2).err.startswith("provd: --scope is not UTF-8")
