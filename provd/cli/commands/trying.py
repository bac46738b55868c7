"""try: the incident that provd exists for, shown on real files by real commands, in ten seconds.

Rule: nothing of the user's is touched, and nothing stays: its own daemon, state and settings live in a scratch
directory that goes however this ends. It fails where a verdict is not as the story says.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

import click

import provd
from provd import fastpath, places
from provd.cli import output
from provd.cli.command import Command, Failure
from provd.cli.processes.process import NAP
from provd.cli.processes.signals import Signals
from provd.cli.words import scenes
from provd.client import Client, ProvdUnreachable
from provd.umask import usable

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 60.0
"""Seconds for the daemon to start on a slow machine."""
_LONGEST: Final = 60
"""Characters of a scratch directory's name that leave room for a socket below it."""
_OURS: Final = ("PROVD_", "XDG_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
_SERVICE: Final = ("RUNTIME_DIRECTORY", "STATE_DIRECTORY", fastpath.COMPLETE)
_TOLD: Final = 2000
_LOG: Final = "log"
_STATE: Final = "state"


@click.command(
    "try", cls=Command, examples=("provd try", "provd try --keep    # leave the scratch directory to look at")
)
@click.option("--keep", is_flag=True, help="Leave the scratch directory (its daemon ends all the same).")
def try_(keep: bool) -> int:
    """Show in some seconds what provd is for: a memory that is dirty, one born stale, one that is true.

    It runs a daemon of its own in a scratch directory, and the commands that it prints. Nothing is
    installed, no other daemon is touched, nothing stays but with --keep. Exit: 0 as the story says,
    5 otherwise.
    """
    digest = _digest_command()
    with Signals() as signals, usable(), _scratch(keep=keep) as home:
        environment = _environment(home)
        work = os.path.join(home, "work")
        with _daemon(home, work, environment) as process, signals.heeded(), _connect(process, home) as client:
            client.call("root.add", path=work)  # answers when it is scanned
            for scene in scenes.SCENES:
                _play(scene, digest, work, environment)
                _judge(scene, client, work)
    output.line("\n" + scenes.ENDING.format(where=scenes.KEPT if keep else scenes.GONE))
    if keep:
        output.note(f"kept: {home}")
    return 0


def _digest_command() -> str:
    """The command that prints digests as sha256sum does; raises Failure."""
    for command in ("sha256sum", "shasum -a 256"):
        if shutil.which(command.split(maxsplit=1)[0]):
            return command
    raise Failure(
        "neither sha256sum nor shasum is here", "printenv PATH  # sha256sum (coreutils) is in none of these directories"
    )


@contextlib.contextmanager
def _scratch(*, keep: bool) -> Iterator[str]:
    """A directory with a workspace and a command `provd`; gone afterwards. The name of a socket must fit below it."""
    try:
        base = tempfile.gettempdir()
        home = tempfile.mkdtemp(prefix="provd-try-", dir=base if len(base) < _LONGEST else "/tmp")  # noqa: S108
    except OSError as error:
        raise Failure(
            f"no scratch directory can be made: {error}",
            f"df -h {output.quoted(os.environ.get('TMPDIR') or '/tmp')}  # $TMPDIR may name a place with more room",  # noqa: S108
        ) from None
    home = os.path.realpath(home)
    try:
        for name in ("work", "bin"):
            os.mkdir(os.path.join(home, name))
        for name in ("original", "work/config.py"):
            _write(os.path.join(home, name), scenes.CONFIG)
        source = os.path.dirname(os.path.dirname(os.path.abspath(provd.__file__)))
        words = (shlex.quote(source), shlex.quote(sys.executable))
        command = os.path.join(home, "bin", "provd")
        _write(command, '#!/bin/sh\nPYTHONPATH={} exec {} -P -m provd "$@"\n'.format(*words))
        os.chmod(command, 0o700)
        yield home
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def _write(path: str, content: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def _environment(home: str) -> dict[str, str]:
    """The environment of the story: nothing of the user's daemon or settings is in it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS) and k not in _SERVICE}
    own = {"PROVD_STATE_DIR": os.path.join(home, _STATE), "XDG_CONFIG_HOME": os.path.join(home, "config")}
    return kept | own | {"PATH": f"{os.path.join(home, 'bin')}:{kept.get('PATH', os.defpath)}"}


@contextlib.contextmanager
def _daemon(home: str, work: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that watches the workspace; it has ended afterwards."""
    with open(os.path.join(home, _LOG), "wb") as log:
        process = subprocess.Popen(
            ["provd", "run", "--root", work],
            executable=os.path.join(home, "bin", "provd"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )
        try:
            yield process
        finally:
            process.terminate()
            _await(process)


def _await(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _connect(process: subprocess.Popen[bytes], home: str) -> Client:
    """A connection to the daemon as soon as it listens; raises Failure."""
    socket = os.path.join(home, _STATE, places.SOCKET_NAME)
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            return Client(socket)
        except ProvdUnreachable:
            time.sleep(NAP)
    with open(os.path.join(home, _LOG), encoding="utf-8", errors="backslashreplace") as file:
        said = file.read()[-_TOLD:].strip()
    raise Failure(f"the daemon of the demonstration did not start: {said}", "provd doctor  # looks for the reason")


def _play(scene: scenes.Scene, digest: str, work: str, environment: dict[str, str]) -> None:
    """Say what happens, show the commands, carry them out; raises Failure where they end otherwise than told."""
    typed = [line.format(sum=digest) if "{sum}" in line else line for line in scene.typed]
    output.line("\n" + output.paint(scene.said, "bold"))
    for line in typed:
        output.line(f"$ {line}")
    sys.stdout.flush()
    shell = ["sh", "-c", "\n".join(typed)]
    none, same = subprocess.DEVNULL, subprocess.STDOUT  # what the commands say is the story's data
    done = subprocess.run(shell, cwd=work, env=environment, stdin=none, stderr=same, check=False)
    if done.returncode == 128 + signal.SIGPIPE:
        raise BrokenPipeError
    if done.returncode != scene.code:
        raise _other(typed[-1], f"exit code {scene.code}", f"{done.returncode}")


def _judge(scene: scenes.Scene, client: Client, work: str) -> None:
    """Ask for the verdicts themselves; raises Failure where they are not as the story says."""
    for key, expected in scene.verdicts.items():
        answer: dict[str, Any] = client.check(key, root=work, timeout_ms=60_000)
        found = (str(answer.get("verdict")), str(answer.get("why")))
        word, why = expected
        if found != (word, why or found[1]):
            raise _other(f"provd check {key}", " ".join(expected), " ".join(found))


def _other(command: str, expected: str, found: str) -> Failure:
    return Failure(f"not as the story says: {command}: {expected} was expected, not {found}", "please report it")
