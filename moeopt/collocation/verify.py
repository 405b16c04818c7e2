"""The referee: counts what a plan sends, in whole numbers, from the instance alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation, as_collocation
from moeopt.collocation.rows import Rows, loads_of, rows_of
from moeopt.collocation.rules import dispatch_table
from moeopt.errors import PlanError

Ints = NDArray[np.int64]
BLOCK = 1 << 22
"""Cells (row, expert) that are looked at at once."""
KEPT = 3
"""Counts that are kept: a plan is judged when it is chosen, when it is reported, and for the advice."""


@dataclass(frozen=True, eq=False)
class Counts:
    """What one layer sends, from each source GPU (rows) to each GPU or node (columns).

    Parameters
    ----------
    touched_gpu, touched_node, pairs
        (G, G), (G, N) and (G, G): tokens with an expert on the GPU, in the node, and (token, expert) pairs on the GPU.
    sources
        What the counts are to be divided by: G where every source stands for all tokens, else 1.
    tokens
        Tokens in all.
    """

    touched_gpu: Ints
    touched_node: Ints
    pairs: Ints
    sources: int
    tokens: int


@dataclass(frozen=True, eq=False)
class LayerValue:
    """One layer under the referee.

    Parameters
    ----------
    counts
        The tables.
    touched
        Units that tokens touch, their own among them, summed over tokens: sum of lambda.
    copies
        Copies to units besides the token's own, summed over tokens.
    gpu_tokens
        (G,) (token, expert) pairs of each GPU, times `Counts.sources`.
    seconds
        Of the busiest link, dispatch and combine; ``None`` without a link graph.
    """

    counts: Counts
    touched: Fraction
    copies: Fraction
    gpu_tokens: Ints
    seconds: float | None

    @property
    def mean_lambda(self) -> float:
        """Units a token touches."""
        return float(self.touched / self.counts.tokens)

    @property
    def max_tokens(self) -> Fraction:
        """Pairs of the busiest GPU."""
        return Fraction(int(self.gpu_tokens.max()), self.counts.sources)

    @property
    def imbalance(self) -> float:
        """Busiest GPU over the mean, 1 for an idle layer."""
        total = int(self.gpu_tokens.sum())
        return float(Fraction(int(self.gpu_tokens.max()) * len(self.gpu_tokens), total)) if total else 1.0


@dataclass(frozen=True)
class Evaluation:
    """A plan under the referee: its layers and the objective."""

    layers: tuple[LayerValue, ...]
    values: tuple[Fraction, ...]
    """Objective of each layer."""
    objective: Fraction


@kinds.expects(instance="moeopt.collocation.instance:CollocationInstance", plan="moeopt.collocation.plan:Collocation")
def faults(instance: CollocationInstance, plan: Collocation, *, capped: bool = True) -> list[str]:
    """Every rule that a plan breaks.

    The load cap of `instance` counts only with `capped`.

    >>> from moeopt import collocation
    >>> instance = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
    >>> faults(instance, collocation.Collocation.of([[0, 2, 1, 1]]))
    ['layer 0: expert 3 is missing', 'layer 0: expert 1 stands twice on GPU 1']
    """
    table = plan.slot_expert
    if table.shape != (instance.num_layers, instance.num_slots):
        wanted = (instance.num_layers, instance.num_slots)
        return [f"slot_expert has shape {table.shape}, the instance has layers x slots = {wanted}"]
    found = []
    for layer, held in zip(instance.layers, table, strict=True):
        beyond = held[(held < -1) | (held >= instance.num_experts)]
        if len(beyond):
            found.append(f"layer {layer}: {int(beyond[0])} is no expert of 0 to {instance.num_experts - 1}")
            continue
        missing = np.setdiff1d(np.arange(instance.num_experts), held)
        found += [f"layer {layer}: expert {expert} is missing" for expert in missing]
        if instance.fill == "all" and (held < 0).any():
            found.append(f"layer {layer}: {int((held < 0).sum())} slots are empty, fill is all")
        on = instance.gpu_of_slot * (instance.num_experts + 1) + held
        keys, counts = np.unique(on[held >= 0], return_counts=True)
        for key in keys[counts > 1]:
            gpu, expert = divmod(int(key), instance.num_experts + 1)
            found.append(f"layer {layer}: expert {expert} stands twice on GPU {gpu}")
    if not found and capped and instance.max_imbalance is not None:
        for row, layer in enumerate(instance.layers):
            tokens = count(instance, row, table[row]).pairs.sum(axis=0)
            ratio = float(Fraction(int(tokens.max()) * len(tokens), max(int(tokens.sum()), 1)))
            if ratio > instance.max_imbalance * (1 + 1e-12):
                found.append(
                    f"layer {layer}: imbalance {ratio:.4f} is above max_imbalance = {instance.max_imbalance:g}"
                )
    return found


def count(instance: CollocationInstance, row: int, held: Any, *, scored: bool = False) -> Counts:
    """What one layer sends if `held` (S,) are the experts of its slots; the last few are kept with the instance."""
    held = np.asarray(held, dtype=np.int64)
    known = instance.__dict__.setdefault("_counts", {})
    key = (row, scored, held.tobytes())
    if key not in known:
        while len(known) >= KEPT:
            del known[next(iter(known))]
        known[key] = _count(instance, row, held, scored)
    found: Counts = known[key]
    return found


def _count(instance: CollocationInstance, row: int, held: Ints, scored: bool) -> Counts:
    table = dispatch_table(instance, held)
    gpu_of = instance.gpu_of_slot[table]
    rows = rows_of(instance, row, scored=scored)
    num_gpus, num_nodes = instance.num_gpus, int(instance.landing.max()) + 1
    to_gpu, to_node = np.zeros((num_gpus, num_gpus), np.int64), np.zeros((num_gpus, num_nodes), np.int64)
    pairs = np.zeros((num_gpus, num_gpus), np.int64)
    for found, place in ((to_gpu, np.arange(num_gpus)), (to_node, instance.landing)):
        at = place[gpu_of]
        found += _sent_by_all(rows, at, found.shape[1]) if instance.source is None else _sent(rows, at, found.shape[1])
    if instance.source is None:
        np.add.at(pairs, (np.arange(num_gpus)[:, None], gpu_of), rows.loads(instance.num_experts))
    else:
        line, at = np.nonzero(rows.sets >= 0)
        source = rows.source[line]
        np.add.at(pairs, (source, gpu_of[source, rows.sets[line, at]]), rows.weight[line])
    if instance.pairs is not None:  # loads are known apart from the pairs
        loads = loads_of(instance, row)
        pairs = np.stack([np.bincount(route, weights=loads, minlength=num_gpus) for route in gpu_of]).astype(np.int64)
    for table in (to_gpu, to_node, pairs):
        table.flags.writeable = False
    return Counts(to_gpu, to_node, pairs, num_gpus if instance.source is None else 1, rows.tokens)


def _sent(rows: Rows, at: Ints, most: int) -> Ints:
    """(G, P) tokens of each source GPU that touch each of the places at which it finds the experts, `at` (G, E)."""
    found = np.zeros((len(at), most), np.int64)
    step = max(1, BLOCK // rows.sets.shape[1])
    for first in range(0, len(rows.sets), step):
        sets, weight = rows.sets[first : first + step], rows.weight[first : first + step]
        source = rows.source[first : first + step]
        place = np.sort(np.where(sets >= 0, at[source[:, None], sets], -1), axis=1)
        once = place >= 0
        once[:, 1:] &= place[:, 1:] != place[:, :-1]
        line, _ = np.nonzero(once)
        np.add.at(found, (source[line], place[once]), weight[line])
    return found


def _sent_by_all(rows: Rows, at: Ints, most: int) -> Ints:
    """The same where every source has all the tokens.

    Place by place: sources that find the same experts there send the same, whatever they find elsewhere.
    """
    num_sources, num_experts = at.shape
    found = np.zeros((num_sources, most), np.int64)
    hosted = np.unique(at * num_experts + np.arange(num_experts))
    start = np.searchsorted(hosted, np.arange(most + 1) * num_experts)
    experts = [hosted[start[place] : start[place + 1]] % num_experts for place in range(most)]
    parts = [_alike(at[:, some] == place) for place, some in enumerate(experts)]
    step = max(1, BLOCK // num_experts)
    for first in range(0, len(rows.sets), step):
        sets, weight = rows.sets[first : first + step], rows.weight[first : first + step]
        has = np.zeros((num_experts + 1, len(sets)), dtype=bool)
        has[sets.T, np.arange(len(sets))] = True  # -1, no expert, is the last
        for place, some in enumerate(experts):
            for sources, there in parts[place]:
                found[sources, place] += weight[has[some[there]].any(axis=0)].sum()
    return found


def _alike(table: NDArray[np.bool_]) -> list[tuple[Ints, NDArray[np.bool_]]]:
    """The rows of a table that are equal and not all False, and what they are."""
    if table.shape[1] == 1:
        return [(np.flatnonzero(table[:, 0]), np.ones(1, dtype=bool))]
    packed = np.packbits(table, axis=1)
    keys = np.zeros((len(table), -(-max(1, packed.shape[1]) // 8) * 8), dtype=np.uint8)
    keys[:, : packed.shape[1]] = packed
    order = np.lexsort(keys.view(np.uint64).T)
    ends = np.flatnonzero((keys[order][1:] != keys[order][:-1]).any(axis=1)) + 1
    return [(part, table[part[0]]) for part in np.split(order, ends) if table[part[0]].any()]


def value(instance: CollocationInstance, counts: Counts) -> LayerValue:
    """Copies, tokens and seconds out of the tables."""
    merge = instance.transport.merge
    table = counts.touched_node if merge == "node" else counts.touched_gpu
    own = instance.landing if merge == "node" else np.arange(instance.num_gpus)
    if not instance.transport.merges:  # every pair is a copy, and those within a node do not count
        table = np.stack(
            [counts.pairs[:, instance.node == n].sum(axis=1) for n in range(int(instance.node.max()) + 1)], 1
        )
        own = instance.node
    total = int(table.sum())
    at_home = int(table[np.arange(len(own)), own].sum())
    seconds = None
    if instance.cluster is not None and instance.pairs is None:
        from moeopt.collocation.seconds import busiest

        seconds = busiest(instance, counts)
    tokens = counts.pairs.sum(axis=0)
    return LayerValue(
        counts, Fraction(total, counts.sources), Fraction(total - at_home, counts.sources), tokens, seconds
    )


def objective_of(instance: CollocationInstance, layer: LayerValue) -> Fraction:
    """What is minimised, of one layer."""
    if instance.pairs is not None:  # pairs apart: each touches one unit more than it must
        return layer.touched - layer.counts.tokens
    if instance.objective == "tokens":
        return layer.max_tokens
    if instance.objective == "time":
        assert layer.seconds is not None
        return Fraction(layer.seconds)
    return layer.copies


def evaluate(instance: CollocationInstance, plan: Any, *, scored: bool = False, capped: bool = True) -> Evaluation:
    """Judge a plan on the tokens it is made for, or on those held out.

    Raises
    ------
    PlanError
        With every fault.
    """
    plan = as_collocation(instance, plan)
    wrong = faults(instance, plan, capped=capped)
    if wrong:
        raise PlanError(wrong)
    layers = tuple(
        value(instance, count(instance, row, held, scored=scored)) for row, held in enumerate(plan.slot_expert)
    )
    values = tuple(objective_of(instance, layer) for layer in layers)
    return Evaluation(layers, values, sum(values, Fraction(0)))
