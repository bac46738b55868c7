"""What cannot be read is not confirmed: the entry keeps the digest that it has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon, verdict
from real_cli import RealCli, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli"]


@pytest.fixture
def fake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon() as daemon:
        yield Cli(daemon, capsys, monkeypatch)


_KEPT = ("value", "version", "record", "clock_of_entry", "deps", "supports")


def _about(cli: RealCli) -> Any:
    asked = {"key": "k", "root": cli.root, "deps": True, "even_if": ["dirty", "unknown"]}
    return {name: kept for name, kept in cli.daemon.rpc("entry.get", **asked).items() if name in _KEPT}


@pytest.mark.parametrize("how", ["--as-of-now", "--fetched-at"])
def test_nothing_is_changed(cli: RealCli, how: str) -> None:
    cli.write("f", "one\n")
    os.mkdir("d")
    cli("put", "k", "--value", "v", "--dep", "f", "--dep", "tree:d", "--as-of-now")
    before = _about(cli)
    os.unlink("f")
    os.symlink("x" * 300, "f")  # a name that is too long cannot be read, by root neither

    when = [how] if how == "--as-of-now" else [how, cli("clock").out.strip()]
    got = cli("confirm", "k", *when, code=5)

    assert f"nothing was confirmed: it cannot be read now: file:{cli.root}/f (" in got.err
    assert "\n  next: " in got.err
    assert _about(cli) == before
    os.unlink("f")
    cli.write("f", "one\n")
    assert cli("check", "k").out
    cli("confirm", "k", "--as-of-now")


def test_what_its_reader_gave_a_digest_of_need_not_be_read(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli("put", "k", "--value", "v", "--dep", "f", "--as-of-now")
    os.unlink("f")
    os.symlink("x" * 300, "f")
    cli.write("sums", "0" * 64 + "  f\n")

    cli("confirm", "k", "--sums", "sums", code=4)

    assert _about(cli)["deps"][0]["digest"] == "sha256:" + "0" * 64


def test_a_place_without_permission_is_said_with_what_opens_it(fake: Cli) -> None:
    deps = [{"dep": "file:/f", "kept": "read", "digest": "xxh3:00"}, {"dep": "tree:/t"}, {"dep": "object:o"}]
    unread = {"digest": None, "why": "unreadable", "detail": "Permission denied"}
    digests = [{"dep": "file:/f", "digest": "xxh3:00"}, {"dep": "tree:/t", "paths": ["/t/a"]} | unread]
    fake.fake.answers["entry.get"] = verdict(deps=deps, record=1)
    fake.fake.answers["deps.snapshot"] = {"clock": "c:1", "digests": digests}

    got = fake("confirm", "k", "--fetched-at", "c:1", code=5)

    assert "cannot be read now: tree:/t (Permission denied)" in got.err
    assert "next: chmod u+rX /t/a  # permission denied (EACCES) for /t/a; then confirm again" in got.err
    assert fake.fake.params_of("deps.snapshot")["deps"] == [{"dep": "file:/f"}, {"dep": "tree:/t"}]
    assert "entry.put" not in [method for method, _ in fake.fake.asked]
