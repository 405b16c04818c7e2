"""Imbalance over time of every policy, and below it what each re-plan moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.replay.answer import Replay, Row
from moeopt.replay.policies import KEEP
from moeopt.report import words
from moeopt.report.plots.canvas import FAINT, Plot, label, new_figure, style, to_svg, whole_steps
from moeopt.report.plots.files import as_png, as_svg
from moeopt.report.plots.looks import LOOKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12
"""Policies that are drawn; the table has all."""
TITLE = "Imbalance over time, and what re-plans move"
MARKED = 40
"""Windows up to which every one has a marker."""


def replay_plot(replay: Replay, prefix: str) -> Plot:
    """Draw for a page."""
    with style():
        svg = to_svg(_figure(replay), prefix)
    means = [row for row in replay.rows if row.figures is not None]
    named = "; ".join(f"{row.policy} {words.ratio(row.figures.imbalance_mean)}" for row in means if row.figures)
    caption = (
        "Above, the mean over layers in each window, under a plan that was made before it; lower is better, and no "
        "plan is below the dashed bound. Below, the slots that each re-plan fills anew. Fine lines: times of re-plans."
    )
    if len(_drawn(replay)) < len(replay.rows):
        caption += f" The first {SHOWN} policies with scores are drawn."
    return Plot(TITLE, svg, f"{TITLE}. Mean imbalance: {named}.", caption)


def replay_svg(replay: Replay) -> str:
    """An SVG file of its own."""
    return as_svg(lambda: _figure(replay))


def replay_png(replay: Replay) -> bytes:
    """A PNG file, 1,500 points wide."""
    return as_png(lambda: _figure(replay))


def _drawn(replay: Replay) -> list[Row]:
    return [row for row in replay.rows if row.scores][:SHOWN]


def _figure(replay: Replay) -> Figure:
    rows = _drawn(replay)
    moving = [row for row in rows if row.replans]
    figure = new_figure(5.2 if moving else 3.6)
    heights = [2.2, 1.0] if moving else [1.0]
    grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    top = grid[0][0]
    for axes in grid[:, 0]:
        axes.grid(axis="y", color=FAINT, linewidth=0.4)
        axes.spines[["top", "right"]].set_visible(False)
        for period in replay.periods[: replay.played]:
            if period.scored.start > replay.lookback or replay.first_method == "current":
                axes.axvline(period.scored.start - 0.5, color=FAINT, linewidth=0.4, zorder=0)
    for row, (colour, dashes, marker) in zip(rows, _looks(rows), strict=True):
        windows = [score.window for score in row.scores]
        values = [score.imbalance_mean for score in row.scores]
        thick = 2.2 if row.policy == replay.best else 1.3
        shape = {"marker": marker, "markersize": 3.6, "markerfacecolor": "white"} if len(windows) <= MARKED else {}
        top.plot(windows, values, color=colour, linestyle=dashes, linewidth=thick, label=_named(row), **shape)
    top.plot(list(replay.scored), replay.bound, color="#22262b", linewidth=0.9, dashes=(6, 3), label="no plan is below")
    high = max(score.imbalance_mean for row in rows for score in row.scores)
    low = min(min(replay.bound), 1.0)
    room = max(high - low, 0.002)
    top.set_ylim(low - 0.04 * room, high + 0.06 * room)
    top.set_ylabel("imbalance, mean over layers")
    top.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.4)
    if moving:
        _moves(grid[1][0], replay, rows)
    last = grid[-1][0]
    last.set_xlabel("window")
    last.xaxis.set_major_locator(whole_steps())
    last.set_xlim(replay.scored.start - 0.7, replay.scored.stop - 0.3)
    return figure


def _moves(axes: Any, replay: Replay, rows: list[Row]) -> None:
    """Slots that each re-plan fills anew, bars side by side."""
    slots = replay.history.num_slots * replay.history.num_layers
    looks = dict(zip((row.policy for row in rows), _looks(rows), strict=True))
    shown = [row for row in rows if row.replans]
    wide = 0.8 / len(shown) * min(replay.every, 3)
    hatches = ("", "////", "----", "xxxx", "\\\\\\\\", "||||")  # dots would take a quarter of a megabyte
    for place, row in enumerate(shown):
        at = [replan.window - 0.4 + wide * (place + 0.5) for replan in row.replans]
        parts = [100 * replan.moves / slots for replan in row.replans]
        hatch = hatches[place % len(hatches)]
        axes.bar(at, parts, wide, color=looks[row.policy][0], edgecolor="white", linewidth=0.3, hatch=hatch)
    axes.set_ylabel("% of slots new")
    axes.set_ylim(0, max(100 * replan.moves / slots for row in shown for replan in row.replans) * 1.1 or 1.0)


def _looks(rows: list[Row]) -> list[tuple[Any, Any, str]]:
    """`keep` is grey, the others take their looks in turn."""
    found: list[tuple[Any, Any, str]] = []
    turn = 0
    for row in rows:
        if row.method == KEEP:
            found.append(("#767c84", (0, (1, 1)), "x"))
            continue
        found.append(LOOKS[turn % len(LOOKS)])
        turn += 1
    return found


def _named(row: Row) -> str:
    mean = "" if row.figures is None else f", mean {words.ratio(row.figures.imbalance_mean)}"
    return label(f"{row.policy}{mean}", 44)
