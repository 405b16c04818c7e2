"""Arguments of another kind than is wanted are refused by name, and nothing stumbles over them from inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from inspect import signature
from typing import Any

import numpy as np
import pytest

from moeopt import cluster, collocation, kinds, mesh, microbatch, placement, replay, routing, workload
from moeopt.errors import InstanceError, MoeoptError, PlanError, Violations
from moeopt.llm import find
from moeopt.report import Block, Header, render_csv
from tests.test_functions import DEMAND, HISTORY, PLACED, ROOMS, TIMES

H100 = mesh.GpuType.of("H100", stock=8)
LLM = find("mixtral-8x7b")
CONFIG = mesh.Config(
    0, "colocated", mesh.Shape("colocated", "H100"), 1, {"H100": 2}, 10.0, 10.0, tpot_s=0.01, name="quick"
)
ASKED = {"demands": [DEMAND], "gpus": [H100], "objective": "gpus", "families": ("colocated",), "configs": [CONFIG]}
BLOCK = Block(PLACED, placement.compare(PLACED, ["lpt"]))
CURRENT = PLACED.changed(current=placement.solve(PLACED, method="lpt").plan.slot_expert, current_gpu=(0, 0, 0, 1, 1, 1))


class Series:
    """Like a column of pandas: numpy takes it, and it is no list."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __array__(self, *given: Any, **named: Any) -> Any:
        return self.values

    def __iter__(self) -> Any:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def read_only() -> Any:
    array = np.array([1, 2, 3])
    array.flags.writeable = False
    return array


