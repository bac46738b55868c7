"""Entries carried from one store to another: what a file holds, and that what arrives is what was there."""

from __future__ import annotations

import base64
import json
import os
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from carrying import everything, exported, pages, portable, records, taken
from support import MIB, Daemon, Json, RpcError, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE: Final = 16 * MIB


@pytest.fixture(scope="module")
def there(module_daemon: Daemon) -> Iterator[Daemon]:
    """Another daemon with a store of its own that watches the same directories."""
    daemon = Daemon(roots=[module_daemon.root])
    try:
        yield daemon.start().scanned()
    finally:
        daemon.close()


@pytest.fixture
def other(there: Daemon, watched: Workspace) -> Iterator[Workspace]:
    """The same directory behind that daemon."""
    yield Workspace(there, watched.root, watched.tag)
    assert there.alive, there.said()
    there.disconnect()


# what a file holds


def test_a_line_has_all_that_is_kept_of_an_entry(watched: Workspace) -> None:
    watched.write("a.py")
    watched.write(b"odd\xff.py")
    meta, value = {"by": "tool"}, {"n": [1, None], "s": "é"}
    watched.put("k", "file:a.py", b"file:odd\xff.py", value=value, meta=meta, session="s", turn="t2")
    (line,) = exported(watched)
    got = watched("entry.get", key="k", deps=True)
    assert (line["root"], line["key"], line["standing"], line["supports"]) == (watched.root, "k", "active", 1)
    assert (line["value"], line["meta"], line["session"], line["turn"]) == (value, meta, "s", "t2")
    assert (line["at"], line["version"], line["clock"]) == (got["at"], got["version"], got["clock_of_entry"])
    assert [dep["digest"] for dep in line["deps"]] == [dep["digest"] for dep in got["deps"]]
    assert "b64" in line["deps"][1]["dep"]


def test_values_and_no_value_are_told_apart(watched: Workspace) -> None:
    watched("entry.put", key="none", deps=[])
    watched("entry.put", key="null", value=None, deps=[])
    watched("entry.put", key="unsaid", value=1)
    lines = {line["key"]: line for line in exported(watched)}
    assert "value" not in lines["none"]
    assert lines["null"]["value"] is None
    assert lines["unsaid"]["deps"] is None
    assert lines["none"]["deps"] == []


def test_the_archive_comes_after_its_entry_with_its_reasons(watched: Workspace) -> None:
    watched.write("a")
    for number in range(3):
        watched.put("k", "file:a", value=number)
    watched("entry.put", key="k", value="late", deps=[{"dep": "a", "digest": "xxh3:" + "0" * 32}])
    told = [(line["value"], line["standing"], line.get("reason")) for line in exported(watched)]
    assert told == [
        (2, "active", None),
        (0, "revoked", "superseded"),
        (1, "revoked", "superseded"),
        ("late", "revoked", "late"),
    ]


def test_pages_are_of_any_size_and_together_everything_once(watched: Workspace) -> None:
    for number in range(7):
        for value in range(3):
            watched("entry.put", key=f"k{number}", value=value, deps=[])
    whole = exported(watched)
    assert len(whole) == 21
    for limit in (1, 2, 5, 20, 21, 22):
        assert exported(watched, limit=limit) == whole, limit
        assert all(len(page["entries"]) <= limit for page in pages(watched, limit=limit))


