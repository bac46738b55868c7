"""Entries as a file, and back: export, import.

Rule: lines go through as they are, to the letter, and no more of them than fit one request are ever held. What was
not carried over is told by its line, and a file that was cut short is told as such.
"""

from __future__ import annotations

import itertools
import json
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

import click

from provd import __version__, codes
from provd.cli import output, steps
from provd.cli.command import (
    WORK_PATIENCE,
    Command,
    Failure,
    Usage,
    connected,
    json_option,
    root_option,
    scope_option,
    unreadable,
)
from provd.cli.given import exact, names
from provd.cli.words import hints
from provd.client import MAX_LINE, Client, ProvdUnreachable, RpcError, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Place

Json = dict[str, Any]

_HEADER: Final = "provd-export"
_END: Final = "provd-export-end"
_FORMAT: Final = 1
_LINES: Final = 500
_BYTES: Final = 4 * 1024 * 1024
"""Lines and bytes of one request; a longer line is a request of its own."""
_COMPRESSED: Final = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
}
"""How a compressed file begins, what it is, and what undoes it."""
_TOLD: Final = 20
_LISTED: Final = 1000
"""Refused lines that are told on stderr, and by --json; more are counted."""
_OUTCOMES: Final = ("added", "archived", "replaced", "late", "unchanged")
_ONE_BY_ONE: Final = frozenset({"parse", "params", "request", "limit"})
"""What a daemon says of a request that holds a line which is no JSON to it."""
_ENTRIES: Final = '"entries":['


class LineClient(Client):
    """A client that sends lines as they are, and knows those of an answer as they came."""

    def __init__(self, path: str | None = None, timeout: float | None = WORK_PATIENCE) -> None:
        super().__init__(path, timeout)
        self._came = b""

    def encode(self, request: Json) -> str:
        """The request; `entries` are lines of JSON that need no encoding."""
        params = dict(request["params"])
        lines = params.pop("entries", None)
        text = super().encode({**request, "params": params})
        if lines is None:
            return text
        return f"{text[:-2]}{',' if params else ''}{_ENTRIES}{','.join(lines)}]}}}}"

    def decode(self, line: bytes) -> Any:
        """The answer, with its numbers as text where Python has none for them."""
        self._came = line
        return exact.value(line.decode())

    def lines(self) -> Iterator[str]:
        """The entries of the last answer, each as it came."""
        text = self._came.decode()
        at = text.index(_ENTRIES) + len(_ENTRIES)
        while text[at] != "]":
            end = exact.JSON.raw_decode(text, at)[1]
            yield text[at:end]
            at = end + (text[end] == ",")


@click.command(
    cls=Command,
    examples=(
        "provd export > entries.ndjson            # of the root around here",
        "provd export --all | gzip > all.ndjson.gz",
    ),
)
@root_option
@scope_option
@click.option("--all", "everything", is_flag=True, help="The entries of all roots and scopes.")
@click.option("--json", "lines", is_flag=True, help="Lines of JSON, which is what it writes anyhow.")
@connected
def export(root: str | None, scope: str | None, everything: bool, lines: bool, at: Place) -> int:  # noqa: ARG001
    """Write entries and their archive as lines of JSON, values in the clear; provd import takes them."""
    if everything and (root is not None or scope is not None):
        raise Usage("--all excludes --root and --scope", "give one of them")
    where = names.Scope(root, scope)
    count, left_out = 0, 0
    with at.connect(WORK_PATIENCE, LineClient) as client:
        asked: Json = {"all": True} if everything else where.params(client)
        hello = client.hello()
        page = client.call("entry.export", **asked)
        about = {word: page[word] for word in ("clock", "root", "scope") if word in page}
        write(json.dumps({_HEADER: _FORMAT, "version": hello["version"], "log": hello["log"], **about}))
        while True:
            for text in client.lines():
                write(text)
                count += 1
            left_out += _missing(page)
            if (after := page.get("after")) is None:
                break
            page = client.call("entry.export", **asked, after=after)
    write(json.dumps({_END: count}))
    if left_out:
        output.complain(
            f"{output.count(left_out, 'entry was', 'entries were')} left out", "provd ls  # keep paths to such values"
        )
        return codes.REFUSED
    return 0


