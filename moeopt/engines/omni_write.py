"""omni-infer: the placement pattern, a cube of 0 and 1 by device, MoE layer and expert."""

from __future__ import annotations

import io
import json
import shlex

import numpy as np

from moeopt.engines.job import Job, Piece
from moeopt.workload.table import id_ranges


def write(job: Job) -> Piece:
    """``.npy`` of int32 (G, M, E), 1 where the device holds the expert; devices may hold different numbers.

    A cube has no order of slots: a device holds its experts by ascending id. The draft layer of MTP is not in it.

    Source: ``omni/accelerators/placement/omni_placement/expert_mapping.py`` of omni-infer.

    >>> from moeopt.engines import ExpertMap
    >>> from moeopt.engines.writing import render
    >>> one = ExpertMap("plain", np.array([[1, 0, 0]], np.int32), (1,), (1, 1, 1), 2)
    >>> piece, _ = render(one, "omni", "map.npy", llm={"layers": 2, "dense_layers": [0]})
    >>> np.load(io.BytesIO(piece.content)).tolist()
    [[[0, 1]], [[1, 0]], [[1, 0]]]
    """
    assert job.slots is not None
    cube = np.zeros((job.num_gpus, len(job.layers), job.num_experts), dtype=np.int32)
    layer, slot = np.nonzero(job.slot_expert >= 0)
    gpu = np.repeat(np.arange(job.num_gpus), job.slots)
    cube[gpu[slot], layer, job.slot_expert[layer, slot]] = 1
    buffer = io.BytesIO()
    np.save(buffer, cube, allow_pickle=False)
    copies = int(cube.sum(axis=0).max())
    spare = int(cube.sum(axis=2).max()) - job.num_experts // job.num_gpus
    config = {
        "pattern_path": job.path,
        "max_moe_layer_num": len(job.layers),
        "enable_dynamic": False,
        "max_redundant_per_expert": copies,
        "max_redundant_per_rank": spare,
        "enable_rank_round_robin": False,
        "enable_dump": False,
    }
    warnings = [
        f"the cube counts MoE layers: 0 to {len(job.layers) - 1} are layers {id_ranges(job.layers)} of the LLM",
        "a device holds its experts by ascending id: the order of slots in the plan is not kept",
        "enable_dynamic: true would move experts away from this pattern",
    ]
    if job.facts.mtp or job.mtp:
        lost = ", and its plan is left out" if job.mtp else ""
        warnings.append(f"the draft layer (MTP) is not in this file: the engine lays it out in order{lost}")
    additional = json.dumps({"enable_omni_placement": True, "omni_placement_config": config})
    options = (
        "# versions that read a YAML file of the placement want the keys of omni_placement_config in it",
        f"--additional-config {shlex.quote(additional)}",
    )
    return Piece(buffer.getvalue(), options, tuple(warnings))
