"""Equal split: every GPU exactly its part, within its slots, with the fewest copies where that can be told."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import placement
from moeopt.errors import NotApplicable
from moeopt.kernels.subset_sum import subset
from moeopt.limits import Deadline, Limits
from moeopt.placement import PlacementInstance, faults
from moeopt.placement.heuristics.equal_split import LayerSplit, split_layer
from moeopt.placement.heuristics.equal_trees import cut, fewest_extra, partition
from moeopt.result import Status

FREE = {"split": "free", "fill": "at_most"}


def most_trees(loads: list[int], gpus: int, slots: int) -> int | None:
    """Most sets in a partition of experts and GPUs with equal sums and room, by listing all set partitions."""
    best = None
    for blocks in _partitions(list(range(len(loads)))):
        sizes = []
        for block in blocks:
            k = Fraction(sum(loads[e] for e in block) * gpus, sum(loads))
            if k.denominator > 1 or k == 0 or len(block) + k - 1 > slots * k:
                break
            sizes.append(k)
        else:
            best = max(best or 0, len(blocks))
    return best


def _partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    first, found = items[0], []
    for rest in _partitions(items[1:]):
        found.append([[first], *rest])
        for place in range(len(rest)):
            found.append([*rest[:place], [first, *rest[place]], *rest[place + 1 :]])
    return found


def check(instance: PlacementInstance, row: int, split: LayerSplit) -> None:
    """Exactly equal, within slots, every token of every expert, no pair twice."""
    loads = [max(Fraction(value), instance.floor) for value in instance.loads[row].tolist()]
    gpus = [gpu for gpu in range(instance.num_gpus) if gpu not in instance.gone]
    pairs = [(expert, gpu) for expert, gpu, _ in split.parts]
    assert len(set(pairs)) == len(pairs) and {expert for expert, _ in pairs} == set(range(len(loads)))
    used = Counter(gpu for _, gpu in pairs)
    assert all(used[gpu] <= instance.slots[gpu] for gpu in range(instance.num_gpus))
    for expert, load in enumerate(loads):
        assert sum(amount for e, _, amount in split.parts if e == expert) == load
    for gpu in gpus:
        mine = sum((amount for _, g, amount in split.parts if g == gpu), Fraction(0))
        assert mine == instance.ideal[row] * Fraction(instance.speed[gpu])
    assert split.extra_copies == len(pairs) - len(loads)
    assert split.extra_copies >= split.extra_copies_fewest >= 0


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 5))
def test_the_fewest_copies_and_impossibility_are_those_of_all_partitions(
    loads: list[int], gpus: int, slots: int
) -> None:
    if slots > len(loads) or slots * gpus < len(loads):
        return
    instance = PlacementInstance([loads], gpus=gpus, slots=slots * gpus, **FREE)
    busy = [load for load in loads if load]
    try:
        split = split_layer(instance, 0)
    except NotApplicable as error:
        assert "no equal split exists" in str(error)
        trees = most_trees(busy, gpus, slots)
        assert trees is None or len(loads) + gpus - trees > slots * gpus
        assert slots < 1 + -(-(len(loads) - 1) // gpus)  # the number that always does is named
        return
    check(instance, 0, split)
    if busy:
        trees = most_trees(busy, gpus, slots)
        assert trees is not None and split.extra_copies == split.extra_copies_fewest == gpus - trees


@given(st.lists(st.integers(1, 1000), min_size=13, max_size=60), st.integers(1, 12))
def test_one_slot_more_than_the_share_always_does(loads: list[int], gpus: int) -> None:
    slots = 1 + -(-(len(loads) - 1) // gpus)
    if slots > len(loads):
        return
    instance = PlacementInstance([loads], gpus=gpus, slots=slots * gpus, **FREE)
    split = split_layer(instance, 0)
    check(instance, 0, split)
    assert split.extra_copies <= gpus - 1
    assert split.extra_copies_fewest <= fewest_extra(loads, gpus) or split.extra_copies == split.extra_copies_fewest


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=10),
    st.lists(st.sampled_from([1.0, 2.0, 0.5, 0.1]), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_gpus_that_differ_get_parts_by_their_speed(loads: list[int], speed: list[float], more: int) -> None:
    slots = [min(len(loads), -(-len(loads) // len(speed)) + more + gpu % 2) for gpu in range(len(speed))]
    instance = PlacementInstance([loads], slots=slots, speed=speed, **FREE)
    try:
        check(instance, 0, split_layer(instance, 0))
    except NotApplicable as error:
        assert "no equal split" in str(error)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(1, 120), st.integers(1, 4), st.integers(0, 6))
def test_subset_sums_of_few_numbers_are_all_found(values: list[int], target: int, low: int, more: int) -> None:
    falling = np.array(sorted(values, reverse=True))
    found = subset(falling, target, (low, low + more))
    possible = any(
        int(falling[0]) + sum(falling[1 + place] for place in picked) == target
        for size in range(max(low, 1) - 1, min(low + more, len(values)))
        for picked in itertools.combinations(range(len(values) - 1), size)
    )
    assert (found is not None) == possible
    if found is not None:
        assert found[0] == 0 and int(falling[found].sum()) == target and low <= len(found) <= low + more


def test_trees_at_size_meet_the_floor_of_the_greatest_common_divisor() -> None:
    rng = np.random.default_rng(1)
    loads = rng.integers(1, 20_000, 256)
    loads[0] += -int(loads.sum()) % 8
    loads[0] += 8 if int(loads.sum()) % 16 == 0 else 0  # gcd with 32 GPUs is exactly 8
    found = partition(loads.tolist(), 32, 9, Deadline(None))
    assert found is not None and len(found.gpus) == 8 and found.most
    assert fewest_extra(loads.tolist(), 32) == 24


def test_pieces_are_cut_in_sorted_runs() -> None:
    assert cut([4, 4], [2, 2, 2, 2], [1, 1, 1, 1]) == [(0, 0, 2), (0, 1, 2), (1, 2, 2), (1, 3, 2)]
    assert cut([9, 1, 1, 1], [6, 6], [1, 4]) == [(0, 0, 6), (1, 1, 1), (2, 1, 1), (3, 1, 1), (0, 1, 3)]
    assert cut([9, 1, 1, 1], [6, 6], [1, 3]) is None


def test_the_method_is_optimal_and_says_how_many_copies() -> None:
    loads = [[8, 4, 2, 2], [5, 3, 1, 1], [0, 0, 0, 0]]
    instance = PlacementInstance(loads, gpus=2, slots=6, **FREE)
    result = placement.solve(instance, method="equal_split")
    assert result.status is Status.OPTIMAL and result.solution["imbalance_mean"] == pytest.approx(1, abs=1e-12)
    assert result.solution["equal_split"] == {"extra_copies": [0, 0, 0], "extra_copies_fewest": [0, 0, 0]}
    assert faults(instance, result.plan) == [] and result.plan.shares is not None
    assert "the fewest there can be" in "; ".join(result.notes)
    one = placement.solve(PlacementInstance([[6, 3]], gpus=3, slots=3, **FREE), method="equal_split")
    assert one.solution["equal_split"]["extra_copies"] == [1]


def test_gpus_that_are_gone_get_nothing() -> None:
    instance = PlacementInstance([[6, 3, 3]], gpus=3, slots=6, lost=[1], **FREE)
    split = split_layer(instance, 0)
    check(instance, 0, split)
    assert {gpu for _, gpu, _ in split.parts} == {0, 2}


def test_where_it_cannot_work_it_says_why_and_what_would() -> None:
    def refusal(loads: list[int], **rules: object) -> str:
        with pytest.raises(NotApplicable) as caught:
            placement.solve(PlacementInstance([loads], **(FREE | rules)), method="equal_split")
        return str(caught.value)

    assert "fill='at_most'" in refusal([1, 1], gpus=2, slots=2, fill="all")
    assert "split='free'" in refusal([1, 1], gpus=2, slots=2, split="even")
    assert "floor per replica" in refusal([1, 1], gpus=2, slots=2, floor_rule="per_replica", floor_tokens=3)
    tight = refusal([3, 2, 2], gpus=3, slots=3)
    assert "1 slots a GPU no equal split exists" in tight and "2 a GPU (6 in all) always do" in tight
    assert "has no slots" in refusal([1, 1], slots=[2, 0])
    assert "no pin" in refusal([1, 1], gpus=2, slots=4, pin=[(0, 0)])
    fast = refusal([1, 1, 1, 1], slots=[3, 1], speed=[1, 3])
    assert "no equal split exists" in fast and "75.0 %" in fast


def test_large_layers_keep_their_deadline() -> None:
    loads = np.random.default_rng(2).integers(1, 10**6, (1, 4096))
    instance = PlacementInstance(loads, gpus=1024, slots=5 * 1024, **FREE)
    result = placement.solve(instance, method="equal_split", limits=Limits(time_s=0.05))
    assert result.status is Status.OPTIMAL and result.solution["equal_split"]["extra_copies"][0] <= 1023
