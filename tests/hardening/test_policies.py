"""What somebody's policy does to its instance, its folder and its words harms nobody else."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import collocation, mesh, microbatch, placement, replay, routing
from moeopt.errors import InstanceError, PlanError
from moeopt.limits import Limits
from moeopt.llm import find
from tests.fuzz.kinds import run

LOADS = [[10, 9, 5, 4, 2, 1], [7, 3, 3, 2, 2, 1]]


def in_order(instance: Any) -> list[list[int]]:
    return [[slot % instance.num_experts for slot in range(instance.num_slots)]] * instance.num_layers


def writes(instance: Any, limits: Any, seed: int) -> Any:
    instance.loads[:] = 0
    return in_order(instance)


def unlocks(instance: Any, limits: Any, seed: int) -> Any:
    instance.loads.flags.writeable = True
    instance.loads[:] = 0
    return in_order(instance)


def leaves(instance: Any, limits: Any, seed: int) -> Any:
    os.chdir("/")
    return in_order(instance)


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def silent(instance: Any, limits: Any, seed: int) -> Any:
    raise Silent


@pytest.mark.parametrize("policy", ["writes", "unlocks"])
def test_a_policy_cannot_change_the_loads_it_is_judged_by(policy):
    """One that made them writable and zero was called OPTIMAL with 0 tokens, and so were all others."""
    instance = placement.PlacementInstance(LOADS, gpus=3, slots=6)
    digest = instance.sha256
    rows = placement.compare(instance, [f"{__name__}:{policy}", "contiguous"]).rows
    assert rows[0].result is None and "the policy failed: ValueError" in str(rows[0].reason)
    assert rows[1].result.objective == 29.0  # 10 + 9 and 7 + 3
    assert instance.loads.tolist() == LOADS
    assert placement.PlacementInstance(instance.loads, gpus=3, slots=6).sha256 == digest


def test_nor_the_loads_of_a_routing():
    instance = routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    with pytest.raises(ValueError, match="WRITEABLE"):
        routing.solve(instance, method=f"{__name__}:unlocks")
    assert instance.loads.tolist() == [[9, 4, 2]]


def test_nor_in_a_worker_where_arrays_come_writable_out_of_a_pickle():
    """There it ended as a fault of moeopt (compare), or passed in silence (replay)."""
    windows = np.array([LOADS] * 3)
    history = placement.PlacementInstance(windows, gpus=3, slots=6)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        names = [f"{__name__}:writes", "contiguous"]
        rows = placement.compare(placement.PlacementInstance(LOADS, gpus=3, slots=6), names, executor=executor).rows
        played = replay.replay(history, ["keep", f"{__name__}:writes"], first="contiguous", executor=executor)
    assert "read-only" in str(rows[0].reason) and rows[1].result.objective == 29.0
    assert "read-only" in str(played.rows[1].reason)


def test_nor_anything_else_of_the_instance_it_is_judged_by():
    """Times, nodes and configurations that a policy had changed were those that its plan was judged by."""

    def faster(instance: Any, limits: Any, seed: int) -> Any:
        for name in instance.times:
            instance.times[name] = microbatch.Constant(1)
        return (4, 4)

    times = microbatch.MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=4, m=[4])
    assert microbatch.solve(times, method=faster).objective == microbatch.solve(times, method="search").objective

    def cheaper(instance: Any, limits: Any, seed: int) -> Any:
        for config in instance.configs:
            config.gpus["H100"] = 1
        return {0: 8}

    listed = (mesh.Config(0, "colocated", mesh.Shape("colocated", "H100"), 1, {"H100": 4}, 10.0, 10.0, tpot_s=0.01),)
    demand = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(100, 10))
    bought = mesh.MeshInstance(
        (demand,), (mesh.GpuType.of("H100", stock=8),), "goodput", ("colocated",), configs=listed
    )
    with pytest.raises(PlanError, match="the stock is 8"):
        mesh.solve(bought, method=cheaper)

    def elsewhere(instance: Any, limits: Any, seed: int) -> Any:
        assert instance.num_gpus == 4
        instance.gpu_of_slot[:] = [0, 1, 2, 3, 0, 1, 2, 3]
        return [[0, 0, 0, 0, 1, 2, 3, 1]]

    placed = placement.PlacementInstance([[8, 4, 2, 2]], gpus=4, slots=8)
    with pytest.raises(PlanError, match="GPU 0 holds expert 0 twice"):
        placement.solve(placed, method=elsewhere)
    assert placed.gpu_of_slot.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def rewrites(instance: Any, limits: Any, seed: int) -> Any:
    """Writes ones into every array it can reach, and loosens the limits."""
    for value in list(vars(instance).values()):
        while isinstance(value, np.ndarray):
            with contextlib.suppress(ValueError):
                value.flags.writeable = True
                value[...] = 1
            value = value.base
    object.__setattr__(limits, "gap", 0.99)
    return in_order(instance)


@pytest.mark.parametrize("words", [None, "threads:2", "processes:2"])
def test_what_a_policy_writes_reaches_nobody_else(words: str | None):
    """By the arrays' owners it rewrote the loads of its caller: all methods after it were judged by those."""
    instance, limits = placement.PlacementInstance(LOADS, gpus=3, slots=6), Limits(iterations=3)
    names = [f"{__name__}:rewrites", "contiguous", "lpt"]
    rows = placement.compare(instance, names, limits=limits, executor=words).rows
    honest = placement.evaluate(instance, in_order(instance)).objective
    assert [row.result.objective for row in rows[:2]] == [float(honest), 29.0]
    assert instance.loads.tolist() == LOADS and limits.gap is None


