"""Experts in units without replicas: swaps on exact copies from several starts."""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import bounds
from moeopt.collocation.heuristics import nets
from moeopt.collocation.heuristics.pace import paced
from moeopt.collocation.heuristics.starts import starts
from moeopt.collocation.instance import CollocationInstance
from moeopt.kernels import connectivity
from moeopt.registry import Context

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def partition(
    instance: CollocationInstance, row: int, plain: connectivity.Net, rounds: int, fast: bool, context: Context
) -> tuple[Ints, int]:
    """(S,) units of experts and of empty slots, and the swaps done; `plain` is the net of the layer."""
    best: tuple[float, float] | None = None
    kept, done = None, 0
    begun = starts(instance, row, context.seed, context.deadline)
    for number in count():
        if best is not None and context.deadline.passed():
            break  # before the next start, which may cost more than the search from it
        start = next(begun, None)
        if start is None:
            break
        unit, rng = start.copy(), generator(row, number, context.seed)
        if instance.objective == "tokens":
            timed = nets.layer_net(instance, row, rate_of(instance, plain, unit))
            done += improve(timed, unit, True, rounds, rng, fast, context)
        else:
            done += improve(plain, unit, False, rounds, rng, fast, context)
        if instance.objective == "time" and not context.deadline.passed():
            fewest = unit.copy()
            timed = nets.layer_net(instance, row, rate_of(instance, plain, unit))
            done += improve(timed, unit, True, rounds // 3, rng, fast, context)
            if _value(instance, plain, fewest) < _value(instance, plain, unit):
                unit = fewest
        value = _value(instance, plain, unit)
        if best is None or value < best:
            best, kept = value, unit
    assert kept is not None
    return kept, done


def tempo(instance: CollocationInstance, plain: connectivity.Net, unit: Ints) -> Floats:
    """(U,) `rate_of` where times count, 0 where copies do."""
    return rate_of(instance, plain, unit) if instance.objective in ("time", "tokens") else np.zeros(len(plain.price))


def generator(row: int, number: int, seed: int) -> Ints:
    """The kernel's generator, another for every layer, start and seed."""
    mixed = np.random.SeedSequence([seed, row, number]).generate_state(1)[0]
    return np.array([1 + int(mixed) % 2147483646], dtype=np.int64)


def improve(
    net: connectivity.Net, unit: Ints, timed: bool, rounds: int, rng: Ints, fast: bool, context: Context
) -> int:
    """Search in slices, so that a deadline is kept."""
    call = connectivity.improve if fast else connectivity.improve.plain()
    return paced(lambda now: call(net, unit, timed, now, len(unit), 0.0, rng), rounds, net, fast, context.deadline)


def rate_of(instance: CollocationInstance, net: connectivity.Net, unit: Ints) -> Floats:
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
