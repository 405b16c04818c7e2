"""The sheet of a replay: what every policy is worth on windows it has not seen, and what it moves for that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moeopt.replay.answer import Replay, Row
from moeopt.replay.figures import Figures
from moeopt.report import words
from moeopt.report.replay_words import FOOTNOTES, PRICED, facts, remark, size, verdict
from moeopt.report.sheet import Head, Line, Sheet

if TYPE_CHECKING:
    from moeopt.report.plots.canvas import Plot

Column = tuple[Head, Callable[[Figures], str], str]
"""Head, the cell of a policy, and that of the bound."""

COLUMNS = (
    *("history", "sha256", "policy", "window", "name", "imbalance_mean", "imbalance_worst", "worst_layer"),
    *("imbalance_total", "bound", "planned", "moves", "moved_bytes", "stall_s", "gain_s"),
)
"""Columns of the CSV file, a row for each policy and window."""


def sheet(replay: Replay) -> Sheet:
    """All that is said of it."""
    columns = _columns(replay)
    judged = [row for row in replay.rows if row.scores]
    highest = words.ratio(max((score.imbalance_mean for row in judged for score in row.scores), default=1.0))
    said = f"Imbalance of each window in turn, from {words.ratio(1.0)} ({{low}}) to {highest} ({{high}}):"
    return Sheet(
        topic="Policies of re-planning",
        name=replay.history.name.strip() or f"history {replay.history.sha256[:8]}",
        verdict=verdict(replay),
        facts=facts(replay),
        heads=[head for head, _, _ in columns],
        lines=_lines(replay, columns),
        notes=[(note, []) for note in replay.notes],
        footnotes=[*FOOTNOTES, *(PRICED if replay.prices is not None else [])],
        closing="That a policy is better on this history is a fact; that it is better on the next one is not proved.",
        figures=partial(_figures, replay),
        spark_said=said,
        spark_low=1.0,
        spark=[(row.policy, [score.imbalance_mean for score in row.scores]) for row in judged],
        versions=replay.versions,
        columns=COLUMNS,
        records=[record for row in replay.rows for record in _records(replay, row)],
        document=replay.to_dict(),
    )


def _columns(replay: Replay) -> list[Column]:
    mean = sum(replay.bound) / len(replay.bound) if replay.bound else None
    worst = max(replay.bound, default=None)
    found: list[Column] = [
        (Head("Imbalance", "mean"), lambda one: words.ratio(one.imbalance_mean), words.ratio(mean)),
        (Head("Imbalance", "worst window"), lambda one: words.ratio(one.imbalance_worst_window), words.ratio(worst)),
        (Head("Imbalance", "worst layer"), lambda one: words.ratio(one.imbalance_worst_layer), ""),
        (Head("Imbalance", "total"), lambda one: words.ratio(one.imbalance_total), ""),
        (Head("Moves", "in all"), lambda one: f"{one.moves:,}", ""),
        (Head("Moves", "a re-plan"), lambda one: words.percent(one.moves_part), ""),
        (Head("Moves", "most"), lambda one: f"{one.most_moves:,}", ""),
    ]
    if replay.history.expert_bytes is not None:
        found.append((Head("Bytes moved"), lambda one: size(one.moved_bytes), ""))
    if replay.prices is not None:
        for head, key in (("experts", "experts_s"), ("stall", "stall_s"), ("saved", "saved_s")):
            found.append((Head("Seconds", head), partial(_seconds, key), ""))
    return found


def _seconds(key: str, figures: Figures) -> str:
    value = getattr(figures, key)
    return words.NONE if value is None else f"{value:,.4g}" if abs(value) < 1e5 else f"{value:,.0f}"


def _lines(replay: Replay, columns: list[Column]) -> list[Line]:
    """A line for each policy in the order given, and the bound."""
    found = []
    for row in replay.rows:
        if row.figures is None:
            found.append(Line("none", row.policy, (), words.short(row.reason or "no window was scored")))
            continue
        kind = "best" if row.policy == replay.best else "broken" if row.budget_held is False else "plan"
        cells = tuple(cell(row.figures) for _, cell, _ in columns)
        found.append(Line(kind, row.policy, cells, remark(replay, row)))
    if replay.bound:
        cells = tuple(bound for _, _, bound in columns)
        found.append(Line("bound", "bound", cells, "proven: no plan is below, not even one made for each window"))
    return found


def _records(replay: Replay, row: Row) -> list[dict[str, Any]]:
    """A policy window by window."""
    replans = {replan.window: replan for replan in row.replans}
    each = replay.history.expert_bytes
    found = []
    for score, floor in zip(row.scores, replay.bound, strict=False):
        replan = replans.get(score.window)
        record = {name: getattr(score, name) for name in COLUMNS[5:9]}
        record |= {
            "history": replay.history.name,
            "sha256": replay.history.sha256,
            "policy": row.policy,
            "window": score.window,
            "name": replay.windows[score.window],
            "bound": floor,
            "planned": int(replan is not None),
        }
        if replan is not None:
            record |= {"moves": replan.moves, "stall_s": replan.stall_s, "gain_s": replan.gain_s}
            record["moved_bytes"] = None if each is None else replan.moves * each
        found.append(record)
    return found


def _figures(replay: Replay, prefix: str) -> list[Plot]:
    from moeopt.report.plots.replay import replay_plot

    return [replay_plot(replay, f"{prefix}r")] if any(row.scores for row in replay.rows) else []
