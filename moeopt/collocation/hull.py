"""How few units a token can touch, by how many pairs of its experts lie together: a convex piecewise linear function.

A token of k experts spread as ``a_1 + ... + a_p = k`` over p units has ``sum a_i (a_i - 1) / 2`` pairs together and
touches p. The lower convex hull of these points bounds p from below for any spread, and by Jensen's inequality the mean
of p over tokens by the mean of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

Point = tuple[int, int]
"""(pairs together, units touched)."""


@cache
def points(size: int, units: int, room: int) -> tuple[Point, ...]:
    """For each number of pairs together the fewest units, over all spreads of `size` experts.

    Parameters
    ----------
    units, room
        Most units, and most experts in one.

    >>> points(4, 2, 4)
    ((2, 2), (3, 2), (6, 1))
    """
    best: dict[int, int] = {}

    def spread(left: int, most: int, parts: int, pairs: int) -> None:
        if left == 0:
            best[pairs] = min(best.get(pairs, parts), parts)
            return
        if parts == units:
            return
        for part in range(min(left, most), 0, -1):
            if part * (units - parts) < left:
                break
            spread(left - part, part, parts + 1, pairs + part * (part - 1) // 2)

    spread(size, room, 0, 0)
    return tuple(sorted(best.items()))


@cache
def hull(size: int, units: int, room: int) -> tuple[Point, ...]:
    """The corners of the lower convex hull from the fewest pairs on, as far as it falls.

    >>> hull(4, 4, 4)
    ((0, 4), (2, 2), (6, 1))
    """
    found: list[Point] = []
    for point in points(size, units, room):
        while len(found) >= 2 and _right_of(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    lowest = min(range(len(found)), key=lambda place: found[place][1])
    return tuple(found[: lowest + 1])


def _right_of(a: Point, b: Point, c: Point) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def fewest_touched(tokens: Sequence[tuple[int, int]], units: int, room: int, pairs: Fraction) -> Fraction:
    """A floor under the units touched by all tokens, if at most `pairs` pairs of their experts lie together.

    Parameters
    ----------
    tokens
        (experts of a token, number of such tokens).

    >>> fewest_touched([(2, 10)], 2, 2, Fraction(4))
    Fraction(16, 1)
    """
    total, left = Fraction(0), pairs
    steps: list[tuple[Fraction, int, int]] = []
    for size, count in tokens:
        corners = hull(size, units, room)
        total += corners[0][1] * count
        left -= corners[0][0] * count
        for (x, y), (x_next, y_next) in pairwise(corners):
            steps.append((Fraction(y_next - y, x_next - x), x_next - x, count))
    for slope, width, count in sorted(steps):
        used = min(max(left, Fraction(0)), Fraction(width * count))
        total += slope * used
        left -= used
    return total
