"""Plans brought under the load cap: experts of the busiest GPU swapped for lighter ones, near ones first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import verify
from moeopt.collocation.heuristics import simple
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.limits import Deadline
from moeopt.registry import Context, Outcome

Ints = NDArray[np.int64]
Run = Callable[[CollocationInstance, Context], Outcome[Collocation]]

MOST_SWAPS = 300
MOMENT_S = 0.01
"""Seconds of swaps that are done however late it is."""


def held_to_cap(run: Run) -> Run:
    """The method, with its plan brought under the cap where it is above; no plan where that fails, with a note."""

    def capped(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
        outcome = run(instance, context)
        if instance.max_imbalance is None or outcome.plan is None or not verify.faults(instance, outcome.plan):
            return outcome
        held = outcome.plan.slot_expert.astype(np.int64)
        reached = 1.0
        for row in range(instance.num_layers):
            left = context.deadline.rest().share(instance.num_layers - row)
            held[row], ratio = lowered(instance, row, held[row], left)
            reached = max(reached, ratio)
        if reached > instance.max_imbalance * (1 + 1e-12):
            note = f"no plan within max_imbalance = {instance.max_imbalance:g} was found, the nearest has {reached:.4f}"
            return replace(outcome, plan=None, notes=[*outcome.notes, note])
        note = "experts were swapped, or placed by load alone, until the load cap was kept"
        return replace(outcome, plan=Collocation.of(held), bounds=None, notes=[*outcome.notes, note])

    capped.__doc__ = run.__doc__
    return capped


def lowered(instance: CollocationInstance, row: int, held: Ints, deadline: Deadline) -> tuple[Ints, float]:
    """Swaps that bring the busiest GPU down, as long as there are any and time is; and the imbalance reached.

    Where they do not keep the cap, experts placed by load alone are swapped instead: some plan is better than none,
    and for it a moment is taken where no time is left.
    """
    assert instance.max_imbalance is not None
    found, ratio = _swapped(instance, row, held, deadline)
    if ratio > instance.max_imbalance * (1 + 1e-12):
        other, low = _swapped(instance, row, simple.by_load(instance, row), deadline)
        if low < ratio:
            return other, low
    return found, ratio


def _swapped(instance: CollocationInstance, row: int, held: Ints, deadline: Deadline) -> tuple[Ints, float]:
    """Swaps from a plan, and the imbalance reached."""
    assert instance.max_imbalance is not None
    loads, gpu = loads_of(instance, row).astype(np.float64), instance.gpu_of_slot
    found = held.copy()
    tokens, begun = _tokens(instance, row, found), Deadline(None)
    for _ in range(MOST_SWAPS):
        cap = instance.max_imbalance * float(tokens.sum()) / len(tokens)
        if tokens.max() <= cap or (deadline.passed() and begun.elapsed_s() > MOMENT_S):
            break
        swap = _best(instance, found, loads, tokens, gpu)
        if swap is None:
            break
        one, other = swap
        trial = found.copy()
        trial[one], trial[other] = found[other], found[one]
        after = _tokens(instance, row, trial)
        if after.max() >= tokens.max() and (after == after.max()).sum() >= (tokens == tokens.max()).sum():
            break
        found, tokens = trial, after
    total = float(tokens.sum())
    return found, float(tokens.max()) * len(tokens) / total if total else 1.0


def _tokens(instance: CollocationInstance, row: int, held: Ints) -> NDArray[np.float64]:
    found: NDArray[np.float64] = verify.count(instance, row, held).pairs.sum(axis=0).astype(np.float64)
    return found


def _best(
    instance: CollocationInstance, held: Ints, loads: NDArray[np.float64], tokens: NDArray[np.float64], gpu: Ints
) -> tuple[int, int] | None:
    """The swap of a slot of the busiest GPU that leaves the lower of the two maxima, within its unit if that does."""
    hot = int(tokens.argmax())
    counts = np.bincount(held[held >= 0], minlength=len(loads))
    each = np.append(loads / np.maximum(counts, 1), 0.0)[held] * (tokens.sum() / max(loads.sum(), 1.0))
    has = np.zeros((instance.num_gpus, len(loads) + 1), dtype=bool)
    has[gpu, held] = True
    has[:, -1] = False  # empty slots may be many
    ours, others = np.flatnonzero(gpu == hot), np.flatnonzero(gpu != hot)
    shift, there = each[ours][:, None] - each[others], gpu[others]
    allowed = (shift > 0) & ~has[hot, held[others]] & ~has[there[None], held[ours][:, None]]
    height = np.where(allowed, np.maximum(tokens[hot] - shift, tokens[there] + shift), np.inf)
    apart = np.broadcast_to(instance.unit[there] != instance.unit[hot], height.shape)
    low = height.min(initial=np.inf)
    lowest = (height == low) & (apart == apart[height == low].min(initial=True))
    if not low <= tokens.max() or (low == tokens.max() and apart[lowest].any()):
        return None
    one, other = np.argwhere(lowest)[0]
    return int(ours[one]), int(others[other])
