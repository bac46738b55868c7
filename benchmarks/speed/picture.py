"""The curves as one picture of small panels. The colours are told apart by whoever sees few; each has its own mark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter


class Panel(NamedTuple):
    """What one curve's axes say; `linear` y axes begin at nothing."""

    title: str
    across: str
    up: str
    linear: bool


class Line(NamedTuple):
    """How a series looks, and what it is called."""

    called: str
    colour: str
    mark: str
    dashes: str = "-"


_ROOM: Final = 1.35
"""How much higher than its lines a panel is, so that their names have a place."""
PANELS: Final = {
    "dependencies": Panel("A question, by what it rests on", "files of the entry", "µs, median", linear=False),
    "files": Panel("A question about ten files, by the root", "files in the root", "µs, median", linear=True),
    "entries": Panel("provd, ten files, by what is remembered", "entries in the store", "µs, median", linear=True),
    "records": Panel("provd, ten files, by the length of the log", "records in the log", "µs, median", linear=True),
    "start": Panel("Adding a root", "files in the root", "seconds, median", linear=False),
    "burst": Panel("Files of a burst that were never told", "files written at once", "% of the files", linear=True),
}
LINES: Final = {
    "provd": Line("provd", "#0072B2", "o"),
    "Watchman": Line("Watchman, synchronised", "#D55E00", "s"),
    "watchman": Line("Watchman", "#D55E00", "s"),
    "bare os.stat": Line("bare os.stat", "#666666", "^", "--"),
    "watchdog": Line("watchdog", "#009E73", "D"),
    "watchfiles": Line("watchfiles", "#CC79A7", "v"),
    "Watchman's crawl": Line("Watchman's crawl", "#D55E00", "s"),
    "root.add, until `watching`": Line("provd: watched", "#0072B2", "o"),
    "root.add, until scanned": Line("provd: all known", "#56B4E9", "P", "--"),
}


def _short(number: float, _position: object = None) -> str:
    """100k for 100,000: what stands at an axis."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def draw(curves: dict[str, Any], file: str) -> None:
    """All curves that were measured, as a PNG; `curves` has of each its `series`: name -> [[size, figure], ...]."""
    shown = [name for name in PANELS if name in curves]
    rows = -(-len(shown) // 2)
    plt.switch_backend("Agg")  # no screen is needed
    figure, axes = plt.subplots(rows, 2, figsize=(8, 2.75 * rows), layout="constrained", squeeze=False)
    short: Callable[[float, object], str] = _short
    for at, name in zip(axes.flat, shown, strict=False):
        panel = PANELS[name]
        for series, points in curves[name]["series"].items():
            line = LINES[series]
            x, y = zip(*points, strict=True)
            called = line.called + " (none)" * (not any(y))  # lines of nothing hide each other
            at.plot(x, y, line.dashes, color=line.colour, marker=line.mark, markersize=5, label=called)
        at.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
        at.set(xlabel=panel.across, ylabel=panel.up, xscale="log")
        if panel.linear:
            at.set_ylim(0, max(1.0, at.get_ylim()[1] * _ROOM))
        else:
            at.set_yscale("log")
        for axis in (at.xaxis, at.yaxis):
            axis.set_major_formatter(FuncFormatter(short))
            axis.set_minor_formatter(NullFormatter())
        at.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.6)
        at.spines[["top", "right"]].set_visible(False)
        if len(curves[name]["series"]) > 1:
            at.legend(frameon=False, fontsize=8)
    for at in list(axes.flat)[len(shown) :]:
        at.set_axis_off()
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)
