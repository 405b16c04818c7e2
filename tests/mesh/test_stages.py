"""Stages against brute force and bounds; layers of a real LLM that differ."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import FP8, Machine
from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.mesh.layer_times import decode_layers
from moeopt.mesh.stages import METHODS, Layers, best_stages, even_counts, largest_first

costs = st.lists(st.integers(0, 20), min_size=1, max_size=9)
asked = costs.flatmap(
    lambda one: st.tuples(st.just(one), st.integers(1, len(one)), st.integers(0, 30), st.integers(0, 30))
)


def brute(layers: Layers, pp: int) -> tuple[float, float] | None:
    """Least slowest stage and, with it, least sum of squares, over all cuts."""
    total, found = len(layers.costs), []
    for cuts in combinations(range(1, total), pp - 1):
        stages = list(pairwise((0, *cuts, total)))
        ends = [(layers.first if s == 0 else 0) + (layers.last if e == total else 0) for s, e in stages]
        held = [sum(layers.costs[s:e]) + end for (s, e), end in zip(stages, ends, strict=True)]
        if layers.room is not None:
            sizes = [
                sum(layers.sizes[s:e]) + (layers.first_size if s == 0 else 0) + (layers.last_size if e == total else 0)
                for s, e in stages
            ]
            if max(sizes) > layers.room:
                continue
        found.append((float(max(held)), float(sum(one * one for one in held))))
    return min(found) if found else None


@given(asked)
def test_best_is_that_of_brute_force(case: tuple[list[int], int, int, int]) -> None:
    listed, pp, first, last = case
    layers = Layers(tuple(listed), first, last)
    found = best_stages(layers, pp)
    assert (found.slowest, sum(cost * cost for cost in found.costs)) == brute(layers, pp)


@given(asked, st.integers(1, 40))
def test_best_keeps_the_room_of_every_stage(case: tuple[list[int], int, int, int], room: int) -> None:
    listed, pp, first, last = case
    sizes = tuple(cost % 7 + 1 for cost in listed)
    layers = Layers(tuple(listed), first, last, sizes, 2, 3, room)
    wanted = brute(layers, pp)
    if wanted is None:
        with pytest.raises(InstanceError, match=f"no {pp} runs of layers fit"):
            best_stages(layers, pp)
        return
    assert best_stages(layers, pp).slowest == wanted[0]


@given(asked)
def test_stages_cover_every_layer_once_and_no_bound_is_broken(case: tuple[list[int], int, int, int]) -> None:
    listed, pp, first, last = case
    layers = Layers(tuple(listed), first, last)
    best = best_stages(layers, pp)
    for name, method in METHODS.items():
        found = method(layers, pp)
        assert found.method == name
        assert sorted(layer for stage in found.layers for layer in stage) == list(range(len(listed)))
        assert found.lower_bound <= found.slowest
        assert sum(found.costs) == sum(listed) + first + last
        if name != "lpt":
            assert found.contiguous
            assert min(found.counts) >= 1
            assert found.slowest >= best.slowest


@given(st.integers(1, 200), st.data())
def test_equal_layers_are_dealt_evenly(count: int, data: st.DataObject) -> None:
    pp = data.draw(st.integers(1, min(count, 12)))
    counts = best_stages(Layers((1,) * count), pp).counts
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1
    assert list(counts) == sorted(counts, reverse=True)


def test_head_takes_layers_off_the_last_stage() -> None:
    found = best_stages(Layers((1.0,) * 12, last=2.5), 4)
    assert found.counts == (4, 4, 3, 1)
    assert found.slowest == 4.0
    assert even_counts(Layers((1.0,) * 12, last=2.5), 4).slowest == 5.5


def test_layers_of_deepseek_v3_differ_and_its_stages_follow() -> None:
    llm, machine = find("deepseek-v3"), Machine.of("H800")
    layers = decode_layers(llm, machine, sequences=64, context_tokens=4096, ep=8, numerics=FP8)
    assert len(set(layers.costs)) == 2
    best, even = best_stages(layers, 4), even_counts(layers, 4)
    assert best.slowest <= even.slowest
    assert best.slowest >= best.lower_bound


def test_windowed_layers_cost_less() -> None:
    llm = find("gpt-oss-120b")
    layers = decode_layers(llm, Machine.of("H100"), sequences=64, context_tokens=8192)
    windowed = set(llm.attention.windowed)
    assert max(layers.costs[layer] for layer in windowed) < min(
        cost for layer, cost in enumerate(layers.costs) if layer not in windowed
    )


def test_largest_first_is_no_run_of_layers() -> None:
    layers = Layers((5, 1, 1, 1, 5, 1))
    assert largest_first(layers, 2).slowest == 7.0
    assert not largest_first(layers, 2).contiguous


def test_scale_and_fractions_are_exact() -> None:
    thirds = Layers((Fraction(1, 3),) * 9, last=Fraction(2, 3))
    assert best_stages(thirds, 3).counts == best_stages(Layers((1,) * 9, last=2), 3).counts
    assert best_stages(thirds, 3).slowest == float(Fraction(4, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"costs": ()}, "costs = none: there must be a layer"),
        ({"costs": (1, float("nan"))}, r"costs\[1\] = nan: must be a finite number >= 0"),
        ({"costs": (1,), "last": -1}, "last = -1: must be a finite number >= 0"),
        ({"costs": (1, 2), "room": 3}, "sizes = 0: must be as many as layers, 2, where there is a room"),
    ],
)
def test_broken_layers_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        Layers(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("pp", [0, 4, 1.5, True])
@pytest.mark.parametrize("method", METHODS)
def test_stages_without_a_layer_are_refused(pp: object, method: str) -> None:
    with pytest.raises(InstanceError, match="pp = "):
        METHODS[method](Layers((1, 2, 3)), pp)  # type: ignore[arg-type]
