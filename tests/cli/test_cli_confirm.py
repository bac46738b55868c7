"""confirm: the same value, put again with what it rests on, and nothing else."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from fake_daemon import Cli, FakeDaemon, Refusal, in_turn, verdict
from real_cli import RealCli, cli
from support import RpcError

from provd.cli.given import exact
from provd.cli.given.exact import ExactClient, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["cli"]


@pytest.fixture
def fake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon(deps_snapshot={"clock": "c:1", "digests": []}) as daemon:
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
    os.makedirs("d", exist_ok=True)

    for name in ("f", "./f", ".//f", os.path.abspath("f"), f"{os.getcwd()}//./f"):
        assert "fresh    summed" in cli("confirm", "summed", "--sums", _sums(name)).out, name
    os.symlink("d", "to-d")
    dep = {"dep": f"file:{os.getcwd()}/d/.././f", "digest": "absent"}  # as another client may have put it
    cli.daemon.rpc("entry.put", key="raw", value="v", deps=[dep], root=cli.root)
    assert "fresh    raw" in cli("confirm", "raw", "--sums", _sums("f")).out
    assert "fresh    summed" in cli("confirm", "summed", "--sums", _sums("d/../f")).out
    assert "does not rest on" in cli("confirm", "summed", "--sums", _sums("to-d/../f"), code=2).err
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
        value = Written('{"a":[1.50,1E+2,-0,7]}')
        version = client.put("exact", value=value, deps=["f"], as_of="put", root=cli.root)["version"]

    cli("confirm", "exact", "--as-of-now")

    after = _about(cli, "exact")
    assert (after["version"], after["supports"]) == (version, 2)  # an equal value keeps its version


_LETTERS: Final = [
    '{"a":1,"a":2}',
    '{ "b" : 1.50 , "a":[ ] }',
    "[1E400,-0.0,12345678901234567890,1.0]",
    "1" * 5000,
    r'"<\/script>\u0007\u00e9é"',
    r'{"\"value\":":1,"value":{"meta":2}}',
    "null",
]


@pytest.mark.parametrize("text", _LETTERS)
def test_a_value_and_a_meta_stay_to_the_letter(cli: RealCli, text: str) -> None:
    meta = f'{{"m": {text}}}'
    told = {"value": Written(text), "meta": Written(meta), "deps": ["f"], "as_of": "put", "root": cli.root}
    with ExactClient(cli.daemon.socket) as client:
        version = client.put("letters", **told)["version"]
        cli("confirm", "letters", "--as-of-now")
        after = client.get("letters", deps=True, root=cli.root)
        assert (after["value"], after["meta"]) == (text, meta)
    assert (after["version"], after["supports"]) == (version, 2)
    cli("forget", "letters")


@pytest.mark.parametrize("text", ["{}", ' { "a" : [ 1 , 2 ] , "b" : { } } ', '{"a":1,"b":"}"}'])
def test_the_members_of_an_object_as_they_are_written(text: str) -> None:
    found = exact.members(text)

    assert {name: exact.value(member) for name, member in found.items()} == exact.value(text.strip())
    assert all(member in text for member in found.values())


def test_what_was_relative_to_another_root_stays_what_it_was(cli: RealCli) -> None:
    one, two = os.path.join(cli.root, "one"), os.path.join(cli.root, "two [x]")
    for place in (one, two):
        os.mkdir(place)
        _write(os.path.join(place, "a"), "A\n")
    deps = ["a", "file:a", "tree:../one", "glob:*"]
    cli.daemon.rpc("entry.put", key="bound", scope="bound", root=two, value="v", deps=deps, as_of="put")
    os.chdir(one)

    cli("confirm", "bound", "--scope", "bound", "--as-of-now")
    cli("confirm", "bound", "--scope", "bound", "--sums", _absolute_sums(os.path.join(two, "a")), "--as-of-now")

    os.remove(os.path.join(one, "sums"))
    _write(os.path.join(two, "a"), "B\n")
    got = cli("check", "bound", "--scope", "bound", code=1)
    assert f"file:{two}/a  changed" in got.out
    told = cli.daemon.rpc("entry.get", key="bound", scope="bound", deps=True)["deps"]
    assert [item["dep"] for item in told] == [
        f"file:{two}/a",
        f"file:{two}/a",
        f"tree:{two}/../one",
        f"glob:{cli.root}/two [[]x]/*",
    ]


def test_a_relative_dependency_is_told_and_shown_with_its_absolute_path(cli: RealCli) -> None:
    other = os.path.join(cli.root, "other")
    os.mkdir(other)
    _write(os.path.join(other, "a"), "A\n")
    deps = ["a", "dir:.", f"file:{other}/a", "object:o"]
    clock = cli("clock").out.strip()
    cli.daemon.rpc("entry.put", key="shown", scope="shown", root=other, value="v", deps=deps, fetched_at=clock)
    _write(os.path.join(other, "a"), "B\n")

    got = cli.daemon.rpc("entry.get", key="shown", scope="shown", deps=True)

    assert [(item["dep"], item.get("path")) for item in got["deps"]] == [
        ("a", f"{other}/a"),
        ("dir:.", f"{other}/."),
        (f"file:{other}/a", None),
        ("object:o", None),
    ]
    assert ("a", f"{other}/a") in [(item["dep"], item.get("path")) for item in got["evidence"]]
    assert f"file:{other}/a" in cli("check", "shown", "--scope", "shown", code=None).out
    shown = cli("why", "shown", "--scope", "shown", code=None).out
    assert f"file:{other}/a" in shown
    assert f"dir:{other}/." in shown


def _absolute_sums(name: str) -> str:
    with open(name, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    _write("sums", f"{digest}  {name}\n")
    return "sums"


def _meanwhile(monkeypatch: pytest.MonkeyPatch, what: Callable[[], Any]) -> None:
    """Does something once, between what confirm fetches and what it puts."""
    put, left = ExactClient.put, [what]

    def slow(client: ExactClient, key: str, **params: Any) -> Any:
        if left:
            left.pop()()
        return put(client, key, **params)

    monkeypatch.setattr(ExactClient, "put", slow)


def test_an_equal_value_that_rests_on_more_is_not_overwritten(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("f", "g"):
        _write(name, "one\n")
    cli("put", "raced", "--value", "v", "--dep", "f", "--as-of-now")
    more = {"key": "raced", "root": cli.root, "value": "v", "deps": ["f", "g"], "as_of": "put"}
    _meanwhile(monkeypatch, lambda: cli.daemon.rpc("entry.put", **more))

    got = cli("confirm", "raced", "--as-of-now", code=5)

    assert "the same value, that rests on something else" in got.err
    assert [item["dep"] for item in _about(cli, "raced")["deps"]] == ["f", "g"]
    _write("g", "two\n")
    cli("check", "raced", code=1)


def test_what_was_only_proven_or_confirmed_meanwhile_is_confirmed(
    cli: RealCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write("f", "one\n")
    cli("put", "proven", "--value", "v", "--dep", "f", "--as-of-now")
    again = _about(cli, "proven")["deps"][0]["dep"]
    more = {"key": "proven", "root": cli.root, "value": "v", "deps": [again], "as_of": "put", "meta": {"m": 1}}
    _meanwhile(monkeypatch, lambda: cli.daemon.rpc("entry.put", **more))

    cli("confirm", "proven", "--as-of-now")

    assert {"supports": 3, "meta": {"m": 1}}.items() <= _about(cli, "proven").items()


def test_a_put_on_top_of_a_record_that_is_not_the_newest_is_refused(cli: RealCli) -> None:
    put = {"key": "condition", "root": cli.root, "value": "v", "deps": []}
    assert cli.daemon.rpc("entry.put", **put, based_on_record=0)["version"]
    record = _about(cli, "condition")["record"]
    cli.daemon.rpc("entry.put", **put, based_on_record=record)
    with pytest.raises(RpcError) as refused:
        cli.daemon.rpc("entry.put", **put, based_on_record=record)

    assert refused.value.code == "entry.conflict"
    assert refused.value.data["record"] == _about(cli, "condition")["record"]
    cli.daemon.rpc("entry.revalidate", key="condition", root=cli.root)
    assert _about(cli, "condition")["record"] > refused.value.data["record"]


def test_an_older_daemon_is_not_taken_at_its_word(fake: Cli) -> None:
    fake.fake.answers["entry.get"] = verdict(version=7, record=7, deps=[{"dep": "file:a"}])
    assert "does not tell where file:a is" in fake("confirm", "k", "--as-of-now", code=5).err
    fake.fake.answers["entry.get"] = verdict(version=7, deps=[{"dep": "file:/a"}])
    assert "older than this command" in fake("confirm", "k", "--as-of-now", code=5).err


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

    assert "nothing was confirmed, since this reading was before what stands: version " in got.err
    assert _about(cli, "late")["clock_of_entry"] == before["clock_of_entry"]


def test_there_is_nothing_to_confirm(cli: RealCli) -> None:
    got = cli("confirm", "none", "--as-of-now", code=4)

    assert (got.out, got.err) == ((asked := cli("check", "none", code=4)).out, asked.err)
    assert cli("confirm", "none", "--as-of-now", "--json", code=4).json["verdict"]["why"] == "no-entry"


def test_only_the_version_that_was_meant(cli: RealCli) -> None:
    cli("put", "based", "--value", "v", "--no-deps")
    version = _about(cli, "based")["version"]

    refused = cli("confirm", "based", "--as-of-now", "--based-on", "1", code=5).err
    assert f"nothing was confirmed: 'based' stands at version {version}, not 1\n  next: provd get based " in refused
    cli("confirm", "based", "--as-of-now", "--based-on", str(version))


def test_what_was_put_meanwhile_is_not_blessed(fake: Cli) -> None:
    there = verdict(
        "dirty", value="v", version=7, record=8, deps=[{"dep": "file:/f", "kept": "read", "digest": "xxh3:00"}]
    )
    fake.fake.answers["entry.get"] = in_turn(there, there | {"version": 9})
    fake.fake.answers["entry.put"] = Refusal("entry.conflict", "no", "", {"version": 9})

    got = fake("confirm", "k", "--as-of-now", code=5)

    sent = fake.fake.params_of("entry.put")
    assert {
        "based_on": 7,
        "based_on_record": 8,
        "value": "v",
        "as_of": "put",
        "deps": [{"dep": "file:/f"}],
    }.items() <= sent.items()
    assert "version 7 was fetched, 9 stands" in got.err
    assert "\n  next: provd get k --even-if dirty  # what stands now" in got.err


def test_it_must_be_said_when_it_was_read(fake: Cli) -> None:
    got = fake("confirm", "k", code=2)

    assert "nothing says when the sources were read again" in got.err
    assert fake.fake.asked == []


def test_json_is_what_the_daemon_answered(fake: Cli) -> None:
    answer = {"key": "k", "version": 7, "absent": [], "unproven": ["file:/f"], "verdict": verdict("unknown")}
    fake.fake.answers |= {"entry.get": verdict(deps=[{"dep": "file:/f"}], record=1), "entry.put": answer}

    got = fake("confirm", "k", "--fetched-at", "c:1", "--json", code=4)

    assert got.json == answer
    assert "unproven: file:/f" in got.err
