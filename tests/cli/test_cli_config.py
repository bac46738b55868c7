"""config show, path, check and reload."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon, Refusal

from provd import configuration
from provd.configuration import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with FakeDaemon() as fake:
        monkeypatch.setenv("HOME", fake.home)
        yield Cli(fake, capsys, monkeypatch)


def _write(cli: Cli, content: str) -> str:
    path = os.path.join(cli.fake.home, ".config", "provd", "config.toml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path


def _no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVD_SOCKET", "/nowhere/provd.sock")


def _told(cli: Cli, **other: Any) -> dict[str, Any]:
    """What a daemon says that uses the defaults but for these."""
    path = os.path.join(cli.fake.home, ".config", "provd", "config.toml")
    values = {name: {"value": key.default, "from": "default"} for name, key in KEYS.items()}
    return {"path": path, "state": "/s", "socket": cli.fake.path, "settings": values | other}


def test_path_is_where_the_file_would_be(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("config", "path").out == f"{cli.fake.home}/.config/provd/config.toml\n"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert cli("config", "path").out == "/x/provd/config.toml\n"
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", "/etc/provd")
    assert cli("config", "path").out == "/etc/provd/config.toml\n"
    monkeypatch.setenv("PROVD_CONFIG", "/p.toml")
    assert cli("config", "path", "--json").json == {"path": "/p.toml", "from": "$PROVD_CONFIG", "there": False}


def test_init_writes_a_file_that_says_nothing_yet_and_leaves_one_alone(cli: Cli) -> None:
    path = f"{cli.fake.home}/.config/provd/config.toml"

    assert path in cli("config", "init").err
    assert cli("config", "check").err == f"{path}: nothing wrong\n"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert configuration.read(path).values == {}
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^#(?! )", "", text))
    assert configuration.read(path).values == {name: key.default for name, key in KEYS.items()}
    assert "left alone" in cli("config", "init", code=5).err


def test_check_needs_no_daemon_and_tells_each_mistake_on_a_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_daemon(monkeypatch)
    assert "not there: the defaults hold" in cli("config", "check").err
    path = _write(cli, "[log]\nmax_record = 1\nmax_age_days = 0\n")
    got = cli("config", "check", code=1)
    assert [line.partition(path)[2] for line in got.out.splitlines()] == [
        ":2: log.max_record: there is no such key, did you mean log.max_records?",
        ":3: log.max_age_days: wanted is an integer, 1 to 100000; there stands 0",
    ]
    assert got.err == f"  next: provd config show  # lists the keys: correct {path}, then check it again\n"
    told = cli("config", "check", "--json", code=1).json
    assert [mistake["line"] for mistake in told["mistakes"]] == [2, 3]
    _write(cli, "[log]\nmax_records = 1000\n")
    got = cli("config", "check")
    assert (got.out, got.err) == ("", f"{path}: nothing wrong\n")


def test_a_quiet_check_says_mistakes_and_nothing_else(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit runs it at each reload, and whatever it says is logged as an error."""
    _no_daemon(monkeypatch)
    absent = cli("config", "check", "--quiet")
    path = _write(cli, "[log]\nmax_records = 1000\n")
    right = cli("config", "check", "-q")
    _write(cli, "[log]\nmax = 1\n")
    wrong = cli("config", "check", "-q", code=1)

    assert (absent.out, absent.err, right.out, right.err, wrong.err) == ("", "", "", "", "")
    assert f"{path}:2: log.max: there is no such key" in wrong.out


def test_check_finds_a_root_that_is_not_there(cli: Cli) -> None:
    _write(cli, '\nroots = ["~", "~/none"]')
    assert ":2: roots: ~/none is no directory" in cli("config", "check", code=1).out


def test_check_takes_any_file_which_must_be_there(cli: Cli) -> None:
    with open("mine.toml", "w", encoding="utf-8") as file:
        file.write("a = 1")
    assert cli("config", "check", "mine.toml", code=1).out.endswith(
        "mine.toml:1: a: there is no such key, there are roots, [store], [log], [watch], [self_check], [logging]\n"
    )
    assert "cannot be read" in cli("config", "check", "none.toml", code=1).out


