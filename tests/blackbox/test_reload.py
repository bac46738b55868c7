"""A daemon that reads its configuration again: what it takes at once, what it refuses, and what SIGHUP means to it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from asking import refusal
from changes import until
from support import HANG, Daemon, Json, Rpc, RpcError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Configured(Daemon):
    """A daemon with a configuration file of its own, and no roots beside it."""

    def __init__(self) -> None:
        super().__init__(roots=[])
        self.config = os.path.join(self.home, "config.toml")
        self.env["PROVD_CONFIG"] = self.config
        self.write("")

    def write(self, content: str) -> None:
        """Another content of the file."""
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(content)

    def hang_up(self, word: str) -> str:
        """SIGHUP; gives the line of the log that says `word`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)
        return self.logged(word)

    def logged(self, word: str) -> str:
        """The first whole line of the log that says `word`, as soon as it is there."""

        def lines() -> list[str]:
            whole, _, _ = self.said().rpartition("\n")
            return [line for line in whole.splitlines() if word in line]

        until(lambda: bool(lines()), self.home, self.process)
        return lines()[0]

    def settings(self) -> dict[str, Json]:
        """The values in use."""
        return {name: found["value"] for name, found in self.rpc("daemon.config")["settings"].items()}

    def roots_now(self) -> list[str]:
        """The watched roots."""
        return [root["path"] for root in self.rpc("root.list")["roots"]]

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that asks this daemon."""
        return subprocess.run(
            [sys.executable, "-m", "provd", *arguments],
            env=clean_environment(self.home, {"PROVD_SOCKET": self.socket, **self.env}),
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )


@pytest.fixture
def configured() -> Iterator[Configured]:
    daemon = Configured()
    try:
        yield daemon
    finally:
        daemon.close()


FIRST = '[log]\nmax_records = 5000\n[watch]\npoll_seconds = 60\n[logging]\nformat = "json"\n'
SECOND = (
    'roots = ["{root}"]\n[log]\nmax_records = 1000\nmax_age_days = 3\n[watch]\nbackend = "poll"\npoll_seconds = 0.5\n'
    '[store]\nmap_gib = 3\n[logging]\nlevel = "warning"\nformat = "console"\n'
)


def test_a_reload_takes_what_can_be_taken_and_names_the_rest(configured: Configured) -> None:
    configured.write(FIRST)
    configured.start()
    assert configured.settings()["log.max_records"] == 5000
    configured.write(SECOND.format(root=configured.root))
    told = configured.rpc("daemon.reload")
    assert told == {
        "path": configured.config,
        "changed": ["roots", "log.max_records", "log.max_age_days", "watch.poll_seconds", "logging.level"],
        "restart": ["store.map_gib", "watch.backend", "logging.format"],
    }
    assert configured.roots_now() == [configured.root]
    used = configured.settings()
    assert (used["log.max_records"], used["log.max_age_days"], used["logging.level"]) == (1000, 3, "warning")
    assert (used["store.map_gib"], used["watch.backend"], used["logging.format"]) == (64, "auto", "json")
    again = configured.rpc("daemon.reload")
    assert (again["changed"], again["restart"]) == ([], told["restart"])


def test_sighup_does_the_same(configured: Configured) -> None:
    configured.start()
    configured.write(SECOND.format(root=configured.root))
    assert "store.map_gib" in configured.hang_up("needs a restart")
    assert configured.settings()["log.max_records"] == 1000
    assert configured.roots_now() == [configured.root]


@pytest.mark.parametrize(
    ("content", "word", "code"),
    [
        ("[log]\nmax_records = 1000\nmax_record = 2\n", "did you mean log.max_records?", "params"),
        ("this is no toml", "TOML", "params"),
        (
            '\nroots = ["/nowhere/at/all"]\n[log]\nmax_records = 1000\n',
            "toml:2: roots: /nowhere/at/all",
            "root.missing",
        ),
    ],
)
def test_a_wrong_file_changes_nothing_and_the_daemon_goes_on(
    configured: Configured, content: str, word: str, code: str
) -> None:
    configured.write(FIRST)
    configured.start()
    before = configured.rpc("daemon.config")
    configured.write(content)
    refused = refusal(configured.workspace(), "daemon.reload")
    assert (refused.code, word in refused.message) == (code, True)
    line = json.loads(configured.hang_up("not reloaded"))
    assert line["level"] == "error"
    assert word in line["reason"]
    assert configured.rpc("daemon.config") == before
    assert configured.roots_now() == []
    configured.write("[log]\nmax_records = 1000\n")
    assert configured.rpc("daemon.reload")["changed"] == ["log.max_records", "watch.poll_seconds"]


def test_roots_that_the_file_no_longer_names_stay_and_removed_ones_that_it_names_come_back(
    configured: Configured,
) -> None:
    configured.write(f'roots = ["{configured.root}"]')
    configured.start()
    configured.write(f'roots = ["{configured.outside}"]')
    assert configured.rpc("daemon.reload")["changed"] == ["roots"]
    assert configured.roots_now() == sorted([configured.root, configured.outside])
    configured.rpc("root.remove", path=configured.outside)
    assert configured.roots_now() == [configured.root]
    configured.rpc("daemon.reload")
    assert configured.roots_now() == sorted([configured.root, configured.outside])


def test_a_lower_limit_trims_at_once(configured: Configured) -> None:
    configured.start()
    ws = configured.workspace()
    for number in range(1100):
        ws("entry.put", key=f"k{number}", value=1, deps=[])
    assert configured.rpc("daemon.status")["records"] >= 1100
    configured.write("[log]\nmax_records = 1000")
    configured.rpc("daemon.reload")
    deadline = time.monotonic() + HANG
    while configured.rpc("daemon.status")["records"] > 1000:
        assert time.monotonic() < deadline


def test_the_level_of_the_log_changes_at_once(configured: Configured) -> None:
    configured.write('[logging]\nlevel = "error"')
    configured.start()
    assert configured.said() == ""
    configured.write("")
    assert configured.rpc("daemon.reload")["changed"] == ["logging.level"]
    configured.write("[log]\nmax_records = 1000")
    configured.rpc("daemon.reload")
    assert "max_records" in configured.logged("reloaded")


def test_what_an_option_says_is_kept(configured: Configured) -> None:
    configured.args = ["--log-level", "error", "--backend", "poll"]
    configured.start()
    configured.write('[logging]\nlevel = "debug"\n[watch]\nbackend = "inotify"')
    told = configured.rpc("daemon.reload")
    assert (told["changed"], told["restart"]) == ([], [])
    config = configured.rpc("daemon.config")["settings"]
    assert config["logging.level"] == {"value": "error", "from": "flag"}


def test_the_interval_of_polling_changes_at_once(configured: Configured) -> None:
    configured.write(f'roots = ["{configured.root}"]\n[watch]\nbackend = "poll"\npoll_seconds = 86400')
    configured.start()
    configured.scanned()
    (root,) = configured.rpc("root.list")["roots"]
    assert "86400 s" in root["why"]
    clock = configured.rpc("log.clock")["clock"]
    configured.workspace().write("new", "new\n")
    configured.write(f'roots = ["{configured.root}"]\n[watch]\nbackend = "poll"\npoll_seconds = 0.1')
    configured.rpc("daemon.reload")
    (root,) = configured.rpc("root.list")["roots"]
    assert "0.1 s" in root["why"]
    deadline = time.monotonic() + HANG
    wanted = configured.workspace().path("new").decode()
    while not any(record.get("path") == wanted for record in configured.rpc("log.since", clock=clock)["records"]):
        assert time.monotonic() < deadline


def test_config_show_tells_what_a_daemon_still_uses_and_reload_what_is_left(configured: Configured) -> None:
    configured.start()
    assert "uses the same" in configured.cli("config", "show").stdout
    configured.write("[log]\nmax_records = 1000\n[store]\nmap_gib = 3")
    shown = configured.cli("config", "show").stdout
    assert "log.max_records = 10000000  next: provd config reload" in shown
    assert "store.map_gib = 64  next: provd restart" in shown
    done = configured.cli("config", "reload")
    assert (done.returncode, done.stdout) == (0, "")
    assert "log.max_records changed" in done.stderr
    assert "needs a restart (provd restart): store.map_gib" in done.stderr
    differs = json.loads(configured.cli("config", "show", "--json").stdout)["daemon"]["differs"]
    assert differs == {"store.map_gib": {"value": 64, "next": "restart"}}
    configured.write("x")
    assert configured.cli("config", "reload").returncode == 5
    assert configured.cli("config", "show").returncode == 1


class Hurried(Configured):
    """A daemon that is told to reload while it starts: when the function of $WHEN is called."""

    def command(self) -> list[str]:
        """The same arguments, to a program that sends the signal to itself."""
        return [sys.executable, "-c", HURRIED, *super().command()[3:]]


HURRIED = """
import importlib, os, signal, sys
from provd import cli
def early(*arguments, **more):
    os.kill(os.getpid(), signal.SIGHUP)
    return real(*arguments, **more)
