"""watch: the watched directories in words, and what of them is not watched."""

from __future__ import annotations

import os
from typing import Any

import pytest
from fake_daemon import HELLO, Cli, Refusal, cli, fake

__all__ = ["cli", "fake"]

_ROOTS = {"roots": [{"path": "/r", "state": "watching", "backend": "inotify", "coverage": "whole"}]}
_FOREIGN = {"daemon.status": {"foreign": True}}
"""A daemon in another place has other real paths, so that what it answers is told as it is."""


def test_watch(cli: Cli) -> None:
    cli.fake.answers |= {"root.add": _ROOTS, "root.remove": {"roots": []}, "root.list": _ROOTS, **_FOREIGN}

    assert cli("watch", "add", "a", "--ignore", "x/", "--no-wait").out == "watching /r: all of it is watched\n"
    assert cli.fake.params_of("root.add") == {"path": f"{cli.here}/a", "ignore": [".git/", "x/"], "wait": False}
    assert cli("watch", "add", b"/\xff", "--json").json == _ROOTS
    assert cli.fake.params_of("root.add") == {"path": {"b64": "L/8="}}
    assert cli("watch", "rm", "/r").err == "no longer watched: /r\n"
    assert cli("watch", "rm", "/r", "--json").json == {"roots": []}
    assert [line.split() for line in cli("watch", "ls").out.splitlines()] == [
        ["ROOT", "STATE", "BACKEND", "COVERAGE", "MEANING"],
        ["/r", "watching", "inotify", "whole", "all", "of", "it", "is", "watched"],
    ]
    assert cli("watch", "ls", "--json").json == _ROOTS
    assert "DIR" in cli("watch", "add", code=2).err


def test_what_is_no_root_is_told_with_the_root_around_it(cli: Cli) -> None:
    refusal = Refusal("root.missing", "/r/d is no root", "provd watch ls shows the roots")
    cli.fake.answers |= {"daemon.hello": HELLO | {"roots": ["/r"]}, "root.remove": refusal}

    inside = cli("watch", "rm", "/r/d", code=5).err
    outside = cli("watch", "rm", "/s", "--json", code=5)

    told = "provd: /r/d is no root, it lies in /r [root.missing]\n  next: provd watch ls  # lists the roots\n"
    assert inside == told, "to stop watching all of it was not meant"
    assert outside.err.endswith("\n  next: provd watch ls  # lists the roots\n")
    assert outside.json["error"]["code"] == "root.missing"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_is_removed_while_it_is_added_is_said(cli: Cli, options: list[str]) -> None:
    cli.fake.answers |= {"root.add": _ROOTS, "daemon.status": {"foreign": False}}

    got = cli("watch", "add", "/s", *options, code=5)

    assert "watching" not in got.out
    assert got.err == (
        "provd: /s was added and is watched no more: another command removed it meanwhile\n  next: provd watch add /s\n"
    )


def test_what_lies_in_another_root_is_said_once(cli: Cli) -> None:
    inner = {"path": "/r/in ner", "state": "watching", "coverage": "whole"}
    cli.fake.answers |= {"daemon.hello": HELLO | {"roots": ["/", "/r"]}}
    cli.fake.answers |= {"root.add": {"roots": [*_ROOTS["roots"], inner]}}

    assert cli("watch", "add", "/r/in ner", "/r/in ner").err == (
        "provd: /r/in ner lies in the watched /r and has keys of its own: in it those of /r are not meant any more\n"
        "  next: provd ls --root /r  # they stay, and --root names them from anywhere\n"
    )
    assert cli("watch", "add", "/r").err == "", "it was watched before"
    assert cli("watch", "add", "/r/in ner", "--json").err == ""


def test_what_is_removed_leaves_its_entries_and_says_so(cli: Cli) -> None:
    cli.fake.answers |= {"root.remove": {"roots": []}, "entry.list": {"entries": [{"key": "k"}]}}

    assert cli("watch", "rm", "/r").err == (
        "no longer watched: /r\n  its entries stay, and are judged by reading\n"
        "  next: provd ls --root /r  # lists them; provd forget KEY --root /r drops one\n"
    )
    assert cli.fake.params_of("entry.list") == {"root": "/r", "limit": 1}


