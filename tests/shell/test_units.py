"""Units of systemd: the real command in the shipped text, quoted so that systemd runs exactly these words."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from provd import unitfiles
from provd.services import owned, units
from provd.services.base import Plan, ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TEMPLATE = "[Unit]\nDescription=d\n[Service]\nExecStart=%h/.local/bin/provd run\nType=notify\n"


def _advice(path: str) -> str:
    return f"look at {path}"


def _line(*words: str) -> str:
    return units.command_line(["/p", *words])


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("run", "run"),
        ("/home/u/a-b_c.d", "/home/u/a-b_c.d"),
        ("a b", '"a b"'),
        ("", '""'),
        ("100%", '"100%%"'),
        ('say "hi"', r'"say \"hi\""'),
        ("it's", '"it\'s"'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nb\tc\x7f", r'"a\x0ab\x09c\x7f"'),
        (";", '";"'),
        ("#no", '"#no"'),
        ("é日", '"é日"'),
    ],
)
def test_a_word_is_quoted_by_the_rules_of_systemd(word: str, written: str) -> None:
    assert units.quoted(word) == written
    assert _line(word) == f"/p {written}"


def test_a_dollar_is_no_variable() -> None:
    assert _line("$HOME", "a${b}") == ':/p "$HOME" "a${b}"'


def test_a_program_that_systemd_cannot_name_is_started_by_the_shell() -> None:
    line = units.command_line(["/o\"dd/it's", "run"])

    assert line == r""":/bin/sh -c "exec \"$0\" \"$@\"" "/o\"dd/it's" run"""


def test_what_is_not_utf8_is_refused_and_not_half_installed() -> None:
    with pytest.raises(ServiceError, match=r"/\\xff is not UTF-8"):
        _line("--root", "/\udcff")
    with pytest.raises(ServiceError, match=r"\$XDG_CONFIG_HOME is not UTF-8"):
        units.assignment("XDG_CONFIG_HOME", "/\udcff")


_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(_WORDS, min_size=1, max_size=5))
@example(["$$", "%%", "%h", "$", "\\x41", "\\", '"', "'", " ", "\n", ""])
def test_a_written_command_is_read_back_as_it_was(words: list[str]) -> None:
    plan = Plan(("/usr/bin/python3", *words), {"HOME": "/h %$"})

    assert units.command_of(units.rendered(_TEMPLATE, plan)) == list(plan.command)


@given(_WORDS)
def test_a_program_of_any_name_is_read_back(name: str) -> None:
    command = ["/" + name, "run"]

    assert units.command_of(f"ExecStart={units.command_line(command)}\n") == command


def test_only_the_command_is_replaced() -> None:
    text = units.rendered(_TEMPLATE, Plan(("/x", "run"), {"XDG_CONFIG_HOME": "/a b", "A": "1"}))

    assert text == (
        "[Unit]\nDescription=d\n[Service]\n"
        'Environment="XDG_CONFIG_HOME=/a b"\nEnvironment=A=1\nExecStart=/x run\nType=notify\n'
    )


def test_a_command_written_by_hand() -> None:
    home = os.path.expanduser("~")

    assert units.command_of(_TEMPLATE) == [f"{home}/.local/bin/provd", "run"]
    assert units.command_of('ExecStart=/a\nExecStart=\nExecStart=-/b \'c d\' "e\\"f" g$$h 1%%\n') == [
        "/b",
        "c d",
        'e"f',
        "g$h",
        "1%",
    ]
    assert units.command_of("[Service]\n") == []


@pytest.mark.parametrize("name", unitfiles.NAMES)
def test_the_shipped_units_take_a_command(name: str) -> None:
    shipped = unitfiles.read(name)
    text = units.rendered(shipped, Plan(("/x/provd", "run"), {}))

    assert units.command_of(text) == ["/x/provd", "run"]
    assert text.count("ExecStart=") == shipped.count("ExecStart=") == 1


@pytest.mark.parametrize("name", unitfiles.NAMES)
def test_the_same_program_checks_the_settings_at_a_reload(name: str) -> None:
    text = units.rendered(unitfiles.read(name), Plan(("/a b/$x/python", "-m", "provd", "run", "--state", "/s"), {}))

    reload = [line.partition("=")[2] for line in text.split("\n") if line.startswith("ExecReload=")]
    assert reload == [':"/a b/$x/python" -m provd config check --quiet', "kill -HUP $MAINPID"]


def test_an_override_replaces_the_command() -> None:
    text = _TEMPLATE + units.override(Plan(("/x", "run", "--root", "/r r")))

    assert units.command_of(text) == ["/x", "run", "--root", "/r r"]
    assert "ExecStart=\nExecStart=/x" in text


# files


def test_a_file_of_ours_is_known_until_somebody_changes_it() -> None:
    for text in (owned.marked(_TEMPLATE), owned.marked("<?xml?>\n<!DOCTYPE x>\n<a/>\n", "<!-- ", " -->", "<!DOCTYPE")):
        assert owned.untouched(text)
        assert not owned.untouched(text + "#\n")
        assert not owned.untouched("#\n" + text)
    assert not owned.untouched(_TEMPLATE)
    assert owned.marked("<a>\n<!DOCTYPE x>\n<b/>\n", "<!-- ", " -->", "<!DOCTYPE").splitlines()[2].startswith("<!-- ")


@pytest.fixture
def _any_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_any_umask")
def test_a_directory_that_was_made_for_it_can_be_used(tmp_path: Path) -> None:
    os.umask(0o777)

    owned.replace(str(tmp_path / "new.d" / "unit"), owned.marked("one\n"), _advice)

    assert stat.S_IMODE(os.stat(tmp_path / "new.d").st_mode) == 0o700


@pytest.mark.usefixtures("_any_umask")
def test_writing_is_whole_and_said_once(tmp_path: Path) -> None:
    path = str(tmp_path / "new.d" / "unit")

    assert owned.replace(path, owned.marked("one\n"), _advice)
    assert not owned.replace(path, owned.marked("one\n"), _advice)
    assert owned.replace(path, owned.marked("two\n"), _advice)
    assert owned.read(path) == owned.marked("two\n")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644
    assert os.listdir(tmp_path / "new.d") == ["unit"]
    assert owned.remove(path, _advice)
    assert not owned.remove(path, _advice)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "act", [lambda path: owned.replace(path, "new\n", _advice), lambda path: owned.remove(path, _advice)]
)
def test_what_others_wrote_is_left_alone(act: Callable[[str], object], tmp_path: Path) -> None:
    path = tmp_path / "unit"
    path.write_text("mine\n")

    with pytest.raises(ServiceError) as caught:
        act(str(path))

    assert caught.value.hint == _advice(str(path))
    assert path.read_text() == "mine\n"
