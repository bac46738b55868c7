"""What stands behind `next:` and `or:` can be pasted: every text of the product that begins as a command is one.

What a variable puts into a text is 7 here, and nothing where it goes on with a word. Texts are found in the source, so
that a new hint is looked at too.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest

from provd import places
from provd.cli import output, steps
from provd.cli.app import app
from provd.cli.commands import topics
from provd.core import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(steps.__file__).resolve().parents[1]
PROGRAMS: Final = {  # and what may stand behind them; provd itself reads its own
    "chmod": r"(700|u\+rX|\+x) \S.*",
    "df": r"-h \S+",
    "dmesg": r"",
    "export": r"\w+=\S+",
    "findmnt": r"-T \S+",
    "fuser": r"\S+",
    "head": r"-n1 \S+",
    "journalctl": r"(--user )?-u \S+ -n 50",
    "kill": r"(-(HUP|CONT|9) )?(\d+|PID)",
    "launchctl": r"\S.*",
    "loginctl": r"enable-linger( \S+)?",
    "ls": r"(-ld )?/?\S+",
    "mount": r"",
    "mv": r"\S+ \S+",
    "rm": r"-r \S+",
    "setfacl": r"-m u:\S+:rX \S.*",
    "gunzip": r"-c \S+",
    "printenv": r"[A-Z]+",
    "sha256sum": r"\S+",
    "sysctl": r"[\w.]+=\d+",
    "systemctl": r"(--user )?\S.*",
    "tail": r"-n \d+|\S+",
    "timedatectl": r"",
    "unset": r"PROVD_SOCKET",
    "ulimit": r"-(n|v|f|Hn) (\d+|unlimited)",
}
PARTS: Final = re.compile(r"\s*(?:&&|;|\|\|?)\s*")
REDIRECTED: Final = re.compile(r"\s*>\s*(\S+)$")
FILLED: Final = re.compile(r"\{\w*\}")
AS_ROOT: Final = re.compile(r"sudo (-u \S+ )?")
ASSIGNED: Final = re.compile(r"^\w+=[^\s$]\S* (?=\w)")
SENTENCE: Final = re.compile(r"[,:](?: |$)")
TOOK: Final = re.compile(r"^\w=\$\((.+)\)$")
OTHERS: Final = ("jq ", "gzip ", "$EDITOR ", "[ ")
"""What the examples of the help have besides."""
_CHOSEN: Final = ("provd export --all > FILE", "provd start --socket PATH", "printenv PATH")
"""Beginnings of what runs as it stands, whatever the name in capitals is."""
SAID: Final = frozenset(
    (
        "provd answers at 7 (pid 7)",
        "provd failed: 7: 7",
        "provd is a daemon that knows what each memory rests on (files, directories,",
        "provd says what is so: of the summary, and of what was made from it.",
        "provd since C tells what happened after C, and whether the log is whole there.",
        "provd was not there for a while",
        *("provd \\- tells whether what you remember is still true: fresh, dirty or unknown", "provd %(version)s"),
        *(
            "provd watch add",
            "provd 7",
            "sudo 7",
            "mv 7 7.other && ",
            "provd start && ",
            "journalctl 7-u 7 -n 50",
            "provd action record 7",
            "provd check",
            "provd get",
        ),
    )
)
"""Sentences, and beginnings of what is made of several texts."""
WITHIN: Final = re.compile(r"[:,;(] ?((sudo )?(provd [a-z]+|kill -|kill \d|chmod |systemctl |mv /|rm -|sysctl ))")
"""A command within prose: it would have to be cut out."""
HINTED: Final = frozenset(("hint", "next_step", "fix"))
CARRIERS: Final = {  # what takes a hint, and which argument it is
    **dict.fromkeys(("RpcError", "Advised"), 2),
    **dict.fromkeys(("note", "warn", "fail"), 3),
    **dict.fromkeys(
        (
            *("Failure", "Usage", "ProvdUnreachable", "ServiceError", "complain", "advise", "next_step", "Remark"),
            *(each.__name__ for each in vars(errors).values() if isinstance(each, type)),
        ),
        1,
    ),
}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """The files of the product, parsed."""
    return [
        (str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCE.rglob("*.py")
    ]


def text_of(node: ast.AST) -> str | None:
    """The text of a constant or an f-string, behind a variable that it begins with; None where it is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    told = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            told += str(value.value)
        elif told:
            told += "" if told[-1:].isalnum() else "7"
    return told


def texts() -> Iterator[tuple[str, str]]:
    """Where each text of the product stands, and the text; docstrings are none."""
    for name, tree in trees():
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) or id(node) not in inside:
                told = text_of(node)
                if told is not None:
                    yield f"{name}:{getattr(node, 'lineno', 0)}", told


