"""The words of this room: a service that is installed, what is to be installed, what went wrong.

Rule: values only; nothing here runs, reads or writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from provd.places import SOCKET_NAME

Kind = Literal["systemd-user", "systemd-system", "launchd"]


class ServiceError(Exception):
    """The service manager is not there, refused, or would overwrite what is not provd's; `hint` is the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Plan:
    """What a service is to run: the command's words, and the variables that it needs beside the manager's own."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> tuple[str, ...]:
        """The words that stand for `provd` in the command: those before `run`. Raises ValueError where none is that."""
        return self.command[: self.command.index("run")]


@dataclass(frozen=True)
class Service:
    """A service of provd as its manager knows it.

    `active` is the manager's word (`active`, `inactive`, `failed`, `activating`; `unknown` where it could not be
    asked); `enabled` whether it starts by itself; `pid` the running daemon; `linger` whether it outlives the last
    logout. None stands for what cannot be told, or has no meaning for this manager.
    """

    manager: Kind
    name: str
    file: str
    command: list[str]
    enabled: bool | None
    active: str
    pid: int | None
    linger: bool | None

    @property
    def runs(self) -> bool:
        """Whether the manager has it running, starting or waiting for its next try."""
        return self.active in {"active", "activating", "reloading", "deactivating"}

    @property
    def socket(self) -> str | None:
        """The socket that its command names; None where it takes the default one."""
        named = option(self.command, "--socket")
        if named is None and (state := option(self.command, "--state")) is not None:
            return os.path.join(state, SOCKET_NAME)
        return named


def option(command: list[str], name: str) -> str | None:
    """The first value of an option of a command line; None where it is not there."""
    return next(iter(options(command, name)), None)


def options(command: list[str], name: str) -> list[str]:
    """All values of an option of a command line, as two words or as one with `=`."""
    found = []
    for at, word in enumerate(command):
        if word == name and at + 1 < len(command):
            found.append(command[at + 1])
        elif word.startswith(name + "="):
            found.append(word.partition("=")[2])
    return found
