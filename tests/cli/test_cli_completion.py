"""completion: what the shells themselves complete, with a real daemon behind."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_daemon import Cli, FakeDaemon, Silence
from real_cli import RealCli
from support import HANG

from provd.cli.app import modules
from provd.cli.commands.ask import get
from provd.cli.commands.completion import SCRIPTS
from provd.cli.commands.entries import ls
from provd.cli.commands.log import log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support import Daemon

# what is typed before the tabulator, and the words that stand there after it
_LINES = {
    "provd revali": ["revalidate"],
    "provd watch ad": ["watch", "add"],
    "provd put k --based": ["put", "k", "--based-on"],
    "provd check --verify l": ["check", "--verify", "log"],
    "provd check pla": ["check", "plain"],
    "provd check ns:al": ["check", "ns:alpha"],
    "provd exec --if-usable ns:al": ["exec", "--if-usable", "ns:alpha"],
    "provd put k --dep tr": ["put", "k", "--dep", "tree:"],
    "provd put k --dep src/on": ["put", "k", "--dep", "src/only.py"],
    "provd put k --dep file:src/on": ["put", "k", "--dep", "file:src/only.py"],
    "provd put k --dep dir:on": ["put", "k", "--dep", "dir:only/"],
    "provd put k --dep=tree:on": ["put", "k", "--dep=tree:only/"],
    "provd exec -- provd-onl": ["exec", "--", "provd-only-here"],
    "provd exec -- ./bin/provd-only-h": ["exec", "--", "./bin/provd-only-here"],
    "provd exec -- cat src/on": ["exec", "--", "cat", "src/only.py"],
    "provd put k --dep entry:ns:al": ["put", "k", "--dep", "entry:ns:alpha"],
    "provd put k --value-file src/on": ["put", "k", "--value-file", "src/only.py"],
    "provd put k --value-file src/a:z": ["put", "k", "--value-file", "src/a:z.txt"],
    "provd put k --dep src/a:z": ["put", "k", "--dep", "src/a:z.txt"],
    "provd put k --dep file:src/a:z": ["put", "k", "--dep", "file:src/a:z.txt"],
    "provd run --root sr": ["run", "--root", "src/"],
    "provd run --root=sr": ["run", "--root=src/"],
    "provd check --verify=l": ["check", "--verify=log"],
    "provd put k --dep=tr": ["put", "k", "--dep=tree:"],
    "provd put k --dep=src/on": ["put", "k", "--dep=src/only.py"],
    "provd put k --dep=file:src/on": ["put", "k", "--dep=file:src/only.py"],
    "provd put k --dep=entry:ns:al": ["put", "k", "--dep=entry:ns:alpha"],
    "provd help exit": ["help", "exit-codes"],
    "provd help action en": ["help", "action", "end"],
    "provd completion zs": ["completion", "zsh"],
}
_EVIL = ("evil$(touch PWN)`touch PWN`", "two words;&|*", "it's", 'quo"te\\', "bang!x", "dol$HOME", "ns:c d$(touch PWN)")
_EVIL_LINES = {
    "provd check evil": _EVIL[0],
    "provd check 'evil": _EVIL[0],
    'provd check "evil': _EVIL[0],
    "provd check evil\\$": _EVIL[0],
    "provd check tw": _EVIL[1],
    "provd check two\\ ": _EVIL[1],
    'provd check "two ': _EVIL[1],
    "provd check i": _EVIL[2],
    "provd check 'i": _EVIL[2],
    'provd check "i': _EVIL[2],
    "provd check q": _EVIL[3],
    "provd check 'q": _EVIL[3],
    'provd check "q': _EVIL[3],
    "provd check b": _EVIL[4],
    'provd check "b': _EVIL[4],
    "provd check d": _EVIL[5],
    "provd check 'd": _EVIL[5],
    "provd check ns:c": _EVIL[6],
    "provd check 'ns:c": _EVIL[6],
    "provd put k --dep entry:ns:c": f"entry:{_EVIL[6]}",
}
_ARGS = "args() { printf '<%s>' \"$@\"; echo '=e''nd'; }"
_ZSH = f"unset zle_bracketed_paste; setopt no_beep no_auto_remove_slash; {_ARGS}; autoload -U compinit"
_SHELLS = {
    "bash": (
        "--norc --noprofile -i",
        ["bind 'set enable-bracketed-paste off'; bind 'set bell-style none'", _ARGS, 'eval "$(provd completion bash)"'],
    ),
    "zsh": ("-f -i", [_ZSH, "compinit -u -D", 'eval "$(provd completion zsh)"']),
    "fish": (
        "--no-config --private -i",
        ["function args; printf '<%s>' $argv; echo '=e''nd'; end", "provd completion fish | source"],
    ),
    # as it is installed: a file that zsh reads when it is needed
    "zsh, loaded": (
        "-f -i",
        [_ZSH, "provd completion zsh > bin/_provd; fpath=($PWD/bin $fpath); compinit -u -D"],
    ),
}
"""The options that make a shell read nothing of this user's, and what is typed to make it complete `provd`.

