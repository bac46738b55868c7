"""What is done to the ways that lead to files: links, directories, mounts, and who may pass."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING, Final

from oracle_place import CONTENT, CURRENT, DIRECTORIES, FILES, LINKS, NAME, acting, mount, unmount

if TYPE_CHECKING:
    from oracle_place import Place

CHAIN: Final = 4
TARGETS: Final = 3
_MOVING: Final = ("d", "x", "a/b")
_ACROSS: Final = (("a/b/c", "d/e/c"), ("x/y", "d/y"))
_EXCHANGED: Final = (("a/b", "d/e"), ("d", "x"), ("a/b/c", "x/y"))
_BIND: Final = 4096


def _below(place: Place, name: str) -> str:
    return os.path.join(place.root, name)


# -- links


@acting("link retargeted", NAME)
def _link(place: Place) -> None:
    path = _below(place, f"{LINKS}/t{place.random.randrange(TARGETS)}")
    place.link(place.random.choice((place.file(), place.beside("target", TARGETS))), path)


@acting("chain retargeted", NAME)
def _chain(place: Place) -> None:
    """Each link of the chain leads to the next one or to a file; sometimes in a ring."""
    number = place.random.randrange(CHAIN)
    onward = place.random.choice((f"c{number + 1}", f"c{number + 1}", f"../{LINKS}/t0", f"../{CURRENT}/f0", "c0"))
    place.link(place.file() if number == CHAIN - 1 else onward, _below(place, f"{LINKS}/c{number}"))


@acting("a link's target outside", NAME)
def _target(place: Place) -> None:
    path = place.beside("target", TARGETS)
    if place.random.random() < 0.5:
        place.link(path, _below(place, f"{LINKS}/t{place.random.randrange(TARGETS)}"))
        place.nudge()
    if os.path.exists(path) and place.random.random() < 0.15:
        place.remove(path)
    else:
        place.write(path)


@acting("link to a directory retargeted", NAME)
def _current(place: Place) -> None:
    path = _below(place, CURRENT)
    target = place.random.choice((*DIRECTORIES, place.beside("gone", 2)))
    if place.random.random() < 0.5:
        place.link(target, path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + ".new")
    os.symlink(target, path + ".new")
    place.rename(path + ".new", path)


@acting("directory and link", NAME)
def _directory_and_link(place: Place) -> None:
    """A directory goes outside, and a link leads there, or to another; next time it is a directory again."""
    name = place.random.choice(("d", "x"))
    path, real = _below(place, name), os.path.join(place.outside, f"real-{name}")
    if os.path.islink(path):
        place.remove(path)
        if os.path.exists(real):
            place.rename(real, path)
    else:
        if os.path.exists(real):
            shutil.rmtree(real)
        place.rename(path, real)
        os.symlink(place.random.choice((real, _below(place, "a"))), path)


# -- directories


@acting("directories exchanged", NAME)
def _exchange(place: Place) -> None:
    one, other = place.random.choice(_EXCHANGED)
    place.exchange(_below(place, one), _below(place, other))


@acting("directory moved out", NAME)
def _out(place: Place) -> None:
    away = place.beside("gone", 2)
    if os.path.lexists(away):
        shutil.rmtree(away)
    place.rename(_below(place, place.random.choice(_MOVING)), away)


@acting("directory moved in", NAME)
def _in(place: Place) -> None:
    path, away = _below(place, place.random.choice(_MOVING)), place.beside("gone", 2)
    if not os.path.exists(away):
        os.mkdir(away)
        for number in range(FILES):
            place.write(os.path.join(away, f"f{number}"))
    if os.path.lexists(path):
        os.rename(path, os.path.join(place.outside, f"out{place.random.randrange(1 << 30)}"))
        place.nudge()
    place.touched.clear()
    place.rename(away, path)


@acting("directory moved across", NAME)
def _across(place: Place) -> None:
    ways = place.random.choice(_ACROSS)
    one, other = (_below(place, name) for name in (ways if os.path.exists(_below(place, ways[0])) else ways[::-1]))
    place.clear(other)
    place.rename(one, other)


@acting("directory removed and made again", NAME)
def _directory_again(place: Place) -> None:
    path, copy = place.directory(), os.path.join(place.outside, "copy")
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(path)
    _readable(place)  # else the copy would be barred, and nobody would know
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy, symlinks=True, ignore=_no_pipes)
    place.remove(path)
    place.nudge()
    if place.random.random() < 0.5:
        os.rename(copy, path)
        return
    os.mkdir(path)
    for name in os.listdir(copy):
        if os.path.isdir(os.path.join(copy, name)):
            os.rename(os.path.join(copy, name), os.path.join(path, name))
        else:
            place.write(os.path.join(path, name))


def _no_pipes(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if stat.S_ISFIFO(os.lstat(os.path.join(directory, name)).st_mode)]


@acting("directory made or removed", NAME)
def _made_or_removed(place: Place) -> None:
    """Those that moves and links have led elsewhere are made anew first: there is always something to do."""
    gone = [name for name in DIRECTORIES if not os.path.isdir(_below(place, name))]
    for name in gone[: place.random.randrange(1, 3)]:
        path = _below(place, name)
        place.clear(path)
        place.name(path)
        os.mkdir(path)
        for number in range(FILES):
            place.write(os.path.join(path, f"f{number}"))
    if not gone:
        path = os.path.join(place.directory(), f"f{FILES + place.random.randrange(2)}")
        if os.path.lexists(path):
            place.remove(path)
        else:
            place.name(path)
            os.mkdir(path)
            place.write(os.path.join(path, "f0"))


# -- mounts


@acting("by a bind mount", CONTENT, "mounts")
def _bind(place: Place) -> None:
    bound = os.path.join(place.outside, "bound")
    if place.bound and place.random.random() < 0.1:
        unmount(place.bound.pop())
    if not place.bound:
        os.makedirs(bound, exist_ok=True)
        mount(place.directory(), bound, None, _BIND)
        place.bound.append(bound)
        place.nudge()
    names = [name for name in os.listdir(bound) if stat.S_ISREG(os.lstat(os.path.join(bound, name)).st_mode)]
    if not names:
        unmount(place.bound.pop())
        return
    path = os.path.join(bound, place.random.choice(names))
    if place.random.random() < 0.7:
        place.overwrite(path)
    else:
        place.write(path)


@acting("mounted over", NAME, "mounts")
def _mounted_over(place: Place) -> None:
    _take_away(place)
    path = _below(place, place.random.choice(_MOVING))
    if os.path.islink(path):
        raise NotADirectoryError(path)
    place.touched.clear()
    place.name(path)
    if place.random.random() < 0.5:
        mount("oracle", path, "tmpfs", 0, "size=4m")
        place.mounted = path
        for number in range(FILES):
            place.write(os.path.join(path, f"f{number}"))
    else:
        mount(_below(place, "a/b/c"), path, None, _BIND)
        place.mounted = path


@acting("unmounted", NAME, "mounts")
def _unmounted(place: Place) -> None:
    if not place.mounted:
        _mounted_over(place)
        place.nudge()
        place.touched.clear()
    _take_away(place)


def _take_away(place: Place) -> None:
    if place.mounted:
        place.name(place.mounted)
        unmount(place.mounted)
        place.mounted = ""


# -- who may pass


@acting("made unreadable", NAME, "bars")
def _unreadable(place: Place) -> None:
    """A directory or a file; the daemon is one that modes keep out. What was barred is open again."""
    _readable(place)
    path = place.random.choice((place.present(), place.directory(), _below(place, "d/e"), _below(place, "x")))
    place.barred = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    place.content(place.barred)
    os.fchmod(place.barred, 0)


@acting("made readable again", NAME, "bars")
def _readable_again(place: Place) -> None:
    if place.barred < 0:
        _unreadable(place)
        place.nudge()
    _readable(place)


def _readable(place: Place) -> None:
    if place.barred >= 0:
        place.content(place.barred)
        os.fchmod(place.barred, 0o755)
        os.close(place.barred)
        place.barred = -1
