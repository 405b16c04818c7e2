"""Rank-cost matrices: what a token costs from each GPU to each other, made out of a cluster or read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

NAMED = 5
"""Wrong costs that are named one by one; beyond it they are counted."""


@kinds.expects(cluster="moeopt.cluster.graph:Cluster", message_bytes=kinds.number)
def rank_cost(cluster: Cluster, *, message_bytes: float | None = None) -> NDArray[np.float64]:
    """(G, G) cost from the GPU of the row to that of the column, 0 on the diagonal.

    Parameters
    ----------
    message_bytes
        Size of a message: costs are seconds, latency and transfer. Without it they are relative: 1 between the GPUs
        with the widest link, in proportion to 1 / bandwidth elsewhere.

    Raises
    ------
    InstanceError
        Two GPUs have no path, with the parts that the cluster falls into; or `message_bytes` is not above 0.

    Notes
    -----
    Strength: model (one message at a time, least-cost paths). Costs are not made symmetric.

    >>> from moeopt.cluster.graph import Cluster
    >>> Cluster.from_links(3, [(0, 1, 400e9), (1, 2, 50e9)]).rank_cost()
    array([[0., 1., 8.],
           [1., 0., 8.],
           [8., 8., 0.]])
    """
    from moeopt.cluster.paths import bandwidths, latencies, no_path

    check = Violations()
    if message_bytes is not None and not (math.isfinite(message_bytes) and message_bytes > 0):
        check.add("message_bytes", message_bytes, rule="must be above 0", fix="Give the bytes of a message")
        check.raise_if_any()
    speed = bandwidths(cluster)
    for row, column in np.argwhere(speed == 0)[:1]:
        raise InstanceError([no_path(cluster, cluster.gpus[row], cluster.gpus[column])])
    if message_bytes is not None:
        seconds: NDArray[np.float64] = latencies(cluster) + message_bytes / speed
        return seconds
    widest = speed[np.isfinite(speed)].max(initial=0.0)
    relative: NDArray[np.float64] = widest / speed
    return relative


def check_costs(rows: Any, source: str = "", *, ranks: int | None = None) -> NDArray[np.float64]:
    """A rank-cost matrix as an array, checked; an asymmetric one is kept as it is.

    Parameters
    ----------
    rows
        R rows of R numbers, in the order of ranks; the row is the source.
    ranks
        How many ranks it must have, if that is known.

    Raises
    ------
    InstanceError
        Not square (with both numbers), ragged, of another size than `ranks`, or a cost that is negative, NaN, infinite
        or no number, each with its place.

    >>> check_costs([[0, 1], [10, 0], [2, 2]])
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: cost = 3 rows of 2 numbers: a rank-cost matrix is square, with ranks in order in rows and columns. A pasted table often loses a column: copy it again.
    """  # noqa: E501
    check = Violations(source)
    table = rows if isinstance(rows, np.ndarray) else list(rows) if isinstance(rows, Sequence) else None
    square = "a rank-cost matrix is square, with ranks in order in rows and columns"
    again = "A pasted table often loses a column: copy it again"
    if table is None or len(table) == 0 or not _is_row(table[0]):
        check.add("cost", _shape(rows), rule=square, fix="Give R rows of R numbers")
        check.raise_if_any()
    assert table is not None
    widths = [len(row) if _is_row(row) else -1 for row in table]
    if len(set(widths)) > 1:
        odd = next(place for place, width in enumerate(widths) if width != widths[0])
        said = "no row of numbers" if widths[odd] < 0 else f"{widths[odd]} numbers"
        check.add("cost", said, rule=f"row 0 has {widths[0]}; {square}", fix=again, where=f"row {odd}")
        check.raise_if_any()
    if widths[0] != len(table):
        check.add("cost", f"{len(table)} rows of {widths[0]} numbers", rule=square, fix=again)
    elif ranks is not None and len(table) != ranks:
        check.add("cost", f"{len(table)} ranks", rule=f"there are {ranks} ranks", fix="Give the matrix of all ranks")
    check.raise_if_any()
    found = _numbers(table)
    bad = np.argwhere(~np.isfinite(found) | (found < 0))
    for row, column in bad[:NAMED].tolist():
        cell = table[row][column]
        value = cell.item() if isinstance(cell, np.generic) else cell
        where = f"rank {row} to rank {column}"
        check.add("cost", value, rule="costs are finite numbers >= 0", fix="Measure that pair again", where=where)
    if len(bad) > NAMED:
        check.add("cost", f"{len(bad):,} pairs", rule="have this fault in all", fix="See above")
    check.raise_if_any()
    return found


def _numbers(table: Any) -> NDArray[np.float64]:
    """(R, R) the cells; NaN for what is no number."""
    if isinstance(table, np.ndarray) and table.dtype.kind in "iuf":
        return table.astype(np.float64)
    return np.array([[_number(cell) for cell in row] for row in table], dtype=np.float64)


def _number(cell: Any) -> float:
    if type(cell) is float:  # nearly all, of which there may be millions
        return cell
    value = cell.item() if isinstance(cell, np.generic) else cell
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def nodes_of_costs(cost: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Node of each rank, where a rank-cost matrix says it clearly.

    Costs are cut where they rise by the largest factor; ranks joined by costs below it share a node.

    Returns
    -------
    (R,) nodes numbered from 0 in the order of ranks; None where that makes one node, or nodes of one rank only, or
    where two ranks of a node cost as much as two of different nodes.

    Notes
    -----
    Strength: heuristic; the matrix has costs and no links.

    >>> near = np.array([[0, 1.1, 9, 9.2], [1, 0, 9, 9], [9, 9, 0, 1], [9.1, 9, 1, 0]])
    >>> nodes_of_costs(near).tolist(), nodes_of_costs(np.ones((4, 4)))
    ([0, 0, 1, 1], None)
    """
    apart = ~np.eye(len(cost), dtype=bool)
    values = np.unique(cost[apart])
    if len(values) < 2:
        return None
    with np.errstate(divide="ignore"):
        limit = values[int(np.argmax(values[1:] / values[:-1]))]
    node = joined(np.maximum(cost, cost.T) <= limit)
    together, count = node[:, None] == node, int(node.max()) + 1
    if count < 2 or count == len(cost) or cost[together & apart].max() > limit:
        return None
    return node


def joined(near: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(R,) the part of each rank, numbered in the order of ranks, where `near` (R, R), symmetric, joins two ranks.

    >>> joined(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=bool)).tolist()
    [0, 1, 0]
    """
    part = np.full(len(near), -1, dtype=np.int64)
    for rank in range(len(near)):
        if part[rank] >= 0:
            continue
        number, now = part.max() + 1, np.array([rank])
        while len(now):
            part[now] = number
            now = np.flatnonzero(near[now].any(axis=0) & (part < 0))
    return part


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _shape(rows: Any) -> str:
    if isinstance(rows, np.ndarray):
        return f"an array of shape {rows.shape}"
    return f"{len(rows)} entries that are no rows" if isinstance(rows, list) else type(rows).__name__
