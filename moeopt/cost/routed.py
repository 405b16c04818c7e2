"""Copies that a given routing sends between GPUs, and the rank that takes longest to send or receive its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, is_number, not_negative, whole
from moeopt.cost.dispatch import MERGES
from moeopt.errors import Violations

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BLOCK = 1 << 22
"""Cells (token, GPU) that are looked at at once."""


@checked
def expert_counts(routing: npt.ArrayLike, *, experts: int) -> Ints:
    """Selections of every expert: they add up to tokens x top-k, since nothing is dropped here.

    Parameters
    ----------
    routing
        (T, K) expert ids, distinct in a row; -1 selects nothing.
    experts
        ``E``; ids are below it.

    Returns
    -------
    ndarray
        (E,) int64.

    Raises
    ------
    InstanceError
        Not a table of whole numbers, ids outside -1 .. E-1, an expert twice in a row.

    >>> expert_counts([[0, 2], [2, 1], [2, -1]], experts=4)
    array([1, 1, 3, 0])
    """
    check = Violations()
    whole(check, experts=experts)
    ids = _routing(check, routing, experts)
    check.raise_if_any()
    return np.bincount(ids[ids >= 0], minlength=experts).astype(np.int64)


def _routing(check: Violations, routing: npt.ArrayLike, experts: object) -> Ints:
    ids = np.asarray(routing)
    if ids.ndim != 2 or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
        rule = "must be a table (tokens, top_k) of whole numbers"
        check.add("routing", f"{ids.dtype} of shape {ids.shape}", rule=rule, fix="Give expert ids, -1 for none")
        return np.zeros((0, 1), dtype=np.int64)
    ids = ids.astype(np.int64)
    if not isinstance(experts, Integral):
        return ids
    for token, slot in np.argwhere((ids < -1) | (ids >= experts))[:5]:
        where, rule = f"{token}, {slot}", f"must be -1 or an expert below {experts}"
        check.add("routing", int(ids[token, slot]), rule=rule, fix="Drop the token or give more experts", where=where)
    ordered = np.sort(ids, axis=1)
    for token in np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1))[:5]:
        rule = "a token selects an expert once"
        check.add("routing", ids[token].tolist(), rule=rule, fix="Drop the double", where=f"token {token}")
    return ids


@dataclass(frozen=True)
class RoutedCopies:
    """Copies from GPU to GPU, (P, P) int64 each: over the network, and within nodes. Diagonals are 0."""

    nic: Ints
    nvlink: Ints


@checked
def routed_copies(
    routing: npt.ArrayLike,
    *,
    home: npt.ArrayLike,
    gpu_of_expert: npt.ArrayLike,
    gpus: int,
    nodes: int = 1,
    merge: str = "none",
) -> RoutedCopies:
    """What a transport sends for a given routing, exactly; combine is the transpose.

    Parameters
    ----------
    routing
        (T, K) expert ids as in `expert_counts`; for replicas give ids of slots.
    home
        (T,) the GPU of each token.
    gpu_of_expert
        (E,) the GPU of each expert (or slot).
    gpus, nodes
        ``P`` GPUs, numbered node by node.
    merge
        One of `moeopt.cost.dispatch.MERGES`.

    Raises
    ------
    InstanceError
        As in `expert_counts`; GPUs out of range, lengths that differ, an unknown `merge`, nodes that do not divide.

    Notes
    -----
    Strength: exact counts. With ``node`` and ``rail`` a copy lands on the GPU of the sender's index in the other node
    and goes on from there; within the home node copies go straight.

    >>> sent = routed_copies([[0, 1]], home=[0], gpu_of_expert=[2, 3], gpus=4, nodes=2, merge="node")
    >>> int(sent.nic.sum()), int(sent.nvlink.sum())  # one copy to GPU 2, which hands one to GPU 3
    (1, 1)
    """
    check = Violations()
    whole(check, gpus=gpus, nodes=nodes)
    divides(check, "nodes", nodes, "gpus", gpus)
    if merge not in MERGES:
        check.add("merge", merge, rule=f"is not one of {', '.join(MERGES)}", fix="Use one of these")
    hosts = _gpus(check, "gpu_of_expert", gpu_of_expert, gpus)
    if not hosts.size and not check.found:
        check.add("gpu_of_expert", "none", rule="there must be an expert", fix="Give the GPU of each expert")
    ids = _routing(check, routing, len(hosts) or None)  # no experts: said already
    homes = _gpus(check, "home", home, gpus)
    if len(homes) != len(ids):
        rule = f"there are {len(ids)} tokens in routing"
        check.add("home", f"{len(homes)} GPUs", rule=rule, fix="Give one for each token")
    check.raise_if_any()
    gpus, nodes = int(gpus), int(nodes)
    nic, nvlink = np.zeros((gpus, gpus), np.int64), np.zeros((gpus, gpus), np.int64)
    step = max(1, BLOCK // gpus)
    for first in range(0, len(ids), step):
        part, source = ids[first : first + step], homes[first : first + step]
        wanted = np.zeros((len(part), gpus), np.int64)
        token, slot = np.nonzero(part >= 0)
        np.add.at(wanted, (token, hosts[part[token, slot]]), 1)
        _add(nic, nvlink, wanted, source, gpus // nodes, merge)
    np.fill_diagonal(nvlink, 0)
    return RoutedCopies(nic, nvlink)


def _add(nic: Ints, nvlink: Ints, wanted: Ints, source: Ints, g: int, merge: str) -> None:
    """Add the copies of a block of tokens: `wanted` (T, P) pairs by GPU, `source` (T,) home GPUs."""
    if merge in ("gpu", "node"):
        wanted = np.minimum(wanted, 1)
    token, target = np.nonzero(wanted)
    count, start = wanted[token, target], source[token]
    away = start // g != target // g
    if merge in ("none", "gpu"):
        np.add.at(nic, (start[away], target[away]), count[away])
        np.add.at(nvlink, (start[~away], target[~away]), count[~away])
        return
    landing = target // g * g + start % g  # the GPU of the sender's index; at home the sender itself
    np.add.at(nvlink, (landing, target), count)
    if merge == "rail":
        np.add.at(nic, (start[away], landing[away]), count[away])
        return
    first = np.unique(token[away] * nic.shape[0] + landing[away])
    np.add.at(nic, (source[first // nic.shape[0]], first % nic.shape[0]), 1)


def _gpus(check: Violations, name: str, values: npt.ArrayLike, gpus: object) -> Ints:
    found = np.asarray(values)
    if found.ndim != 1 or not (np.issubdtype(found.dtype, np.integer) or found.size == 0):
        rule = "must be a list of GPUs, whole numbers"
        check.add(name, f"{found.dtype} of shape {found.shape}", rule=rule, fix="Give one GPU for each")
        return np.zeros(0, dtype=np.int64)
    found = found.astype(np.int64)
    if isinstance(gpus, Integral):
        for place in np.flatnonzero((found < 0) | (found >= gpus))[:5]:
            rule = f"must be a GPU from 0 to {gpus - 1}"
            check.add(name, int(found[place]), rule=rule, fix="Number GPUs from 0, node by node", where=str(place))
    return found


@dataclass(frozen=True, slots=True)
class Busiest:
    """The rank that is done last, whether it is sending or receiving then, and when that is."""

    rank: int
    direction: str
    time_s: float


@checked
def busiest_rank(
    sent_bytes: npt.ArrayLike,
    *,
    send_bytes_per_s: Number | Sequence[float],
    recv_bytes_per_s: Number | Sequence[float] | None = None,
    fixed_s: float = 0.0,
) -> Busiest:
    """Seconds until every rank has sent and received its bytes: ``fixed + max_i max(send_i/B_i, recv_i/B_i)``.

    Parameters
    ----------
    sent_bytes
        (P, P) bytes from rank to rank; what a rank keeps, the diagonal, is left out.
    send_bytes_per_s, recv_bytes_per_s
        Bandwidth of every rank out and in, one number or P; in is as out by default.
    fixed_s
        Launch, synchronisation and first byte, seconds.

    Returns
    -------
    Busiest
        The first of equals; sending before receiving.

    Raises
    ------
    InstanceError
        Not a square table of finite bytes >= 0; bandwidths that are not above 0, or not P of them; a negative time.

    Notes
    -----
    Strength: lower bound, met when ranks are full duplex and nothing else is shared; incast and links in between can
    only add. Chapter on multi-node inference, 3.4.

    >>> busiest_rank([[0, 8e9, 0], [2e9, 0, 0], [6e9, 4e9, 0]], send_bytes_per_s=40e9)
    Busiest(rank=1, direction='recv', time_s=0.3)
    """
    check = Violations()
    table = _table(check, sent_bytes)
    out = _rates(check, "send_bytes_per_s", send_bytes_per_s, len(table))
    into = out if recv_bytes_per_s is None else _rates(check, "recv_bytes_per_s", recv_bytes_per_s, len(table))
    not_negative(check, fixed_s=fixed_s)
    check.raise_if_any()
    np.fill_diagonal(table, 0.0)
    seconds = np.stack([table.sum(axis=1) / out, table.sum(axis=0) / into], axis=1)
    place = int(seconds.argmax())
    return Busiest(place // 2, ("send", "recv")[place % 2], float(fixed_s + seconds.flat[place]))


def _table(check: Violations, values: npt.ArrayLike) -> Floats:
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        rule = "must be a square table of bytes, rank by rank"
        check.add("sent_bytes", f"shape {table.shape}", rule=rule, fix="Give one row and one column for each rank")
        return np.zeros((1, 1))
    for row, column in np.argwhere(~(np.isfinite(table) & (table >= 0)))[:5]:
        rule, where = "must be finite bytes >= 0", f"{row}, {column}"
        check.add("sent_bytes", float(table[row, column]), rule=rule, fix="Repair the table", where=where)
    return table


def _rates(check: Violations, name: str, values: Any, ranks: int) -> Floats:
    listed = [values] * ranks if not hasattr(values, "__len__") else list(values)
    if len(listed) != ranks:
        check.add(
            name, f"{len(listed)} values", rule=f"there are {ranks} ranks", fix="Give one number, or one for each"
        )
    if bad := [value for value in listed if not is_number(value) or not value > 0]:
        check.add(name, bad[0], rule="must be finite numbers > 0", fix="Give bytes a second")
    return np.ones(ranks) if bad or len(listed) != ranks else np.asarray(listed, dtype=np.float64)
