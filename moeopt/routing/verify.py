"""The referee: judges a split and re-checks bounds from the instance alone, in whole numbers; no solver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from moeopt import kinds
from moeopt.errors import PlanError
from moeopt.kernels.fractions import quotient, total
from moeopt.routing import sums
from moeopt.routing.bounds import carriers, cut_value
from moeopt.routing.instance import RoutingInstance, exact
from moeopt.routing.layer import Hosting
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
        return total(self.max_load)

    @property
    def imbalance(self) -> tuple[float, ...]:
        """Per layer; 1 where there is nothing to do."""
        pairs = zip(self.max_load, self.ideal, strict=True)
        return tuple(quotient(top, ideal) if ideal else 1.0 for top, ideal in pairs)


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
    plain = _plain(instance, plan)
    found = _faults(instance, plan, plain)
    if found:
        raise PlanError(found)
    quick = sums.judged(instance, [row for row, right in enumerate(plain) if right], plan)
    judged = [
        quick.get(row) or _layer(instance, row, plan.shares[row], plan.in_tokens) for row in range(instance.num_layers)
    ]
    return Evaluation(*zip(*judged, strict=True))


def _layer(
    instance: RoutingInstance, row: int, shares: tuple[Share, ...], in_tokens: bool
) -> tuple[Fraction, Fraction, tuple[float, ...]]:
    """The busiest GPU of a layer, perfect balance, and the cost of each: all sums in whole numbers of one unit."""
    hosting, per_expert = instance.hostings[row], instance.floor_rule == "per_expert"
    loads, base, floor, unit = sums.units(instance, row)
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


def _shared_parts(hosting: Hosting, shares: tuple[Share, ...]) -> dict[tuple[int, int], float]:
    """The parts of experts that lie on several GPUs."""
    several = set(hosting.shared.tolist())
    return {(expert, gpu): part for expert, gpu, part in shares if expert in several}


@kinds.expects(instance="moeopt.routing.instance:RoutingInstance", plan="moeopt.routing.plan:Routing")
def faults(instance: RoutingInstance, plan: Routing) -> list[str]:
    """Everything wrong with a plan; empty if nothing is.

    >>> from moeopt import routing
    >>> instance = routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    >>> faults(instance, routing.solve(instance).plan)
    []
    """
    return _faults(instance, plan, _plain(instance, plan))


def _plain(instance: RoutingInstance, plan: Routing) -> list[bool]:
    """For each layer, whether there is nothing to look for pair by pair."""
    if len(plan.shares) != instance.num_layers:
        return []
    return [_plainly_right(instance, row, plan) for row in range(instance.num_layers)]


def _faults(instance: RoutingInstance, plan: Routing, plain: list[bool]) -> list[str]:
    if len(plan.shares) != instance.num_layers:
        return [f"shares cover {len(plan.shares)} layers of {instance.num_layers}"]
    found: list[str] = []
    if instance.whole and not plan.in_tokens:
        found.append("tokens cannot be cut: parts must be whole tokens, unit tokens")
    for row, layer in enumerate(instance.layers):
        if not plain[row]:
            found += [f"layer {layer}: {fault}" for fault in _layer_faults(instance, row, plan)]
    return found


def _layer_faults(instance: RoutingInstance, row: int, plan: Routing) -> list[str]:
    hosting = instance.hostings[row]
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
    hosting = instance.hostings[row]
    if len(plan.shares[row]) != len(hosting.expert) or not len(hosting.expert):
        return False
    experts, gpus, parts = plan.columns(row)
    if not (np.array_equal(experts, hosting.expert) and np.array_equal(gpus, hosting.gpu)):
        return False
    if parts.dtype.kind not in "if" or not (parts.min() >= 0 and parts.max() < math.inf):
        return False
    if hosting.hosts.min() == 0 and (instance.loads[row][hosting.hosts == 0] > 0).any():
        return False
    held = np.flatnonzero(hosting.hosts) if hosting.hosts.min() == 0 else slice(None)
    starts = hosting.first[:-1][held]
    if plan.in_tokens:
        if parts.dtype.kind != "i" or parts.max() > 2**62 // len(parts):
            return False
        return bool((np.add.reduceat(parts, starts) == instance.loads[row][held]).all())
    return bool((np.abs(np.add.reduceat(parts, starts) - 1.0) <= SLACK / 2).all())


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
        if row.get("price") is not None:
            found += [f"layer {layer}: {fault}" for fault in _price_faults(instance, place, row)]
    return found


def _price_faults(instance: RoutingInstance, place: int, row: Mapping[str, Any]) -> list[str]:
    """What is wrong with dual prices: each row of the dual programme, and weak duality for the value of the cut."""
    hosting, gpus, experts, price = instance.hostings[place], set(row["gpus"]), row["experts"], Fraction(row["price"])
    if len(set(experts)) != len(experts) or not all(0 <= expert < instance.num_experts for expert in experts):
        return ["the experts with a price are no set of experts"]
    found = []
    spent = price * total(instance.exact_speed[gpu] for gpu in gpus)
    if price < 0 or spent > 1:
        found.append(f"prices of the GPUs times their speeds sum to {spent}, at most 1 is allowed")
    floor, worth = instance.floor, total(instance.exact_base[place][gpu] for gpu in gpus)
    for expert in experts:
        hosts = hosting.gpu[hosting.first[expert] : hosting.first[expert + 1]].tolist()
        if not hosts or not gpus.issuperset(hosts):
            found.append(f"expert {expert} has a price, and a replica outside the cut where its tokens cost nothing")
        worth += exact(instance.loads[place, expert].item())
    if floor:  # what has no price is paid for by floors: each replica in the cut, or each expert that lies only there
        inside = np.isin(hosting.gpu, list(gpus))
        inside[np.isin(hosting.expert, experts)] = False
        if instance.floor_rule == "per_replica":
            worth += floor * int(hosting.copies[inside].sum())
        else:
            count = np.bincount(hosting.expert[inside], minlength=instance.num_experts)
            worth += floor * int(((count == hosting.hosts) & (count > 0)).sum())
    said = Fraction(row["value"]) if row["kind"] == "cut" else cut_value(instance, place, gpus)
    if worth * price < said:  # for whole tokens they are prices of the fractional optimum
        found.append(f"the dual prices prove {worth * price}, not {said}")
    return found
