"""Hold every lower bound against brute force on many tiny instances: how often is it wrong (never), how often exact?

    python -m tests.benchmarks.brute_force_bounds --count 50000 --seed 0

Prints one row for each kind of bound: instances it was tried on, violations, in how many it equals the optimum, and
the mean and largest gap to it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, bounds, configuration, enumeration, partner, pigeonhole
from moeopt.placement.bounds import LayerBound
from moeopt.placement.fillings import FULL
from tests import oracles


def random_instance(rng: random.Random) -> PlacementInstance:
    """E <= 5, G <= 3, slots <= 3; half of them equal GPUs with an even split, where most bounds apply."""
    plain = rng.random() < 0.5
    num_gpus = rng.choice([1, 2, 2, 3, 3, 3])
    distinct = rng.random() < 0.6
    slots = [rng.randint(1, 3)] * num_gpus if plain else [rng.randint(0, 3) for _ in range(num_gpus)]
    if not any(slots):
        slots[0] = 1
    num_experts = rng.randint(max(slots) if distinct else 1, min(5, sum(slots)))
    kind = rng.choice(["ints", "ties", "skewed", "floats"])
    draw = {
        "ints": lambda: rng.randint(0, 30),
        "ties": lambda: rng.choice([0, 1, 1, 3]),
        "skewed": lambda: int(2 ** rng.uniform(0, 10)),
        "floats": lambda: rng.random() * 10 ** rng.randint(-3, 3),
    }[kind]
    pace = rng.choice([1.0, 1.0, 2.0, 0.3])
    nodes, groups = [rng.randint(0, 1) for _ in range(num_gpus)], None
    if num_gpus > 1 and num_experts >= num_gpus and rng.random() < 0.3:  # a GPU a node, and groups for each
        num_experts -= num_experts % num_gpus
        each = num_experts // num_gpus
        nodes, slots = list(range(num_gpus)), [rng.randint(each, each if distinct else 3)] * num_gpus
        groups = rng.choice([num_gpus * d for d in range(1, each + 1) if each % d == 0])
    elif rng.random() < 0.5:
        groups = rng.choice([q for q in range(1, num_experts + 1) if num_experts % q == 0])
    kept = len(set(nodes)) == 2 and groups is not None and groups % 2 == 0
    if kept and not _fits(slots, nodes, num_experts, distinct):
        groups = None
    return PlacementInstance(
        [[draw() for _ in range(num_experts)]],
        slots=slots,
        speed=[pace] * num_gpus if plain else [rng.choice([1.0, 1.0, 2.0, 0.75]) for _ in range(num_gpus)],
        nodes=nodes,
        groups=groups,
        distinct=distinct,
        split="even" if plain else rng.choice(["even", "free"]),
        fill=rng.choice(["all", "at_most"]),
        floor_tokens=rng.choice([0, 0, 1, 2.5, 20]),
        floor_rule=rng.choice(["per_expert", "per_replica"]),
    )


def _fits(slots: list[int], nodes: list[int], num_experts: int, distinct: bool) -> bool:
    """Whether each node holds its half of the experts, and no GPU more slots than that."""
    half = num_experts // 2
    rooms = [sum(count for count, home in zip(slots, nodes, strict=True) if home == node) for node in (0, 1)]
    return min(rooms) >= half and (not distinct or max(slots) <= half)


def random_tree(rng: random.Random, instance: PlacementInstance, depth: int = 0) -> dict[str, Any]:
    """A certificate of any prices, sometimes in cases."""
    if depth < 2 and rng.random() < 0.2:
        expert, count = rng.randrange(instance.num_experts), rng.randint(1, 3)
        few, many = (random_tree(rng, instance, depth + 1) for _ in range(2))
        return {"expert": expert, "count": count, "few": few, "many": many}
    kind = rng.choice(["steps", "partner", "size"])
    if kind == "partner":  # a piece beyond T - x has only pieces up to x beside it
        x, dear = rng.randint(1, FULL // 2), max(instance.slots)
        return {"sizes": [x + 1, FULL - x + 1], "prices": [1, dear]}
    number = rng.randint(1, 12)
    sizes = sorted({rng.randint(0, FULL) for _ in range(number)})
    if kind == "size":
        return {"sizes": sizes, "prices": [size * 60 // FULL for size in sizes]}
    prices = sorted(rng.randint(0, 9) for _ in sizes)
    if rng.random() < 0.1:
        rng.shuffle(prices)
    return {"sizes": sizes, "prices": prices}


def priced_of(rng: random.Random, instance: PlacementInstance, best: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Certificates of random prices, at and below the optimum."""
    if not configuration.holds(instance) or best <= 0:
        return
    for part in (Fraction(1), Fraction(99, 100), Fraction(9, 10), Fraction(7, 10)):
        tree = random_tree(rng, instance)
        proof = {"kind": "configuration", "threshold": str(best * part), **tree}
        proved = configuration.proves(instance, 0, best * part, proof)
        # a plan costs exactly `best`: nothing may refute that
        yield f"prices at {float(part):.0%}", best * part + (part == 1) if proved else Fraction(0)


