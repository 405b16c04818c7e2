"""Pairs of a query and a key under a causal mask."""

from __future__ import annotations


def causal_pairs(new: float, cached: float, most: float | None = None) -> float:
    """Every new token sees what is before it and itself, at most so many tokens.

    >>> causal_pairs(3, 10), causal_pairs(3, 10, 12), causal_pairs(4, 0, 2)
    (36.0, 35.0, 7.0)
    """
    if most is None:
        return new * cached + new * (new + 1) / 2
    free = min(max(most - cached, 0.0), new)  # queries that do not see so many yet
    return free * cached + free * (free + 1) / 2 + (new - free) * most
