"""Sizes of meshes by both conventions, places of experts, stripes, the TP that pays, and when a layer is done."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    best_tp,
    completion_s,
    expert_at,
    expert_place,
    experts_per_rank,
    moved_experts,
    redundant_experts_bound,
    striped_positions,
    world_size,
)
from tests.cost.faults import names_all

degrees = st.integers(1, 12)
shapes = st.tuples(degrees, degrees).map(lambda pair: {"experts": pair[0] * pair[1], "ep": pair[0]})


@given(degrees, degrees, degrees, degrees, degrees, st.data())
def test_experts_have_gpus_of_their_own_or_share_those_of_attention(
    tp: int, pp: int, dp: int, cp: int, ep: int, data: st.DataObject
) -> None:
    attention = {"tp": tp, "pp": pp, "dp": dp, "cp": cp}
    gpus = prod(attention.values())
    assert world_size(**attention, ep=ep, ep_overlaps=False) == gpus * ep
    shared = data.draw(st.sampled_from([part for part in range(1, tp * dp * cp + 1) if tp * dp * cp % part == 0]))
    assert world_size(**attention, ep=shared, sp=tp, ep_overlaps=True) == gpus


def test_deepseek_shares_320_gpus_and_would_not_find_102400() -> None:
    shape: dict[str, Any] = {"tp": 4, "dp": 80, "ep": 320}
    assert world_size(**shape, ep_overlaps=True) == 320
    assert world_size(**shape, ep_overlaps=False) == 102_400
    message = names_all(lambda: world_size(tp=4, dp=80, ep=300, ep_overlaps=True), "ep")
    assert "Use 160 or 320" in message


@given(shapes, st.data())
def test_places_of_experts_are_a_bijection(shape: dict[str, int], data: st.DataObject) -> None:
    places = [expert_place(expert, **shape) for expert in range(shape["experts"])]
    assert len({*places}) == shape["experts"]
    assert [expert_at(*place, **shape) for place in places] == list(range(shape["experts"]))
    each = experts_per_rank(shape["experts"], ep=shape["ep"])
    assert {rank for rank, _ in places} == set(range(shape["ep"])) and {local for _, local in places} == set(
        range(each)
    )
    other = data.draw(st.sampled_from([ep for ep in range(1, shape["experts"] + 1) if shape["experts"] % ep == 0]))
    moved = moved_experts(experts=shape["experts"], old_ep=shape["ep"], new_ep=other)
    after = [expert_place(expert, experts=shape["experts"], ep=other) for expert in range(shape["experts"])]
    assert moved == [expert for expert in range(shape["experts"]) if places[expert][0] != after[expert][0]]
    assert not moved_experts(experts=shape["experts"], old_ep=shape["ep"], new_ep=shape["ep"])


def test_redundant_experts_are_counted_with_the_others() -> None:
    assert experts_per_rank(256, ep=144, redundant=32) == 2
    assert redundant_experts_bound(896, ranks=64) == 14
    assert redundant_experts_bound(256, ranks=144) == pytest.approx(16 / 9)


@given(st.integers(0, 200), st.integers(1, 16))
def test_stripes_hold_every_position_once_and_evenly(tokens: int, ranks: int) -> None:
    stripes = striped_positions(tokens, ranks=ranks)
    assert sorted(position for stripe in stripes for position in stripe) == list(range(tokens))
    assert max(map(len, stripes)) - min(map(len, stripes)) <= 1
    assert all(position % ranks == rank for rank, stripe in enumerate(stripes) for position in stripe)
    work = [sum(position + 1 for position in stripe) for stripe in stripes]  # causal: keys each query sees
    assert max(work) - min(work) <= tokens


@given(st.floats(0, 1), st.floats(0, 1e-3), st.floats(0, 1e-2))
def test_tensor_parallelism_stops_where_the_sum_is_least(compute: float, alpha: float, volume: float) -> None:
    def communicate(tp: int) -> float:
        return 2 * (tp - 1) * alpha + 2 * (tp - 1) / tp * volume

    found = best_tp(compute, degrees=(1, 2, 4, 8), communicate_s=communicate)
    assert found.times_s == {tp: compute / tp + communicate(tp) for tp in (1, 2, 4, 8)}
    assert found.time_s == min(found.times_s.values()) == found.times_s[found.tp]
    assert best_tp(compute, degrees=(8, 4, 2, 1), communicate_s=communicate) == found
    assert best_tp(compute, degrees=(1, 2, 4, 8), communicate_s=lambda tp: 0.0).tp == (8 if compute else 1)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8), st.floats(0, 1), st.floats(0, 1))
def test_a_layer_is_done_when_its_slowest_rank_is(ranks: list[tuple[float, float]], out: float, back: float) -> None:
    queue, compute = [pair[0] for pair in ranks], [pair[1] for pair in ranks]
    found = completion_s(dispatch_s=out, queue_s=queue, compute_s=compute, combine_s=back)
    assert found >= out + back + max(compute) - 1e-12
    assert found <= out + back + max(queue) + max(compute) + 1e-12
    turned = completion_s(dispatch_s=out, queue_s=queue[::-1], compute_s=compute[::-1], combine_s=back)
    assert turned == found


def test_bad_input_is_named_all_at_once() -> None:
    names_all(lambda: world_size(tp=0, pp=-1, dp=1.5, cp=True, ep=0, ep_overlaps=False), "tp", "pp", "dp", "cp", "ep")  # type: ignore[arg-type]
    names_all(lambda: world_size(tp=4, sp=2, ep_overlaps=False), "sp")
    names_all(lambda: experts_per_rank(0, ep=0, redundant=-1), "experts", "ep", "redundant")
    message = names_all(lambda: experts_per_rank(256, ep=144), "ep")
    assert "must divide experts + redundant = 256" in message
    names_all(lambda: redundant_experts_bound(0, ranks=0), "experts", "ranks")
    names_all(lambda: striped_positions(-1, ranks=0), "tokens", "ranks")
    names_all(lambda: expert_place(64, experts=64, ep=8), "expert")
    names_all(lambda: expert_place(-1, experts=64, ep=7), "expert", "ep")
    names_all(lambda: expert_at(8, 8, experts=64, ep=8), "rank")
    names_all(lambda: expert_at(0, 8, experts=64, ep=8), "local")
    names_all(lambda: moved_experts(experts=64, old_ep=7, new_ep=9), "old_ep", "new_ep")
    names_all(lambda: best_tp(-1, degrees=(), communicate_s=lambda tp: 0.0), "compute_s", "degrees")
    names_all(lambda: best_tp(1, degrees=(0, 2), communicate_s=lambda tp: 0.0), "degrees")
    names_all(lambda: best_tp(1, degrees=(1, 2), communicate_s=lambda tp: -1.0), "communicate_s")
    message = names_all(
        lambda: completion_s(dispatch_s=-1, queue_s=[0, -1], compute_s=[float("nan")], combine_s=-1),
        *("dispatch_s", "queue_s", "compute_s", "combine_s"),
    )
    assert "queue_s[1] = -1" in message and "compute_s has 1" in message
