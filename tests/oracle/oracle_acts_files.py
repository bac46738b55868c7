"""What is done to single files: each kind is a row of the table."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from oracle_place import COLLAPSE, CONTENT, NAME, PAGE, SIZES, acting, allocate, reflink

if TYPE_CHECKING:
    from collections.abc import Callable

    from oracle_place import Place

_KEEP, _PUNCH, _ZERO, _INSERT = 1, 2, 16, 32
_SPARSE: Final = 256 * 1024
_BURST: Final = 300


@acting("in place", CONTENT)
def _in_place(place: Place) -> None:
    place.overwrite(place.present())


@acting("cut and written", CONTENT)
def _cut(place: Place) -> None:
    place.write(place.present())


@acting("append", CONTENT)
def _append(place: Place) -> None:
    descriptor = place.open(place.present(), os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(descriptor).st_size > 4 * PAGE:
            os.ftruncate(descriptor, 10)
        os.write(descriptor, b"z")
    finally:
        os.close(descriptor)


@acting("truncate", CONTENT)
def _truncate(place: Place) -> None:
    path = place.present()
    place.content(path)
    os.truncate(path, place.random.choice((3, 5, 10, 5000)))


@acting("mtime restored", CONTENT)
def _restored(place: Place) -> None:
    path = place.present()
    status = os.stat(path)
    place.overwrite(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@acting("same size, same tick", CONTENT)
def _same_tick(place: Place) -> None:
    path = place.present()
    place.overwrite(path)
    place.nudge()
    place.overwrite(path)


@acting("mode and times", CONTENT)
def _mode(place: Place) -> None:
    path = place.present()
    place.content(path)
    os.chmod(path, place.random.choice((0o644, 0o600)))
    if place.random.random() < 0.5:
        os.utime(path)


@acting("sparse", CONTENT)
def _sparse(place: Place) -> None:
    descriptor = place.open(place.present())
    try:
        os.ftruncate(descriptor, place.random.choice((20, _SPARSE)))
        if place.random.random() < 0.5:
            os.pwrite(descriptor, place.letter(), os.fstat(descriptor).st_size - 1)
    finally:
        os.close(descriptor)


def _allocating(name: str, mode: int) -> Callable[[Place], None]:
    @acting(f"fallocate {name}", CONTENT, "ranges" if mode in {COLLAPSE, _INSERT} else "")
    def act(place: Place) -> None:
        descriptor = place.open(place.present())
        try:
            if os.fstat(descriptor).st_size < 3 * PAGE:
                os.pwrite(descriptor, b"".join(place.letter() * PAGE for _ in range(4)), 0)
            place.nudge()
            start = PAGE if mode & ~_KEEP else os.fstat(descriptor).st_size
            allocate(descriptor, mode, start, PAGE)
            if os.fstat(descriptor).st_size > 16 * PAGE:
                os.ftruncate(descriptor, 10)
        finally:
            os.close(descriptor)

    return act


for _name, _mode_ in (
    ("longer", 0),
    ("keeping the size", _KEEP),
    ("punch", _PUNCH | _KEEP),
    ("zero", _ZERO),
    ("collapse", COLLAPSE),
    ("insert", _INSERT),
):
    _allocating(_name, _mode_)


@acting("copy_file_range", CONTENT)
def _copy_range(place: Place) -> None:
    source = os.open(place.present(), os.O_RDONLY | os.O_NONBLOCK)
    try:
        target = place.open(place.present())
        try:
            os.copy_file_range(source, target, 5, 0, place.random.choice((0, 3)))
        finally:
            os.close(target)
    finally:
        os.close(source)


@acting("reflink", CONTENT, "reflinks")
def _reflink(place: Place) -> None:
    source = os.open(place.present(), os.O_RDONLY | os.O_NONBLOCK)
    try:
        target = place.open(place.present())
        try:
            reflink(source, target)
        finally:
            os.close(target)
    finally:
        os.close(source)


@acting("burst", NAME)
def _burst(place: Place) -> None:
    for number in range(_BURST):
        if number % 3 == 0:
            path = place.missing()
            if not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    place.write(path)
            continue
        path = place.present()
        with contextlib.suppress(OSError):
            if number % 10 == 1:
                place.remove(path)
            else:
                place.overwrite(path)


# -- names of files


@acting("atomic save", NAME)
def _atomic(place: Place) -> None:
    path = place.file()
    aside = path + ".new"
    place.write(aside)
    if place.random.random() < 0.5:
        place.nudge()
    place.rename(aside, path)


@acting("renamed", NAME)
def _renamed(place: Place) -> None:
    place.rename(place.present(), place.file())


@acting("exchanged", NAME)
def _exchanged(place: Place) -> None:
    place.exchange(place.present(), place.present())


@acting("removed", NAME)
def _removed(place: Place) -> None:
    place.remove(place.present())


@acting("created", NAME)
def _created(place: Place) -> None:
    path = place.missing()
    if not os.path.lexists(path):
        place.write(path)


@acting("removed and made again", NAME)
def _again(place: Place) -> None:
    path = place.present()
    descriptor = place.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, max(SIZES))
    finally:
        os.close(descriptor)
    place.remove(path)
    if place.random.random() < 0.3:
        place.nudge()
    place.write(path, data if place.random.random() < 0.5 else None)


@acting("O_TMPFILE and linkat", NAME)
def _nameless(place: Place) -> None:
    path = place.file()
    descriptor = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o644)
    try:
        os.write(descriptor, place.some_bytes())
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(path)
        place.name(path)
        # With a descriptor (which an absolute path needs not) it is linkat(2), the call that can follow links.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
        if place.random.random() < 0.3:
            place.nudge()
            place.content(descriptor)
            os.pwrite(descriptor, place.letter(), 0)
    finally:
        os.close(descriptor)


@acting("type changed", NAME)
def _type(place: Place) -> None:
    path = place.file()
    was = os.lstat(path).st_mode if os.path.lexists(path) else 0
    place.clear(path)
    if place.random.random() < 0.2:
        place.nudge()
    place.name(path)
    if not stat.S_ISREG(was) and place.random.random() < 0.7:
        place.write(path)
    elif place.random.random() < 0.6:
        os.mkdir(path)
        if place.random.random() < 0.5:
            place.write(os.path.join(path, "f0"))
    else:
        os.mkfifo(path)