WRONG: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: "8",
    lambda: -1,
    lambda: 2.5,
    lambda: float("nan"),
    lambda: True,
    lambda: {"a": 1},
    lambda: (number for number in (1, 2)),
    lambda: ["a", "b"],
    read_only,
    lambda: np.float64(2.5),
    lambda: np.array(3),
    lambda: Series([1, 2]),
    lambda: Series([[1.5, 2]]),
    list,
    lambda: [[1, 2], [3]],
    lambda: [None],
    object,
    lambda: {1, 2},
    lambda: 10**30,
    lambda: [{}],
    lambda: b"ab",
)
"""Made anew for every call: a generator is used up by one."""

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "PlacementInstance": (placement.PlacementInstance, {"loads": [[8, 4, 2, 2]], "gpus": 2, "slots": 6}),
    "PlacementInstance with a plan": (
        placement.PlacementInstance,
        {"loads": [[8, 4, 2, 2]], "gpus": 2, "slots": 6, "current": [[0, 1, 2, 0, 1, 3]]},
    ),
    "RoutingInstance": (routing.RoutingInstance, {"loads": [[9, 4, 2]], "slot_expert": [[0, 1, 0, 2]], "gpus": 2}),
    "CollocationInstance": (
        collocation.CollocationInstance,
        {"ids": [[0, 2], [1, 3]] * 8, "experts": 4, "nodes": 2, "gpus": 2},
    ),
    "MicrobatchInstance": (microbatch.MicrobatchInstance, {"times": TIMES, "layers": 4, "m": [2, 3]}),
    "MeshInstance": (mesh.MeshInstance, ASKED),
    "Demand": (mesh.Demand, {"llm": LLM, "workload": DEMAND.workload}),
    "demand_of": (lambda workload: mesh.demand_of(LLM, workload), {"workload": (1024, 256)}),
    "Workload": (mesh.Workload, {"input_tokens": 10, "output_tokens": 10}),
    "Slo": (mesh.Slo, {}),
    "GpuType.of": (mesh.GpuType.of, {"gpu": "H100"}),
    "replay": (
        lambda names=("keep",), windows=None, notes=(), prepared=None, prices=None, combine="sum", if_it_pays=False: (
            replay.replay(
                HISTORY,
                names,
                windows=windows,
                notes=notes,
                prepared=prepared,
                prices=prices,
                combine=combine,
                if_it_pays=if_it_pays,
            )
        ),
        {},
    ),
    "slots_curve": (placement.slots_curve, {"instance": PLACED, "redundant": [2], "method": "lpt"}),
    "solve_layers": (placement.solve_layers, {"instance": PLACED, "method": "lpt"}),
    "steps": (placement.steps, {"instance": CURRENT, "plan": CURRENT.current}),
    "lost_if": (placement.lost_if, {"instance": PLACED, "plan": CURRENT.current}),
    "survival": (placement.survival, {"instance": PLACED, "plan": CURRENT.current}),
    "decide": (
        placement.decide,
        {"steps_until_next": 9, "step_seconds": 0.03, "stall_seconds": 1.0, "now": 1.5, "after": 1.1},
    ),
    "slo_curve": (lambda factors: mesh.slo_curve(mesh.MeshInstance(**ASKED), factors=factors), {"factors": (1,)}),
    "reference": (cluster.reference, {"name": "2x2-h100"}),
    "generate_history": (
        workload.generate_history,
        {"kind": "walk", "windows": 2, "layers": 1, "experts": 4, "top_k": 1, "tokens": 50},
    ),
    "render_csv": (render_csv, {"blocks": [BLOCK], "header": Header()}),
    "Block": (Block, {"instance": PLACED, "comparison": BLOCK.comparison}),
    **{
        f"{name}.{verb}": (getattr(room, verb), given)
        for name, (room, instance, method) in ROOMS.items()
        for verb, given in (
            ("evaluate", {"instance": instance, "plan": room.solve(instance, method=method).plan}),
            ("compare", {"instance": instance, "methods": []}),
        )
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_no_argument_of_another_kind_is_stumbled_over(name: str) -> None:
    call, good = CALLS[name]
    call(**good)
    for argument, parameter in signature(call).parameters.items():
        for make in WRONG if parameter.kind is not parameter.VAR_KEYWORD else ():
            wrong = make()
            try:
                call(**{**good, argument: wrong})
            except MoeoptError as error:
                assert str(error), argument
            except Exception as error:
                pytest.fail(f"{argument}={wrong!r}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("field", ["demands", "gpus", "families", "configs"])
def test_a_single_item_is_a_list_of_it(field: str) -> None:
    """`MeshInstance(demand, ...)` gave TypeError: 'Demand' object is not iterable."""
    single = {**ASKED, field: ASKED[field][0]}  # type: ignore[index]
    assert mesh.MeshInstance(**single) == mesh.MeshInstance(**ASKED)  # type: ignore[arg-type]


def test_every_wrong_item_of_a_list_is_named_with_its_place() -> None:
    with pytest.raises(InstanceError) as caught:
        mesh.MeshInstance([DEMAND, "x"], [3], "gpus", sides=[])  # type: ignore[list-item,arg-type]
    assert str(caught.value).splitlines() == [
        "demands[1] = 'x': must be a Demand. Give Demand alone.",
        "gpus[0] = 3: must be a GpuType. Give GpuType alone.",
        "sides = []: must be a mapping. Write {\"prefill\": \"H800\"}.",
    ]  # fmt: skip


def test_one_block_is_no_list_and_a_demand_needs_its_kinds() -> None:
    with pytest.raises(InstanceError, match=r"must be a list of Block, not one Block\. Write it in \[ \]"):
        render_csv(BLOCK, Header())  # type: ignore[arg-type]
    with pytest.raises(InstanceError) as caught:
        mesh.Demand("mixtral-8x7b", 3)  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        "llm = 'mixtral-8x7b': must be a LlmFacts. Give a LlmFacts.",
        "workload = 3: must be a Workload. Give a Workload.",
    ]


def test_lists_of_numbers_may_be_arrays_and_generators() -> None:
    for given in ((1, 2), [1, 2], np.array([1, 2]), range(1, 3), (one for one in (1, 2)), Series([1, 2])):
        assert kinds.numbers(Violations(), "drafts", given) == (1, 2)


def test_a_plan_built_of_other_kinds_is_refused_where_it_is_built() -> None:
    table, pool = np.array([[0, 1]]), mesh.Pool(CONFIG, 1)
    masked = np.ma.masked_array(table, [[True, False]])
    for make, words in (
        *(
            (lambda bad=bad: placement.Placement(bad), "slot_expert")
            for bad in (
                "01",
                3,
                None,
                [[0, 0.5]],
                [[True, False]],
                [[0], [1, 2]],
                [[2**40, 1]],
                [[2**80, 1]],
                table.astype(float),
                table.astype(object),
                masked,
                [[None, 1]],
                table.astype("m8[s]"),
                {0: 1},
                [],
                iter([[0, 1]]),
            )
        ),
        *(
            (lambda bad=bad: placement.Placement(table, bad), "expert, GPU, share")
            for bad in (
                3,
                "abc",
                [[1]],
                [[None]],
                [["abc"]],
                [[(0, 0)]],
                [[(0, 0, 0.5, 1)]],
                [[(0, "x", 1)]],
                [[(0.9, 0, 0.5)]],
                [[(0, True, 0.5)]],
                [[(0, 0, "0.5")]],
                [[(0, 0, None)]],
                [[(0, 0, 1j)]],
                [[(0, 0, 10**400)]],
                [(0, 0, 0.5)],
            )
        ),
        *(
            (lambda bad=bad: placement.Placement(table).replicas(bad), "experts, the plan has expert 1")
            for bad in (
                1,
                "2",
                None,
                2.0,
                np.nan,
                True,
            )
        ),
        (lambda: microbatch.MicrobatchPlan("2", 4), "m = '2' is not a whole number"),
        (lambda: microbatch.MicrobatchPlan(2, 4.5), "batch = 4.5 is not"),
        (lambda: microbatch.MicrobatchPlan(2, 4, [[0]]), "sequences"),
        (lambda: mesh.MeshPlan([pool]), "no tuple of Pool"),
        (lambda: mesh.Pool("quick", 1), "'quick' is no configuration"),
        (lambda: mesh.Pool(CONFIG, True), "True replicas"),
    ):
        with pytest.raises(PlanError, match=words):
            make()
    assert mesh.MeshPlan((pool,)).pools == (pool,)


def test_a_plan_is_a_copy_that_nobody_writes_to() -> None:
    """One that was counted, and written to then, was judged by the old count."""
    for table in (np.array([[0, 1, 1, 2]]), np.array([[0, 1, 1, 2]], dtype=np.uint64)):
        plan = placement.Placement(table)
        table[:] = 0
        assert plan.slot_expert.tolist() == [[0, 1, 1, 2]] and plan.slot_expert.dtype == np.int32
        assert plan.replicas(3).tolist() == [[1, 2, 1]]
    with pytest.raises(ValueError, match="read-only"):
        plan.slot_expert[0, 0] = 1


@pytest.mark.parametrize("name", [one.name for one in fields(mesh.Config)])
def test_a_configuration_of_any_fields_is_answered_or_refused(name: str) -> None:
    """Lists, arrays and numbers beyond a double were stumbled over from inside."""
    bought = mesh.MeshInstance(**ASKED)  # type: ignore[arg-type]
    for wrong in ([1], "x", None, {}, np.array([1, 2]), 10**400, float("nan"), 3, 3.5, True, (1,), object()):
        config = replace(CONFIG, **{name: wrong})
        for call in (
            lambda config=config: mesh.solve(mesh.MeshInstance(**{**ASKED, "configs": [config]})),
            lambda config=config: mesh.evaluate(bought, mesh.MeshPlan((mesh.Pool(config, 1),))),
        ):
            try:
                call()
            except MoeoptError as error:
                assert str(error), name
