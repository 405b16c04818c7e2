"""Plans scored on loads they were not made for: what a plan is worth tomorrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.verify import evaluate


def held_out(plan: Placement, others: Mapping[str, PlacementInstance]) -> dict[str, Any]:
    """Imbalance of a plan on each of some instances of its shape: mean over instances and layers, and the worst.

    Returns
    -------
    dict
        ``mean``, ``worst`` with ``worst_layer`` and ``worst_name``, and ``means``, the mean over layers by name.

    Raises
    ------
    PlanError
        The plan breaks a rule of an instance, such as its number of slots.

    >>> plan = Placement.of([[0, 1]])
    >>> days = {day: PlacementInstance([loads], gpus=2, slots=2) for day, loads in (("a", [1, 1]), ("b", [3, 1]))}
    >>> found = held_out(plan, days)
    >>> found["mean"], found["worst"], found["worst_name"], found["means"]
    (1.25, 1.5, 'b', {'a': 1.0, 'b': 1.5})
    """
    ratios = {name: evaluate(instance, plan).imbalance for name, instance in others.items()}
    means = {name: sum(row) / len(row) for name, row in ratios.items()}
    worst, name, row = max(
        ((ratio, name, row) for name, found in ratios.items() for row, ratio in enumerate(found)),
        key=lambda found: found[0],
    )
    return {
        "mean": sum(means.values()) / len(means),
        "worst": worst,
        "worst_layer": others[name].layers[row],
        "worst_name": name,
        "means": means,
    }
