"""status --prometheus: read back by the rules of the text format, written down here once more."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from doctoring import ROOT, ago, status
from fake_daemon import Cli, Refusal, cli, fake
from support import Workspace

from provd import __file__ as package
from provd import __version__
from provd.cli import main
from provd.cli.words import prometheus

__all__ = ["cli", "fake"]

Json = dict[str, Any]
Labels = frozenset[tuple[str, str]]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:{{(.*)}})? (\S+)")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Family(NamedTuple):
    """One metric: its type, and its samples by full name and labels."""

    kind: str
    samples: dict[tuple[str, Labels], float]


def parsed(text: str) -> dict[str, Family]:
    """The families by name; fails where the text breaks a rule of the format."""
    assert text.endswith("\n"), "the last line ends like all others"
    families: dict[str, Family] = {}
    helped = current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped, _, told = line[7:].partition(" ")
            assert told
            assert helped not in families, f"two groups of {helped}"
        elif line.startswith("# TYPE "):
            current, kind = line[7:].split(" ")
            assert current == helped, "HELP and TYPE stand together"
            assert kind in {"counter", "gauge", "histogram"}
            families[current] = Family(kind, {})
        else:
            _take(line, current, families[current])
    for name, family in families.items():
        assert family.samples, f"{name} has no sample"
        assert (family.kind == "counter") == name.endswith("_total"), name
        if family.kind == "histogram":
            _check_histogram(name, family)
    return families


def _take(line: str, current: str, family: Family) -> None:
    matched = _SAMPLE.fullmatch(line)
    assert matched, line
    name, inside, value = matched.groups()
    suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert name in {current + suffix for suffix in suffixes}, line
    labels = {}
    if inside is not None:
        at = 0
        while at < len(inside):
            label = _LABEL.match(inside, at)
            assert label, line
            assert label[1] not in labels, line
            labels[label[1]] = re.sub(r"\\[\\\"n]", lambda found: _ESCAPES[found[0]], label[2])
            at = label.end()
            assert inside[at : at + 1] in {",", ""}, line
            at += 1
    key = (name, frozenset(labels.items()))
    assert key not in family.samples, f"twice: {line}"
    family.samples[key] = math.inf if value == "+Inf" else float(value)


def _check_histogram(name: str, family: Family) -> None:
    buckets = [(dict(labels)["le"], n) for (full, labels), n in family.samples.items() if full == f"{name}_bucket"]
    bounds = [math.inf if le == "+Inf" else float(le) for le, _ in buckets]
    counts = [count for _, count in buckets]
    assert bounds == sorted(bounds)
    assert bounds[-1] == math.inf
    assert counts == sorted(counts), "each bucket has all that are smaller"
    assert family.samples[f"{name}_count", frozenset()] == counts[-1]
    assert (f"{name}_sum", frozenset()) in family.samples


def value(families: dict[str, Family], name: str, **labels: str) -> float:
    return families[name].samples[name, frozenset(labels.items())]


def told(cli: Cli, **fields: Any) -> dict[str, Family]:
    cli.fake.answers["daemon.status"] = status("/s", **fields)
    return parsed(cli("status", "--prometheus").out)


def test_a_status_as_metrics(cli: Cli) -> None:
    families = told(
        cli, started_at="1700000000000000000", audits={"count": 2, "files": 40, "mismatches": 1}, queue=3, drops=4
    )

    for name, expected in {
        "up": 1,
        "start_time_seconds": 1_700_000_000,
        "uptime_seconds": 93_784.5,
        "queue_length": 3,
        "losses_total": 4,
        "rescans_total": 1,
        "watches": 2,
        "files": 5,
        "log_records": 1234,
        "store_bytes": 98_304,
        "store_map_bytes": 64 * 1024**3,
        "store_reopened_total": 0,
        "open_fds": 29,
        "max_fds": 65_536,
        "audits_total": 2,
        "audit_mismatches_total": 1,
        "wall_clock_step_seconds": 0,
        "open_actions": 1,
    }.items():
        assert value(families, f"provd_{name}") == expected, name
    assert value(families, "provd_build_info", version=__version__, command_version=__version__) == 1
    assert value(families, "provd_verdicts_total", verdict="fresh") == 7
    assert value(families, "provd_entries", standing="revoked") == 1
    assert value(families, "provd_gaps_total", reason="started") == 1
    assert value(families, "provd_inotify_limit", limit="max_user_watches") == 8192
    assert 90 <= value(families, "provd_oldest_open_action_seconds") < 3600
    assert value(families, "provd_root_state", root="/r", state="watching") == 1
    assert value(families, "provd_root_state", root="/r", state="gone") == 0
    assert value(families, "provd_root_coverage", root="/r", backend="inotify") == 1
    assert value(families, "provd_root_files", root="/r") == 3
    histogram = families["provd_verdict_duration_seconds"].samples
    name = "provd_verdict_duration_seconds"
    assert histogram[f"{name}_bucket", frozenset({("le", "0.00025")})] == 8
    assert histogram[f"{name}_bucket", frozenset({("le", "+Inf")})] == 9
    assert histogram[f"{name}_sum", frozenset()] == 0.002


@pytest.mark.parametrize(("coverage", "expected"), [("whole", 1), ("partial", 0.5), ("none", 0)])
def test_coverage_is_a_number(cli: Cli, coverage: str, expected: float) -> None:
    root = ROOT | {"coverage": coverage, "uncovered": [{"path": "/r/a", "why": "w"}], "uncovered_more": 9}

    families = told(cli, roots=[root])

    assert value(families, "provd_root_coverage", root="/r", backend="inotify") == expected
    assert value(families, "provd_root_uncovered_places", root="/r") == 10


@pytest.mark.parametrize("path", ['/a "b"', "/back\\slash", "/line\nbreak", "/ümläut", "/a,b={c}"])
def test_any_name_of_a_root_can_be_a_label(cli: Cli, path: str) -> None:
    families = told(cli, roots=[ROOT | {"path": path}, ROOT])

    assert value(families, "provd_root_files", root=path) == 3
    assert value(families, "provd_root_files", root="/r") == 3


def test_two_roots_whose_names_look_alike_are_not_the_same_sample(cli: Cli) -> None:
    odd, like = {"b64": "L/8="}, "/\\xff"

    families = told(cli, roots=[ROOT | {"path": odd}, ROOT | {"path": like}])

    assert len(families["provd_root_files"].samples) == 2


def test_the_format_is_utf8_in_every_locale(cli: Cli) -> None:
    cli.fake.answers["daemon.status"] = status("/s", roots=[ROOT | {"path": "/ümläut"}])
    source = os.path.dirname(os.path.dirname(package))
    environment = {"PYTHONPATH": source, "PROVD_SOCKET": cli.fake.path, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "provd", "status", "--prometheus"]

    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)

    assert value(parsed(done.stdout.decode()), "provd_root_files", root="/ümläut") == 3


def test_what_a_daemon_does_not_tell_has_no_sample(cli: Cli) -> None:
    answers: list[Json] = [{}, {"verdicts": {"count": 3}}, {"roots": [], "actions": [], "gaps": []}]
    for answer in answers:
        cli.fake.answers["daemon.status"] = answer
        families = parsed(cli("status", "--prometheus").out)
        assert (
            {"provd_up", "provd_build_info"} <= set(families) <= {"provd_up", "provd_build_info", "provd_open_actions"}
        )


def test_without_a_daemon_it_is_down_and_the_code_is_3(cli: Cli) -> None:
    got = cli("status", "--prometheus", "--socket", "none", code=3)

    assert {name: family.samples for name, family in parsed(got.out).items()} == {
        "provd_up": {("provd_up", frozenset()): 0}
    }
    assert "no daemon" in got.err


def test_a_daemon_that_refuses_is_down_and_the_code_is_5(cli: Cli) -> None:
    cli.fake.answers["daemon.status"] = Refusal("busy", "it stops", "try again")

    got = cli("status", "--prometheus", code=5)

    assert list(parsed(got.out)) == ["provd_up"]
    assert got.err == "provd: it stops [busy]\n  next: provd doctor  # try again\n"
    assert cli("status", code=5).err == got.err, "the screen says the same of it"


def test_json_and_prometheus_exclude_each_other(cli: Cli) -> None:
    assert "exclude each other" in cli("status", "--prometheus", "--json", code=2).err


def test_every_metric_is_in_the_documents(cli: Cli) -> None:
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(here, "docs", "status.md"), encoding="utf-8") as file:
        explained = set(re.findall(r"`(provd_[a-z_]+)`", file.read()))

    assert set(told(cli)) == explained


def test_a_real_daemon(own: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    path = own.write("a")
    own.put("k", "file:a")
    own.put("l", "file:a")
    assert own.verdict("k") == "fresh"
    own.write("a", "another\n")
    found = own("entry.check", keys=["k", "l", "none"])["verdicts"]
    assert [verdict["verdict"] for verdict in found.values()] == ["dirty", "dirty", "unknown"]
    own("deps.check", deps=[own.dep(b"file:" + path)])
    own("action.begin", writes=["object:x"])

    assert main(["status", "--prometheus", "--socket", own.daemon.socket]) == 0

    families = parsed(capsys.readouterr().out)
    assert [value(families, "provd_verdicts_total", verdict=v) for v in ("fresh", "dirty", "unknown")] == [2, 2, 1]
    durations = families["provd_verdict_duration_seconds"].samples
    assert durations["provd_verdict_duration_seconds_count", frozenset()] == 3, "a question is one, for all its keys"
    assert durations["provd_verdict_duration_seconds_sum", frozenset()] > 0
    assert value(families, "provd_gaps_total", reason="started") == 1
    assert value(families, "provd_open_actions") == 1
    assert value(families, "provd_entries", standing="active") == 2
    assert value(families, "provd_up") == 1


def test_lines_do_not_depend_on_how_the_answer_is_ordered() -> None:
    answer = status("/s", actions=[{"id": 1, "at": ago(1)}])
    turned = dict(reversed(answer.items()))

    assert list(prometheus.text(answer, "1", 0)) == list(prometheus.text(turned, "1", 0))
