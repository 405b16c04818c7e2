"""The search under the load cap: from plans that keep it, or nearly, by swaps after which every GPU still does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import fill, nets, simple, spread
from moeopt.collocation.heuristics.partition import generator, improve, rate_of, tempo
from moeopt.collocation.heuristics.repair import lowered
from moeopt.collocation.heuristics.replicas import Spare
from moeopt.collocation.heuristics.starts import completed
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import loads_of
from moeopt.registry import Context

Ints = NDArray[np.int64]


def under_cap(
    instance: CollocationInstance, row: int, held: Ints, rounds: int, fast: bool, context: Context
) -> tuple[Ints, int]:
    """(S,) the best plan reached from `held` as it is repaired and from loads alone, and the swaps done.

    A swap is allowed where experts of both units can be dealt to their GPUs, heaviest first, within the cap, or no
    higher than before.
    """
    tried, done = [lowered(instance, row, held, context.deadline)[0], simple.by_load(instance, row)], 0
    for number, start in enumerate(tuple(tried)):
        if context.deadline.passed():
            break
        found, more = _improved(instance, row, start, rounds, fast, context, 200 + number)
        tried += found
        done += more
    return min(tried, key=lambda one: spread.judged(instance, row, one)), done


def _improved(
    instance: CollocationInstance, row: int, start: Ints, rounds: int, fast: bool, context: Context, number: int
) -> tuple[list[Ints], int]:
    """Plans from one start: swapped without its replicas, which are put anew; and changed with them."""
    units, loads = nets.search_units(instance), loads_of(instance, row)
    slot = np.argmax(start[None] == np.arange(instance.num_experts)[:, None], axis=1)
    net = nets.layer_net(instance, row, capped=True)
    unit = completed(instance, units[instance.gpu_of_slot[slot]])
    rng, timed, done = generator(row, number, context.seed), instance.objective in ("time", "tokens"), 0
    done += improve(net, unit, False, rounds // 4, rng, fast, context)
    if timed and not context.deadline.passed():
        net = nets.timed(net, rate_of(instance, net, unit))
        done += improve(net, unit, True, rounds // 8, rng, fast, context)
    rate = tempo(instance, net, unit)
    held = fill.into_slots(instance, unit[: instance.num_experts], loads, units)
    if instance.num_slots == instance.num_experts:
        return [held], done
    part = replace(context, seed=context.seed + number)
    found = [spread.filled(instance, row, held, rate, rounds // 8, fast, part, capped=True)]
    if spread.judged(instance, row, found[0])[0] == 0.0:
        return found, done
    spare = Spare(instance, row, rate, fast, context.deadline, capped=True)
    if spare.fits() and not context.deadline.passed():
        found.append(spare.changed(start, rounds * spread.TRIES // 2, rng))
    return found, done
