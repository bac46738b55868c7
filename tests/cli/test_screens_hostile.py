"""Names, keys, notes and values that would steer a terminal: a real daemon tells them on one, and none arrives raw."""

from __future__ import annotations

import os
import unicodedata
from typing import Final

from screens import COLOUR, Desk, desk

__all__ = ["desk"]

ODD: Final = "a\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202eb\x08"
HIDDEN: Final = {"Cc", "Cf", "Zl", "Zp"}
"""What Unicode says steers: controls, formats (those that turn the direction round), separators of lines."""
COMMANDS: Final = (
    ("ls",),
    ("ls", "--dirty"),
    ("ls", "--touching", ODD),
    ("status",),
    ("watch", "ls"),
    ("log",),
    ("log", "--json"),
    ("log", ODD),
    ("action", "ls"),
    ("audit",),
    ("export",),
    ("doctor",),
    ("check", ODD),
    ("check", ODD, "--json"),
    ("why", ODD),
    ("get", ODD, "--even-if", "dirty"),
    ("revalidate", ODD),
    ("exec", "--session", ODD, "--note", ODD, "--", "touch", ODD),
    ("exec", "--", ODD),
    ("put", ODD, "--value", ODD, "--dep", f"file:{ODD}", "--as-of-now"),
    ("put", ODD, "--value", ODD, "--dep", f"{ODD}:x", "--as-of-now"),
    ("put", ODD, "--value", ODD, "--fetched-at", ODD),
    ("forget", ODD),
    (ODD,),
    ("check", f"--{ODD}"),
)


def test_nothing_of_a_workspace_steers_a_terminal(desk: Desk) -> None:
    begun = desk.clock()
    place = os.path.join(desk.daemon.root, ODD)
    desk.save(f"{ODD}/{ODD}", "one\n")
    odd = {"value": ODD, "meta": {ODD: ODD}, "session": ODD}
    desk.put(ODD, desk.read(f"{ODD}/{ODD}"), {"dep": f"tree:{place}", "digest": "absent"}, **odd)
    desk.daemon.rpc("action.begin", writes=[f"object:{ODD}", f"tree:{place}"], session=ODD, turn=ODD, note=ODD)
    desk.save(f"{ODD}/{ODD}", "two\n")
    desk.daemon.rpc("root.add", path=place)
    for command in (*COMMANDS, ("since", begun)):
        seen = desk.look(*command)
        left = COLOUR.sub("", seen.text)
        assert left, command
        assert not {sign for sign in left if unicodedata.category(sign) in HIDDEN} - {"\n"}, (command, seen.text)