module, _, name = os.environ["WHEN"].partition(":")
real = getattr(importlib.import_module(module), name)
setattr(importlib.import_module(module), name, early)
sys.exit(cli.main())
"""


@pytest.mark.parametrize(
    "when", ["provd.settings:load", "provd.daemon:begin_run", "provd.daemon:BoundSocket", "provd.running:Live"]
)
def test_sighup_while_it_starts_ends_nothing_and_is_heeded(when: str) -> None:
    daemon = Hurried()
    try:
        daemon.start(WHEN=when)
        daemon.logged("configuration reloaded")
        assert daemon.stop() == 0
    finally:
        daemon.close()


# ---- the terminal


class Terminal:
    """A terminal whose only process is a daemon, as a shell's would be."""

    def __init__(self, daemon: Daemon, *, ignore: bool = False) -> None:
        self.daemon = daemon
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGHUP, signal.SIG_IGN if ignore else signal.SIG_DFL)
                os.execve(sys.executable, daemon.command(), clean_environment(daemon.home, daemon.env))
            finally:
                os._exit(127)
        deadline = time.monotonic() + HANG
        while True:
            with contextlib.suppress(OSError, RpcError), contextlib.closing(Rpc(daemon.socket)) as rpc:
                rpc("daemon.hello", protocol=1)
                return
            assert time.monotonic() < deadline

    def close(self) -> None:
        """The window is closed."""
        os.close(self.screen)
        self.screen = -1

    def ended(self) -> int:
        """How the daemon ended."""
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def clean(self) -> None:
        """Whatever is left goes."""
        if self.screen >= 0:
            self.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(configured: Configured) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def make(**options: bool) -> Terminal:
        opened.append(Terminal(configured, **options))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.clean()


