"""The deep search kernel: legal, never worse than its start, the same steps however it is cut, compiled or not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moeopt.kernels import packing
from moeopt.kernels._jit import KERNELS, has_numba
from moeopt.limits import Deadline
from moeopt.placement import PlacementInstance, faults
from moeopt.placement.heuristics import deep
from moeopt.placement.plan import Placement


def random_part(rng: random.Random) -> tuple[deep.Part, PlacementInstance, np.ndarray]:
    """A part, the same as an instance for the referee, and a legal start."""
    num_experts, num_gpus, distinct = rng.randint(2, 14), rng.randint(2, 5), rng.random() < 0.7
    slots = [rng.randint(1, min(num_experts, 5)) for _ in range(num_gpus)]
    while sum(slots) < num_experts:
        slots = [min(count + 1, num_experts) for count in slots]
    loads = np.array([rng.choice([0.0, 1.0, 1.0, 3.0, rng.random() * 5]) for _ in range(num_experts)])
    loads[0] += 1.0
    speed = tuple(rng.choice([1.0, 1.0, 0.7]) for _ in slots)
    floor, empty = rng.choice([0.0, 0.0, 0.1]), rng.random() < 0.3
    loads /= loads.sum()
    part = deep.Part(loads, floor, tuple(slots), speed, np.zeros((0, 0), np.int8), distinct, empty)
    instance = PlacementInstance(
        loads[None, :],
        slots=slots,
        speed=speed,
        distinct=distinct,
        fill="at_most" if empty else "all",
        floor_tokens=floor,
        floor_rule="per_replica",
    )
    return part, instance, np.arange(sum(slots)) % num_experts


def test_deepening_is_legal_honest_and_never_worse_than_the_start() -> None:
    rng = random.Random(2)
    for seed in range(60):
        part, instance, start = random_part(rng)
        found = deep.deepen(part, start, 0.0, seed, rounds=30, deadline=Deadline(None))
        assert faults(instance, Placement.of(found.held)) == []
        assert found.cost <= part.cost(start)
        assert found.cost == pytest.approx(part.cost(found.held), rel=1e-9)


def test_layers_searched_in_one_call_get_the_plans_they_get_alone() -> None:
    rng = np.random.default_rng(4)
    loads, floors = rng.random((5, 12)), rng.choice([0.0, 0.05], 5)
    starts = np.array([rng.permutation(np.append(np.arange(12), [0, 4, 5])) for _ in range(5)])
    alone, part = [], None
    for row in range(5):
        part = deep.Part(
            loads[row], float(floors[row]), (5, 5, 5), (1.0, 1.0, 1.0), np.zeros((0, 0), np.int8), False, False
        )
        alone.append(deep.deepen(part, starts[row], 2.0, row, rounds=25, deadline=Deadline(None), step=2e-3))
    assert part is not None
    together = deep.deepen_layers(
        part,
        loads,
        floors,
        starts,
        np.full(5, 2.0),
        np.full(5, 2.0),
        list(range(5)),
        rounds=25,
        work=deep.WORK,
        step=2e-3,
    )
    for one, other in zip(alone, together, strict=True):
        assert one.held.tolist() == other.held.tolist()
        assert (one.cost, one.rounds) == (other.cost, other.rounds)


def test_cutting_a_search_into_several_calls_changes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    for seed in range(30):
        part, _, start = random_part(rng)
        answers = []
        for chunk in (1, 4, 32):
            monkeypatch.setattr(deep, "CHUNK_COMPILED", chunk)
            monkeypatch.setattr(deep, "CHUNK_INTERPRETED", chunk)
            found = deep.deepen(part, start, 0.0, seed, rounds=40, deadline=Deadline(None))
            answers.append((found.held.tolist(), found.cost, found.rounds))
        assert answers[0] == answers[1] == answers[2]


def test_the_search_stops_at_its_goal_its_rounds_or_its_work() -> None:
    part, _, start = random_part(random.Random(4))
    already = deep.deepen(part, start, part.cost(start), 0, deadline=Deadline(None))
    assert (already.rounds, already.cost) == (0, part.cost(start))
    assert deep.deepen(part, start, 0.0, 0, rounds=5, deadline=Deadline(None)).rounds == 5
    assert deep.deepen(part, start, 0.0, 0, work=1.0, deadline=Deadline(None)).rounds == 1
    assert deep.deepen(part, start, 0.0, 0, deadline=Deadline(1e-9)).out_of_time


def test_the_generator_stays_in_range_and_repeats() -> None:
    rng = np.array([1], dtype=np.int64)
    first = [packing.draw(rng, 7) for _ in range(1000)]
    assert set(first) == set(range(7))
    rng[0] = 1
    assert [packing.draw(rng, 7) for _ in range(1000)] == first


@pytest.mark.skipif(not has_numba(), reason="needs the extra fast")
def test_every_kernel_compiles_and_knows_when_it_is_ready() -> None:
    part, _, start = random_part(random.Random(5))
    deep.deepen(part, start, 0.0, 0, rounds=1, deadline=Deadline(None))
    assert packing.improve.ready()
    assert all(kernel.__doc__ for kernel in KERNELS)


def test_interpreted_throughout_takes_the_same_steps_as_compiled() -> None:
    """Under a short time limit the kernel runs interpreted although numba is there."""
    rng = np.random.default_rng(5)
    loads = rng.integers(1, 100, 12).astype(float)
    layer = packing.Layer(
        loads,
        0.0,
        np.repeat(np.arange(4), 4),
        np.arange(0, 17, 4),
        np.ones(4),
        np.zeros((0, 0), dtype=np.int8),
        True,
        4,
        -1,
        np.zeros(4),
        np.ones(12, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        1,
    )
    outcomes = []
    for run in (packing.improve, packing.improve.plain()):
        base = np.concatenate([np.arange(12), [0, 4, 5, 1]]).astype(np.int64)[
            [0, 1, 2, 12, 3, 4, 5, 13, 6, 7, 8, 14, 9, 10, 11, 15]
        ]
        best, memory = base.copy(), packing.remember()
        seed = np.array([11], dtype=np.int64)
        done = run(layer, base, best, 0.0, 0.0, 20, 1e6, memory, seed)
        outcomes.append((done, base.tolist(), best.tolist(), memory.tobytes(), seed.tolist()))
    assert outcomes[0] == outcomes[1]
