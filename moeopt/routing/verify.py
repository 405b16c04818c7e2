"""The referee: judges a split and re-checks bounds from the instance alone, in whole numbers; no solver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from moeopt.errors import PlanError
from moeopt.routing.bounds import cut_value
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import whole_numbers
from moeopt.routing.plan import Routing, Share

SLACK = 1e-9
"""How far shares of an expert may be from 1 in sum; the last one takes exactly what the others leave."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a split costs: per layer the busiest GPU and perfect balance, tokens at speed 1, exact.

    ``gpu_cost`` has the cost of every GPU of every layer, rounded.
    """

    max_load: tuple[Fraction, ...]
    ideal: tuple[Fraction, ...]
    gpu_cost: tuple[tuple[float, ...], ...]

    @property
    def objective(self) -> Fraction:
        """Sum over layers of the busiest GPU's cost."""
        return sum(self.max_load, Fraction(0))

    @property
    def imbalance(self) -> tuple[float, ...]:
        """Per layer; 1 where there is nothing to do."""
        return tuple(float(top / ideal) if ideal else 1.0 for top, ideal in zip(self.max_load, self.ideal, strict=True))


def evaluate(instance: RoutingInstance, plan: Routing) -> Evaluation:
    """Judge a plan, exactly.

    Raises
    ------
    PlanError
        With every fault: tokens that go where their expert is not, are lost, negative or cut against the rule.

    >>> instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    >>> evaluate(instance, Routing.of([(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0), (2, 1, 1.0)])).objective
    Fraction(17, 2)
    """
    found = faults(instance, plan)
    if found:
        raise PlanError(found)
    judged = [_layer(instance, row, plan.shares[row], plan.in_tokens) for row in range(instance.num_layers)]
    tops, costs = zip(*judged, strict=True)
    return Evaluation(tops, tuple(ideal(instance, row) for row in range(instance.num_layers)), costs)


def ideal(instance: RoutingInstance, row: int) -> Fraction:
    """Cost of every GPU in perfect balance."""
    return cut_value(instance, row, range(instance.num_gpus))


def _layer(
    instance: RoutingInstance, row: int, shares: tuple[Share, ...], in_tokens: bool
) -> tuple[Fraction, tuple[float, ...]]:
    """The busiest GPU of a layer, and the cost of each."""
    hosting, floor = instance.hostings[row], instance.floor
    loads = instance.loads[row].tolist()
    fine = 1  # parts are whole multiples of 1 / fine
    ratios: dict[tuple[int, int], tuple[int, int]] = {}
    for expert, gpu, part in shares:
        ratios[expert, gpu] = pair = (int(part), 1) if in_tokens else float(part).as_integer_ratio()
        fine = max(fine, pair[1])  # powers of two
    values = [*(exact(load) for load in loads), *(exact(more) for more in instance.base[row]), floor]
    scaled, unit = whole_numbers(values)
    floor_units = scaled[-1] * fine
    totals: list[Any] = [more * fine for more in scaled[len(loads) : -1]]
    per_expert = instance.floor_rule == "per_expert"
    for expert in range(len(loads)):
        low, high = int(hosting.first[expert]), int(hosting.first[expert + 1])
        amount = max(scaled[expert], scaled[-1]) if per_expert else scaled[expert]
        rest = int(loads[expert]) if in_tokens else fine
        hosts = hosting.gpu[low:high].tolist()
        last = max((gpu for gpu in hosts if (expert, gpu) in ratios), default=hosts[-1] if hosts else 0)
        for place, gpu in enumerate(hosts):
            if gpu == last:
                part = rest
            else:
                top, bottom = ratios.get((expert, gpu), (0, 1))
                part = top * (fine // bottom)
            rest -= part
            cost: Any = amount * part
            if in_tokens:
                cost = Fraction(cost, int(loads[expert]) or 1)
            if floor_units and not per_expert:
                cost = max(cost, floor_units * int(hosting.copies[low + place]))
            totals[gpu] += cost
    speeds = [exact(pace) for pace in instance.speed]
    costs = [Fraction(total, fine) * unit / pace for total, pace in zip(totals, speeds, strict=True)]
    return max(costs), tuple(float(cost) for cost in costs)


def faults(instance: RoutingInstance, plan: Routing) -> list[str]:
    """Everything wrong with a plan; empty if nothing is."""
    if len(plan.shares) != instance.num_layers:
        return [f"shares cover {len(plan.shares)} layers of {instance.num_layers}"]
    found: list[str] = []
    if instance.whole and not plan.in_tokens:
        found.append("tokens cannot be cut: parts must be whole tokens, unit tokens")
    for row, layer in enumerate(instance.layers):
        found += [f"layer {layer}: {fault}" for fault in _layer_faults(instance, row, plan)]
    return found


def _layer_faults(instance: RoutingInstance, row: int, plan: Routing) -> list[str]:
    hosting, loads = instance.hostings[row], instance.loads[row].tolist()
    known = set(zip(hosting.expert.tolist(), hosting.gpu.tolist(), strict=True))
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    sums: dict[int, list[float]] = {}
    for expert, gpu, part in plan.shares[row]:
        if not 0 <= expert < len(loads):
            found.append(f"expert {expert}: ids run from 0 to {len(loads) - 1}")
        elif (expert, gpu) not in known:
            found.append(f"expert {expert} has no replica on GPU {gpu}")
        elif (expert, gpu) in seen:
            found.append(f"expert {expert} on GPU {gpu} is listed twice")
        elif not (math.isfinite(part) and part >= 0):
            found.append(f"expert {expert} on GPU {gpu} gets {part}: parts are finite and >= 0")
        else:
            seen.add((expert, gpu))
            sums.setdefault(expert, []).append(part)
    for expert, load in enumerate(loads):
        hosts = int(hosting.hosts[expert])
        if expert not in sums:
            if hosts > 1 or (load > 0 and hosts == 0):
                found.append(f"expert {expert} has {load:g} tokens, and no part is said to go anywhere")
            continue
        if plan.in_tokens:
            if sum(sums[expert]) != load:
                found.append(f"expert {expert}: {sum(sums[expert])} of {load:g} tokens are sent somewhere")
        elif abs(math.fsum(sums[expert]) - 1.0) > SLACK:
            found.append(f"expert {expert}: shares sum to {math.fsum(sums[expert])!r}, not 1")
    return found


def recheck(instance: RoutingInstance, certificate: Mapping[str, Any]) -> list[str]:
    """What is wrong with a certificate: the load of every cut is counted anew from the instance."""
    rows = {row["layer"]: row for row in certificate["layers"]}
    found = [f"layer {layer}: no certificate" for layer in instance.layers if layer not in rows]
    for place, layer in enumerate(instance.layers):
        if layer not in rows:
            continue
        row = rows[layer]
        gpus = row["gpus"]
        if not gpus or len(set(gpus)) != len(gpus) or not all(0 <= gpu < instance.num_gpus for gpu in gpus):
            found.append(f"layer {layer}: {gpus} is no set of GPUs")
            continue
        if row["kind"] == "whole-cut" and not instance.whole:
            found.append(f"layer {layer}: whole-cut holds for whole tokens only")
            continue
        proved = cut_value(instance, place, gpus, whole=row["kind"] == "whole-cut")
        if proved < Fraction(row["value"]):
            found.append(f"layer {layer}: the cut proves {proved}, not {row['value']}")
    return found
