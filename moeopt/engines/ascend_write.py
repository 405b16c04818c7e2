"""vLLM-Ascend: the expert map JSON, layers counted among the MoE layers."""

from __future__ import annotations

import json
import shlex

import numpy as np

from moeopt.engines.job import Job, Piece
from moeopt.workload.table import id_ranges


def write(job: Job) -> Piece:
    """``moe_layer_count`` and ``layer_list``, each with ``layer_id`` from 0 and its experts device by device.

    The draft layer of MTP is not in the file: the engine lays it out in order.

    Source: ``vllm_ascend/eplb/core/eplb_utils.py`` and ``eplb/adaptor/vllm_adaptor.py`` of vLLM-Ascend.

    >>> import numpy as np
    >>> from moeopt.engines import ExpertMap
    >>> from moeopt.engines.writing import render
    >>> one = ExpertMap("plain", np.array([[1, 0, 0]], np.int32), (1,), (1, 1, 1), 2)
    >>> piece, _ = render(one, "vllm-ascend", "map.json", llm={"layers": 2, "dense_layers": [0]})
    >>> json.loads(piece.content)["layer_list"][0]["device_list"][1]
    {'device_id': 1, 'device_expert': [0]}
    """
    per_gpu = job.num_slots // job.num_gpus
    layers = []
    for number, row in enumerate(job.slot_expert.reshape(len(job.layers), job.num_gpus, per_gpu).tolist()):
        devices = [
            f'        {{"device_id": {device}, "device_expert": {json.dumps(experts)}}}'
            for device, experts in enumerate(row)
        ]
        layers.append(
            f'    {{"layer_id": {number}, "device_count": {job.num_gpus}, "device_list": [\n'
            + ",\n".join(devices)
            + "\n    ]}"
        )
    text = f'{{\n  "moe_layer_count": {len(layers)},\n  "layer_list": [\n' + ",\n".join(layers) + "\n  ]\n}\n"
    config = {"eplb_config": {"expert_map_path": job.path, "num_redundant_experts": job.redundant}}
    option = f"--enable-expert-parallel --additional-config {shlex.quote(json.dumps(config))}"
    warnings = [f"layer_id counts MoE layers: 0 to {len(layers) - 1} are layers {id_ranges(job.layers)} of the LLM"]
    if job.facts.mtp or job.mtp:
        lost = ", and its plan is left out" if job.mtp else ""
        warnings.append(f"the draft layer (MTP) is not in this file: the engine lays it out in order{lost}")
    warnings += _parts(job)
    warnings.append(
        "versions with Model Runner V2 plan by themselves and have no map file: this one is for Model Runner V1 "
        "without dynamic_eplb, which would replace it"
    )
    return Piece(text.encode(), (option,), tuple(warnings))


def _parts(job: Job) -> list[str]:
    """The engine binds each source rank to the replica of its number modulo the replicas."""
    counts = [np.bincount(row[row >= 0], minlength=job.num_experts) for row in job.slot_expert]
    uneven = sorted({int(one) for count in counts for one in count if one and job.num_gpus % one})
    if not uneven:
        return []
    return [
        f"a rank sends all tokens of an expert to one replica, chosen by its number: the parts of experts with "
        f"{id_ranges(uneven)} replicas are not even, as these do not divide the {job.num_gpus} ranks"
    ]