def test_scopes_are_exported_apart_or_all_together(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    own("entry.put", key="k", value=2, deps=[], scope="global")
    inner = os.path.join(own.root, "inner")
    os.mkdir(inner)
    own("entry.put", key="k", value=3, deps=[], root=inner)
    assert [line["value"] for line in exported(own)] == [1]
    assert [line["value"] for line in exported(own, scope="global")] == [2]
    everything = own.rpc("entry.export", all=True)["entries"]
    assert sorted(line["value"] for line in everything) == [1, 2, 3]
    with pytest.raises(RpcError) as refused:
        own.rpc("entry.export", all=True, scope="global")
    assert refused.value.code == "params"


def test_an_entry_that_was_forgotten_between_two_pages_ends_nothing(watched: Workspace) -> None:
    for number in range(6):
        watched("entry.put", key=f"k{number}", value=number, deps=[])
    first = watched("entry.export", limit=2)
    for gone in ("k1", "k2"):
        watched("entry.forget", key=gone)
    rest = watched("entry.export", after=first["after"])["entries"]
    assert [line["key"] for line in rest] == ["k3", "k4", "k5"]


def test_big_values_come_a_few_at_a_time_and_no_answer_is_too_long(watched: Workspace) -> None:
    for number in range(4):
        watched("entry.put", key=f"k{number}", value="x" * (7 * MIB), deps=[])
    told = list(pages(watched))
    assert sum(len(page["entries"]) for page in told) == 4
    assert all(len(json.dumps(page)) < LINE for page in told)


def place(*fields: Any) -> str:
    return base64.b64encode(msgspec.msgpack.encode(fields)).decode()


@pytest.mark.parametrize(
    "after",
    [
        "",
        "nonsense",
        "AAAA",
        "kwAA",
        place(b"row", 2**63 - 1),
        place(b"row", 2**64 - 1),
        place(b"row", -1),
        place(b"r" * 501),
        place(b"r" * 5000, 0, True),
    ],
)
def test_a_place_to_go_on_from_that_nobody_told_is_refused(watched: Workspace, after: str) -> None:
    with pytest.raises(RpcError) as refused:
        watched("entry.export", after=after)
    assert refused.value.code == "params"


def test_what_is_there_all_the_while_is_told_though_others_write(watched: Workspace) -> None:
    watched.write("a")
    for number in range(60):
        watched.put(f"k{number:02}", "file:a", value=number)
    told: list[Json] = []
    for number, page in enumerate(pages(watched, limit=7)):
        told += page["entries"]
        watched.put(f"k{5 * number:02}", "file:a", value="other")
        watched("entry.put", key=f"j{number}", value=1, deps=[])
    assert {line["key"] for line in told} >= {f"k{number:02}" for number in range(60)}
    assert len({(line["key"], line["made"], line["standing"]) for line in told}) == len(told)


def test_what_was_archived_alone_and_is_put_while_others_page_is_told(watched: Workspace, other: Workspace) -> None:
    for key in ("k0", "k1", "k2", "k3"):
        for number in range(3):
            watched("entry.put", key=key, value=number, deps=[])
    lines = [line for line in exported(watched) if line["key"] != "k0" or line["standing"] == "revoked"]
    taken(other, lines)
    for limit in range(1, 8):
        told = []
        for number, page in enumerate(pages(other, limit=limit)):
            told += page["entries"]
            if not number:
                other("entry.put", key="k0", value=f"new {limit}", deps=[])
        assert {line["value"] for line in told if line["key"] == "k0"} >= {0, 1}, limit
        other("entry.forget", key="k0")
        assert taken(other, lines) == {"archived": 2, "unchanged": len(lines) - 2}


# carrying over


def test_what_is_exported_and_imported_is_exported_as_it_was(watched: Workspace, other: Workspace) -> None:
    everything(watched)
    lines = exported(watched)
    told = taken(other, lines)
    active = sum(line["standing"] == "active" for line in lines)
    assert told == {"added": active, "archived": len(lines) - active}
    assert portable(exported(other)) == portable(lines)


def test_the_same_file_again_changes_nothing(watched: Workspace, other: Workspace) -> None:
    everything(watched)
    lines = exported(watched)
    taken(other, lines)
    before, head = exported(other), records(other)
    assert taken(other, lines) == {"unchanged": len(lines)}
    assert (exported(other), records(other)) == (before, head)


def test_a_file_changes_nothing_in_the_store_it_came_from(watched: Workspace) -> None:
    everything(watched)
    lines, head = exported(watched), records(watched)
    watched("entry.revalidate", key="now")
    watched.put("often", "file:b.py", value=7)
    before = exported(watched)
    assert taken(watched, lines) == {"unchanged": len(lines)}
    assert exported(watched) == before
    assert len(records(watched)) == len(head) + 2


def test_lines_in_any_order_give_the_same(watched: Workspace, make_daemon: Callable[..., Daemon]) -> None:
    everything(watched)
    lines = exported(watched)
    wanted = portable([line for line in lines if line["standing"] == "active"])
    for seed in range(3):
        daemon = make_daemon(roots=[watched.root]).start()
        shuffled = list(lines)
        random.Random(seed).shuffle(shuffled)
        ws = Workspace(daemon, watched.root, watched.tag)
        for start in range(0, len(shuffled), 4):
            assert not taken(ws, shuffled[start : start + 4]).get("refused")
        assert portable([line for line in exported(ws) if line["standing"] == "active"]) == wanted, seed
        assert ws.found("derived-before")[0] == "fresh", seed
        daemon.stop()


def at_random(ws: Workspace, seed: int) -> None:
    """Puts and what follows them, over a few keys that rest on files, on objects and on each other."""
    draw = random.Random(seed)
    for name in "abc":
        ws.write(name, name)
    keys = [f"k{number}" for number in range(6)]
    for number in range(60):
        key = draw.choice(keys)
        below = keys[: keys.index(key)]
        deps: list[Any] = [ws.dep(f"{kind}:{name}") for kind in ("file", "glob") for name in "abc"]
        deps += [f"entry:{other}" for other in below] + [ws.object("o"), *"abc", "missing"]
        chosen = draw.sample(deps, draw.randrange(4))
        match draw.randrange(8):
            case 0:
                ws("entry.forget", key=key)
            case 1:
                ws("entry.revalidate", key=key)
            case 2:
                ws.write(draw.choice("abc"), draw.choice("xyz"))
            case 3:
                ws("entry.put", key=key, value=number)
            case _:
                value = draw.choice([number, "same", None])
                ws("entry.put", key=key, value=value, deps=chosen, fetched_at=ws.clock(), session=f"s{number}")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_put_arrives_as_it_was_and_no_fresher(watched: Workspace, other: Workspace, seed: int) -> None:
    at_random(watched, seed)
    lines = exported(watched)
    assert not taken(other, lines).get("refused")
    assert portable(exported(other)) == portable(lines)
    for key in {line["key"] for line in lines}:
        here, was = other.verdict(key), watched.verdict(key)
        assert here == was or here != "fresh", (key, here, was)
    assert taken(other, lines) == {"unchanged": len(lines)}
    assert taken(watched, exported(other)).keys() <= {"unchanged", "late", "archived"}


def test_what_was_forgotten_comes_back_from_a_file(watched: Workspace) -> None:
    watched.write("a")
    watched.put("k", "file:a", value=1)
    watched.put("k", "file:a", value=2)
    lines = exported(watched)
    watched("entry.forget", key="k")
    assert taken(watched, lines) == {"added": 1, "archived": 1}
    assert portable(exported(watched)) == portable(lines)
    assert watched.found("k") == ("fresh", "same")
    assert watched.check("k")["version"] > lines[0]["version"], "a version is never used twice"
    assert taken(watched, lines) == {"unchanged": 2}