def write(text: str) -> None:
    """One line of the file, in UTF-8 whatever the locale is; a terminal gets it as any other JSON."""
    if sys.stdout.isatty():
        output.line_written(text)
        return
    sys.stdout.write("")  # a stdout that was closed says so
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode() + b"\n")


def _missing(page: Json) -> int:
    """Tells what did not fit a line; returns how many."""
    left_out = page.get("left_out") or []
    for one in left_out:
        output.warn(f"left out: {one.get('key')!r} version {one.get('version')}: {one.get('why')}")
    return len(left_out)


@click.command(
    "import",
    cls=Command,
    examples=(
        "provd import entries.ndjson",
        "gunzip -c all.ndjson.gz | provd import -",
        "provd import entries.ndjson --as-root ~/moved     # of a directory that moved",
    ),
)
@click.argument("file", metavar="FILE", required=False)
@click.option("--as-root", metavar="DIR", help="The root that was exported is this directory here.")
@json_option
@connected
def import_(file: str | None, as_root: str | None, as_json: bool, at: Place) -> int:
    """Take in what provd export wrote; - is stdin. The same file again changes nothing.

    Each line stands alone: what cannot be taken is told by its number, and the others are. What is fresh here stays.
    """
    if file is None:
        again = "provd import -" if as_root is None else f"provd import --as-root {output.quoted(as_root)} -"
        raise Usage("Missing argument 'FILE'.", steps.because(again, "takes in what comes on stdin"))
    with _opened(file) as source, at.connect(WORK_PATIENCE, LineClient) as client:
        taking = _Taking(client, source, file)
        try:
            taking.header(as_root)
            taking.run()
        except OSError as error:
            if taking.begun:
                _print_taken(taking, as_json)
            raise unreadable("", file, error) from None
        except (RpcError, ProvdUnreachable) as error:
            if isinstance(error, RpcError) and not taking.begun:
                raise
            _print_taken(taking, as_json)
            raise taking.ended_early(error) from None
    _print_taken(taking, as_json)
    return taking.end()


def _print_taken(taking: _Taking, as_json: bool) -> None:
    if as_json:
        output.line_json(taking.told())
    else:
        output.line(", ".join(f"{taking.counts[word]} {word}" for word in _OUTCOMES))


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        source = open(file, "rb")  # noqa: SIM115  what goes wrong later is not about opening
    except OSError as error:
        raise unreadable("", file, error) from None
    with source:
        yield source


