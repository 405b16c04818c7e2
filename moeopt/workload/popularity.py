"""How popular experts are, by named distribution, and the chance that a token selects each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Weights]

NUM_TOPICS = 8
TOPIC_CONCENTRATION = 0.7
UNIFORM_JITTER = 0.05
SMALLEST = 1e-9
"""Popularity below this is raised to it, so that every expert can be selected."""


def zipf(rng: np.random.Generator, num_experts: int, alpha: float) -> Weights:
    """Rank to the power of minus alpha, ranks dealt to the experts at random.

    >>> sorted(zipf(np.random.default_rng(0), 4, 1.0).tolist())
    [0.25, 0.3333333333333333, 0.5, 1.0]
    """
    return rng.permutation(1.0 / np.arange(1, num_experts + 1) ** alpha)


def lognormal(rng: np.random.Generator, num_experts: int, sigma: float) -> Weights:
    """Independent log-normal popularity with median 1.

    >>> lognormal(np.random.default_rng(0), 3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return rng.lognormal(0.0, sigma, num_experts)


def topic(rng: np.random.Generator, num_experts: int, sigma: float) -> Weights:
    """Eight runs of neighbouring experts, each with a popularity of its own (Dirichlet), times log-normal factors.

    Where the experts do not divide by eight, the first runs are one longer.

    >>> weights = topic(np.random.default_rng(0), 10, 0.0)
    >>> bool(weights[0] == weights[1]), bool(weights[1] == weights[2]), len(set(weights.tolist()))
    (True, False, 8)
    """
    topics = rng.dirichlet(np.full(NUM_TOPICS, TOPIC_CONCENTRATION)) + 0.01
    shorter, longer = divmod(num_experts, NUM_TOPICS)
    sizes = [shorter + (run < longer) for run in range(NUM_TOPICS)]
    return np.repeat(topics / topics.sum(), sizes) * rng.lognormal(0.0, sigma, num_experts)


def uniform(rng: np.random.Generator, num_experts: int, jitter: float) -> Weights:
    """One plus a little normal jitter.

    >>> uniform(np.random.default_rng(0), 2, 0.0).tolist()
    [1.0, 1.0]
    """
    return 1.0 + jitter * rng.standard_normal(num_experts)


def inclusion(weights: Weights, top_k: int) -> Weights:
    """Chance that one token selects each expert when `top_k` different ones are drawn by popularity.

    ``1 - exp(-rate * p)`` with the rate at which the chances sum to `top_k`, found by bisection down to the last
    bit; an approximation of drawing without replacement that keeps every chance below 1.

    >>> inclusion(np.array([1.0, 1.0, 2.0]), 2).round(3).tolist()
    [0.586, 0.586, 0.828]
    """
    share = weights / weights.sum()

    def chances(rate: float) -> Weights:
        chance: Weights = -np.expm1(-rate * share)
        return chance

    low, high = 0.0, float(top_k)
    while chances(high).sum() < top_k:
        high *= 2
    middle = (low + high) / 2
    while low < middle < high:
        if chances(middle).sum() < top_k:
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
    return chances(high)


def counts(rng: np.random.Generator, chances: Weights, top_k: int, tokens: int) -> NDArray[np.int64]:
    """Selections of `tokens` tokens: a multinomial draw, what exceeds one selection a token dealt out again.

    >>> counts(np.random.default_rng(0), np.array([0.99, 0.51, 0.5]), 2, 10).tolist()
    [10, 6, 4]
    """
    drawn = rng.multinomial(tokens * top_k, chances / chances.sum())
    while (excess := int(np.maximum(drawn - tokens, 0).sum())) > 0:
        drawn = np.minimum(drawn, tokens)
        room = np.where(drawn < tokens, chances, 0.0)
        drawn += rng.multinomial(excess, room / room.sum())
    return drawn.astype(np.int64)
