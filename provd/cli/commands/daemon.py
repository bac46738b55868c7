"""The daemon itself: run, audit.

Rule: only `run` imports the daemon; every other command is a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provd import codes, configuration, places, terminal
from provd.cli import output, steps
from provd.cli.command import Command, Failure, Usage, connected, given, json_option
from provd.cli.given import names
from provd.cli.words import records

if TYPE_CHECKING:
    from provd.cli.command import Place


@click.command(
    cls=Command,
    examples=("provd run --root ~/repo", "provd run --state ~/.provd-test --log-format json"),
)
@click.option("--root", "roots", metavar="DIR", multiple=True, help="Watch DIR, besides those kept from before.")
@click.option(
    "--backend",
    type=click.Choice(configuration.BACKENDS),
    help="How to watch (default auto: inotify where it tells all, else poll or watchdog).",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "console", "json"]),
    help="How to log (default auto: console, or under systemd the journal).",
)
@click.option("--log-level", type=click.Choice(configuration.LEVELS), help="The least to log (default info).")
@click.option("--log-file", metavar="PATH", help="Log to this file, which is turned over (default: stderr).")
@connected
def run(
    roots: tuple[str, ...],
    backend: str | None,
    log_format: str | None,
    log_file: str | None,
    log_level: str | None,
    at: Place,
) -> int:
    """Run the daemon in the foreground. It is ready when its socket answers."""
    with terminal.hangups_held() as bound:  # before anything that takes long
        from provd import daemon, settings  # noqa: PLC0415  (see the rule)
        from provd.cli.processes import serving  # noqa: PLC0415
        from provd.core import errors  # noqa: PLC0415

        try:
            directories = serving.directories(roots)
        except Usage as error:  # 5 and not 2, with which a service stays ended: its disk may be mounted later
            raise Failure(error.message, steps.pasteable(error.hint, "provd run --help")) from None
        try:
            loaded = settings.load(
                state=places.state_dir(at.state),
                socket=places.socket_path(at.socket, at.state),
                roots=directories,
                backend=backend,
                log_format=log_format,
                log_file=log_file,
                log_level=log_level,
            )
            daemon.main(loaded, bound=bound)
        except errors.ProvdError as error:
            raise Failure(error.message, error.hint) from None
    return 0


@click.command(cls=Command, examples=("provd audit", "provd audit --sample 1000 --json"))
@click.option("--root", metavar="DIR", help="Only this root (default: all).")
@click.option("--sample", metavar="N", type=click.IntRange(min=1), help="Read only N files, chosen at random.")
@json_option
@connected
def audit(root: str | None, sample: int | None, as_json: bool, at: Place) -> int:
    """Look at all files, read those that it knows the content of, and compare with what the daemon believes.

    Exit: 0 all equal, 1 something differs, 4 nothing differs and not everything could be looked at.
    """
    asked = given(root=None if root is None else names.path(root), sample=sample)
    with at.connect(timeout=None) as client:
        answer = client.call("daemon.audit", **asked)
    mismatches = answer.get("mismatches") or []
    skipped = answer.get("skipped") or {}  # an older daemon tells of none
    left_out, foreign = skipped.get("count", 0), answer.get("foreign") is True
    if as_json:
        output.line_json(answer)
    else:
        for item in mismatches:
            output.line(f"{output.verdict_word('dirty')}  {output.name(item['path'])}  {_difference(item)}")
        places = skipped.get("places") or []
        for item in places:
            why = output.printable(str(item.get("why", "")))
            output.line(f"{output.verdict_word('unknown')}  {output.name(item['path'])}  not looked at: {why}")
        if left_out > len(places):
            output.line(f"and {left_out - len(places)} more that were not looked at")
        compared = output.count(answer.get("files", 0), "file", "files")
        differ = f"{len(mismatches)} {'differs' if len(mismatches) == 1 else 'differ'}"
        aside = f", {output.count(left_out, 'place', 'places')} not looked at" if left_out else ""
        again = f", {answer['read']} of them read" if "read" in answer else ""  # an older daemon does not tell
        ignored = answer.get("ignored") or 0
        rules = f", {output.count(ignored, 'name', 'names')} left out by ignore rules" if ignored else ""
        output.line(f"{compared} compared{again}, {differ}{aside}{rules}")
        if foreign:
            output.warn(f"{records.FOREIGN}: it compared its own, and nothing is known of yours")
    if mismatches:
        return codes.FOUND
    return codes.UNKNOWN if left_out or foreign else 0


def _difference(item: dict[str, object]) -> str:
    why = output.printable(str(item.get("why", "")))
    return f"{why}  was {output.digest(item.get('was'))}, is {output.digest(item.get('is'))}"
