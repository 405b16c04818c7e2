"""Steps of many shapes at once are the closed forms of `moeopt.cost`, shape by shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    Fabric,
    Machine,
    Split,
    attention_prefill,
    dense_ffn,
    ep_decode,
    expected_copies,
    helix_decode,
    lm_head,
    moe_ffn,
    normal_max_over_mean,
    staged_all_to_all_s,
    tp_decode,
)
from moeopt.cost.roofline import BF16, FP4, FP8, Numerics
from moeopt.llm import LlmFacts, find
from moeopt.llm.layer_kinds import LayerKind
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.communicate import bytes_of, copies_of, exchange, nodes_of
from moeopt.mesh.step.decode import Beside, Decoder
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller, portions
from moeopt.mesh.step.table import Setting, Table
from moeopt.mesh.workload import Workload

H800, H100 = GpuType.of("H800"), GpuType.of("H100")
UNEVEN = Imbalance("test", ((2, 0, 1.1), (16, 0, 1.3), (64, 0, 1.7), (64, 64, 1.2)))
CLOSE = 1e-12


def setting(
    llm: LlmFacts,
    gpu: GpuType,
    numerics: Numerics,
    imbalance: Imbalance | None = None,
    overhead_s: float = 1e-5,
    transport: str = "auto",
) -> Setting:
    return Setting(llm, gpu, numerics, imbalance or Imbalance.even(), overhead_s, transport)


def busiest(imbalance: Imbalance, shape: Shape, tokens: float) -> float:
    """Load of the busiest rank: of the table, and by chance where loads are not even."""
    if imbalance == Imbalance.even():
        return 1.0
    held, top_k = 256 + shape.redundant, 8
    spread = ((1 - 1 / shape.ep) * (held - top_k) / (held - 1)) ** 0.5
    chance = normal_max_over_mean(units=shape.ep, mean=tokens * top_k, spread=spread)
    return imbalance.at(shape.ep, shape.redundant) * chance


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("imbalance", [Imbalance.even(), UNEVEN])
def test_decode_is_ep_decode_where_attention_has_a_gpu_a_rank(dual: bool, imbalance: Imbalance) -> None:
    llm, apart = find("deepseek-v3"), replace(H800, domain_gpus=1, scale_up=None)
    assert apart.network is not None
    shapes = [Shape("decode", "H800", dp=ep, ep=ep, redundant=extra) for ep, extra in ((16, 0), (64, 64), (144, 32))]
    table = Table(setting(llm, apart, FP8, imbalance, transport="deepep-ll"), shapes)
    sequences = np.array([49.0, 155.0, 96.0])
    parts = Decoder(table, 4096).parts(sequences, dual=dual)
    for row, shape in enumerate(shapes):
        slots = (256 + shape.redundant) // shape.ep
        wanted = ep_decode(
            llm,
            apart.machine,
            sequences=sequences[row],
            context_tokens=4096,
            ep=shape.ep,
            link=apart.network,
            dispatch_bytes=7392 / 7168,
            copies=float(expected_copies(experts=256 + shape.redundant, top_k=8, gpus=shape.ep, nodes=shape.ep).nic),
            slots=slots,
            load=busiest(imbalance, shape, sequences[row] / (2 if dual else 1)),
            dual=dual,
        )
        found = parts[:, row]
        head = apart.machine.time_s(lm_head(llm, tokens=sequences[row], numerics=FP8))
        assert found[0] == pytest.approx(wanted.attention_s, rel=CLOSE)
        assert found[1] == pytest.approx(wanted.ffn_s, rel=CLOSE)
        assert found[2] == pytest.approx(wanted.communication_s, rel=CLOSE)
        assert found[3:].tolist() == pytest.approx([wanted.overhead_s, head, wanted.hidden_s], rel=CLOSE)


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    sequences=st.integers(1, 4000),
    context=st.integers(1, 20000),
    name=st.sampled_from(["mixtral-8x22b", "dbrx", "gpt-oss-20b", "llama-3-70b", "qwen3-235b-a22b"]),
)
def test_decode_is_tp_decode_where_one_group_does_all(tp: int, sequences: int, context: int, name: str) -> None:
    llm = find(name)
    if (llm.attention.kv_heads or 1) % tp and tp % (llm.attention.kv_heads or 1):
        return
    shape = Shape("colocated", "H100", tp=tp, moe_tp=1 if llm.dense else tp, dense_tp=tp)
    decoder = Decoder(Table(setting(llm, H100, BF16), [shape]), context)
    link = H100.scale_up if tp > 1 else None
    wanted = tp_decode(
        llm, H100.machine, sequences=sequences, context_tokens=context, tp=tp, link=link, head=True, numerics=BF16
    )
    found = decoder.parts(np.array([float(sequences)]))
    assert total_s(found)[0] == pytest.approx(wanted.total_s, rel=CLOSE)
    assert decoder.seconds(np.array([float(sequences)]))[0] == pytest.approx(wanted.total_s, rel=CLOSE)


@pytest.mark.parametrize("split", [Split(8, 8), Split(8, 8, ffn_gpus=8), Split(64), Split(4, 2), Split(1, 16)])
@pytest.mark.parametrize("sequences", [1, 7, 64])
def test_decode_is_helix_decode_in_a_rack(split: Split, sequences: int) -> None:
    llm, gb200 = find("llama-3.1-405b"), GpuType.of("GB200")
    shape = Shape("long", "GB200", tp=split.tpa, kvp=split.kvp, ffn_gpus=split.ffn_gpus, dense_tp=split.ffn)
    decoder = Decoder(Table(setting(llm, gb200, FP4, overhead_s=0.0), [shape]), 1e6)
    own = np.array([float(sequences)])
    sizes = {"sequences": sequences, "context_tokens": 1e6}
    plain, hidden = (helix_decode(llm, gb200.machine, split, hop_b=hop, **sizes) for hop in (False, True))
    assert decoder.seconds(own)[0] == pytest.approx(plain.total_s, rel=CLOSE)
    assert decoder.hop_b(own)[0] * (sequences - 1) / sequences == pytest.approx(hidden.hidden_s, rel=CLOSE, abs=1e-18)


def test_helix_with_experts_over_the_same_gpus() -> None:
    llm, gb200 = find("deepseek-r1"), GpuType.of("GB200")
    shape = Shape("long", "GB200", kvp=16, ep=4, moe_tp=4, dense_tp=16)
    decoder = Decoder(Table(setting(llm, gb200, FP4, overhead_s=0.0), [shape]), 1e6)
    found, machine = decoder.parts(np.array([8.0]))[:, 0], gb200.machine
    wanted = helix_decode(llm, machine, Split(1, 16, ep=4), sequences=8, context_tokens=1e6)
    assert found[0] == pytest.approx(wanted.attention_s, rel=CLOSE)
    assert found[2] == pytest.approx(wanted.communication_s, rel=CLOSE)
    # Helix splits shared experts as it splits experts, here they go over all GPUs of the FFN.
    routed = replace(llm, shared_experts=0)
    experts = moe_ffn(routed, tokens=8, ep=4, tp=4, numerics=FP4)
    sizes = {"tokens": 8, "hidden": llm.hidden or 0, "tp": 16, "numerics": FP4}
    shared = dense_ffn(width=(llm.shared_experts or 0) * (llm.shared_width or 0), **sizes)
    dense = machine.time_s(dense_ffn(width=llm.dense_width or 0, **sizes))
    assert found[1] == pytest.approx(58 * machine.time_s(experts + shared) + 3 * dense, rel=1e-9)


@given(st.integers(1, 500), st.sampled_from([0, 1, 3]), st.booleans())
def test_every_sequence_more_costs_time_and_brings_throughput(sequences: int, draft: int, dual: bool) -> None:
    llm = find("deepseek-v3")
    shapes = [
        Shape("decode", "H800", dp=144, ep=144, redundant=32),
        Shape("decode", "H800", tp=4, dp=80, ep=320, redundant=64, dense_tp=4),
        Shape("decode", "H800", tp=8, ep=8, pp=3),
        Shape("decode", "H800", dp=8, ep=4, moe_tp=2, pp=4),
    ]
    decoder = Decoder(Table(setting(llm, H800, FP8, UNEVEN), shapes), 3000)
    few, many = (decoder.tpot_s(np.full(4, n), draft=draft, mean=1.5, dual=dual) for n in (sequences, sequences + 1))
    assert np.all(many >= few)
    assert np.all((sequences + 1) / many >= sequences / few * (1 - CLOSE))
    seconds, parts = decoder.tpot(np.full(4, sequences), draft=draft, mean=1.5, dual=dual)
    assert seconds == pytest.approx(few, rel=CLOSE)
    assert total_s(parts) == pytest.approx(few, rel=CLOSE)


def test_a_pipeline_turns_at_the_pace_of_its_slowest_stage() -> None:
    llm = find("deepseek-v3")
    whole, cut = Shape("decode", "H800", dp=8, ep=8), Shape("decode", "H800", dp=8, ep=8, pp=61)
    one, many = (Decoder(Table(setting(llm, H800, FP8), [shape]), 4096) for shape in (whole, cut))
    layers = one.parts(np.array([16.0]))
    head = layers[4, 0]
    link = H800.network
    assert link is not None
    hop = link.alpha_s + 16 * 7168 * 2 / link.bytes_per_s
    slowest = many.seconds(np.array([16.0]))[0]  # one layer with experts, the head, and a hop
    plain = replace(llm, layers=1, dense_layers=(), moe_layers=(0,))
    single = Decoder(Table(setting(plain, H800, FP8), [whole]), 4096).seconds(np.array([16.0]))[0]
    assert slowest == pytest.approx(single + hop, rel=CLOSE)
    assert many.tpot_s(np.array([61 * 16]))[0] == pytest.approx(61 * slowest, rel=CLOSE)
    assert single > head


def test_the_all_to_all_of_prefill_is_two_stages_that_overlap() -> None:
    llm = find("deepseek-v3")
    table = Table(setting(llm, H800, FP8), [Shape("prefill", "H800", dp=32, ep=32)])
    lines = exchange(table, prefill=True)[:, 0]
    tokens = 4096
    found = max(lines[0] + lines[1] * tokens, lines[2] + lines[3] * tokens)
    sent, back = bytes_of(7168, FP8)
    copies = expected_copies(experts=256, top_k=8, gpus=32, nodes=4, merge="node", groups=8, top_groups=4)
    assert copies_of(table.setting, 256, 32, 4, "node") == copies
    many = 10**9  # chunks: only the longer stage is left
    times = [
        staged_all_to_all_s(tokens, fabric=Fabric.of("H800", 32), copies=copies, token_bytes=size, chunks=many)
        for size in (sent, back)
    ]
    assert found == pytest.approx(sum(times), rel=1e-8)


def test_within_a_domain_the_quicker_of_gathering_and_exchanging_counts() -> None:
    llm, shape = find("deepseek-v3"), Shape("decode", "H800", dp=8, ep=8)
    names = ("auto", "allgather", "deepep-ll")
    auto, gathered, exchanged = (
        Decoder(Table(setting(llm, H800, FP8, transport=name), [shape]), 4096) for name in names
    )
    for sequences in (1.0, 16.0, 256.0):
        own = np.array([sequences])
        assert auto.seconds(own)[0] == min(gathered.seconds(own)[0], exchanged.seconds(own)[0])


@pytest.mark.parametrize("portion", portions(Workload(3000, 100, cached=0.2), least=512))
@pytest.mark.parametrize("name", ["deepseek-v3", "gpt-oss-20b", "llama-3-70b"])
def test_prefill_of_one_gpu_is_its_operators_one_after_another(name: str, portion: Portion) -> None:
    llm = find(name)
    numerics, machine = served(llm, H100.machine), H100.machine
    prefiller = Prefiller(Table(setting(llm, H100, numerics), [Shape("prefill", "H100")]), Workload(3000, 100, 0.2))
    found = prefiller.step(portion)[:, 0]
    windowed, dense = set(llm.attention.windowed), set(llm.dense_layers)
    sizes = {"new_tokens": portion.tokens, "cached_tokens": portion.before, "sequences": portion.prompts}
    attention = sum(
        machine.time_s(
            attention_prefill(
                llm, window=llm.attention.window if layer in windowed else None, numerics=numerics, **sizes
            )
        )
        for layer in range(llm.layers)
    )
    ffn = 0.0
    for layer in range(llm.layers):
        if layer in dense:
            width = {"hidden": llm.hidden or 0, "width": llm.dense_width or 0}
            ffn += machine.time_s(dense_ffn(tokens=portion.chunk, numerics=numerics, **width))
        else:
            ffn += machine.time_s(moe_ffn(llm, tokens=portion.chunk, numerics=numerics))
    head = machine.time_s(lm_head(llm, tokens=portion.prompts / portion.rounds, numerics=numerics))
    assert found.tolist() == pytest.approx([attention, ffn, 0.0, llm.layers * 1e-5, head, 0.0], rel=CLOSE)


def test_chunks_cover_the_prompt_and_context_parallelism_splits_its_attention() -> None:
    for portion in portions(Workload(50_000, 10, cached=0.5)):
        assert portion.rounds * portion.tokens >= 25_000 > (portion.rounds - 1) * portion.tokens
        assert portion.before == pytest.approx(25_000 + (25_000 - portion.tokens) / 2)
    llm, workload = find("llama-3-70b"), Workload(16384, 10)
    shapes = [Shape("prefill", "H100", tp=2, cp=cp, dense_tp=2) for cp in (1, 2, 4)]
    prefiller = Prefiller(Table(setting(llm, H100, BF16), shapes), workload)
    ((weights, flops, moved),) = prefiller.attention(portions(workload)[-1], LayerKind())
    assert flops.tolist() == pytest.approx([flops[0], flops[0] / 2, flops[0] / 4])
    assert len(set(weights.tolist())) == len(set(moved.tolist())) == 1
    times = total_s(prefiller.step(portions(workload)[-1]))
    assert times[0] > times[1] > times[2] > times[0] / 4
    sent = prefiller.passed(portions(workload)[-1], LayerKind())
    assert sent[0] == 0 < sent[1]


def test_prefill_beside_decoding_costs_its_attention_and_its_tokens() -> None:
    llm, own = find("dbrx"), np.array([100.0])
    decoder = Decoder(Table(setting(llm, H100, BF16), [Shape("colocated", "H100", tp=8, moe_tp=8, dense_tp=8)]), 2000)
    plain = decoder.parts(own)
    nothing = decoder.parts(own, beside=Beside({LayerKind(): np.zeros(1)}, 0.0))
    more = decoder.parts(own, beside=Beside({LayerKind(): np.full(1, 1e-4)}, 512.0))
    assert nothing.tolist() == plain.tolist()
    assert more[0, 0] == pytest.approx(plain[0, 0] + 40 * 1e-4, rel=CLOSE)
    machine = H100.machine
    experts = machine.time_s(moe_ffn(llm, tokens=612, tp=8, numerics=BF16))
    assert more[1, 0] == pytest.approx(40 * experts, rel=1e-9)


@given(st.integers(1, 400), st.sampled_from([1, 4, 8, 72]))
def test_parts_of_a_group_are_the_fewest_that_fit_a_domain(gpus: int, domain: int) -> None:
    parts = nodes_of(gpus, domain)
    assert gpus % parts == 0 and gpus // parts <= domain
    assert all(gpus % fewer or gpus // fewer > domain for fewer in range(1, parts))


def test_numerics_follow_the_checkpoint_as_far_as_the_gpu_does() -> None:
    names = {name: served(find("deepseek-v3"), Machine.of(name)).ffn for name in ("H800", "A100", "B200")}
    assert names == {"H800": "fp8", "A100": "bf16", "B200": "fp8"}
    assert served(find("mixtral-8x7b"), Machine.of("H100"), kv="fp8") == Numerics("bf16", "fp8", "bf16", "bf16")
    assert served(find("mixtral-8x7b"), Machine.of("H100"), FP8, "fp8") == Numerics("fp8", "fp8", "bf16", "fp8")
