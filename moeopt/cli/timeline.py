"""The timeline in a terminal: a row a resource, a sign a micro-batch, never wider than it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moeopt.percent import percent
from moeopt.report.timeline import Bar, Lane, Timeline, Window, unseen

if TYPE_CHECKING:
    from rich.text import Text

SIGNS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Of micro-batches; after the last one they begin again."""
UNSPLIT = "="
COLOURS = ("#0072b2", "#e69f00", "#56b4e9", "#d55e00", "#009e73", "#f0e442", "#cc79a7", "#4d4d4d")
DARK = ("#0072b2", "#d55e00", "#009e73", "#4d4d4d")
LEAST = 12
"""Columns of time below which nothing is drawn."""
ROOMY = 30
"""Columns of time below which names are short."""
READABLE, GOOD = 1.5, 3.0
"""Columns of the longest bar: what a whole step must leave it, and what it gets where only a part is drawn."""
BREAK = 3
"""Columns between two windows."""

Line = list[tuple[str, str]]
"""Pieces of text with their style."""


@dataclass(frozen=True)
class Signs:
    """What idle time, a break and the start of a layer look like."""

    idle: str = "·"
    gap: str = "⋯"
    mark: str = "│"


ASCII = Signs(".", "~", "|")


def timeline_text(step: Timeline, width: int, unit: str, ascii_only: bool) -> Text | None:
    """The timeline as coloured text, or ``None`` where there is no room for one."""
    from rich.text import Text

    lines = timeline_lines(step, width, unit, ASCII if ascii_only else Signs())
    if not lines:
        return None
    text = Text("\n", no_wrap=True)
    return text.join([Text.assemble(*line, no_wrap=True) for line in lines])


def timeline_lines(step: Timeline, width: int, unit: str, signs: Signs) -> list[Line]:
    """Lines of at most `width` columns: layers, a line a lane, and times below.

    >>> from moeopt import microbatch
    >>> times = {"attention": 1, "dispatch": 0.5, "experts": 1}
    >>> step = Timeline.of(microbatch.solve(microbatch.MicrobatchInstance(times, layers=2, m=4)).solution)
    >>> for line in timeline_lines(step, 59, "s", ASCII):
    ...     print("".join(text for text, _ in line).rstrip())
               |layer 0        |1
    attention  00001111222233330000111122223333........  80.0 %
    link out   ....00..11..22..33..00..11..22..33......  40.0 %
    experts    ......00001111222233330000111122223333..  80.0 %
    link back  ..........00..11..22..33..00..11..22..33  40.0 %
               0                                   10 s
    """
    busy = [percent(step.utilisation[lane.resource]) for lane in step.lanes]
    right = max(map(len, busy), default=0) + 2
    names = _names(step)
    if width - max(map(len, names), default=0) - 2 - right < ROOMY:
        names = [name.rpartition(": ")[2] for name in names]
    left = max(map(len, names), default=0) + 2
    room = width - left - right
    if room < LEAST or not step.lanes:
        return []
    windows, columns, scale = _windows(step, room)
    found: list[Line] = [[(" " * left, ""), (_layers(step, windows, columns, scale, signs), "dim")]]
    for place, (name, lane) in enumerate(zip(names, step.lanes, strict=True)):
        line: Line = [(name.ljust(left), "")]
        for index, (window, count) in enumerate(zip(windows, columns, strict=True)):
            if index:
                line.append((signs.gap.center(BREAK), "dim"))
            line += _cells(lane, window.start, scale, count, signs)
        shown = not place or step.lanes[place - 1].resource != lane.resource
        line.append(((busy[place] if shown else "").rjust(right), ""))
        found.append(line)
    found.append([(" " * left, ""), (_times(step, windows, columns, scale, unit), "dim")])
    return found


def _names(step: Timeline) -> list[str]:
    """Resources; with the stage where one serves several."""
    served = [lane.resource for lane in step.lanes]
    return [
        f"{lane.resource}: {lane.stage}" if served.count(lane.resource) > 1 else lane.resource for lane in step.lanes
    ]


