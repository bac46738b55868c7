"""The formal model (docs/model.md): as it is nothing false is answered, without any one of its rules something is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "model.md"
SWITCH = re.compile(r"\b(?:NO|LIMIT|ALSO)_[A-Z_]+\b")
ROW = re.compile(r"^\| `([A-Z_]+)` \|.*\| ([a-z, ]+) \| `(\w+)` \|$", re.MULTILINE)
WHOLE = re.compile(r"^\| \[(\w+)\]\(\S+\) \|.*\| ([\d,]+) \|$", re.MULTILINE)
MODELS = sorted(HERE.glob("*.pml"))
DEPTH = 1_000
"""Steps of the longest behaviour that is looked at; spin says where that was too few."""

MISSING = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
needs_spin = pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} here: apt-get install spin gcc")


def switches() -> Iterator[tuple[Path, str]]:
    """Each rule that can be taken away, with the model that has it."""
    for model in MODELS:
        for switch in sorted(set(SWITCH.findall(model.read_text()))):
            yield model, switch


def documented() -> dict[tuple[str, str], str]:
    """By model and switch, which assertion the document says is broken."""
    rows = ROW.findall(DOCUMENT.read_text())
    return {(model, switch): broken for switch, models, broken in rows for model in models.split(", ")}


def search(model: Path, place: Path, *switches: str, quick: bool = True) -> str:
    """What spin says after it went through all behaviours of a model, or found one that breaks an assertion."""
    shutil.copy(HERE / "world.h", place)
    shutil.copy(model, place)
    _ran(place, "spin", *(f"-D{switch}" for switch in switches), "-a", model.name)
    # A search that ends soon takes less time than to optimise it would.
    _ran(place, "gcc", "-O0" if quick else "-O1", "-w", "-DSAFETY", "-DNOCLAIM", "-o", "pan", "pan.c")
    told = _ran(place, "./pan", "-E", "-n", "-w20", f"-m{DEPTH}")
    assert "max search depth too small" not in told, told
    return told


def _ran(place: Path, *command: str) -> str:
    both = subprocess.STDOUT
    done = subprocess.run(command, check=False, cwd=place, stdout=subprocess.PIPE, stderr=both, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
    return done.stdout


@needs_spin
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_no_behaviour_of_the_whole_model_ends_in_a_false_answer(model: Path, tmp_path: Path) -> None:
    told = search(model, tmp_path, quick=False)
    assert "errors: 0" in told, told
    states = re.search(r"(\d\S*) states, stored", told)
    counted = dict(WHOLE.findall(DOCUMENT.read_text()))
    if "Version 6.5.2" in told and states is not None:  # others may count otherwise
        assert int(counted[model.stem].replace(",", "")) == int(float(states[1]))


@needs_spin
@pytest.mark.parametrize(
    ("model", "switch"), [pytest.param(*both, id=f"{both[0].stem}-{both[1]}") for both in switches()]
)
def test_without_one_rule_there_is_a_counterexample(model: Path, switch: str, tmp_path: Path) -> None:
    told = search(model, tmp_path, switch)
    broken = re.search(r"assertion violated\s+\W*(\w+)", told)
    assert broken is not None, f"{switch} matters to no behaviour:\n{told}"
    assert broken[1] == documented()[model.stem, switch]


def test_the_document_names_each_rule_of_each_model() -> None:
    assert set(documented()) == {(model.stem, switch) for model, switch in switches()}
