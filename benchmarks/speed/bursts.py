"""Bursts of changes: each is prepared before anybody watches, and made while they do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import Final

LAST: Final = "last file of all"
GIT: Final = ("git", "-c", "user.name=b", "-c", "user.email=b@example.invalid", "-c", "gc.auto=0")


def write(path: str, content: str) -> None:
    """A file with this content."""
    with open(path, "w") as file:
        file.write(content)


def nothing(_root: str, _scale: float) -> None:
    """No preparation."""


def make_files(root: str, scale: float) -> None:
    """100 files of 4 KiB in each of many new directories."""
    directories = max(1, int(1000 * scale))
    for number in range(directories):
        os.makedirs(f"{root}/d{number}/sub")
        for file in range(100):
            write(f"{root}/d{number}/sub/f{file}", f"{number} {file}\n".ljust(4096, "."))


def git(root: str, *arguments: str) -> None:
    """One command of git."""
    subprocess.run([*GIT, *arguments], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def prepare_checkout(root: str, scale: float) -> None:
    """A repository with two branches that differ in every file."""
    files = max(40, int(20_000 * scale))
    git(root, "init", "-q", "-b", "one")
    for name in ("one", "two"):
        if name == "two":
            git(root, "checkout", "-q", "-b", "two")
        for number in range(files):
            os.makedirs(f"{root}/src/{number % 400}", exist_ok=True)
            write(f"{root}/src/{number % 400}/f{number}", f"{name} {number}\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", name)
    git(root, "checkout", "-q", "one")


def make_checkout(root: str, _: float) -> None:
    """The other branch is checked out."""
    git(root, "checkout", "-q", "two")


def make_packages(root: str, scale: float) -> None:
    """40 files in each of many packages, each renamed into its place."""
    for package in range(max(1, int(1250 * scale))):
        staging = f"{root}/node_modules/.staging-{package}"
        for part in range(4):
            os.makedirs(f"{staging}/lib/part{part}")
            for number in range(10):
                write(f"{staging}/lib/part{part}/file{number}.js", f"module {package} {part} {number}\n")
        os.makedirs(f"{root}/node_modules/@scope{package % 50}", exist_ok=True)
        os.rename(staging, f"{root}/node_modules/@scope{package % 50}/package{package}")


def make_removal(root: str, _: float) -> None:
    """All packages go."""
    subprocess.run(["rm", "-rf", f"{root}/node_modules"], check=True)


BURSTS: Final[dict[str, tuple[Callable[[str, float], None], Callable[[str, float], None]]]] = {
    "files": (nothing, make_files),
    "checkout": (prepare_checkout, make_checkout),
    "packages": (nothing, make_packages),
    "remove": (make_packages, make_removal),
}


def burst(make: Callable[[str, float], None], root: str, scale: float) -> float:
    """Makes it, then the last file; gives the seconds."""
    start = time.perf_counter()
    make(root, scale)
    write(f"{root}/{LAST}", "last\n")
    return time.perf_counter() - start
