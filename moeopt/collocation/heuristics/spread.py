"""Replicas in spare slots: from the best of several starts, and level by level where slots may stay empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import verify
from moeopt.collocation.heuristics import fill, nets, simple
from moeopt.collocation.heuristics.pace import INTERPRETED
from moeopt.collocation.heuristics.partition import generator, tempo
from moeopt.collocation.heuristics.replicas import Spare, seated
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import loads_of
from moeopt.registry import Context

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Plans = Callable[[CollocationInstance, int, int, bool, Context], tuple[list[Ints], int]]

TRIES = 4
"""Tries of replicas for each swap of experts."""
WORK, LEAST_TRIES = 200_000_000, 500
"""Tries times rows that are counted for them, at most, where that leaves some: with many units a try costs as many."""


PARTS = (0.01, 0.5, 1.0)
"""What replicas are credited with of what they spare only together: a start for each."""


def judged(instance: CollocationInstance, row: int, held: Ints) -> tuple[float, float, float]:
    """Imbalance above the load cap, the objective, copies: by the referee."""
    layer = verify.value(instance, verify.count(instance, row, held))
    over = 0.0 if instance.max_imbalance is None else layer.imbalance - instance.max_imbalance * (1 + 1e-12)
    return max(0.0, over), float(verify.objective_of(instance, layer)), float(layer.copies)


def filled(
    instance: CollocationInstance,
    row: int,
    held: Ints,
    rate: Floats,
    rounds: int,
    fast: bool,
    context: Context,
    *,
    capped: bool = False,
) -> Ints:
    """(S,) the plan `held` with replicas in its empty slots; no worse than without, where these may be empty."""
    full = fill.fill_spare(instance, held, loads_of(instance, row))
    spare = Spare(instance, row, rate, fast, context.deadline, capped)
    if instance.num_slots == instance.num_experts or context.deadline.passed() or not spare.fits():
        return full
    begun = [full, *(spare.grown(held, part) for part in PARTS)]
    tried = [best(instance, row, begun)]
    if instance.fill == "all":  # two that look at no token, and put copies of an expert into different units
        tried += [simple.by_load(instance, row), simple.in_order(instance)]
    elif instance.objective == "tokens":  # where loads are all, what balances loads is a start too
        tried.append(simple.by_load(instance, row))
    rng, tries = generator(row, 100, context.seed), rounds * TRIES // (1 if fast else INTERPRETED)
    if not capped and judged(instance, row, tried[0])[0] > 0:
        tries //= 4  # only where the search under the cap begins
    tries = min(tries, max(LEAST_TRIES, WORK // len(spare.net.weight)))
    further = tried if instance.objective == "tokens" else [best(instance, row, tried)]
    return best(instance, row, [*tried, *(spare.changed(one, tries, rng) for one in further)])


def best(instance: CollocationInstance, row: int, tried: list[Ints]) -> Ints:
    """The best of some plans by the referee, the first of equals."""
    different = list({one.tobytes(): one for one in tried}.values())
    return min(different, key=lambda one: judged(instance, row, one)) if len(different) > 1 else different[0]


def level_by_level(
    instance: CollocationInstance, row: int, plans: Plans, rounds: int, fast: bool, context: Context
) -> tuple[Ints, int]:
    """(S,) the best plan with slots that may be empty, and the swaps done.

    GPUs get one slot more at a time, from as few as hold the experts: a plan goes on from that of the level before, is
    made anew, and once more with every slot filled, and the best is kept. So more slots never make a plan worse, nor
    does that they may be empty. Every expert in every unit, where there is room, is tried too: no copies travel, and
    where these count nothing is searched.
    """
    whole = _everywhere(instance, row)
    if whole is not None and judged(instance, row, whole)[:2] == (0.0, 0.0):
        return whole, 0
    held, done, before = None, 0, instance
    steps = list(levels(instance))
    for number, part in enumerate(steps):
        if held is not None and context.deadline.passed():
            break
        share = replace(context, deadline=context.deadline.share(len(steps) - number))
        tried, more = plans(part, row, rounds, fast, share)
        if held is not None:
            tried += _further(part, row, _moved(before, part, held), rounds // TRIES, fast, share)
        held, before, done = best(part, row, tried), part, done + more
        if judged(part, row, held)[:2] == (0.0, 0.0):
            break
    assert held is not None
    found = _moved(before, instance, held)
    return found if whole is None else best(instance, row, [found, whole]), done


def _everywhere(instance: CollocationInstance, row: int) -> Ints | None:
    """(S,) every expert in every unit, if there is room."""
    units, experts = nets.search_units(instance), instance.num_experts
    held, slot_unit = np.full(instance.num_slots, -1, dtype=np.int64), units[instance.gpu_of_slot]
    for unit in np.unique(units):
        slots = np.flatnonzero(slot_unit == unit)
        if len(slots) < experts:
            return None
        held[slots[:experts]] = np.arange(experts)
    return seated(instance, row, held, units)


def levels(instance: CollocationInstance) -> Iterator[CollocationInstance]:
    """The instance with few slots a GPU, one more each time, up to its own."""
    for most in range(1, int(instance.slots.max()) + 1):
        slots = np.minimum(instance.slots, most)
        if slots.sum() >= instance.num_experts:
            yield with_slots(instance, slots)


def with_slots(instance: CollocationInstance, slots: Ints) -> CollocationInstance:
    """The same instance with other slots of GPUs."""
    return _with(instance, "slots", slots)


def filling_all(instance: CollocationInstance) -> CollocationInstance:
    """The same instance with no slot empty."""
    return _with(instance, "fill", "all")


def _with(instance: CollocationInstance, field: str, value: object) -> CollocationInstance:
    found = copy(instance)
    for name in ("gpu_of_slot", "unit_slots", "sha256", "_floors", "_counts"):
        found.__dict__.pop(name, None)
    object.__setattr__(found, field, value)
    return found


def _further(
    instance: CollocationInstance, row: int, held: Ints, rounds: int, fast: bool, context: Context
) -> list[Ints]:
    """A plan with empty slots, and what comes of it when they are filled."""
    gpu = instance.gpu_of_slot[np.argmax(held[None] == np.arange(instance.num_experts)[:, None], axis=1)]
    plain, unit = nets.layer_net(instance, row), nets.search_units(instance)[gpu]
    rate = tempo(instance, plain, np.concatenate([unit, np.zeros(instance.num_slots - len(unit), np.int64)]))
    return [held, filled(instance, row, held, rate, rounds, fast, context)]


def _moved(before: CollocationInstance, after: CollocationInstance, held: Ints) -> Ints:
    """The same plan with the slots of another level."""
    found = np.full(after.num_slots, -1, dtype=np.int64)
    at = np.concatenate([np.arange(n) + first for n, first in zip(before.slots, _first(after), strict=True)])
    found[at] = held
    return found


def _first(instance: CollocationInstance) -> Ints:
    return np.concatenate([[0], np.cumsum(instance.slots)[:-1]]).astype(np.int64)
