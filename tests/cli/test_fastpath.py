"""`check -q` without the command line: the same questions, the same exit codes, and all that is odd left to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon, Hangup, Raw, Refusal, Silence, Stream, cli, fake, verdict
from real_cli import RealCli
from support import HANG, REPOSITORY, clean_environment

from provd import fastpath, fastwire

if TYPE_CHECKING:
    from pathlib import Path

    from support import Daemon

__all__ = ["cli", "fake"]

_BY_CLICK: Final = "import sys; from provd.cli import main; sys.exit(main())"
_AS_INSTALLED: Final = "import sys; from provd.__main__ import run; sys.exit(run())"
_NOTE: Final = {"jsonrpc": "2.0", "method": "log.record", "params": {}}


def _both(cli: Cli, *arguments: str) -> int:
    """The exit code of both ways, which ask the same and print nothing."""
    cli.fake.asked = []
    fast = fastpath.run(["check", *arguments])
    asked, cli.fake.asked = cli.fake.asked, []
    done = cli("check", *arguments, code=None)

    assert (fast, "", "") == (done.code, done.out, done.err)
    assert asked == cli.fake.asked
    return done.code


def _is_left(capsys: pytest.CaptureFixture[str], *arguments: str) -> bool:
    """Whether a command is left to the command line, in silence."""
    code = fastpath.run(list(arguments))
    assert capsys.readouterr() == ("", "")
    return code is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (verdict(), 0),
        (verdict("dirty", evidence=[{"dep": f"file:/{n}", "why": "changed"} for n in range(5000)]), 1),
        (verdict("unknown", why='"verdict":"fresh"'), 4),
        (verdict("unknown", why="no-entry"), 4),
        (verdict("splendid"), 4),
        ({"key": "k"}, 4),
        ({"verdicts": {}}, 4),
        (verdict(key="é☃\ud800", more=1.5e9), 0),
    ],
)
def test_every_verdict(cli: Cli, answer: Any, code: int) -> None:
    cli.fake.answers["entry.check"] = answer

    assert _both(cli, "-q", "k") == code


@pytest.mark.parametrize(
    ("words", "code"), [(("fresh", "fresh"), 0), (("unknown", "dirty"), 1), (("fresh", "unknown"), 4), (("fresh",), 0)]
)
def test_several_keys(cli: Cli, words: tuple[str, ...], code: int) -> None:
    cli.fake.answers["entry.check"] = {"verdicts": {str(n): verdict(word) for n, word in enumerate(words)}}

    assert _both(cli, "0", "--quiet", "1", "0") == code
    assert _both(cli, "-q", "0", "0") == code


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scope", "global", "-q", "k"],
        ["k", "-q", "--root", "/a/b/c"],
        ["-q", "-q", "a key: with 'signs' \"\\ {}"],
        ["-q", "k", "--socket", "SOCKET"],
        ["-q", "k", "--socket", "s.sock"],
    ],
)
def test_every_option(cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    cli.fake.answers["entry.check"] = verdict()
    if "--socket" in arguments:
        monkeypatch.setenv("PROVD_SOCKET", "/nowhere")

    assert _both(cli, *(cli.fake.path if each == "SOCKET" else each for each in arguments)) == 0


def test_the_root_around(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.fake.answers["entry.check"] = verdict()
    inner, strange = os.path.join(cli.here, "in"), os.fsencode(cli.here) + b"/\xff"
    os.makedirs(os.path.join(inner, "deep"))
    os.mkdir(strange)
    os.symlink(inner, os.path.join(cli.here, "link"))

    for roots in (["/", cli.here, inner, inner + "ner"], [cli.here], ["/elsewhere"], []):
        cli.fake.answers["daemon.hello"] = HELLO | {"roots": roots}
        for there in (cli.here, inner, os.path.join(inner, "deep"), os.path.join(cli.here, "link"), strange):
            monkeypatch.chdir(os.fsdecode(there))
            assert _both(cli, "-q", "k") == 0


def test_a_current_directory_that_is_gone(cli: Cli, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()

    assert _is_left(capsys, "check", "-q", "k")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["status"],
        ["check"],
        ["-h"],
        ["get", "-q", "k"],
        *(
            ["check", *rest]
            for rest in (
                ["k"],
                ["-q"],
                ["-q", ""],
                ["-q", "k", ""],
                ["-q", "--", "k"],
                ["-q", "-k"],
                ["-qq", "k"],
                ["--qui", "k"],
                ["-q", "k", "--json"],
                ["-q", "k", "--help"],
                ["-q", "k", "--verify", "content"],
                ["-q", "k", "--state", "/s"],
                ["-q", "--dep", "f", "--fetched-at", "c"],
                ["-q", "é"],
                ["-q", "a\nb"],
                ["-q", "\udcff"],
                ["-q", "k", "--root"],
                ["-q", "k", "--root", ""],
                ["-q", "k", "--root", "."],
                ["-q", "k", "--root", "/a/../b"],
                ["-q", "k", "--root", "/a/./b"],
                ["-q", "k", "--root", "//a"],
                ["-q", "k", "--root=/a"],
                ["-q", "k", "--root", "/a", "--root", "/b"],
                ["-q", "k", "--root", "/a", "--scope", "s"],
                ["-q", "k", "--scope", "-q"],
                ["-q", "k", "--socket", ""],
            )
        ),
    ],
)
def test_what_is_no_common_form_is_not_asked(
    cli: Cli, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    cli.fake.answers["entry.check"] = verdict()

    assert _is_left(capsys, *arguments)
    assert cli.fake.asked == []


def test_a_shell_that_asks_what_it_may_offer(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_PROVD_COMPLETE", "bash_complete")

    assert _is_left(capsys, "check", "-q", "k")
    assert cli.fake.asked == []


@pytest.mark.parametrize("method", ["daemon.hello", "entry.check"])
@pytest.mark.parametrize(
    "answer",
    [
        Refusal("limit"),
        Hangup(),
        Silence(),
        Stream(HELLO | verdict(), before=[_NOTE], close=False),
        Stream(HELLO | verdict(), after=[_NOTE], close=False),
        Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Raw(b"\n"),
        Raw(b"[]\n"),
        Raw(b"\xff\n"),
        Raw(b"[" * 100_000 + b"\n"),
        Raw(b'{"id":1}\n'),
        Raw(b'{"id":2,"result":{"name":"provd","pid":1,"roots":[],"verdict":"fresh"}}\n'),
        Raw(b'{"id":1,"error":null,"result":{"name":"provd","pid":1,"roots":[],"verdict":"fresh"}}\n'),
        Raw(b'{"id":1,"result":{"name":"provd","pid":1,"roots":[],"verdict":"fresh"}} {}\n'),
        Raw(b'{"id":1,"method":"x","result":{"name":"provd","pid":1,"roots":[],"verdict":"fresh"}}\n'),
        HELLO | verdict(more="x" * (2 << 20)),
        None,
        [],
        "fresh",
        {"name": "other", "verdicts": []},
        {"name": "provd", "pid": 1, "roots": "/", "verdicts": {"k": "fresh"}},
        {"name": "provd", "pid": 1, "roots": [{}], "verdicts": None},
    ],
)
def test_what_is_no_plain_answer_is_left(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, method: str, answer: Any
) -> None:
    if isinstance(answer, Silence):
        monkeypatch.setattr(fastpath, "_GREETING" if method == "daemon.hello" else "_ANSWER", 0.01)
    cli.fake.answers["entry.check"] = verdict()
    cli.fake.answers[method] = answer

    assert _is_left(capsys, "check", "-q", "k")


def test_no_daemon(cli: Cli, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in (tmp_path / "file", tmp_path / "nothing", tmp_path / ("long" * 50)):
        assert _is_left(capsys, "check", "-q", "k", "--socket", str(path))


def test_a_python_without_what_is_private_to_it(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "provd.fastwire", None)
    monkeypatch.delattr("provd.fastwire")

    assert _is_left(capsys, "check", "-q", "k")


def test_no_connection_takes_the_number_of_a_closed_stdout(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    assert _is_left(capsys, "check", "-q", "k")
    assert cli.fake.asked == []


_VALUES: Final = ['a"\\\n\x00é☃\U0001f600', 7, [], {}, ["a", {"b64": "/w=="}], {"": [1, [2, {"x": "y"}]]}]


@pytest.mark.parametrize("value", _VALUES)
def test_json_is_what_json_is(value: Any) -> None:
    assert json.loads(fastwire.encoded(value)) == value
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)):
        assert fastwire.decoded(text) == value


@pytest.mark.parametrize("text", ["", " ", "{", '{"a":}', "nul", "1 2", "{}\n", '"\n"', "[1,]", "\ufeff{}"])
def test_what_is_no_json_raises(text: str) -> None:
    with pytest.raises((ValueError, StopIteration, fastwire.NotUnderstood)):
        fastwire.decoded(text)


# As processes.


def _processes(fake: FakeDaemon, *arguments: str) -> tuple[int, str, str]:
    """What the installed command does (exit code, stdout, stderr), which is what it does by click."""
    environment = clean_environment(fake.home, {"PROVD_SOCKET": fake.path})
    fast, slow = (
        subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=fake.home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        for script in (_AS_INSTALLED, _BY_CLICK)
    )
    assert (fast.returncode, fast.stdout, fast.stderr) == (slow.returncode, slow.stdout, slow.stderr)
    return fast.returncode, fast.stdout, fast.stderr


@pytest.mark.parametrize(("word", "code"), [("fresh", 0), ("dirty", 1), ("unknown", 4)])
def test_the_process_says_the_verdict(fake: FakeDaemon, word: str, code: int) -> None:
    fake.answers["entry.check"] = verdict(word)

    assert _processes(fake, "check", "-q", "k") == (code, "", "")


def test_the_process_tells_what_is_wrong(fake: FakeDaemon) -> None:
    fake.answers["entry.check"] = Refusal("limit", "too long", "shorter")
    assert _processes(fake, "check", "-q", "k") == (
        5,
        "",
        "provd: too long [limit]\n  next: provd check --help  # shorter\n",
    )

    fake.answers["daemon.hello"] = {"name": "other"}
    code, _, told = _processes(fake, "check", "-q", "k")
    assert (code, "is not provd" in told) == (3, True)

    code, _, told = _processes(fake, "check", "-q", "k", "--socket", "/nowhere")
    assert (code, "no daemon" in told) == (3, True)


def test_what_a_process_imports(fake: FakeDaemon) -> None:
    fake.answers["entry.check"] = verdict("dirty")
    environment = clean_environment(fake.home, {"PROVD_SOCKET": fake.path})
    # Without site, which in some places imports much for its own ends: nothing of what it finds is needed.
    command = [sys.executable, "-S", "-X", "importtime", "-c", _AS_INSTALLED, "check", "-q", "k"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert (done.returncode, done.stdout) == (1, "")
    assert {name for name in modules if name.partition(".")[0] == "provd"} == {
        "provd",
        "provd.__main__",
        "provd.codes",
        "provd.farend",
        "provd.fastpath",
        "provd.fastwire",
        "provd.hello",
        "provd.places",
    }
    assert modules & {"click", "msgspec", "structlog", "typing", "re", "enum", "socket", "json", "collections"} == set()


# Against a real daemon.


@pytest.fixture
def real(module_daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RealCli:
    return RealCli(module_daemon, capsys, monkeypatch)


def test_the_daemon_itself(real: RealCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("same", "other"):
        real.write(name, "before")
        real("put", name, "--value", "v", "--dep", name, "--as-of-now")
    real.write("other", "after")

    for there, *arguments in (
        (real.root, "same"),
        (real.root, "other"),
        (real.root, "nothing"),
        (real.root, "same", "same"),
        (real.root, "same", "nothing"),
        (real.root, "same", "nothing", "other"),
        (real.root, "same", "--scope", "global"),
        (str(tmp_path), "same"),
        (str(tmp_path), "same", "--root", real.root),
    ):
        monkeypatch.chdir(there)
        fast = fastpath.run(["check", "-q", *arguments])
        assert fast is not None
        done = real("check", "-q", *arguments, code=fast)
        assert (done.out, done.err) == ("", "")
    assert fastpath.run(["check", "-q", "k" * 2000]) is None
