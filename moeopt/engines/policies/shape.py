"""The shape an engine asks for, and maps that need no loads: legal ones, the start-up map, replicas of each expert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
CELLS = 2**26
"""Size up to which tables of layers, experts and GPUs are written out."""


def number(count: int, what: str) -> str:
    """A count in words.

    >>> number(1, "layer"), number(1200, "layer")
    ('1 layer', '1,200 layers')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class Refused(ValueError):
    """Why a call cannot be planned; the engine gets a map nevertheless."""


@dataclass(frozen=True)
class Shape:
    """Layers, experts, slots, GPUs and nodes; ``groups`` is ``None`` where they bind nothing, and ``note`` says why."""

    num_layers: int
    num_experts: int
    num_slots: int
    num_gpus: int
    num_nodes: int = 1
    groups: int | None = None
    note: str = ""

    @property
    def per_gpu(self) -> int:
        """Slots of a GPU."""
        return self.num_slots // self.num_gpus

    @property
    def gpu_of_slot(self) -> Ints:
        """(S,) GPU of each slot."""
        return np.repeat(np.arange(self.num_gpus), self.per_gpu)

    def flat(self) -> Shape:
        """Without groups."""
        return replace(self, num_nodes=1, groups=None)

    def rules(self) -> dict[str, Any]:
        """As arguments of a `PlacementInstance`."""
        shape = {"gpus": self.num_gpus, "slots": self.num_slots, "nodes": self.num_nodes}
        return shape | ({} if self.groups is None else {"groups": self.groups})


def shape_of(num_layers: int, num_experts: int, slots: Any, groups: Any, nodes: Any, gpus: Any) -> Shape:
    """The shape of a call; groups are kept on nodes under the condition of the public rule, groups mod nodes = 0.

    Where that or another division fails, and with no groups (0 or ``None``), the plan is flat; where that was not
    asked for, ``note`` says so.

    Raises
    ------
    Refused
        No map without doubles has this shape.

    >>> shape_of(58, 256, 288, 8, 4, 32).groups, shape_of(58, 256, 288, 0, 4, 32).groups
    (8, None)
    >>> shape_of(1, 8, 18, 8, 3, 9).note
    'flat: 8 groups do not divide over 3 nodes'
    """
    num_slots, num_gpus = int(slots), int(gpus)
    num_groups, num_nodes = int(groups or 0), max(int(nodes or 1), 1)
    if num_layers < 1 or num_experts < 1:
        raise Refused(f"loads have {number(num_layers, 'layer')} and {number(num_experts, 'expert')}")
    if num_gpus < 1 or num_slots % num_gpus:
        raise Refused(f"{num_slots} slots do not divide over {num_gpus} GPUs")
    if num_slots < num_experts:
        raise Refused(f"{num_slots} slots cannot hold {num_experts} experts")
    each = num_slots // num_gpus
    if each > num_experts:
        raise Refused(f"a GPU of {each} slots cannot be filled with {num_experts} experts, one replica of each")
    flat = Shape(num_layers, num_experts, num_slots, num_gpus)
    if num_nodes == 1 or num_groups <= 1:
        return flat
    note = ""
    if num_gpus % num_nodes:
        note = f"{num_gpus} GPUs do not divide over {num_nodes} nodes"
    elif num_groups % num_nodes:
        note = f"{num_groups} groups do not divide over {num_nodes} nodes"
    elif num_experts % num_groups:
        note = f"{num_experts} experts do not divide into {num_groups} groups"
    elif each > num_experts // num_nodes:
        note = f"a GPU of {each} slots holds more than the {num_experts // num_nodes} experts of its node"
    if note:
        return Shape(num_layers, num_experts, num_slots, num_gpus, note=f"flat: {note}")
    return Shape(num_layers, num_experts, num_slots, num_gpus, num_nodes, num_groups)


