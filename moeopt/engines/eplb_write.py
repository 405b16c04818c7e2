"""EPLB: the three tensors of the public rule, in its shapes, dtypes and padding."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.job import Job, Piece
from moeopt.workload.table import id_ranges


def write(job: Job) -> Piece:
    """``.npz`` with ``phy2log`` (L, S), ``log2phy`` (L, E, most replicas; -1 pads) and ``logcnt`` (L, E), all int64.

    Source: ``rebalance_experts`` in ``eplb.py`` of deepseek-ai/EPLB.

    >>> from moeopt.engines import ExpertMap
    >>> from moeopt.engines.writing import render
    >>> one = ExpertMap("plain", np.array([[1, 0, 0]], np.int32), (1,), (1, 1, 1), 2)
    >>> piece, _ = render(one, "eplb", "map.npz")
    >>> np.load(io.BytesIO(piece.content))["logcnt"].tolist()
    [[2, 1]]
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **tensors(job.slot_expert, job.num_experts))
    per_gpu = (
        "" if job.slots is None else f", GPU g has slots {job.slots[0]} g to {job.slots[0]} g + {job.slots[0] - 1}"
    )
    warnings = [
        f"rows are layers {id_ranges(job.layers)} in this order, slots are GPU-major{per_gpu}: no tensor says it"
    ]
    used = 'with numpy.load(FILE) as file: phy2log, log2phy, logcnt = file["phy2log"], file["log2phy"], file["logcnt"]'
    return Piece(buffer.getvalue(), (f"# {used}",), tuple(warnings))


def tensors(slot_expert: NDArray[np.int32], num_experts: int) -> dict[str, NDArray[np.int64]]:
    """The tensors of full layers; replicas of an expert by ascending slot.

    >>> {name: value.tolist() for name, value in tensors(np.array([[1, 0, 1]], np.int32), 2).items()}
    {'phy2log': [[1, 0, 1]], 'log2phy': [[[1, -1], [0, 2]]], 'logcnt': [[1, 2]]}
    """
    phy2log = np.asarray(slot_expert, dtype=np.int64)
    layers, slots = phy2log.shape
    keys = phy2log + np.arange(layers)[:, None] * num_experts
    logcnt = np.bincount(keys.ravel(), minlength=layers * num_experts).reshape(layers, num_experts)
    order = np.argsort(phy2log, axis=1, kind="stable")
    expert = np.take_along_axis(phy2log, order, axis=1)
    first = np.cumsum(logcnt, axis=1) - logcnt
    rank = np.arange(slots) - np.take_along_axis(first, expert, axis=1)
    log2phy = np.full((layers, num_experts, int(logcnt.max())), -1, dtype=np.int64)
    log2phy[np.arange(layers)[:, None], expert, rank] = order
    return {"phy2log": phy2log, "log2phy": log2phy, "logcnt": logcnt.astype(np.int64)}