class _Taking:
    """One file on its way into the daemon."""

    def __init__(self, client: LineClient, source: IO[bytes], file: str) -> None:
        self._client = client
        self._source = source
        self._file = file
        self._asked: Json = {}
        self._numbers = itertools.count(1)
        self._ended: int | None = None
        self._read = 0
        self.counts = dict.fromkeys(_OUTCOMES, 0)
        self.refused: list[Json] = []
        self._refused = 0

    def header(self, as_root: str | None) -> None:
        """Reads the first line; raises Failure where it is no export's, Usage where it has no root to move."""
        raw = self._source.readline(MAX_LINE + 1)
        next(self._numbers)
        try:
            header = exact.value(raw.decode())
        except ValueError:
            header = None
        for magic, (kind, program) in _COMPRESSED.items():
            if raw.startswith(magic):
                moved = "" if as_root is None else f" --as-root {output.quoted(as_root)}"
                if self._file == "-":
                    raise Failure(
                        f"stdin is compressed ({kind})", f"provd import --help  # pipe it through {program} -c first"
                    )
                undone = f"{program} -c {output.quoted(self._file)} | provd import -{moved}"
                raise Failure(f"{self._file} is compressed ({kind})", undone)
        if not isinstance(header, dict) or _HEADER not in header:
            raise Failure(
                f"{self._file} is no export of provd: its first line is not the header",
                "provd export --help  # how one is made",
            )
        if header[_HEADER] != _FORMAT:
            raise Failure(
                f"{self._file} was written by provd {header.get('version')} in a form that {__version__} does not know",
                "import it with the newer provd",
            )
        if as_root is not None:
            if "root" not in header:
                raise Usage(
                    "--as-root needs an export of one root", "provd export --help  # one has no --all and no --scope"
                )
            self._asked["moved"] = {"source": header["root"], "to": wire_path(names.absolute(as_root))}

    def run(self) -> None:
        """Sends all lines, as many at once as one request may hold."""
        batch: list[tuple[int, str]] = []
        size = 0
        while raw := self._source.readline(MAX_LINE + 1):
            number = next(self._numbers)
            self._read += bool(raw.strip())
            text = self._checked(number, raw)
            if text is None:
                continue
            if batch and (len(batch) == _LINES or size + len(raw) > _BYTES):
                self._send(batch)
                batch, size = [], 0
            batch.append((number, text))
            size += len(raw)
        if batch:
            self._send(batch)

    def _checked(self, number: int, raw: bytes) -> str | None:
        """The line as text where it may be an entry; what is wrong with it is noted."""
        if not raw.strip():
            return None
        if len(raw) > MAX_LINE:
            while not raw.endswith(b"\n") and (raw := self._source.readline(MAX_LINE)):
                pass
            self._refuse(number, {"code": "limit", "message": f"it is over {MAX_LINE} bytes", "hint": "leave it out"})
            return None
        try:
            text = raw.decode().strip()
            value = exact.value(text)
        except ValueError as error:
            self._refuse(
                number,
                {"code": "parse", "message": f"no JSON: {error}", "hint": "provd export --help  # export it again"},
            )
            return None
        if isinstance(value, dict) and _END in value:
            self._ended = value[_END]
            self._read -= 1
            return None
        return text

    def _send(self, batch: list[tuple[int, str]]) -> None:
        lines = [text for _, text in batch]
        try:
            answer = self._client.call("entry.import", entries=lines, **self._asked)
        except RpcError as error:
            if error.code not in _ONE_BY_ONE:
                self._add(batch, error.data.get("taken") or {})
                raise
            if len(batch) == 1:
                self._refuse(batch[0][0], {"code": error.code, "message": error.message, "hint": error.hint})
            else:
                for one in batch:
                    self._send([one])
            return
        self._add(batch, answer)

    def _add(self, batch: list[tuple[int, str]], answer: Json) -> None:
        """What became of a request's lines."""
        for word in _OUTCOMES:
            self.counts[word] += answer.get(word, 0)
        for one in answer.get("refused", ()):
            self._refuse(batch[one.pop("index")][0], one)

    def _refuse(self, number: int, what: Json) -> None:
        self._refused += 1
        if self._refused <= _LISTED:
            self.refused.append({"line": number, **what})

    @property
    def _again(self) -> str:
        """The command that takes in the same file; what stdin was nobody knows."""
        return "provd import --help" if self._file == "-" else f"provd import {output.quoted(self._file)}"

    @property
    def begun(self) -> bool:
        """Whether anything is known of any line."""
        return bool(self._refused or any(self.counts.values()))

    def told(self) -> Json:
        """What became of all lines."""
        self.refused.sort(key=lambda one: int(one["line"]))
        more = self._refused - len(self.refused)
        return {**self.counts, "refused": self.refused, **({"refused_more": more} if more else {})}

    def ended_early(self, error: RpcError | ProvdUnreachable) -> RpcError | ProvdUnreachable:
        """The same error with what was taken before it, and what to do about the others."""
        taken = output.count(sum(self.counts.values()), "line was taken", "lines were taken")
        again = "then import the same again: it goes on, and changes nothing of what was taken"
        if isinstance(error, ProvdUnreachable):
            message = f"{taken}, perhaps some more, then {error.message}"
            return ProvdUnreachable(message, steps.because(error.hint, again), error.kind, error.elsewhere)
        message, hint = hints.refusal(error)
        return hints.Advised(
            error.code, f"{taken}, then {message}", steps.because(steps.pasteable(hint), again), error.data
        )

    def end(self) -> int:
        """Tells what is missing; the exit code."""
        for one in self.told()["refused"][:_TOLD]:
            output.warn(f"line {one['line']}: {one['message']} [{one['code']}]")
        if self._refused:
            many = output.count(self._refused, "line was", "lines were")
            output.complain(
                f"{many} not taken, all others were",
                f"{self._again}  # when these lines are mended",
            )
        if self._ended is None:
            output.complain(
                f"{self._file} was cut short: it has no last line",
                "provd export --help  # export it again where it came from",
            )
        elif self._ended != self._read:
            output.complain(
                f"{self._file} has {output.count(self._read, 'line', 'lines')} and says that there are {self._ended}",
                "provd export --help  # export it again where it came from: lines are missing or were added",
            )
        return codes.REFUSED if self._refused or self._ended != self._read else 0
