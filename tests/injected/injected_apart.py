"""The sites that no scene passes, and why.

Rule: a site is named by how it begins, and no line of a file is. What is never passed and not named here is found, and
so is a name that no site has any more. A site that is passed now and then may stand here.
"""

from __future__ import annotations

from typing import Final

APART: Final[dict[str, tuple[str, ...]]] = {
    "only commands call it, in their own process": (
        "configuration.py:with_roots",
        "disk/mounts.py:mounted",
        "elsewhere.py:_candidates",
        "elsewhere.py:answers",
        "holders.py:written",
        "reach.py:is_killed",
        "reach.py:lies_at",
        "reach.py:stat_of",
        "refusals.py:met",
    ),
    "only tests call it": ("store/files.py:Files.count",),
    "what it needs is not made here: the clock of the machine that is set, a disk that answers nothing, another user": (
        "disk/epoch.py:Epoch._rearm",
        "disk/states.py:_open:os.open#2",
        "farend.py:_is_his",
        "farend.py:is_outermost",
        "lockfile.py:BoundSocket._bind:os.chmod",
        "refusals.py:make_directory:os.stat",
        "store/locktable.py:_try:os.pread",
        "store/locktable.py:_try:os.pwrite",
        "store/commit.py:Store.waits_for_disk",
    ),
    "mounts that hang while somebody writes there, or that show one directory twice (tests/disk, tests/watch)": (
        "believed.py:_answers",
        "recorder/hashing.py:Hashing._once_apart:self._workers.call",
        "watch/arrival.py:Directory.is_also",
        "watch/arrival.py:Directory.member",
        "watch/roots.py:Roots._passage",
    ),
    "a store that is another one, or whose failed commit is there (tests/faults, tests/store)": (
        "store/commit.py:Store._check_own",
        "store/environment.py:Environment.prove",
    ),
    "standard error is a terminal or a pipe (tests/shell/test_logs)": (
        "stream.py:_by_pieces",
        "stream.py:_opened_again",
        "stream.py:_sender:os.write#2",
    ),
    "thousands of dependencies in one entry (tests/blackbox/test_bad_names)": (
        "disk/workers.py:Workers.read:asyncio.to_thread",
        "recorder/together.py:Together._read:asyncio.to_thread",
    ),
    "only where two things fall together, which no scene can choose": (
        "heartbeat.py:Heartbeat._taken",
        "disk/states.py:look_closely:os.lstat",
        "inquiry.py:Inquiry._judged_again",
        "inquiry.py:Inquiry.judge:self._judged_again",
        "recorder/actions.py:Actions.wait_for_holders:self._held.let_go",
        "recorder/entries.py:Entries._put:self._inquiry.reread",
        "recorder/hashing.py:Hashing._hash_apart:asyncio.sleep",
        "recorder/mutations.py:Pump._notices:asyncio.sleep",
        "recorder/mutations.py:Pump._piece:self.scanning.check",
        "recorder/roots.py:Roots.settled",
        "recorder/scanning.py:Scanning._doubted",
        "recorder/scanning.py:Scanning._visit:writing",
        "recorder/scanning.py:Scanning.check",
        "recorder/scanning.py:Scanning.step:self.check",
        "recorder/waking.py:Waking.pause",
        "recorder/waking.py:Waking.ripen",
        "responder.py:Responder.since:self._watch.recorded#2",
        "sealed.py:SealedReader._seals_of:self._still",
        "sealed.py:_now_and_then",
        "showing.py:Showing.clock:asyncio.wait_for",
        "selfcheck.py:SelfCheck._is_explained:changed",
        "selfcheck.py:SelfCheck.look:self._is_explained",
        "server.py:Server.stop",
        "shortcut.py:Shortcut.all_fresh:asyncio.sleep",
        "store/history.py:History._newest_matching:cursor.set_range#2",
        "store/rows.py:Rows.indexed",
        "subscriptions.py:Subscriptions._viewed:asyncio.sleep",
        "watch/polling.py:Polling.scan_now:asyncio.wait",
        "watch/polling.py:Polling.settled",
    ),
    "it comes after another fault": ("lockfile.py:BoundSocket._bind:os.unlink",),
    "it comes after a day": ("store/migrate.py:prove_in_time:store.submit",),
    "a seal that stands for another content (tests/shell/test_selfcheck), or a reader without seals": (
        "reader.py:Reader.stats:self._workers.each",
        "selfcheck.py:SelfCheck._is_explained:self._watch.recorded",
    ),
}
"""How sites begin, by the reason."""
MOUNTED: Final = (
    "recorder/lister.py:_Flight._fly",
    "recorder/looking.py:Looking._look_apart",
    "showing.py:Showing.clock:asyncio.wait_for#2",
)
"""What only a scene passes that mounts something."""


def unexplained(known: set[str], never: set[str], *, mounts: bool) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Of sites that are never passed: those of each reason, those of none; and the names that explain nothing.

    `mounts` says whether something was mounted.
    """
    apart = APART if mounts else {**APART, "nothing may be mounted here": MOUNTED}
    reasons = {name: reason for reason, names in apart.items() for name in names}
    why: dict[str, list[str]] = {reason: [] for reason in apart}
    unknown = []
    for site in sorted(never):
        name = next((name for name in reasons if f"{site}:".startswith(f"{name}:")), None)
        if name is None:
            unknown.append(site)
        else:
            why[reasons[name]].append(site)
    gone = [name for name in reasons if not any(f"{site}:".startswith(f"{name}:") for site in known)]
    return why, unknown, gone
