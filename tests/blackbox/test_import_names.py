"""Names that precedents have from store to store: each is that of one value, and known where it comes home."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from carrying import exported, portable, taken
from support import Daemon, Json, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY_KNOWS: Final = "c:" + "1" * 16 + ":" + "2" * 16 + ":5"


@pytest.fixture
def other(make_daemon: Callable[..., Daemon], own: Workspace) -> Workspace:
    """The same directory behind another daemon with a store of its own."""
    return Workspace(make_daemon(roots=[own.root]).start().scanned(), own.root, own.tag)


def version(number: int) -> Json:
    return {"dep": "entry:base", "digest": f"version:{number}"}


def two_versions(ws: Workspace, *keys: tuple[str, list[Any], str | None]) -> list[Json]:
    """Lines of what rests on `base`, whose versions 1 and 2 are FIRST and SECOND, and those of `base` itself."""
    first = ws("entry.put", key="base", value=1, deps=[])["version"]
    second = ws("entry.put", key="base", value=2, deps=[])["version"]
    for key, deps, clock in keys:
        told = [version({"FIRST": first, "SECOND": second}[dep]) if dep in {"FIRST", "SECOND"} else dep for dep in deps]
        more = {} if clock is None else {"fetched_at": clock}
        ws("entry.put", key=key, value=key, deps=told, **more)
    return exported(ws)


def by_turns(lines: list[Json], order: str) -> list[Json]:
    return sorted(lines, key=lambda line: (line["key"] == "base") == (order == "top first"))


@pytest.mark.parametrize("order", ["top first", "base first"])
def test_a_ground_that_comes_is_that_of_the_dependency_that_named_it(
    own: Workspace, other: Workspace, order: str
) -> None:
    tops = (
        ("both", ["FIRST", "SECOND"], None),
        ("new", ["SECOND"], None),
        ("unproven", ["SECOND", "entry:base"], NOBODY_KNOWS),
    )
    lines = by_turns(two_versions(own, *tops), order)
    was = {key: own.found(key) for key, _, _ in tops}
    assert was["new"][0] == "fresh"
    assert (was["both"][0], was["unproven"][0]) == ("dirty", "unknown")
    for line in lines:
        assert not taken(other, [line]).get("refused")
    assert {key: other.found(key) for key, _, _ in tops} == was
    assert taken(other, lines) == {"unchanged": len(lines)}


def test_who_was_put_anew_with_the_same_value_does_not_rest_on_what_comes(own: Workspace, other: Workspace) -> None:
    lines = by_turns(two_versions(own, ("top", ["SECOND", "SECOND"], None)), "top first")
    taken(other, lines[:1])
    other("entry.put", key="top", value="top", deps=["entry:base"], fetched_at=NOBODY_KNOWS)
    taken(other, lines[1:])
    assert other.found("top") == ("unknown", "unproven")


def test_a_known_name_with_another_value_is_another_version(own: Workspace, other: Workspace) -> None:
    own.write("f", "one")
    own.put("base", "file:f", value="made of one")
    (old,) = exported(own)
    taken(other, [old])
    there = other.check("base")["version"]
    other("entry.put", key="top", value="from made of one", deps=[version(there)])
    own("entry.put", key="mine", value="from made of one", deps=[version(old["version"])])
    (mine,) = (line for line in exported(own) if line["key"] == "mine")
    own.write("f", "two")
    own.put("base", "file:f", value="made of two")
    (new,) = (line for line in exported(own) if line["key"] == "base" and line["standing"] == "active")
    forged = new | {"made": old["made"]}
    assert taken(other, [forged]) == {"replaced": 1}
    assert other("entry.get", key="base")["value"] == "made of two"
    assert other.check("base")["version"] != there
    assert other.found("top") == ("dirty", "entry-replaced")
    kept = [(line["value"], line["standing"]) for line in exported(other) if line["key"] == "base"]
    assert kept == [("made of two", "active"), ("made of one", "revoked")]
    taken(other, [mine])
    assert other.found("mine") == ("dirty", "entry-replaced"), "the name is still that of the first value"
    assert taken(other, [forged]) == {"unchanged": 1}
    assert taken(other, [old]) == {"unchanged": 1}


def test_evidence_of_what_has_no_value_is_not_that_of_other_grounds(own: Workspace, other: Workspace) -> None:
    own.write("f", "one")
    own("entry.put", key="base", deps=["f"], as_of="put")
    (line,) = exported(own)
    taken(other, [line])
    there = other.check("base")["version"]
    own.write("f", "two")
    own.write("g")
    own("entry.put", key="base", deps=["g"], as_of="put")
    (new,) = (one for one in exported(own) if one["standing"] == "active")
    assert taken(other, [new | {"made": line["made"]}]) == {"replaced": 1}
    assert other.check("base")["version"] != there


# from store to store


def carry(source: Workspace, *to: Workspace) -> None:
    for ws in to:
        assert not taken(ws, exported(source)).get("refused")


def test_what_comes_home_and_goes_round_is_known(own: Workspace, make_daemon: Callable[..., Daemon]) -> None:
    own.write("f")
    for number in range(3):
        own.put("k", "file:f", value=number)
    own("entry.put", key="top", value=1, deps=["entry:k"], fetched_at=own.clock())
    stores = [own] + [Workspace(make_daemon(roots=[own.root]).start().scanned(), own.root, own.tag) for _ in range(2)]
    lines = portable(exported(own))
    for _ in range(3):
        for one in stores:
            carry(one, *(ws for ws in stores if ws is not one))
        for ws in stores:
            assert portable(exported(ws)) == lines
            assert ws.found("top") == ("fresh", "same")
    made = [[line["made"] for line in exported(ws)] for ws in stores]
    assert made[0] == made[1] == made[2]
    stores[1].put("k", "file:f", value="another")
    assert stores[1].found("top") == ("dirty", "entry-replaced")


def test_two_that_differ_and_exchange_all_they_have_come_to_rest(own: Workspace, other: Workspace) -> None:
    own.write("f")
    for ws, value in ((own, "here"), (other, "there")):
        for number in range(2):
            ws.put("k", "file:f", value=f"{value} {number}")
    sizes = []
    for number in range(5):
        carry(own, other)
        carry(other, own)
        sizes.append((len(exported(own)), len(exported(other))))
        own.write("f", str(number % 2))
        (own if number % 2 else other)("entry.revalidate", key="k")
    assert sizes[1:] == [(4, 4)] * 4


def test_newer_evidence_of_another_store_comes_home(own: Workspace, other: Workspace) -> None:
    own.write("f", "one")
    own.put("k", "file:f", value="v")
    carry(own, other)
    own.write("f", "two")
    other.put("k", "file:f", value="v")
    assert own.verdict("k") == "dirty"
    before = own.check("k")["version"]
    assert taken(own, exported(other)) == {"replaced": 1}
    assert (own.found("k"), own.check("k")["version"]) == (("fresh", "same"), before)
    assert taken(own, exported(other)) == {"unchanged": 1}
    assert taken(other, exported(own)) == {"unchanged": 1}


def test_what_was_forgotten_has_no_name_left(own: Workspace, other: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    carry(own, other)
    other("entry.forget", key="k")
    other("entry.put", key="k", value=2, deps=[])
    (line,) = exported(other)
    (home,) = exported(own)
    assert line["made"].split(":")[1] != home["made"].split(":")[1]


# where keys live


def test_a_link_to_a_root_is_that_root_where_a_line_arrives(own: Workspace, other: Workspace) -> None:
    link = f"{own.root}-link"
    os.symlink(own.root, link)
    other("entry.put", key="mine", value=1, deps=[], root=link)
    own.write("f")
    own.put("k", "file:f", value=1)
    lines = [line | {"root": link} for line in exported(own)]
    assert taken(other, lines) == {"added": 1}
    for root in (link, own.root):
        for key in ("mine", "k"):
            assert other("entry.check", key=key, root=root)["verdict"] == "fresh", (root, key)
    own.write("f", "changed")
    assert other.verdict("k") == "dirty"
    assert taken(other, lines) == {"unchanged": 1}


def test_a_root_that_is_not_here_is_taken_as_it_is_named(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    nowhere = f"{own.root}/not/here"
    assert taken(own, [line | {"root": nowhere} for line in exported(own)]) == {"added": 1}
    assert [line["root"] for line in exported(own, root=nowhere)] == [nowhere]


@pytest.mark.parametrize("there", ["plain", "b[2]", "[*]?"])
@pytest.mark.parametrize("here", ["a[1]", "[", "plain too"])
def test_sets_of_a_directory_with_special_signs_are_the_same_in_another(ws: Workspace, here: str, there: str) -> None:
    old, new = f"{ws.root}/{here}", f"{ws.root}/{there}"
    for directory in (old, new):
        ws.write(f"{directory}/d/x.py", "same")
    deps = ["glob:d/*.py", "names:*", "names:**/x.py", "tree:d"]
    ws("entry.put", key="k", value=1, deps=deps, as_of="put", root=old)
    assert ws.verdict("k", root=old) == "fresh"

    ws.rpc("entry.import", entries=exported(ws, root=old), moved={"source": old, "to": new})

    assert ws.verdict("k", root=new) == "fresh"
    ws.write(f"{new}/d/y.py", "more")
    found = ws("entry.check", key="k", root=new)
    assert found["verdict"] == "dirty"
    assert {item["dep"] for item in found["evidence"]} == {"glob:d/*.py", "tree:d"}
