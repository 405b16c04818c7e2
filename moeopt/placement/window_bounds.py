"""Lower bounds on the combined ratio of several windows; proofs in ``models/placement.md``.

| kind | holds for | certificate |
|---|---|---|
| ``windows`` | every rule of every window's own bound | the certificates of the W windows |
| ``blend`` | even and free split | weights of the windows, and a certificate of the blended loads |
| ``envelope`` | even split, the worst window | none needed |

A blend is one instance whose loads are the windows' own, in parts of their ideals, times the weights; they are cut down
to whole multiples of `grain`, so that the bound stays below the truth and is re-checked exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.limits import Deadline
from moeopt.placement import bounds
from moeopt.placement.combined import combine, ratio, tail_of
from moeopt.placement.instance import PlacementInstance

GRAIN = Fraction(1, 2**40)
"""What blended loads are cut down to, in parts of all loads of the layer together."""


def grain(instance: PlacementInstance) -> Fraction:
    """`GRAIN` in parts of the ideal, which is all loads over all speeds."""
    return GRAIN * instance.total_speed


def cheap(instance: PlacementInstance, deadline: Deadline | None = None) -> list[bounds.LayerBound]:
    """Best of the windows' own cheap bounds, combined, and, while there is time, of their blend and envelope."""
    alone = [bounds.cheap(window) for window in instance.windows]
    found = [_joined(instance, row, [mine[row] for mine in alone]) for row in range(instance.num_layers)]
    deadline = Deadline(None) if deadline is None else deadline
    if instance.split != "even" or deadline.passed():
        return found
    # of a blend and of the envelope the largest replica can say more: in floating point, to see where exactness pays
    known = np.array([float(bound.value) for bound in found])
    parts = np.array([window.weights / _ideals(window)[:, None] for window in instance.windows])
    for kind, loads in ((_blended_bound, parts.mean(axis=0)), (_envelope_bound, parts.max(axis=0))):
        counts = greedy_counts(loads, instance.num_slots, bounds.most_replicas(instance))
        largest = (loads / counts).max(axis=1) / max(instance.speed)
        for row in np.flatnonzero(largest > known * (1 - 1e-9)).tolist():
            if deadline.passed():
                return found
            better = kind(instance, row)
            if better is not None and better.value > found[row].value:
                found[row] = better
    return found


def _ideals(instance: PlacementInstance) -> NDArray[np.float64]:
    return np.array([float(value) or 1.0 for value in instance.ideal])


def tighten(
    instance: PlacementInstance, bound: bounds.LayerBound, row: int, objective: float, gap: float
) -> bounds.LayerBound:
    """The same from tightened bounds of the windows, for a bound that is open; never worse than `bound`."""
    most = objective * float(tail_of(instance))  # no window counted can stand above
    tightened = []
    for window in instance.windows:
        even = float(window.ideal[row])
        (first,) = bounds.cheap(one_layer(window, row))
        tightened.append(bounds.tighten(window, first, row, most * even, gap))
    found = [bound, _joined(instance, row, tightened)]
    if instance.split in ("even", "free"):
        blended = blend(instance, row, _equal(instance))
        (first,) = bounds.cheap(blended)
        inner = bounds.tighten(blended, first, 0, objective / float(grain(instance)), gap)
        found.append(_blended(instance, inner))
    return max(found, key=lambda one: one.value)


def check(instance: PlacementInstance, row: int, certificate: Mapping[str, Any]) -> Fraction | None:
    """The bound that a certificate proves, exactly; ``None`` when it proves nothing here."""
    kind = certificate.get("kind")
    if kind == "windows":
        inner = certificate.get("windows")
        if not isinstance(inner, Sequence) or isinstance(inner, str) or len(inner) != len(instance.windows):
            return None
        proved = []
        for window, one in zip(instance.windows, inner, strict=True):
            value = bounds.proved(window, row, one) if isinstance(one, Mapping) else None
            if value is None:
                return None
            proved.append(ratio(value, window.ideal[row]))
        return combine(proved, tail_of(instance))
    if kind == "blend" and instance.split in ("even", "free"):
        weights, inner = _weights(instance, certificate.get("weights")), certificate.get("blended")
        if weights is None or not isinstance(inner, Mapping):
            return None
        value = bounds.proved(blend(instance, row, weights), 0, inner)
        return None if value is None else value * grain(instance)
    if kind == "envelope":
        found = _envelope_bound(instance, row)
        return None if found is None else found.value
    return None