def test_what_lies_in_another_root_is_still_watched(cli: Cli) -> None:
    cli.fake.answers |= {"root.remove": {"roots": [{"path": "/r"}]}, "entry.list": {"entries": []}}

    assert cli("watch", "rm", "/r/inner").err == (
        "no root of its own any more: /r/inner; /r goes on watching it\n  in it the keys of /r are meant now\n"
    )
    assert cli("watch", "rm", "/rest").err == "no longer watched: /rest\n"


def test_the_current_directory_is_named_by_its_own_path(cli: Cli) -> None:
    cli.fake.answers |= {"root.add": _ROOTS, "root.remove": {"roots": []}, **_FOREIGN}

    for dot in (".", "./"):
        assert cli("watch", "rm", dot).err == f"no longer watched: {cli.here}\n"
        cli("watch", "add", dot)
        assert cli.fake.params_of("root.add") == {"path": cli.here}


def test_what_is_removed_is_told_by_its_real_path(cli: Cli) -> None:
    cli.fake.answers |= {"daemon.hello": HELLO | {"roots": [cli.here]}, "root.remove": {"roots": []}}

    assert cli("watch", "rm", f"{cli.here}/../{os.path.basename(cli.here)}/.").err == f"no longer watched: {cli.here}\n"


_HERE = {"path": "/r"}
_POLLED = {"why": "polled every 10 s: silence proves nothing"}
_GONE = "the directory is gone, or another stands in its place"
_ROOT_WORDS: list[tuple[dict[str, Any], str, str]] = [
    ({"state": "gone", "why": "it was replaced"}, "added", "it was replaced"),
    ({"state": "gone"}, "added", _GONE),
    ({"state": "gone", "coverage": "whole"}, "added", _GONE),
    ({"state": "watching", "coverage": "whole", "files": 1234, "directories": 1}, "watching", "all of it is watched"),
    (
        {"state": "degraded", "coverage": "partial"},
        "watching",
        "watched in part: what its silence hides is found by reading",
    ),
    ({"state": "watching", "coverage": "partial", "why": "limit"}, "watching", "watched in part: limit"),
    (
        {"state": "scanning", "backend": "poll", "coverage": "none", "why": ""},
        "added",
        "first scan: until it is done, answers are by reading",
    ),
    ({"state": "degraded", "backend": "inotify", "coverage": "none", "why": "full"}, "added", "not watched: full"),
    ({"state": "degraded", "coverage": "none"}, "added", "not watched: answers are by reading"),
    ({"state": "watching", "coverage": "\x1bnovel"}, "added", "\\x1bnovel"),
]


@pytest.mark.parametrize(("root", "word", "told"), _ROOT_WORDS)
def test_roots_in_words(cli: Cli, root: dict[str, Any], word: str, told: str) -> None:
    here = {"path": f"{cli.here}/a"} | root
    cli.fake.answers |= {"root.add": {"roots": [{"path": "/other"} | root, here]}, "root.list": {"roots": [here]}}

    holds = " (1,234 files in 1 directory)" if "files" in root else ""
    assert cli("watch", "add", "a/../a").out == f"{word} {cli.here}/a: {told}{holds}\n"
    assert cli("watch", "ls").out.splitlines()[1].endswith(f"  {told}")


def test_a_root_that_is_uncovered_itself_is_told_in_its_own_line(cli: Cli) -> None:
    polled = {"state": "watching", "coverage": "partial", "uncovered": [{"path": "/r"} | _POLLED]}
    named = {"state": "watching", "coverage": "partial", "uncovered": ["/r"]} | _POLLED
    cli.fake.answers["root.list"] = {"roots": [_HERE | polled, _HERE | named]}

    rows = cli("watch", "ls").out.splitlines()

    assert len(rows) == 3
    assert all(row.endswith(f"  watched in part: {_POLLED['why']}") for row in rows[1:])


