"""A client believes nobody but a daemon of its own user, or of root."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest
from sealing_help import may_mount
from support import HANG, REPOSITORY

from provd import farend, fastwire, reach

if TYPE_CHECKING:
    from pathlib import Path

MINE, THEIRS = 65533, 65534
LISTENING = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
listening.listen()  # from here on the kernel tells this user
print("listens", flush=True)
sys.stdin.read()
"""
ASKING = """
import os, sys
from provd import fastwire, places, reach
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
try:
    fastwire.Connection(sys.argv[1], 5)
    print("believed")
except fastwire.NotUnderstood:
    print("not understood")
try:
    reach.connect(sys.argv[1], 5)
    print("believed")
except reach.ProvdUnreachable as error:
    print(error.kind, error.message)
"""


@pytest.mark.parametrize(
    ("mine", "theirs", "doubted"),
    [(7, 7, None), (7, 0, None), (0, 7, 7), (0, 0, None), (7, 8, 8), (7, 65534, 65534)],
)
def test_who_listens_is_believed_where_he_is_this_user_or_root(
    monkeypatch: pytest.MonkeyPatch, mine: int, theirs: int, doubted: int | None
) -> None:
    monkeypatch.setattr(farend, "who", lambda _: (1, theirs))
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    ours, other = socket.socketpair()
    with ours, other:
        assert farend.doubtful(ours, "/dev/null") == doubted


@pytest.mark.parametrize(
    ("mine", "theirs", "doubted"),
    [(0, 0, None), (0, 65534, 65534), (0, 7, 7), (65534, 65534, 65534), (65534, 0, None), (7, 7, None)],
)
def test_in_a_namespace_of_users_root_is_no_more_than_its_user_and_one_number_stands_for_many(
    monkeypatch: pytest.MonkeyPatch, mine: int, theirs: int, doubted: int | None
) -> None:
    """As in a container without root. Broken: whoever bound the socket first is believed there."""
    monkeypatch.setattr(farend, "who", lambda _: (1, theirs))
    monkeypatch.setattr(farend, "is_outermost", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    ours, other = socket.socketpair()
    with ours, other:
        assert farend.doubtful(ours, "/dev/null") == doubted
        assert farend.is_another(theirs) == (doubted is not None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
@pytest.mark.parametrize(
    ("owner", "mode", "above", "doubted"),
    [
        (THEIRS, 0o700, 0o755, None),
        (0, 0o755, 0o755, None),
        (MINE, 0o755, 0o755, THEIRS),
        (THEIRS, 0o1777, 0o755, THEIRS),
        (0, 0o1777, 0o755, THEIRS),
        (THEIRS, 0o700, 0o1777, THEIRS),  # he may have made it
    ],
)
def test_root_believes_a_user_only_in_a_place_of_his_own(
    monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, above: int, doubted: int | None
) -> None:
    """Broken: whoever bound a socket in /tmp first tells root that all is fresh, and is told its values."""
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/var") as top:
        place = os.path.join(top, "p")
        os.mkdir(place)
        os.chown(place, owner, -1)
        os.chmod(place, mode)
        os.chmod(top, above)
        monkeypatch.setattr(farend, "who", lambda _: (1, THEIRS))
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as asking:
            listening.bind(os.path.join(place, "s"))
            listening.listen()
            asking.connect(os.path.join(place, "s"))
            assert farend.doubtful(asking, os.path.join(place, "s")) == doubted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
@pytest.mark.parametrize("how", ["moved", "linked", "below a link"])
def test_what_a_user_bound_in_his_own_place_is_not_his_elsewhere(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Broken: a socket that is moved to /tmp is known by the name at which it was bound."""
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/var") as top:
        os.chmod(top, 0o755)
        own, shared = os.path.join(top, "own"), os.path.join(top, "shared")
        for place, owner, mode in ((own, THEIRS, 0o755), (shared, 0, 0o1777)):
            os.mkdir(place)
            os.chown(place, owner, -1)
            os.chmod(place, mode)
        monkeypatch.setattr(farend, "who", lambda _: (1, THEIRS))
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as asking:
            listening.bind(os.path.join(own, "s"))
            listening.listen()
            path = os.path.join(shared, "s")
            if how == "moved":
                os.rename(os.path.join(own, "s"), path)
            elif how == "linked":
                os.symlink(os.path.join(own, "s"), path)
            else:
                os.symlink(own, os.path.join(shared, "d"))
                path = os.path.join(shared, "d", "s")
            asking.connect(path)
            assert farend.doubtful(asking, path) == THEIRS


@pytest.mark.skipif(not may_mount(), reason="no namespace may be made here")
def test_the_kernel_tells_of_a_namespace_of_users() -> None:
    told = "from provd import farend; print(farend.is_outermost())"
    for words, outermost in (([], "True"), (["unshare", "--user", "--map-root-user"], "False")):
        done = subprocess.run(
            [*words, sys.executable, "-c", told],
            env={**os.environ, "PYTHONPATH": REPOSITORY},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == outermost


def test_the_kernel_tells_who_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert farend.who(ours) == (os.getpid() if hasattr(socket, "SO_PEERCRED") else 0, os.geteuid())


def test_nothing_is_asked_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        monkeypatch.setattr(farend, "doubtful", lambda *_: THEIRS)
        with pytest.raises(reach.ProvdUnreachable, match=f"user {THEIRS}.* not believed") as refused:
            reach.connect(path, 5)
        assert refused.value.kind == "stranger"
        with pytest.raises(fastwire.NotUnderstood):
            fastwire.Connection(path, 5)
        for _ in range(2):
            said, _ = listening.accept()
            with said:
                assert said.recv(100) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two other users")
@pytest.mark.parametrize("listens", [MINE, THEIRS, 0])
def test_as_other_users(tmp_path: Path, listens: int) -> None:
    for place in (tmp_path, *tmp_path.parents):
        if not os.stat(place).st_mode & 0o001:
            os.chmod(place, 0o711)
    path = str(tmp_path / "s")
    with subprocess.Popen(
        [sys.executable, "-c", LISTENING, path, str(listens)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "listens\n"
        asked = subprocess.run(
            [sys.executable, "-c", ASKING, path, str(MINE)],
            env={**os.environ, "PYTHONPATH": REPOSITORY},
            capture_output=True,
            text=True,
            timeout=HANG,
            check=True,
        )
        other.communicate("")
    first, second = asked.stdout.splitlines()
    if listens == THEIRS:
        assert first == "not understood"
        assert second.startswith(f"stranger who listens at {path} is user {THEIRS}, and this is user {MINE}")
    else:
        assert (first, second) == ("believed", "believed")


def test_where_nobody_can_say_it_is_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc is not mounted, or no descriptor is left."""

    def refused(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", refused)
    for system, outermost in (("linux", False), ("darwin", True)):
        monkeypatch.setattr(sys, "platform", system)
        assert farend.is_outermost() is outermost