def one_layer(instance: PlacementInstance, row: int) -> PlacementInstance:
    """The same rules for one row of the loads."""
    return alike(instance, instance.loads[row : row + 1], instance.floor_tokens, instance.steps)


def alike(instance: PlacementInstance, loads: Any, floor_tokens: float, steps: int) -> PlacementInstance:
    """An instance of one window with other loads under the same rules and no constant load; for computing only."""
    table = np.ascontiguousarray(loads)
    table.flags.writeable = False
    layers = instance.layers if len(table) == instance.num_layers else tuple(range(len(table)))
    fields = {"loads": table, "window_loads": None, "layers": layers, "floor_tokens": floor_tokens}
    fields |= {"steps": steps, "window_steps": (steps,)}
    if instance.shared != "hosted":
        fields["shared"] = None
    return instance.changed(**fields)


def blend(instance: PlacementInstance, row: int, weights: tuple[Fraction, ...]) -> PlacementInstance:
    """One layer: the windows' loads in parts of their ideals, times `weights`, in whole multiples of `grain`.

    The constant load of shared experts is left out, which only lowers the bound.
    """
    loads, floor = [0] * instance.num_experts, 0
    for window, weight in zip(instance.windows, weights, strict=True):
        if window.ideal[row] and weight:
            each, least = _grains(window, row, weight)
            floor += least
            loads = [total + load for total, load in zip(loads, each, strict=True)]
    return alike(instance, np.array([loads], dtype=np.int64), float(floor), 1)


def _grains(window: PlacementInstance, row: int, weight: Fraction) -> tuple[list[int], int]:
    """Loads and floor of a window in parts of its ideal times `weight`, cut down to multiples of `grain`."""
    whole, least, denominator = window.exact_loads
    unit = weight / (window.ideal[row] * denominator * grain(window))
    top, bottom = unit.numerator, unit.denominator
    loads = [int(load) for load in whole[row].tolist()]
    if window.floor_rule == "per_expert":
        return [max(load, least) * top // bottom for load in loads], 0
    return [load * top // bottom for load in loads], least * top // bottom


def _equal(instance: PlacementInstance) -> tuple[Fraction, ...]:
    """Equal weights, the one choice that is below worst, mean and CVaR alike."""
    return (Fraction(1, len(instance.windows)),) * len(instance.windows)


def _weights(instance: PlacementInstance, given: Any) -> tuple[Fraction, ...] | None:
    """Weights of a certificate: each at most one part in `tail`, together one."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(instance.windows):
        return None
    numbers = [bounds._number(item) for item in given]
    weights = [item for item in numbers if item is not None and 0 <= item <= 1 / tail_of(instance)]
    return tuple(weights) if len(weights) == len(given) and sum(weights) == 1 else None


def _joined(instance: PlacementInstance, row: int, alone: list[bounds.LayerBound]) -> bounds.LayerBound:
    ratios = [ratio(bound.value, window.ideal[row]) for bound, window in zip(alone, instance.windows, strict=True)]
    certificate = {"kind": "windows", "windows": [dict(bound.certificate) for bound in alone]}
    return bounds.LayerBound("windows", combine(ratios, tail_of(instance)), certificate)


def _blended(instance: PlacementInstance, inner: bounds.LayerBound) -> bounds.LayerBound:
    weights = [str(weight) for weight in _equal(instance)]
    certificate = {"kind": "blend", "weights": weights, "blended": dict(inner.certificate)}
    return bounds.LayerBound("blend", inner.value * grain(instance), certificate)


def _blended_bound(instance: PlacementInstance, row: int) -> bounds.LayerBound:
    (found,) = bounds.cheap(blend(instance, row, _equal(instance)))
    return _blended(instance, found)


def _envelope_bound(instance: PlacementInstance, row: int) -> bounds.LayerBound | None:
    """The smallest possible largest replica, each expert in the window where it weighs most; for the worst window."""
    if instance.split != "even" or tail_of(instance) != 1:
        return None
    loads, floor = [0] * instance.num_experts, 0
    for window in instance.windows:
        if window.ideal[row]:
            each, least = _grains(window, row, Fraction(1))
            floor = max(floor, least)
            loads = [max(top, load) for top, load in zip(loads, each, strict=True)]
    largest = alike(instance, np.array([loads], dtype=np.int64), float(floor), 1)
    value = bounds.proved(largest, 0, {"kind": "largest"})
    assert value is not None  # the split is even
    return bounds.LayerBound("envelope", value * grain(instance), {"kind": "envelope"})
