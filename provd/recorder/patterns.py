"""Which ignore rules a root may have.

Rule: a rule becomes a regular expression in which each star may begin anywhere: few of them are enough for any use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pathspec

from provd.core import errors

MAX_PATTERNS = 1000
MAX_PATTERN = 1024
MAX_STARS = 3
_STARS = re.compile(r"[*?]+")


def check_patterns(patterns: Sequence[str]) -> None:
    """Raises InvalidParams for ignore rules that do not parse, or that could take for ever to match."""
    if len(patterns) > MAX_PATTERNS:
        raise errors.InvalidParams(f"{len(patterns)} ignore rules", f"at most {MAX_PATTERNS}")
    for pattern in patterns:
        names = pattern.split("/")
        stars = max(names.count("**"), *(len(_STARS.findall(name)) for name in names))
        if len(pattern) > MAX_PATTERN or stars > MAX_STARS:
            raise errors.InvalidParams(
                f"the ignore rule {pattern[:80]!r} is too long or has over {MAX_STARS} stars", "simplify it"
            )
        try:
            pathspec.GitIgnoreSpec.from_lines([pattern])
        except (ValueError, re.error) as e:
            raise errors.InvalidParams(
                f"the ignore rule {pattern[:80]!r} does not parse: {e}", "see gitignore(5)"
            ) from None
