"""What is done to files by what was opened before: mappings, descriptors, other names of the same file."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import TYPE_CHECKING, Final

from oracle_eyes import content
from oracle_place import CONTENT, HARD, NAME, ODD, ODD_NAMES, acting

if TYPE_CHECKING:
    from oracle_place import Place

_MAPPINGS: Final = 5
_DESCRIPTORS: Final = 3
_LINKS: Final = 4


@acting("first store through a mapping", CONTENT)
def _map(place: Place) -> None:
    while len(place.mappings) >= _MAPPINGS:
        _unmap(place)
    path = place.present()
    descriptor = place.open(path)
    try:
        if not os.fstat(descriptor).st_size:
            return
        place.notable.append(path)
        mapping = mmap.mmap(descriptor, 1)
        place.mappings.append(mapping)
        place.mapped.append(content(os.fstat(descriptor)))
    finally:
        os.close(descriptor)
    mapping[:1] = place.letter()


@acting("store through a live mapping", CONTENT)
def _store(place: Place) -> None:
    """The first byte: no file is ever cut to nothing, and a store beyond the end would end the process."""
    if not place.mappings:
        _map(place)
        place.nudge()
    if not place.mappings:  # the file is empty, as a crash may leave it
        return
    number = place.random.randrange(len(place.mappings))
    place.touched.add(place.mapped[number])
    place.mappings[number][:1] = place.letter()
    if place.random.random() < 0.1:
        place.mappings[number].flush()


@acting("unmapped", CONTENT)
def _unmapped(place: Place) -> None:
    if not place.mappings:
        _map(place)
    if not place.mappings:
        return
    number = _unmap(place)
    place.touched.add(number)


def _unmap(place: Place) -> tuple[str | int, ...]:
    number = place.random.randrange(len(place.mappings))
    place.mappings.pop(number).close()
    return place.mapped.pop(number)


@acting("by a descriptor from before a rename", CONTENT)
def _descriptor(place: Place) -> None:
    if len(place.descriptors) < _DESCRIPTORS:
        path = place.present()
        descriptor = place.open(path)
        place.descriptors.append(descriptor)
        with contextlib.suppress(OSError):
            other = place.missing() if place.random.random() < 0.7 else place.beside("held", 2)
            os.rename(path, other)
            if other.startswith(place.root):
                place.notable.append(other)
        place.nudge()
    number = place.random.randrange(len(place.descriptors))
    descriptor = place.descriptors[number]
    place.content(descriptor)
    os.pwrite(descriptor, place.letter() * 10, 0)
    if place.random.random() < 0.4:
        os.close(place.descriptors.pop(number))


# -- second names


@acting("hard link made", NAME)
def _link(place: Place) -> None:
    inside = os.path.join(place.root, HARD, f"l{place.random.randrange(_LINKS)}")
    other = place.random.choice((inside, place.beside("hard", _LINKS)))
    place.clear(other)
    place.name(other)
    os.link(place.present(), other, follow_symlinks=False)


@acting("by a hard link inside", CONTENT)
def _by_link(place: Place) -> None:
    _by(place, os.path.join(place.root, HARD, f"l{place.random.randrange(_LINKS)}"))


@acting("by a hard link outside", CONTENT)
def _by_link_outside(place: Place) -> None:
    _by(place, place.beside("hard", _LINKS))


def _by(place: Place, other: str) -> None:
    """A link that is none any more is made anew."""
    if not os.path.exists(other) or os.stat(other).st_nlink < 2:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(other)
        path = place.present()
        os.link(path, other, follow_symlinks=False)
        place.notable.append(path)
        place.nudge()
    place.overwrite(other)


# -- odd names


@acting("odd name", NAME)
def _odd(place: Place) -> None:
    directory = os.path.join(place.root, ODD)
    path = os.path.join(directory, place.random.choice(ODD_NAMES))
    way = place.random.random()
    if not os.path.lexists(path) or way < 0.4:
        place.name(path)
        place.write(path)
    elif way < 0.6:
        place.rename(path, os.path.join(directory, place.random.choice(ODD_NAMES)))
    elif way < 0.8:
        place.overwrite(path)
    else:
        place.remove(path)
