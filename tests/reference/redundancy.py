"""Exercise 7: experts with copies on four GPUs; and the load floor of a copy."""

from typing import Any

import numpy as np

from moeopt import placement
from moeopt.placement import PlacementInstance
from tests.reference.table import Inputs, reproduces


def layer(instance: PlacementInstance, method: str) -> dict[str, Any]:
    """The only layer of the plan, and the GPU costs of it."""
    result = placement.solve(instance, method=method)
    found: dict[str, Any] = dict(result.solution["layers"][0])
    per_gpu = np.array(found["slot_expert"]).reshape(instance.num_gpus, -1)
    pieces = np.asarray(instance.loads, dtype=float).reshape(-1) / np.array(found["replicas"])
    found["costs"] = pieces[per_gpu].sum(axis=1).tolist()
    return found


@reproduces("red-ex7-contig")
def contiguous(inputs: Inputs) -> list[Any]:
    instance = PlacementInstance([inputs["load"]], gpus=inputs["gpus"], slots=len(inputs["load"]))
    found = layer(instance, "contiguous")
    return [found["costs"], found["imbalance"]]


def with_copies(load: list[int], gpus: int, slots: int) -> dict[str, Any]:
    return layer(PlacementInstance([load], gpus=gpus, slots=slots, distinct=False), "eplb_raw")


@reproduces("red-ex7-replicas")
def replicas(inputs: Inputs) -> list[int]:
    return list(with_copies(inputs["load"], 4, inputs["slots"])["replicas"])


@reproduces("red-ex7-loads")
def loads(inputs: Inputs) -> list[float]:
    gpus = inputs["gpus"]
    return list(with_copies(inputs["load"], gpus, gpus * inputs["slots_per_gpu"])["costs"])


@reproduces("red-cost-K")
def floors(inputs: Inputs) -> list[float]:
    """One cold expert on every GPU: what a GPU costs under either rule of the floor."""
    gpus = inputs["replicas"]
    costs = []
    for rule in ("per_expert", "per_replica"):
        instance = PlacementInstance([[inputs["a"]]], gpus=gpus, slots=gpus, floor_tokens=inputs["K"], floor_rule=rule)
        costs.append(placement.solve(instance, method="lpt").objective)
    return costs
