"""TensorRT-LLM: the YAML of the MoE load balancer, layers by their absolute ids."""

from __future__ import annotations

import json

from moeopt.engines.job import Job, Piece, doubles_warning
from moeopt.workload.table import id_ranges


def write(job: Job) -> Piece:
    """``num_slots``, ``initial_global_assignments`` by layer id (dense layers have none), ``layer_updates_per_iter`` 0.

    Where the LLM has draft layers (MTP), they get rows after the last layer: the engine stops where such a row is
    missing, and reads none where it is not served.

    Source: ``MoeLoadBalancerConfig`` in ``tensorrt_llm/llmapi/llm_args.py`` of TensorRT-LLM.

    >>> import numpy as np
    >>> from moeopt.engines import ExpertMap
    >>> from moeopt.engines.writing import render
    >>> one = ExpertMap("plain", np.array([[1, 0, 0]], np.int32), (1,), (1, 1, 1), 2)
    >>> piece, _ = render(one, "trtllm", "map.yaml", llm={"layers": 2, "dense_layers": [0]})
    >>> print(piece.content.decode(), end="")
    num_slots: 3
    initial_global_assignments:
      1: [1, 0, 0]
    layer_updates_per_iter: 0
    """
    assert job.facts.layers is not None
    rows = dict(zip(job.layers, job.slot_expert, strict=True))
    unplanned = []
    for number in range(max(job.facts.mtp, *(one + 1 for one in job.mtp), 0)):
        layer = job.facts.layers + number
        if number not in job.mtp:
            unplanned.append(layer)
        rows[layer] = job.mtp.get(number, job.in_order())
    lines = [f"num_slots: {job.num_slots}", "initial_global_assignments:"]
    lines += [f"  {layer}: {json.dumps(row.tolist())}" for layer, row in rows.items()]
    lines.append("layer_updates_per_iter: 0")
    warnings = []
    if unplanned:
        warnings.append(
            f"draft layers (MTP) {id_ranges(unplanned)} hold the start layout: the engine stops where they have no row"
        )
    warnings += doubles_warning(job, "TensorRT-LLM")
    warnings.append(
        "the engine ignores the map, and says nothing, for an architecture outside its own list, without attention "
        "DP, or on one GPU; layer_updates_per_iter above 0 would replace it while serving"
    )
    options = (
        "# in the YAML that trtllm-serve gets (--extra_llm_api_options, in newer versions --config)",
        f"moe_expert_parallel_size: {job.num_gpus}",
        "enable_attention_dp: true",
        "moe_config:",
        f"  load_balancer: {json.dumps(job.path)}",
    )
    return Piece(("\n".join(lines) + "\n").encode(), options, tuple(warnings))
