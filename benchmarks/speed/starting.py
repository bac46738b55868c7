"""Rows about many changes and many files: a burst (4), a checkout (5), starting (6) and starting again (7)."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from support import Daemon

from provd.client import Client, ProvdUnreachable
from speed.beside import quiet
from speed.bursts import git, prepare_checkout
from speed.figures import Table, ratio
from speed.plan import Plan, Tree, write
from speed.processes import Watchman, blocking, kept_client, watchman_query
from speed.questions import put_all, watching
from speed.watchers import WATCHERS

_STARTS: Final = 3
"""Fresh processes a table: each has to take in the whole tree."""
_LONG: Final = 900.0
"""Seconds after which a start is given up."""
_PAUSE: Final = 0.002
_CRAWL: Final = "Watchman's crawl"
_WATCHING: Final = "root.add, until `watching`"
_TABLE: Final = "root.add, until scanned"
_COLD: Final = "provd run, until `watching`"
_AGAIN: Final = "the same again"
_TRUE: Final = "the same, until a true answer"


def burst(plan: Plan) -> None:
    """Row 4: 100,000 new files while they are watched, against Watchman's processor time and a bare hash loop."""
    import xxhash  # noqa: PLC0415  no other row needs it

    took: dict[str, list[float]] = {"bare hash loop": [], "provd, all logged with digest": []}
    cpu: dict[str, list[float]] = {"Watchman": [], "provd": []}
    lost = missing = 0
    runs = 20 if plan.scale else min(_STARTS, plan.rounds)
    for _ in range(runs):
        home = plan.place("burst")
        os.mkdir(home)
        row = WATCHERS["provd"]("files", home, plan.share)
        took["provd, all logged with digest"].append(row["digests_s"] * 1e9)
        cpu["provd"].append(row["cpu_s"] * 1e9)
        lost += row["overflows"]
        missing += row["missing"]
        shutil.rmtree(home)
        os.mkdir(home)
        who = "watchman" if "watchman" in WATCHERS else "alone"
        row = WATCHERS[who]("files", home, plan.share)
        cpu["Watchman"] += [row["cpu_s"] * 1e9] if "cpu_s" in row else []
        start = time.perf_counter_ns()
        for at, _, names in os.walk(f"{home}/root"):
            for name in names:
                with open(f"{at}/{name}", "rb") as file:
                    xxhash.xxh3_128_digest(file.read())
        took["bare hash loop"].append(time.perf_counter_ns() - start)
        shutil.rmtree(home)
    title = f"{plan.size(1000) * 100:,} files made in a burst, {runs} runs"
    table = Table("4", f"{title}: after the writer's end", unit="ms", base="bare hash loop")
    for name, found in took.items():
        table.add(name, found)
    table.at_most("all logged, of the bare hash loop", table.lines["provd, all logged with digest"].ratio, 1.0)
    table.at_most("overflows in all runs (on a quiet machine)", lost, 0)
    table.at_most("paths that are not in the log", missing, 0)
    plan.tell(table)
    table = Table("4", f"{title}: processor time", unit="ms", base="Watchman")
    _beside_watchman(plan, table, cpu, "of Watchman's", 1.3)


def checkout(plan: Plan) -> None:
    """Row 5: git changes 20,000 files, then one question about ten of them."""
    files = plan.size(20_000)
    repositories = [plan.place("repository"), plan.place("repository")]
    for repository in repositories:
        os.mkdir(repository)
        prepare_checkout(repository, files / 20_000)
    paths = [[f"{root}/src/{n}/f{n}" for n in range(10)] for root in repositories]
    table = Table("5", f"git checkout of {files:,} files, then one question", unit="ms", base="Watchman")
    samples: dict[str, list[int]] = {"Watchman": [], "provd": []}
    with contextlib.ExitStack() as stack:
        root = repositories[0]
        daemon = stack.enter_context(watching(plan, plan.placements[0], root))
        assert daemon.process is not None
        key, client = put_all(daemon, root, paths[:1])[0], kept_client(daemon.socket)
        asked: list[tuple[str, str, int, Callable[[], object]]] = []
        asked.append(("provd", root, daemon.process.pid, lambda: client.check(key, root=root)["verdict"]))
        if Watchman.is_here():
            peer = stack.enter_context(Watchman(plan.place("watchman")))
            peer.watch(repositories[1])
            query = watchman_query(repositories[1], paths[1])
            asked.append(("Watchman", repositories[1], peer.process.pid, blocking(peer.sock, lambda: query)))
        for number in range(2 * plan.rounds):
            for name, repository, pid, ask in asked:
                git(repository, "checkout", "-q", ("two", "one")[number % 2])
                start = time.perf_counter_ns()
                answer = ask()
                samples[name].append(time.perf_counter_ns() - start)
                if name == "provd" and answer != ("dirty", "fresh")[number % 2]:
                    raise RuntimeError(f"{answer} after a checkout that makes it {('dirty', 'fresh')[number % 2]}")
                quiet(pid)
    _beside_watchman(plan, table, samples, "p50, of Watchman's", 0.7)


