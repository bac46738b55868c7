"""What the tests of seals have in common: where files may be sealed, and seals that are made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from reading_help import place
from sealing_help import LATER, Sealed, set_clock

from provd.disk import files, seal
from provd.disk.files import coarse_clock
from provd.filesystems import magic

Reader = Callable[[int, int], bytes]


@pytest.fixture
def home() -> Iterator[bytes]:
    """A directory on a file system on which files may be sealed."""
    with place() as path:
        if magic(path) not in seal.SEALABLE:
            pytest.skip("nothing can be sealed here")
        yield path


@pytest.fixture
def sealed(lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sealed]:
    """Seals at a moment at which all that a test writes has rested for long."""
    del lease_breaks_ignored
    set_clock(monkeypatch, coarse_clock() + LATER)
    made = Sealed()
    yield made
    made.close()


@pytest.fixture
def at_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something happen once, right after the content of a file was read."""

    def plan(act: Callable[[], object]) -> None:
        real: Reader = files.read_whole

        def reading(descriptor: int, size: int) -> bytes:
            monkeypatch.setattr(files, "read_whole", real)
            content = real(descriptor, size)
            act()
            return content

        monkeypatch.setattr(files, "read_whole", reading)

    return plan
