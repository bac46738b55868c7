"""The configuration file: its keys as documented, and everything that is wrong with one at once."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, get_args

import click
import pytest

from provd import configuration, settings
from provd.cli.commands.daemon import run
from provd.configuration import BACKENDS, KEYS, SECTIONS, read
from provd.logs import LEVELS
from provd.watch.fleet import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

_SECTIONS: Final = ", ".join(f"[{name}]" for name in SECTIONS)
DOCUMENT: Final = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "configuration.md")
ROW: Final = re.compile(r"^\| `(?P<key>[a-z_.]+)` \|(?P<rest>.*)\|$", re.MULTILINE)


@pytest.fixture
def file(tmp_path: Any) -> Callable[[str | bytes], str]:
    """Writes a configuration file and returns its path."""

    def write(content: str | bytes) -> str:
        path = os.path.join(tmp_path, "config.toml")
        with open(path, "wb") as opened:
            opened.write(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def table() -> dict[str, list[str]]:
    """The rows of the document's first table, by key; the other cells as they stand."""
    with open(DOCUMENT, encoding="utf-8") as opened:
        text = opened.read().partition("```")[0]
    return {row["key"]: [cell.strip() for cell in row["rest"].split("|")] for row in ROW.finditer(text)}


# ---- one place knows the keys


def test_the_table_of_the_document_is_the_table_of_the_keys() -> None:
    rows = table()
    assert list(rows) == list(KEYS)
    for name, key in KEYS.items():
        kind, default, meaning, option, taken = rows[name]
        assert kind.replace("`", "") == key.kind.wanted
        assert json.loads(default.strip("`")) == key.default
        assert meaning == key.meaning
        assert option.strip("`") == key.flag
        assert taken == ("on reload" if key.reloads else "after a restart")


def test_every_default_may_stand_in_the_file() -> None:
    assert all(key.kind.fits(key.default) for key in KEYS.values())


def test_the_words_are_those_of_the_rooms_that_use_them() -> None:
    assert get_args(Choice) == BACKENDS
    assert tuple(LEVELS) == configuration.LEVELS


def test_every_option_of_run_that_stands_for_a_key_takes_its_words() -> None:
    options = {option.opts[0]: option.type for option in run.params}
    for key in KEYS.values():
        if key.flag:
            kind = options[key.flag]
            assert isinstance(kind, click.Choice)
            assert isinstance(key.kind, configuration.Word)
            assert set(kind.choices) <= set(key.kind.words)


def test_the_defaults_of_the_settings_are_those_of_the_keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVD_CONFIG", os.devnull)
    told = settings.load(state="/s", socket="/k")
    fields = ("roots", "backend", "poll_seconds", "log_format", "log_level", "map_size", "max_records", "max_age")
    bare = settings.Settings(state="/s", socket="/k")
    assert [getattr(told, name) for name in fields] == [getattr(bare, name) for name in fields]


# ---- what is wrong


