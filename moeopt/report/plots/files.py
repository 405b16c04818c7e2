"""A figure as a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from moeopt.report.plots.canvas import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_svg(draw: Callable[[], Figure]) -> str:
    """What `draw` draws as SVG, without a date or the name of a program: the same figure is the same bytes."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = StringIO()
    with style():
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(draw()).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def as_png(draw: Callable[[], Figure], dpi: int = 150) -> bytes:
    """What `draw` draws as PNG: ten inches, so 1,500 points wide unless `dpi` says otherwise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = BytesIO()
    with style():
        figure = draw()
        figure.set_dpi(dpi)
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()