def commands() -> Iterator[tuple[str, str]]:
    """The lines among them that begin as a command does."""
    for where, told in texts():
        for line in told.split("\n"):
            if " " in line.strip() and steps.is_command(line) and line.partition("  #")[0] not in SAID:
                yield where, FILLED.sub("7", line)


def hints() -> Iterator[tuple[str, str]]:
    """The texts that stand where a hint does: in an error, a finding, or a variable that is named so."""
    for name, tree in trees():
        for node in ast.walk(tree):
            given: list[ast.AST] = []
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                place = CARRIERS.get(called)
                given = [] if place is None else [*node.args[place : place + 1]]
                given += [word.value for word in node.keywords if word.arg == "hint"]
            elif isinstance(node, ast.Assign) and any(getattr(to, "id", "") in HINTED for to in node.targets):
                given = [node.value]
            for part in given:
                for inner in ast.walk(part):
                    if (told := text_of(inner)) is not None:
                        yield f"{name}:{getattr(inner, 'lineno', 0)}", told


def wrong(line: str) -> str:
    """Why a line is no command with a comment; empty where it is."""
    command, _, _ = line.partition(" #")
    for part in PARTS.split(ASSIGNED.sub("", command.strip())):
        if part.startswith(OTHERS):
            continue
        took = TOOK.match(part)
        told = AS_ROOT.sub("", REDIRECTED.sub("", took[1] if took is not None else part))
        program, _, rest = told.partition(" ")
        if program == "provd":
            with contextlib.suppress(click.exceptions.Exit):
                try:
                    read(app, "provd", shlex.split(rest))
                except (click.UsageError, ValueError) as error:
                    if isinstance(error, click.BadParameter) and error.message.startswith("'7' is not"):
                        continue
                    return f"{told}: {error}"
        elif (form := PROGRAMS.get(program)) is None or re.fullmatch(form, rest) is None or SENTENCE.search(told):
            return f"{told}: no known command"
    return ""


def read(command: click.Command, name: str, words: list[str], parent: click.Context | None = None) -> None:
    """Reads a command line as provd would, and does nothing; raises click's errors."""
    context = command.make_context(name, words, parent)
    if isinstance(command, click.Group):
        kept = vars(context).get("_protected_args", vars(context).get("protected_args", []))  # before 8.2 so
        name_below, below, rest = command.resolve_command(context, [*kept, *context.args])
        assert below is not None
        read(below, str(name_below), rest, context)


def test_what_begins_as_a_command_can_be_pasted() -> None:
    found = list(commands())
    assert len(found) > 100, "the hints are not where they are looked for"
    assert [f"{where}: {line!r}: {why}" for where, line in found if (why := wrong(line))] == []
    script = "\n".join(line for _, line in found)
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_variable_is_set_to_a_placeholder() -> None:
    """Pasted as it stands it would do harm: a daemon would listen at ./PATH, and no program would be found in DIR."""
    assigned = re.compile(r"(?:^|\s)\w+=\S*?(?<![$\w])[A-Z]{2,}\b")
    assert assigned.search("export PROVD_SOCKET=PATH  # that of the unit")
    assert assigned.search("TMPDIR=DIR provd try")

    assert [f"{where}: {line!r}" for where, line in commands() if assigned.search(line.partition("  #")[0])] == []


def test_no_next_step_asks_for_what_only_its_reader_can_fill_in() -> None:
    """KEY is what the command was given; what saves a store may be named FILE. Else a name stands there, or shows it.

    Where another daemon is begun, its place is the reader's to choose.
    """
    asked = re.compile(r"(?<![\w/-])(?:PATH|SUMS|CLOCK|FILE|D|ID|N|TEXT)(?!\w)")
    assert asked.search("provd export > FILE")
    said = [(where, line.partition("  #")[0]) for where, line in commands()]

    found = [(where, line) for where, line in said if asked.search(line) and not line.startswith(_CHOSEN)]
    assert [f"{where}: {line}" for where, line in found] == []


def test_what_a_command_was_given_stands_for_placeholders_of_its_hints() -> None:
    context = click.Context(app)
    steps.know(context.meta, {"KEY": "'a b' --root /KEY"}, {})

    assert steps.filled("provd get KEY  # KEY", context) == "provd get 'a b' --root /KEY  # KEY"
    assert steps.filled("provd get KEYS && provd put KEY", context) == "provd get KEYS && provd put 'a b' --root /KEY"
    assert steps.filled("provd get KEY") == "provd get KEY"


def test_a_name_may_have_parentheses_and_quotes() -> None:
    name = shlex.quote("/it's (1).txt")
    line = f"s=$(sha256sum {name})  # then put it"

    assert steps.is_command(line)
    assert steps.pasteable(line) == line