`args` prints the words behind it, and an end that is not in the line itself.
"""


@pytest.fixture
def cli(module_daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RealCli:
    """A root with two entries and a file, and `provd` on the PATH of `environment()`."""
    cli = RealCli(module_daemon, capsys, monkeypatch)
    os.makedirs(os.path.join(cli.root, "src"))
    os.makedirs(os.path.join(cli.root, "bin"))
    cli.write("src/only.py", "x\n")
    cli.write("src/a:z.txt", "x\n")
    cli.write("bin/provd", f'#!/bin/sh\nexec "{sys.executable}" -m provd "$@"\n')
    os.chmod(os.path.join(cli.root, "bin", "provd"), 0o755)
    cli.write("bin/provd-only-here", "#!/bin/sh\n")
    os.chmod(os.path.join(cli.root, "bin", "provd-only-here"), 0o755)
    cli.write("bin/provd-only-read", "")
    os.makedirs(os.path.join(cli.root, "only"))
    cli.write("only.txt", "x\n")
    for key in ("plain", "ns:alpha", "ns:beta"):
        cli("put", key, "--no-deps")
    return cli


def _environment(cli: RealCli) -> dict[str, str]:
    environment = cli.environment()
    own = {"PATH": f"{cli.root}/bin:{environment['PATH']}", "TERM": "dumb", "PS1": "$ ", "LC_ALL": "C.UTF-8"}
    return environment | own


def _shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


def _completed_by(which: str, cli: RealCli, lines: Iterable[str]) -> Iterator[list[str]]:
    """The words of each line behind `provd`, after the tabulator."""
    options, prepared = _SHELLS[which]
    shell = _shell(which.partition(",")[0])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cli.root)
        os.execve(shell, [shell, *options.split()], _environment(cli))
    with open(terminal, "r+b", buffering=0) as typed:
        typed.writelines(line.encode() + b"\n" for line in prepared)
        for line in lines:
            # At the line's beginning a function is put that prints the words instead of running them.
            typed.write(line.encode() + b"\t\x01args \n")
            said = ""
            while "=end" not in said:
                said += typed.read(1).decode(errors="replace")
            yield re.findall(r"<([^<>]*)>", said.rpartition("<provd>")[2])
        typed.write(b"exit\n")
        os.waitpid(pid, 0)


@pytest.mark.parametrize("shell", _SHELLS)
def test_a_shell_completes_what_is_typed(cli: RealCli, shell: str) -> None:
    # bash takes a colon for the end of a word, so of paths it looks for what stands behind it
    lines = {line: words for line, words in _LINES.items() if shell != "bash" or "src/a:" not in line}

    assert dict(zip(lines, _completed_by(shell, cli, lines), strict=True)) == lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_keys_so_that_none_is_a_command(cli: RealCli, shell: str) -> None:
    for key in _EVIL:
        cli("put", key, "--no-deps")

    found = [words[-1] for words in _completed_by(shell, cli, _EVIL_LINES)]

    assert dict(zip(_EVIL_LINES, found, strict=True)) == _EVIL_LINES
    assert not os.path.exists(os.path.join(cli.root, "PWN"))


@pytest.mark.parametrize("line", ['provd check "ev"', "provd check 'e'v", "provd check ev\\"])
def test_where_bash_may_read_it_otherwise_nothing_is_offered(
    cli: RealCli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    cli("put", _EVIL[0], "--no-deps")

    assert _ask(cli, line, monkeypatch, "bash") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_one_that_the_shell_takes(cli: RealCli, shell: str) -> None:
    script = cli("completion", shell).out

    assert script == SCRIPTS[shell]
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=HANG, check=True)


def _ask(cli: RealCli | Cli, line: str, monkeypatch: pytest.MonkeyPatch, shell: str = "zsh") -> list[list[str]]:
    """What a script is told: type, value and help of each."""
    monkeypatch.setenv("_PROVD_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_LINE", line)
    found = [each.split("\t") for each in cli().out.splitlines()]
    monkeypatch.delenv("_PROVD_COMPLETE")
    return [each for each in found if each != [""]]


def test_every_command_is_offered_with_its_line(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _ask(cli, "provd ", monkeypatch)

    assert [value for _, value, _ in found] == list(modules())
    assert all(kind == "plain" and told for kind, _, told in found)


def test_a_prefix_of_keys_is_no_file() -> None:
    kinds = {option.name: type(option.type) for option in (*ls.params, *log.params)}

    assert kinds["prefix"] is type(next(option.type for option in get.params if option.name == "key"))
    assert kinds["paths"].__name__ == "_File"


def test_keys_are_those_of_the_scope_that_is_meant(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("put", "elsewhere", "--no-deps", "--scope", "other")

    assert _ask(cli, "provd check ns:", monkeypatch) == [["plain", "ns:alpha", ""], ["plain", "ns:beta", ""]]
    assert _ask(cli, "provd check ns:", monkeypatch, "bash") == [["plain", "alpha", ""], ["plain", "beta", ""]]
    assert _ask(cli, "provd check --scope other ", monkeypatch) == [["plain", "elsewhere", ""]]
    assert _ask(cli, "provd check --root /nowhere ", monkeypatch) == []
    assert _ask(cli, "provd get plain ", monkeypatch) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_root_below_the_own_home_is_found(cli: RealCli, shell: str) -> None:
    name = os.path.relpath(cli.root, cli.daemon.home)
    lines = {f"provd check --root ~/{name} pla": "plain", f"provd get --root ~/{name}/src/.. ns:al": "ns:alpha"}

    assert [words[-1] for words in _completed_by(shell, cli, lines)] == list(lines.values())


@pytest.mark.parametrize(("word", "found"), [("~/r", True), ("~", False), ("'~/r'", False), ("\\~/r", False)])
def test_a_quoted_tilde_is_a_name(cli: RealCli, monkeypatch: pytest.MonkeyPatch, word: str, found: bool) -> None:
    monkeypatch.setenv("HOME", os.path.dirname(cli.root))
    word = word.replace("r", os.path.basename(cli.root))

    assert _ask(cli, f"provd check --root {word} pla", monkeypatch) == ([["plain", "plain", ""]] if found else [])


def test_roots_are_offered_to_be_removed(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.path.dirname(cli.root))
    name = os.path.basename(cli.root)

    assert ["plain", cli.root, ""] in _ask(cli, "provd watch rm /", monkeypatch)
    assert _ask(cli, f"provd watch rm {name[:-1]}", monkeypatch) == [["plain", name, ""]]
    assert _ask(cli, "provd watch add ro", monkeypatch) == [["dir", "ro", ""]]


def test_open_actions_are_offered_to_be_ended(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    number = cli("action", "begin", "--write", "object:o", "--session", "s1").out.strip()

    assert _ask(cli, "provd action end ", monkeypatch) == [["plain", number, "s1"]]
    assert _ask(cli, "provd action end x", monkeypatch) == []
    cli("action", "end", number)
    assert _ask(cli, "provd action end ", monkeypatch) == []


@pytest.mark.parametrize(
    "line",
    ["provd watch rm ", "provd action end ", "provd check ", "provd put k --dep entry:", "provd exec --if-usable "],
)
def test_without_a_daemon_nothing_is_said(cli: RealCli, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("PROVD_SOCKET", os.path.join(cli.root, "none"))

    assert _ask(cli, line, monkeypatch) == []


def test_a_daemon_that_does_not_answer_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeDaemon(daemon_hello=Silence()) as fake:
        assert _ask(Cli(fake, capsys, monkeypatch), "provd check ", monkeypatch) == []


def test_an_unknown_shell(cli: RealCli) -> None:
    assert "'bash', 'zsh', 'fish'" in cli("completion", "csh", code=2).err
    assert cli("completion", code=2).err.endswith(
        "\n  next: provd completion bash\n  or: provd completion zsh\n  or: provd completion fish\n"
    )
