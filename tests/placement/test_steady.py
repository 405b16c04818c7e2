"""Same seed, same bytes: in this process, in a fresh one, compiled or interpreted, whatever the order of hashes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import placement
from moeopt.limits import Limits
from moeopt.placement import METHODS, PlacementInstance
from tests import strategies

LIMITS = Limits(iterations=20, nodes=50)
QUICK = [name for name, method in METHODS.items() if method.claim in ("baseline", "heuristic")]
"""The others may start a solver's process."""
SMALL = 32
"""(Expert, GPU) pairs up to which they are asked."""

ROOT = Path(__file__).parents[2]


def examples() -> list[PlacementInstance]:
    """Ties and equal GPUs, groups on nodes, floors, pins, empty slots, speeds, free shares."""
    rng = np.random.default_rng(3)
    rows = rng.zipf(1.5, (2, 12)).clip(max=500)
    return [
        PlacementInstance([[3, 3, 3, 3, 2, 2, 2, 1]], gpus=4, slots=12),
        PlacementInstance(rows, gpus=4, slots=16, nodes=2, groups=4),
        PlacementInstance(rows, gpus=4, slots=16, distinct=False, floor_tokens=20, floor_rule="per_replica"),
        PlacementInstance(rows / 7, slots=[5, 3, 4, 4], speed=[1, 0.5, 2, 1], fill="at_most", pin=[(0, 1)]),
        PlacementInstance(rows, gpus=3, slots=15, split="free", names=[f"e{i}" for i in range(12)]),
        PlacementInstance([[9, 5, 5, 1]], gpus=4, slots=8),
        PlacementInstance([[9.5, 5, 5, 1]], gpus=3, slots=6, split="free"),
        PlacementInstance([[9, 5, 5, 1]], slots=[3, 2, 1], speed=[1, 2, 1], fill="at_most"),
    ]


def answers(methods: list[str]) -> str:
    """Canonical documents of all examples by all methods that apply, one a line; solvers get the small examples."""
    lines = []
    for place, instance in enumerate(examples()):
        for method in methods:
            fits = method in QUICK or instance.num_experts * instance.num_gpus <= SMALL
            if METHODS[method].applies(instance) is None and fits:
                result = placement.solve(instance, method=method, limits=LIMITS, seed=7)
                lines.append(f"{place} {method} {result.canonical().decode()}")
    return "\n".join(lines)


def test_the_same_seed_gives_the_same_bytes_twice() -> None:
    assert answers(list(METHODS)) == answers(list(METHODS))


@pytest.mark.parametrize(
    ("environment", "methods"),
    [({"PYTHONHASHSEED": "1"}, list(METHODS)), ({"PYTHONHASHSEED": "2", "MOEOPT_INTERPRET": "1"}, QUICK)],
    ids=["another hash order", "interpreted"],
)
def test_the_same_seed_gives_the_same_bytes_in_a_fresh_process(environment: dict[str, str], methods: list[str]) -> None:
    code = f"import sys; from tests.placement.test_steady import answers; sys.stdout.write(answers({methods!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == answers(methods)


def test_threads_and_event_loops_give_the_same_bytes_as_a_solve_alone() -> None:
    alone = answers(QUICK)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(answers, [QUICK, QUICK])) == [alone, alone]

    async def both() -> list[str]:
        return list(await asyncio.gather(asyncio.to_thread(answers, QUICK), asyncio.to_thread(answers, QUICK)))

    assert asyncio.run(both()) == [alone, alone]


def test_another_seed_reaches_a_plan_of_its_own_and_says_which_seed() -> None:
    instance = examples()[1]
    one, two = (placement.solve(instance, method="search", limits=LIMITS, seed=seed) for seed in (1, 2))
    assert (one.seed, two.seed) == (1, 2)


@settings(max_examples=30)
@given(strategies.instances(max_layers=2))
def test_solving_leaves_the_instance_as_it_was(instance: PlacementInstance) -> None:
    before, digest = instance.to_dict(), instance.sha256
    for method in QUICK:
        if METHODS[method].applies(instance) is None:
            placement.solve(instance, method=method, limits=LIMITS)
    assert instance.to_dict() == before
    assert PlacementInstance.from_dict(before).sha256 == digest


def test_the_caller_may_change_what_was_given_and_returned() -> None:
    loads = np.array([[4, 3, 2, 1]])
    slots, speed, nodes, groups, llm = [2, 2], [1.0, 1.0], [0, 0], [0, 0, 1, 1], {"name": "a", "experts": {"count": 4}}
    pin = [[0, 0]]
    instance = PlacementInstance(loads, slots=slots, speed=speed, nodes=nodes, groups=groups, llm=llm, pin=pin)
    before = PlacementInstance.from_dict(instance.to_dict()).sha256
    loads[0, 0] = 99
    slots[0] = speed[0] = nodes[0] = groups[0] = 7
    pin[0][0] = 3
    llm["name"] = "b"
    llm["experts"]["count"] = 5
    document = instance.to_dict()
    document["loads"][0][0] = 99
    document["llm"]["experts"]["count"] = 6
    document["slots"].append(1)
    assert instance.sha256 == before
    assert instance.to_dict()["llm"] == {"name": "a", "experts": {"count": 4}}
    with pytest.raises(ValueError, match="read-only"):
        instance.loads[0, 0] = 1


def test_a_plan_given_as_a_warm_start_is_not_changed_and_not_kept() -> None:
    instance = PlacementInstance([[4, 3, 2, 1]], gpus=2, slots=4)
    start = np.array([[0, 1, 2, 3]])
    result = placement.solve(instance, method="search", warm_start=start)
    assert start.tolist() == [[0, 1, 2, 3]]
    held = result.plan.slot_expert.tolist()
    start[:] = 0
    assert result.plan.slot_expert.tolist() == held
    with pytest.raises(ValueError, match="read-only"):
        result.plan.slot_expert[0, 0] = 1
