"""How few copies a token can send, when pairs together and experts in the token's own unit are both limited.

A spread puts a experts into the token's own unit, which costs nothing, and the others into parts of other units, each a
copy. Of all tokens together at most P pairs lie together and at most A experts at home. For any prices mu, nu >= 0,

    copies >= sum over tokens of min over spreads (parts away + mu pairs + nu a) - mu P - nu A,

and the best prices come from a small linear programme; the bound is then worked out with fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

Spread = tuple[int, int, int]
"""(parts away, pairs together, experts at home)."""


@cache
def spreads(size: int, units: int, room: int) -> tuple[Spread, ...]:
    """All spreads of `size` experts over the own unit and ``units - 1`` others.

    >>> spreads(2, 2, 2)
    ((0, 1, 2), (1, 0, 1), (1, 1, 0))
    """
    found: set[Spread] = set()

    def spread(left: int, most: int, parts: int, pairs: int, home: int) -> None:
        if left == 0:
            found.add((parts, pairs, home))
            return
        if parts == units - 1:
            return
        for part in range(min(left, most), 0, -1):
            spread(left - part, part, parts + 1, pairs + part * (part - 1) // 2, home)

    for home in range(min(size, room) + 1):
        spread(size - home, room, 0, home * (home - 1) // 2, home)
    return tuple(sorted(found))


def fewest_away(
    tokens: Sequence[tuple[int, int]], units: int, room: int, pairs: Fraction, home: Fraction, late: bool = False
) -> tuple[Fraction, tuple[float, float]]:
    """The floor under copies of all tokens, and the prices that give it: some that hold too where it is `late`.

    >>> fewest_away([(2, 10)], 2, 2, Fraction(0), Fraction(10))[0]  # every token apart, one expert at home
    Fraction(10, 1)
    """
    prices = (0.0, 1.0) if late else best_prices(tokens, units, room, pairs, home)
    return priced(tokens, units, room, pairs, home, prices), prices


def priced(
    tokens: Sequence[tuple[int, int]],
    units: int,
    room: int,
    pairs: Fraction,
    home: Fraction,
    prices: tuple[float, float],
) -> Fraction:
    """The floor for given prices, exactly; never below 0."""
    mu, nu = (max(Fraction(one), Fraction(0)) for one in prices)
    total = -mu * pairs - nu * home
    for size, count in tokens:
        total += count * min(away + mu * p + nu * a for away, p, a in spreads(size, units, room))
    return max(total, Fraction(0))


def best_prices(
    tokens: Sequence[tuple[int, int]], units: int, room: int, pairs: Fraction, home: Fraction
) -> tuple[float, float]:
    """Duals of the programme that spreads all tokens as cheaply as the limits allow."""
    from scipy.optimize import linprog

    whole = sum(count for _, count in tokens)
    kinds = [(row, spread) for row, (size, _) in enumerate(tokens) for spread in spreads(size, units, room)]
    cost = np.array([spread[0] for _, spread in kinds], dtype=np.float64)
    limits = np.array([[spread[1] for _, spread in kinds], [spread[2] for _, spread in kinds]], dtype=np.float64)
    member = np.zeros((len(tokens), len(kinds)))
    member[[row for row, _ in kinds], range(len(kinds))] = 1.0
    share = np.array([count / whole for _, count in tokens])
    upper = [float(pairs) / whole, float(home) / whole]
    found = linprog(cost, A_ub=limits, b_ub=upper, A_eq=member, b_eq=share, method="highs")
    if found.status != 0:
        return 0.0, 0.0
    mu, nu = -found.ineqlin.marginals
    return float(mu), float(nu)
