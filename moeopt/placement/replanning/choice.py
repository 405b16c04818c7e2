"""From frontiers to a plan: which point of every layer, under the budgets, the price of a move, or neither."""

from __future__ import annotations

import math

import numpy as np

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.replanning.frontier import Frontier
from moeopt.placement.replanning.knapsack import choose

SHOWN = 40
"""Most points of the whole plan's frontier that a result lists."""


def budget_of(instance: PlacementInstance) -> int | None:
    """Moves allowed in all, both budgets together; ``None`` without any."""
    budgets = []
    if instance.max_moves is not None:
        budgets.append(instance.max_moves)
    if instance.max_moves_per_layer is not None:
        budgets.append(instance.max_moves_per_layer * instance.num_layers)
    return min(budgets, default=None)


def picks(instance: PlacementInstance, frontiers: list[Frontier], floors: list[float]) -> list[int] | None:
    """Moves of the chosen point of each layer; ``None`` when no choice keeps the budgets.

    Values at or below a layer's floor, where the bound certifies the gap, count as equal, and among equals fewer moves
    win: a layer that is good enough is left alone. Under budgets or a price the choice is exact over these points.
    """
    moves, values = [], []
    most = instance.max_moves_per_layer
    for frontier, floor in zip(frontiers, floors, strict=True):
        row, worth = frontier.moves(), np.maximum(frontier.values(), floor)
        legal = np.ones(len(row), dtype=bool) if most is None else row <= most
        if not legal.any():
            return None
        moves.append(row[legal])
        values.append(worth[legal] + instance.move_cost * row[legal])
    budget = budget_of(instance)
    if budget is None:
        budget = sum(int(row.max()) for row in moves)
    chosen = choose(moves, values, budget)
    return None if chosen is None else [int(row[place]) for row, place in zip(moves, chosen, strict=True)]


def curve(instance: PlacementInstance, frontiers: list[Frontier], chosen: list[int]) -> list[list[float]]:
    """[moves, imbalance over all layers] of plans of the whole, from the fewest moves to the best value found.

    Points on the lower hull of the best choices (each is a plan that was found), some left out where there are many,
    and the chosen plan.
    """
    ideal = [1.0 if instance.windows else float(value) for value in instance.ideal]
    total_ideal = sum(ideal) or 1.0
    steps = []
    for row, frontier in enumerate(frontiers):
        moves, worth = frontier.moves(), frontier.values()
        at = 0
        while at < len(moves) - 1:
            slope = (worth[at] - worth[at + 1 :]) / (moves[at + 1 :] - moves[at])
            best = at + 1 + int(np.argmax(slope))
            steps.append((float(slope.max()), row, int(moves[best])))
            at = best
    now = [int(frontier.moves()[0]) for frontier in frontiers]
    points = [tuple(now)]
    for _, row, more in sorted(steps, key=lambda step: -step[0]):
        now[row] = more
        points.append(tuple(now))
    if len(points) > SHOWN:
        kept = np.unique(np.linspace(0, len(points) - 1, SHOWN).round().astype(int))
        points = [points[place] for place in kept.tolist()]
    points = [point for point in points if sum(point) != sum(chosen)]
    shown = []
    for point in sorted([*points, tuple(chosen)], key=sum):
        value = math.fsum(frontier.points[moves][0] for frontier, moves in zip(frontiers, point, strict=True))
        shown.append([sum(point), value / total_ideal if sum(ideal) else 1.0])
    return shown
