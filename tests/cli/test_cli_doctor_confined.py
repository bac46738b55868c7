"""doctor beside a real daemon whose limits and mounts are the test's own: namespaces, as far as they may be made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from real_doctor import doctor, home, news
from support import HANG, Daemon, clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["home"]


class Confined(Daemon):
    """A daemon in namespaces of its own, in which `setup` is run first; doctor enters the same ones."""

    flags = "-Urm"
    setup = ":"

    def command(self) -> list[str]:
        return ["unshare", self.flags, "sh", "-c", f'{self.setup} && exec "$@"', "sh", *super().command()]

    def enter(self) -> list[str]:
        assert self.process is not None
        return ["nsenter", "--target", str(self.process.pid), "--user", "--mount", "--preserve-credentials"]


@pytest.fixture
def confined() -> Iterator[Confined]:
    probe = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /mnt && echo 50 >/proc/sys/user/max_inotify_watches"]
    if shutil.which("nsenter") is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespace with mounts and limits of its own may be made here")
    daemon = Confined()
    try:
        yield daemon
        assert daemon.alive, daemon.said()
    finally:
        daemon.close()


def _until_scanned(daemon: Confined) -> None:
    """Asks inside until no root is being scanned any more."""
    deadline = time.monotonic() + HANG
    command = [*daemon.enter(), sys.executable, "-m", "provd", "watch", "ls", "--json", "--socket", daemon.socket]
    while True:
        done = subprocess.run(
            command, env=clean_environment(daemon.home), capture_output=True, check=True, timeout=HANG
        )
        if all(root["state"] != "scanning" for root in json.loads(done.stdout)["roots"]):
            return
        assert time.monotonic() < deadline


def test_with_too_few_watches_the_fix_names_the_limit_that_binds(confined: Confined) -> None:
    for number in range(200):
        os.makedirs(os.path.join(confined.root, f"d{number:03}"))
    confined.setup = "echo 50 >/proc/sys/user/max_inotify_watches"
    confined.start()
    _until_scanned(confined)

    found = news(confined, prefix=confined.enter())
    status = subprocess.run(
        [*confined.enter(), sys.executable, "-m", "provd", "status", "--socket", confined.socket],
        env=clean_environment(confined.home),
        capture_output=True,
        check=True,
        timeout=HANG,
    ).stdout.decode()

    assert set(found) == {"root.uncovered"}
    assert "are not watched" in found["root.uncovered"]["what"]
    fix = "sysctl user.max_inotify_watches=524288  # as root of the daemon's user namespace"
    assert found["root.uncovered"]["next"] == fix
    assert f"next: {fix}" in status


def test_with_almost_all_watches_used(confined: Confined) -> None:
    for number in range(46):
        os.makedirs(os.path.join(confined.root, f"d{number:03}"))
    confined.setup = "echo 55 >/proc/sys/user/max_inotify_watches"
    confined.start()
    _until_scanned(confined)

    found = doctor(confined, prefix=confined.enter())["limits.watches"]

    assert "of at most 55 watches are used" in found["what"]
    assert found["next"] == "sysctl user.max_inotify_watches=524288  # as root of the daemon's user namespace"


@pytest.mark.parametrize("there", [True, False])
def test_a_state_directory_on_what_is_mounted_to_be_read_only(home: Daemon, there: bool) -> None:
    target = home.state if there else os.path.join(home.home, "mounted")
    os.mkdir(target, 0o700)
    mount = ["unshare", "-Urm", "sh", "-c", f'mount -t tmpfs -o ro,mode=700 none {target} && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespace with mounts of its own may be made here")
    home.state = os.path.join(target, "deep", "state") if not there else target

    found = news(home, prefix=mount)

    assert set(found) == {"socket.absent", "state.readonly"}
    assert "is read-only" in found["state.readonly"]["what"]
    assert found["state.readonly"]["next"].startswith(f"findmnt -T {target}")


def test_a_state_directory_on_a_small_disk(confined: Confined) -> None:
    os.mkdir(confined.state, 0o700)
    confined.setup = f"mount -t tmpfs -o size=100m,mode=700 none {confined.state}"
    confined.start()
    _until_scanned(confined)

    found = doctor(confined, prefix=confined.enter())["state.full"]

    assert (found["level"], f"the disk of {confined.state} is nearly full") == ("warn", found["what"])
