"""Public graph and hypergraph partitioners on a layer's tokens, brought to equal parts where they are not.

They are no dependency of the package: ``pip install pymetis kahip mtkahypar``. METIS and KaHIP cut the graph of pairs
of experts that tokens select together, Mt-KaHyPar sums the parts of every token less one. Experts are shuffled before
every call, as some of them break ties by the order of vertices.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Call = Callable[["Task", int], Ints]


@dataclass(frozen=True, eq=False)
class Task:
    """``sets`` (M, k) of experts and ``weight`` (M,) tokens; `experts` into `nodes` equal parts."""

    sets: Ints
    weight: Ints
    experts: int
    nodes: int

    @classmethod
    def of(cls, ids: Ints, experts: int, nodes: int) -> Task:
        """Equal sets of experts put together."""
        sets, weight = np.unique(np.sort(ids, axis=1), axis=0, return_counts=True)
        return cls(sets, weight, experts, nodes)

    def shuffled(self, order: Ints) -> Task:
        """The same with expert e called ``order[e]``."""
        return Task(order[self.sets], self.weight, self.experts, self.nodes)

    def graph(self) -> tuple[Ints, Ints, Ints]:
        """Pairs of experts in compressed rows: where rows begin, neighbours, tokens."""
        table = np.zeros((self.experts, self.experts), dtype=np.int64)
        for i in range(self.sets.shape[1]):
            for j in range(self.sets.shape[1]):
                if i != j:
                    np.add.at(table, (self.sets[:, i], self.sets[:, j]), self.weight)
        one, other = np.nonzero(table)
        start = np.concatenate([[0], np.cumsum(np.bincount(one, minlength=self.experts))])
        return start, other, table[one, other]


def touched(sets: Ints, part: Ints) -> Ints:
    """(M,) parts of each set."""
    ordered = np.sort(part[sets], axis=1)
    found: Ints = 1 + (np.diff(ordered, axis=1) > 0).sum(axis=1)
    return found


def mean_touched(ids: Ints, part: Ints) -> float:
    """Lambda: nodes that a token touches, on average."""
    return float(touched(ids, part).mean())


def metis(task: Task, seed: int) -> Ints:
    """Its direct method and its recursive one in turn, the tightest balance it has."""
    import pymetis

    start, other, weight = task.graph()
    options = pymetis.Options(seed=seed, ufactor=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _, part = pymetis.part_graph(
            task.nodes, xadj=start.tolist(), adjncy=other.tolist(), eweights=weight.tolist(),
            recursive=bool(seed % 2), options=options,
        )  # fmt: skip
    return np.array(part, dtype=np.int64)


def kahip(task: Task, seed: int) -> Ints:
    """Its strong and its eco configuration in turn, imbalance 0."""
    import kahip as library

    start, other, weight = task.graph()
    ones, mode = [1] * task.experts, 2 - seed % 2
    lists = (start.tolist(), weight.tolist(), other.tolist())
    _, part = library.kaffpa(ones, *lists, task.nodes, 0.0, True, seed, mode)
    return np.array(part, dtype=np.int64)


def mtkahypar(task: Task, seed: int) -> Ints:
    """Its highest quality, one thread, imbalance 0."""
    import mtkahypar as library

    made = _mtkahypar()
    context = made.context_from_preset(library.PresetType.HIGHEST_QUALITY)
    context.set_partitioning_parameters(task.nodes, 0.0, library.Objective.KM1)
    context.logging = False
    library.set_seed(seed)
    ones, edges = [1] * task.experts, task.sets.tolist()
    net = made.create_hypergraph(context, task.experts, len(edges), edges, ones, task.weight.tolist())
    return np.array(net.partition(context).get_partition(), dtype=np.int64)


@cache
def _mtkahypar() -> Any:
    import mtkahypar as library

    return library.initialize(1, False)


PEERS: dict[str, tuple[str, Call]] = {
    "METIS": ("pymetis", metis),
    "KaHIP": ("kahip", kahip),
    "Mt-KaHyPar": ("mtkahypar", mtkahypar),
}


@dataclass(frozen=True)
class Found:
    """The best of some runs: its parts, lambda, runs, seconds in all, and how many runs had to be evened out."""

    part: Ints
    value: float
    runs: int
    seconds: float
    repaired: int


def absent(name: str) -> str | None:
    """Why a partitioner cannot be asked."""
    package = PEERS[name][0]
    try:
        importlib.import_module(package)
    except ImportError as error:
        return f"{package} is not installed: {error}"
    return None


def best_of(name: str, task: Task, seconds: float, least: int) -> Found:
    """As many runs as fit into a time, `least` or more, each with another seed."""
    call, rest = PEERS[name][1], iter(range(1_000_000))
    kept: tuple[float, Ints] | None = None
    spent, runs, repaired = 0.0, 0, 0
    while runs < least or spent < seconds:
        seed = next(rest)
        order = np.random.default_rng([seed, task.experts]).permutation(task.experts)
        begin = time.perf_counter()
        raw = call(task.shuffled(order), seed)[order]
        part = evened(task, raw)
        value = float(task.weight @ touched(task.sets, part)) / float(task.weight.sum())
        spent += time.perf_counter() - begin
        runs, repaired = runs + 1, repaired + bool((part != raw).any())
        if kept is None or value < kept[0]:
            kept = value, part
    assert kept is not None
    return Found(kept[1], kept[0], runs, spent, repaired)


def evened(task: Task, part: Ints) -> Ints:
    """Equal parts: as long as one is too large, the move to a part with room that costs fewest copies."""
    size, part = task.experts // task.nodes, part.copy()
    while True:
        filled = np.bincount(part, minlength=task.nodes)
        if (filled <= size).all():
            return part
        moves = ((e, to) for e in np.flatnonzero(filled[part] > size) for to in np.flatnonzero(filled < size))
        expert, to = min(moves, key=lambda move: (_after(task, part, *move), *move))
        part[expert] = to


def _after(task: Task, part: Ints, expert: int, to: int) -> int:
    mine = (task.sets == expert).any(axis=1)
    moved = part.copy()
    moved[expert] = to
    change = touched(task.sets[mine], moved) - touched(task.sets[mine], part)
    return int(task.weight[mine] @ change)
