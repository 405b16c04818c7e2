"""Best shares for a given hosting (free split): one linear programme a layer."""

from __future__ import annotations

import math
import time
from collections import Counter
from fractions import Fraction

import numpy as np

from moeopt.limits import Deadline
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement, Share
from moeopt.placement.replanning.parts import layer_alone
from moeopt.placement.verify import evaluate

JUDGED = 2.5
"""What follows the last programme, in times that a layer takes to be judged: it is built, checked and judged again."""


def with_best_shares(instance: PlacementInstance, plan: Placement, deadline: Deadline | None = None) -> Placement:
    """The same slots with the shares that make the busiest GPU cheapest; the referee checks what comes out.

    Even parts stay where the programme, which is exact to 1e-9 only, finds nothing better, and where time is up. Time
    for the referee is kept back; where it leaves none for any layer, the plan has no shares, which are even parts.

    Raises
    ------
    PlanError
        The plan breaks a rule.
    """
    return best_shares(instance, plan, Deadline(None) if deadline is None else deadline)[0]


def best_shares(
    instance: PlacementInstance, plan: Placement, deadline: Deadline
) -> tuple[Placement, tuple[Fraction, ...]]:
    """The same, and the cost of every layer with these shares."""
    tops = list(evaluate(instance, Placement(plan.slot_expert)).max_load)
    rows = plan.slot_expert.tolist()
    kept_s = _referee_s(instance, rows[0]) * len(rows) if deadline.limited and not deadline.passed() else 0.0
    if deadline.remaining_s() <= kept_s or not deadline.allows_import("scipy.optimize"):
        deadline.close()
        return Placement(plan.slot_expert), tuple(tops)
    chosen: list[list[Share]] = []
    for row, held in enumerate(rows):
        left_s = deadline.remaining_s() - kept_s
        if left_s <= 0:
            deadline.close()
            chosen.extend(_even_shares(instance, other) for other in rows[row:])
            break
        mine = _layer_shares(instance, row, held, left_s)
        after = _judged(instance, row, held, mine)
        better = after < tops[row]
        tops[row] = min(after, tops[row])
        chosen.append(mine if better else _even_shares(instance, held))
    return Placement.of(rows, chosen), tuple(tops)


def with_even_shares(instance: PlacementInstance, plan: Placement) -> Placement:
    """The same plan with its shares written out where it has none, which means even parts."""
    if plan.shares is not None:
        return plan
    rows = plan.slot_expert.tolist()
    return Placement.of(rows, [_even_shares(instance, held) for held in rows])


def _judged(instance: PlacementInstance, row: int, held: list[int], shares: list[Share]) -> Fraction:
    return evaluate(layer_alone(instance, row), Placement.of(held, [shares])).max_load[0]


def _referee_s(instance: PlacementInstance, held: list[int]) -> float:
    """Seconds to be kept for each layer, as the first one takes them."""
    start_s = time.perf_counter()
    _judged(instance, 0, held, _even_shares(instance, held))
    return JUDGED * (time.perf_counter() - start_s)


def _even_shares(instance: PlacementInstance, held: list[int]) -> list[Share]:
    copies = np.bincount([expert for expert in held if expert != EMPTY], minlength=instance.num_experts).tolist()
    return [(expert, gpu, times / copies[expert]) for (expert, gpu), times in sorted(_hosted(instance, held).items())]


def _hosted(instance: PlacementInstance, held: list[int]) -> Counter[tuple[int, int]]:
    """(expert, GPU) and how many copies lie there."""
    return Counter((e, g) for e, g in zip(held, instance.gpu_of_slot.tolist(), strict=True) if e != EMPTY)


def _layer_shares(instance: PlacementInstance, row: int, held: list[int], most_s: float) -> list[Share]:
    """Best shares of one layer, or even ones where that takes more than `most_s` seconds."""
    from scipy import sparse
    from scipy.optimize import linprog

    hosted = _hosted(instance, held)
    pairs = sorted(hosted)
    scale = float(instance.ideal[row]) or 1.0
    per_replica = instance.floor_rule == "per_replica" and instance.floor > 0
    loads = instance.loads[row].astype(float) if per_replica else instance.weights[row]
    num_pairs, num_gpus = len(pairs), instance.num_gpus
    experts = np.array([expert for expert, _ in pairs])
    gpus = np.array([gpu for _, gpu in pairs])
    places = np.arange(num_pairs)
    # columns: share of each pair, its cost when each replica has a floor, and last the busiest GPU's cost
    width = num_pairs * (2 if per_replica else 1) + 1
    per_gpu = np.ones(num_pairs) if per_replica else loads[experts] / scale
    costs = places + num_pairs if per_replica else places
    gpu_rows = sparse.csr_matrix(
        (
            np.concatenate([per_gpu, -np.array(instance.speed)]),
            (np.concatenate([gpus, np.arange(num_gpus)]), np.concatenate([costs, np.full(num_gpus, width - 1)])),
        ),
        shape=(num_gpus, width),
    )
    upper = [gpu_rows]
    if per_replica:
        data = np.concatenate([loads[experts] / scale, -np.ones(num_pairs)])
        upper.append(
            sparse.csr_matrix((data, (np.tile(places, 2), np.concatenate([places, costs]))), shape=(num_pairs, width))
        )
    whole = sparse.csr_matrix((np.ones(num_pairs), (experts, places)), shape=(instance.num_experts, width))
    bounds: list[tuple[float, float | None]] = [(0.0, 1.0)] * num_pairs
    if per_replica:
        bounds += [(float(instance.floor) / scale * hosted[pair], None) for pair in pairs]
    bounds.append((0.0, None))
    goal = np.zeros(width)
    goal[-1] = 1.0
    stacked = sparse.vstack(upper)
    answer = linprog(
        goal,
        A_ub=stacked,
        b_ub=np.zeros(stacked.shape[0]),
        A_eq=whole,
        b_eq=np.ones(instance.num_experts),
        bounds=bounds,
        method="highs",
        options={} if math.isinf(most_s) else {"time_limit": most_s},
    )
    if answer.status != 0:
        return _even_shares(instance, held)
    values = np.clip(answer.x[:num_pairs], 0.0, None)
    sums = np.bincount(experts, weights=values, minlength=instance.num_experts)
    return [(e, g, float(v / sums[e])) for (e, g), v in zip(pairs, values, strict=True)]