def test_show_without_a_daemon_tells_values_and_places_with_their_reasons(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_daemon(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", "/xs")
    _write(cli, "[log]\nmax_records = 5000")
    lines = cli("config", "show").out.splitlines()
    assert lines[1:3] == ["state   /xs/provd  ($XDG_STATE_HOME)", "socket  /nowhere/provd.sock  ($PROVD_SOCKET)"]
    rows = [line.split() for line in lines[4 : 4 + len(KEYS)]]
    assert [row[0] for row in rows] == list(KEYS)
    assert ["log.max_records", "5000", "file"] in rows
    assert ["watch.backend", '"auto"', "default", "(or", "--backend)"] in rows
    assert lines[-1] == "daemon  none answers: this is for the next one"
    told = cli("config", "show", "--json").json
    assert told["settings"]["log.max_records"] == {"value": 5000, "from": "file", "flag": None, "reloads": True}
    assert told["daemon"] is None


def test_show_tells_what_a_daemon_uses_that_is_not_the_same(cli: Cli) -> None:
    cli.fake.answers["daemon.config"] = _told(cli)
    assert cli("config", "show").out.endswith(f"daemon  pid {HELLO['pid']} uses the same\n")
    flagged = {"value": "poll", "from": "flag"}
    cli.fake.answers["daemon.config"] = _told(
        cli, **{"log.max_records": {"value": 9000, "from": "file"}, "watch.backend": flagged}
    )
    shown = cli("config", "show").out
    assert "  log.max_records = 9000  next: provd config reload\n" in shown
    assert 'default; the daemon has "poll" by --backend\n' in shown
    assert cli("config", "show", "--json").json["daemon"]["differs"] == {
        "log.max_records": {"value": 9000, "next": "reload"}
    }
    cli.fake.answers["daemon.config"] = _told(cli) | {"path": "/etc/other.toml"}
    assert cli("config", "show").out.endswith("reads another file: /etc/other.toml\n")


def test_with_mistakes_the_file_is_corrected_before_it_is_taken(cli: Cli) -> None:
    used = _told(cli, **{"log.max_records": {"value": 9000, "from": "file"}})
    _write(cli, 'roots = ["/nowhere/at/all"]')
    cli.fake.answers["daemon.config"] = used

    assert "  log.max_records = 9000  next: provd config check\n" in cli("config", "show", code=1).out


def test_reload_of_a_file_with_a_root_that_is_not_there_is_about_the_file(cli: Cli) -> None:
    cli.fake.answers["daemon.reload"] = Refusal(
        "root.missing", "/c.toml:1: roots: no", "provd config check  # lists it"
    )

    got = cli("config", "reload", code=5)

    assert got.err == "provd: /c.toml:1: roots: no [root.missing]\n  next: provd config check  # lists it\n"


def test_show_beside_an_older_daemon(cli: Cli) -> None:
    cli.fake.answers["daemon.config"] = Refusal("method", "there is no method 'daemon.config'")
    assert cli("config", "show").out.endswith(
        "daemon  does not tell its settings: there is no method 'daemon.config'\n"
    )


def test_show_of_a_wrong_file_tells_what_holds_and_what_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_daemon(monkeypatch)
    _write(cli, "[log]\nmax_records = 5000\nmax = 1")
    got = cli("config", "show", code=1)
    assert "log.max_records     5000" in got.out
    assert "config.toml:3: log.max: there is no such key" in got.err
    assert "\n  next: provd config check  # when " in got.err


def test_reload(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(cli, "")
    answer = {"path": path, "changed": ["roots", "log.max_records"], "restart": ["store.map_gib"]}
    cli.fake.answers["daemon.reload"] = answer
    got = cli("config", "reload")
    assert got.out == ""
    assert got.err == (
        f"reloaded {path}: roots, log.max_records changed\nprovd: needs a restart (provd restart): store.map_gib\n"
    )
    assert cli("config", "reload", "--json").json == answer
    cli.fake.answers["daemon.reload"] = {"path": path, "changed": [], "restart": []}
    assert cli("config", "reload").err == f"reloaded {path}: nothing changed\n"
    os.unlink(path)
    assert cli("config", "reload").err == f"{path} is not there, the defaults hold: nothing changed\n"
    cli.fake.answers["daemon.reload"] = Refusal("params", "wrong", "correct it")
    cli("config", "reload", code=5)
    _no_daemon(monkeypatch)
    cli("config", "reload", code=3)
