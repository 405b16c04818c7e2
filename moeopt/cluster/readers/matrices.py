"""Rank-cost matrices from CSV, JSON and NPY."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.cluster.costs import check_costs, joined
from moeopt.cluster.described import Described
from moeopt.cluster.faults import Fault
from moeopt.cluster.readers.text import refuse
from moeopt.errors import InstanceError

KEYS = ("cost", "rank_cost", "rank_costs", "costs")
"""Keys under which a JSON object has the matrix."""
MOST_FAULTS = 20
"""Pairs whose directions differ that are named, the worst of them; beyond it they are counted."""


def read_npy(data: bytes, source: str, name: str) -> Described:
    """A matrix in a ``.npy`` file, never unpickled.

    Raises
    ------
    InstanceError
        Broken, of objects, or no rank-cost matrix.
    """
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # bytes from anywhere: a broken header fails in numpy, ast, tokenize or malloc
        raise refuse(source, "...", f"is no .npy file that can be read ({error})", "Save it again") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf" or array.ndim != 2:
        what = (
            f"an array of shape {array.shape} and type {array.dtype}" if isinstance(array, np.ndarray) else "no array"
        )
        raise refuse(source, what, "a rank-cost matrix has two axes and real numbers", "Save the matrix alone")
    return read_costs(array, source, name)


def read_csv(text: str, source: str, name: str) -> Described:
    """A matrix in CSV, with or without a line and a column of rank names.

    Raises
    ------
    InstanceError
        No rank-cost matrix.

    >>> read_csv("rank,0,1\\n0,0,4\\n1,4,0\\n", "cost.csv", "c").cost
    array([[0., 4.],
           [4., 0.]])
    """
    sign = next((one for one in ("\t", ";", ",") if one in text), " ")
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=sign, skipinitialspace=True))
    except csv.Error as error:
        raise refuse(source, "...", f"is no CSV that can be read ({error})", "Save it again") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if rows and _above(rows):
        above, rows = rows[0], rows[1:]
        if rows and all(len(row) == len(rows) + 1 for row in rows) and _beside(above, rows):
            rows = [row[1:] for row in rows]
    return read_costs([[_cell(cell) for cell in row] for row in rows], source, name)


def _above(rows: list[list[str]]) -> bool:
    """Whether the first line has names of ranks, and not a cost that is no number.

    >>> _above([["rank", "0"], ["0", "0"]]), _above([["a", "b"]]), _above([["0", "1", "x"]])
    (True, True, False)
    """
    return not any(map(_number, rows[0])) or (not _number(rows[0][0]) and _same(rows[0], rows[1:]))


def _beside(above: list[str], rows: list[list[str]]) -> bool:
    """Whether the first column has names of ranks: no numbers, or those of the line above."""
    return not any(_number(row[0]) for row in rows) or _same(above, rows)


def _same(above: list[str], rows: list[list[str]]) -> bool:
    return [row[0] for row in rows] == above[1:]


def _number(text: str) -> bool:
    return isinstance(_cell(text), float)


def _cell(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def read_costs(rows: Any, source: str, name: str) -> Described:
    """A matrix as it came out of a file; `rows` may also be an object with the matrix under one of `KEYS`.

    Raises
    ------
    InstanceError
        See `moeopt.cluster.costs.check_costs`.
    """
    if isinstance(rows, dict):
        key = next((key for key in KEYS if key in rows), None)
        if key is None:
            raise refuse(source, ", ".join(map(str, rows))[:60], "has no matrix", f"Put it under {KEYS[0]}")
        rows = rows[key]
    cost = check_costs(rows, source)
    pairs = _apart(cost)
    faults = [
        Fault("asymmetric", (f"rank {i}", f"rank {j}"),
              f"rank {i} to rank {j} costs {cost[i, j]:g}, and back {cost[j, i]:g}",
              "Check both directions; plans use each as it is")
        for i, j in pairs[:MOST_FAULTS].tolist()
    ]  # fmt: skip
    more = f"{len(pairs):,} pairs cost more one way than back: those that differ by most are named"
    notes = (more,) if len(pairs) > MOST_FAULTS else ()
    return Described("rank-cost matrix", name, facts_of(cost), notes, cost=cost, found=tuple(faults))


def _apart(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """(P, 2) pairs of ranks with another cost one way than back, by the factor between them, largest first."""
    one, other = np.nonzero(np.triu(cost != cost.T))
    low, high = np.minimum(cost[one, other], cost[other, one]), np.maximum(cost[one, other], cost[other, one])
    with np.errstate(over="ignore"):  # beyond the largest double is as far apart as from nothing
        factor = np.divide(high, low, out=np.full(len(low), np.inf), where=low > 0)
    return np.stack([one, other], axis=1)[np.argsort(-factor, kind="stable")]


def facts_of(cost: NDArray[np.float64]) -> dict[str, Any]:
    """What can be said of a matrix: whether directions differ, and the groups of ranks at each cost."""
    ranks = len(cost)
    apart = int((cost != cost.T).sum()) // 2
    values = np.unique(cost[~np.eye(ranks, dtype=bool)]) if ranks > 1 else np.array([])
    facts: dict[str, Any] = {
        "ranks": ranks,
        "symmetric": not apart,
        "pairs_that_differ_by_direction": apart,
        "costs": len(values),
        "least": float(values[0]) if len(values) else None,
        "most": float(values[-1]) if len(values) else None,
        "own_cost": float(np.diagonal(cost).max(initial=0.0)),
    }
    if 1 <= len(values) <= 6:
        tiers = [{"cost": float(value), "groups": _sizes(cost <= value)} for value in values]
        facts["tiers"] = [one for at, one in enumerate(tiers) if at == 0 or one["groups"] != tiers[at - 1]["groups"]]
    return facts


def _sizes(near: NDArray[np.bool_]) -> list[int]:
    return sorted(np.bincount(joined(near & near.T)).tolist(), reverse=True)


def is_costs(data: bytes, head: str) -> bool:
    """Whether a table of numbers is a rank-cost matrix and not loads: square, with nothing but 0 on the diagonal.

    >>> is_costs(b"0,1\\n2,0\\n", "0,1"), is_costs(b"3,1\\n2,5\\n", "3,1")
    (True, False)
    """
    try:
        if data.startswith(b"\x93NUMPY"):
            cost = read_npy(data, "", "").cost
        elif head.startswith("["):
            from moeopt.documents import read_json

            cost = read_costs(read_json(data, ""), "", "").cost
        else:
            first, _, rest = head.partition("\n")
            columns = len([one for one in re.split(r"[,;\t ]+", first) if one])
            if abs(columns - 1 - rest.count("\n")) > 2:
                return False  # far from square, and maybe large
            cost = read_csv(data.decode("utf-8-sig"), "", "").cost
    except (InstanceError, UnicodeDecodeError):
        return False
    return cost is not None and len(cost) > 1 and not cost.diagonal().any() and int((cost == 0).sum()) == len(cost)
