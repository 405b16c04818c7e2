"""Rank-cost matrices: what a token costs from each GPU to each other, made out of a cluster or read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster


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
    found = np.zeros((len(table), len(table)))
    for row, cells in enumerate(table):
        for column, cell in enumerate(cells):
            value = cell.item() if isinstance(cell, np.generic) else cell
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                rule = "costs are finite numbers >= 0"
                where = f"rank {row} to rank {column}"
                check.add("cost", value, rule=rule, fix="Measure that pair again", where=where)
            else:
                found[row, column] = value
    check.raise_if_any()
    return found


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
    import networkx as nx

    apart = ~np.eye(len(cost), dtype=bool)
    values = np.unique(cost[apart])
    if len(values) < 2:
        return None
    with np.errstate(divide="ignore"):
        limit = values[int(np.argmax(values[1:] / values[:-1]))]
    near = np.maximum(cost, cost.T) <= limit
    parts = list(nx.connected_components(nx.from_numpy_array(near.astype(np.int8))))
    node = np.empty(len(cost), dtype=np.int64)
    for at, part in enumerate(sorted(parts, key=min)):
        node[list(part)] = at
    together = node[:, None] == node
    if len(parts) < 2 or len(parts) == len(cost) or cost[together & apart].max() > limit:
        return None
    return node


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _shape(rows: Any) -> str:
    if isinstance(rows, np.ndarray):
        return f"an array of shape {rows.shape}"
    return f"{len(rows)} entries that are no rows" if isinstance(rows, list) else type(rows).__name__
