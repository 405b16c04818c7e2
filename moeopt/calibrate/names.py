"""What tables call GPUs, formats and collectives."""

from __future__ import annotations

from moeopt.errors import InstanceError, Violations
from moeopt.llm.gpus import GPUS, find_gpu

DTYPES: dict[str, tuple[str, float]] = {
    "bf16": ("bf16", 2.0),
    "bfloat16": ("bf16", 2.0),
    "float16": ("bf16", 2.0),
    "fp16": ("bf16", 2.0),
    "half": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "fp8_block": ("fp8", 1.0),
    "fp8_static": ("fp8", 1.0),
    "fp4": ("fp4", 0.5),
    "nvfp4": ("fp4", 0.5),
    "int8": ("int8", 1.0),
    "int8_wo": ("bf16", 1.0),
    "int4_wo": ("bf16", 0.5),
    "w4afp8": ("fp8", 0.5),
    "w4a16_mxfp4": ("bf16", 0.5),
    "w4a8_mxfp4_mxfp8": ("fp8", 0.5),
}
"""Arithmetic, and bytes of a stored weight, by the name of a format; scales of blocks left aside."""
OPS = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "a2a": "all_to_all",
}


def gpu_of(device: str, check: Violations) -> str:
    """The GPU of the catalogue that a device's name means; a violation where there is none.

    >>> [gpu_of(name, Violations()) for name in ("NVIDIA H200", "h100_sxm", "gb200", "NVIDIA L40S")]
    ['H200', 'H100', 'GB200', 'L40S']
    """
    try:
        return find_gpu(device).name
    except InstanceError:
        text = device.upper()
        for name in sorted(GPUS, key=len, reverse=True):
            if name.upper() in text:
                return name
    value = device or "missing"
    check.add("gpu", value, rule="is no GPU of the catalogue (moeopt info gpus)", fix="Name it: --gpu H200")
    return ""
