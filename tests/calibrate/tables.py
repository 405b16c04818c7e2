"""Tables of measurements made from known constants, in the columns of their kinds."""

from __future__ import annotations

import csv
import io
from itertools import product

import numpy as np

KERNEL = {"compute": 0.62, "memory": 0.81, "half_width": 320.0, "constant_s": 31e-6}
PEAK, BANDWIDTH = 989e12, 4.8e12  # H200 in bf16


def kernel_seconds(tokens, hidden, width, experts, top_k, moe_tp, ep):
    """The four-parameter model, written out for one point."""
    rows = tokens * top_k / ep
    touched = min(experts / ep, rows)
    one = width / moe_tp
    padded = -(-rows / touched // 16) * 16 * touched
    compute = 2 * padded * 3 * hidden * one / (KERNEL["compute"] * PEAK * one / (one + KERNEL["half_width"]))
    moved = touched * 3 * hidden * one * 2 + rows * 2 * hidden * 2
    return compute + moved / (KERNEL["memory"] * BANDWIDTH) + KERNEL["constant_s"]


def moe_perf(noise: float = 0.0, seed: int = 0) -> list[dict]:
    """Rows in the columns of aiconfigurator's moe_perf, in milliseconds."""
    rng = np.random.default_rng(seed)
    rows = []
    shapes = [(4096, 1536, 128, 8), (7168, 2048, 256, 8), (6144, 16384, 8, 2)]
    for (hidden, width, experts, top_k), tokens, (tp, ep) in product(
        shapes, (1, 8, 64, 256, 1024, 4096, 16384), ((1, 1), (1, 8), (8, 1), (2, 4))
    ):
        for load, factor in (("balanced", 1.0), ("power_law_1.2", 1.5)):
            seconds = kernel_seconds(tokens, hidden, width, experts, top_k, tp, ep) * factor
            rows.append(
                {
                    "framework": "TRTLLM",
                    "version": "1.0",
                    "device": "NVIDIA H200",
                    "op_name": "moe",
                    "kernel_source": "made",
                    "moe_dtype": "bfloat16",
                    "num_tokens": tokens,
                    "hidden_size": hidden,
                    "inter_size": width,
                    "topk": top_k,
                    "num_experts": experts,
                    "moe_tp_size": tp,
                    "moe_ep_size": ep,
                    "distribution": load,
                    "latency": seconds * 1e3 * float(np.exp(noise * rng.standard_normal())),
                }
            )
    return rows


def nccl_perf() -> list[dict]:
    """Rows in the columns of nccl_perf: all-reduce and all-to-all of 8 ranks; sizes in elements of two bytes."""
    return [
        {
            "framework": "NCCL",
            "version": "2.27",
            "device": "NVIDIA H200",
            "op_name": op,
            "kernel_source": "made",
            "nccl_dtype": "half",
            "num_gpus": 8,
            "message_size": 2**power,
            "latency": (alpha + 2 * 2**power / beta) * 1e3,
        }
        for op, alpha, beta in (("all_reduce", 18e-6, 207e9), ("alltoall", 10e-6, 308e9))
        for power in range(8, 28)
    ]


SILICON = (
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
    "moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,"
    + ",".join(
        f"{pool}_{name}"
        for pool in ("prefill", "decode")
        for name in (
            *("batch_size", "num_workers", "tp_size", "pp_size"),
            *("attention_dp_size", "moe_tp_size", "moe_ep_size"),
        )
    )
    + ",silicon_ttft_ms,silicon_tpot_ms"
).split(",")


def silicon(rows: list[dict]) -> list[dict]:
    """Rows in all 34 columns, empty where nothing is given."""
    usual = {"backend": "sglang", "model_path": "a/b", "system": "h200_sxm", "precision": "fp8", "mode": "agg"}
    return [dict.fromkeys(SILICON, "") | usual | {"isl": 1024, "osl": 512, "pp_size": 1} | row for row in rows]


def as_csv(rows: list[dict]) -> str:
    """A CSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
