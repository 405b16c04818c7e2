"""A function of one's own is a method in every problem, and an executor may be given by its words."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from moeopt import collocation, executors, mesh, microbatch, placement, replay, routing
from moeopt.bench import Grid, run_grid
from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.placement import PlacementInstance
from moeopt.registry import Problem

PLACED = PlacementInstance([[8, 4, 2, 2], [1, 1, 1, 5]], gpus=2, slots=6)
TIMES = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}
DEMAND = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(1024, 256, rate_per_s=1.0), mesh.Slo(tpot_s=0.05))
ROOMS: dict[str, tuple[Problem[Any, Any], Any, str]] = {
    "placement": (placement.PROBLEM, PLACED, "lpt"),
    "routing": (routing.PROBLEM, routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2), "even"),
    "collocation": (
        collocation.PROBLEM,
        collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2),
        "greedy",
    ),
    "microbatch": (microbatch.PROBLEM, microbatch.MicrobatchInstance(TIMES, layers=4, m=[2, 3]), "auto"),
    "mesh": (mesh.PROBLEM, mesh.MeshInstance([DEMAND], [mesh.GpuType.of("H100", stock=8)], "gpus"), "auto"),
}
HISTORY = PlacementInstance(np.array([[[8, 4, 2, 2]], [[2, 2, 4, 8]], [[2, 2, 8, 4]]]), gpus=2, slots=6)


def in_order(instance: PlacementInstance, limits: Any, seed: int) -> Any:
    """Experts in order, again and again."""
    return np.tile(np.arange(instance.num_slots) % instance.num_experts, (instance.num_layers, 1))


# --- functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROOMS)
def test_a_function_is_a_method_in_every_problem_and_is_judged_like_ours(name: str) -> None:
    room, instance, method = ROOMS[name]
    theirs = room.solve(instance, method=method)

    def mine(instance: Any, limits: Any, seed: int) -> Any:
        return theirs.plan

    before = dict(room.methods)
    result = room.solve(instance, method=mine)
    assert (result.method, result.objective) == ("mine", theirs.objective)
    unnamed = room.solve(instance, method=lambda instance, limits, seed: theirs.plan)
    assert (unnamed.method, unnamed.objective) == ("<lambda>", theirs.objective)
    compared = room.compare(instance, [method, mine, mine])
    assert [row.method for row in compared.rows] == [method, "mine"]
    assert compared.rows[1].result is not None and compared.rows[1].result.objective == theirs.objective
    assert room.methods == before  # nothing is kept


@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize("wrong", [3, None, ["lpt"], 1.5])
def test_what_is_neither_name_nor_function_is_refused_alike(name: str, wrong: Any) -> None:
    room, instance, _ = ROOMS[name]
    said = f"method = {wrong!r}: must be the name of a method, or a function of instance, limits and seed. "
    with pytest.raises(InstanceError) as caught:
        room.solve(instance, method=wrong)
    assert str(caught.value) == said + "Use a name such as 'auto', or give a function."
    with pytest.raises(InstanceError, match=r"methods = .*: must be the name of a method, or a function"):
        room.compare(instance, [wrong])


def test_a_function_with_the_name_of_the_house_or_of_another_is_refused_and_register_named() -> None:
    def search(instance: Any, limits: Any, seed: int) -> Any:
        return in_order(instance, limits, seed)

    with pytest.raises(InstanceError, match=r"house, 'search'\. Rename it, or name it: placement\.register\("):
        placement.solve(PLACED, method=search)
    with pytest.raises(InstanceError, match=r"methods = <function.*has the name of another one, '<lambda>'"):
        placement.compare(PLACED, [lambda one, limits, seed: [], lambda one, limits, seed: [[]]])
    with pytest.raises(InstanceError, match=r"methods = <function.*not one function\. Write \[function\]"):
        placement.compare(PLACED, in_order)  # type: ignore[arg-type]


def test_a_function_that_fails_is_a_row_with_its_reason() -> None:
    def broken(instance: Any, limits: Any, seed: int) -> Any:
        raise ValueError("no idea")

    (row,) = placement.compare(PLACED, [broken]).rows
    assert row.method == "broken" and row.reason == "the policy failed: ValueError: no idea"


def test_a_callable_without_a_name_goes_by_its_type() -> None:
    class Dealt:
        def __call__(self, instance: Any, limits: Any, seed: int) -> Any:
            return in_order(instance, limits, seed)

    assert placement.solve(PLACED, method=Dealt()).method == "Dealt"
    assert placement.solve(PLACED, method=partial(in_order)).method == "partial"


def test_a_replay_takes_functions_as_policies_and_as_the_first_placement() -> None:
    played = replay.replay(HISTORY, ["keep", in_order, "eplb@1"], first=in_order, max_moves="100%")
    assert [(row.policy, row.method) for row in played.rows][1] == ("in_order", "in_order")
    assert played.rows[1].figures is not None and played.first_method == "in_order"
    assert replay.faults(played.to_dict(), HISTORY) == []
    for wrong, said in ((3, "must be the name of a method, or a function"), ("serach", "Did you mean search?")):
        with pytest.raises(InstanceError) as caught:
            replay.replay(HISTORY, [wrong])  # type: ignore[list-item]
        assert said in str(caught.value)


def test_a_function_called_keep_is_not_taken_for_keeping_the_plan() -> None:
    def keep(instance: Any, limits: Any, seed: int) -> Any:
        return in_order(instance, limits, seed)

    with pytest.raises(InstanceError, match=r"has the name of keeping every plan, 'keep'\. Rename it"):
        replay.replay(HISTORY, [keep])


def test_functions_go_through_curves_layers_and_executors() -> None:
    want = placement.solve(PLACED, method=in_order).objective
    assert placement.solve_layers(PLACED, method=in_order, executor="threads:2").objective == want
    (result,) = executors.solve_many("placement", [PLACED], method=in_order, executor="threads:2")
    assert not isinstance(result, executors.Lost) and result.objective == want
    (row,) = placement.compare(PLACED, [in_order], executor="threads:2").rows
    assert row.result is not None and row.result.objective == want
    assert placement.slots_curve(PLACED, redundant=[2], method=in_order).points[0].redundant == 2


# --- executors by their words -----------------------------------------------------------------------------------------


CALLS: dict[str, Any] = {
    "solve_layers": lambda executor: placement.solve_layers(PLACED, method="lpt", executor=executor).objective,
    "solve_many": lambda executor: (
        executors.solve_many("placement", [PLACED], method="lpt", executor=executor)[0].objective
    ),
    "compare": lambda executor: placement.compare(PLACED, ["lpt"], executor=executor).rows[0].result.objective,
    "replay": lambda executor: replay.replay(HISTORY, ["eplb"], executor=executor).rows[0].figures.imbalance_mean,
    "run_all": lambda executor: dict(executors.run_all(len, ["ab"], executor)),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_executor_may_be_given_by_its_words(name: str) -> None:
    call = CALLS[name]
    assert call("threads:2") == call("serial") == call(None)
    with pytest.raises(InstanceError, match="Did you mean processes:2"):
        call("proceses:2")
    for wrong in (3, ["processes:2"], 2.5, b"serial"):
        with pytest.raises(InstanceError) as caught:
            call(wrong)
        said = str(caught.value)
        assert said.startswith(f"executor = {wrong!r}: must be an executor of concurrent.futures, a function that ")
        assert 'moeopt.executors.make_executor("processes:2")' in said


def test_what_makes_no_executor_is_refused() -> None:
    with pytest.raises(InstanceError, match=r"executor\(\) = 'processes:2': must make an executor"):
        placement.solve_layers(PLACED, method="lpt", executor=lambda: "processes:2")  # type: ignore[arg-type,return-value]
    with pytest.raises(InstanceError, match="executor = 3: must be words"):
        executors.make_executor(3)  # type: ignore[arg-type]


def test_a_grid_takes_words_too(tmp_path: Any) -> None:
    drawn = {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 1}
    grid = Grid(("lpt",), {"g2": {"gpus": 2, "slots": 4}}, {"drawn": drawn})
    assert run_grid(grid, tmp_path / "out", executor="threads:2").ran == 1
    with pytest.raises(InstanceError, match="executor = 3"):
        run_grid(grid, tmp_path / "other", executor=3)  # type: ignore[arg-type]
    assert not (tmp_path / "other").exists()
