"""Questions: check, get, revalidate.

Rule: the exit code is the verdict's. What is printed never says more than the daemon did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from provd import codes, fastpath
from provd.cli import output, steps
from provd.cli.command import (
    WORK_PATIENCE,
    Command,
    Usage,
    given,
)
from provd.cli.given import asking, names, present, sums
from provd.cli.given.exact import ExactClient, exact_json, text_of
from provd.cli.words import hints, nothing, verdicts

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.cli.given.exact import Written


@click.command(
    cls=Command,
    rare=("verify", "timeout_ms", "no_revalidate"),
    examples=(
        "provd check api",
        "if provd check -q api; then echo use it; else echo read again; fi",
        "provd check --sums sums              # are the files what sha256sum read?",
        "provd check --dep object:svc:api --fetched-at $c",
    ),
)
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--dep", "deps", metavar="D", multiple=True, help="Ask about dependencies instead of entries.")
@click.option("--sums", "summed", metavar="FILE", help="Ask about what sha256sum read: its lines; - is stdin.")
@click.option("--fetched-at", metavar="CLOCK", help="With --dep: the clock taken before they were read.")
@click.option("-q", "--quiet", is_flag=True, help="Print no verdict; the exit code says it.")
@asking.how
@asking.keyed
def check(
    keys: tuple[str, ...],
    deps: tuple[str, ...],
    summed: str | None,
    fetched_at: str | None,
    quiet: bool,
    verify: str | None,
    timeout_ms: int | None,
    no_revalidate: bool,
    where: names.Scope,
    as_json: bool,
    at: Place,
) -> int:
    """Whether entries, or dependencies, are still what they were. Exit: 0 fresh, 1 dirty, 4 unknown."""
    about = _about(keys, deps, summed, fetched_at)
    method = "deps.check" if "deps" in about else "entry.check"
    with at.connect(asking.patience(timeout_ms)) as client:
        manner = asking.manner(verify, timeout_ms, no_revalidate)
        place = where.params(client)
        answer = client.call(method, **about, **manner, **place)
        found = fastpath.verdicts(answer, keys[0] if keys else "")
        code = codes.of_verdicts(found.values())
        if as_json and not quiet:
            output.line_json(answer)
        elif not quiet:
            for label, verdict in found.items():
                output.line(verdicts.headline(verdict, output.printable(label)))
                for text in verdicts.brief(verdict):
                    output.line(text)
            nothing.tell_missing(client, found.items(), place)
            if method == "deps.check":
                words = ["provd check", *(f"--dep {output.quoted(dep)}" for dep in deps)]
                words += [f"--sums {output.quoted(summed)}"] if summed is not None else []
                words += [f"--fetched-at {output.quoted(fetched_at)}"] if fetched_at is not None else []
                _advise(answer, " ".join(words) if no_revalidate else "")
    if not quiet:
        for remark in present.remarks(deps):
            output.warn(remark)
    return code


def _advise(verdict: dict[str, Any], reading: str) -> None:
    """Says how to ask again where nothing shows what was read: there is no entry that could be put anew.

    `reading`: where the question was that nothing be read, the same without that.
    """
    unproven = [item for item in verdict.get("evidence") or [] if item.get("why") == "unproven"]
    paths = [item for item in unproven if names.parts(names.named(item))[0] in names.PATH_KINDS]
    if unproven:
        unread = steps.because(reading, "nothing was read: ask without --no-revalidate")
        output.advise(unread if reading and paths else hints.unproven_again(unproven, "ask"))
    if (spent := hints.spent(unproven)) and not reading:
        output.note(f"  that clock shows nothing any more: {output.printable(spent)}; a new one does")
    elif paths and not reading:
        output.note(
            "  a clock alone shows only what had rested when it was taken (20 ms; 2 s where the file system stamps "
            "coarsely), on ext4, xfs or btrfs, and is watched"
        )


def _about(keys: tuple[str, ...], deps: tuple[str, ...], summed: str | None, fetched_at: str | None) -> dict[str, Any]:
    """What `check` is about, as parameters; raises Usage."""
    if not keys and not deps and summed is None:
        raise Usage(
            "nothing to check", "provd ls  # the keys that are there: name one; or --sums for what sha256sum printed"
        )
    if keys and (deps or summed is not None):
        option = "--dep" if deps else "--sums"
        raise Usage(f"KEY and {option} exclude each other", "ask about entries or about dependencies")
    if deps and fetched_at is None:
        raise Usage("--dep needs --fetched-at", hints.TAKE_CLOCK)
    if keys and fetched_at is not None:
        raise Usage("--fetched-at goes with --dep", "an entry keeps its own clock: leave it out")
    if not keys:
        present.check(deps)
        named: list[Any] = [names.dependency(dep) for dep in deps]
        if summed is not None:
            named += sums.dependencies(summed)
        return {"deps": named} | given(fetched_at=fetched_at)
    return fastpath.about(keys)


@click.command(
    cls=Command,
    examples=("provd get api > api.md", "provd get api --even-if dirty"),
)
@click.argument("key", metavar="KEY")
@click.option(
    "--even-if",
    multiple=True,
    type=click.Choice(["dirty", "unknown"]),
    help="Print the value then too; the exit code still says it.",
)
@asking.how
@asking.keyed
def get(
    key: str,
    even_if: tuple[str, ...],
    verify: str | None,
    timeout_ms: int | None,
    no_revalidate: bool,
    where: names.Scope,
    as_json: bool,
    at: Place,
) -> int:
    """The value of an entry, where it may be used. Text comes as it was put, all else as JSON.

    On a terminal control characters are shown escaped; to a pipe or a file it goes raw.
    """
    manner = asking.manner(verify, timeout_ms, no_revalidate) | ({"even_if": list(even_if)} if even_if else {})
    with at.connect(asking.patience(timeout_ms), ExactClient) as client:
        place = where.params(client)
        answer = client.get(key, **manner, **place)
        if not as_json:
            code = _print_answer(answer, key)
            nothing.tell_missing(client, [(key, answer)], place)
            return code
    output.line_written(exact_json(answer, ", ", ": "))
    return _code(answer)


def _code(answer: dict[str, Any]) -> int:
    # Nothing to use is never a success, whatever the verdict.
    return codes.of_verdicts([answer]) or (codes.FRESH if answer.get("usable") else codes.UNKNOWN)


def _print_answer(answer: dict[str, Any], wanted: str) -> int:
    """The value, and what is to be said of it; the exit code."""
    whole = True
    if "value" in answer:
        whole = _print_value(answer["value"])
    elif answer.get("usable"):
        output.note(f"{output.printable(wanted)} has no value")
    if answer.get("verdict") != "fresh" or not answer.get("usable"):
        if not whole:
            output.interrupt_value()
        for text in (verdicts.headline(answer, output.printable(wanted)), *verdicts.brief(answer)):
            output.note(text)
    return _code(answer)


def _print_value(written: Written) -> bool:
    """Whether it ended its line."""
    value = text_of(written)
    if value is None:
        output.line_written(written)
        return True
    return output.value(value)


@click.command(cls=Command, examples=("provd revalidate api",))
@click.argument("key", metavar="KEY")
@asking.keyed
def revalidate(key: str, where: names.Scope, as_json: bool, at: Place) -> int:
    """Read an entry's dependencies again. If all are equal its clock is renewed, else nothing changes."""
    with at.connect(WORK_PATIENCE) as client:
        place = where.params(client)
        answer = client.call("entry.revalidate", key=key, **place)
        verdict = answer["verdict"]
        verdict = {"verdict": verdict} if isinstance(verdict, str) else verdict
        if as_json:
            output.line_json(answer)
        else:
            for text in (verdicts.headline(verdict, output.printable(key)), *verdicts.brief(verdict)):
                output.line(text)
            nothing.tell_missing(client, [(key, verdict)], place)
    return codes.of_verdicts([verdict])
