"""Sharper bounds for groups on nodes: sets of groups that decide the best deal get the better bounds of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from moeopt.placement import deals
from moeopt.placement.instance import PlacementInstance

MOST_TRIED = 40
"""Sets of groups that are looked at more closely, in one layer."""

Tool = Callable[[PlacementInstance, Fraction, int], tuple[Fraction, Mapping[str, Any]] | None]
"""A sharper bound and its certificate for one row (a set of groups) of an instance of one node, from its bound now."""


def tightened(
    instance: PlacementInstance, values: list[Fraction], row: int, enough: float, tool: Tool
) -> tuple[Fraction, list[list[Any]]]:
    """Raise the best deal's worst node until it is `enough`, or no node of the best deal can be raised any more.

    Returns
    -------
    (Fraction, list)
        The bound, and for each set of groups (its place in `deals.subsets`) that was raised the certificate.
    """
    node = deals.on_one_node(instance, [row])
    everything = deals.all_deals(len(set(instance.groups or ())), len(instance.node_ids))
    place = {subset: number for number, subset in enumerate(deals.subsets(instance))}
    values = list(values)
    proofs: dict[int, Mapping[str, Any]] = {}
    tried: set[int] = set()
    order, deciding = deals.least_worst(instance, values)
    while float(values[deciding]) < enough and len(tried) < MOST_TRIED:
        fresh = [place[subset] for subset in everything[order[0]] if place[subset] not in tried]
        if not fresh:
            break
        at = min(fresh, key=lambda at: (-values[at], at))
        tried.add(at)
        found = tool(node, values[at], at)
        if found is not None and found[0] > values[at]:
            values[at], proofs[at] = found
            order, deciding = deals.least_worst(instance, values)
    return values[deciding], [[at, dict(proof)] for at, proof in sorted(proofs.items())]


def proved(
    instance: PlacementInstance,
    values: list[Fraction],
    row: int,
    proofs: Any,
    check: Callable[[PlacementInstance, int, Mapping[str, Any]], Fraction | None],
) -> Fraction | None:
    """The bound with the certificates of some sets of groups, which may come from a file; ``None`` for a bad one."""
    if not isinstance(proofs, Sequence) or isinstance(proofs, str):
        return None
    values = list(values)
    node = deals.on_one_node(instance, [row])
    for pair in proofs:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            return None
        at, proof = pair
        if type(at) is not int or not 0 <= at < len(values) or not isinstance(proof, Mapping):
            return None
        value = check(node, at, proof)
        if value is None:
            return None
        values[at] = max(values[at], value)
    return values[deals.least_worst(instance, values)[1]]
