"""Counts that come out of numpy arrays give the same exact results: nothing overflows, no check is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moeopt import cost
from moeopt.cost import Link
from tests.cost.faults import names_all

BIG = 2**30
LINK = Link(2e-6, 360e9)
NICS = cost.Fabric(16, 2, LINK, LINK)
COPIES = cost.expected_copies(experts=64, top_k=8, gpus=16, nodes=2, merge="node")
MESH = {"experts": 64, "top_k": 8, "gpus": 16, "nodes": 2}
CALLS: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = [
    (cost.collective_bytes, ("all_reduce", BIG), {"ranks": 12, "nodes": 3}),
    (cost.collective_s, ("all_to_all", BIG), {"ranks": 12, "nodes": 3, "link": LINK, "outer": LINK}),
    (cost.best_collective, ("all_gather", BIG), {"ranks": 12, "nodes": 3, "link": LINK, "outer": LINK}),
    (cost.tp_volume, (BIG,), {"tp": 8}),
    (cost.sp_volume, (BIG,), {"tp": 8}),
    (cost.cp_volume, (), {"query_bytes": BIG, "kv_bytes": BIG, "ring": 4, "ulysses": 8, "heads": 64, "kv_heads": 8}),
    (cost.cp_gather_volume, (BIG,), {"ranks": 8}),
    (cost.ep_volume, (BIG,), {"top_k": 8, "hidden": 7168, "ranks": 64, "dispatch_bytes": 1, "combine_bytes": 2}),
    (cost.activation_bytes, (BIG,), {"hidden": 7168, "bytes_per_element": 2}),
    (cost.token_bytes, (7168, 1), {"scale_block": 128, "scale_bytes": 4, "meta": 16}),
    (cost.unit_probability, (), {"experts": 256, "top_k": 8, "units": 64, "groups": 8, "top_groups": 4}),
    (cost.expected_copies, (), {**MESH, "merge": "node"}),
    (COPIES.nic_bytes, (BIG, 7168), {}),
    (cost.flat_all_to_all_s, (BIG,), {"fabric": NICS, "copies": COPIES, "token_bytes": 7168}),
    (cost.staged_all_to_all_s, (BIG,), {"fabric": NICS, "copies": COPIES, "token_bytes": 7168, "chunks": 4}),
    (cost.Fabric, (16, 2, LINK, LINK), {}),
    (cost.low_latency_buffer_bytes, (), {"max_tokens": 8192, "hidden": 7168, "experts": 288, "ranks": 144}),
    (cost.normal_buffer_bytes, (), {"hidden": 7168, "ranks": 144, "sms": 24}),
    (cost.receive_tensor_bytes, (), {"local_experts": 2, "max_tokens": 8192, "ranks": 144, "copy_bytes": 14336}),
    (cost.payload_bound, (), {"top_k": 8, "devices": 64}),
    (cost.expected_payload, (), {"experts": 256, "top_k": 8, "devices": 64}),
    (cost.launch_overhead_s, (432,), {"launch_s": 4e-6, "layers": 58}),
    (cost.handoff_bytes, (BIG,), {"bytes_per_token": 70272, "cached_tokens": 5}),
    (cost.handoff_s, (BIG,), {"bytes_per_s": 64e9, "links": 8}),
    (cost.expert_capacity, (BIG,), {"top_k": 16, "experts": 896, "factor": 2, "multiple_of": 128}),
    (cost.expert_filling, ([BIG, BIG, BIG],), {"capacity": BIG}),
    (cost.load_ratio, ([BIG, BIG, BIG],), {"tokens": BIG, "top_k": 4}),
    (cost.overflow_actions, ([BIG, BIG, 5],), {"capacity": 7, "round_s": 1.0, "expert_bytes": BIG}),
    (cost.accepted_length, (0.8,), {"length": 5}),
    (
        cost.verify_step_s,
        (4,),
        {**{k: MESH[k] for k in ("experts", "top_k")}, "batch": 4, "expert_bytes": BIG}
        | {"layers": 58, "bytes_per_s": 2.7e12},
    ),
    (cost.chunk_rounds, (BIG,), {"budget": 2048, "decode": 256}),
    (cost.best_chunk, (512,), {"step_s": lambda tokens, before: tokens * 1e-5 + 1e-3, "tbt_s": 1.0, "multiple_of": 64}),
    (cost.balance_flops_per_byte, (3072,), {"matrices": 3, "dispatch_bytes": 1, "combine_bytes": 2}),
    (cost.waves_s, (4,), {"dispatch_s": 1, "compute_s": 2, "combine_s": 1}),
    (cost.best_waves, (), {"dispatch_s": 1, "compute_s": 2, "combine_s": 1, "wave_s": 0, "most": 8}),
    (cost.world_size, (), {"tp": 4, "dp": 80, "ep": 320, "ep_overlaps": True}),
    (cost.experts_per_rank, (256,), {"ep": 144, "redundant": 32}),
    (cost.redundant_experts_bound, (896,), {"ranks": 64}),
    (cost.striped_positions, (12,), {"ranks": 3}),
    (cost.best_tp, (1.0,), {"degrees": (1, 2, 4), "communicate_s": lambda tp: 0.1 * tp}),
    (cost.expert_place, (37,), {"experts": 64, "ep": 8}),
    (cost.expert_at, (4, 5), {"experts": 64, "ep": 8}),
    (cost.moved_experts, (), {"experts": 64, "old_ep": 8, "new_ep": 16}),
    (cost.completion_s, (), {"dispatch_s": 1, "queue_s": [1, 2], "compute_s": [3, 4], "combine_s": 5}),
]


def as_numpy(value: Any) -> Any:
    """The same value, whole numbers as 32-bit ones."""
    if isinstance(value, (list, tuple)):
        return type(value)(as_numpy(item) for item in value)
    return np.int32(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize(("call", "places", "names"), CALLS, ids=[str(call[0].__name__) for call in CALLS])
def test_numbers_of_numpy_change_nothing(call: Callable[..., object], places: Any, names: dict[str, Any]) -> None:
    plain = call(*places, **names)
    ours = call(*as_numpy(places), **{name: as_numpy(value) for name, value in names.items()})
    assert ours == plain
    assert "np." not in repr(ours)


def test_numbers_of_numpy_are_checked_like_others() -> None:
    three = np.int64(3)
    names_all(lambda: cost.collective_schedule("all_reduce", ranks=np.int64(8), nodes=three), "nodes")
    names_all(lambda: cost.expected_copies(experts=np.int64(8), top_k=1, gpus=three), "gpus")
    names_all(lambda: cost.expert_place(0, experts=np.int64(8), ep=three), "ep")
    names_all(lambda: cost.routed_copies([[5]], home=[4], gpu_of_expert=[4], gpus=three), "routing", "home")