def _windows(step: Timeline, room: int) -> tuple[list[Window], list[int], float]:
    """What is drawn, the columns of each piece, and the seconds of a column.

    All of a step that is short enough; else its first layers and its steady state.
    """
    longest = max(bar.end - bar.start for lane in step.lanes for bar in lane.bars)
    whole = [Window(0.0, step.span)]
    if step.span / room <= longest / READABLE or step.layers < 4:
        return whole, [room], step.span / room
    half = (room - BREAK) // 2
    lap = step.starts[step.middle + 1] - step.starts[step.middle]
    scale = max(longest / GOOD, lap / half)
    length = half * scale
    start = step.starts[step.middle]
    if start < length or start + length > step.span:
        return whole, [room], step.span / room
    last = max(layer for layer, when in enumerate(step.starts) if when < length)
    return [Window(0.0, length), Window(start, start + length, unseen(last + 1, step.middle - 1))], [half, half], scale


def _cells(lane: Lane, start: float, scale: float, count: int, signs: Signs) -> Line:
    """A column shows the bar that takes most of it, if that is half of it, or a short one that has its middle there."""
    shown: list[Bar | None] = [None] * count
    part = [0.499] * count
    middles: list[tuple[int, Bar]] = []
    for bar in lane.bars:
        low, high = (bar.start - start) / scale, (bar.end - start) / scale
        if high <= 0 or low >= count:
            continue
        for column in range(max(int(low), 0), min(int(high) + 1, count)):
            covered = min(high, column + 1) - max(low, column)
            if covered > part[column] + 1e-9:
                shown[column], part[column] = bar, covered
        middle = int((low + high) / 2)
        if 0 <= middle < count:
            middles.append((middle, bar))
    for column, bar in middles:
        if bar in shown:
            continue
        taken = shown[column]
        side = 1 if taken is not None and taken.start < bar.start else -1
        for near in (column, column + side):  # a bar that has no column takes one of a neighbour's, in its turn
            if 0 <= near < count and (shown[near] is None or shown.count(shown[near]) > 1):
                shown[near] = bar
                break
    pieces: Line = []
    for one in shown:
        sign, look = (signs.idle, "dim") if one is None else _look(one)
        if pieces and pieces[-1][1] == look:
            pieces[-1] = (pieces[-1][0] + sign, look)
        else:
            pieces.append((sign, look))
    return pieces


def _look(bar: Bar) -> tuple[str, str]:
    """Sign and style of a bar."""
    if bar.micro_batch < 0:
        return UNSPLIT, "black on #9aa1a9"
    colour = COLOURS[bar.micro_batch % len(COLOURS)]
    ink = "white" if colour in DARK else "black"
    return SIGNS[bar.micro_batch % len(SIGNS)], f"{ink} on {colour}"


def _layers(step: Timeline, windows: Sequence[Window], columns: Sequence[int], scale: float, signs: Signs) -> str:
    """Where layers start, by number."""
    text = ""
    for index, (window, count) in enumerate(zip(windows, columns, strict=True)):
        if index:
            text += " " * BREAK
        seen = [
            (layer, int((when - window.start) / scale + 0.5))
            for layer, when in enumerate(step.starts)
            if window.start - scale / 2 <= when < window.end
        ]
        roomy = len(seen) < 2 or seen[1][1] - seen[0][1] > len(f"layer {seen[0][0]}")
        piece = ""
        for layer, column in seen:
            word = f"{signs.mark}{'layer ' if roomy and not piece else ''}{layer}"
            if len(piece) <= column <= count - len(word):
                piece = piece.ljust(column) + word
        text += piece.ljust(count)
    return text


def _times(step: Timeline, windows: Sequence[Window], columns: Sequence[int], scale: float, unit: str) -> str:
    """When each piece begins, and when the step ends if that is drawn."""
    from moeopt.cli.stage_times import SECONDS

    size = float(SECONDS[unit])
    text = ""
    for index, (window, count) in enumerate(zip(windows, columns, strict=True)):
        if index:
            text += " " * BREAK
        start, end = f"{window.start / size:.5g}", f"{window.end / size:.5g} {unit}"
        if index + 1 < len(windows) or len(start) + len(end) + 1 > count:
            text += start.ljust(count)[:count]
        else:
            text += start + end.rjust(count - len(start))
    return text
