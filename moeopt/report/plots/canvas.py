"""From a matplotlib figure to a piece of SVG that can stand in a page beside others: no links, no global names."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#22262b", "#c9ced4"
HUES = "YlGnBu"  # of matplotlib; `colours` spaces them evenly in lightness
FONT = "DejaVu Sans"  # comes with matplotlib; only its widths matter, the page has its own font
WIDTH_IN = 10.0

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.edgecolor": "#767c84",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.color": INK,
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": "#767c84",
    "ytick.color": "#767c84",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "moeopt",
    "svg.image_inline": True,
}


@dataclass(frozen=True)
class Plot:
    """One figure: what it shows in a few words, its SVG, what a screen reader says, and its caption."""

    title: str
    svg: str
    alt: str
    caption: str


_LOCK = threading.Lock()


@contextmanager
def style() -> Iterator[None]:
    """Draw with our settings alone, whatever the user's are; one figure at a time, for matplotlib's are global."""
    import matplotlib.style

    with _LOCK, matplotlib.style.context(["default", STYLE]):
        yield


def new_figure(height_in: float) -> Figure:
    """An empty figure of the page's width."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout="constrained")


def to_svg(figure: Figure, prefix: str) -> str:
    """Draw, and keep what a page needs; ids begin with `prefix`, which is unique in the page."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
    return clean(buffer.getvalue(), prefix)


def clean(svg: str, prefix: str) -> str:
    """Leave out prolog, metadata, style sheet, name spaces and size; make ids unique and drop those nobody uses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*</defs>", "", svg)
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    used = set(re.findall(r'(?:xlink:href="|url\()#([^")]+)', body))
    names = {name: f"{prefix}-{index}" for index, name in enumerate(sorted(used))}

    def rename(match: re.Match[str]) -> str:
        return f' id="{names[match[1]]}"' if match[1] in names else ""

    body = re.sub(r'\s+id="([^"]*)"', rename, body)
    body = re.sub(r'xlink:href="#([^"]*)"', lambda match: f'href="#{names[match[1]]}"', body)
    body = re.sub(r"url\(#([^)]*)\)", lambda match: f"url(#{names[match[1]]})", body)
    body = body.replace("xlink:href=", "href=").replace("base64,\n", "base64,")
    body = re.sub(r"font:([^;\"]*?)(?:'[^']*'|&quot;[^&]*&quot;)[^;\"]*", _font, body)
    body = re.sub(r"\s*font-family:[^;\"]*;?", "", body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    return f'<svg {box[0]} aria-hidden="true" focusable="false">{body.strip()}'


def _font(match: re.Match[str]) -> str:
    """Weight and size of a ``font:`` shorthand; the family is the page's."""
    words = match[1].split()
    size = next(word for word in words if word[0].isdigit() and word.endswith("px"))
    weight = "; font-weight: bold" if {"bold", "700"} & set(words) else ""
    return f"font-size: {size}{weight}"


def label(text: str, limit: int = 30) -> str:
    """A name as a plot can show it: short, and only characters whose width is known."""
    known = _characters()
    shown = "".join(char if ord(char) in known else "?" for char in one_line(text))
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return f" {shown}" if shown.startswith("_") else shown  # a legend leaves out what starts with _


@cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(code for code in get_font(findfont(FONT)).get_charmap() if code >= 32)


def layer_axis(axes: Axes, layers: tuple[int, ...], which: str) -> None:
    """Ticks at whole positions, labelled with the ids of the LLM's layers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(whole_steps())
    axis.set_major_formatter(lambda value, _: str(layers[int(value)]) if 0 <= value < len(layers) else "")


def whole_steps() -> Any:
    """Ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=9, integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10])


def image(axes: Axes, values: NDArray[Any], **options: Any) -> Any:
    """A table of cells, embedded pixel by pixel so that size does not grow with the page."""
    shown = axes.imshow(values, aspect="auto", interpolation="none", **options)
    axes.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return shown


@cache
def colours() -> Any:
    """The map from numbers to colours, even in lightness: dark is much, in colour, in grey and to every eye.

    Cells without a number are grey.
    """
    import matplotlib
    from matplotlib.colors import ListedColormap

    samples = matplotlib.colormaps[HUES](np.linspace(0.0, 1.0, 256))[:, :3]
    linear = np.where(samples <= 0.04045, samples / 12.92, ((samples + 0.055) / 1.055) ** 2.4)
    lightness = -np.cbrt(linear @ np.array([0.2126, 0.7152, 0.0722]))  # as in CIE L*, rising with darkness
    even = np.linspace(lightness[0], lightness[-1], 256)
    spaced = np.stack([np.interp(even, lightness, channel) for channel in samples.T], axis=1)
    return ListedColormap(spaced, name="moeopt").with_extremes(bad="#d3d6d9")
