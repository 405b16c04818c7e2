"""Routing traces drawn by seed, with experts that are selected together: what collocation has to find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.workload.sampling import sample_top_k

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    """A trace of one layer.

    Parameters
    ----------
    topics
        Every token has one of so many, a fifth of them the more common ones; an expert has `each` of them on average.
    lift
        How many times likelier an expert of the token's topic is than another one of the same popularity.
    """

    experts: int
    top_k: int
    nodes: int
    tokens: int
    topics: int
    lift: float
    each: float = 1.0

    @property
    def name(self) -> str:
        """What the row is called."""
        size = f"{self.experts} experts, top {self.top_k}, {self.nodes} nodes, {self.tokens:,} tokens"
        return f"{size}; {self.topics} topics x{self.lift:g}"

    def draw(self, seed: int) -> Ints:
        """(T, k) experts."""
        rng = np.random.default_rng([seed, self.experts, self.top_k, self.topics])
        popularity = rng.lognormal(0.0, 0.5, self.experts)
        member = rng.random((self.topics, self.experts)) < self.each / self.topics
        member[rng.integers(0, self.topics, self.experts), np.arange(self.experts)] = True  # each has one at least
        share = 1.0 / np.arange(1, self.topics + 1) ** 0.7
        topic = rng.choice(self.topics, self.tokens, p=share / share.sum())
        found = np.empty((self.tokens, self.top_k), dtype=np.int64)
        for one in range(self.topics):
            mine = topic == one
            if mine.any():
                weight = popularity * np.where(member[one], self.lift, 1.0)
                found[mine] = sample_top_k(weight, self.top_k, int(mine.sum()), seed=seed + one)
        return found


ROWS = (
    Planted(60, 4, 2, 4_357, 12, 20.0),
    Planted(60, 4, 4, 4_357, 12, 20.0),
    Planted(60, 4, 4, 4_357, 25, 8.0, 2.0),
    Planted(64, 8, 2, 4_096, 10, 12.0),
    Planted(64, 8, 4, 4_096, 10, 12.0),
    Planted(64, 6, 4, 8_192, 30, 20.0, 3.0),
    Planted(64, 2, 4, 4_096, 12, 20.0),
    Planted(128, 8, 8, 4_096, 20, 20.0),
    Planted(128, 8, 4, 8_192, 40, 10.0, 2.0),
    Planted(128, 2, 8, 8_192, 24, 15.0),
    Planted(256, 8, 4, 4_096, 40, 20.0),
    Planted(256, 8, 8, 4_096, 60, 10.0, 3.0),
    Planted(256, 4, 8, 4_096, 30, 15.0),
)
"""Sizes of LLMs that are served, groups that do not fit the nodes, weak and strong ties."""
