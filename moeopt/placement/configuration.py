"""The configuration bound of a layer of an instance: where it holds, its certificate, and its search; see `fillings`.

Certificate: ``threshold`` in tokens and ``sizes`` and ``prices`` of pieces, or cases of them, which
`fillings.proves_tree` settles exactly without a solver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from moeopt.limits import Deadline
from moeopt.placement import fillings
from moeopt.placement.instance import PlacementInstance

KIND = "configuration"
MOST_KINDS = 4
"""GPUs of more kinds than this are not searched; a certificate may have any number."""
MOST_SLOTS = 2_048
"""Nor are layers with more slots."""
LEAST_S = 0.2
"""With less time than this nothing is begun: lists are made before the first look at the clock."""


def holds(instance: PlacementInstance) -> bool:
    """Whether the bound is one: an even split, and one window of loads.

    Floor rule, slots, speeds, constant loads of GPUs, ``distinct``, fill, groups, pins, prohibitions, least numbers of
    replicas and nodes to survive may be any.
    """
    return instance.split == "even" and instance.window_loads is None


def searched(instance: PlacementInstance, row: int) -> bool:
    """Whether `certificate` looks for one: the bound holds, and the layer is not too large."""
    if not holds(instance) or instance.num_slots > MOST_SLOTS:
        return False
    return len(_kinds(instance, row)) <= MOST_KINDS


def certificate(
    instance: PlacementInstance, row: int, lower: float, objective: float, gap: float, deadline: Deadline
) -> dict[str, Any] | None:
    """Search a certificate for a threshold above `lower`, and as near the objective as possible or as `gap` asks.

    About a second for 256 experts on 72 GPUs; ``None`` where nothing is found in time.
    """
    from moeopt.placement import thresholds  # loads the solver

    too_late = deadline.limited and deadline.remaining_s() < LEAST_S
    if too_late or not searched(instance, row) or not objective > 0:
        return None
    found = thresholds.search(layer(instance, row), lower, objective, gap, deadline)
    return None if found is None else {"kind": KIND, "threshold": found[0], **found[1]}


def proves(instance: PlacementInstance, row: int, threshold: Fraction, proof: Mapping[str, Any]) -> bool:
    """Whether a certificate, which may come from a file, shows that no plan of the layer costs at most `threshold`."""
    return threshold > 0 and holds(instance) and fillings.proves_tree(layer(instance, row), threshold, proof)


def layer(instance: PlacementInstance, row: int) -> fillings.Layer:
    """One layer in whole numbers and fractions."""
    whole, floor, denominator = instance.exact_loads
    loads = [int(load) for load in whole[row].tolist()]
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], 0
    spare = instance.num_slots - instance.num_experts + 1
    usable = sum(count > 0 for count in instance.slots)
    most = min(usable, spare) if instance.distinct else spare
    return fillings.Layer(loads, floor, denominator, _kinds(instance, row), instance.distinct, most)


def _kinds(instance: PlacementInstance, row: int) -> list[fillings.Kind]:
    """GPUs with slots, counted by slots, speed and constant load."""
    base = [0.0] * instance.num_gpus if instance.base is None else instance.base[row].tolist()
    kinds = Counter(gpu for gpu in zip(instance.slots, instance.speed, base, strict=True) if gpu[0])
    return [fillings.Kind(many, slots, Fraction(speed), Fraction(load)) for (slots, speed, load), many in kinds.items()]
