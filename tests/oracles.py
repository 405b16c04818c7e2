"""What a placement costs and what the best one costs, found the slow way, in fractions, without the code under test.

`cost` adds up one plan by the printed formulas. `optimum` looks at every placement of a tiny layer: it deals the
groups to the nodes in every way and fills GPU after GPU with every set of experts. For a free split no linear
programme is needed: with shares free the busiest GPU costs

    max over sets J of GPUs of  (K n(J) + sum of (a_e - K r_e)+ over experts that lie in J only) / speed(J),

the max-flow min-cut theorem on experts -> GPUs, where n(J) counts the replicas on J; with a floor per expert K is 0 and
``w_e`` stands for ``a_e``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, permutations

from moeopt.placement import PlacementInstance

Hosting = list[tuple[int, ...]]
"""Per GPU the experts on it, one entry a replica."""


def hosting(instance: PlacementInstance, row: Sequence[int]) -> Hosting:
    """Cut a row of slots into GPUs."""
    out, start = [], 0
    for count in instance.slots:
        out.append(tuple(expert for expert in row[start : start + count] if expert >= 0))
        start += count
    return out


def cost(instance: PlacementInstance, layer: int, row: Sequence[int], shares: object = None) -> Fraction:
    """``max_g C_g`` of one layer: even parts, the given shares, or with ``shares="best"`` the best ones."""
    loads = [Fraction(value) for value in instance.loads[layer].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    on = hosting(instance, row)
    if shares == "best":
        return free_cost(instance, loads, floor, on)
    if shares is None:
        return even_cost(instance, loads, floor, on)
    given = {(expert, gpu): Fraction(share) for expert, gpu, share in shares}
    sums = [sum(part for (e, _), part in given.items() if e == expert) for expert in range(len(loads))]
    totals = []
    for gpu, held in enumerate(on):
        total = Fraction(0)
        for expert, times in Counter(held).items():
            part = given.get((expert, gpu), Fraction(0)) / sums[expert]
            if instance.floor_rule == "per_expert":
                total += part * max(loads[expert], floor)
            else:
                total += max(part * loads[expert], times * floor)
        totals.append(total / Fraction(instance.speed[gpu]))
    return max(totals)


def even_cost(instance: PlacementInstance, loads: list[Fraction], floor: Fraction, on: Hosting) -> Fraction:
    """Every replica of an expert gets the same part."""
    copies = Counter(chain.from_iterable(on))
    if instance.floor_rule == "per_expert":
        piece = {expert: max(loads[expert], floor) / count for expert, count in copies.items()}
    else:
        piece = {expert: max(loads[expert] / count, floor) for expert, count in copies.items()}
    return max(
        sum((piece[expert] for expert in held), Fraction(0)) / Fraction(pace)
        for held, pace in zip(on, instance.speed, strict=True)
    )


def free_cost(instance: PlacementInstance, loads: list[Fraction], floor: Fraction, on: Hosting) -> Fraction:
    """The best shares, by the formula above."""
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], Fraction(0)
    copies = Counter(chain.from_iterable(on))
    homes = {expert: {gpu for gpu, held in enumerate(on) if expert in held} for expert in copies}
    rest = {expert: max(loads[expert] - floor * count, Fraction(0)) for expert, count in copies.items()}
    best = Fraction(0)
    for size in range(1, len(on) + 1):
        for some in combinations(range(len(on)), size):
            inside = sum((rest[expert] for expert, home in homes.items() if home <= set(some)), Fraction(0))
            base = floor * sum(len(on[gpu]) for gpu in some)
            best = max(best, (inside + base) / sum(Fraction(instance.speed[gpu]) for gpu in some))
    return best


def optimum(instance: PlacementInstance, layer: int = 0) -> Fraction | None:
    """Least ``max_g C_g`` of a tiny layer under every rule of the instance, ``None`` when no plan exists."""
    loads = [Fraction(value) for value in instance.loads[layer].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    judge = free_cost if instance.split == "free" else even_cost
    best = None
    for on in hostings(instance):
        value = judge(instance, loads, floor, on)
        if best is None or value < best:
            best = value
    return best


def hostings(instance: PlacementInstance) -> Iterator[Hosting]:
    """Every placement that keeps the rules, GPUs that are alike in one order only."""
    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    pinned = [{expert for expert, at in instance.pin if at == gpu} for gpu in range(num_gpus)]
    banned = [{expert for expert, at in instance.forbid if at == gpu} for gpu in range(num_gpus)]
    seen_deals = set()
    for home in _deals(instance):
        if home in seen_deals:
            continue
        seen_deals.add(home)
        options = []
        for gpu in range(num_gpus):
            may = [
                expert
                for expert in range(num_experts)
                if home[expert] in (None, instance.node[gpu]) and not banned[gpu] & {expert, None}
            ]
            sizes = range(instance.slots[gpu] + 1) if instance.fill == "at_most" else [instance.slots[gpu]]
            sets = combinations if instance.distinct else combinations_with_replacement
            options.append([held for size in sizes for held in sets(may, size) if pinned[gpu] <= set(held)])
        kind = [
            (instance.slots[g], instance.speed[g], instance.node[g], sorted(pinned[g]), sorted(banned[g], key=str))
            for g in range(num_gpus)
        ]
        yield from _fill(options, kind, num_experts, [], Counter())


def _fill(
    options: list[list[tuple[int, ...]]], kind: list[object], num_experts: int, chosen: Hosting, seen: Counter[int]
) -> Iterator[Hosting]:
    gpu = len(chosen)
    if gpu == len(options):
        if len(seen) == num_experts:
            yield chosen
        return
    room = sum(max(map(len, option), default=0) for option in options[gpu:])
    if num_experts - len(seen) > room:
        return
    for held in options[gpu]:
        if gpu and kind[gpu] == kind[gpu - 1] and held < chosen[-1]:
            continue  # the same placement with two equal GPUs exchanged
        yield from _fill(options, kind, num_experts, [*chosen, held], seen + Counter(held))


def _deals(instance: PlacementInstance) -> Iterator[tuple[int | None, ...]]:
    """Node of each expert in every deal of groups to nodes; ``None`` where groups are not kept."""
    if instance.groups is None or not instance.hierarchical:
        yield (None,) * instance.num_experts
        return
    groups, nodes = sorted(set(instance.groups)), sorted(set(instance.node))
    each = len(groups) // len(nodes)
    for order in permutations(groups):
        node_of = {group: nodes[place // each] for place, group in enumerate(order)}
        yield tuple(node_of[group] for group in instance.groups)
