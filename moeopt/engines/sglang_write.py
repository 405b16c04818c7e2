"""SGLang: ``--init-expert-location`` JSON with a row for every layer, dense ones included."""

from __future__ import annotations

import shlex

from moeopt.documents import to_json
from moeopt.engines.job import Job, Piece, doubles_warning
from moeopt.workload.table import id_ranges

DISPATCH = {"sglang-static": "static", "sglang-static-node": "static", "even": "dynamic", "random": "dynamic"}
"""The dispatch rule of the engine that does what a plan was made for; ``dynamic`` draws a replica for each token."""


def write(job: Job) -> Piece:
    """``{"physical_to_logical_map": rows}``: one row of S experts for each of the LLM's layers, in their order.

    Rows of dense layers are never used for them, but are checked and indexed: they get the start layout. The draft
    layer of MTP is built as layer 0, so a plan for it goes into row 0 where layer 0 is dense.

    Source: ``python/sglang/srt/eplb/expert_location.py`` of SGLang.

    >>> import numpy as np
    >>> from moeopt.engines import ExpertMap
    >>> from moeopt.engines.writing import render
    >>> one = ExpertMap("plain", np.array([[1, 0, 0]], np.int32), (1,), (1, 1, 1), 2)
    >>> piece, _ = render(one, "sglang", "map.json", llm={"layers": 2, "dense_layers": [0]})
    >>> print(piece.content.decode(), end="")
    {
      "physical_to_logical_map": [
        [0, 1, 0],
        [1, 0, 0]
      ]
    }
    >>> piece.options
    ('--ep-size 3 --ep-num-redundant-experts 1 --init-expert-location map.json --ep-dispatch-algorithm static',)
    """
    assert job.facts.layers is not None and job.facts.dense is not None
    planned = dict(zip(job.layers, job.slot_expert, strict=True))
    rows, filled = [], []
    for layer in range(job.facts.layers):
        row = planned.get(layer)
        if row is None:  # dense: no use for it but by the draft layer of that number
            row = job.mtp.get(layer, job.dense.get(layer))
        if row is None:
            row = job.in_order()
            filled.append(layer)
        rows.append(row.tolist())
    warnings = []
    if filled:
        warnings.append(
            f"rows of dense layers {id_ranges(filled)} hold the start layout: the engine reads and skips them"
        )
    warnings += _draft(job)
    warnings += doubles_warning(job, "SGLang")
    dispatch, remark = _dispatch(job)
    warnings += remark
    if job.redundant:
        warnings.append(
            "redundant experts need an all-to-all backend, such as --moe-a2a-backend deepep: without one, some "
            "versions answer wrongly and say nothing"
        )
    warnings.append("with --enable-eplb as well, the engine replaces this map at its first re-plan")
    option = (
        f"--ep-size {job.num_gpus} --ep-num-redundant-experts {job.redundant} "
        f"--init-expert-location {shlex.quote(job.path)} --ep-dispatch-algorithm {dispatch}"
    )
    return Piece((to_json({"physical_to_logical_map": rows}) + "\n").encode(), (option,), tuple(warnings))


def _draft(job: Job) -> list[str]:
    """What becomes of the draft layer."""
    assert job.facts.dense is not None
    if not job.facts.mtp and not job.mtp:
        return []
    if 0 not in job.facts.dense:
        return ["the draft layer (MTP) is loaded by row 0, which is the plan of layer 0 and not made for its loads"]
    if 0 in job.mtp:
        return [f"row 0 holds the plan of draft layer {job.facts.layers}: the engine builds it as layer 0"]
    return ["the draft layer (MTP) is loaded by row 0, which was not made for its loads"]


def _dispatch(job: Job) -> tuple[str, list[str]]:
    """The dispatch rule under which the engine does what was planned, and what to know of it."""
    if not job.redundant or job.split is None:
        return "static", []
    if job.split == "sglang-static-node":
        return "static", ["planned for versions whose static rule prefers replicas on the source's own node"]
    if job.split == "free":
        return "lp", [
            "the plan shares an expert's tokens unevenly, which no map can say: lp, in versions that have it, shares "
            "them anew in every batch; plan with --split even or sglang-static otherwise"
        ]
    if job.split == "even":
        return "dynamic", [
            "planned for even parts: dynamic draws a replica for each token, which is even on average. The engine's "
            "default, static, binds source GPUs to replicas: plan with --split sglang-static for it"
        ]
    return DISPATCH[job.split], []
