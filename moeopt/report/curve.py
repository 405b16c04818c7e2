"""The slots curve as a file: a picture, a page, a table or a document, by the ending of its name."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from moeopt.documents import to_json, write_file
from moeopt.placement.curve import SlotsCurve
from moeopt.report import words
from moeopt.report.block import Header
from moeopt.report.endings import of_ending

COLUMNS = (
    *("redundant", "slots", "slots_per_gpu", "imbalance_mean", "imbalance_worst", "bound_mean", "gpu_bytes", "method"),
    *("best", "within_1_percent", "knee"),
)
"""Columns of the CSV file."""


def write_curve(path: str | Path, curve: SlotsCurve, header: Header | None = None, *, force: bool = False) -> None:
    """Write the curve, whole or not at all, in the format that the ending of `path` names.

    Raises
    ------
    InstanceError
        Unknown ending; the file exists and `force` is not set, or cannot be written.
    """
    write_file(path, of_ending(path, FORMATS, "format of a curve")(curve, header or Header()), force=force)


def _json(curve: SlotsCurve, header: Header) -> str:
    return to_json(curve.to_dict()) + "\n"


def _csv(curve: SlotsCurve, header: Header) -> str:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for place, point in enumerate(curve.points):
        marks = [int(place == at) for at in (curve.best, curve.within, curve.knee)]
        price = "" if point.gpu_bytes is None else point.gpu_bytes
        figures = (point.imbalance_mean, point.imbalance_worst, point.bound_mean, price, point.method)
        writer.writerow([point.redundant, point.slots, point.slots_per_gpu, *figures, *marks])
    return buffer.getvalue()


def _svg(curve: SlotsCurve, header: Header) -> str:
    from moeopt.report.plots.curve import curve_svg

    return curve_svg(curve)


def _png(curve: SlotsCurve, header: Header) -> bytes:
    from moeopt.report.plots.curve import curve_png

    return curve_png(curve)


def _html(curve: SlotsCurve, header: Header) -> str:
    from moeopt.report.as_html import escape
    from moeopt.report.page import STYLE
    from moeopt.report.plots.curve import curve_plot

    plot = curve_plot(curve, "c")
    name = escape(f"Redundant experts: {curve.instance['name'] or 'the instance'}")
    facts = [("Command", f"<code>{escape(header.command)}</code>")] if header.command else []
    facts += [("Seed", str(header.seed)), ("SHA-256", escape(str(curve.instance["sha256"])))]
    facts += [("Shape", escape(f"{curve.experts:,} experts, {curve.gpus:,} GPUs, {len(curve.layers)} layers"))]
    facts += [("Versions", escape(", ".join(f"{key} {value}" for key, value in header.versions.items())))]
    rows = "\n".join(_row(curve, place) for place in range(len(curve.points)))
    notes = "".join(f"<li>{escape(note)}.</li>" for note in curve.notes)
    heads = ("R", "slots a GPU", "memory a GPU", "imbalance, mean", "worst layer", "bound on the mean", "")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="moeopt">\n<title>{name}</title>\n<style>\n{STYLE}\n</style>',
            f'</head>\n<body>\n<main>\n<h1>{name}</h1>\n<p class="verdict">{escape(said(curve))}</p>',
            '<dl class="facts">' + "".join(f"<dt>{key}</dt><dd>{text}</dd>" for key, text in facts) + "</dl>",
            f'<figure>\n<div class="card" role="img" tabindex="0" aria-label="{escape(plot.alt)}">{plot.svg}</div>',
            f"<figcaption><b>{escape(plot.title)}.</b> {escape(plot.caption)}</figcaption>\n</figure>",
            '<div class="scroll" role="region" tabindex="0" aria-label="Table: the points">\n<table>',
            "<thead><tr>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead>",
            f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
            "</main>\n</body>\n</html>\n",
        ]
    )


def _row(curve: SlotsCurve, place: int) -> str:
    point = curve.points[place]
    price = words.NONE if point.gpu_bytes is None else f"{point.gpu_bytes / 1e9:,.2f} GB"
    figures = [words.ratio(value) for value in (point.imbalance_mean, point.imbalance_worst, point.bound_mean)]
    cells = [f"{point.slots_per_gpu:,}", price, *figures, ", ".join(marks(curve, place))]
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr{" class=best" if place == curve.within else ""}><th scope="row">{point.redundant:,}</th>{body}</tr>'


def said(curve: SlotsCurve) -> str:
    """What the curve says, in sentences."""
    points = curve.points
    best, within = points[curve.best], points[curve.within]
    text = (
        f"Mean imbalance over {words.count(len(curve.layers), 'layer')}: {words.ratio(points[0].imbalance_mean)} with "
        f"{words.count(points[0].redundant, 'redundant expert')}, at best {words.ratio(best.imbalance_mean)} with "
        f"{best.redundant}. The smallest number within 1 % of the best is {within.redundant} "
        f"({words.ratio(within.imbalance_mean)})."
    )
    if curve.knee is None:
        return f"{text} There is no knee."
    knee = points[curve.knee]
    return f"{text} Knee, the point farthest below the chord: {knee.redundant} ({words.ratio(knee.imbalance_mean)})."


def marks(curve: SlotsCurve, place: int) -> list[str]:
    """What a point is called."""
    named = ((curve.best, "best"), (curve.within, "within 1 %"), (curve.knee, "knee"))
    return [name for at, name in named if at == place]


FORMATS: dict[str, Callable[[SlotsCurve, Header], str | bytes]] = {
    ".svg": _svg,
    ".png": _png,
    ".html": _html,
    ".json": _json,
    ".csv": _csv,
}
"""Endings of the files a curve is written to, and what makes them."""
