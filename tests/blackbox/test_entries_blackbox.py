"""Getting, listing and forgetting, and many clients at once, by SPEC 4 and 9."""

from __future__ import annotations

import json
import threading

import pytest
from asking import keys_of, sh
from support import Json, RpcError, Workspace

# ---- getting, listing, forgetting


def test_get_gives_the_value_only_where_usable_or_as_even_if_allows(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f", value="v", meta={"m": 1})
    ws("entry.put", key="u", value="v", meta={"m": 1})
    answer = ws("entry.get", key="k")
    assert (answer["value"], answer["meta"]) == ("v", {"m": 1})
    ws.write("f", "two")
    for key, verdict, other in (("k", "dirty", "unknown"), ("u", "unknown", "dirty")):
        for even_if in ([], [other]):
            answer = ws("entry.get", key=key, even_if=even_if)
            assert answer["verdict"] == verdict
            assert "value" not in answer
            assert "meta" not in answer
        for even_if in ([verdict], ["dirty", "unknown"]):
            answer = ws("entry.get", key=key, even_if=even_if)
            assert (answer["verdict"], answer["value"], answer["meta"]) == (verdict, "v", {"m": 1})
            assert answer["usable"] is False
    assert "value" not in ws("entry.check", key="u")
    assert ws("entry.get", key="none", even_if=["unknown"])["why"] == "no-entry"


def test_where_a_key_has_an_entry_is_told_whatever_else_there_is(ws: Workspace) -> None:
    key = f"where {ws.root}"
    places = [{"root": ws.root}, {"scope": f"one {ws.root}"}, {"scope": f"two {ws.root}"}]
    ws("entry.put", key="first", value=1, deps=[])
    for place in places:
        ws.rpc("entry.put", key=f"{key} and more", value=1, deps=[], **place)
    assert ws.rpc("entry.places", key=key) == {"places": []}
    for name in (key, key * 20):
        for place in reversed(places):
            ws.rpc("entry.put", key=name, value="old", deps=[], **place)
            ws.rpc("entry.put", key=name, value="new", deps=[], **place)
        assert ws.rpc("entry.places", key=name) == {"places": places}
        assert ws.rpc("entry.places", key=name, limit=2) == {"places": places[:2], "more": True}
        assert ws.rpc("entry.places", key=name, limit=3) == {"places": places}
        ws.rpc("entry.forget", key=name, **places[1])
        assert ws.rpc("entry.places", key=name) == {"places": [places[0], places[2]]}
    for wrong in ("", "k" * 1025):
        with pytest.raises(RpcError) as caught:
            ws.rpc("entry.places", key=wrong)
        assert caught.value.code == "limit"


def test_a_list_pages_through_every_key_once_and_in_order(ws: Workspace) -> None:
    names = sorted(f"{letter}{number:02}" for letter in "abé" for number in range(15))
    for name in names:
        ws("entry.put", key=name, value=1, deps=[])
    found: list[str] = []
    page = ws("entry.list", limit=7)
    while True:
        assert len(page["entries"]) <= 7
        found += keys_of(page)
        if page.get("after") is None:
            break
        page = ws("entry.list", limit=7, after=page["after"])
    assert found == names
    assert keys_of(ws("entry.list", prefix="a")) == [name for name in names if name.startswith("a")]
    assert keys_of(ws("entry.list", prefix="é1")) == [name for name in names if name.startswith("é1")]
    assert keys_of(ws("entry.list", prefix="zz")) == []
    assert keys_of(Workspace.fresh(ws.daemon)("entry.list")) == []


def test_keys_that_look_alike_are_different_keys(ws: Workspace) -> None:
    long = "k" * 1000
    names = ["a", "a\0", "a\0b", "\0", "\0\0", "a/b", "a//b", " ", "a ", "é", "e\u0301", "\uffff", "\U0001f600"]
    names += [
        long,
        *(long + letter for letter in "abc"),
        long + "a" * 24,
        long + "a" * 23 + "b",
        "k" * 510,
        "k" * 511,
        "k" * 512,
    ]
    for number, name in enumerate(names):
        ws("entry.put", key=name, value=number, deps=[])
    for number, name in enumerate(names):
        assert ws("entry.get", key=name)["value"] == number
    ordered = keys_of(ws("entry.list"))
    assert sorted(ordered) == sorted(names)
    found: list[str] = []
    after: dict[str, Json] = {}
    while len(found) <= len(names):
        page = ws("entry.list", limit=1, **after)
        found += keys_of(page)
        if page.get("after") is None:
            break
        after = {"after": page["after"]}
    assert found == ordered
    for prefix in ("a", "a\0", "k", "k" * 511, long, long + "a", "e"):
        assert keys_of(ws("entry.list", prefix=prefix)) == [name for name in ordered if name.startswith(prefix)]
    ws("entry.forget", key=long + "a")
    assert keys_of(ws("entry.list")) == [name for name in ordered if name != long + "a"]


def test_scopes_and_objects_that_look_alike_are_different(ws: Workspace) -> None:
    long = ws.tag + "s" * 900
    scopes = [ws.tag + "a", ws.tag + "a\0", ws.tag + "a\0k", long, long + "a", long + "b"]
    put = []
    for number, scope in enumerate(scopes):
        try:
            ws("entry.put", key="k", value=number, deps=[], scope=scope)
        except RpcError as error:
            assert error.code in {"limit", "params", "-32602"}  # noqa: PT017 - a scope may be too long or odd
        else:
            put.append((number, scope))
    assert len(put) >= 1
    assert [ws("entry.get", key="k", scope=scope)["value"] for _, scope in put] == [number for number, _ in put]
    clock = ws.clock()
    objects = [ws.object("o" * 1000 + tail) for tail in ("", "a", "b")] + [ws.object("o" * 520), ws.object("o" * 521)]
    for number, name in enumerate(objects):
        ws("entry.put", key=f"o{number}", value=1, deps=[name], fetched_at=clock)
    ws("action.record", writes=[objects[1]])
    assert [ws.verdict(f"o{number}") for number in range(5)] == ["fresh", "dirty", "fresh", "fresh", "fresh"]


def test_paths_that_share_a_long_beginning_are_different(ws: Workspace) -> None:
    deep = "/".join(["d" * 200] * 4)
    for name in ("a", "b"):
        ws.write(f"{deep}/{name}", "one")
        ws.put(name, f"file:{deep}/{name}", fetched_at=ws.clock())
    assert keys_of(ws("entry.list", touching=f"{deep}/a")) == ["a"]
    assert ws("action.record", writes=[f"file:{deep}/b"])["affects"]["keys"] == ["b"]
    assert ws("action.record", writes=[f"tree:{'d' * 200}"])["affects"]["count"] == 2
    ws.write(f"{deep}/a", "two")
    assert [ws.verdict(name) for name in "ab"] == ["dirty", "fresh"]


def test_a_list_keeps_to_a_verdict_or_a_standing(ws: Workspace) -> None:
    for name in ("a", "b", "c", "d"):
        ws.write(name, "one")
        ws.put(name, f"file:{name}")
    ws("entry.put", key="u", value=1)
    ws.write("b", "two")
    ws.write("d", "two")
    assert keys_of(ws("entry.list", verdict="dirty")) == ["b", "d"]
    assert keys_of(ws("entry.list", verdict="fresh")) == ["a", "c"]
    assert keys_of(ws("entry.list", verdict="unknown")) == ["u"]
    assert keys_of(ws("entry.list", verdict="dirty", prefix="d")) == ["d"]
    assert keys_of(ws("entry.list", standing="active")) == ["a", "b", "c", "d", "u"]
    first = ws("entry.list", verdict="fresh", limit=1)
    assert keys_of(first) == ["a"]
    assert keys_of(ws("entry.list", verdict="fresh", limit=5, after=first["after"])) == ["c"]


def test_a_list_of_what_a_path_touches(ws: Workspace) -> None:
    sh(ws, "mkdir -p src/sub other; echo > src/a.py; echo > src/sub/b.py; ln -s src linked")
    for key, dep in {
        "file": "file:src/a.py",
        "through link": "file:linked/a.py",
        "directory": "dir:src",
        "pattern": "glob:src/*.py",
        "deep pattern": "names:src/**/*.py",
        "tree": "tree:src",
        "whole": "tree:.",
        "other": "tree:other",
        "other file": "file:src/sub/b.py",
    }.items():
        ws.put(key, dep)
    everything = {"file", "through link", "directory", "pattern", "deep pattern", "tree", "whole"}
    assert set(keys_of(ws("entry.list", touching="src/a.py"))) == everything
    assert set(keys_of(ws("entry.list", touching=f"{ws.root}/src/a.py"))) == everything
    assert set(keys_of(ws("entry.list", touching="src/sub/b.py"))) == {"deep pattern", "tree", "whole", "other file"}
    assert set(keys_of(ws("entry.list", touching="elsewhere"))) == {"whole"}


def test_what_a_pattern_cannot_match_does_not_touch_it(ws: Workspace) -> None:
    sh(ws, "mkdir -p src/sub; echo > src/x.txt; ln -s x.txt src/file; ln -s sub src/directory")
    for key, dep in {"flat": "glob:src/*.py", "deep": "glob:src/**/*.py", "names": "names:src/**/*.py"}.items():
        ws.put(key, dep)
    ws.put("linked", "glob:src/*/*.py")
    for path, touched in {
        "src/x.txt": set(),
        "src/file": set(),
        "src/sub/a.py": {"deep", "names", "linked"},
        "src/sub": {"deep", "names", "linked"},
        "src/directory": {"deep", "names", "linked"},
        "src/nothing/yet": {"deep", "names"},
        "src": {"flat", "deep", "names", "linked"},
        "": {"flat", "deep", "names", "linked"},
    }.items():
        assert set(keys_of(ws("entry.list", touching=f"{ws.root}/{path}"))) == touched, path
        assert set(ws("action.record", writes=[f"file:{ws.root}/{path}"])["affects"]["keys"]) == touched, path


def test_forgetting_takes_the_entry_and_everything_that_rests_on_it_knows(ws: Workspace) -> None:
    version = ws("entry.put", key="k", value=1, deps=[])["version"]
    ws("entry.put", key="on", value=1, deps=["entry:k"], fetched_at=ws.clock())
    assert ws("entry.forget", key="k")["gone"]
    assert ws.found("k") == ("unknown", "no-entry")
    assert "value" not in ws("entry.get", key="k", even_if=["unknown"])
    assert keys_of(ws("entry.list")) == ["on"]
    assert ws.found("on") == ("dirty", "entry-missing")
    try:
        assert not ws("entry.forget", key="k")["gone"]
    except RpcError as error:
        assert error.code == "entry.missing"  # noqa: PT017 - SPEC leaves both open
    assert ws("entry.put", key="k", value=1, deps=[])["version"] > version
    assert ws.verdict("on") == "dirty"


# ---- many at once


def test_pipelined_requests_see_every_request_answered_before_they_were_sent(ws: Workspace) -> None:
    ws.write("f", "0")
    numbers = []
    for number in range(50):
        ws("entry.put", key="k", value=number, deps=[])
        numbers.append((number, ws.rpc.send("entry.get", key="k", root=ws.root)))
    seen = [ws.rpc.result(request)["value"] for _, request in numbers]
    assert all(value >= number for value, (number, _) in zip(seen, numbers, strict=True))


def test_many_clients_at_once_get_their_own_answers(ws: Workspace) -> None:
    ws.write("f", "one")
    wrong: list[str] = []

    def client(name: str) -> None:
        mine = Workspace(ws.daemon, ws.root, ws.tag)
        rpc = ws.daemon.connect()
        for number in range(30):
            put = rpc(
                "entry.put", **mine.fill("entry.put", {"key": name, "value": number, "deps": [mine.dep("file:f")]})
            )
            got = rpc("entry.get", key=name, root=ws.root)
            if (got["value"], got["version"], got["verdict"]) != (number, put["version"], "fresh"):
                wrong.append(json.dumps(got))

    threads = [threading.Thread(target=client, args=(f"client-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_daemon_that_was_down_still_tells_paths_by_their_digests(own: Workspace) -> None:
    own.write("f", "one")
    own.write("g", "one")
    own.put("f", "file:f", "dir:.")
    own.put("g", "file:g")
    own.daemon.stop()
    own.write("g", "two")
    own.daemon.start()
    assert own.found("f")[0] == "fresh"
    assert own.found("g") == ("dirty", "changed")
    own.daemon.kill9()
    own.write("g", "one")
    own.daemon.start()
    assert own.verdict("g") == "fresh"
