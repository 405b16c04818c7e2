"""Check the bounds under rules of whole sources against every plan of many tiny layers.

For each of many shapes all plans are listed once; loads are drawn for them many times. The loads of GPUs come from the
referee's count of sources, which the suite checks source by source.

    python -m tests.benchmarks.brute_force_sources [--count 50000] [--seed 0]
"""

from __future__ import annotations

import argparse
from itertools import chain, product
from random import Random

import numpy as np

from moeopt.kernels.sources import sources_per_slot
from moeopt.placement import PlacementInstance, bounds, engine_rule
from tests import oracles

LOADS_PER_SHAPE = 250
MOST_PLANS = 4000


def check(count: int, seed: int) -> str:
    """Raise `AssertionError` where a bound is above the best plan; else how many were checked and how many were met."""
    random = Random(seed)
    done = met = 0
    kinds: dict[str, int] = {}
    while done < count:
        shape = _shape(random)
        if shape is None:
            continue
        blank = PlacementInstance([[0] * int(shape.pop("experts"))], **shape)  # type: ignore[arg-type, call-overload]
        plans = _plans(blank)
        if not len(plans):
            continue
        node, sources = engine_rule.nodes_and_sources(blank, blank.split)
        part = sources_per_slot(plans, blank.gpu_of_slot, node, sources) / sources.sum()
        loads = [[_load(random) for _ in range(blank.num_experts)] for _ in range(LOADS_PER_SHAPE)]
        instance = PlacementInstance(loads, **shape)  # type: ignore[arg-type]
        for row, bound in enumerate(bounds.cheap(instance)):
            best = _best(instance, row, plans, part)
            assert float(bound.value) <= best * (1 + 1e-12), (instance, row, bound, best)
            assert bounds.check(instance, row, bound.certificate) == bound.value
            kinds[bound.kind] = kinds.get(bound.kind, 0) + 1
            met += float(bound.value) >= best * (1 - 1e-12)
        done += LOADS_PER_SHAPE
    return f"{done} layers, no bound above the best plan, {met} met; kinds {kinds}"


def _shape(random: Random) -> dict[str, object] | None:
    num_gpus, experts = random.randint(2, 4), random.randint(2, 4)
    slots = [random.randint(1, min(experts, 3)) for _ in range(num_gpus)]
    lost = [random.randrange(num_gpus)] if num_gpus > 2 and random.random() < 0.2 else []
    if sum(count for gpu, count in enumerate(slots) if gpu not in lost) < experts:
        return None
    return {
        "experts": experts,
        "slots": slots,
        "lost": lost,
        "nodes": random.choice([1, 2]) if num_gpus % 2 == 0 else 1,
        "split": random.choice(engine_rule.FIXED_RULES),
        "fill": random.choice(["all", "all", "at_most"]),
        "floor_rule": random.choice(["per_expert", "per_replica"]),
        "floor_tokens": random.choice([0, 0, 2, 7.5]),
        "speed": random.choice([None, [random.choice([1.0, 2.0, 0.75]) for _ in range(num_gpus)]]),
        "distinct": random.random() < 0.85,
    }


def _load(random: Random) -> int:
    return random.choice([random.randint(0, 3), random.randint(0, 30), 90])


def _plans(instance: PlacementInstance) -> np.ndarray:
    """Every plan, or none where there are too many."""
    rows = []
    for options in oracles._options(instance):
        if np.prod([len(option) for option in options]) > MOST_PLANS:
            break
        for chosen in product(*options):
            if len(set(chain.from_iterable(chosen))) == instance.num_experts:
                pairs = zip(instance.slots, chosen, strict=True)
                rows.append([expert for count, held in pairs for expert in [*held, *[-1] * (count - len(held))]])
    return np.array(rows, dtype=np.int64).reshape(-1, instance.num_slots)


def _best(instance: PlacementInstance, row: int, plans: np.ndarray, part: np.ndarray) -> float:
    loads, floor = instance.loads[row].astype(float), float(instance.floor)
    if instance.floor_rule == "per_expert":
        pieces = np.maximum(loads, floor)[plans] * part
    else:
        pieces = np.maximum(loads[plans] * part, floor)
    pieces = np.where(plans >= 0, pieces, 0.0)
    totals = np.stack([pieces[:, instance.gpu_of_slot == gpu].sum(axis=1) for gpu in range(instance.num_gpus)], axis=1)
    return float((totals / np.array(instance.speed)).max(axis=1).min())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(check(given.count, given.seed))
