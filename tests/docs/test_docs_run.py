"""Every command, program and exchange that the documents show is run, and gives what is shown.

Rule: a document is one session at one terminal, from top to bottom. A document without hidden commands of its own
begins with a daemon that watches ~/work. What is not run has a reason, and the documents that may have it are named.
Where scratch directories are polled (an overlay) the log knows less than the documents show: everything is run and its
exit status is checked all the same, and what is printed differently is passed over, and said.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tomllib
from typing import TYPE_CHECKING, Final

import pytest
from doc_blocks import DOCUMENTS, Step, indented, read, steps, unmarked
from doc_session import Session
from doc_transcript import agree, said, transcript
from doc_wire import Exchange, is_wire, values
from support import Rpc

from provd.watch.filesystems import INOTIFY, backend_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_USUAL: Final = "mkdir -p ~/work; provd run --root ~/work 2>~/provd.log & await_daemon"
_RUN: Final = {"console", "sh", "bash", "python", "json", "toml"}
_PROGRAMS: Final = {"docs/howto.md": ("git", "make", "paste"), "docs/tutorial.md": ("sha256sum",)}
"""What a document's commands need beside a POSIX system."""
_NOT_RUN: Final = {
    "run by .ci": {"README.md"},
    "it installs a service": {"README.md", "docs/howto.md", "docs/service.md", "docs/macos.md"},
    "it needs systemd": {"docs/service.md"},
    "it needs root": {"docs/howto.md", "docs/service.md"},
    "it needs a container": {"docs/containers.md"},
    "it needs an older provd": {"docs/upgrading.md"},
    "it installs software": {"docs/model.md"},
    "it takes minutes, and a machine with nothing else to do": {"docs/performance.md"},
}
"""reason -> the documents that have blocks which are not run for it."""


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _steps(document: str) -> list[Step]:
    """What a reader of a document does, with the usual beginning where it has none of its own."""
    found = steps(read(document))
    if _needs_daemon(found) and not any(step.language == "hidden" for step in found):
        found.insert(0, Step("hidden", _USUAL, 0))
    return found


def _needs_daemon(found: list[Step]) -> bool:
    return any(step.language in _DOERS.keys() - {"hidden", "toml"} and not step.not_run for step in found)


class _Reader:
    """Does what a document says."""

    def __init__(self, document: str, session: Session) -> None:
        self._document = document
        self._session = session
        self._exchange: Exchange | None = None
        self._watched = backend_of(os.fsencode(session.home))[0] == INOTIFY
        self.passed_over = 0

    def close(self) -> None:
        """The document's one connection ends."""
        if self._exchange is not None:
            self._exchange.close()

    def finish(self) -> None:
        """Nothing is left unanswered."""
        if self._exchange is not None:
            self._exchange.finish()

    def follow(self, step: Step) -> None:
        """One step; raises AssertionError, with the place in the document, where it is not as shown."""
        where = f"{self._document}:{step.line}"
        if step.file:
            self._session.write(step.file, step.text)
        elif step.language in _DOERS and not step.not_run:
            assert not unmarked(step), f"{where}: not marked as not run, though {unmarked(step)}"
            _DOERS[step.language](self, step, where)

    def hidden(self, step: Step, where: str) -> None:
        """Commands that readers do not see: they must succeed."""
        status, lines = self._session.run(step.text)
        assert status == 0, f"{where}: hidden commands gave {status}: {lines}"

    def console(self, step: Step, where: str) -> None:
        """A transcript: each command's output and status."""
        for shown in transcript(step.text):
            status, printed = self._session.run(shown.command)
            place = f"{self._document}:{step.line + shown.line}: $ {shown.command}"
            both = f"--- shown\n{_text(shown.output)}\n--- printed\n{_text(printed)}"
            alike = agree(shown.output, printed)
            assert alike or not self._watched, f"{place}\n{both}"
            self.passed_over += not alike
            assert status in shown.statuses(), f"{place}\nended with {status}, not {shown.statuses()}\n{both}"

    def python(self, step: Step, where: str) -> None:
        """A program: it ends well, and prints what its comments say."""
        self._session.write("~/.program.py", step.text)
        status, printed = self._session.run("python3 ~/.program.py")
        assert status == 0, f"{where}: ended with {status}\n{_text(printed)}"
        shown = said(step.text)
        assert not shown or agree(shown, printed), f"{where}: printed {printed}, not {shown}"

    def json(self, step: Step, where: str) -> None:
        """JSON: it parses; lines of the wire are sent, and the answers have the shape shown."""
        lines = values(self._session.local(step.text))
        if not any(map(is_wire, lines)):
            return
        if self._exchange is None:
            self._exchange = Exchange(Rpc(self._session.daemon()))
        for line in lines:
            try:
                self._exchange.take(line)
            except AssertionError as e:
                raise AssertionError(f"{where}: {json.dumps(line, ensure_ascii=False)}: {e}") from None

    def toml(self, step: Step, where: str) -> None:
        """A configuration: a daemon would start with it."""
        assert tomllib.loads(step.text), where
        self._session.write("~/.config-of-a-document/provd/config.toml", step.text)
        status, printed = self._session.run(
            "XDG_CONFIG_HOME=~/.config-of-a-document python3 -c 'from provd import settings; settings.load()'"
        )
        assert status == 0, f"{where}: {printed}"


_DOERS: Final[dict[str, Callable[[_Reader, Step, str], None]]] = {
    "hidden": _Reader.hidden,
    "console": _Reader.console,
    "sh": _Reader.hidden,
    "bash": _Reader.hidden,
    "python": _Reader.python,
    "json": _Reader.json,
    "toml": _Reader.toml,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "document",
    [name for name in DOCUMENTS if any(step.language in _DOERS and not step.not_run for step in _steps(name))],
)
def test_what_is_shown_is_so(document: str) -> None:
    missing = [name for name in _PROGRAMS.get(document, ()) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed here: {missing}")
    with Session() as session, contextlib.closing(_Reader(document, session)) as reader:
        for step in _steps(document):
            reader.follow(step)
        reader.finish()
    if reader.passed_over:
        pytest.skip(f"scratch directories are polled here: all was run, {reader.passed_over} outputs are other ones")


def test_what_is_not_run_has_a_known_reason() -> None:
    told = {(step.not_run, document) for document in DOCUMENTS for step in steps(read(document)) if step.not_run}

    assert told == {(reason, document) for reason, documents in _NOT_RUN.items() for document in documents}


def test_what_cannot_be_run_is_marked() -> None:
    bare = [(unmarked(step), f"{document}:{step.line}") for document in DOCUMENTS for step in steps(read(document))]

    assert [(reason, at) for reason, at in bare if reason] == []


def test_no_block_is_told_by_its_indentation_alone() -> None:
    assert {document: indented(read(document)) for document in DOCUMENTS if indented(read(document))} == {}


def test_every_block_is_in_a_known_language() -> None:
    unknown = [
        f"{document}:{step.line}: {step.language!r}"
        for document in DOCUMENTS
        for step in _steps(document)
        if step.language not in _RUN | {"hidden", "", "text", "makefile", "ini", "yaml", "dockerfile", "mermaid"}
    ]

    assert unknown == []
