"""Calls that fail on the file of a running daemon's store, as a library between both has them fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fault_ground import FULL, UNUSABLE, Failing, compiled, through

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


@pytest.mark.parametrize(
    ("what", "error", "refusal"),
    [
        ("write", "EIO", UNUSABLE),
        ("write", "EDQUOT", FULL),
        ("torn", "EIO", UNUSABLE),
        ("sync", "EIO", UNUSABLE),
    ],
)
def test_what_the_disk_does_not_take_is_refused_and_is_a_gap(
    failing: Failing, what: str, error: str, refusal: str
) -> None:
    """Broken: a group whose commit failed is told as if it had not."""
    through(failing, lambda: failing.fail(what, error), failing.mend, refusal)
    assert failing.failed
