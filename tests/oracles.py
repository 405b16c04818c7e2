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
from itertools import chain, combinations, combinations_with_replacement, pairwise, permutations, product
from math import lcm

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


def engine_cost(instance: PlacementInstance, layer: int, row: Sequence[int]) -> Fraction:
    """``max_g C_g`` under an engine's rule, every source GPU dealt by hand."""
    loads = [Fraction(value) for value in instance.loads[layer].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    gpu_of = [gpu for gpu, count in enumerate(instance.slots) for _ in range(count)]
    node = list(instance.node) if instance.split == "sglang-static-node" else [0] * instance.num_gpus
    sources = [gpu for gpu in range(instance.num_gpus) if gpu not in (*instance.lost, *instance.retire)]
    totals = [Fraction(0)] * instance.num_gpus
    for expert, load in enumerate(loads):
        copies = [slot for slot, held in enumerate(row) if held == expert]
        used = dict.fromkeys(copies, 0)
        near_turn: Counter[int] = Counter()
        far_turn = 0
        for source in sources:
            own = [slot for slot in copies if gpu_of[slot] == source]
            near = [slot for slot in copies if node[gpu_of[slot]] == node[source]]
            if own:
                used[own[0]] += 1
            elif near:
                used[near[near_turn[node[source]] % len(near)]] += 1
                near_turn[node[source]] += 1
            else:
                used[copies[far_turn % len(copies)]] += 1
                far_turn += 1
        for slot, count in used.items():
            part = Fraction(count, len(sources))
            if instance.floor_rule == "per_expert":
                totals[gpu_of[slot]] += part * max(load, floor)
            else:
                totals[gpu_of[slot]] += max(part * load, floor)
    return max(total / Fraction(pace) for total, pace in zip(totals, instance.speed, strict=True))


def engine_optimum(instance: PlacementInstance) -> Fraction | None:
    """Least `engine_cost` of a tiny layer over all plans, GPUs told apart by their names."""
    best: Fraction | None = None
    for options in _options(instance):
        for chosen in product(*options):
            if len(set(chain.from_iterable(chosen))) < instance.num_experts:
                continue
            row: list[int] = []
            for count, held in zip(instance.slots, chosen, strict=True):
                row += [*held, *[-1] * (count - len(held))]
            value = engine_cost(instance, 0, row)
            best = value if best is None else min(best, value)
    return best


def optimum(instance: PlacementInstance, layer: int = 0) -> Fraction | None:
    """Least ``max_g C_g`` of a tiny layer under every rule of the instance, ``None`` when no plan exists."""
    loads = [Fraction(value) for value in instance.loads[layer].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    if instance.split == "even":
        return _even_optimum(instance, loads, floor)
    return _free_optimum(instance, loads, floor)


def plain_optimum(instance: PlacementInstance, layer: int = 0) -> Fraction | None:
    """The same without any shortcut, slower."""
    loads = [Fraction(value) for value in instance.loads[layer].tolist()]
    floor = Fraction(instance.floor_tokens) * instance.steps
    judge = free_cost if instance.split == "free" else even_cost
    return min((judge(instance, loads, floor, on) for on in hostings(instance)), default=None)


def _even_optimum(instance: PlacementInstance, loads: list[Fraction], floor: Fraction) -> Fraction | None:
    """Replica counts first, which fix the size of every piece; then GPU after GPU, cut off at the best so far.

    All in whole numbers: loads and floor over one denominator that every count divides, speeds turned upside down.
    """
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], Fraction(0)
    counts_lcm = lcm(*range(1, instance.num_slots + 1))
    unit = lcm(floor.denominator, *(load.denominator for load in loads)) * counts_lcm
    whole = [int(load * unit) for load in loads]
    least = int(floor * unit)
    pace = [1 / Fraction(speed) for speed in instance.speed]
    pace_unit = lcm(*(value.denominator for value in pace))
    slow = [int(value * pace_unit) for value in pace]
    best: int | None = None

    options: list[list[tuple[int, ...]]] = []

    def fill(gpu: int, left: list[int], piece: list[int], top: int) -> None:
        nonlocal best
        if gpu == len(options):
            if not any(left):
                best = top
            return
        for held in options[gpu]:
            busy = max(top, sum(piece[expert] for expert in held) * slow[gpu])
            if best is not None and busy >= best:
                continue
            after = left.copy()
            for expert in held:
                after[expert] -= 1
            if min(after) >= 0 and sum(after) <= room[gpu + 1]:
                fill(gpu + 1, after, piece, busy)

    for dealt in _options(instance):
        options[:] = dealt
        room = [sum(instance.slots[gpu:]) for gpu in range(instance.num_gpus + 1)]
        sums = range(instance.num_experts, instance.num_slots + 1)
        for total in sums if instance.fill == "at_most" else [instance.num_slots]:
            for cuts in combinations(range(1, total), instance.num_experts - 1):
                counts = [b - a for a, b in pairwise((0, *cuts, total))]
                piece = [max(load // count, least) for load, count in zip(whole, counts, strict=True)]
                if best is None or max(piece) * min(slow) < best:
                    fill(0, counts, piece, 0)
    return None if best is None else Fraction(best, unit * pace_unit)


def _free_optimum(instance: PlacementInstance, loads: list[Fraction], floor: Fraction) -> Fraction | None:
    """`free_cost` of every placement in whole numbers, sets of GPUs as bits."""
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], Fraction(0)
    unit = lcm(floor.denominator, *(load.denominator for load in loads))
    whole, least = [int(load * unit) for load in loads], int(floor * unit)
    sets = range(1, 1 << instance.num_gpus)
    pace = [1 / sum(Fraction(speed) for gpu, speed in enumerate(instance.speed) if some >> gpu & 1) for some in sets]
    pace_unit = lcm(*(value.denominator for value in pace))
    slow = [int(value * pace_unit) for value in pace]
    best: int | None = None
    for on in hostings(instance):
        home, count = [0] * len(loads), [0] * len(loads)
        for gpu, held in enumerate(on):
            for expert in held:
                home[expert] |= 1 << gpu
                count[expert] += 1
        rest = [(at, load - least * copies) for at, load, copies in zip(home, whole, count, strict=True)]
        top = 0
        for some, slowness in zip(sets, slow, strict=True):
            inside = sum(load for at, load in rest if load > 0 and at | some == some)
            base = least and least * sum(len(held) for gpu, held in enumerate(on) if some >> gpu & 1)
            top = max(top, (inside + base) * slowness)
            if best is not None and top >= best:
                break
        else:
            best = top
    return None if best is None else Fraction(best, unit * pace_unit)


def hostings(instance: PlacementInstance) -> Iterator[Hosting]:
    """Every placement that keeps the rules, GPUs that are alike in one order only."""
    kind = [
        (
            instance.slots[gpu],
            instance.speed[gpu],
            instance.node[gpu],
            [expert for expert, at in instance.pin if at == gpu],
            [expert for expert, at in instance.forbid if at == gpu],
        )
        for gpu in range(instance.num_gpus)
    ]
    for options in _options(instance):
        yield from _fill(options, kind, instance.num_experts, [], frozenset())


def _options(instance: PlacementInstance) -> Iterator[list[list[tuple[int, ...]]]]:
    """For every deal of groups to nodes, per GPU every set of experts that may lie there."""
    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    pinned = [{expert for expert, at in instance.pin if at == gpu} for gpu in range(num_gpus)]
    banned = [{expert for expert, at in instance.forbid if at == gpu} for gpu in range(num_gpus)]
    for home in dict.fromkeys(_deals(instance)):
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
        yield options


def _fill(
    options: list[list[tuple[int, ...]]], kind: list[object], num_experts: int, chosen: Hosting, seen: frozenset[int]
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
        yield from _fill(options, kind, num_experts, [*chosen, held], seen | frozenset(held))


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
