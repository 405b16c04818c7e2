"""Whether any plan keeps the rules on replicas, nodes, pins and slots: a maximum flow, with the number that is short.

Expert ``e`` sends ``f + 1`` units through arcs of capacity 1 to different nodes and the rest of what it needs freely;
from (expert, node) an arc of capacity 1 (``distinct``) goes to every GPU of the node, which takes its slots. Groups on
nodes are no flow and are left aside. See ``models/placement.md``, *Copies that survive*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.feasible import allowed_pairs
from moeopt.placement.instance import PlacementInstance

Ints = NDArray[np.int64]

MOST_PAIRS = 2_000_000
"""(expert, GPU) pairs up to which a flow is built: some seconds."""


def shortfall(instance: PlacementInstance) -> int | None:
    """Replicas that find no slot in any plan: 0 when the rules can be kept; ``None`` where it would take too long.

    A maximum flow in whole numbers, so the answer is a proof both ways.

    >>> shortfall(PlacementInstance([[1, 1, 1]], gpus=2, slots=4, min_replicas=2))
    2
    >>> shortfall(PlacementInstance([[1, 1]], gpus=4, slots=4, nodes=2, survive_nodes=1))
    0
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    if instance.num_experts * instance.num_gpus > MOST_PAIRS:
        return None
    network = _Network(instance)
    tail, head, low, high = (np.concatenate(parts) for parts in zip(*network.arcs, strict=True))
    # a circulation with least flows: what an arc must carry is asked of its ends by a source and a sink of their own
    give, take, nodes = network.nodes, network.nodes + 1, network.nodes + 2
    forced_in = np.bincount(head, weights=low, minlength=nodes).astype(np.int64)
    forced_out = np.bincount(tail, weights=low, minlength=nodes).astype(np.int64)
    some, all_nodes = high > low, np.arange(network.nodes)
    tails = np.concatenate([tail[some], np.full(network.nodes, give), all_nodes])
    heads = np.concatenate([head[some], all_nodes, np.full(network.nodes, take)])
    sizes = np.concatenate([(high - low)[some], forced_in[all_nodes], forced_out[all_nodes]])
    graph = csr_array((sizes.astype(np.int32), (tails, heads)), shape=(nodes, nodes))
    graph.eliminate_zeros()
    return int(low.sum()) - int(maximum_flow(graph, give, take).flow_value)


@dataclass
class _Network:
    """Arcs as (tail, head, least, most), node ids as they come."""

    instance: PlacementInstance
    arcs: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)
    nodes: int = 0

    def __post_init__(self) -> None:
        instance = self.instance
        experts, gpus, homes = instance.num_experts, instance.num_gpus, len(instance.node_ids)
        many = instance.num_slots + 1
        source, sink = self._new(1)[0], self._new(1)[0]
        expert, gpu = self._new(experts), self._new(gpus)
        slots = np.array(instance.slots, dtype=np.int64)
        self._add(gpu, sink, slots if instance.fill == "all" else 0 * slots, slots)
        self._add(np.array([sink]), source, 0, many)
        nodes = instance.survive_nodes + 1 if instance.survive_nodes else 0
        least = np.maximum(np.array(instance.min_replicas, dtype=np.int64), 1)
        at = expert
        home = np.zeros(gpus, dtype=np.int64)
        columns = 1
        if nodes:
            spread, seen = self._new(experts), self._new(experts * homes)
            self._add(np.full(experts, source), spread, nodes, nodes)
            every = np.repeat(np.arange(experts), homes)
            self._add(spread[every], seen, 0, 1)
            self._add(expert[every], seen, 0, many)
            least = np.maximum(least - nodes, 0)
            at, columns = seen, homes
            home = np.searchsorted(np.array(instance.node_ids), np.array(instance.node))
        self._add(np.full(experts, source), expert, least, many)
        low, high = pair_limits(instance)
        e, g = np.nonzero(high > 0)
        self._add(at[e * columns + home[g]], gpu[g], low[e, g], high[e, g])

    def _new(self, count: int) -> Ints:
        self.nodes += count
        return np.arange(self.nodes - count, self.nodes)

    def _add(self, tail: Any, head: Any, low: Any, high: Any) -> None:
        arrays = np.broadcast_arrays(*(np.asarray(part, dtype=np.int64) for part in (tail, head, low, high)))
        self.arcs.append((arrays[0], arrays[1], arrays[2], arrays[3]))


def pair_limits(instance: PlacementInstance) -> tuple[Ints, Ints]:
    """(E, G) least and most replicas of each pair, by pins, prohibitions, `distinct` and slots."""
    slots = np.array(instance.slots, dtype=np.int64)
    most = np.minimum(slots, 1) if instance.distinct else slots
    high = np.where(allowed_pairs(instance), most[None, :], 0)
    low = np.zeros_like(high)
    for expert, gpu in instance.pin:
        low[expert, gpu] = 1
    return np.minimum(low, high), high
