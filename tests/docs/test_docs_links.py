"""The documents lead to one another: no link of theirs ends nowhere, and each can be reached from where readers start.

Rule: only what lies in the checkout is looked at; no test asks the network.
"""

from __future__ import annotations

import os
import re
from typing import Final

import pytest
from doc_blocks import DOCUMENTS, read
from support import REPOSITORY

_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def _prose(document: str) -> str:
    """A document without its blocks and its code."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("(", "").replace("]", ""), _FENCE.sub("", read(document)))


def _links(document: str) -> list[str]:
    """The links of a document that lead into the checkout, as they are written."""
    return [target for target in _LINK.findall(_prose(document)) if not re.match(r"[a-z]+:", target)]


def _anchors(document: str) -> set[str]:
    """The anchors of a document's headings, made as code hosts make them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.*)$", _FENCE.sub("", read(document)), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return found.keys() | {f"{slug}-{n}" for slug, last in found.items() for n in range(1, last + 1)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_link_ends_nowhere(document: str) -> None:
    dead = []
    for link in _links(document):
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        here = os.path.exists(os.path.join(REPOSITORY, target))
        if not here or (anchor and anchor not in _anchors(target)):
            dead.append(link)

    assert dead == []


def test_every_document_is_reached_from_the_start() -> None:
    reached, ahead = set(), ["README.md", "docs/README.md"]
    while ahead:
        document = ahead.pop()
        reached.add(document)
        targets = {
            os.path.normpath(os.path.join(os.path.dirname(document), _.partition("#")[0])) for _ in _links(document)
        }
        ahead += [target for target in targets if target in DOCUMENTS and target not in reached]

    assert set(DOCUMENTS) - reached == set()
