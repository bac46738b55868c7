"""A file system below a root stops answering: the daemon and its log go on (SPEC 12), in a namespace of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from changes import until
from hung_mount import Hung
from support import HANG, Daemon, Rpc, clean_environment, records_since

_TRY = "import hung_mount, sys; hung_mount.Hung(sys.argv[1])"
_HERE = os.path.dirname(__file__)
_PATHS = [_HERE, os.path.dirname(_HERE), *sys.path]
_ENV = os.environ | {"PYTHONPATH": os.pathsep.join(_PATHS)}


def told(rpc: Rpc, start: str, path: str) -> None:
    """Waits until the log tells of a path."""
    deadline = time.monotonic() + HANG
    while not any(record.get("path") == path for record in records_since(rpc, start)):
        assert time.monotonic() < deadline, f"nothing of {path}"


def works(daemon: Daemon, name: str) -> None:
    """A change is told, and whoever asks is answered."""
    start = daemon.rpc("log.clock")["clock"]
    path = os.path.join(daemon.root, name)
    with open(path, "w", encoding="ascii"):
        pass
    told(daemon.connect(), start, path)


def a_root_is_added(daemon: Daemon, hung: Hung) -> None:
    starts_though_it_hangs(daemon, hung)
    works(daemon, "sub/new")


def a_daemon_starts_with_it(daemon: Daemon, hung: Hung) -> None:
    daemon.start()
    works(daemon, "new")
    daemon.kill9()  # while it still can be: a call on what hangs outlives the kill
    hung.hangs = True
    daemon.roots = []
    daemon.start()  # the root is in the store
    works(daemon, "again")


def the_directory_that_holds_it_is_renamed(daemon: Daemon, hung: Hung) -> None:
    daemon.start().scanned()
    works(daemon, "sub/new")
    hung.hangs = True
    os.rename(f"{daemon.root}/sub", f"{daemon.root}/other")
    works(daemon, "other/new")
    works(daemon, "new")
    os.rename(f"{daemon.root}/other", f"{daemon.root}/third")
    works(daemon, "third/newer")


def it_is_well_and_nothing_is_told_of_it(daemon: Daemon, hung: Hung) -> None:
    daemon.start().scanned()
    start = daemon.rpc("log.clock")["clock"]
    for name in ("one", "two"):
        daemon.kill9()
        daemon.start().scanned()  # a scan of what was known
        works(daemon, name)
    assert not [r for r in records_since(daemon.connect(), start) if r.get("path", "").startswith(daemon.root + "/sub")]
    assert not hung.hangs


def starts_though_it_hangs(daemon: Daemon, hung: Hung) -> None:
    """A daemon that is started without a root, is given one above the mount, and works."""
    hung.hangs = True
    daemon.roots = []
    daemon.start()
    daemon.rpc("root.add", path=daemon.root)
    works(daemon, "new")


def a_stop_goes_on_without_the_old_process(daemon: Daemon, hung: Hung) -> None:
    starts_though_it_hangs(daemon, hung)
    daemon.disconnect()
    words = ["--socket", daemon.socket, "--timeout", str(HANG)]  # that it keeps its state elsewhere is not told
    done = subprocess.run(
        [sys.executable, "-m", "provd", "stop", *words],
        env=clean_environment(daemon.home),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("stopped\n")
    assert "its state is free" in done.stderr
    with open(os.path.join(daemon.state, "lock"), encoding="utf-8") as lock:
        assert lock.read() == ""


def an_audit_looks_beside_it_and_says_so(daemon: Daemon, hung: Hung) -> None:
    daemon.start().scanned()
    works(daemon, "sub/beside")
    hung.hangs = True
    told = daemon.rpc("daemon.audit")
    assert told["files"] == 1
    assert told["mismatches"] == []
    assert told["skipped"]["count"] == 1
    assert told["skipped"]["places"][0]["path"] == f"{daemon.root}/sub/hung"


def a_start_on_it_is_refused(daemon: Daemon, hung: Hung) -> None:
    hung.hangs = True
    daemon.roots = [f"{daemon.root}/sub/hung"]
    daemon.launch()
    until(lambda: "does not answer within" in daemon.said(), daemon.home)  # its process may last as long as the call


def a_restart_goes_on_without_the_old_process(daemon: Daemon, hung: Hung) -> None:
    starts_though_it_hangs(daemon, hung)
    daemon.disconnect()
    words = ["--state", daemon.state, "--socket", daemon.socket]
    subprocess.run(
        [sys.executable, "-m", "provd", "restart", *words], env=clean_environment(daemon.home), check=True, cwd="/"
    )
    with open(os.path.join(daemon.state, "lock"), encoding="utf-8") as lock:
        pid = int(lock.readline())
    os.kill(pid, signal.SIGKILL)
    assert daemon.process is not None
    assert pid != daemon.process.pid


CASES = [name for name in list(globals()) if name.startswith(("a_", "an_", "the_dir", "it_"))]


def run(case: str, home: str) -> None:
    """One case, in a namespace of its own."""
    os.makedirs(f"{home}/root/sub/hung")
    hung = Hung(f"{home}/root/sub/hung")
    daemon = Daemon(home=home)
    try:
        globals()[case](daemon, hung)
    finally:
        if daemon.process is not None:
            daemon.process.kill()  # it may not end before this process does, which answers no call on the mount
        os._exit(0 if sys.exc_info()[0] is None else _shown())


def _shown() -> int:
    import traceback  # only where it failed

    traceback.print_exc()
    sys.stderr.flush()
    return 1


@pytest.mark.parametrize("case", CASES)
def test_a_hung_mount_below_a_root(case: str, tmp_path: os.PathLike[str]) -> None:
    os.mkdir(os.path.join(tmp_path, "try"))
    may = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", _TRY, os.path.join(tmp_path, "try")],
        env=_ENV,
        capture_output=True,
        check=False,
    )
    if may.returncode != 0:
        pytest.skip("no FUSE in a namespace of our own here")
    home = os.path.realpath(tmp_path)
    program = f"import sys, test_hung_mount_below as t; t.run({case!r}, sys.argv[1])"
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", program, home], env=_ENV, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