def start_up(shape: Shape) -> Ints:
    """(L, S) experts in order, again and again, node by node where groups are kept: legal whatever the loads.

    >>> start_up(Shape(1, 4, 6, 2)).tolist()
    [[0, 1, 2, 3, 0, 1]]
    """
    nodes = 1 if shape.groups is None else shape.num_nodes
    here = np.arange(shape.num_slots // nodes) % (shape.num_experts // nodes)
    row = (np.arange(nodes)[:, None] * (shape.num_experts // nodes) + here).reshape(-1)
    return np.tile(row.astype(np.int64), (shape.num_layers, 1))


def legal_rows(shape: Shape, held: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(L,) layers of a map (L, S) that break no rule: known experts, each one there, no doubles, groups on one node."""
    known = np.asarray(((held >= 0) & (held < shape.num_experts)).all(axis=1))
    safe = np.where(known[:, None], held, 0).astype(np.int64)
    pairs = np.sort(shape.gpu_of_slot * shape.num_experts + safe, axis=1)
    good = np.asarray(known & (pairs[:, 1:] != pairs[:, :-1]).all(axis=1))
    good &= (replicas(safe, shape.num_experts) > 0).all(axis=1)
    if shape.groups is not None:
        node = shape.gpu_of_slot // (shape.num_gpus // shape.num_nodes)
        group = safe // (shape.num_experts // shape.groups)
        seen = np.zeros((len(safe), shape.groups, shape.num_nodes), dtype=bool)
        seen[np.arange(len(safe))[:, None], group, node[None, :]] = True
        good &= (seen.sum(axis=2) <= 1).all(axis=1)
    return good


def replicas(held: NDArray[np.integer], num_experts: int) -> Ints:
    """(L, E) replicas of each expert in a full map (L, S).

    >>> replicas(np.array([[0, 1, 1]]), 2).tolist()
    [[1, 2]]
    """
    keys = held + np.arange(len(held))[:, None] * num_experts
    return np.bincount(keys.ravel(), minlength=len(held) * num_experts).reshape(len(held), num_experts)


def slots_of_experts(held: NDArray[np.integer], num_experts: int, width: int | None = None) -> Ints:
    """(L, E, X) slots of each expert in ascending order, padded with -1; X is the most replicas, or `width`.

    >>> slots_of_experts(np.array([[0, 1, 1]]), 2).tolist()
    [[[0, -1], [1, 2]]]
    """
    counts = replicas(held, num_experts)
    order = np.argsort(held, axis=1, kind="stable")
    experts = np.take_along_axis(held, order, axis=1)
    first = np.cumsum(counts, axis=1) - counts
    rank = np.arange(held.shape[1]) - np.take_along_axis(first, experts, axis=1)
    out = np.full((len(held), num_experts, max(int(counts.max(initial=0)), width or 0)), -1, dtype=np.int64)
    out[np.arange(len(held))[:, None], experts, rank] = order
    return out


def new_pairs(shape: Shape, old: NDArray[np.integer], held: NDArray[np.integer]) -> Ints:
    """(L,) moves: (expert, GPU) pairs of `held` that `old`, of the same shape and maybe with -1, lacks."""
    rows, gpu = np.arange(len(held))[:, None], shape.gpu_of_slot[None, :]
    if len(held) * (shape.num_experts + 1) * shape.num_gpus > CELLS:
        keys = (np.where(table >= 0, table * shape.num_gpus + gpu, -1) for table in (old.astype(np.int64), held))
        both = zip(*keys, strict=True)
        return np.array([len(np.setdiff1d(new, had)) for had, new in both], dtype=np.int64)
    had = np.zeros((len(held), shape.num_experts + 1, shape.num_gpus), dtype=bool)
    known = (old >= 0) & (old < shape.num_experts)
    had[rows, np.where(known, old, shape.num_experts), gpu] = True
    new = np.zeros_like(had)
    new[rows, held, gpu] = True
    return np.asarray((new & ~had)[:, : shape.num_experts].sum(axis=(1, 2)), dtype=np.int64)
