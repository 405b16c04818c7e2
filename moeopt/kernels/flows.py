"""Maximum flow and minimum cut for capacities of any kind, exactly: networkx in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from moeopt.errors import Violations

Node = Hashable
Edge = tuple[Any, Any, Any]
"""(from, to, capacity)."""


@dataclass(frozen=True, eq=False)
class Flow:
    """A maximum flow, and the cut that proves it.

    Parameters
    ----------
    value
        Exact.
    on
        What flows from one node to another, edges between the same two together.
    reached
        The source's side of a minimum cut.
    """

    value: Fraction
    on: Mapping[tuple[Any, Any], Fraction]
    reached: frozenset[Any]


def max_flow(edges: Iterable[Edge], source: Node, target: Node) -> Flow:
    """The most that can flow from `source` to `target`.

    Doubles are taken as the decimals they are written as, and all capacities become whole multiples of one unit: on
    doubles, algorithms that compare with 0 may never end. Edges between the same two nodes add up; one of capacity 0
    is an edge all the same; an infinite one has no limit.

    Raises
    ------
    InstanceError
        A capacity is negative or no number, source and target are the same or unknown, or the flow has no limit.

    >>> edges = [("s", "a", 0.1), ("s", "b", 0.2), ("a", "t", 0.2), ("b", "t", 0.2)]
    >>> flow = max_flow(edges, "s", "t")
    >>> flow.value, sorted(flow.reached)
    (Fraction(3, 10), ['s'])
    """
    import networkx

    check = Violations()
    capacities: dict[tuple[Any, Any], Fraction | float] = {}
    for tail, head, capacity in edges:
        if isinstance(capacity, bool) or not isinstance(capacity, Real) or math.isnan(capacity) or capacity < 0:
            rule = "must be a number >= 0"
            where = f"{tail} -> {head}"
            check.refuse("capacity", capacity, rule=rule, fix="Drop the edge, or give 0", where=where)
        elif math.isinf(capacity) or math.isinf(capacities.get((tail, head), 0)):
            capacities[tail, head] = math.inf
        else:
            capacities[tail, head] = capacities.get((tail, head), Fraction(0)) + _exact(capacity)
    known = {node for pair in capacities for node in pair}
    for field, node in (("source", source), ("target", target)):
        if node not in known and not check.found:
            check.add(field, node, rule="is on no edge", fix="Check the name")
    if source == target:
        check.add("target", target, rule="must differ from the source", fix="Name two nodes")
    check.raise_if_any()
    finite = [one for one in capacities.values() if isinstance(one, Fraction)]
    unit = math.lcm(*{one.denominator for one in finite})
    graph: Any = networkx.DiGraph()
    for (tail, head), one in capacities.items():
        if tail == head:
            continue  # a loop carries nothing
        graph.add_edge(tail, head, **({"capacity": int(one * unit)} if isinstance(one, Fraction) else {}))
    try:
        value, flows = networkx.maximum_flow(graph, source, target)
    except networkx.NetworkXUnbounded:
        check.add("capacity", math.inf, rule="lets the flow have no limit", fix="Limit an edge of every path")
        check.raise_if_any()
        raise
    on = {(tail, head): Fraction(amount, unit) for tail, row in flows.items() for head, amount in row.items()}
    return Flow(Fraction(value, unit), on, _reached(capacities, on, source))


def _exact(value: Any) -> Fraction:
    if isinstance(value, Rational):
        return Fraction(value)
    return Fraction(repr(float(value)))


def _reached(
    capacities: Mapping[tuple[Any, Any], Fraction | float], on: Mapping[tuple[Any, Any], Fraction], source: Node
) -> frozenset[Any]:
    """Nodes that more could still reach."""
    onward: dict[Any, list[Any]] = {}
    for (tail, head), one in capacities.items():
        used = on.get((tail, head), Fraction(0))
        if used < one and tail != head:
            onward.setdefault(tail, []).append(head)
        if used > 0:
            onward.setdefault(head, []).append(tail)
    found, waiting = {source}, [source]
    while waiting:
        for node in onward.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return frozenset(found)
