"""Operators under the roofline: by hand, in their limits, and monotone in what they are given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    FP8,
    PEAK,
    Efficiency,
    Machine,
    Numerics,
    Work,
    attention_decode,
    attention_prefill,
    attention_sizes,
    compute_bound_batch,
    compute_bound_tokens,
    dense_ffn,
    expert_utilisation,
    kv_copies,
    lm_head,
    moe_ffn,
    operators_s,
    touched_experts,
    utilisation,
)
from moeopt.cost.layer_works import attended
from moeopt.errors import InstanceError
from moeopt.llm import Attention, catalogue, find, kv_bytes_per_token
from moeopt.llm.counts import parts_of

PLAIN = [
    name
    for name, facts in catalogue().items()
    if facts.attention.kind in ("mha", "gqa", "mqa", "mla")
    and not (facts.attention.linear or facts.attention.index_layers or facts.parallel_dense)
]
WORK = st.builds(Work, st.floats(0, 1e18), st.floats(0, 1e15))
H100 = Machine.of("H100")
TINY = replace(find("mixtral-8x7b"), name="tiny", hidden=4, attention=Attention("gqa", heads=4, kv_heads=2, head_dim=3))


@given(WORK, WORK, st.floats(0.01, 100))
def test_times_scale_and_fusing_never_takes_longer(one: Work, other: Work, factor: float) -> None:
    assert H100.time_s(Work(one.flops * factor, one.bytes * factor)) == pytest.approx(H100.time_s(one) * factor)
    both = operators_s(H100, [one, other])
    assert H100.time_s(one + other) <= both * (1 + 1e-12)
    assert H100.time_s(one) >= Machine.of("H100", efficiency=PEAK).time_s(one)
    assert 0 <= utilisation(H100, [one, other]) <= H100.efficiency.compute * (1 + 1e-12)
    assert (H100.bound(one) == "compute") == (H100.compute_s(one) == H100.time_s(one))


@pytest.mark.parametrize("name", PLAIN)
def test_weights_of_attention_are_those_that_moeopt_llm_counts(name: str) -> None:
    facts = find(name)
    sizes = attention_sizes(facts)
    assert sizes.weights * facts.layers == parts_of(facts).attention
    if not facts.attention.windowed and facts.attention.share == 1:
        assert sizes.kv_elements * 2 * facts.layers == kv_bytes_per_token(facts)


def test_decoding_by_hand() -> None:
    """Two sequences of five tokens, four heads of three, two of them cached, one GPU."""
    work = attention_decode(TINY, sequences=2, context_tokens=5)
    weights = 4 * 12 + 2 * (4 * 6) + 12 * 4
    assert work.flops == 2 * (2 * weights + 4 * 4 * 3 * 5)
    assert work.bytes == weights * 2 + 2 * 5 * (2 * 2 * 3) * 2


@given(st.sampled_from(["mixtral-8x22b", "llama-3.1-405b", "deepseek-v3"]), st.sampled_from([1, 2, 4, 8, 16]))
def test_splitting_heads_keeps_work_and_copies_caches_beyond_the_kv_heads(name: str, tp: int) -> None:
    facts = find(name)
    one = attention_decode(facts, sequences=8, context_tokens=1000, numerics=FP8)
    part = attention_decode(facts, sequences=8, context_tokens=1000, tp=tp, numerics=FP8)
    kv = kv_copies(facts, tp) / tp
    assert attention_sizes(facts, tp=tp).kv_elements == attention_sizes(facts).kv_elements * kv
    assert part.flops * tp >= one.flops * (1 - 1e-12)
    assert part.bytes * tp >= one.bytes * (1 - 1e-12)
    if kv_copies(facts, tp) == 1:
        assert part.bytes * tp == pytest.approx(one.bytes) and part.flops * tp == pytest.approx(one.flops)


@given(st.integers(0, 300), st.integers(0, 300), st.one_of(st.none(), st.integers(1, 400)))
def test_prefill_pairs_every_query_with_what_it_sees(new: int, cached: int, window: int | None) -> None:
    pairs = sum(min(cached + i, window or math.inf) for i in range(1, new + 1))
    work = attention_prefill(TINY, new_tokens=new, cached_tokens=cached, window=window)
    weights = attention_sizes(TINY).weights
    assert work.flops == pytest.approx(2 * weights * new + 4 * 4 * 3 * pairs)


@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from(["dbrx", "llama-3-70b"]))
def test_prefill_in_chunks_computes_the_same_and_reads_more(first: int, second: int, name: str) -> None:
    facts = find(name)
    whole = attention_prefill(facts, new_tokens=first + second)
    parts = [
        attention_prefill(facts, new_tokens=first),
        attention_prefill(facts, new_tokens=second, cached_tokens=first),
    ]
    assert sum(part.flops for part in parts) == pytest.approx(whole.flops)
    assert sum(part.bytes for part in parts) > whole.bytes


def test_prefill_of_one_token_is_one_step_of_decoding() -> None:
    step = attention_decode(TINY, sequences=1, context_tokens=8)
    chunk = attention_prefill(TINY, new_tokens=1, cached_tokens=7)
    assert (chunk.flops, chunk.bytes) == (step.flops, step.bytes)


@given(st.integers(0, 5000), st.sampled_from([1, 2, 8, 16]))
def test_experts_spread_over_gpus_do_the_same_work_in_all(tokens: int, ep: int) -> None:
    facts = find("deepseek-v3")
    one, part = (moe_ffn(facts, tokens=tokens, ep=degree, router=False) for degree in (1, ep))
    assert part.flops * ep == pytest.approx(one.flops)
    shared = 3 * 7168 * 2048 * 2
    assert (part.bytes - shared) * ep == pytest.approx(one.bytes - shared)
    assert one.bytes - shared == pytest.approx(touched_experts(experts=256, top_k=8, tokens=tokens) * shared)


def test_experts_in_their_limits() -> None:
    facts = find("mixtral-8x22b")
    nothing = moe_ffn(facts, tokens=0, router=False)
    assert (nothing.flops, nothing.bytes) == (0.0, 0.0)
    alone = moe_ffn(facts, tokens=1, router=False)
    dense = dense_ffn(tokens=1, hidden=6144, width=2 * 16384)
    assert alone.flops == dense.flops and alone.bytes == pytest.approx(dense.bytes)
    busy = moe_ffn(facts, tokens=100, ep=8, load=2.0, router=False)
    assert busy.flops == 2 * moe_ffn(facts, tokens=100, ep=8, router=False).flops
    assert moe_ffn(facts, tokens=9, ep=16, touched=1, router=False).bytes == 3 * 6144 * 16384 * 2
    assert lm_head(facts, tokens=3, tp=4).bytes == 6144 * 32000 * 2 / 4


@given(st.floats(1, 1e4), st.integers(1, 256), st.data())
def test_utilisation_is_full_from_the_compute_bound_batch_on(need: float, experts: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, experts))
    batch = compute_bound_batch(need, experts=experts, top_k=top_k)
    sizes = {"tokens_an_expert": need, "experts": experts, "top_k": top_k}
    assert expert_utilisation(batch=batch, **sizes) == pytest.approx(1.0)
    assert expert_utilisation(batch=batch / 4, **sizes) == pytest.approx(0.25)
    assert expert_utilisation(batch=batch * 4, **sizes) == 1.0


def test_the_compute_bound_tokens_balance_the_roofline() -> None:
    need = compute_bound_tokens(989e12, 3.35e12, 2.0, compute_efficiency=0.7, memory_efficiency=0.8)
    work = dense_ffn(tokens=need, hidden=4096, width=1024)
    assert H100.compute_s(work) == pytest.approx(H100.memory_s(work))


def test_windows_bound_what_is_attended() -> None:
    facts = find("gpt-oss-120b")
    tokens = attended(facts, 1000)
    assert tokens.count(128.0) == 18 and tokens.count(1000.0) == 18
    assert set(attended(facts, 100)) == {100.0}


def test_what_has_no_closed_form_is_refused() -> None:
    with pytest.raises(InstanceError, match="has no layer that keeps all tokens"):
        attention_decode(find("deepseek-v4-pro"), sequences=1, context_tokens=1)
    with pytest.raises(InstanceError, match="attention = unknown: is not known"):
        attention_decode(find("minimax-m1"), sequences=1, context_tokens=1)


def test_every_bad_number_is_named_at_once() -> None:
    with pytest.raises(InstanceError) as error:
        attention_decode(find("dbrx"), sequences=-1, context_tokens=math.inf, tp=5, kvp=0)
    assert {v.field for v in error.value.violations} == {"sequences", "context_tokens", "kvp", "tp"}
    with pytest.raises(InstanceError, match=r"tp = 5: must divide heads = 48. Use 4 or 6"):
        kv_copies(find("dbrx"), 5)
    with pytest.raises(InstanceError, match=r"tp = 3: must divide kv_heads = 8 or be a multiple of it. Use 1, 2, 4"):
        kv_copies(find("dbrx"), 3)
    with pytest.raises(InstanceError) as error:
        moe_ffn(find("dbrx"), tokens=math.nan, load=-1, ep=17, tp=0)
    assert {v.field for v in error.value.violations} == {"tokens", "load", "ep", "tp"}
    with pytest.raises(InstanceError, match=r"(?s)flops = -1.*bytes = nan"):
        Work(-1, math.nan)
    with pytest.raises(InstanceError, match=r"(?s)flops_per_s\[bf16\] = 0.*bytes_per_s = -1.*memory_bytes = 0"):
        Machine("mine", {"bf16": 0.0}, -1.0, 0.0)
    with pytest.raises(InstanceError, match=r"(?s)compute = 0.*usable_memory = 1\.1"):
        Efficiency(compute=0, usable_memory=1.1)
    with pytest.raises(InstanceError, match=r"A100: dtype = fp8: has no confirmed peak on this GPU. Use bf16 or int8"):
        Machine.of("A100").time_s(Work(1.0, 1.0, "fp8"))
    with pytest.raises(InstanceError, match="no source confirms it"):
        Machine.of("Ascend-910B")
    with pytest.raises(InstanceError, match=r"(?s)weights = int3.*kv = x"):
        Numerics("int3", "x")
    with pytest.raises(InstanceError, match="cannot fuse"):
        Work(1.0, 1.0) + Work(1.0, 1.0, "fp8")
    with pytest.raises(InstanceError, match=r"(?s)flops = 0.*bytes_per_s = nan.*compute_efficiency = 2"):
        compute_bound_tokens(0, math.nan, 2, compute_efficiency=2)
