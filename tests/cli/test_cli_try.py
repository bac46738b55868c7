"""try: the story is real, fails where a verdict is another, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest
from support import HANG, clean_environment

from provd.cli import main
from provd.cli.commands import trying
from provd.cli.words import scenes
from provd.cli.words.scenes import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose name leaves room for a socket below it."""
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as name:
        yield Path(name)


_TRY = [sys.executable, "-m", "provd", "try"]


def _environment(home: Path, **more: str) -> dict[str, str]:
    """A user with a daemon's settings and places of their own, which the story must not touch."""
    home.joinpath("tmp").mkdir(exist_ok=True)
    config = home / "config" / "provd"
    config.mkdir(parents=True, exist_ok=True)
    config.joinpath("config.toml").write_text("no-such-key = 1\n")
    own = {"XDG_CONFIG_HOME": str(home / "config"), "PROVD_SOCKET": str(home / "user.sock")}
    return clean_environment(str(home), own | {"TMPDIR": str(home / "tmp")} | more)


def _left(home: Path) -> list[str]:
    return os.listdir(home / "tmp")


def _tell(home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = _environment(home, **more)
    return subprocess.run(_TRY, env=environment, cwd=home, capture_output=True, text=True, timeout=HANG, check=False)


def test_the_story(home: Path) -> None:
    done = _tell(home)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    checked = lines[lines.index("$ provd check summary plan") :]
    assert checked[1].endswith(" dirty    summary  (changed)")
    assert any(line.endswith(" fresh    summary  (same)") for line in checked)
    assert any(line.endswith("s old: use it") for line in lines)
    born = lines[lines.index("$ provd why retries") :]
    assert any(line.startswith("      was sha256:") for line in born)
    assert any(line.startswith("      is  sha256:") for line in born)
    assert _left(home) == []
    assert sorted(os.listdir(home)) == ["config", "tmp"]


def test_it_is_told_in_the_c_locale_without_much_of_a_path(home: Path) -> None:
    tools = home / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "cp", "date", "mv", "rm", "sed", "sha256sum", "shasum"):
        with contextlib.suppress(StopIteration):
            found = next(os.path.join(d, name) for d in ("/usr/bin", "/bin") if os.path.exists(os.path.join(d, name)))
            os.symlink(found, tools / name)

    done = _tell(home, PATH=str(tools), LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "! dirty    summary  (changed)" in done.stdout
    assert done.stdout.isascii()


def test_without_a_program_that_makes_digests(home: Path) -> None:
    done = _tell(home, PATH=str(home))

    assert done.returncode == 5
    assert "neither sha256sum nor shasum is here\n  next: printenv PATH  # " in done.stderr


def test_without_a_place_for_it(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: str) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.mkdtemp", full)

    assert main(["try"]) == 5

    told = capfd.readouterr().err
    assert "no scratch directory can be made: " in told
    assert "\n  next: df -h /" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["tempfile.mkdtemp", "subprocess.Popen", "shutil.rmtree"])
def test_a_signal_at_the_moment_when_something_is_made_or_cleared_away(
    home: Path, monkeypatch: pytest.MonkeyPatch, moment: str, number: int
) -> None:
    for name, value in _environment(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(scenes, "SCENES", ())
    module, _, name = moment.partition(".")
    doing = getattr(sys.modules[module], name)
    started: list[Any] = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        signal.raise_signal(number)  # it comes before the caller has the result
        started.append(doing(*arguments, **named))
        signal.raise_signal(number)
        return started[-1]

    monkeypatch.setattr(f"{module}.{name}", interrupted)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    assert main(["try"]) == 128 + number

    assert _left(home) == []
    assert all(process.poll() is not None for process in started if process is not None and name == "Popen")
    assert {each: signal.getsignal(each) for each in before} == before


@contextlib.contextmanager
def _telling(home: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """The story, when it has begun."""
    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    environment = _environment(home)
    with subprocess.Popen(_TRY, env=environment, cwd=home, stdin=none, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            while not process.stdout.readline().startswith("$ "):
                assert process.poll() is None
            yield process, process.stdout
        finally:
            process.terminate()  # not killed, since nobody would end its daemon then


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_it_leaves_nothing(home: Path, number: signal.Signals) -> None:
    with _telling(home) as (process, _):
        scratch = next(iter(_left(home)))
        process.send_signal(number)
        _, said = process.communicate(timeout=HANG)

    assert (process.returncode, said) == (128 + number, "")
    assert _left(home) == []
    assert not _runs(scratch)


def test_a_reader_that_goes_away_ends_it(home: Path) -> None:
    with _telling(home) as (process, told):
        scratch = next(iter(_left(home)))
        told.close()
        process.wait(HANG)

    assert process.returncode == 128 + signal.SIGPIPE
    assert _left(home) == []
    assert not _runs(scratch)


def _runs(scratch: str) -> bool:
    """Whether any process names the scratch directory."""
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if scratch.encode() in file.read():
                return True
    return False


def test_keep_leaves_the_files_and_no_daemon(home: Path) -> None:
    done = subprocess.run(
        [*_TRY, "--keep"], env=_environment(home), capture_output=True, text=True, timeout=HANG, check=True
    )

    (scratch,) = _left(home)
    assert done.stderr == f"kept: {os.path.realpath(home / 'tmp' / scratch)}\n"
    assert "which has ended; its scratch directory was kept. To have one:" in done.stdout
    assert " gone" not in done.stdout
    assert os.path.exists(home / "tmp" / scratch / "work" / "config.py")
    assert not _runs(scratch)


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Scene("It lies.", ("provd check none",)), "provd check none: exit code 0 was expected, not 4"),
        (
            Scene("It lies.", ("true",), 0, {"none": ("fresh", "same")}),
            "provd check none: fresh same was expected, not unknown no-entry",
        ),
    ],
)
def test_another_verdict_fails(
    scene: Scene, said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr(scenes, "SCENES", (scene,))
    monkeypatch.setattr("tempfile.tempdir", str(home))

    assert main(["try"]) == 5

    told = capfd.readouterr().err
    assert f"not as the story says: {said}" in told
    assert os.listdir(home) == []


def test_a_daemon_that_does_not_start(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def broken(home: str) -> dict[str, str]:
        return os.environ | {"PROVD_STATE_DIR": os.path.join(home, "original")}

    monkeypatch.setattr(trying, "_environment", broken)
    monkeypatch.setattr("tempfile.tempdir", str(home))

    assert main(["try"]) == 5

    told = capfd.readouterr().err
    assert "the daemon of the demonstration did not start: " in told
    assert "\n  next: " in told
    assert os.listdir(home) == []


def test_every_command_can_be_typed() -> None:
    typed: list[Any] = [line for scene in scenes.SCENES for line in scene.typed]

    assert all(line.isascii() and len(line) < 100 for line in typed)
    assert {word for scene in scenes.SCENES for word, _ in scene.verdicts.values()} == {"fresh", "dirty"}
