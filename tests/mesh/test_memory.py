"""Memory of a shape against the scalar closed forms, and its shared cases."""

from __future__ import annotations

import itertools
import math

import pytest

from moeopt.cost import (
    BF16,
    FP4,
    FP8,
    Machine,
    Split,
    helix_sequences,
    kv_bytes_per_gpu,
    kv_copies,
    low_latency_buffer_bytes,
    receive_tensor_bytes,
    sequences_that_fit,
    token_bytes,
    weights_per_gpu,
)
from moeopt.errors import InstanceError
from moeopt.llm import LlmFacts, catalogue, expert_bytes, find, kv_bytes, slot_bytes
from moeopt.llm.facts import GROWING, Attention
from moeopt.llm.memory import layer_caches
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.holdings import held_by
from moeopt.mesh.memory import cache_tokens, memory_apart, memory_of, most_sequences, room_of
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.transport import TRANSPORTS, buffers_of, transport_of

H800 = GpuType.of("H800")
PLAIN = [
    facts
    for facts in catalogue().values()
    if facts.attention.kind in ("mla", *GROWING) and not facts.attention.linear and not facts.attention.index_layers
]


def _known(facts: LlmFacts) -> bool:
    try:
        weights_per_gpu(facts)
    except InstanceError:
        return False
    return True


KNOWN = [facts for facts in PLAIN if _known(facts)]


