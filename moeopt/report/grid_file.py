"""The table of a grid as a file: a page, a table, a picture or the document, by the ending of its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moeopt.bench.tables import Pivot
from moeopt.documents import to_json, write_file
from moeopt.report.as_html import render_html
from moeopt.report.block import Header
from moeopt.report.endings import of_ending
from moeopt.report.grid import sheet


def write_pivot(
    path: str | Path,
    pivot: Pivot,
    header: Header | None = None,
    *,
    name: str = "grid",
    force: bool = False,
) -> None:
    """Write it, whole or not at all, in the format that the ending of `path` names.

    `name` is that of the grid.

    Raises
    ------
    InstanceError
        Unknown ending; the file exists and `force` is not set, or cannot be written.
    """
    render = of_ending(path, FORMATS, "format of a table")
    text = render(pivot) if render else render_html([sheet(pivot, name)], header or Header(seed=None))
    write_file(path, text, force=force)


def _svg(pivot: Pivot) -> str:
    from moeopt.report.plots.grid import grid_svg

    return grid_svg(pivot)


def _png(pivot: Pivot) -> bytes:
    from moeopt.report.plots.grid import grid_png

    return grid_png(pivot)


FORMATS: dict[str, Callable[[Pivot], str | bytes] | None] = {
    ".html": None,
    ".md": Pivot.as_markdown,
    ".csv": Pivot.as_csv,
    ".tex": Pivot.as_tex,
    ".json": lambda pivot: to_json(pivot.to_dict()) + "\n",
    ".svg": _svg,
    ".png": _png,
}
"""Endings of the files it is written to, and what makes them; a page has a header besides."""
