"""How the popularity of experts changes over time, by named drift: the next window of every kind from the ones before.

Every function yields, window after window, (L, E) logarithms of popularity around a base that is drawn once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Logs = NDArray[np.float64]
Drift = Callable[[np.random.Generator, "Sizes", float, float], Iterator[Logs]]

NUM_TOPICS = 4
STAY = 6
"""Windows that a topic stays."""
HOT_PART = 1 / 8
"""Part of the experts that a hot spot covers."""
BURST_CHANCE = 1 / 4
BURST_PART = 1 / 64
"""Chance that a window has a burst, and the part of the experts in it."""


@dataclass(frozen=True)
class Sizes:
    """W windows, L layers, E experts."""

    windows: int
    layers: int
    experts: int


def walk(rng: np.random.Generator, sizes: Sizes, sigma: float, drift: float) -> Iterator[Logs]:
    """Every expert's log popularity walks by steps with deviation `drift`, pulled back so that its spread stays sigma.

    >>> spread = [logs.std() for logs in walk(np.random.default_rng(0), Sizes(3, 50, 64), 1.0, 0.1)]
    >>> [round(float(value), 1) for value in spread]
    [1.0, 1.0, 1.0]
    """
    logs = rng.normal(0.0, sigma, (sizes.layers, sizes.experts))
    stays = math.sqrt(1.0 - (drift / sigma) ** 2) if sigma else 1.0
    for _ in range(sizes.windows):
        yield logs
        logs = stays * logs + rng.normal(0.0, drift, logs.shape)


def shift(rng: np.random.Generator, sizes: Sizes, sigma: float, drift: float) -> Iterator[Logs]:
    """Four topics in turn, each for six windows; the first window of a topic has half of the one before.

    Popularity is one part `drift` of the topic's own and the rest common to all topics.
    """
    common = np.exp(rng.normal(0.0, sigma, (sizes.layers, sizes.experts)))
    topics = np.exp(rng.normal(0.0, sigma, (NUM_TOPICS, sizes.layers, sizes.experts)))
    mixed = (1.0 - drift) * common + drift * topics
    for window in range(sizes.windows):
        turn, since = divmod(window, STAY)
        now = mixed[turn % NUM_TOPICS]
        if turn and not since:
            now = (now + mixed[(turn - 1) % NUM_TOPICS]) / 2
        yield np.log(now)


def hotspot(rng: np.random.Generator, sizes: Sizes, sigma: float, drift: float) -> Iterator[Logs]:
    """A run of neighbouring experts is up to `drift` times as popular, and moves on: once around in all windows.

    It covers an eighth of the experts, fades out to both sides, and begins at another expert in every layer.
    """
    base = rng.normal(0.0, sigma, (sizes.layers, sizes.experts))
    start = rng.uniform(0.0, sizes.experts, (sizes.layers, 1))
    width = max(sizes.experts * HOT_PART, 1.0)
    for window in range(sizes.windows):
        centre = start + window * sizes.experts / sizes.windows
        away = (np.arange(sizes.experts) - centre + sizes.experts / 2) % sizes.experts - sizes.experts / 2
        inside = np.abs(away) < width / 2
        yield base + math.log(drift) * np.where(inside, 0.5 + 0.5 * np.cos(2 * np.pi * away / width), 0.0)


def burst(rng: np.random.Generator, sizes: Sizes, sigma: float, drift: float) -> Iterator[Logs]:
    """Now and then, for one window, a few experts of every layer are `drift` times as popular; else nothing changes.

    A window in four has a burst, of one expert in 64, drawn anew every time.
    """
    base = rng.normal(0.0, sigma, (sizes.layers, sizes.experts))
    few = max(round(sizes.experts * BURST_PART), 1)
    for _ in range(sizes.windows):
        logs = base.copy()
        if rng.random() < BURST_CHANCE:
            hit = np.argsort(rng.random(base.shape), axis=1)[:, :few]
            np.put_along_axis(logs, hit, np.take_along_axis(base, hit, 1) + math.log(drift), 1)
        yield logs
