"""The incident that provd exists for, told as the paper tells it.

At turn 40 an agent stores `FileSummary("config.py")`. For 340 turns the file is edited in ways that caches do not
watch. At every turn the summary and an entry derived from it are asked for, and the one rule that decides is:
the bytes that a reader gets now are, or are not, those that the summary was made from.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from support import HANG, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST, LAST = 41, 380
SUMMARY: Final = 'FileSummary("config.py")'
DERIVED: Final = "is `os` available in config.py?"
BY_LINK: Final = 'FileSummary("pkg/config.py")'

ORIGINAL: Final = b"import os\nimport sys\n\n" + b"".join(b"OPTION_%d = '%d'\n" % (n, n) for n in range(809))


class Project:
    """A working tree with `config.py`, a hard link and a symlinked directory outside, and `pkg` -> a directory."""

    def __init__(self, ws: Workspace, rng: random.Random) -> None:
        self.ws = ws
        self.rng = rng
        self.root = os.fsencode(ws.root)
        self.outside = os.fsencode(ws.daemon.outside)
        self.config = ws.write("config.py", ORIGINAL)
        ws.write("other/config.py", ORIGINAL)
        os.symlink(self.root, os.path.join(self.outside, b"tree"))
        os.symlink(b".", ws.path("pkg"))
        self.turn = 0
        self.git("init", "-q", "-b", "original")
        self.git("add", "config.py")
        self.git("commit", "-q", "-m", "original")
        self.git("checkout", "-q", "-b", "changed")
        self.write(self.config, self.edited())
        self.git("commit", "-qam", "changed")
        self.git("checkout", "-q", "original")

    def git(self, *args: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": self.ws.daemon.home, "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
        subprocess.run(["git", *who, *args], cwd=self.root, env=env, check=True, capture_output=True, timeout=HANG)

    def read(self) -> bytes | None:
        return read(self.config)

    @staticmethod
    def write(path: bytes, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def edited(self) -> bytes:
        """Other bytes than the original: longer, or of the same length, or merely formatted otherwise."""
        line = b"OPTION_%d = " % self.rng.randrange(809)
        match self.rng.randrange(3):
            case 0:
                return ORIGINAL + b"# turn %d\n" % self.turn
            case 1:
                return ORIGINAL.replace(line + b"'", line + b'"').replace(b"import os\n", b"import re\n")
            case _:
                return ORIGINAL.replace(b"import os\n", b"import os, re\n")

    def next(self) -> bytes:
        """What the next edit leaves there: at times the original again."""
        return ORIGINAL if self.rng.random() < 0.4 else self.edited()

    # -- the ways of editing

    def atomic_save(self) -> None:
        temporary = self.ws.path(b".config.py.swp")
        self.write(temporary, self.next())
        os.replace(temporary, self.config)

    def save_with_backup(self) -> None:
        content = self.next()
        os.replace(self.config, self.ws.path(b"config.py~"))
        self.write(self.config, content)

    def in_place(self) -> None:
        self.write(self.config, self.next())

    def in_place_at_an_offset(self) -> None:
        content = self.read() or ORIGINAL
        at = self.rng.randrange(len(content))
        with open(self.config, "r+b") as file:
            file.seek(at)
            file.write(ORIGINAL[at : at + 1] if self.rng.random() < 0.4 else b"#")

    def append(self) -> None:
        with open(self.config, "ab") as file:
            file.write(b"# turn %d\n" % self.turn)

    def truncate(self) -> None:
        os.truncate(self.config, len(ORIGINAL))

    def hard_link_outside(self) -> None:
        link = os.path.join(self.outside, b"hard%d" % self.turn)
        os.link(self.config, link)
        self.write(link, self.next())

    def symlinked_directory(self) -> None:
        self.write(os.path.join(self.outside, b"tree", b"config.py"), self.next())

    def through_its_own_symlink(self) -> None:
        self.write(self.ws.path("pkg/config.py"), self.next())

    def retarget_the_symlink(self) -> None:
        self.write(self.ws.path("other/config.py"), self.next())
        temporary = self.ws.path(b"pkg.new")
        os.symlink(self.rng.choice([b".", b"other"]), temporary)
        os.replace(temporary, self.ws.path("pkg"))

    def git_checkout(self) -> None:
        self.git("checkout", "-q", "-f", self.rng.choice(["original", "changed"]))

    def git_restore(self) -> None:
        self.git("checkout", "-q", "-f", self.rng.choice(["original", "changed"]), "--", "config.py")

    def formatter(self) -> None:
        content = self.read() or ORIGINAL
        self.write(self.config, re.sub(rb" +\n", b"\n", content.replace(b'"', b"'")))

    def same_size_and_times_kept(self) -> None:
        status = os.stat(self.config)
        content = bytearray(self.read() or ORIGINAL)
        content[7:9] = self.rng.choice([b"os", b"re"])
        with open(self.config, "r+b") as file:
            file.write(content)
        os.utime(self.config, ns=(status.st_atime_ns, status.st_mtime_ns))

    def store_through_a_mapping(self) -> None:
        with open(self.config, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[7:9] = self.rng.choice([b"os", b"re"])

    def delete_and_write_again(self) -> None:
        content = self.next()
        os.unlink(self.config)
        if self.rng.random() < 0.7:
            self.write(self.config, content)

    def nothing_but_metadata(self) -> None:
        os.utime(self.config, (self.turn, self.turn))
        os.chmod(self.config, self.rng.choice([0o600, 0o644]))


EDITS: Final[list[Callable[[Project], None]]] = [
    Project.atomic_save,
    Project.save_with_backup,
    Project.in_place,
    Project.in_place_at_an_offset,
    Project.append,
    Project.truncate,
    Project.hard_link_outside,
    Project.symlinked_directory,
    Project.through_its_own_symlink,
    Project.retarget_the_symlink,
    Project.git_checkout,
    Project.git_restore,
    Project.formatter,
    Project.same_size_and_times_kept,
    Project.store_through_a_mapping,
    Project.delete_and_write_again,
    Project.nothing_but_metadata,
]


def read(path: bytes) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def imports(content: bytes) -> list[str]:
    return [line.split()[1].decode() for line in content.splitlines() if line.startswith(b"import ")]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
@pytest.mark.parametrize("seed", [20261112, 382])
def test_340_turns_of_edits_that_no_cache_watched(own: Workspace, seed: int) -> None:
    rng = random.Random(seed)
    project = Project(own, rng)
    own("action.record", writes=["object:turns"], session="refactoring", turn=39)

    clock = own.clock()
    content = project.read()
    assert content == ORIGINAL
    value = {"lines": content.count(b"\n"), "imports": imports(content)}
    assert value == {"lines": 812, "imports": ["os", "sys"]}
    for key, dep in ((SUMMARY, "file:config.py"), (BY_LINK, "file:pkg/config.py")):
        own("entry.put", key=key, value=value, deps=[own.dep(dep)], fetched_at=clock, session="refactoring", turn=40)
    own("entry.put", key=DERIVED, value=True, deps=[f"entry:{SUMMARY}"], fetched_at=own.clock(), turn=40)
    keys = [SUMMARY, DERIVED, BY_LINK]
    assert all(v["verdict"] == "fresh" for v in own("entry.check", keys=keys)["verdicts"].values())

    edits = [EDITS[turn % len(EDITS)] for turn in range(FIRST, LAST + 1)]
    rng.shuffle(edits)
    seen = {"fresh": 0, "dirty": 0}
    for project.turn, edit in enumerate(edits, FIRST):
        if not os.path.lexists(project.config):
            project.write(project.config, project.next())
        edit(project)
        if rng.random() < 0.3:  # some agents declare what they did; none of it decides
            own("action.record", writes=["file:config.py"], session="refactoring", turn=project.turn)
        now = project.read()
        want = "fresh" if now == ORIGINAL else "dirty"
        by_link = "fresh" if read(own.path("pkg/config.py")) == ORIGINAL else "dirty"
        verdicts = own("entry.check", keys=keys)["verdicts"]
        told = f"turn {project.turn}, {edit.__name__}: {verdicts}"
        assert verdicts[SUMMARY]["verdict"] == want, told
        assert verdicts[DERIVED]["verdict"] == want, told
        assert verdicts[BY_LINK]["verdict"] == by_link, told
        if want == "dirty":
            assert verdicts[SUMMARY]["why"] == ("deleted" if now is None else "changed"), told
            assert verdicts[DERIVED]["why"] == "entry-dirty", told
            assert "value" not in own("entry.get", key=SUMMARY), told
        else:
            assert own("entry.get", key=DERIVED)["value"] is True, told
        seen[want] += 1
    assert len(edits) == 340
    assert min(seen.values()) > 50, f"an oracle that says one thing only proves nothing: {seen}"

    # turn 381: the summary is asked for again, found wanting, and made anew
    project.write(project.config, b"import os\nimport re\n")
    assert own.found(SUMMARY) == ("dirty", "changed")
    assert own("entry.revalidate", key=SUMMARY)["verdict"]["verdict"] == "dirty"
    own.put(SUMMARY, "file:config.py", value={"lines": 2, "imports": ["os", "re"]}, turn=381)
    assert own("entry.get", key=SUMMARY)["value"]["imports"] == ["os", "re"]
    assert own.found(DERIVED) == ("dirty", "entry-replaced")
