"""Groups on nodes: deals of groups to nodes in the order of their bound, and a start for each node of a deal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.lpt import pack
from moeopt.placement import bounds as lower
from moeopt.placement import deals
from moeopt.placement.heuristics.deep import Part
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.heuristics.parts import deal_of
from moeopt.placement.heuristics.ruled import packed
from moeopt.placement.heuristics.starts import ruled
from moeopt.placement.instance import PlacementInstance

MOST_TRIED_DEALS = 8
MOST_LOOKED_AT = 2000
"""Deals looked at for ones that pins and prohibitions allow."""


@dataclass(frozen=True)
class Dealt:
    """One deal: a bound on its worst node, and per node its experts and GPUs."""

    bound: float
    shares: list[tuple[NDArray[np.int64], list[int]]]


def promising(
    instance: PlacementInstance, ranked: lower.RankedDeals | None, held: NDArray[np.int64]
) -> Iterator[Dealt]:
    """The deals worth a search, best bound first; where they cannot be listed, the incumbent's own."""
    if ranked is None:
        yield Dealt(0.0, deal_of(instance, held))
        return
    members = deals.group_members(instance)
    homes = [deals.gpus_of_node(instance, node) for node in instance.node_ids]
    value = dict(zip(deals.subsets(instance), ranked.subset_values, strict=True))
    everything = deals.all_deals(len(members), len(homes))
    bound_to = _pinned_groups(instance) if instance.constrained else {}
    tried = 0
    for place in ranked.order[:MOST_LOOKED_AT]:
        deal: deals.Deal | None = everything[place]
        if bound_to or instance.forbid:
            deal = _allowed(instance, everything[place], members, bound_to)
        if deal is None:
            continue
        shares = [(members[list(groups)].ravel(), gpus) for groups, gpus in zip(deal, homes, strict=True)]
        yield Dealt(float(max(value[groups] for groups in deal)), shares)
        tried += 1
        if tried == MOST_TRIED_DEALS:
            return


def _pinned_groups(instance: PlacementInstance) -> dict[int, int]:
    """Node (by place) of every group that a pin ties to one."""
    ids = sorted(set(instance.groups or ()))
    assert instance.groups is not None
    return {
        ids.index(instance.groups[expert]): instance.node_ids.index(instance.node[gpu]) for expert, gpu in instance.pin
    }


def _allowed(
    instance: PlacementInstance, deal: deals.Deal, members: NDArray[np.int64], bound_to: dict[int, int]
) -> deals.Deal | None:
    """The deal with its shares given to nodes that pins and prohibitions leave open to them, or ``None``."""
    from scipy.optimize import linear_sum_assignment

    cost = np.zeros((len(deal), len(deal)))
    for share, groups in enumerate(deal):
        tied = {bound_to[group] for group in groups if group in bound_to}
        for node in range(len(deal)):
            gpus = set(deals.gpus_of_node(instance, instance.node_ids[node]))
            experts = set(members[list(groups)].ravel().tolist())
            barred = sum(gpu in gpus and (expert is None or expert in experts) for expert, gpu in instance.forbid)
            cost[share, node] = barred if tied <= {node} else np.inf
    try:
        shares, nodes = linear_sum_assignment(np.where(np.isinf(cost), 1e9, cost))
    except ValueError:
        return None
    if np.isinf(cost[shares, nodes]).any():
        return None
    placed = dict(zip(nodes.tolist(), shares.tolist(), strict=True))
    return tuple(deal[placed[node]] for node in range(len(deal)))


def start_of(instance: PlacementInstance, part: Part) -> tuple[NDArray[np.int64], float] | None:
    """A start for one node and a bound on its busiest GPU; ``None`` where the rules leave no start."""
    fields: dict[str, Any] = {"slots": list(part.slots), "speed": part.speed, "distinct": part.distinct}
    alone = PlacementInstance(np.asarray(part.loads[None, :]), fill=instance.fill, **fields)
    own = float(lower.cheap(alone)[0].value) if not part.floor else 0.0
    if ruled(instance):
        held = packed(part)
        return None if held is None else (held, own)
    loads = part.loads[None, :]
    slots = list(part.slots)
    usable = sum(count > 0 for count in slots)
    counts = greedy_counts(loads, sum(slots), usable if part.distinct else None)
    start = pack(loads / counts, counts, slots, part.speed, distinct=part.distinct)
    return replace_doubles(alone, start)[0][0].astype(np.int64), own
