"""Calls that fail on the file of a running daemon's store, as a library between both has them fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from fault_ground import FULL, UNUSABLE, Failing, Fault, compiled, through

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = compiled(str(tmp_path_factory.mktemp("library")))
    if made is None:
        pytest.skip("no gcc here")
    return made


@pytest.fixture
def failing(library: str) -> Iterator[Failing]:
    daemon = Failing(library)
    try:
        yield daemon
    finally:
        daemon.close()


FAULTS = [("write", "EIO", UNUSABLE), ("write", "EDQUOT", FULL), ("torn", "EIO", UNUSABLE), ("sync", "EIO", UNUSABLE)]


def test_what_the_disk_does_not_take_is_refused_and_is_a_gap(failing: Failing) -> None:
    """Broken: a group whose commit failed is told as if it had not."""
    through(
        failing,
        *(
            Fault(partial(failing.fail, what, error), partial(_mend, failing, what), refusal)
            for what, error, refusal in FAULTS
        ),
    )


def _mend(failing: Failing, what: str) -> None:
    assert failing.failed, what
    failing.mend()
