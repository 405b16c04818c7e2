"""A pivot as text: numbers of a column with the same decimals, gaps in per cent, the best policy in bold in a paper."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from moeopt.brief import table
from moeopt.errors import one_line

if TYPE_CHECKING:
    from moeopt.bench.tables import Pivot

TINY = 9
"""Decimals of a table in which all is small."""
RATIOS = ("imbalance_mean", "imbalance_worst")
GAPS = ("gap", "gap_worst")
Row = Sequence[float | None]


def heading(pivot: Pivot) -> str:
    """What the numbers are, in a line."""
    return f"{pivot.metric}: {pivot.said}; means over all other axes"


def decimals(pivot: Pivot) -> int:
    """The same for the whole table: four of a ratio, of per cent as many as the largest needs, else six digits."""
    known = [abs(mean) for row in pivot.means for mean in row if mean is not None]
    if pivot.metric in RATIOS:
        return 4
    if pivot.metric in GAPS:
        return 3 if max(known, default=0.0) < 0.01 else 2
    from moeopt.report.words import decimals_for

    return decimals_for(known) if known else 0


def number(pivot: Pivot, value: float | None, places: int) -> str:
    """One number; what is not zero never looks like zero."""
    if value is None:
        return "-"
    scaled = value * 100 if pivot.metric in GAPS else value
    if abs(scaled) >= 1e15 or (places >= TINY and 0 < abs(scaled) < 1e-6):
        return f"{scaled:.5e}"  # nobody counts to it
    if 0 < scaled < 0.5 * 10**-places:
        return f"<{10**-places:.{places}f}"
    return f"{scaled:,.{places}f}"


def counted(pivot: Pivot, count: int) -> str:
    """How many cells a mean is over, where others are over more."""
    most = max((one for row in pivot.counts for one in row), default=0)
    return f" ({count})" if count < most else ""


def heads(pivot: Pivot) -> list[str]:
    """Names of the columns."""
    unit = " (%)" if pivot.metric in GAPS else ""
    return [pivot.rows, *(f"{name or pivot.metric}{unit}" for name in pivot.column_names)]


def cells(pivot: Pivot) -> list[list[tuple[str, str]]]:
    """Every number, and what stands behind it."""
    places = decimals(pivot)
    return [
        [
            (number(pivot, mean, places), "" if mean is None else counted(pivot, count))
            for mean, count in zip(*pair, strict=True)
        ]
        for pair in zip(pivot.means, pivot.counts, strict=True)
    ]


def as_text(pivot: Pivot) -> str:
    """Columns for a terminal, with the points of a column below each other."""
    rows = cells(pivot)
    behind = [max((len(row[place][1]) for row in rows), default=0) for place in range(len(pivot.column_names))]
    lines = [[one_line(name) for name in heads(pivot)]]
    lines += [
        [one_line(name), *(text + after.ljust(width) for (text, after), width in zip(row, behind, strict=True))]
        for name, row in zip(pivot.row_names, rows, strict=True)
    ]
    return "\n".join(table([[*line, ""] for line in lines]))  # no remarks stand behind the numbers


def as_markdown(pivot: Pivot) -> str:
    """A table with what it shows above it."""
    from moeopt.report.as_markdown import plain

    lines = [[plain(head) for head in heads(pivot)], ["---", *["---:"] * len(pivot.column_names)]]
    for name, row in zip(pivot.row_names, cells(pivot), strict=True):
        lines.append([plain(name), *(text + after for text, after in row)])
    bars = ["| " + " | ".join(line) + " |" for line in lines]
    why = [f"- {plain(line)}" for line in reasons(pivot)]
    return "\n".join([f"{heading(pivot)}{missing(pivot)}.", "", *bars, "", *why, *([""] if why else [])])


def as_csv(pivot: Pivot) -> str:
    """A row a pair of values, in full precision, gaps as parts of one."""
    from moeopt.report.as_csv import cell

    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    axes = [pivot.rows, pivot.columns or "all"]
    writer.writerow([*axes, "metric", "mean", "standard_deviation", "cells", "description"])
    for at, row in enumerate(pivot.row_names):
        for over, column in enumerate(pivot.column_names):
            figures = (pivot.means[at][over], pivot.spreads[at][over], pivot.counts[at][over])
            writer.writerow([cell(row), cell(column), pivot.metric, *figures, pivot.said])
    return buffer.getvalue()


def as_tex(pivot: Pivot) -> str:
    """A table for a paper: caption, label, deviations, and the best policy of every setting in bold; needs booktabs."""
    from moeopt.report.as_tex import plain

    spread = any(one is not None for row in pivot.spreads for one in row)
    name = "-".join(re.sub(r"[^a-z0-9]+", "-", word) for word in (pivot.metric, pivot.rows, pivot.columns) if word)
    said = (
        f"{pivot.said[0].upper()}{pivot.said[1:]}: mean{' ± standard deviation' if spread else ''} over all other axes"
    )
    least = best(pivot)
    places = decimals(pivot)
    lines = [r"% \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    caption = plain(said + missing(pivot)).replace("±", r"$\pm$")
    lines += [f"\\caption{{{caption}.}}", f"\\label{{tab:{name}}}"]
    lines += [f"\\begin{{tabular}}{{l{'r' * len(pivot.column_names)}}}", r"\toprule"]
    lines += [" & ".join(map(plain, heads(pivot))) + r" \\", r"\midrule"]
    for at, row in enumerate(pivot.row_names):
        shown = [plain(row)]
        for over in range(len(pivot.column_names)):
            mean, deviation = pivot.means[at][over], pivot.spreads[at][over]
            text = number(pivot, mean, places).replace(",", "{,}")
            if mean is None:
                shown.append("--")
                continue
            text = f"\\mathbf{{{text}}}" if (at, over) in least else text
            if deviation is not None:
                text += f" \\pm {number(pivot, deviation, places).replace(',', '{,}')}"
            elif spread:
                text += f"\\phantom{{{{}} \\pm {0:.{places}f}}}"
            count = counted(pivot, pivot.counts[at][over])
            shown.append(f"${text}$" + (f"\\rlap{{{count}}}" if count else ""))
        lines.append(" & ".join(shown) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def reasons(pivot: Pivot) -> list[str]:
    """Why cells have no result, a line a reason."""
    return [f"{times:,} cell{'s' * (times != 1)}: {reason.rstrip('.')}" for reason, times in pivot.reasons]


def missing(pivot: Pivot) -> str:
    """Cells that have no number."""
    return f"; {pivot.missing} cells have none" if pivot.missing else ""


def best(pivot: Pivot) -> set[tuple[int, int]]:
    """Places of the least number of each setting, where several policies are an axis; equal ones all.

    One that has numbers of fewer cells than others is not compared: those that it lacks may be the hard ones.
    """
    table = [
        [(mean, at, over) for over, mean in enumerate(row) if mean is not None] for at, row in enumerate(pivot.means)
    ]
    if pivot.metric == "lower_bound" or "policy" not in (pivot.rows, pivot.columns):
        return set()
    if pivot.rows == "policy":
        settings = [[one for row in table for one in row if one[2] == over] for over in range(len(pivot.column_names))]
    else:
        settings = table
    found = set()
    for one in settings:
        most = max((pivot.counts[at][over] for _, at, over in one), default=0)
        whole = [place for place in one if pivot.counts[place[1]][place[2]] == most]
        if len(one) > 1:
            found |= {(at, over) for mean, at, over in whole if mean == min(whole)[0]}
    return found
