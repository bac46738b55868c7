"""The wire as a document shows it: requests are sent to a real daemon, and its answers have the shape that is shown.

Rule: of an answer the document promises its keys, the types of its values and its words; numbers, clocks and digests
are examples. `"...": "..."` anywhere in a line says that its objects may have more keys; `…` in a string stands for
anything. What an answer called by an example (a clock, an id, a version) is put into later requests in its stead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Final

from doc_transcript import like, normal
from support import Json, Rpc

_MORE: Final = "..."
_SHORTENED: Final = re.compile("[0-9a-f]+…")
_CALLED: Final = {"id", "version", "based_on", "subscription", "seq", "of"}


def values(text: str) -> list[Json]:
    """The JSON values of a block, one after the other; raises ValueError where it is none."""
    found: list[Json] = []
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def is_wire(value: Json) -> bool:
    """Whether this is a line of the wire."""
    return isinstance(value, dict) and "jsonrpc" in value


class Exchange:
    """One connection, on which the requests of a block are sent and its answers compared."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._sent: dict[Json, int] = {}
        self._called: dict[tuple[str, str], Json] = {}
        self._abbreviated = False

    def take(self, line: Json) -> None:
        """Send a request, or compare an answer or a notification; raises AssertionError where they differ."""
        self._abbreviated = f'"{_MORE}"' in json.dumps(line)
        if "method" in line and "id" in line:
            params = self._filled(line.get("params", {}), "")
            self._sent[line["id"]] = self._rpc.send(line["method"], **params)
        elif "method" in line:
            note = self._rpc.note()
            while note["method"] != line["method"]:
                note = self._rpc.note()
            self._compare(line["params"], note["params"], line["method"])
        else:
            assert line["id"] in self._sent, f"an answer to nothing that was asked: {line}"
            answer = self._rpc.answer(self._sent.pop(line["id"]))
            self._compare({**line, "id": answer["id"]}, answer, "answer")

    def close(self) -> None:
        """The connection ends."""
        self._rpc.close()

    def finish(self) -> None:
        """Every request that is shown has its answer shown."""
        assert not self._sent, f"no answer is shown to requests {list(self._sent)}"

    def _filled(self, value: Json, key: str) -> Json:
        """A request's parameters with what the daemon called by the examples."""
        if isinstance(value, dict):
            filled = {k: self._filled(v, k) for k, v in value.items()}
            if "dep" in value and "…" in str(filled.get("digest", "")):
                filled["digest"] = self._digest(filled["dep"])
            return filled
        if isinstance(value, list):
            return [self._filled(item, key) for item in value]
        kind, name = _name(key, value)
        return self._called.get((kind, name), value) if kind in {"position", "string"} else value

    def _digest(self, dependency: str) -> str:
        """What a client that read this file would give; relative ones lie in the daemon's only root."""
        (root,) = self._rpc("root.list")["roots"]
        with open(os.path.join(root["path"], dependency.removeprefix("file:")), "rb") as file:
            return "sha256:" + hashlib.sha256(file.read()).hexdigest()

    def _compare(self, shown: Json, real: Json, where: str) -> None:
        """`real` has the shape of `shown`."""
        if isinstance(shown, dict):
            assert isinstance(real, dict), f"{where}: {shown!r} is shown and {real!r} came"
            keys = set(shown) - {_MORE}
            assert keys <= set(real), f"{where}: {sorted(keys - set(real))} did not come: {real}"
            assert self._abbreviated or keys == set(real), f"{where}: {sorted(set(real) - keys)} is not shown"
            for key in keys:
                self._called[_name(key, shown[key])] = real[key]
                self._compare(shown[key], real[key], f"{where}.{key}")
        elif isinstance(shown, list):
            assert isinstance(real, list), f"{where}: {shown!r} is shown and {real!r} came"
            items = [item for item in shown if item != _MORE]
            assert len(items) == len(real) or (_MORE in shown and len(items) < len(real)), f"{where}: {real}"
            for at, item in enumerate(items):
                self._compare(item, real[at], f"{where}[{at}]")
        elif isinstance(shown, str):
            assert isinstance(real, str), f"{where}: {shown!r} is shown and {real!r} came"
            assert _alike(shown, real), f"{where}: {shown!r} is shown and {real!r} came"
        else:
            same_type = type(shown) is type(real) or (isinstance(shown, int | float) and isinstance(real, int | float))
            assert same_type, f"{where}: {shown!r} is shown and {real!r} came"
            assert not isinstance(shown, bool) or shown == real, f"{where}: {shown!r} is shown and {real!r} came"


def _alike(shown: str, real: str) -> bool:
    """Whether a string is the one shown, but for what differs from run to run."""
    if shown.isdecimal() or _SHORTENED.fullmatch(shown):
        return set(real) <= set("0123456789" if shown.isdecimal() else "0123456789abcdef")
    return like(shown).fullmatch(normal(real)) is not None


def _name(key: str, value: Json) -> tuple[str, str]:
    """What an example is remembered by: a position by its number, a string by itself, all else by its key."""
    if isinstance(value, int) and key in _CALLED:
        return "position", str(value)
    return ("string", value) if isinstance(value, str) else (f"none of {key}", json.dumps(value))