def test_no_hint_of_prose_has_a_command_within() -> None:
    found = list(hints())
    assert len(found) > 200, "the hints are not where they are looked for"
    prose = [(where, told) for where, told in found if not steps.is_command(told)]
    assert [f"{where}: {told!r}" for where, told in prose if WITHIN.search(told) or steps.is_command(told)] == []


def test_no_hint_names_what_does_not_come_with_provd() -> None:
    """The documents are not in the wheel: `provd help` is, and what the daemon itself can tell."""
    told = [(where, text) for where, text in texts() if not where.startswith(("cli/manpage.py", "unitfiles.py"))]
    assert [f"{where}: {text!r}" for where, text in told if re.search(r"\bdocs/|\w\.md\b has|README", text)] == []
    named = [(where, word) for where, text in told for word in re.findall(r"provd help ([a-z][a-z-]+)", text)]
    known = {*topics.TOPICS, *app.list_commands(click.Context(app))}
    assert len(named) > 3, "the topics are not where they are looked for"
    assert [each for each in named if each[1] not in known] == []


def test_what_is_printed_is_read_again() -> None:
    hint = steps.ways(steps.because("provd status  # it", "then ask"), "", "kill 7")

    told = list(steps.lines(hint))

    assert told == ["next: provd status  # it, then ask", "or: kill 7"]
    assert steps.told_in(["the message", *(f"  {line}" for line in told), "more: no"]) == hint


def test_prose_stands_behind_a_command_that_tells_more() -> None:
    assert list(steps.lines("look at\nthe disk")) == ["next: provd doctor  # look at; the disk"]
    assert list(steps.lines("at most 3", "provd put --help")) == ["next: provd put --help  # at most 3"]
    assert list(steps.lines("export it again")) == ["next: provd doctor  # export it again"]
    assert list(steps.lines("")) == []


def test_what_only_an_open_store_has_is_saved_by_one_line() -> None:
    assert places.SAVE == "provd export --all > FILE && provd restart && provd import FILE"
    assert wrong(places.SAVE) == ""


def test_a_next_step_asks_the_daemon_and_means_the_keys_that_the_command_was_told() -> None:
    context = click.Context(app)
    steps.know(context.meta, {}, {"state": "'/s t'", "root": "r"})
    told = {
        "provd watch add .  # provd check it": "provd watch add . --state '/s t'  # provd check it",
        "c=$(provd clock)  # why": "c=$(provd clock --state '/s t')  # why",
        "kill -9 7; provd start": "kill -9 7; provd start --state '/s t'",
        "sudo -u '#1' provd doctor": "sudo -u '#1' provd doctor --state '/s t'",
        "provd export --root 'a;b' | provd import --as-root . -": (
            "provd export --root 'a;b' --state '/s t' | provd import --as-root . - --state '/s t'"
        ),
        "provd why api-x": "provd why api-x --root r --state '/s t'",
        "provd put 'a b' --sums - <<< \"$s\"": "provd put 'a b' --sums - --root r --state '/s t' <<< \"$s\"",
        "provd get k --root q\nprovd start --state DIR": "provd get k --root q --state '/s t'\nprovd start --state DIR",
        "provd status --socket /p": "provd status --socket /p",
        "provd start --socket /p": "provd start --socket /p --state '/s t'",
        "provd start --state DIR": "provd start --state DIR",
        "provd ls --root q": "provd ls --root q --state '/s t'",
        "provd exec -- provd ls": "provd exec --state '/s t' -- provd ls --root r --state '/s t'",
        **{each: each for each in ("provd put --help", "provd help clocks", "ls '/ provd ls'", "provd nothing known")},
    }
    for hint, placed in told.items():
        assert steps.filled(hint, context) == placed
        assert steps.filled(placed, context) == placed
        assert steps.filled(hint) == hint


def test_no_line_of_data_forgets_where_its_next_step_leads() -> None:
    """Messages are placed where they are printed; of data each text is, since a value is handed on as it is."""
    bare = re.compile(r"(?:more|none|next|look at): provd [a-z]")
    assert bare.search("and 3 more: provd watch ls")
    of_data = re.compile(r"yield|output\.line\(")
    found = [
        f"{path.name}: {line.strip()}"
        for path in (SOURCE / "cli").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if bare.search(line) and of_data.search(line) and "steps.filled(" not in line
    ]
    assert found == []


def test_what_a_message_ends_with_is_a_next_step_too(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(app) as context:
        steps.know(context.meta, {}, {"socket": "/s"})
        output.note("nothing is watched yet: provd watch add .  # or another directory")

    assert capsys.readouterr().err == "nothing is watched yet: provd watch add . --socket /s  # or another directory\n"
