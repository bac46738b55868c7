"""confirm: the same value, put again with what it rests on, and nothing else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon, Refusal, verdict
from real_cli import RealCli

from provd.cli.exact import ExactClient, Number, exact_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support import Daemon


@pytest.fixture
def cli(module_daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RealCli:
    return RealCli(module_daemon, capsys, monkeypatch)


@pytest.fixture
def fake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon() as daemon:
        yield Cli(daemon, capsys, monkeypatch)


def _write(name: str | bytes, content: str) -> None:
    with open(name, "w", encoding="utf-8") as file:
        file.write(content)


def _sums(name: str) -> str:
    with open(name, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    _write("sums", f"{digest}  {name}\n")
    return "sums"


def _about(cli: RealCli, key: str) -> Any:
    return cli.daemon.rpc("entry.get", key=key, root=cli.root, deps=True, even_if=["dirty", "unknown"])


def test_what_holds_as_of_now_is_fresh_again(cli: RealCli) -> None:
    _write("f", "one\n")
    cli("put", "now", "--value", "v", "--dep", "f", "--as-of-now", "--meta", '{"a": 1}', "--session", "s1")
    before = _about(cli, "now")
    _write("f", "two\n")
    assert cli("check", "now", code=1).out

    got = cli("confirm", "now", "--as-of-now", "--session", "s2", "--turn", "7")

    assert "fresh    now  (same)" in got.out
    assert got.err == ""
    after = _about(cli, "now")
    assert {"value": "v", "meta": {"a": 1}, "version": before["version"]}.items() <= after.items()
    assert (after["session"], after["turn"], after["supports"]) == ("s2", 7, 2)
    assert after["deps"][0]["digest"] != before["deps"][0]["digest"]


def test_it_is_fresh_by_the_sums_of_what_was_read(cli: RealCli) -> None:
    _write("f", "one\n")
    cli("put", "summed", "--value", "v", "--sums", _sums("f"))
    _write("f", "two\n")
    sums = _sums("f")

    assert "fresh    summed" in cli("confirm", "summed", "--sums", sums).out
    assert _about(cli, "summed")["deps"][0]["digest"].startswith("sha256:")


def test_what_was_written_after_it_was_read_again_is_dirty_at_birth(cli: RealCli) -> None:
    _write("f", "one\n")
    cli("put", "born", "--value", "v", "--sums", _sums("f"))
    _write("f", "two\n")
    sums = _sums("f")
    _write("f", "three\n")

    assert "dirty    born  (changed)" in cli("confirm", "born", "--sums", sums, code=1).out
    cli("check", "born", code=1)


def test_a_clock_from_before_a_write_confirms_nothing(cli: RealCli) -> None:
    _write("f", "one\n")
    cli("put", "clocked", "--value", "v", "--sums", _sums("f"))
    clock = cli("clock").out.strip()
    _write("f", "two\n")

    got = cli("confirm", "clocked", "--fetched-at", clock, code=None)

    assert got.code in {1, 4}
    assert cli("check", "clocked", code=None).code in {1, 4}


def test_what_was_unproven_is_proven(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    _write("f", "one\n")
    cli("put", "unproven", "--value", "v", "--dep", "f", "--fetched-at", clock)
    assert cli("check", "unproven", code=None).code in {1, 4}

    cli("confirm", "unproven", "--as-of-now")

    cli("check", "unproven")


def test_an_entry_without_a_value(cli: RealCli) -> None:
    _write("f", "one\n")
    cli("put", "valueless", "--dep", "f", "--as-of-now", "--meta", '{"a": 1}')
    before = _about(cli, "valueless")
    _write("f", "two\n")

    cli("confirm", "valueless", "--as-of-now")

    after = _about(cli, "valueless")
    assert after["version"] > before["version"]
    assert after["meta"] == {"a": 1}
    assert "value" not in after
    assert after["verdict"] == "fresh"


def test_numbers_are_kept_to_the_letter(cli: RealCli) -> None:
    with ExactClient(cli.daemon.socket) as client:
        value = {"a": [Number("1.50"), Number("1E+2"), Number("-0"), 7]}
        version = client.put("exact", value=value, deps=["f"], as_of="put", root=cli.root)["version"]

    cli("confirm", "exact", "--as-of-now")

    after = _about(cli, "exact")
    assert (after["version"], after["supports"]) == (version, 2)  # an equal value keeps its version


@pytest.mark.parametrize("text", ['{"a":1.50}', "[1E400,-0.0,12345678901234567890,1.0]", '"\\u0007é"', "null"])
def test_a_value_goes_back_as_it_came(text: str) -> None:
    client = ExactClient.__new__(ExactClient)

    assert exact_json(client.decode(text.encode())) == text


def test_objects_and_entries_need_a_clock(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    cli("put", "ground", "--value", "v", "--no-deps")
    clock = cli("clock").out.strip()
    cli("put", "derived", "--value", "v", "--dep", "entry:ground", "--dep", "object:o", "--fetched-at", clock)
    cli("action", "record", "--write", "object:o")
    cli("check", "derived", code=1)

    got = cli("confirm", "derived", "--as-of-now", code=2)

    assert "looked at again: entry:ground, object:o" in got.err
    assert "next: c=$(provd clock)" in got.err
    assert "fresh    derived" in cli("confirm", "derived", "--fetched-at", cli("clock").out.strip()).out


def test_all_that_it_rests_on_must_be_said(cli: RealCli) -> None:
    for name in ("f", "g"):
        _write(name, "one\n")
    cli("put", "both", "--value", "v", "--dep", "f", "--dep", "g", "--as-of-now")

    got = cli("confirm", "both", "--sums", _sums("f"), code=2)

    assert "looked at again: file:" in got.err
    cli("confirm", "both", "--sums", "sums", "--as-of-now")
    _write("h", "one\n")
    assert "does not rest on file:" in cli("confirm", "both", "--sums", _sums("h"), code=2).err


def test_names_that_are_not_utf8(cli: RealCli) -> None:
    _write(b"\xff", "one\n")
    cli("put", "bytes", "--value", "v", "--dep", b"\xff", "--as-of-now")
    _write(b"\xff", "two\n")

    cli("confirm", "bytes", "--as-of-now")

    cli("check", "bytes")


def test_what_nobody_knows_the_ground_of_stays_unknown(cli: RealCli) -> None:
    cli("put", "groundless", "--value", "v")

    got = cli("confirm", "groundless", "--as-of-now", code=4)

    assert "(no-provenance)" in got.out
    assert "put it anew with --sums, --dep or --no-deps" in got.err


def test_an_older_clock_changes_nothing(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    cli("put", "late", "--value", "v", "--dep", "object:late", "--fetched-at", cli("clock").out.strip())
    cli("confirm", "late", "--fetched-at", cli("clock").out.strip())
    before = _about(cli, "late")

    got = cli("confirm", "late", "--fetched-at", clock)

    assert "was read before what stands" in got.err
    assert _about(cli, "late")["clock_of_entry"] == before["clock_of_entry"]


def test_there_is_nothing_to_confirm(cli: RealCli) -> None:
    assert "there is no entry 'none' to confirm\n  next: provd put" in cli("confirm", "none", "--as-of-now", code=5).err


def test_only_the_version_that_was_meant(cli: RealCli) -> None:
    cli("put", "based", "--value", "v", "--no-deps")
    version = _about(cli, "based")["version"]

    assert "nothing was confirmed" in cli("confirm", "based", "--as-of-now", "--based-on", "1", code=5).err
    cli("confirm", "based", "--as-of-now", "--based-on", str(version))


def test_what_was_put_meanwhile_is_not_blessed(fake: Cli) -> None:
    there = verdict("dirty", value="v", version=7, deps=[{"dep": "file:/f", "kept": "read", "digest": "xxh3:00"}])
    fake.fake.answers["entry.get"] = there
    fake.fake.answers["entry.put"] = Refusal("entry.conflict", "no", "", {"version": 9})

    got = fake("confirm", "k", "--as-of-now", code=5)

    sent = fake.fake.params_of("entry.put")
    assert {"based_on": 7, "value": "v", "as_of": "put", "deps": [{"dep": "file:/f"}]}.items() <= sent.items()
    assert "version 7 was fetched, 9 stands" in got.err
    assert "\n  next: see what stands now" in got.err


def test_it_must_be_said_when_it_was_read(fake: Cli) -> None:
    got = fake("confirm", "k", code=2)

    assert "nothing says when the sources were read again" in got.err
    assert fake.fake.asked == []


def test_json_is_what_the_daemon_answered(fake: Cli) -> None:
    answer = {"key": "k", "version": 7, "absent": [], "unproven": ["file:/f"], "verdict": verdict("unknown")}
    fake.fake.answers |= {"entry.get": verdict(deps=[{"dep": "file:/f"}]), "entry.put": answer}

    got = fake("confirm", "k", "--fetched-at", "c:1", "--json", code=4)

    assert got.json == answer
    assert "unproven: file:/f" in got.err
