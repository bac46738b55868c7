"""start and stop where something else stands at the paths of provd's files: it is named, and nothing waits for it."""

from __future__ import annotations

import os

import pytest
from starting import Home, home

__all__ = ["home"]


@pytest.mark.parametrize("name", ["provd.log", "start.lock", "lock"])
@pytest.mark.parametrize("kind", ["a pipe (FIFO)", "a directory"])
def test_start_names_what_stands_in_its_way(home: Home, name: str, kind: str) -> None:
    os.makedirs(home.state)
    path = os.path.join(home.state, name)
    (os.mkdir if kind == "a directory" else os.mkfifo)(path)
    said = home.provd("start", "--timeout", "30", code=5).err
    assert f"{path} is {kind}" in said
    assert f"next: mv {path} {path}.other  # then provd makes its own" in said
    assert "no daemon" in home.provd("stop", code=3).err
    os.rename(path, path + ".other")
    home.provd("start")
