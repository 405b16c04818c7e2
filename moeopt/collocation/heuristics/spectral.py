"""Spectral grouping: experts as points of the leading eigenvectors of the pair graph, grouped with equal sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import fill, nets
from moeopt.collocation.heuristics.starts import rooms
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of, rows_of
from moeopt.registry import Context, Outcome

Ints = NDArray[np.int64]

TURNS = 12


def spectral(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Leading eigenvectors of the normalised pair graph, grouped by alternating centres and an assignment to rooms."""
    held = []
    for row in range(instance.num_layers):
        unit, loads = embedded(instance, row), loads_of(instance, row)
        found = fill.into_slots(instance, unit, loads, nets.search_units(instance))
        held.append(fill.fill_spare(instance, found, loads))
    return Outcome(Collocation.of(np.stack(held)))


def embedded(instance: CollocationInstance, row: int) -> Ints:
    """(E,) unit of each expert."""
    from scipy.optimize import linear_sum_assignment

    pairs = rows_of(instance, row).pairs(instance.num_experts).astype(np.float64)
    room = rooms(instance)
    units, size = len(room), instance.num_experts
    if units == 1 or size <= units:
        return np.arange(size) % units if size <= units else np.zeros(size, dtype=np.int64)
    degree = np.maximum(pairs.sum(axis=1), 1.0)
    _, vectors = np.linalg.eigh(pairs / np.sqrt(degree[:, None] * degree[None, :]))
    points = vectors[:, -units:]
    points = points * np.sign(points[np.abs(points).argmax(axis=0), np.arange(points.shape[1])])
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    chosen = [int(degree.argmax())]
    while len(chosen) < units:  # next the point farthest from the centres so far
        distance = ((points[:, None] - points[chosen][None]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(distance.argmax()))
    centres, unit = points[chosen], np.zeros(size, dtype=np.int64)
    share = np.diff(np.concatenate([[0], np.floor(np.cumsum(room) * size / room.sum() + 1e-9)])).astype(np.int64)
    seats = np.repeat(np.arange(units), share)
    for _ in range(TURNS):
        cost = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
        _, seat = linear_sum_assignment(cost[:, seats])
        if (seats[seat] == unit).all():
            break
        unit = seats[seat]
        centres = np.stack([points[unit == u].mean(axis=0) if (unit == u).any() else centres[u] for u in range(units)])
    return unit
