"""What stands behind an error leads on from what was asked, and not from something like it."""

from __future__ import annotations

import pytest
from fake_daemon import Cli, Refusal, cli, fake, verdict

__all__ = ["cli", "fake"]


def test_confirm_names_what_is_damaged_as_that(cli: Cli) -> None:
    cli.fake.answers["entry.get"] = verdict("unknown", why="damaged", version=None, deps=None)

    got = cli("confirm", "q", "--as-of-now", code=5)

    assert "nothing was confirmed: 'q' is damaged in the store\n  next: provd forget q  # then put it anew" in got.err


@pytest.mark.parametrize("arguments", [("log", "--since", "foo"), ("since", "foo"), ("log", "-f", "--since", "foo")])
def test_who_looks_back_is_not_led_to_a_put(cli: Cli, arguments: tuple[str, ...]) -> None:
    refused = Refusal("clock.malformed", "'foo' is no clock", "provd clock  # before the sources are read")
    cli.fake.answers |= {"log.since": refused, "log.subscribe": refused}

    got = cli(*arguments, code=5)

    assert "'foo' is no clock [clock.malformed]\n  next: provd log  # needs none; a clock is what" in got.err


def test_a_write_of_no_kind_that_there_is_leads_to_the_kinds(cli: Cli) -> None:
    cli.fake.answers |= {
        "log.clock": {"clock": "c:1"},
        "action.begin": Refusal("dep.malformed", "no kind", "write file:x"),
    }

    got = cli("exec", "--write", "foo:bar", "--", "true", code=5)

    assert got.err == (
        "provd: no kind; the command was not run [dep.malformed]\n  next: provd help dependencies  # write file:x\n"
    )
