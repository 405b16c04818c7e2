"""The table of a placement's methods: columns, cells and footnotes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moeopt.report import words
from moeopt.report.sheet import Head, Line
from moeopt.report.summary import RowSummary, Summary


@dataclass(frozen=True)
class Column(Head):
    """One column: its head, the cell of a row, and that of the bound."""

    cell: Callable[[RowSummary], str] = lambda row: ""
    bound: str = ""


def columns(summary: Summary) -> list[Column]:
    """Every column, the bound's own cell with it."""
    tops = [row.objective for row in summary.rows] + [row.lower_bound for row in summary.rows]
    places = words.decimals_for([*tops, summary.comparison.lower_bound])
    floor = words.amount(summary.comparison.lower_bound, places)
    least = summary.bound_imbalance
    mean, worst = (None, None) if least is None else (float(least.mean()), float(least.max()))
    layers = summary.instance.num_layers
    excess = None if mean is None else mean - 1.0
    reciprocal = None if least is None else float((1.0 / least).mean()) if least.all() else None

    def near(row: RowSummary) -> str:
        return words.NONE if row.layers_near is None else f"{row.layers_near} / {layers}"

    def whole(value: int | None) -> str:
        return words.NONE if value is None else f"{value:,}"

    return [
        Column(
            f"Objective ({'imbalance, summed' if summary.unit == 'imbalance' else summary.unit})",
            "",
            lambda row: words.amount(row.objective, places),
            floor,
        ),
        Column("Imbalance", "mean", lambda row: words.ratio(row.figure("imbalance_mean")), words.ratio(mean)),
        Column("Imbalance", "worst", lambda row: words.ratio(row.imbalance_worst), words.ratio(worst)),
        *(_held_out() if summary.scored else []),
        Column("Lower bound", "own", lambda row: words.amount(row.lower_bound, places), aside=True),
        Column("Gap to best bound", "mean", lambda row: words.percent(row.gap_mean)),
        Column("Gap to best bound", "worst", lambda row: words.percent(row.gap_worst)),
        *([Column("Moves", "", lambda row: whole(row.moves))] if summary.instance.current is not None else []),
        Column(f"Layers within {words.NEAR}", "", near, aside=True),
        Column("Replicas", "max", lambda row: whole(row.max_replicas), aside=True),
        Column("Replicas", "redundant", lambda row: whole(row.redundant_slots), aside=True),
        Column(
            "As engines log it",
            "imbalance_total",
            lambda row: words.ratio(row.figure("imbalance_total")),
            words.ratio(summary.bound_total),
            aside=True,
        ),
        Column(
            "As engines log it",
            "mean_over_max",
            lambda row: words.ratio(row.figure("mean_over_max")),
            words.ratio(reciprocal),
            aside=True,
        ),
        Column(
            "As engines log it",
            "excess",
            lambda row: words.ratio(row.figure("excess")),
            words.ratio(excess),
            aside=True,
        ),
        Column("Time", "", lambda row: words.seconds(row.runtime_s)),
    ]


def _held_out() -> list[Column]:
    """Imbalance on loads that the plans were not made for."""
    return [
        Column("Imbalance held out", "mean", lambda row: words.ratio(row.held_out_figure("mean"))),
        Column("Imbalance held out", "worst", lambda row: words.ratio(row.held_out_figure("worst"))),
    ]


def lines(summary: Summary) -> list[Line]:
    """A line for each method in the order given, and the bound."""
    found = []
    shown = columns(summary)
    for row in summary.rows:
        if row.solution is None:
            found.append(Line("none", row.method, (), words.short(row.reason)))
            continue
        kind = "best" if row.best else "broken" if row.remark else "plan"
        found.append(Line(kind, row.method, tuple(column.cell(row) for column in shown), row.said))
    if summary.comparison.lower_bound is not None:
        said = "proven: no plan is below" if summary.bound_kind == "certified" else "a solver's claim, not checked"
        found.append(Line("bound", "bound", tuple(column.bound for column in shown), said))
    return found


FOOTNOTES = [
    (
        "Objective",
        "sum over layers l of max over GPUs g of C(l,g), where C(l,g) = tokens on GPU g in layer l / speed of GPU g. "
        "Where the rules have a floor, an expert or replica counts as its load or the floor, whichever is larger. "
        "Tokens over the window, not time.",
    ),
    (
        "Imbalance",
        "max over g of C(l,g) / ideal(l), where ideal(l) is the cost of every GPU in perfect balance. With several "
        "windows a layer counts as their worst, mean or CVaR, as the rules say, and the objective is the sum of these.",
    ),
    ("Imbalance held out", "the same plan on loads that it was not made for, the mean over files and layers."),
    ("Lower bound", "what the method's own certificates prove; the best of all is the line “bound”."),
    (
        "Gap",
        "(max over g of C(l,g) - bound(l)) / max over g of C(l,g), where bound(l) is the largest bound of any "
        "method on layer l. None is given for a plan that breaks a rule: the bounds are for plans that keep it.",
    ),
    (f"Layers within {words.NEAR}", f"those with a gap of at most {words.NEAR} to a bound that was checked exactly."),
    ("Moves", "copies of experts to load into slots that do not hold them now, where a plan runs."),
    ("Redundant", "replicas beyond the first of each expert, in the layer that has most of them."),
    ("imbalance_total", "(sum over l of max over g of C(l,g)) / (sum over l of ideal(l)): layers run in turn."),
    ("mean_over_max", "mean over l of ideal(l) / max over g of C(l,g); 1 is perfect, and larger is better."),
    ("excess", "imbalance mean - 1; 0 is perfect."),
    ("Time", "measured on the machine that made this report, the referee's work and the bounds included."),
]
"""What each column means, with its formula."""


LIKE_NAMED = (
    "Serving engines log figures under like names that are not the same figure: imbalance_total, mean_over_max and "
    "excess are given so that each can be compared with its own kind."
)


def notes(summary: Summary) -> list[tuple[str, list[str]]]:
    """What happened and was not asked for: each note once, with the methods it is of (none: of all)."""
    of_all = [*summary.comparison.notes, *summary.instance.notes]
    found: dict[str, list[str]] = {note: [] for note in of_all}
    for row in summary.rows:
        for note in row.result.notes if row.result is not None else ():
            if note not in of_all:
                found.setdefault(note, []).append(row.method)
    return list(found.items())
