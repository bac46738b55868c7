"""start where the disk of the state directory is full, so that the daemon cannot even log why it ends."""

from __future__ import annotations

import os
import subprocess

import pytest
from starting import Home, home
from support import HANG

__all__ = ["home"]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="no mount namespace may be made here",
)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("size=64k", "the daemon ended with code 5 and could not log why to {0}/s/provd.log: No space left on device"),
        ("size=64k,nr_inodes=2", "the state directory {0}/s cannot be used: No space left on device"),
    ],
)
def test_start_on_a_full_disk_says_that_it_is_full(home: Home, options: str, told: str) -> None:
    place = os.path.join(home.path, "full")
    os.mkdir(place)
    fill = f"mount -t tmpfs -o {options} t {place}; cat /dev/zero > {place}/x; "
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", fill + 'exec "$@"', "sh", *home.command("start", "--state", f"{place}/s")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        env=home.environment(PATH=f"{home.bin}:/usr/bin:/bin:/usr/sbin:/sbin"),
    )
    assert done.returncode == 5
    assert told.format(place) in done.stderr
    assert f"next: provd start --state {place}/s  # when there is space on that disk" in done.stderr
