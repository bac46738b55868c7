"""A dependency that is named on a mount which hangs: a command goes on without looking at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hung_mount import Hung
from support import HANG, clean_environment

from provd import reach
from provd.cli.given import looking
from provd.cli.processes import process
from provd.client import ProvdUnreachable

_HERE = os.path.dirname(__file__)
_ENV = os.environ | {"PYTHONPATH": os.pathsep.join([_HERE, os.path.dirname(_HERE), *sys.path])}
_TRY = "import hung_mount, sys; hung_mount.Hung(sys.argv[1])"
_COMMANDS = [
    ["put", "k", "--as-of-now", "--dep", "tree:hung/d", "--dep", "dir:hung/e", "--dep", "hung/*.py"],
    ["put", "k", "--as-of-now", "--dep", "hung/d/../f", "--dep", "hung/e/../f"],
    ["check", "--fetched-at", "c:1", "--dep", "tree:hung", "--dep", "glob:hung/d/*"],
]
_LOOKS = [
    "permissions.closed([hung]) == []",
    "permissions.opening([hung]).startswith('chmod u+rX ')",
    "looking.real_path(hung) == hung",
    "not looking.is_directory(hung)",
    "serving.directories([os.fsdecode(hung)]) == (hung,)",
    "present.absence('file:' + os.fsdecode(hung)) == 'does not exist'",
    "not serving.keeps(types.SimpleNamespace(call=lambda _: {'state': '/s'}), os.fsdecode(hung))",
]
"""What answers and refusals are put into words with, each by a process of its own: it looks once."""
_LOOK = """
import os, sys, types
from provd.cli.given import looking, present
from provd.cli.processes import serving
from provd.cli.words import permissions
hung = os.fsencode(sys.argv[1])
sys.exit(0 if {look} else 9)
"""
_DOCTOR = """
import sys
from provd.cli import main
from provd.cli.commands.doctor import facts
facts.PATIENCE = 0.3
sys.exit(main(["doctor", "--json"]))
"""
_HELD = "import os, sys, threading; threading.Thread(target=os.stat, args=sys.argv[1:]).start()"
"""A process that the mount holds by a thread: the system tells of the first one that it has ended."""


def run(home: str) -> None:
    """The commands, in a namespace of their own."""
    os.mkdir(f"{home}/hung")
    hung = Hung(f"{home}/hung")
    hung.hangs = True
    code, environment = 0, clean_environment(home, {"PROVD_SOCKET": f"{home}/nobody"})
    asked = [([sys.executable, "-m", "provd", *command], 3) for command in _COMMANDS]
    asked += [([sys.executable, "-c", _LOOK.format(look=look), f"{home}/hung/f2"], 0) for look in _LOOKS]
    for words, wanted in asked:
        with open(f"{home}/said", "w+b") as said:  # no pipe: whoever is left behind would hold it
            done = subprocess.run(words, cwd=home, env=environment, check=False, timeout=HANG, stdout=said, stderr=said)
            said.seek(0)
            told = said.read()
            if done.returncode != wanted or b"Traceback" in told:
                os.write(2, b"%a %d: %b" % (words, done.returncode, told))
                code = 1
    found = _doctor(home, environment | {"PROVD_STATE_DIR": f"{home}/hung/d", "PROVD_SOCKET": ""})
    if [found.get(code) for code in ("socket.hung", "state.unseen")] != ["mount  #"] * 2:
        os.write(2, f"doctor {found}".encode())
        code = 4
    found = _doctor(home, environment | {"XDG_STATE_HOME": f"{home}/hung", "XDG_RUNTIME_DIR": home})
    if not {"socket.hung", "state.unseen"} <= found.keys() or "config" in found:
        os.write(2, f"doctor with its socket elsewhere {found}".encode())
        code = 4
    seen = looking.look([os.fsencode(home), f"{home}/hung/x".encode(), b"/"])
    if list(seen) != [os.fsencode(home)] or looking.look([b"/"]):
        code = 2
    os._exit(code if _killed_is_told(f"{home}/held") else 3)


def _doctor(home: str, environment: dict[str, str]) -> dict[str, str]:
    """What doctor finds, with how the next step begins; it comes to its end."""
    with open(f"{home}/said", "w+b") as said:
        words = [sys.executable, "-c", _DOCTOR]
        subprocess.run(words, cwd=home, env=environment, check=False, timeout=HANG, stdout=said, stderr=said)
        said.seek(0)
        found = json.loads(said.read())["findings"]
    return {each["code"]: each["next"][:8] for each in found}


def _killed_is_told(mount: str) -> bool:
    """Whether a process that was killed and that a mount holds is known as such, with no signal as the next step."""
    os.mkdir(mount)
    hung = Hung(mount)  # of its own: lookups in one directory wait for each other
    hung.hangs = True
    held = subprocess.Popen([sys.executable, "-c", _HELD, f"{mount}/x"])
    hung.unanswered.get(timeout=HANG)
    before = reach.is_killed(held.pid)
    held.kill()
    told = process.hung(ProvdUnreachable("silent", "", "silent"), held.pid).hint
    return not before and "is killed already" in told and "kill -9" not in told


def test_a_hung_mount_is_not_waited_for(tmp_path: os.PathLike[str]) -> None:
    home = os.path.realpath(tmp_path)
    os.mkdir(f"{home}/try")
    mounting = ["unshare", "-Urm", sys.executable, "-c"]
    may = subprocess.run([*mounting, _TRY, f"{home}/try"], env=_ENV, capture_output=True, check=False)
    if may.returncode != 0:
        pytest.skip("no FUSE in a namespace of our own here")
    program = "import sys, test_cli_hung_mount as t; t.run(sys.argv[1])"
    with open(f"{home}/log", "w+b") as log:
        done = subprocess.run([*mounting, program, home], env=_ENV, stderr=log, check=False, timeout=HANG)
        log.seek(0)
        assert done.returncode == 0, log.read().decode()


def test_what_is_seen_of_names(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("d")
    os.symlink("d", "link")
    os.symlink("none", "dangling")
    seen = looking.look([b"d", b"link", b"dangling", b"none", b"d/none/x", b"a\0b", b"d"])
    assert list(seen) == [b"d", b"link", b"dangling", b"none", b"d/none/x"]
    assert [each.is_link for each in seen.values()] == [False, True, True, False, False]
    assert [each.end is None for each in seen.values()] == [False, False, True, True, True]
    assert [each.name is None for each in seen.values()] == [False, False, False, True, True]
