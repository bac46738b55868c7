"""Settings: every key of the configuration file, and clear errors for what cannot stand there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from provd import settings
from provd.core import errors
from provd.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENT: Final = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "configuration.md")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in (
        "PROVD_CONFIG",
        "CONFIGURATION_DIRECTORY",
        "PROVD_SOCKET",
        "PROVD_STATE_DIR",
        "RUNTIME_DIRECTORY",
        "STATE_DIRECTORY",
        "XDG_RUNTIME_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", os.path.join(tmp_path, "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.join(tmp_path, "config"))


@pytest.fixture
def config(tmp_path: Any) -> Callable[[str | bytes], str]:
    """Writes the configuration file and returns its path."""
    path = os.path.join(tmp_path, "config", "provd", "config.toml")

    def write(content: str | bytes) -> str:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_without_a_file_every_setting_has_its_default() -> None:
    told = load(state="/s", socket="/k")
    assert (told.map_size, told.max_records, told.max_age) == (64 * 1024**3, 10_000_000, 90 * 86400)
    assert (told.backend, told.log_format, told.log_level, told.roots) == ("auto", None, "info", ())
    assert {found.source for found in told.values.values()} == {"default"}
    assert told.poll_seconds == 10


def test_an_empty_file_says_nothing(config: Callable[[str], str]) -> None:
    config("")
    told = load(state="/s", socket="/k")
    assert {found.source for found in told.values.values()} == {"default"}


def test_a_file_may_set_every_key(config: Callable[[str], str]) -> None:
    log = "[log]\nmax_records = 5000\nmax_age_days = 7\n"
    watch = '[watch]\nbackend = "poll"\npoll_seconds = 0.5\n'
    config('roots = ["/a", "/\u00e4"]\n[store]\nmap_gib = 3\n' + log + watch)
    told = load(state="/s", socket="/k")
    assert told.roots == (b"/a", "/\u00e4".encode())
    assert (told.map_size, told.max_records, told.max_age) == (3 * 1024**3, 5000, 7 * 86400)
    assert (told.backend, told.poll_seconds) == ("poll", 0.5)
    assert load(state="/s", socket="/k", backend="auto").backend == "auto"


def test_a_backend_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(errors.InvalidParams, match="fanotify") as refused:
        load(state="/s", socket="/k", backend="fanotify")
    assert "inotify, watchdog or poll" in refused.value.message


def test_roots_of_the_command_line_join_those_of_the_file(config: Callable[[str], str]) -> None:
    config('roots = ["/a"]')
    assert load(state="/s", roots=(b"/b\xff",)).roots == (b"/a", b"/b\xff")


def test_the_command_line_says_the_rest() -> None:
    told = load(state="/s", socket="/k", backend="poll", log_format="json", log_level="error")
    assert (told.state, told.socket, told.backend, told.log_format) == ("/s", "/k", "poll", "json")
    assert (told.log_level, told.values["logging.level"].source) == ("error", "flag")


def test_an_option_wins_over_the_file_and_the_file_over_the_default(config: Callable[[str], str]) -> None:
    config('[logging]\nlevel = "debug"\nformat = "json"')
    told = load(state="/s", socket="/k", log_level="error")
    assert (told.log_level, told.log_format) == ("error", "json")
    assert {name: told.values[name].source for name in ("logging.level", "logging.format", "roots")} == {
        "logging.level": "flag",
        "logging.format": "file",
        "roots": "default",
    }


def test_settings_are_found_again_with_the_same_options(config: Callable[[str], str]) -> None:
    config("[log]\nmax_records = 5000")
    told = load(state="/s", socket="/k", roots=(b"/r",), log_level="error")
    config('roots = ["/a"]\n[log]\nmax_records = 6000')
    anew = settings.again(told)
    assert (anew.state, anew.socket, anew.log_level) == ("/s", "/k", "error")
    assert (anew.roots, anew.max_records) == ((b"/a", b"/r"), 6000)


def test_a_file_that_was_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVD_CONFIG", "/nowhere/at/all.toml")
    with pytest.raises(errors.InvalidParams, match=r"/nowhere/at/all\.toml"):
        load()


def test_every_mistake_is_in_the_refusal(config: Callable[[str], str]) -> None:
    path = config("[log]\nmax_record = 1\n[stor]\n")
    with pytest.raises(errors.InvalidParams) as caught:
        load()
    assert caught.value.message.startswith(f"{path}:2: log.max_record: there is no such key")
    assert "; line 3: stor: there is no such section" in caught.value.message


def test_places_are_absolute_without_the_command_line() -> None:
    told = load()
    assert os.path.isabs(told.state)
    assert os.path.isabs(told.socket)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("stor = 1", "stor"),
        ("[store]\nmap = 1", "map"),
        ("[log]\nmax_record = 1000", "max_record"),
        ("[logs]\n", "logs"),
        ("store = 3", "store"),
        ("[[store]]\nmap_gib = 1", "store"),
        ('[store]\nmap_gib = "64"', "map_gib"),
        ("[store]\nmap_gib = 1.5", "map_gib"),
        ("[store]\nmap_gib = true", "map_gib"),
        ("[store]\nmap_gib = 0", "map_gib"),
        ("[store]\nmap_gib = 65537", "map_gib"),
        ("[log]\nmax_records = 999", "max_records"),
        ("[log]\nmax_records = -1", "max_records"),
        ("[log]\nmax_age_days = 0", "max_age_days"),
        ("[log]\nmax_age_days = 2020-01-01", "max_age_days"),
        ('roots = "/a"', "roots"),
        ("roots = [1]", "roots"),
    ],
)
def test_what_cannot_stand_there_is_refused_by_file_and_key(
    config: Callable[[str], str], content: str, key: str
) -> None:
    path = config(content)
    with pytest.raises(errors.InvalidParams) as caught:
        load()
    assert path in caught.value.message
    assert key in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"[store", b"a = ", b"\xff", b"a = 1\na = 2", b'roots = ["\\ud800"]', b"\0"])
def test_what_is_no_toml_is_refused(config: Callable[[bytes], str], content: bytes) -> None:
    path = config(content)
    with pytest.raises(errors.InvalidParams) as caught:
        load()
    assert path in caught.value.message


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Any) -> None:
    os.makedirs(os.path.join(tmp_path, "config", "provd", "config.toml"))
    with pytest.raises(errors.InvalidParams):
        load()


def test_settings_that_use_other_values_say_the_same_in_every_field(config: Callable[[str], str]) -> None:
    config('[store]\nmap_gib = 3\n[logging]\nformat = "json"\nlevel = "error"\n[watch]\nbackend = "poll"\n')
    before = load(roots=(b"/r",))
    config("[log]\nmax_records = 1000\n")
    asked = load(roots=(b"/r",))
    assert settings.using(asked, asked.values) == asked
    assert settings.using(asked, before.values) == before
    mixed = settings.using(asked, {**asked.values, "store.map_gib": before.values["store.map_gib"]})
    assert (mixed.map_size, mixed.backend, mixed.max_records) == (3 * 1024**3, "auto", 1000)


def test_the_place_of_the_log_needs_no_current_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    loaded = settings.load(state="/s", log_file="/l")
    assert loaded.log_file == "/l"
    assert settings.again(loaded).log_file == "/l"
