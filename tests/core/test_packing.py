"""Records in the store: they come back as they were, in few bytes, and so do those of older formats."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_records import AT, RECORDS

from provd.core import packing
from provd.core.records import Actor, DigestState, Hashed, Mutation, MutationKind, Origin, Record

OLD: Final = msgspec.msgpack.Encoder()
"""How all records were stored before format 3."""
RAW: Final = "0123456789abcdef" * 2
digests = st.binary(min_size=16, max_size=16).map(lambda raw: "xxh3:" + raw.hex())
sizes = st.none() | st.integers(0, 2**64 - 1)
times = st.none() | st.integers(-(2**63), 2**63 - 1)
states = st.none() | st.sampled_from(DigestState)
bytes_of_paths = st.binary(max_size=300)

MUTATIONS: Final = st.builds(
    Mutation,
    st.integers(0, 2**63 - 1),
    st.sampled_from(MutationKind),
    bytes_of_paths,
    st.none() | bytes_of_paths,
    times,
    sizes,
    st.none() | digests,
    states,
    st.sampled_from(Origin),
    st.just(Actor()) | st.builds(Actor, st.none() | st.text(max_size=9), st.none() | st.integers(0, 9), st.none()),
)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_comes_back_as_it_was_stored(kind: type[Record]) -> None:
    @settings(deadline=None)
    @given(RECORDS[kind])
    def check(record: Record) -> None:
        for stored in (packing.encode(record), OLD.encode(record)):
            back = packing.decode(stored)
            assert type(back) is kind
            assert back == record

    check()


@settings(deadline=None, max_examples=300)
@given(MUTATIONS)
def test_a_mutation_comes_back_whatever_it_says(record: Mutation) -> None:
    assert packing.decode(packing.encode(record)) == record


@pytest.mark.parametrize(
    "digest", [None, "", "xxh3:", "xxh3:" + RAW.upper(), f"blake2b:{RAW}", RAW, f"xxh3: {RAW}", "é"]
)
def test_a_digest_that_does_not_fit_is_stored_at_length(digest: str | None) -> None:
    for record in (
        Hashed(AT, 7, b"/f", digest, DigestState.DONE),
        Mutation(AT, MutationKind.CREATED, b"/f", digest=digest),
    ):
        assert packing.decode(packing.encode(record)) == record


@pytest.mark.parametrize("at", [-1, 0, 2**63 - 1])
@pytest.mark.parametrize("mtime", [None, -(2**63), 0, 2**63 - 1])
def test_times_that_do_not_fit_are_stored_at_length(at: int, mtime: int | None) -> None:
    record = Mutation(at, MutationKind.CREATED, b"/f", mtime_ns=mtime)
    assert packing.decode(packing.encode(record)) == record
    hashed = Hashed(at, 7, b"/f", None, DigestState.SUPERSEDED)
    assert packing.decode(packing.encode(hashed)) == hashed


def test_what_comes_by_the_million_takes_few_bytes() -> None:
    """The key (8) and LMDB's node (10) come on top: 60 bytes a record and its path is what the contract allows."""
    path = b"/" + b"p" * 44
    mutation = Mutation(AT, MutationKind.MODIFIED, path, None, AT - 10**7, 10**6, digest_state=DigestState.PENDING)
    hashed = Hashed(AT, 10_000_000, path, f"xxh3:{RAW}", DigestState.DONE)
    assert len(packing.encode(mutation)) - len(path) <= 24
    assert len(packing.encode(hashed)) - len(path) <= 38


def test_rows_of_each_form_are_told_by_their_first_byte() -> None:
    """These bytes lie in stores: they must mean the same for ever."""
    at, pending = 0x1122334455667788, DigestState.PENDING
    mutation = Mutation(at, MutationKind.ATTRIB, b"/f", None, at - 1, 2, None, pending, Origin.SCAN)
    packed = bytes.fromhex("01541122334455667788") + b"\x93\xc4\x02/f\x01\x02"
    assert packing.encode(mutation) == packed
    hashed = Hashed(at, 3, b"/f", f"xxh3:{RAW}", DigestState.DONE)
    packed = bytes.fromhex("02011122334455667788") + b"\x93\xc4\x02/f\x03\xc4\x10" + bytes.fromhex(RAW)
    assert packing.encode(hashed) == packed


@pytest.mark.parametrize(
    "junk",
    [
        *(b"", b"\xc1", b"\x91\xa3gap", b"\x92\xa4none\x01", b"\x80", b"{}"),
        *(b"\x01", b"\x02", b"\x03" + bytes(20), b"\x01" + bytes(9), b"\x02" + bytes(9)),
        b"\x01\xff" + bytes(8) + b"\x93\xc4\x02/f\x01\x02",  # no such kind
        b"\x02\x05" + bytes(8) + b"\x93\xc4\x02/f\x03\xc0",
        b"\x02\x00" + bytes(8) + b"\x93\xc4\x02/f\x03\xc0",  # it needs a state
        b"\x01\x00" + bytes(8) + b"\x92\xc4\x02/f\x01",
        b"\x01\x00" + bytes(8) + b"\x93\xc4\x02/f\x01\x02\x00",
    ],
)
def test_bytes_that_are_no_record_are_refused(junk: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        packing.decode(junk)
