"""The signs that nothing changed, each to be taken away: what `shown` must not go without."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from desk import Desk, Scripted

from provd import clocks
from provd.core.records import ALL, Gap, MutationKind
from provd.disk import seal as sealing
from provd.disk.files import coarse_clock
from provd.store import Writer
from provd.watch.base import Uncovered

LATER = 10_000_000_000
"""Nanoseconds by which clocks are ahead of the files that these tests write: nobody has to wait for them to rest."""
Break = Callable[[Desk, Scripted, ExitStack], Any]


def hard_link(desk: Desk, _: Scripted, __: ExitStack) -> None:
    os.link(desk.path("f"), desk.path("other"))


def open_for_writing(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    stack.enter_context(open(desk.path("f"), "r+b"))  # noqa: SIM115


def mapped(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    with open(desk.path("f"), "r+b") as file:
        stack.enter_context(mmap.mmap(file.fileno(), 0))


def told(*make: Callable[[Desk], Any], barrier: int = 0) -> Break:
    """Records that come with the barrier of that number (0: they are in the log before the put)."""

    async def breaking(desk: Desk, watch: Scripted, _: ExitStack) -> None:
        made = [one(desk) for one in make]
        if not barrier:
            await desk.log(*made)
            return
        first = watch.barriers
        watch.at_barrier = lambda number: watch.told.extend(made) if number == first + barrier else None

    return breaking


def uncovered(name: str) -> Break:
    def breaking(desk: Desk, watch: Scripted, _: ExitStack) -> None:
        watch.lost.append(Uncovered(desk.path(name) if name else os.fsencode(desk.root), "limit"))

    return breaking


def late_uncovered(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    """The watch is lost while the put reads: the second barrier finds out."""
    first = watch.barriers

    def barrier(number: int) -> None:
        if number == first + 2:
            watch.lost.append(Uncovered(os.fsencode(desk.root), "limit"))

    watch.at_barrier = barrier


def covered_again(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    """The gap of what is watched again while the barrier is waited for is not recorded yet."""
    first = watch.barriers
    watch.lost.append(Uncovered(os.fsencode(desk.root), "limit"))

    def barrier(number: int) -> None:
        if number == first + 2:
            watch.lost.clear()

    watch.at_barrier = barrier


def slow(barrier: int) -> Break:
    def breaking(_: Desk, watch: Scripted, __: ExitStack) -> None:
        first = watch.barriers

        def at(number: int) -> None:
            watch.slow = number == first + barrier

        watch.at_barrier = at

    return breaking


def no_roots(_: Desk, watch: Scripted, __: ExitStack) -> None:
    watch.roots = ()


def root_elsewhere(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    watch.roots = (os.path.dirname(os.fsencode(desk.root)) + b"/other",)


def young(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    given = desk.clocks.given
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(desk.clocks, "given", lambda at: given(at) and os.stat(desk.path("f")).st_ctime_ns + 1_000_000)


def mtime_ahead(desk: Desk, _: Scripted, __: ExitStack) -> None:
    ahead = coarse_clock() + 3 * LATER
    os.utime(desk.path("f"), ns=(ahead, ahead))


def clock_set(_: Desk, __: Scripted, stack: ExitStack) -> None:
    moment = clocks.moment
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(clocks, "moment", lambda: clocks.Moment(moment().at, moment().offset + 1_000_000_000))


async def declared(desk: Desk, _: Scripted, __: ExitStack) -> None:
    await desk.write("file:f")


async def trimmed(desk: Desk, _: Scripted, __: ExitStack) -> None:
    await desk.log(Gap(1, b"/elsewhere", "x"), Gap(1, b"/elsewhere", "x"))

    def trim(writer: Writer) -> None:
        writer.trim(1, 0)

    await desk.store.submit(trim)


def never_sealed(_: Desk, __: Scripted, stack: ExitStack) -> None:
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(sealing, "SEALABLE", frozenset())


def clock_set_meanwhile(_: Desk, watch: Scripted, stack: ExitStack) -> None:
    first, moment = watch.barriers, clocks.moment
    patched = stack.enter_context(pytest.MonkeyPatch.context())

    def barrier(number: int) -> None:
        if number == first + 2:
            patched.setattr(clocks, "moment", lambda: clocks.Moment(moment().at, moment().offset + 1_000_000_000))

    watch.at_barrier = barrier


def changed_unseen(desk: Desk, watch: Scripted, stack: ExitStack) -> None:
    """Between the reading and the seal."""
    read = desk.inquiry.reader.read
    patched = stack.enter_context(pytest.MonkeyPatch.context())

    async def reading(*some: Any, **how: Any) -> Any:
        there = await read(*some, **how)
        patched.undo()
        (desk.root / "f").write_text("two")
        (desk.root / "d" / "deep" / "c.py").write_text("two")
        return there

    patched.setattr(desk.inquiry.reader, "read", reading)


BREAKS: dict[str, Break] = {
    "a hard link": hard_link,
    "open for writing": open_for_writing,
    "mapped writable": mapped,
    "a mutation since": told(lambda d: d.mutation("f")),
    "an attrib since": told(lambda d: d.mutation("f", MutationKind.ATTRIB)),
    "moved from it since": told(lambda d: d.mutation("g", MutationKind.MOVED, "f")),
    "a directory above moved since": told(lambda d: d.mutation("", MutationKind.ATTRIB)),
    "a mutation told by the first barrier": told(lambda d: d.mutation("f"), barrier=1),
    "a mutation told by the second barrier": told(lambda d: d.mutation("f"), barrier=2),
    "a gap since": told(lambda d: d.gap()),
    "a gap for it since": told(lambda d: d.gap("f")),
    "a gap for all since": told(lambda _: Gap(1, ALL, "x")),
    "a gap told by the second barrier": told(lambda d: d.gap(), barrier=2),
    "not covered": uncovered(""),
    "not covered itself": uncovered("f"),
    "not covered any more": late_uncovered,
    "covered again a moment ago": covered_again,
    "not recorded in time at first": slow(1),
    "not recorded in time at last": slow(2),
    "nothing is watched": no_roots,
    "outside the roots": root_elsewhere,
    "younger than the clock": young,
    "an mtime ahead": mtime_ahead,
    "the wall clock was set": clock_set,
    "the wall clock was set meanwhile": clock_set_meanwhile,
    "declared as written": declared,
    "the log was trimmed": trimmed,
    "another file system": never_sealed,
    "changed unseen meanwhile": changed_unseen,
}
