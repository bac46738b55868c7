"""A set's digest when few members changed is the one that all of its members give."""

from __future__ import annotations

from provd.core.dependency import Member, set_digest
from provd.core.roll import Roll

MEMBERS = [
    Member("d", b"a", b""),
    Member("f", b"a/1", b"1" * 32),
    Member("f", b"a/2", b"2" * 32),
    Member("l", b"z", b""),
]


def test_exchanged_members_give_the_digest_of_the_new_set() -> None:
    roll = Roll(MEMBERS)
    roll.exchange({2: b"9" * 32})

    assert roll.digest("sha256") == set_digest("sha256", [*MEMBERS[:2], Member("f", b"a/2", b"9" * 32), MEMBERS[3]])


def test_what_was_exchanged_and_is_put_back_leaves_nothing() -> None:
    """A question that is given up must leave the bytes of the seal that goes on being kept as they were."""
    roll = Roll(MEMBERS)
    had = roll.exchange({1: b"8" * 32, 2: b"9" * 32})
    roll.exchange(had)

    assert had == {1: b"1" * 32, 2: b"2" * 32}
    assert roll.digest("xxh3") == set_digest("xxh3", MEMBERS)