def test_a_routing_that_shows_other_columns_than_its_shares_is_judged_by_these():
    instance = routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)

    def lies(instance: Any, limits: Any, seed: int) -> Any:
        columns = [(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 1.0]))]
        plan = routing.Routing.of_columns(columns)
        for held in (columns[0][2], plan.columns(0)[2]):
            held[:] = [7 / 18, 11 / 18, 1, 1]
        return plan

    assert routing.solve(instance, method=lies).objective == 13.0
    for shares in (None, iter(()), (("a", "b"),), (((0, 0),),), (((0, 0, "x"),),)):
        with pytest.raises(PlanError):
            routing.Routing(shares)


def test_plans_of_policies_are_copies_in_every_room():
    kept: list[Any] = []

    def keeps(plan: Any) -> Any:
        kept.append(plan)
        return lambda instance, limits, seed: plan

    trace = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
    result = collocation.solve(trace, method=keeps(collocation.Collocation.of([0, 2, 1, 3])))
    kept[-1].slot_expert.flags.writeable = True
    kept[-1].slot_expert[:] = [[0, 1, 2, 3]]
    assert result.plan.slot_expert.tolist() == [[0, 2, 1, 3]]

    class Any2(int):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    times = microbatch.MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=4, m=[2, 4])
    with pytest.raises(PlanError, match="candidates"):
        microbatch.solve(times, method=keeps(microbatch.MicrobatchPlan(Any2(1), Any2(3))))
    whole = microbatch.solve(times, method=keeps(microbatch.MicrobatchPlan(np.int64(2), np.uint8(2))))
    assert whole.plan == microbatch.MicrobatchPlan(2, 2) and whole.to_json()


@pytest.mark.parametrize("own", [False, True])
def test_a_plan_that_is_written_to_after_it_was_counted_is_judged_as_it_is(own: bool):
    def drops(instance: Any, limits: Any, seed: int) -> Any:
        table = np.array([[0, 1, 0, 1, 0, 2, 0, 3]], dtype=np.int32)
        plan = placement.Placement(table)
        placement.evaluate(instance, plan)
        held = plan.slot_expert if own else table
        held.flags.writeable = True
        held[:] = [[0, 1, 0, 1, 0, 2, 0, 1]]
        return plan

    instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=4, slots=8)
    if own:
        with pytest.raises(PlanError, match="expert 3 has no replica"):
            placement.solve(instance, method=drops)
    else:
        assert placement.solve(instance, method=drops).plan.replicas(4).tolist() == [[4, 2, 1, 1]]


def test_a_policy_that_leaves_the_folder_takes_no_file_with_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loads.csv").write_text("8,4,2,2\n")
    code, said = run(
        "compare", "loads.csv", "--gpus", 2, "--slots", 4, "--methods", f"{__name__}:leaves", "-o", "c.csv"
    )
    assert code == 0 and (tmp_path / "c.csv").exists(), said
    assert not Path("/c.csv").exists() and Path.cwd() == tmp_path


def test_an_exception_without_words_is_a_failure_of_its_policy(tmp_path: Path, monkeypatch):
    """It ended as a fault of moeopt."""
    instance = placement.PlacementInstance(LOADS, gpus=3, slots=6)
    rows = placement.compare(instance, [f"{__name__}:silent", "lpt"]).rows
    assert rows[0].reason == "the policy failed: Silent: its message cannot be shown" and rows[1].result is not None
    monkeypatch.chdir(tmp_path)
    Path("loads.csv").write_text("8,4,2,2\n")
    code, said = run("place", "loads.csv", "--gpus", 2, "--slots", 4, "--method", f"{__name__}:silent")
    assert code == 2 and "Silent: its message cannot be shown" in said


@pytest.mark.parametrize("names", [5, None, "keep", [], [["eplb"]], [None], ["eplb", 5]])
def test_names_of_policies_are_a_list_of_text(names):
    history = placement.PlacementInstance(np.array([LOADS] * 3), gpus=3, slots=6)
    with pytest.raises(InstanceError, match=r"policies = .*: must be "):
        replay.replay(history, names)


@pytest.mark.parametrize(("field", "value"), [("limits", 5), ("limits", "5s"), ("seed", -1), ("seed", "x")])
def test_a_replay_refuses_limits_and_seeds_of_another_kind(field, value):
    history = placement.PlacementInstance(np.array([LOADS] * 3), gpus=3, slots=6)
    with pytest.raises(InstanceError, match=f"{field} = "):
        replay.replay(history, ["keep"], **{field: value})
