"""Names beside points of a figure: none over another, over a mark or a line, and no leader across another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.report.plots.canvas import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spot = tuple[float, float]
Segment = tuple[Spot, Spot]
ANGLES = (35, 60, 20, 80, -35, -60, 120, 145, -120, 0, 100, -145, 180)
"""Directions from a point that are tried at each distance, degrees."""
REACHES = (12, 20, 30, 44, 60, 80, 105)
"""Distances of a name from its point that are tried, points."""


RING, NEAR, EDGE, MARK = 9.0, 3.0, 5.0, 4.0
"""Half a ring around a bold point, what is too near to a leader, room to the frame, half a mark; points."""
WIDER = (1.08, 1.1)
"""How much larger a name may be with another font or resolution."""


@dataclass(frozen=True)
class Label:
    """A name of a point in the coordinates of the data."""

    x: float
    y: float
    text: str
    bold: bool = False


def crosses(one: Segment, other: Segment) -> bool:
    """Whether two segments cross.

    >>> crosses(((0, 0), (2, 2)), ((0, 2), (2, 0))), crosses(((0, 0), (1, 1)), ((2, 2), (3, 3)))
    (True, False)
    """

    def side(a: Spot, b: Spot, c: Spot) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = one, other
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def place_labels(figure: Figure, axes: Any, labels: Sequence[Label]) -> list[Any]:
    """Write as many of the names as have room, the first ones first; their boxes in points of the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    figure.set_layout_engine("none")  # what was measured stays where it is
    dots = np.concatenate([_dots(line) for line in axes.lines] or [np.zeros((0, 2))])
    point = figure.dpi / 72
    rings = np.array([axes.transData.transform((one.x, one.y)) for one in labels if one.bold]).reshape(-1, 2)
    around = [Bbox.from_bounds(x - RING * point, y - RING * point, *[2 * RING * point] * 2) for x, y in rings.tolist()]
    boxes: list[Any] = []
    leaders: list[Segment] = []
    for label in labels:
        look = {"fontsize": 8 if label.bold else 7, "fontweight": "bold" if label.bold else "normal"}
        measured = axes.text(0, 0, label.text, **look)
        extent = measured.get_window_extent(renderer)
        measured.remove()
        size = WIDER[0] * extent.width, WIDER[1] * extent.height
        spot = tuple(axes.transData.transform((label.x, label.y)).tolist())
        for across, up in _offsets():
            sides = _side(-across), _side(-up)
            corner = [at + offset * point - side * long for at, offset, side, long in
                      zip(spot, (across, up), sides, size, strict=True)]  # fmt: skip
            box = Bbox.from_bounds(corner[0], corner[1], size[0], size[1]).padded(2)
            leader = (spot, _nearest(box, spot))
            clear = not any(box.overlaps(ring) for ring in around) and not _touches(leader, dots, NEAR * point)
            if clear and _free(axes.bbox.padded(-EDGE * point), box, leader, boxes, leaders, dots):
                boxes.append(box)
                leaders.append(leader)
                _write(axes, label, (across, up), sides, look)
                break
    return boxes


def _write(axes: Any, label: Label, offset: Spot, sides: Spot, look: Mapping[str, Any]) -> None:
    """The name at this offset from its point, with a line to it from the side that looks there."""
    arrow = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 6 if label.bold else 3}
    text = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=offset,
        textcoords="offset points",
        ha=("left", "center", "right")[int(2 * sides[0])],
        va=("bottom", "center", "top")[int(2 * sides[1])],
        arrowprops={**arrow, "relpos": sides},
        zorder=5,
        **look,
    )
    text.set_in_layout(False)


def _offsets() -> Iterator[Spot]:
    for reach in REACHES:
        for angle in ANGLES:
            yield reach * math.cos(math.radians(angle)), reach * math.sin(math.radians(angle))


def _side(offset: float) -> float:
    """0, 0.5 or 1: which side of a name looks to its point.

    >>> _side(-9.0), _side(0.0), _side(9.0)
    (0.0, 0.5, 1.0)
    """
    return 0.5 if abs(offset) <= 1 else float(offset > 0)


def _free(frame: Any, box: Any, leader: Segment, boxes: Sequence[Any], leaders: Sequence[Segment], dots: Any) -> bool:
    """Whether a name and its leader are in nobody's way."""
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
    if not inside or any(box.overlaps(other) for other in boxes):
        return False
    wide = box.padded(MARK)
    within = (dots[:, 0] > wide.x0) & (dots[:, 0] < wide.x1) & (dots[:, 1] > wide.y0) & (dots[:, 1] < wide.y1)
    if within.any() or any(crosses(leader, other) for other in leaders):
        return False
    return not any(_through(leader, other) for other in boxes) and not any(_through(other, box) for other in leaders)


def _touches(leader: Segment, dots: Any, near: float) -> bool:
    """Whether a leader runs over marks or lines besides those where it begins."""
    (x, y), (far_x, far_y) = leader
    length = math.hypot(far_x - x, far_y - y)
    if not length or not len(dots):
        return False
    along = ((dots[:, 0] - x) * (far_x - x) + (dots[:, 1] - y) * (far_y - y)) / length
    aside = np.abs((dots[:, 0] - x) * (far_y - y) - (dots[:, 1] - y) * (far_x - x)) / length
    return bool(((along > 4 * near) & (along < length) & (aside < near)).any())


def _through(segment: Segment, box: Any) -> bool:
    """Whether a segment runs through a box."""
    parts = np.linspace(0, 1, 40)
    across = segment[0][0] + parts * (segment[1][0] - segment[0][0])
    up = segment[0][1] + parts * (segment[1][1] - segment[0][1])
    return bool(((across > box.x0) & (across < box.x1) & (up > box.y0) & (up < box.y1)).any())


def _nearest(box: Any, spot: Spot) -> Spot:
    """The place of a box that is nearest to a point."""
    return min(max(spot[0], box.x0), box.x1), min(max(spot[1], box.y0), box.y1)


def _dots(line: Any) -> Any:
    """Places of a line's marks in the figure, and of a drawn line others on the way between them."""
    marks = line.get_transform().transform(line.get_xydata())
    if line.get_linestyle() == "None" or len(marks) < 2:
        return marks
    parts = np.linspace(0, 1, 60)[:, None, None]
    return (marks[:-1] + parts * (marks[1:] - marks[:-1])).reshape(-1, 2)