def test_all_mistakes_are_told_at_once_with_their_lines_and_the_nearest_name(file: Callable[[str], str]) -> None:
    path = file(
        'root = ["/x"]\nmax_records = 7\n\n[log]  # mine\nmax_record = 5000\n"max_age_days" = "7"\n'
        '[watch]\nbackend = "inotif"\npoll_seconds = nan\n[loggin]\nlevel = "info"\n[quite.other]\n'
    )
    found = read(path)
    assert [(mistake.line, mistake.key) for mistake in found.mistakes] == [
        (1, "root"),
        (2, "max_records"),
        (5, "log.max_record"),
        (6, "log.max_age_days"),
        (8, "watch.backend"),
        (9, "watch.poll_seconds"),
        (10, "loggin"),
        (12, "quite"),
    ]
    said = [mistake.message for mistake in found.mistakes]
    assert said[0].endswith("did you mean roots?")
    assert said[1].endswith("did you mean log.max_records?")
    assert said[2].endswith("did you mean log.max_records?")
    assert said[3] == 'log.max_age_days: wanted is an integer, 1 to 100000; there stands "7"'
    assert said[4] == 'watch.backend: wanted is auto, inotify, watchdog or poll; there stands "inotif"'
    assert said[6] == "loggin: there is no such section, did you mean [logging]?"
    assert said[7] == f"quite: there is no such section, there are {_SECTIONS}"
    assert found.mistakes[2].told(path) == f"{path}:5: {said[2]}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[logging]\nbogus = 1", "logging.bogus: there is no such key, [logging] has level, format"),
        ("[logging]\nlevl = 1", "logging.levl: there is no such key, did you mean logging.level?"),
        ("[store]\nlevel = 1", "store.level: there is no such key, did you mean logging.level?"),
        ("[logging]\nlogging = 1", "logging.logging: there is no such key, [logging] has level, format"),
        ("bogus = 1", f"bogus: there is no such key, there are roots, {_SECTIONS}"),
        ('log_levl = "info"', "log_levl: there is no such key, did you mean logging.level?"),
        ("watch-poll-second = 1", "watch-poll-second: there is no such key, did you mean watch.poll_seconds?"),
        ("[limits]\nmax_record = 1", "limits: there is no such section, did you mean log.max_records?"),
        ("[limits]\nbogus = 1", f"limits: there is no such section, there are {_SECTIONS}"),
    ],
)
def test_a_wrong_key_is_never_told_to_be_its_own_section(file: Callable[[str], str], content: str, said: str) -> None:
    (mistake,) = read(file(content)).mistakes
    assert mistake.message == said


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("log.max_record = 1", 1),
        ("\nlog . 'max_record' = 1", 2),
        ("log = { max_record = 1 }", None),
        ("[ log ]\nmax_record=1", 2),
        ("log = 3", 1),
        ("[[log]]\nmax_records = 1000", 1),
    ],
)
def test_a_line_is_told_where_it_can_be_seen(file: Callable[[str], str], content: str, line: int | None) -> None:
    (mistake,) = read(file(content)).mistakes
    assert mistake.line in {line, 1 if line is None else line}
    assert mistake.key.startswith("log")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[store", 1),
        (b"\na = ", 2),
        (b"\xff", None),
        (b"a = 1\r\na = 2\n", 2),
        (b"\0", 1),
        (b'a = "x\xe2\x80\xa8y', 1),  # no other sign than a newline ends a line
        (b"a = " + b"[" * 20_000, None),
        (b"a = " + b"1" * 20_000, None),
        (b"#" * (1024 * 1024 + 1), None),
    ],
)
def test_what_is_no_toml_is_one_mistake(file: Callable[[bytes], str], content: bytes, line: int | None) -> None:
    found = read(file(content))
    assert len(found.mistakes) == 1
    assert found.values == {}
    assert line is None or found.mistakes[0].line == line


@pytest.mark.parametrize("value", ["9223372036854775808", "999", "true", "1e6", "1_0"])
def test_an_integer_out_of_bounds_or_of_another_type_is_a_mistake(file: Callable[[str], str], value: str) -> None:
    assert [m.key for m in read(file(f"[log]\nmax_records = {value}")).mistakes] == ["log.max_records"]


@pytest.mark.parametrize("root", ["a/b", "", "./x", "~nobody-of-that-name/x", "~\u0448/x", "~\\u0000"])
def test_a_root_that_is_not_absolute_is_a_mistake(file: Callable[[str], str], root: str) -> None:
    assert [m.key for m in read(file(f'roots = ["/ok", "{root}"]')).mistakes] == ["roots"]


def test_what_is_right_stands_beside_what_is_wrong(file: Callable[[str], str]) -> None:
    found = read(file("[log]\nmax_records = 5000\nmax = 1\n[store]\nmap_gib = 2"))
    assert found.values == {"log.max_records": 5000, "store.map_gib": 2}
    assert len(found.mistakes) == 1


def test_a_file_that_is_not_there_says_nothing_unless_it_was_named(tmp_path: Any) -> None:
    path = os.path.join(tmp_path, "none.toml")
    assert read(path) == configuration.File(path, there=False)
    assert read(path, needed=True).mistakes
    assert not read(os.path.join(path, "below")).mistakes
    open(path, "w").close()
    assert not read(os.path.join(path, "below")).there


def test_a_pipe_does_not_hang_and_is_a_mistake(tmp_path: Any) -> None:
    path = os.path.join(tmp_path, "pipe")
    os.mkfifo(path)
    assert [mistake.message for mistake in read(path).mistakes] == ["it cannot be read: it is a pipe, not a file"]


def test_roots_are_bytes_of_the_file_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h\udcff")
    assert configuration.directory("~/\u00e4") == b"/h\xff/\xc3\xa4"
    assert configuration.directory("/\u00e4") == b"/\xc3\xa4"


def test_a_root_that_is_no_directory_is_a_mistake_where_it_is_looked_for(
    file: Callable[[str], str], tmp_path: Any
) -> None:
    found = configuration.with_roots(read(file(f'roots = ["{tmp_path}", "{tmp_path}/none", "/a\\u0000b"]')))
    assert len(found.mistakes) == 2
    assert f"{tmp_path}/none" in found.mistakes[0].message
    assert found.mistakes[0].line == 1


def test_sections_are_those_of_the_keys() -> None:
    assert SECTIONS == ("store", "log", "watch", "self_check", "logging")