def test_a_daemon_whose_terminal_is_closed_ends_in_order(
    configured: Configured, terminal: Callable[..., Terminal]
) -> None:
    window = terminal()
    configured.rpc("entry.put", key="k", value=1, deps=[], scope="s")
    configured.disconnect()
    window.close()
    assert window.ended() == 0
    assert not os.path.lexists(configured.socket)
    configured.start()
    assert configured.rpc("entry.get", key="k", scope="s")["value"] == 1


def test_in_a_terminal_that_is_there_sighup_is_a_reload(
    configured: Configured, terminal: Callable[..., Terminal]
) -> None:
    window = terminal()
    configured.write("[log]\nmax_records = 1000")
    os.kill(window.pid, signal.SIGHUP)
    deadline = time.monotonic() + HANG
    while configured.settings()["log.max_records"] != 1000:
        assert time.monotonic() < deadline


def test_nohup_goes_on_without_its_terminal(configured: Configured, terminal: Callable[..., Terminal]) -> None:
    window = terminal(ignore=True)
    configured.write("[log]\nmax_records = 1000")
    window.close()
    deadline = time.monotonic() + HANG
    while configured.settings()["log.max_records"] != 1000:  # SIGHUP has come
        assert time.monotonic() < deadline
    assert configured.rpc("log.clock")["clock"]
