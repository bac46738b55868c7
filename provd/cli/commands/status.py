"""How the daemon is: status, version.

Rule: what is shown to people may be said in other words from one version to the next; --json is exactly what the daemon
said, and --prometheus has names that stay.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from provd import __version__, codes
from provd.cli import output, steps
from provd.cli.command import Command, Usage, connected, json_option
from provd.cli.processes import process
from provd.cli.words import hints
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from provd.cli.command import Place


@click.command(cls=Command, examples=("provd status", "provd status --json | jq .roots", "provd status --prometheus"))
@click.option("--prometheus", is_flag=True, help="Metrics, for node_exporter's textfile collector.")
@json_option
@connected
def status(prometheus: bool, as_json: bool, at: Place) -> int:
    """How the daemon is: what it watches and how well, what it holds, how fast it answers."""
    if prometheus:
        if as_json:
            raise Usage("--json and --prometheus exclude each other", "ask for one of them")
        return _metrics(at)
    if as_json:
        with at.connect() as client:
            output.line_json(client.call("daemon.status"))
    else:
        _screen(at)
    return 0


def _screen(at: Place) -> None:
    """The answer in a line, then the rest. Raises ProvdUnreachable."""
    from provd.cli.commands import doctor  # noqa: PLC0415  who wants JSON does not pay for it
    from provd.cli.commands.doctor.facts import gather  # noqa: PLC0415
    from provd.cli.commands.doctor.results import examine, findings_of  # noqa: PLC0415
    from provd.cli.words import overview  # noqa: PLC0415

    facts = gather(at)
    if facts.refusal is not None:
        raise facts.refusal
    if facts.absence is not None:
        raise process.hung(at.named(facts.absence), facts.peer)
    findings = findings_of(examine(facts, doctor.CHECKS))
    output.line(doctor.summary(findings, steps.filled(": provd doctor")))
    output.line()
    for text in overview.lines(facts.answer, facts.unit, facts.now, facts.log_file):
        output.line(text)


def _metrics(at: Place) -> int:
    """The metrics; where none come `provd_up 0`, the reason on stderr, and the code that says the same."""
    from provd.cli.words import prometheus  # noqa: PLC0415

    answer, trouble, code = None, ("", ""), codes.FRESH
    try:
        with at.connect() as client:
            answer = client.call("daemon.status")
    except ProvdUnreachable as error:
        trouble, code = (error.message, error.hint), codes.UNREACHABLE
    except RpcError as error:
        message, hint = hints.refusal(error)
        trouble, code = (f"{message} [{error.code}]", hint), codes.REFUSED
    output.always_utf8()
    for text in prometheus.text(answer, __version__, time.time_ns()):
        output.line(text)
    if code:
        output.complain(*trouble)
    return code


@click.command(cls=Command, examples=("provd version --json",))
@json_option
@connected
def version(as_json: bool, at: Place) -> int:
    """The versions of this command and, where one answers, of the daemon."""
    hello, absence, hint = None, "", ""
    try:
        with at.connect() as client:
            hello = client.greeting
    except (ProvdUnreachable, RpcError) as error:  # this command's own version is told all the same
        absence = error.message
        if isinstance(error, ProvdUnreachable) and error.kind in process.THERE:
            hint = error.hint  # that no daemon runs is an answer here, and no trouble
    if as_json:
        output.line_json({"version": __version__, "daemon": hello})
        return 0
    output.line(f"provd {__version__}")
    if hello is None:
        output.note(output.printable(absence))
        output.advise(hint)
    else:
        output.line(f"daemon {output.printable(str(hello.get('version')))} (pid {hello.get('pid')})")
    return 0
