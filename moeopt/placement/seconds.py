"""Plans in seconds: ``c_slot`` for every slot a pass touches, ``c_tok`` for every token; and when balance is for free.

Of a forward pass a GPU takes ``c_slot n_g + c_tok C_g / steps``: reading the weights of the ``n_g`` replicas it holds
of experts that get tokens, and computing (receiving, sending) its share of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement import verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import EMPTY, Placement

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prices:
    """Seconds of a pass per layer: the busiest GPU under the plan and under the running one, and perfect balance.

    ``after``, ``ideal`` (L,); ``now`` (L,), ``None`` without a running plan that serves every expert.
    """

    after: Floats
    ideal: Floats
    now: Floats | None

    def to_dict(self) -> dict[str, Any]:
        """The sums over layers, for the solution of a result."""
        return {
            "now": None if self.now is None else float(self.now.sum()),
            "after": float(self.after.sum()),
            "ideal": float(self.ideal.sum()),
        }


def priced(instance: PlacementInstance) -> bool:
    """Whether there are prices."""
    return instance.c_slot is not None or instance.c_tok is not None


def price(instance: PlacementInstance, plan: Placement) -> Prices:
    """Seconds of a pass now and after; with windows the mean over all passes.

    >>> instance = PlacementInstance([[3, 1]], gpus=2, slots=2, c_slot=1e-6, c_tok=1e-7, current=[[0, 1]])
    >>> found = price(instance, Placement.of([[1, 0]]))
    >>> [float(f"{value:.3g}") for value in (found.now[0], found.after[0], found.ideal[0])]
    [1.3e-06, 1.3e-06, 1.2e-06]
    """
    before = running(instance)
    after = _busiest(instance, plan)
    now = None if before is None else _busiest(*before)
    parts = instance.windows or (instance,)
    passes = sum(part.steps for part in parts)
    tokens = sum(np.array([float(ideal) for ideal in part.ideal]) for part in parts)
    slots = sum(_touched(part, plan).sum(axis=1) * part.steps for part in parts)
    usable = max(sum(count > 0 for count in instance.slots), 1)
    ideal = (instance.c_slot or 0.0) * slots / usable / passes + (instance.c_tok or 0.0) * tokens / passes
    return Prices(after, ideal, now)


def running(instance: PlacementInstance) -> tuple[PlacementInstance, Placement] | None:
    """The running plan as a plan of its own shape, without what lay on lost GPUs; ``None`` if it misses an expert."""
    if instance.current is None or instance.current_gpu is None:
        return None
    gpus = np.array(instance.current_gpu)
    order = np.argsort(gpus, kind="stable")
    held = np.where(np.isin(gpus, instance.lost), EMPTY, instance.current)[:, order]
    plan = Placement.of(held)
    if (plan.replicas(instance.num_experts) == 0).any():
        return None
    slots = tuple(np.bincount(gpus, minlength=instance.num_gpus).tolist())
    fields: dict[str, Any] = {"slots": slots, "slots_before": slots, "fill": "at_most", "distinct": False}
    fields |= {"groups": None, "pin": (), "forbid": (), "min_replicas": (1,) * instance.num_experts}
    fields |= {"survive_nodes": 0, "current": None, "max_moves": None, "max_moves_per_layer": None, "move_cost": 0.0}
    fields |= {"lost": (), "retire": ()}
    if instance.split == "free":
        fields["split"] = "even"
    shape = instance.changed(**fields)
    return shape, plan


def _touched(instance: PlacementInstance, plan: Placement) -> Floats:
    """(L, G) slots that hold a replica of an expert with tokens."""
    found = np.zeros((instance.num_layers, instance.num_gpus))
    for row, held in enumerate(plan.slot_expert):
        busy = (held != EMPTY) & (instance.loads[row][held] > 0)
        found[row] = np.bincount(instance.gpu_of_slot[busy], minlength=instance.num_gpus)
    return found


def _busiest(instance: PlacementInstance, plan: Placement) -> Floats:
    """(L,) seconds of the busiest GPU in a pass, the mean over passes."""
    parts = instance.windows or (instance,)
    seconds = np.zeros(instance.num_layers)
    for part in parts:
        tokens = verify.evaluate(part, plan).gpu_cost / part.steps
        each = (part.c_slot or 0.0) * _touched(part, plan) + (part.c_tok or 0.0) * tokens
        seconds += each.max(axis=1) * part.steps
    return seconds / sum(part.steps for part in parts)


def under_the_floor(instance: PlacementInstance, plans: Sequence[tuple[PlacementInstance, Placement]]) -> bool:
    """Whether every replica of every plan gets fewer tokens than the floor, so that all slots cost the same."""
    if not instance.floor:
        return False
    for shape, plan in plans:
        counts = np.maximum(plan.replicas(shape.num_experts), 1)
        for part in shape.windows or (shape,):
            if (part.loads / counts > float(part.floor)).any():
                return False
    return True


def advice(instance: PlacementInstance, plan: Placement) -> dict[str, Any] | None:
    """``keep`` where imbalance is free: all replicas are under the floor, and no GPU holds more slots than after.

    ``any``, where nothing runs yet: any plan is as fast.
    """
    if instance.engine_split or instance.base is not None:
        return None  # parts of tokens are not even, or shared experts stand above the floor
    before = running(instance)
    plans = [(instance, plan)] if before is None else [before, (instance, plan)]
    if not under_the_floor(instance, plans):
        return None
    if before is not None and bool((_slowest(*before) > _slowest(instance, plan) * (1 + 1e-9)).any()):
        return None  # a GPU has more slots to touch now
    what = "in the plan found" if before is None else "in the running plan and in the best one"
    reason = (
        f"imbalance is free: {what} every replica gets at most {instance.floor_tokens:g} tokens a pass, the floor, and "
        "takes as long whatever it gets"
    )
    return {"action": "any" if before is None else "keep", "reason": reason}


def _slowest(instance: PlacementInstance, plan: Placement) -> Floats:
    """(L,) slots touched on the GPU that has most of them in parts of its speed."""
    found: Floats = (_touched(instance, plan) / np.array(instance.speed)).max(axis=1)
    return found


def kept(instance: PlacementInstance) -> Placement | None:
    """The running plan as a plan of the instance, where it is a legal one of the same shape."""
    before = running(instance)
    if before is None or before[0].slots != instance.slots:
        return None
    return None if verify.faults(instance, before[1]) else before[1]