def _beside_watchman(
    plan: Plan, table: Table, samples: Mapping[str, Sequence[float]], figure: str, limit: float
) -> None:
    """Tells what was measured, where Watchman is there beside it, and the medians' ratio."""
    for name, found in samples.items():
        if found:
            table.add(name, found)
    table.at_most(figure, ratio(table.p50("provd"), table.p50("Watchman")), limit)
    plan.tell(table)


def start(plan: Plan) -> None:
    """Rows 6 and 7: until 100,000 files are watched, and again with nothing changed."""
    _start(plan, plan.tree(plan.size(100_000)))
    if plan.scale:
        tree = Tree(plan.place("tree"), 1_000_000, per_directory=50)
        _start(plan, tree)
        shutil.rmtree(tree.root)


def _start(plan: Plan, tree: Tree) -> None:
    crawled: dict[str, list[int]] = {_CRAWL: [], _WATCHING: [], _TABLE: []}
    whole: dict[str, list[int]] = {_COLD: [], _AGAIN: [], _TRUE: []}
    for _ in range(min(_STARTS, plan.rounds)):
        if Watchman.is_here():
            with Watchman(plan.place("watchman")) as peer:
                begun = time.perf_counter_ns()
                peer.watch(tree.root)
                crawled[_CRAWL].append(time.perf_counter_ns() - begun)
        with _started(plan, []) as daemon:
            begun = time.perf_counter_ns()
            client = kept_client(daemon.socket)
            client.call("root.add", path=tree.root, wait=False)
            _until_watching(client)
            crawled[_WATCHING].append(time.perf_counter_ns() - begun)
            client.call("root.add", path=tree.root)
            crawled[_TABLE].append(time.perf_counter_ns() - begun)
        with _started(plan, [tree.root], whole[_COLD]) as daemon:
            _again(plan, daemon, tree, whole)
    shape = f"{len(tree.paths):,} files in {len(tree.directories):,} directories"
    table = Table("6", f"a root taken up by a running daemon, {shape}", unit="ms", base=_CRAWL)
    for name, found in crawled.items():
        if found:
            table.add(name, found)
    table.at_most("to `watching`, of Watchman's crawl", ratio(table.p50(_WATCHING), table.p50(_CRAWL)), 0.25)
    table.at_most("to the whole file table, of Watchman's crawl", ratio(table.p50(_TABLE), table.p50(_CRAWL)), 0.8)
    plan.tell(table)
    table = Table("7", f"a whole start, {shape}", unit="ms", base=_COLD).add_all(whole)
    table.at_most("the restart, of the cold start", table.lines[_AGAIN].ratio, 1.0)
    plan.tell(table)


@contextlib.contextmanager
def _started(plan: Plan, roots: list[str], took: list[int] | None = None) -> Iterator[Daemon]:
    """A fresh daemon; `took` gets the nanoseconds until its roots are watched."""
    daemon = Daemon(home=plan.place("provd"), roots=roots)
    try:
        begun = time.perf_counter_ns()
        daemon.launch()
        with contextlib.closing(_answering(daemon)) as client:
            _until_watching(client)
        if took is not None:
            took.append(time.perf_counter_ns() - begun)
        yield daemon
    finally:
        daemon.close()


def _again(plan: Plan, daemon: Daemon, tree: Tree, whole: dict[str, list[int]]) -> None:
    """Starts it anew. Raises RuntimeError where its first answers are not true."""
    changed = plan.place("changed")
    write(changed, b"before")
    fresh, dirty = put_all(daemon, tree.root, [tree.paths[:1], [changed]])
    daemon.stop()
    write(changed, b"after, while it was down")
    begun = time.perf_counter_ns()
    daemon.launch()
    with contextlib.closing(_answering(daemon)) as client:
        verdicts = client.check(keys=[fresh, dirty], root=tree.root)["verdicts"]
        whole[_TRUE].append(time.perf_counter_ns() - begun)
        _until_watching(client)
        whole[_AGAIN].append(time.perf_counter_ns() - begun)
    told = [verdicts[key]["verdict"] for key in (fresh, dirty)]
    if told != ["fresh", "dirty"]:
        raise RuntimeError(f"the first answers after a restart were {told}, not fresh and dirty")


def _answering(daemon: Daemon) -> Client:
    """A client, as soon as the daemon answers. Raises TimeoutError where it does not."""
    deadline = time.monotonic() + _LONG
    while time.monotonic() < deadline:
        with contextlib.suppress(ProvdUnreachable):
            return kept_client(daemon.socket)
        time.sleep(_PAUSE)
    raise TimeoutError(f"the daemon did not answer in {_LONG:g} s; it said: {daemon.said()[-300:]}")


def _until_watching(client: Client) -> None:
    """Returns when no root is being scanned. Raises TimeoutError where one stays so."""
    deadline = time.monotonic() + _LONG
    while any(root["state"] == "scanning" for root in client.call("root.list")["roots"]):
        if time.monotonic() > deadline:
            raise TimeoutError(f"a root was still being scanned after {_LONG:g} s; see provd status")
        time.sleep(_PAUSE)