def quick_of(rng: random.Random, instance: PlacementInstance, best: Fraction) -> Iterator[tuple[str, Fraction]]:
    """The quick bounds one by one, free to go too far; and pigeonholes that are made up, at the optimum itself."""
    if not (instance.split == "even" and instance.floor_rule == "per_expert" and instance.uniform) or best <= 0:
        return
    slots, speed = instance.slots[0], instance.speed[0]
    lower, upper = float(best) * speed * 0.3, float(best) * speed * 1.5
    priced = partner.search(instance.weights[0], instance.num_gpus, slots, lower, upper)
    if priced is not None:
        threshold, sizes, prices = priced
        proof = {"kind": "configuration", "threshold": threshold / speed, "sizes": sizes, "prices": prices}
        proved = configuration.proves(instance, 0, Fraction(threshold / speed), proof)
        yield "crowd" if len(prices) == 1 else "partner", Fraction(threshold / speed) if proved else Fraction(0)
    for distinct in {instance.distinct, False}:
        found = pigeonhole.search(instance.weights[0], instance.num_gpus, slots, lower, upper, distinct)
        if found is not None:
            proof = {"kind": "pigeonhole", "threshold": found[0] / speed, "experts": found[1], "lifts": found[2]}
            yield "lifted" if found[2] else "pigeonhole", _checked(instance, proof)
    everyone = range(instance.num_experts)
    for threshold in (best, best * Fraction(999, 1000), best * Fraction(9, 10)):
        experts = [expert for expert in everyone if rng.random() < 0.4]
        lifts = [[expert for expert in everyone if rng.random() < 0.3] for _ in range(rng.randint(0, 2))]
        proof = {"kind": "pigeonhole", "threshold": str(threshold), "experts": experts, "lifts": lifts}
        value = _checked(instance, proof)
        # a plan costs exactly `best`: nothing may refute that
        yield "made-up pigeonhole", value + 1 if value == best else value


def searched_of(instance: PlacementInstance, best: Fraction) -> Iterator[tuple[str, Fraction]]:
    """The configuration bound that is searched, free to go too far."""
    if not configuration.holds(instance) or best <= 0:
        return
    weak = LayerBound("mean", bounds.check(instance, 0, {"kind": "mean"}) / 2, {"kind": "mean"})
    found = bounds.priced(instance, weak, 0, 1.5 * float(best), 0.0, Deadline(None))
    if found.kind == "configuration":
        cases = "expert" in found.certificate
        yield "searched cases" if cases else "searched", bounds.check(instance, 0, found.certificate)
    elif found.kind == "deals":
        yield "deals priced", bounds.check(instance, 0, found.certificate)


def _checked(instance: PlacementInstance, proof: dict[str, Any]) -> Fraction:
    """What a certificate proves, 0 where that is nothing."""
    try:
        return bounds.check(instance, 0, proof)
    except ValueError:
        return Fraction(0)


def bounds_of(instance: PlacementInstance, best: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Every bound that applies, recomputed from its certificate, and ``cheap`` and ``tighten`` as they come."""
    for kind in ("mean", "largest"):
        if kind == "mean" or instance.split == "even":
            yield kind, bounds.check(instance, 0, {"kind": kind})
    yield "alone", max(bounds.check(instance, 0, {"kind": "alone", "expert": e}) for e in range(instance.num_experts))
    cheap = bounds.cheap(instance)[0]
    yield "cheap", cheap.value
    if cheap.kind == "deals":
        yield "deals", bounds.check(instance, 0, cheap.certificate)
    listed = enumeration.optimum(instance, 0, bounds.most_replicas(instance), best * 2)
    if listed is not None and best > 0:
        yield "enumeration", bounds.check(instance, 0, {"kind": "enumeration", "value": str(listed[0])})
    yield "tightened", bounds.tighten(instance, cheap, 0, float(best)).value
    weak = LayerBound("mean", bounds.check(instance, 0, {"kind": "mean"}) / 2, {"kind": "mean"})
    found = bounds.tighten(instance, weak, 0, 1.5 * float(best))  # on its own, and free to go too far
    if found.kind == "pigeonhole":
        yield "pigeonhole", bounds.check(instance, 0, found.certificate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="search configuration bounds on every so manieth one")
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="stop after so many seconds")
    options = parser.parse_args()
    rng, start, done = random.Random(options.seed), time.perf_counter(), 0
    table: dict[str, list[float]] = {}
    violations: list[str] = []
    while done < options.count and time.perf_counter() - start < options.time_limit:
        instance = random_instance(rng)
        best = oracles.optimum(instance)
        assert best is not None
        found = [*bounds_of(instance, best), *priced_of(rng, instance, best), *quick_of(rng, instance, best)]
        if done % options.every == 0:
            found.extend(searched_of(instance, best))
        for kind, value in found:
            if value > best:
                violations.append(f"{kind} {value} > optimum {best}: {instance}")
            table.setdefault(kind, []).append(float((best - value) / best) if best else 0.0)
        done += 1
    print(f"{done} instances, seed {options.seed}, {time.perf_counter() - start:.0f} s, {len(violations)} violations")
    print(f"{'bound':>18} {'tried':>8} {'exact':>8} {'share':>7} {'mean gap':>9} {'largest':>8}")
    for kind, gaps in table.items():
        exact = sum(gap <= 1e-9 for gap in gaps)
        share, mean = exact / len(gaps), sum(gaps) / len(gaps)
        print(f"{kind:>18} {len(gaps):>8} {exact:>8} {share:>7.1%} {mean:>9.2%} {max(gaps):>8.1%}")
    for line in violations[:20]:
        print(line)


if __name__ == "__main__":
    main()
