"""The referee: judges a split and re-checks bounds from the instance alone, in whole numbers; no solver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError
from moeopt.routing.bounds import carriers, cut_value
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import Hosting, whole_numbers
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
    return Evaluation(*zip(*judged, strict=True))


def _layer(
    instance: RoutingInstance, row: int, shares: tuple[Share, ...], in_tokens: bool
) -> tuple[Fraction, Fraction, tuple[float, ...]]:
    """The busiest GPU of a layer, perfect balance, and the cost of each: all sums in whole numbers of one unit."""
    hosting, per_expert = instance.hostings[row], instance.floor_rule == "per_expert"
    loads, base, floor, unit = _units(instance, row)
    amounts = np.maximum(loads, floor) if per_expert else loads
    floor = 0 if per_expert else floor
    alone = np.flatnonzero(hosting.hosts[hosting.expert] == 1)
    settled = np.array(base, dtype=loads.dtype)
    cost = np.maximum(amounts[hosting.expert[alone]], floor * hosting.copies[alone].astype(loads.dtype))
    np.add.at(settled, hosting.gpu[alone], cost)
    held = hosting.hosts > 0
    least = np.maximum(amounts[held], floor * hosting.replicas[held].astype(loads.dtype))  # whatever the split
    carried = Fraction(sum(least.tolist()) + sum(base)) * unit
    parts, token = _shared_parts(hosting, shares), int(1 / unit)
    fine = 1  # parts are whole multiples of 1 / fine
    ratios: dict[tuple[int, int], tuple[int, int]] = {}
    for pair, part in parts.items():
        ratios[pair] = ratio = (int(part), 1) if in_tokens else float(part).as_integer_ratio()
        fine = max(fine, ratio[1])  # powers of two
    totals: list[Any] = [int(one) * fine for one in settled.tolist()]
    for expert in hosting.shared.tolist():
        low, high = int(hosting.first[expert]), int(hosting.first[expert + 1])
        amount, rest = int(amounts[expert]), int(instance.loads[row, expert]) if in_tokens else fine
        hosts = hosting.gpu[low:high].tolist()
        last = max((gpu for gpu in hosts if (expert, gpu) in ratios), default=hosts[-1])
        for place, gpu in enumerate(hosts):
            top, bottom = ratios.get((expert, gpu), (0, 1))
            part = rest if gpu == last else top * (fine // bottom)
            rest -= part
            more: Any = amount * part
            if in_tokens:  # tokens of one expert weigh alike
                more = Fraction(more, int(instance.loads[row, expert]) or 1) if per_expert else part * token
            totals[gpu] += max(more, floor * int(hosting.copies[low + place]) * fine)
    paces = instance.exact_speed
    those = carriers(instance, row)
    if len(set(instance.speed)) == 1:  # one division is enough
        busiest = Fraction(max(totals)) * unit / (fine * paces[0])
        size = float(unit / paces[0])
        return busiest, carried / (len(those) * paces[0]), tuple(float(total / fine) * size for total in totals)
    costs = [Fraction(total) * unit / (fine * pace) for total, pace in zip(totals, paces, strict=True)]
    return max(costs), carried / sum(paces[gpu] for gpu in those), tuple(float(cost) for cost in costs)


def _units(instance: RoutingInstance, row: int) -> tuple[NDArray[Any], list[int], int, Fraction]:
    """Loads, base and floor of a layer in whole numbers, and what their unit is worth in tokens."""
    loads, base, floor = instance.loads[row], instance.exact_base[row], instance.floor
    plain = loads.dtype.kind == "i" and floor.denominator == 1
    if plain and all(more.is_integer() for more in set(instance.base[row])):
        found, unit = [*(int(more) for more in base), int(floor)], Fraction(1)
        kept: list[int] = loads.tolist()
    else:
        values = [*(exact(load) for load in loads.tolist()), *base, floor]
        scaled, unit = whole_numbers(values)
        kept, found = scaled[: len(loads)], scaled[len(loads) :]
    slots = len(instance.gpu_of_slot) + 1
    fits = sum(kept) + sum(found) + found[-1] * slots < 2**62
    return np.array(kept, dtype=np.int64 if fits else object), found[:-1], found[-1], unit


def _shared_parts(hosting: Hosting, shares: tuple[Share, ...]) -> dict[tuple[int, int], float]:
    """The parts of experts that lie on several GPUs."""
    several = set(hosting.shared.tolist())
    return {(expert, gpu): part for expert, gpu, part in shares if expert in several}


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
    hosting = instance.hostings[row]
    if _plainly_right(instance, row, plan):
        return []
    loads = instance.loads[row].tolist()
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


def _plainly_right(instance: RoutingInstance, row: int, plan: Routing) -> bool:
    """Whether every pair is listed once, in order, with parts that sum up: nothing to look for one by one."""
    hosting, shares = instance.hostings[row], plan.shares[row]
    if len(shares) != len(hosting.expert) or not len(shares):
        return False
    experts, gpus, given = zip(*shares, strict=True)
    if not (np.array_equal(experts, hosting.expert) and np.array_equal(gpus, hosting.gpu)):
        return False
    parts = np.array(given)
    if parts.dtype.kind not in "if" or not (np.isfinite(parts) & (parts >= 0)).all():
        return False
    if (instance.loads[row][hosting.hosts == 0] > 0).any():
        return False
    if plan.in_tokens:
        if parts.dtype.kind != "i" or parts.max(initial=0) > 2**62 // len(parts):
            return False
        sums = np.bincount(hosting.expert, minlength=instance.num_experts) * 0
        np.add.at(sums, hosting.expert, parts)
        return bool((sums == instance.loads[row])[hosting.hosts > 0].all())
    shared = np.bincount(hosting.expert, weights=parts, minlength=instance.num_experts)
    return bool((np.abs(shared - 1.0)[hosting.hosts > 0] <= SLACK / 2).all())


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
