"""The search: from several starts, swaps on exact copies; then GPUs within units; then replicas in spare slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import affinity
from moeopt.collocation.heuristics import fill, nets, polish, simple, spread
from moeopt.collocation.heuristics.partition import partition, tempo
from moeopt.collocation.heuristics.under_cap import under_cap
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.kernels import connectivity
from moeopt.kernels._jit import interpreter_note
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

Ints = NDArray[np.int64]

ROUNDS = 3_000
"""Swaps from each start."""
FOR_BOUNDS = 1 / 2
"""Of a time limit, what is kept back for the bounds."""


def search(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Swaps on exact copies from several starts, layer by layer, ``Limits.iterations`` swaps from each (3,000)."""
    rounds = ROUNDS if context.limits.iterations is None else context.limits.iterations
    held, done, notes, stop = [], 0, [], Stop.ITERATIONS
    fast = connectivity.improve.in_time(context.deadline)  # once: that of a layer is too near to load anything
    context.deadline.imports("scipy.optimize")
    note = interpreter_note("the search", fast)
    if note:
        notes.append(note)
    context.deadline.keep_back((context.limits.time_s or 0.0) * FOR_BOUNDS)
    for row in range(instance.num_layers):
        part = replace(context, deadline=context.deadline.share(instance.num_layers - row))
        found, used = _layer(instance, row, rounds, fast, part)
        held.append(found)
        done += used
        if part.deadline.passed():
            stop = Stop.TIME
        context.report(row + 1, instance.num_layers, "searching")
    table = np.stack(held)
    details: dict[str, Any] = {}
    if not instance.transport.returns_home and instance.source is None and instance.pairs is None:
        table, hops = affinity.chained(instance, table)
        details = {"affinity": hops} if hops else {}
    return Outcome(Collocation.of(table), stop, iterations=done, notes=notes, details=details)


def _layer(instance: CollocationInstance, row: int, rounds: int, fast: bool, context: Context) -> tuple[Ints, int]:
    if instance.fill == "all" or instance.num_slots == instance.num_experts:
        tried, done = _plans(instance, row, rounds, fast, context)
        held = tried[0]
    else:
        held, done = spread.level_by_level(instance, row, _plans, rounds, fast, context)
    held, more = _finished(instance, row, held, rounds, fast, context)
    return held, done + more


def _finished(
    instance: CollocationInstance, row: int, held: Ints, rounds: int, fast: bool, context: Context
) -> tuple[Ints, int]:
    """(S,) the plan under the load cap, with swaps priced on links where they tell more, and the swaps done."""
    tried, done = [held, simple.in_order(instance)], 0  # never worse than these, however early it ends
    if (
        instance.max_imbalance is not None
        and spread.judged(instance, row, held)[0] > 0
        and not context.deadline.passed()
    ):
        held, done = under_cap(instance, row, held, rounds, fast, context)
    if polish.needed(instance, row, held) and not context.deadline.passed():
        held = polish.polished(instance, row, held, context.seed, context.deadline)
    return spread.best(instance, row, [held, *tried]), done


def _plans(
    instance: CollocationInstance, row: int, rounds: int, fast: bool, context: Context
) -> tuple[list[Ints], int]:
    """(S,) plans of a layer, from experts in units to replicas in spare slots, and the swaps done.

    Where slots may stay empty, the second is the plan with all of them filled.
    """
    plain = nets.layer_net(instance, row)
    unit, done = partition(instance, row, plain, rounds, fast, context)
    loads, units = loads_of(instance, row), nets.search_units(instance)
    held = fill.into_slots(instance, unit[: instance.num_experts], loads, units)
    rate = tempo(instance, plain, unit)
    found = [spread.filled(instance, row, held, rate, rounds, fast, context)]
    if instance.fill == "at_most" and instance.num_slots > instance.num_experts and not context.deadline.passed():
        whole = spread.filling_all(instance)
        full = spread.filled(whole, row, held, rate, rounds, fast, context)
        full, more = _finished(whole, row, full, rounds, fast, context)
        found.append(full)
        done += more
    return found, done