def _uncovered(why: str, count: int, **fields: Any) -> dict[str, Any]:
    places = [{"path": f"/r/{n}", "why": why} for n in range(count)]
    return _HERE | {"state": "degraded", "backend": "inotify", "coverage": "partial", "uncovered": places} | fields


_LIMIT = "watch limit reached: raise fs.inotify.max_user_watches (now 8192)"
_FIXES = [
    (_LIMIT, "sudo sysctl fs.inotify.max_user_watches=524288  # to keep it: a line in /etc/sysctl.d/"),
    (
        "raise fs.inotify.max_user_watches (now 524288)",
        "sudo sysctl fs.inotify.max_user_watches=1048576  # to keep it: a line in /etc/sysctl.d/",
    ),
    (
        "watch limit reached: raise fs.inotify.max_user_watches (now 8192) or user.max_inotify_watches",
        (
            "sudo sysctl fs.inotify.max_user_watches=524288  # to keep it: a line in /etc/sysctl.d/\n"
            "or: sudo sysctl user.max_inotify_watches=524288  # where a user namespace above is what limits it"
        ),
    ),
    (
        "no instance left: fs.inotify.max_user_instances is 128",
        "sudo sysctl fs.inotify.max_user_instances=1024 && provd restart  # to keep it: a line in /etc/sysctl.d/",
    ),
    (
        "the namespace's limit: user.max_inotify_watches",
        "sysctl user.max_inotify_watches=524288  # as root of the daemon's user namespace",
    ),
]


@pytest.mark.parametrize(("why", "fix"), _FIXES)
def test_what_is_not_watched_is_named_with_its_fix(cli: Cli, why: str, fix: str) -> None:
    root = _uncovered(why, 5, uncovered_more=39)
    cli.fake.answers |= {name: {"roots": [root]} for name in ("root.list", "root.add", "daemon.status")}
    expected = [
        *(f"not watched: /r/{n} ({why})" for n in range(3)),
        "and 41 more: provd watch ls --json",
        *f"next: {fix}".split("\n"),
    ]

    assert [line.strip() for line in cli("watch", "ls").out.splitlines()[2:]] == expected
    assert [line.strip() for line in cli("watch", "add", "/r").out.splitlines()[1:]] == expected
    status = [line.strip() for line in cli("status").out.splitlines()]
    at = status.index(expected[0])
    assert status[at : at + len(expected)] == expected


def test_a_reason_without_a_fix_has_none(cli: Cli) -> None:
    cli.fake.answers["root.list"] = {"roots": [_uncovered("another file system is mounted there", 1)]}

    out = cli("watch", "ls").out

    assert "not watched: /r/0 (another file system is mounted there)" in out
    assert "next: " not in out
    assert "more" not in out


def test_directories_that_are_not_watched_one_by_one_are_not_counted(cli: Cli) -> None:
    polled = _HERE | {"state": "watching", "coverage": "partial", "files": 1, "directories": 0}
    gone = {"path": "/g", "state": "gone", "coverage": "none", "files": 1, "directories": 0}
    cli.fake.answers["daemon.status"] = {"roots": [polled, gone]}

    assert [line.split()[1:] for line in cli("status").out.splitlines() if "holds" in line] == [["1", "file"]]


def test_watch_ls_of_nothing(cli: Cli) -> None:
    cli.fake.answers["root.list"] = {"roots": []}

    got = cli("watch", "ls")

    assert (got.out, got.err) == ("", "no roots\n  next: provd watch add .  # or another directory\n")


def test_a_directory_of_the_kernels_is_told_to_be_of_little_use(cli: Cli) -> None:
    why = "proc is a window into the kernel, which changes it without telling"
    root = {"path": cli.here, "state": "watching", "coverage": "partial", "uncovered": [{"path": cli.here, "why": why}]}
    cli.fake.answers["root.add"] = {"roots": [root]}

    told = cli("watch", "add", ".").err

    assert told == (
        f"provd: {cli.here}: the kernel's files and devices are never read, so what rests on one is unknown\n"
        f"  next: provd watch rm {cli.here}  # dir: and names: are answered by reading anyway\n"
    )
