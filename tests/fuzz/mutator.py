"""Inputs from inputs: a seeded loop of small changes, with words that the formats know.

Rule: the same seed gives the same inputs, on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

WORDS: Final = tuple(
    word.encode() if isinstance(word, str) else word
    for word in (
        *(
            '{"',
            '":',
            '",',
            "[[",
            "]]",
            "{}",
            "[]",
            "null",
            "true",
            "-0",
            "1e999",
            "NaN",
            "9" * 40,
            "\\u0000",
            "\\ud800",
        ),
        *(
            "\\u0022",
            "object:",
            "entry:",
            "file:",
            "dir:",
            "tree:",
            "glob:",
            "names:",
            "region:",
            "writes",
            "b64",
            "dep",
        ),
        *(
            "digest",
            "jsonrpc",
            '"2.0"',
            "params",
            "method",
            "id",
            "action.begin",
            "**",
            "/**/",
            "[!",
            "[a-z]",
            "../",
            "*?",
        ),
        *(
            "xxh3:",
            "sha256:",
            "version:1",
            "c:0000000000000000:1111111111111111:7",
            "[log]",
            "max_records",
            "=",
            "\n",
            "#",
        ),
        *(b"\xff", b"\x00", b"\x1b", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x90", b"\xdc\xff\xff", b"\xc0", b"\xd9\xff"),
        *(b"\x01", b"\x02", b"\x7f" * 8, b"\xff" * 8, b"\x80" * 4),
    )
)
MOST: Final = 4096
"""Bytes of an input: what takes longer than linear time shows at this length, in the tests of that."""


def inputs(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Without end: each an input of before, or one of the seeds, changed in one to eight places."""
    pool = [b"", *seeds]
    while True:
        data = bytearray(random.choice(pool))
        for _ in range(random.randrange(1, 9)):
            _change(data, pool, random)
        made = bytes(data[:MOST])
        if random.random() < 0.02:  # so that changes add up
            if len(pool) < 400:
                pool.append(made)
            else:
                pool[random.randrange(len(seeds) + 1, len(pool))] = made
        yield made


def _change(data: bytearray, pool: Sequence[bytes], random: Random) -> None:
    at = random.randrange(len(data) + 1)
    match random.randrange(9):
        case 0 if at < len(data):
            data[at] ^= 1 << random.randrange(8)
        case 1 if at < len(data):
            data[at] = random.randrange(256)
        case 2:
            data[at:at] = bytes([random.randrange(256)])
        case 3:
            del data[at : at + random.randrange(1, 9)]
        case 4:
            del data[at:]
        case 5:
            end = at + random.randrange(1, 33)
            data[at:at] = data[at:end] * random.randrange(1, 5)
        case 6:
            other = random.choice(pool)
            begin = random.randrange(len(other) + 1)
            data[at:at] = other[begin : begin + random.randrange(1, 65)]
        case 7 if at < len(data):
            data[at] = (data[at] + random.choice((-1, 1))) % 256
        case _:
            data[at:at] = random.choice(WORDS)
