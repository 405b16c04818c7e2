"""Decode steps, memory, and the two ways to take attention and experts apart."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    FP4,
    FP8,
    NVL72,
    Link,
    Machine,
    Split,
    balanced_nodes,
    ep_decode,
    expert_side_s,
    gpus_for_weights,
    helix_decode,
    helix_sequences,
    instance_price,
    interleaved_tokens,
    kv_bytes_per_gpu,
    m2n_bytes,
    m2n_s,
    mean_context,
    merge_bytes,
    per_price,
    sequences_that_fit,
    stage_times,
    touched_units,
    tp_decode,
    weights_per_gpu,
)
from moeopt.errors import InstanceError
from moeopt.llm import find, kv_bytes, parameters

NVLINK, PORT = Link(2e-6, 360e9), Link(5e-6, 40e9)
H100, H800, A800, GB200 = (Machine.of(name) for name in ("H100", "H800", "A800", "GB200"))
V3, LLAMA, DBRX = find("deepseek-v3"), find("llama-3.1-405b"), find("dbrx")


@given(st.sampled_from(["mixtral-8x22b", "dbrx", "llama-3-70b"]), st.integers(0, 2000), st.integers(0, 8192))
def test_a_step_takes_longer_with_more_sequences_and_context(name: str, batch: int, context: int) -> None:
    def step(sequences: int, tokens: int) -> float:
        sizes = {"sequences": sequences, "context_tokens": tokens, "tp": 8, "link": NVLINK}
        return tp_decode(find(name), H100, **sizes).total_s

    assert step(batch, context) <= step(batch + 1, context)
    assert step(batch, context) <= step(batch, context + 1)


def test_a_step_in_its_limits() -> None:
    idle = tp_decode(find("llama-3-70b"), H100, sequences=0, context_tokens=0, tp=1)
    assert idle.tokens_per_s == 0 and idle.communication_s == 0
    read = weights_per_gpu(find("llama-3-70b"))
    assert idle.attention_s + idle.ffn_s == pytest.approx((read.attention + read.dense) / (3.35e12 * 0.8))
    assert idle.overhead_s == pytest.approx(80 * 1e-5)
    with_head = tp_decode(find("llama-3-70b"), H100, sequences=0, context_tokens=0, tp=1, head=True)
    assert with_head.head_s == pytest.approx(read.head / (3.35e12 * 0.8))


@given(st.sampled_from([1, 16, 64, 256]), st.integers(1, 400), st.floats(1, 5))
def test_two_micro_batches_hide_the_shorter_side_and_the_busiest_gpu_sets_the_pace(
    ep: int, n: int, load: float
) -> None:
    sizes = {"sequences": n, "context_tokens": 4096, "ep": ep, "link": PORT}
    plain, busy = (ep_decode(V3, H800, load=x, **sizes) for x in (1.0, load))
    assert busy.total_s >= plain.total_s
    dual = ep_decode(V3, H800, dual=True, **sizes)
    assert 0 <= dual.hidden_s <= dual.communication_s
    assert dual.overhead_s == pytest.approx(plain.overhead_s + 58e-5)
    longer = max(dual.communication_s, dual.attention_s + dual.ffn_s)
    assert longer <= dual.total_s
    if ep == 1:
        assert plain.communication_s == 0


def test_dual_micro_batches_lose_where_weights_are_read_twice_and_gain_where_links_are_slow() -> None:
    rates = {}
    for ep, n in ((16, 49), (64, 155)):
        for dual in (False, True):
            step = ep_decode(V3, H800, sequences=n, context_tokens=4096, ep=ep, link=PORT, dual=dual)
            rates[ep, dual] = step.tokens_per_s
    assert rates[16, True] < rates[16, False] and rates[64, True] > 1.5 * rates[64, False]


@pytest.mark.parametrize("name", ["mixtral-8x22b", "dbrx", "llama-3-70b", "deepseek-v3"])
def test_weights_on_one_gpu_are_all_parameters(name: str) -> None:
    facts = find(name)
    assert weights_per_gpu(facts).total == 2 * parameters(facts)[0]
    assert weights_per_gpu(facts, numerics=FP8).total == parameters(facts)[0]


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16]))
def test_weights_split_without_loss_where_nothing_is_copied(tp: int, ep: int) -> None:
    whole, part = weights_per_gpu(DBRX, router=False), weights_per_gpu(DBRX, tp=tp, ep=ep, router=False)
    assert part.attention * tp == pytest.approx(whole.attention)
    assert part.routed * ep == pytest.approx(whole.routed)
    more = weights_per_gpu(DBRX, tp=tp, ep=ep, router=False, extra_slots=1)
    assert more.routed - part.routed == pytest.approx(whole.routed / 16)


def test_caches_are_copied_beyond_the_kv_heads() -> None:
    """The cases of two trackers: two KV heads under TP8 keep four copies; eight GPUs keep eight copies of a latent."""
    two = replace(LLAMA, attention=replace(LLAMA.attention, heads=16, kv_heads=2))
    one = kv_bytes(two, 1000)
    assert kv_bytes_per_gpu(two, context_tokens=1000, tp=8) * 8 == 4 * one
    free = 40 * 2**30
    tp8 = sequences_that_fit(
        memory_bytes=free,
        weights_bytes=0,
        kv_bytes_per_sequence=kv_bytes_per_gpu(V3, context_tokens=1, tp=8),
        usable=1.0,
    )
    dp8 = 8 * (free // int(kv_bytes_per_gpu(V3, context_tokens=1)))
    assert (tp8, dp8) == (611_191, 4_889_528)


@given(st.integers(1, 10**12), st.integers(0, 10**12), st.integers(1, 10**9), st.sampled_from([0.5, 0.9, 1.0]))
def test_sequences_that_fit_are_the_most_that_do(memory: int, weights: int, one: int, usable: float) -> None:
    sizes = {"memory_bytes": memory, "weights_bytes": weights, "kv_bytes_per_sequence": one, "usable": usable}
    found = sequences_that_fit(**sizes)
    room = Fraction(str(usable)) * memory
    assert found == 0 or weights + found * one <= room
    assert weights + (found + 1) * one > room


@given(st.integers(0, 10**13), st.sampled_from([0.5, 1, 2]), st.integers(10**9, 2 * 10**11))
def test_gpus_for_weights_are_the_fewest(params: int, size: float, memory: int) -> None:
    found = gpus_for_weights(params=params, bytes_per_param=size, memory_bytes=memory, usable=0.9)
    room = Fraction(9, 10) * memory
    assert found * room >= params * Fraction(size)
    assert found == 0 or (found - 1) * room < params * Fraction(size)


def test_what_is_exactly_full_needs_no_further_gpu() -> None:
    assert gpus_for_weights(params=36e9, bytes_per_param=2, memory_bytes=80e9) == 1
    assert gpus_for_weights(params=36e9 + 1, bytes_per_param=2, memory_bytes=80e9) == 2


@given(st.integers(1, 2000), st.integers(1, 32), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_sending_and_receiving_move_the_same_bytes(b: int, nodes: int, tp_a: int, tp_e: int) -> None:
    one = m2n_bytes(sequences=b, experts=16, top_k=4, hidden=6144, tp_a=tp_a)
    assert one * 16 * tp_a == pytest.approx(b * 4 * 6144 * 2)
    free = Link(0.0, 1.0)
    sizes = {"sequences": b, "nodes": nodes, "experts": 16, "top_k": 4, "hidden": 6144, "tp_a": tp_a, "tp_e": tp_e}
    sent, received = one * 16, one * tp_a * nodes / tp_e
    assert m2n_s(attention_port=free, **sizes) == pytest.approx(max(sent, received))
    assert m2n_s(attention_port=free, expert_port=Link(0.0, 0.5), **sizes) == pytest.approx(max(sent, 2 * received))


@given(st.integers(1, 500), st.integers(1, 8))
def test_stages_grow_with_what_they_are_given(b: int, nodes: int) -> None:
    def stages(sequences: int, count: int) -> tuple[float, float, float]:
        sizes = {"tp_a": 2, "tp_e": 1, "attention_port": PORT, "attention_link": NVLINK}
        times = stage_times(
            DBRX, attention=A800, experts=A800, sequences=sequences, context_tokens=651, nodes=count, **sizes
        )
        assert times.round_trip_s >= times.busiest_s > 0
        return times.attention_s, times.dispatch_s, times.expert_s

    now = stages(b, nodes)
    assert all(x <= y for x, y in zip(now, stages(b + 1, nodes), strict=True))
    further = stages(b, nodes + 1)
    assert now[0] == further[0] and now[2] <= further[2]


def test_at_the_balance_both_sides_take_equally_long_when_slopes_rule() -> None:
    nodes = balanced_nodes(attention_slope_s=3e-6, expert_slope_s=2e-6, experts=8, top_k=2)
    assert 2e-6 * 1000 * nodes * 2 / 8 == pytest.approx(3e-6 * 1000)
    idle = expert_side_s(DBRX, A800, tokens=0, overhead_s=0)
    assert idle == pytest.approx(3 * 6144 * 10752 * 2 / (2.039e12 * 0.8))
    assert mean_context(input_tokens=10, output_tokens=0) == 10
    assert instance_price(nodes=1, tp_a=1, tp_e=2, experts=3, attention_price=0, expert_price=2) == 12
    assert per_price(0, 3) == 0


@given(st.integers(0, 5000), st.integers(1, 16), st.integers(1, 64))
def test_interleaved_tokens_equal_dealing_one_by_one(context: int, ranks: int, block: int) -> None:
    dealt = [0] * ranks
    for token in range(context):
        dealt[token // block % ranks] += 1
    found = interleaved_tokens(context_tokens=context, ranks=ranks, block=block)
    assert found == dealt and max(found) - min(found) <= block


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.integers(1, 64))
def test_more_kv_parallelism_never_slows_attention_and_never_shrinks_the_batch(tpa: int, kvp: int, batch: int) -> None:
    sizes = {"sequences": batch, "context_tokens": 10**6}
    now, wider = (helix_decode(LLAMA, GB200, Split(tpa, k), **sizes) for k in (kvp, 2 * kvp))
    assert wider.attention_s <= now.attention_s and wider.ffn_s <= now.ffn_s
    fits = [helix_sequences(LLAMA, GB200, Split(tpa, k), context_tokens=10**6) for k in (kvp, 2 * kvp)]
    assert fits[0] <= fits[1]
    hidden = helix_decode(LLAMA, GB200, Split(tpa, kvp), hop_b=True, **sizes)
    assert now.total_s - hidden.total_s <= now.communication_s
    if batch == 1 or kvp == 1:
        assert hidden.total_s == now.total_s


def test_helix_in_its_limits() -> None:
    alone = helix_decode(LLAMA, GB200, Split(1), sequences=1, context_tokens=1000)
    assert alone.communication_s == 0
    assert merge_bytes(sequences=9, width=128, tpa=2, kvp=1) == 0
    pure = helix_decode(LLAMA, GB200, Split(8), sequences=4, context_tokens=1000)
    same = tp_decode(LLAMA, GB200, sequences=4, context_tokens=1000, tp=8, link=NVLINK, numerics=FP4, head=True)
    assert (pure.attention_s, pure.ffn_s) == pytest.approx((same.attention_s, same.ffn_s))
    assert pure.head_s == same.head_s
    r1 = helix_decode(find("deepseek-r1"), GB200, Split(1, 16, ep=16), sequences=8, context_tokens=10**6)
    assert r1.total_s < helix_decode(find("deepseek-r1"), GB200, Split(16), sequences=8, context_tokens=10**6).total_s
    slow = helix_decode(LLAMA, GB200, Split(8, 8), sequences=1, context_tokens=10**6, link=Link(126e-6, 720e9))
    assert slow.total_s > helix_decode(LLAMA, GB200, Split(8), sequences=1, context_tokens=10**6, link=NVL72).total_s


def test_every_bad_number_is_named_at_once() -> None:
    with pytest.raises(InstanceError) as error:
        tp_decode(DBRX, H100, sequences=-1, context_tokens=math.nan, tp=0, overhead_s=-1)
    assert {v.field for v in error.value.violations} == {"sequences", "context_tokens", "tp", "overhead_s"}
    with pytest.raises(InstanceError, match="link = None: is needed between 8 GPUs"):
        tp_decode(DBRX, H100, sequences=1, context_tokens=1, tp=8)
    with pytest.raises(InstanceError) as error:
        ep_decode(V3, H800, sequences=1, context_tokens=1, ep=True, link=PORT, load=0, dispatch_bytes=-1)
    assert {v.field for v in error.value.violations} == {"ep", "load", "dispatch_bytes"}
    with pytest.raises(InstanceError, match="this LLM is dense"):
        ep_decode(LLAMA, H100, sequences=1, context_tokens=1, ep=8, link=PORT)
    with pytest.raises(InstanceError) as error:
        sequences_that_fit(memory_bytes=0, weights_bytes=-1, kv_bytes_per_sequence=0, usable=1.5, reserve_bytes=-1)
    assert len(error.value.violations) == 5
    with pytest.raises(InstanceError) as error:
        gpus_for_weights(params=-1, bytes_per_param=0, memory_bytes=math.inf, usable=0)
    assert len(error.value.violations) == 4
    with pytest.raises(InstanceError, match=r"(?s)tp_a = 2: needs the link.*"):
        stage_times(
            DBRX,
            attention=A800,
            experts=A800,
            sequences=1,
            context_tokens=1,
            nodes=1,
            tp_a=2,
            tp_e=1,
            attention_port=PORT,
        )
    with pytest.raises(InstanceError, match="dense layers and shared experts have no node here"):
        stage_times(
            V3,
            attention=A800,
            experts=A800,
            sequences=1,
            context_tokens=1,
            nodes=1,
            tp_a=1,
            tp_e=1,
            attention_port=PORT,
        )
    with pytest.raises(InstanceError, match=r"ffn_gpus = 5: must divide tpa x kvp = 64. Use 4 or 8"):
        Split(8, 8, ffn_gpus=5)
    with pytest.raises(InstanceError, match=r"sequences = 1\.5"):
        helix_decode(LLAMA, GB200, Split(8, 8), sequences=1.5, context_tokens=1, hop_b=True)
    with pytest.raises(InstanceError, match=r"(?s)attention_slope_s = 0.*expert_slope_s = -1.*top_k = 0"):
        balanced_nodes(attention_slope_s=0, expert_slope_s=-1, experts=4, top_k=0)


def test_sending_a_token_once_a_gpu_moves_less() -> None:
    """967.1 instead of 1,008 vectors of 128 tokens under EP64."""
    once = float(touched_units(sizes=[4] * 64, top_k=8)) * 63 / 64
    assert 128 * once == pytest.approx(967.1, abs=0.05)
    sizes = {"sequences": 128, "context_tokens": 4096, "ep": 64, "link": Link(0.0, 40e9)}
    pairs, merged = ep_decode(V3, H800, **sizes), ep_decode(V3, H800, copies=once, **sizes)
    assert merged.communication_s / pairs.communication_s == pytest.approx(128 * once / 1008)


def test_redundant_experts_let_gpus_outnumber_experts() -> None:
    """DeepSeek-V3's 320 GPUs with an expert each, and 144 with two: more replicas are read, never fewer."""
    sizes = {"sequences": 128, "context_tokens": 4096, "link": PORT}
    with pytest.raises(InstanceError, match="ep = 320: there are 256 experts"):
        ep_decode(V3, H800, ep=320, **sizes)
    wide = ep_decode(V3, H800, ep=320, slots=1, **sizes)
    assert wide.ffn_s <= ep_decode(V3, H800, ep=256, **sizes).ffn_s * (1 + 1e-9)
    assert ep_decode(V3, H800, ep=144, slots=2, **sizes).ffn_s >= ep_decode(V3, H800, ep=144, **sizes).ffn_s
    same = [ep_decode(V3, H800, ep=64, slots=s, **sizes) for s in (4, None)]
    assert same[0].total_s == pytest.approx(same[1].total_s)
    with pytest.raises(InstanceError, match=r"slots = 1: on 144 GPUs are fewer than 256 experts. Use at least 2"):
        ep_decode(V3, H800, ep=144, slots=1, **sizes)
