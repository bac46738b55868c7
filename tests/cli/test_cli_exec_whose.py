"""exec: `why` names it beside each change that was seen while it ran, and beside no other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from executing import actions
from real_cli import cli
from support import records_since

if TYPE_CHECKING:
    from real_cli import RealCli

__all__ = ["cli"]

_CLOCK: Final = f"{sys.executable} -m provd clock >/dev/null"
"""What was written until then has a record of its own."""


def _begin(cli: RealCli) -> str:
    """Puts k, which rests on f; the clock of then."""
    cli.write("f", "one\n")
    cli("clock")
    cli("put", "k", "--value", "v", "--dep", "f", "--as-of-now")
    return cli("clock").out.strip()


def _whose(cli: RealCli, clock: str) -> list[tuple[int, str]]:
    """The number of each mutation since, and what `why` says of who declared it."""
    mutations = [record["seq"] for record in records_since(cli.daemon.rpc, clock) if record["type"] == "mutation"]
    lines = [line for line in cli("why", "k", code=1).out.splitlines() if "~ modified f" in line]
    assert len(lines) == len(mutations)
    return [
        (seq, line.partition("(declared afterwards by ")[2].partition(",")[0])
        for seq, line in zip(mutations, lines, strict=True)
    ]


def test_all_that_was_seen_while_it_ran_is_its_doing_and_nothing_before(cli: RealCli) -> None:
    clock = _begin(cli)
    cli.write("f", "two\n")
    cli("clock")

    script = f"echo three >f; {_CLOCK}; echo four >f; {_CLOCK}; echo five >f"
    cli.process("exec", "--note", "by hand", "--", "sh", "-c", script)

    begun, declared = (record for record in actions(cli, clock) if record["event"] != "end")
    assert declared["note"] == f"by hand (changed while action {begun['id']} ran)"
    whose = _whose(cli, clock)
    its = f"action {declared['id']}"
    assert whose == [(seq, its if seq > begun["seq"] else "") for seq, _ in whose]
    assert [who for _, who in whose].count(its) >= 3
    assert whose[0][1] == ""


def test_what_another_may_have_meant_is_not_its_doing(cli: RealCli) -> None:
    clock = _begin(cli)
    record = f"{sys.executable} -m provd action record --write f --session s2 >/dev/null"

    script = f"echo two >f; {_CLOCK}; echo three >f; {record}; echo four >f; {_CLOCK}; echo five >f"
    cli.process("exec", "--", "sh", "-c", script)

    theirs, its = (record for record in actions(cli, clock) if record["event"] == "record")
    whose = _whose(cli, clock)
    before = [who for seq, who in whose if seq < theirs["seq"]]
    assert before == ["" for _ in before[1:]] + [f"action {theirs['id']}"]
    assert len(before) > 1
    assert {who for seq, who in whose if seq > theirs["seq"]} == {f"action {its['id']}"}
