"""doctor beside a real daemon: what can be made to happen on a machine is made to happen."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest
from real_doctor import Json, changed, doctor, home, news, set_clock
from support import HANG, Daemon, Workspace, clean_environment

from provd.core.records import ALL, Gap
from provd.store import Store

__all__ = ["home"]


def test_a_daemon_that_is_well(own: Workspace) -> None:
    own.write("a")
    own.put("k", "file:a")
    own.check("k")

    assert news(own.daemon) == {}


def test_before_the_first_start(home: Daemon) -> None:
    assert set(news(home)) == {"socket.absent"}


def test_after_kill_9(own: Workspace) -> None:
    own.daemon.kill9()

    found = news(own.daemon)

    assert set(found) == {"socket.stale"}


def test_a_daemon_that_is_stopped_is_not_waited_for(own: Workspace) -> None:
    process = own.daemon.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    try:
        found = news(own.daemon, "--timeout", "0.2")
    finally:
        process.send_signal(signal.SIGCONT)

    assert set(found) == {"socket.stopped"}
    assert found["socket.stopped"]["next"].startswith(f"kill -CONT {process.pid}  #")


def test_a_socket_that_takes_no_more_connections(home: Daemon) -> None:
    with contextlib.ExitStack() as open_ones:
        listener = open_ones.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(home.socket)
        listener.listen(0)
        for _ in range(1000):
            waiting = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            if waiting.connect_ex(home.socket) != 0:
                break

        found = news(home, "--timeout", "0.2")

    assert set(found) == {"socket.busy"}


def test_in_another_mount_namespace(own: Workspace) -> None:
    prefix = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace may be made here")

    assert set(news(own.daemon, prefix=prefix)) == {"namespace"}


_SOCKET_CALL = {"x86_64": 41, "aarch64": 198}


def _forbid_sockets() -> None:
    """Seccomp, as sandboxes use it: the call that makes sockets fails with EPERM in this process."""

    class Instruction(ctypes.Structure):
        _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(Instruction)))

    call = _SOCKET_CALL[platform.machine()]
    rows = ((0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000))
    program = Program(4, (Instruction * 4)(*(Instruction(*row) for row in rows)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp here")


def test_in_a_sandbox_that_forbids_sockets(own: Workspace) -> None:
    if sys.platform != "linux" or platform.machine() not in _SOCKET_CALL:
        pytest.skip("the number of the system call is not known for this machine")
    try:
        found = news(own.daemon, prepare=_forbid_sockets)
    except subprocess.SubprocessError:
        pytest.skip("this kernel has no seccomp filters")

    assert set(found) == {"socket.sandbox"}
    assert "sandbox" in found["socket.sandbox"]["next"]


def test_by_another_user(own: Workspace) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    os.chmod(own.daemon.home, 0o700)
    nobody: Json = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        subprocess.run(
            [sys.executable, "-c", "import provd.cli"], env=clean_environment("/"), cwd="/", check=True, **nobody
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("another user cannot start this Python, or cannot read this checkout")

    found = news(own.daemon, home="/", **nobody)

    assert {"socket.denied", "state.unseen"} == set(found)


def test_a_daemon_of_another_version(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(home, monkeypatch, "import provd; provd.__version__ = '0.0.9'").start().scanned()

    found = news(home)

    assert set(found) == {"version"}
    assert "the daemon is 0.0.9" in found["version"]["what"]
    assert "upgraded while the daemon ran" in found["version"]["why"]


def test_two_daemons_and_one_that_answers_elsewhere(own: Workspace, home: Daemon) -> None:
    home.start().scanned()
    mixed = ["--socket", home.socket, "--state", own.daemon.state]
    assert own.daemon.process is not None

    both = news(own.daemon, *mixed, named=False)
    elsewhere = news(own.daemon, "--socket", "/nowhere.sock", "--state", own.daemon.state, named=False)

    assert set(both) == {"daemons"}
    assert f"process {own.daemon.process.pid} holds {own.daemon.state}" in both["daemons"]["what"]
    assert set(elsewhere) == {"socket.absent"}
    assert elsewhere["socket.absent"]["next"].startswith(f"export PROVD_SOCKET={own.daemon.socket}  #")


def test_with_few_descriptors(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = home.command()
    monkeypatch.setattr(home, "command", lambda: ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", *usual])
    home.start().scanned()

    found = doctor(home)["descriptors"]

    assert "of at most 300 open files" in found["what"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 300, "only the daemon's own limit is told"


def test_a_root_that_went_and_none_at_all(own: Workspace) -> None:
    os.rename(own.root, own.root + "-away")
    assert set(news(own.daemon)) == {"root.gone"}
    own.rpc("root.remove", path=own.root)

    assert set(news(own.daemon)) == {"roots.none"}


def test_a_polled_root(home: Daemon) -> None:
    home.args = ["--backend", "poll"]
    home.start().scanned()

    found = doctor(home)["root.polled"]

    assert f"{home.root} is polled" in found["what"]
    assert found["why"]


def test_a_store_that_could_not_be_opened(home: Daemon) -> None:
    home.start().scanned()
    home.stop()
    with open(os.path.join(home.state, "store", "data.mdb"), "r+b") as file:
        file.write(b"x" * 8192)

    home.start().scanned()
    with_daemon = news(home)
    home.stop()
    without = news(home)

    assert set(with_daemon) == {"store.aside"}
    assert set(without) == {"store.aside", "socket.absent"}
    path = with_daemon["store.aside"]["next"].removeprefix("rm -r ").partition("  #")[0]
    assert os.path.isdir(path)


def test_a_state_directory_that_others_may_read(own: Workspace) -> None:
    os.chmod(own.daemon.state, 0o750)

    assert set(news(own.daemon)) == {"state.mode"}


def test_a_state_directory_in_a_root_is_left_out_by_the_daemon_itself(own: Workspace) -> None:
    """As where the whole home is watched, and the state is in its default place: nothing has to be done."""
    own.rpc("root.add", path=own.daemon.home)

    assert news(own.daemon) == {}


def test_a_state_directory_that_was_removed(own: Workspace) -> None:
    assert own.daemon.process is not None
    os.rename(own.daemon.state, own.daemon.state + "-away")
    own.daemon.process.wait(HANG)  # whoever comes next may use that place: it ends

    assert set(news(own.daemon)) == {"socket.absent"}
    os.rename(own.daemon.state + "-away", own.daemon.state)
    own.daemon.start()


def test_events_that_were_lost(own: Workspace) -> None:
    try:
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
            most = int(file.read())
    except FileNotFoundError:
        pytest.skip("there is no inotify here")
    if most > 100_000:
        pytest.skip(f"the queue takes {most} events here: too many to make")
    process = own.daemon.process
    assert process is not None
    own.clock()
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    for number in range(most // 2 + 2000):
        with open(own.path(f"f{number}"), "wb"):
            pass
    process.send_signal(signal.SIGCONT)
    own.clock()

    found = news(own.daemon)

    assert set(found) == {"gap"}
    assert "events lost: the kernel's queue overflowed" in found["gap"]["what"]
    raised = max(262_144, 2 * most)
    assert f"sudo sysctl fs.inotify.max_queued_events={raised}" in found["gap"]["next"]


def test_an_action_that_is_open_for_hours(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = set_clock(home, monkeypatch, -7200)
    home.start().scanned()
    with open(sign, "wb"):
        begun = home.rpc("action.begin", writes=["object:deploy"], session="s7")
    os.unlink(sign)

    found = news(home)

    assert set(found) == {"actions.old"}
    what = found["actions.old"]["what"]
    assert what.startswith(f"action {begun['id']} is open since 2 h")
    assert what.endswith(", by session s7: object:deploy")
    home.rpc("action.end", id=begun["id"], outcome="done")
    assert news(home) == {}


def test_a_wall_clock_that_was_set(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = set_clock(home, monkeypatch, 7230)
    home.start().scanned()
    assert news(home) == {}
    with open(sign, "wb"):
        pass

    found = news(home)

    assert set(found) == {"clock.set"}
    assert "the wall clock was set forward by 2 h" in found["clock.set"]["what"]


def test_a_store_that_is_nearly_full(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    smaller = "import lmdb; usual = lmdb.open; lmdb.open = lambda *a, **k: usual(*a, **(k | {'map_size': 1 << 24}))"
    changed(home, monkeypatch, smaller).start().scanned()
    for number in range(7):
        home.rpc("entry.put", key=f"k{number}", value="x" * 2 * 1024**2, deps=[], scope="global")

    found = news(home)

    assert set(found) == {"store.map"}
    assert "of at most 16.0 MiB" in found["store.map"]["what"]
    assert "map_gib = 2" in found["store.map"]["next"]


def test_a_way_to_the_socket_that_goes_round(home: Daemon) -> None:
    loop = os.path.join(home.home, "loop")
    os.symlink(loop, loop)

    found = news(home, "--socket", os.path.join(loop, "s.sock"), "--state", home.state, named=False)

    assert set(found) == {"socket.other"}
    assert "symbolic links" in found["socket.other"]["what"]


def test_records_from_the_future(home: Daemon) -> None:
    os.mkdir(home.state, 0o700)
    store = Store(os.path.join(home.state, "store"), clock=lambda: time.time_ns() + 86_400 * 10**9)
    store.run(lambda writer: writer.append(Gap(writer.now, ALL, "started", "0123456789abcdef")))
    store.stop()
    home.start().scanned()

    found = news(home)

    assert set(found) == {"clock.future"}
    assert "in the future" in found["clock.future"]["what"]


def test_a_configuration_with_which_the_next_start_fails(own: Workspace) -> None:
    directory = os.path.join(own.daemon.home, ".config", "provd")
    os.makedirs(directory)
    with open(os.path.join(directory, "config.toml"), "w", encoding="ascii") as file:
        file.write("[log]\nmax_age_day = 3\n")

    found = news(own.daemon)

    assert set(found) == {"config"}
    assert "max_age_day" in found["config"]["what"]
