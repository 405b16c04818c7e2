"""The least cost found the slow way, in fractions, without the code under test: every set of GPUs, every whole split.

Fractional, by max-flow and min-cut, with a floor K for each replica:

    max over sets J of GPUs of  (base(J) + K n(J) + sum of (a_e - K r_e)+ over experts that lie in J only) / speed(J),

n(J) counting the replicas on J. Whole tokens: every way to deal every expert's tokens to its GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations, product

from moeopt.routing import RoutingInstance


def number(value: float) -> Fraction:
    return Fraction(str(value)) if isinstance(value, float) else Fraction(int(value))


def hosts(instance: RoutingInstance, row: int = 0) -> dict[int, Counter[int]]:
    """Copies of each expert by GPU."""
    found: dict[int, Counter[int]] = {}
    for expert, gpu in zip(instance.slot_expert[row].tolist(), instance.gpu_of_slot.tolist(), strict=True):
        if expert >= 0:
            found.setdefault(expert, Counter())[gpu] += 1
    return found


def optimum(instance: RoutingInstance, row: int = 0) -> Fraction:
    """The fractional optimum of a layer."""
    held, loads = hosts(instance, row), [number(load) for load in instance.loads[row].tolist()]
    floor = number(instance.floor_tokens) * instance.steps
    if instance.floor_rule == "per_expert":
        loads, floor = [max(load, floor) for load in loads], Fraction(0)
    gpus = range(instance.num_gpus)
    best = Fraction(0)
    for chosen in chain.from_iterable(combinations(gpus, size) for size in range(1, len(gpus) + 1)):
        inside = set(chosen)
        amount = sum((number(instance.base[row][gpu]) for gpu in chosen), Fraction(0))
        for expert, copies in held.items():
            amount += floor * sum(count for gpu, count in copies.items() if gpu in inside)
            if set(copies) <= inside:
                amount += max(loads[expert] - floor * copies.total(), Fraction(0))
        best = max(best, amount / sum(number(instance.speed[gpu]) for gpu in chosen))
    return best


def deals(tokens: int, places: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal whole tokens to places."""
    if places == 1:
        yield (tokens,)
        return
    for first in range(tokens + 1):
        for rest in deals(tokens - first, places - 1):
            yield (first, *rest)


def whole(instance: RoutingInstance, row: int = 0) -> tuple[Fraction, Fraction]:
    """The optimum in whole tokens, and the most tokens that can stay on their node at that cost."""
    held, floor = hosts(instance, row), number(instance.floor_tokens) * instance.steps
    loads = [int(load) for load in instance.loads[row].tolist()]
    experts = sorted(held)
    count = [instance.node.count(node) for node in instance.node]
    best: tuple[Fraction, Fraction] | None = None
    for split in product(*(deals(loads[expert], len(held[expert])) for expert in experts)):
        costs = [number(more) for more in instance.base[row]]
        stayed = Fraction(0)
        for expert, parts in zip(experts, split, strict=True):
            there: Counter[int] = Counter()
            for gpu, part in zip(sorted(held[expert]), parts, strict=True):
                costs[gpu] += max(Fraction(part), floor * held[expert][gpu])
                there[instance.node[gpu]] += part
            for node, tokens in there.items():
                if instance.sources is None:
                    source = Fraction(loads[expert] * count[instance.node.index(node)], instance.num_gpus)
                else:
                    amounts = instance.sources[row, expert].tolist()
                    source = sum(
                        (number(a) for a, n in zip(amounts, instance.node, strict=True) if n == node), Fraction(0)
                    )
                stayed += min(Fraction(tokens), Fraction(source // 1))
        value = max(cost / number(pace) for cost, pace in zip(costs, instance.speed, strict=True))
        if best is None or (value, -stayed) < (best[0], -best[1]):
            best = value, stayed
    assert best is not None
    return best
