"""Putting what cannot be read says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support import Workspace


def test_a_put_of_what_cannot_be_read_says_why_it_is_unproven(ws: Workspace) -> None:
    name = "x" * 300  # longer than a name may be, for root too
    answer = ws("entry.put", key="k", value=1, deps=[f"file:{name}"], as_of="put")
    assert answer["unproven"] == [f"file:{name}"]
    (item,) = answer["verdict"]["evidence"]
    assert item["why"] == "unproven"
    assert "unreadable" in item["detail"]
    assert "readable" in item["hint"]
