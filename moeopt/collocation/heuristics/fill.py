"""From experts in units to experts in slots: GPUs within units evened out, spare slots filled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import EMPTY

Ints = NDArray[np.int64]


def into_slots(instance: CollocationInstance, unit_of: Ints, loads: Ints, units: Ints) -> Ints:
    """(S,) experts in slots: heaviest first to the GPU of its unit that has least, spare slots empty.

    Parameters
    ----------
    unit_of
        (E,) unit of each expert, no unit above its slots.
    loads
        (E,) tokens.
    units
        (G,) unit of each GPU.
    """
    held = np.full(instance.num_slots, EMPTY, dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(instance.slots)])
    filled, total = np.zeros(instance.num_gpus, np.int64), np.zeros(instance.num_gpus, np.int64)
    for expert in np.argsort(-loads, kind="stable"):
        gpus = np.flatnonzero((units == unit_of[expert]) & (filled < instance.slots))
        gpu = gpus[np.lexsort((gpus, filled[gpus], total[gpus]))[0]]
        held[start[gpu] + filled[gpu]] = expert
        filled[gpu] += 1
        total[gpu] += loads[expert]
    return held


def fill_spare(instance: CollocationInstance, held: Ints, loads: Ints) -> Ints:
    """Empty slots given to the experts with most tokens a replica that their GPU lacks, and best their unit too."""
    if instance.fill != "all" or (held >= 0).all():
        return held
    held = held.copy()
    gpu_of, counts = instance.gpu_of_slot, np.bincount(held[held >= 0], minlength=instance.num_experts)
    for slot in np.flatnonzero(held < 0):
        gpu = gpu_of[slot]
        here = held[gpu_of == gpu]
        unit = held[instance.unit[gpu_of] == instance.unit[gpu]]
        each = loads / np.maximum(counts, 1)
        order = np.lexsort((np.arange(instance.num_experts), -each, np.isin(np.arange(instance.num_experts), unit)))
        expert = next(int(one) for one in order if one not in here)
        held[slot] = expert
        counts[expert] += 1
    return held