@pytest.mark.parametrize("llm", KNOWN, ids=lambda llm: llm.name)
def test_weights_and_caches_are_those_of_the_closed_forms(llm: LlmFacts) -> None:
    degrees = [tp for tp in (1, 2, 4, 8) if int(llm.attention.heads or 0) % tp == 0]
    eps = (1, 8) if not llm.dense else (1,)
    for tp, ep, numerics in itertools.product(degrees, eps, (BF16, FP8)):
        shape = Shape("decode", "H800", tp=tp, dp=max(1, ep // tp), ep=ep, dense_tp=tp)
        whole = weights_per_gpu(llm, tp=tp, ep=ep, numerics=numerics)
        one = held_by(shape, llm, numerics, (llm.layers,), 5_000, "bf16", False)[0]
        assert one.experts == pytest.approx(whole.routed, rel=1e-12)
        assert one.weights == pytest.approx(whole.total - whole.routed, rel=1e-12)
        if llm.attention.kind == "mla" or int(llm.attention.kv_heads or 0) % tp == 0:
            one_kv = kv_bytes_per_gpu(llm, context_tokens=5_000, tp=tp)
            assert one.kv == pytest.approx(one_kv, rel=1e-12)


@pytest.mark.parametrize("llm", KNOWN, ids=lambda llm: llm.name)
@pytest.mark.parametrize("pp", [2, 3, 7])
def test_stages_together_hold_what_one_would(llm: LlmFacts, pp: int) -> None:
    """All but the second copy of a tied embedding, which the last stage needs."""
    shape = Shape("decode", "H800", tp=1, pp=1)
    whole = held_by(shape, llm, BF16, (llm.layers,), 1_000, "bf16", False)[0]
    each, rest = divmod(llm.layers, pp)
    counts = tuple(each + (stage >= pp - rest) for stage in range(pp))
    parts = held_by(shape, llm, BF16, counts, 1_000, "bf16", False)
    again = 2.0 * int(llm.vocab or 0) * int(llm.hidden or 0) if llm.tie_embeddings else 0.0
    assert sum(part.weights for part in parts) == pytest.approx(whole.weights + again, rel=1e-12)
    assert sum(part.experts for part in parts) == pytest.approx(whole.experts, rel=1e-12)
    assert sum(part.kv for part in parts) == pytest.approx(whole.kv, rel=1e-12)


@pytest.mark.parametrize("llm", catalogue().values(), ids=lambda llm: llm.name)
def test_layers_keep_what_the_llm_keeps(llm: LlmFacts) -> None:
    for tokens in (0, 1, 1_000, 100_003):
        try:
            whole = kv_bytes(llm, tokens)
        except InstanceError:
            with pytest.raises(InstanceError):
                layer_caches(llm, tokens)
            return
        layers = layer_caches(llm, tokens)
        total = sum(layer.heads + layer.whole + layer.state for layer in layers)
        assert len(layers) == llm.layers
        assert math.ceil(total * (1 - 1e-12)) == whole


@pytest.mark.parametrize(
    ("split", "sequences"), [(Split(8, 8), 80), (Split(8, 8, ffn_gpus=8), 70), (Split(64), 10), (Split(8, 2), None)]
)
def test_long_shapes_keep_the_batches_of_helix(split: Split, sequences: int | None) -> None:
    llama, gb200 = find("llama-3.1-405b"), GpuType.of("GB200")
    shape = Shape(
        "long",
        "GB200",
        tp=split.tpa,
        kvp=split.kvp,
        dense_tp=split.ffn,
        ffn_gpus=None if split.ffn == split.gpus else split.ffn,
    )
    room = room_of(shape, llama, gb200, kept_tokens=10**6, numerics=FP4)
    wanted = helix_sequences(llama, Machine.of("GB200"), split, context_tokens=10**6)
    assert most_sequences(room)[0] == wanted
    assert sequences is None or wanted == sequences


def test_cache_counts_copies_of_kv_heads_when_tp_exceeds_them() -> None:
    """16 heads, 2 KV heads, TP 8: each head is kept four times."""
    at = Attention("gqa", heads=16, kv_heads=2, head_dim=128)
    llm = LlmFacts("small", "llama", 4, (0, 1, 2, 3), (), 0, 0, hidden=2048, dense_width=8192, vocab=1000, attention=at)
    assert kv_copies(llm, 8) == 4
    whole, split = (
        memory_of(Shape("decode", "H800", tp=tp, dense_tp=tp), llm, H800, sequences=1, kept_tokens=1_000, numerics=BF16)
        for tp in (1, 8)
    )
    assert 8 * split.kv == 4 * whole.kv


def test_latent_cache_is_copied_by_tp_and_not_by_dp() -> None:
    at = Attention("mla", heads=128, q_rank=1536, kv_rank=512, rope_dim=64, nope_dim=128, v_dim=128)
    llm = LlmFacts("latent", "deepseek_v3", 61, tuple(range(61)), (), 0, 0, attention=at)
    by_tp, by_dp = Shape("decode", "H200", tp=8), Shape("decode", "H200", dp=8)
    assert cache_tokens(by_tp, llm, free_bytes=40 * 2**30) == 611_191
    assert cache_tokens(by_dp, llm, free_bytes=40 * 2**30) == 4_889_528


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("asked", TRANSPORTS)
def test_most_sequences_is_the_last_that_fits(tp: int, asked: str) -> None:
    shape = Shape("decode", "H800", tp=tp, dp=64 // tp, ep=64)
    room = room_of(shape, find("deepseek-v3"), H800, kept_tokens=5_000, numerics=FP8, transport=asked)
    most, binds = most_sequences(room, 100_000)
    assert room.fits(most)
    assert not room.fits(most + 1)
    assert binds in ("kv", "buffer")
    assert most_sequences(room, most) == (most, "most")
    assert most_sequences(room, most - 1) == (most - 1, "most")


def test_without_buffers_it_is_the_closed_form() -> None:
    llm, tp = find("llama-3-70b"), 8
    shape = Shape("decode", "H800", tp=tp, dense_tp=tp)
    room = room_of(shape, llm, H800, kept_tokens=5_000, numerics=BF16, reserve_bytes=1e9)
    wanted = sequences_that_fit(
        memory_bytes=80e9,
        weights_bytes=weights_per_gpu(llm, tp=tp).total,
        kv_bytes_per_sequence=kv_bytes_per_gpu(llm, context_tokens=5_000, tp=tp),
        reserve_bytes=1e9,
    )
    assert most_sequences(room) == (wanted, "kv")


def test_nothing_fits_is_zero() -> None:
    room = room_of(Shape("decode", "H800"), find("deepseek-v3"), H800, kept_tokens=5_000, numerics=BF16)
    assert most_sequences(room) == (0, "kv")
    assert room.at(0).free < 0


@pytest.mark.parametrize("tokens", [1, 7, 64, 128, 1000])
@pytest.mark.parametrize(("ep", "redundant"), [(16, 0), (144, 32), (320, 64)])
def test_low_latency_buffers_are_those_of_the_library(tokens: int, ep: int, redundant: int) -> None:
    llm = find("deepseek-v3")
    shape = Shape("decode", "H800", dp=ep, ep=ep, redundant=redundant)
    experts = 256 + redundant
    registered = low_latency_buffer_bytes(max_tokens=tokens, hidden=7168, experts=experts, ranks=ep)
    copy = int(token_bytes(7168, 1, scale_block=128))
    tensor = receive_tensor_bytes(local_experts=experts // ep, max_tokens=tokens, ranks=ep, copy_bytes=copy)
    assert transport_of(shape, H800) == "deepep-ll"
    assert buffers_of(shape, llm, H800).bytes(tokens) == registered + tensor


def test_one_replica_for_both_phases_sends_prompts_in_chunks() -> None:
    """Low-latency room is for decoded tokens; a chunk of a prompt takes what normal mode receives."""
    llm = find("deepseek-v3")
    both, decode, prefill = (
        buffers_of(Shape(role, "H800", dp=16, ep=16), llm, H800) for role in ("colocated", "decode", "prefill")
    )
    assert both.transport == "deepep-both"
    assert both.bytes(64) > decode.bytes(64)
    assert both.bytes(0, 8192) - both.bytes(0) == prefill.bytes(0, 8192) - prefill.bytes(0)
    assert both.bytes(64, 8192) < 5e9


def test_transport_that_is_unknown_is_refused() -> None:
    with pytest.raises(InstanceError, match="transport = pigeon: is not one of auto, deepep-normal"):
        transport_of(Shape("decode", "H800", ep=8, dp=8), H800, "pigeon")


def test_checkpoint_formats_are_those_of_the_catalogue() -> None:
    """With no numerics, experts have their scales, and embeddings are in BF16."""
    llm = find("deepseek-v3")
    shape = Shape("decode", "H800", dp=256, ep=256)
    one = held_by(shape, llm, None, (61,), 1, "bf16", False)[0]
    assert one.experts == slot_bytes(llm)
    half = held_by(shape, llm, FP8, (61,), 1, "bf16", False)[0]
    assert one.weights - half.weights == 2 * 129_280 * 7_168


def test_mtp_layer_is_held_where_tokens_are_drafted() -> None:
    llm = find("deepseek-v3")
    shape = Shape("decode", "H800", dp=64, ep=64)
    room, drafting = (room_of(shape, llm, H800, kept_tokens=1_000, draft=draft) for draft in (0, 1))
    more = drafting.at(1).experts - room.at(1).experts
    assert more == expert_bytes(llm) * 256 / 64
    assert drafting.at(1).kv == pytest.approx(room.at(1).kv * 62 / 61)
    assert drafting.tokens_per_sequence == 2 * room.tokens_per_sequence


def test_redundant_experts_are_counted_apart() -> None:
    llm = find("deepseek-v3")
    shape = Shape("decode", "H800", dp=144, ep=144, redundant=32)
    memory = memory_of(shape, llm, H800, sequences=0, kept_tokens=1_000)
    assert memory.experts + memory.redundant == pytest.approx(2 * slot_bytes(llm), rel=1e-12)
    assert memory.redundant * 256 == pytest.approx(memory.experts * 32, rel=1e-12)


def test_splitting_a_cache_over_tokens_shares_it_out() -> None:
    llm = find("llama-3.1-405b")
    shapes = [Shape("long", "GB200", tp=8, kvp=kvp, dense_tp=8 * kvp) for kvp in (1, 2, 4)]
    kept = [memory_of(s, llm, GpuType.of("GB200"), sequences=1, kept_tokens=10**6, numerics=FP4).kv for s in shapes]
    assert kept == [kept[0], kept[0] / 2, kept[0] / 4]


def test_parts_add_up() -> None:
    shape = Shape("colocated", "H800", tp=2, dp=32, ep=64, dense_tp=2, pp=2)
    memory = memory_of(
        shape, find("deepseek-v3"), H800, sequences=64, kept_tokens=4_000, chunk=8_192, numerics=FP8, reserve_bytes=2e9
    )
    parts = (memory.weights, memory.experts, memory.redundant, memory.kv, memory.buffers, memory.reserve, memory.free)
    assert sum(parts) == pytest.approx(72e9)
    assert all(part >= 0 for part in parts[:-1])


def test_more_of_anything_takes_more() -> None:
    llm, shape = find("deepseek-v3"), Shape("colocated", "H800", dp=64, ep=64)
    base = {"kept_tokens": 1_000, "chunk": 1_000, "draft": 1}
    for name, value in {
        "kept_tokens": 1_001,
        "chunk": 1_001,
        "draft": 2,
        "overlap": True,
        "reserve_bytes": 1.0,
    }.items():
        more = memory_of(shape, llm, H800, sequences=8, **{**base, name: value})
        assert more.used > memory_of(shape, llm, H800, sequences=8, **base).used


def test_sides_apart_hold_what_the_whole_would() -> None:
    llm = find("mixtral-8x22b")
    shape = ApartShape("H20", "L40S", tp_a=8, n_a=2, tp_e=2, n_e=8, m=3)
    attention, experts = memory_apart(
        shape, llm, GpuType.of("H20"), GpuType.of("L40S"), sequences=64, kept_tokens=730, numerics=BF16
    )
    whole = weights_per_gpu(llm, tp=8, ep=8, expert_tp=2)
    assert attention.weights == pytest.approx(whole.total - whole.routed, rel=1e-12)
    assert experts.experts == pytest.approx(whole.routed, rel=1e-12)
    assert attention.kv == pytest.approx(3 * 64 * kv_bytes_per_gpu(llm, context_tokens=730, tp=8), rel=1e-12)
    assert attention.experts == experts.weights == experts.kv == 0.0


@pytest.mark.parametrize("stages", [(61,), (30, 30), (62, -1)])
def test_stages_that_do_not_cover_the_layers_are_refused(stages: tuple[int, ...]) -> None:
    shape = Shape("decode", "H800", pp=2)
    with pytest.raises(InstanceError, match="must be 2 numbers of layers that add up to 61"):
        room_of(shape, find("deepseek-v3"), H800, kept_tokens=1, stages=stages)
