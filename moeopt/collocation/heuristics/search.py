"""The search: from several starts, swaps on exact copies; then GPUs within units; then replicas in spare slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import affinity, bounds, verify
from moeopt.collocation.heuristics import fill, nets, polish, replicas, simple
from moeopt.collocation.heuristics.pace import paced
from moeopt.collocation.heuristics.starts import starts
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.kernels import connectivity
from moeopt.kernels._jit import interpreter_note
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROUNDS = 3_000
"""Swaps from each start."""
REPLICA_TRIES = 4
"""Tries of replicas for each swap."""
FOR_BOUNDS = 1 / 2
"""Of a time limit, what is kept back for the bounds."""


def search(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Swaps on exact copies from several starts, layer by layer, ``Limits.iterations`` swaps from each (3,000)."""
    rounds = ROUNDS if context.limits.iterations is None else context.limits.iterations
    held, done, notes, stop = [], 0, [], Stop.ITERATIONS
    fast = connectivity.improve.in_time(context.deadline)  # once: that of a layer is too near to load anything
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
    loads, units = loads_of(instance, row), nets.search_units(instance)
    best: tuple[float, float] | None = None
    kept, done = None, 0
    plain = nets.layer_net(instance, row)
    for number, start in enumerate(starts(instance, row, context.seed)):
        if best is not None and context.deadline.passed():
            break
        unit, rng = start.copy(), _generator(row, number, context.seed)
        if instance.objective == "tokens":
            timed = nets.layer_net(instance, row, _rate(instance, plain, unit))
            done += _improve(timed, unit, True, rounds, rng, fast, context)
        else:
            done += _improve(plain, unit, False, rounds, rng, fast, context)
        value = _value(instance, plain, unit)
        if best is None or value < best:
            best, kept = value, unit
    assert kept is not None and best is not None
    if instance.objective == "time" and not context.deadline.passed():
        unit = kept.copy()
        timed = nets.layer_net(instance, row, _rate(instance, plain, unit))
        done += _improve(timed, unit, True, rounds, _generator(row, 99, context.seed), fast, context)
        if _value(instance, plain, unit) < best:
            kept = unit
    held = fill.fill_spare(instance, fill.into_slots(instance, kept[: instance.num_experts], loads, units), loads)
    if instance.num_slots > instance.num_experts and not context.deadline.passed():
        rng = _generator(row, 100, context.seed)
        rate = _rate(instance, plain, kept) if instance.objective in ("time", "tokens") else np.zeros(len(plain.price))
        tries = rounds * REPLICA_TRIES // (1 if fast else 20)
        tried = [held]
        if instance.objective == "tokens":  # where loads are all, what balances loads is a start too
            tried.append(simple.by_load(instance, row))
        held = min(
            (replicas.improved(instance, row, one, rate, tries, rng, fast, context.deadline) for one in tried),
            key=lambda one: verify.objective_of(instance, verify.value(instance, verify.count(instance, row, one))),
        )
    if polish.lopsided(instance):
        held = polish.polished(instance, row, held, context.seed, context.deadline)
    return held, done


def _generator(row: int, number: int, seed: int) -> Ints:
    """The kernel's generator, another for every layer, start and seed."""
    mixed = np.random.SeedSequence([seed, row, number]).generate_state(1)[0]
    return np.array([1 + int(mixed) % 2147483646], dtype=np.int64)


def _improve(
    net: connectivity.Net, unit: Ints, timed: bool, rounds: int, rng: Ints, fast: bool, context: Context
) -> int:
    """Search in slices, so that a deadline is kept."""
    call = connectivity.improve if fast else connectivity.improve.plain()
    return paced(lambda now: call(net, unit, timed, now, len(unit), 0.0, rng), rounds, net, fast, context.deadline)


def _rate(instance: CollocationInstance, net: connectivity.Net, unit: Ints) -> Floats:
    """(U,) time a copy adds to a unit, scaled so that the longest time of the start is 1."""
    raw = np.ones(len(net.price))
    if instance.objective == "time":
        raw = _slowness(instance, net) if len(net.price) == instance.num_units else net.price
    worst = float((raw * inflow(net, unit)).max())
    return raw / worst if worst else raw


def _slowness(instance: CollocationInstance, net: connectivity.Net) -> Floats:
    """(U,) time of a copy into a unit, but for the bytes; 0 where one unit is all, which has no link."""
    cuts = np.array(bounds.cuts(instance))
    found: Floats = np.divide(net.price, cuts, out=np.zeros(len(cuts)), where=cuts > 0)
    return found


def inflow(net: connectivity.Net, unit: Ints) -> Ints:
    """(U,) tokens that touch a unit that is not theirs."""
    found = np.zeros(len(net.price), dtype=np.int64)
    seen = np.zeros((len(net.weight), len(found)), dtype=bool)
    seen[np.repeat(np.arange(len(net.weight)), np.diff(net.start)), unit[net.member]] = True
    away = net.home >= 0
    seen[np.flatnonzero(away), net.home[away]] = False
    found += net.weight @ seen
    return found


def _value(instance: CollocationInstance, net: connectivity.Net, unit: Ints) -> tuple[float, float]:
    """What the best start is chosen by: over the cap, the longest time, copies."""
    copies = inflow(net, unit)
    total = float(net.price @ copies)
    if instance.objective == "tokens":
        return float(copies.max()), total
    excess = float(np.maximum(np.bincount(unit, weights=net.load, minlength=len(net.cap)) - net.cap, 0).sum())
    if instance.objective == "time":
        return excess * 1e6 + float((copies * _slowness(instance, net)).max()), total
    return excess, total
