"""The search: what it reaches, what it does when it is cut short, and that its bytes depend on nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moeopt import placement
from moeopt.limits import Deadline, Limits
from moeopt.placement import METHODS, PlacementInstance
from moeopt.placement.heuristics.deep import Part, deepen
from moeopt.registry import Progress
from moeopt.result import Status, Stop
from tests import oracles


def test_search_keeps_groups_where_nodes_have_their_gpus_in_another_order() -> None:
    """A node's plan was once taken over for a node with the same GPUs in another order, which made it illegal."""
    rng = random.Random(1)
    for _ in range(40):
        instance = PlacementInstance(
            [[rng.randint(0, 30) for _ in range(12)]],
            slots=[1, 4, 4, 1, 1, 4],
            nodes=[0, 0, 1, 1, 2, 2],
            groups=6,
        )
        result = placement.solve(instance, method="search", limits=Limits(iterations=30, gap=0))
        assert placement.faults(instance, result.plan) == []
        (held,) = result.plan.slot_expert.tolist()
        assert result.objective == float(oracles.cost(instance, 0, held))
        assert result.incumbents[-1][1] == pytest.approx(result.objective)


def layered(num_layers: int = 4) -> PlacementInstance:
    rng = np.random.default_rng(5)
    return PlacementInstance(rng.zipf(1.6, (num_layers, 16)).clip(max=1000), gpus=4, slots=20)


def test_search_returns_its_best_plan_when_interrupted() -> None:
    seen: list[int] = []

    def stop_after_two(progress: Progress) -> None:
        seen.append(progress.done)
        if progress.done == 2:
            raise KeyboardInterrupt

    instance = layered()
    result = placement.solve(instance, method="search", on_progress=stop_after_two)
    assert seen == [1, 2]
    assert result.stop is Stop.INTERRUPTED
    assert placement.faults(instance, result.plan) == []
    baseline = placement.solve(instance, method="eplb")
    assert result.objective is not None and baseline.objective is not None
    assert result.objective <= baseline.objective


@pytest.mark.parametrize("place", ["balanced", "cheap", "deepen"])
def test_search_is_interrupted_at_any_point_without_another_error(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is any plan the interrupt goes on to the caller; afterwards the best plan comes back."""
    from moeopt.placement import bounds
    from moeopt.placement.heuristics import eplb, search

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    owner = {"balanced": eplb, "cheap": bounds, "deepen": search}[place]
    instance = layered()
    with monkeypatch.context() as patch:
        patch.setattr(owner, place, interrupt)
        if place == "balanced":
            with pytest.raises(KeyboardInterrupt):
                placement.solve(instance, method="search")
            return
        run = search.search(instance, _context())
    assert run.stop is Stop.INTERRUPTED
    assert run.plan is not None and placement.faults(instance, run.plan) == []


def _context() -> object:
    from moeopt.limits import Deadline
    from moeopt.registry import Context

    return Context(Limits(gap=0), 0, Deadline(None))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("time_s", [1e-6, 0.05])
def test_a_tiny_time_limit_still_gives_a_whole_legal_plan(method: str, time_s: float) -> None:
    rng = np.random.default_rng(1)
    instance = PlacementInstance(
        rng.zipf(1.5, (6, 64)).clip(max=10_000), gpus=16, slots=80, distinct=method != "eplb_raw"
    )
    if METHODS[method].applies(instance) is not None:
        return
    result = placement.solve(instance, method=method, limits=Limits(time_s=time_s))
    assert placement.faults(instance, result.plan) == []
    assert result.gap_worst_layer is not None
    assert (result.status is Status.OPTIMAL) == (result.gap_worst_layer <= 1e-9)


def test_a_search_without_time_says_so() -> None:
    result = placement.solve(layered(), method="search", limits=Limits(time_s=1e-6, gap=0))
    assert result.stop is Stop.TIME
    assert result.status is Status.FEASIBLE


@pytest.mark.parametrize("iterations", [0, 1, 7])
def test_search_keeps_its_iteration_limit(iterations: int) -> None:
    instance = layered(2)
    result = placement.solve(instance, method="search", limits=Limits(iterations=iterations, gap=0))
    assert result.iterations <= iterations * instance.num_layers
    assert placement.faults(instance, result.plan) == []


def test_progress_comes_layer_by_layer_and_incumbents_only_fall() -> None:
    seen: list[tuple[int, int]] = []
    result = placement.solve(
        layered(), method="search", limits=Limits(gap=0), on_progress=lambda p: seen.append((p.done, p.total))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    values = [objective for _, objective in result.incumbents]
    assert values == sorted(values, reverse=True)
    assert result.objective == pytest.approx(values[-1])


def test_a_smaller_gap_never_gives_a_worse_plan() -> None:
    instance = layered()
    loose, tight = (
        placement.solve(instance, method="search", limits=Limits(gap=gap)).objective for gap in (0.05, 0.0001)
    )
    assert loose is not None and tight is not None and tight <= loose


def test_search_does_not_run_in_circles_where_speeds_lie_far_apart() -> None:
    """Gains within the rounding of squared costs were taken for improvements, for ever."""
    instance = PlacementInstance(
        [[1922479, 0], [713, 0]],
        slots=[5] * 5,
        speed=[0.001, 1000.0, 0.001, 0.001, 1 / 3],
        fill="at_most",
        distinct=False,
        floor_tokens=2.0,
    )
    start = [
        [-1, -1, -1, 0, -1, -1, -1, -1, -1, 0, -1, 0, -1, -1, 1, -1, -1, -1, 1, -1, -1, 0, -1, -1, 1],
        [0, -1, -1, 1, -1, -1, 0, -1, -1, -1, -1, -1, 0, -1, 0, -1, 0, -1, 0, -1, -1, 1, -1, -1, -1],
    ]
    for row, held in enumerate(start):
        part = Part(
            instance.weights[row] / float(instance.ideal[row]),
            0.0,
            instance.slots,
            instance.speed,
            np.zeros((0, 0), dtype=np.int8),
            False,
            True,
        )
        found = deepen(part, np.array(held), 0.0, 0, rounds=25, deadline=Deadline(None))
        assert found.rounds == 25  # no descent used up the work of its layer


def test_free_split_is_never_worse_than_the_public_rule() -> None:
    """The search balances even parts; another hosting can have better shares, so the rule's hosting is tried too."""
    draw = np.random.default_rng(0)
    for _ in range(24):
        instance = PlacementInstance(draw.integers(0, 100, (2, 8)), gpus=4, slots=12, split="free")
        ours, rule = (placement.solve(instance, method=method) for method in ("search", "eplb"))
        for mine, theirs in zip(ours.solution["layers"], rule.solution["layers"], strict=True):
            assert mine["max_load"] <= theirs["max_load"] * (1 + 1e-9)
