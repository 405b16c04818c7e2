"""The programme, its export and the methods that prove: they agree with each other and with solutions by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from moeopt import placement
from moeopt.backends import LinearModel, available_backends, read_back, solve_model, write_lp
from moeopt.limits import Limits
from moeopt.placement import bounds, enumeration, exact
from moeopt.placement.document import load_instance
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.shares import with_best_shares
from moeopt.result import Status, Stop

ROOT = Path(__file__).parents[2]
TINY = ROOT / "instances" / "tiny"
OPTIMA = json.loads((TINY / "optima.json").read_text())["optima"]

SMALL = [
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, distinct=False),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, floor_tokens=4.0),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, floor_tokens=4.0, floor_rule="per_replica"),
    PlacementInstance(
        [[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, floor_tokens=4.0, floor_rule="per_replica", fill="at_most"
    ),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, split="free"),
    PlacementInstance([[8, 5, 3, 2]], gpus=2, slots=6, split="free", floor_tokens=3, floor_rule="per_replica"),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], slots=[2, 3, 4], speed=[1.0, 2.0, 0.5]),
    PlacementInstance([[8, 5, 3, 2, 7, 1, 1, 4]], gpus=4, slots=12, nodes=2, groups=4),
    PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9, pin=[(0, 0), (5, 2)], forbid=[(1, 1)]),
]


def programme_value(instance: PlacementInstance, backend: str) -> tuple[float, placement.Placement]:
    """Optimum of the written programme by one back end, in tokens, and the plan it reads back."""
    model = exact.build(instance, scaled=True)
    linear = LinearModel.from_pulp(model.problem)
    answer = solve_model(linear, backend=backend)
    assert answer.status is Status.OPTIMAL and answer.values is not None and answer.objective is not None
    plan = exact.read_back(model, read_back(linear, answer.values))
    return answer.objective * model.scale[0], plan


@pytest.mark.parametrize("name", OPTIMA)
def test_methods_reach_the_optimum_solved_by_hand_where_they_are_exact(name: str) -> None:
    instance = load_instance(TINY / f"{name}.json")
    for method in ("exact", "auto"):
        result = placement.solve(instance, method=method)
        assert result.objective == pytest.approx(OPTIMA[name], rel=1e-12)
        assert result.status is Status.OPTIMAL or method == "auto"
    for method, entry in placement.METHODS.items():
        if entry.applies(instance) is None:
            objective = placement.solve(instance, method=method).objective
            assert objective is not None and objective >= OPTIMA[name] * (1 - 1e-12)


@pytest.mark.parametrize("instance", SMALL, ids=range(len(SMALL)))
def test_two_back_ends_and_the_exact_method_agree(instance: PlacementInstance) -> None:
    result = placement.solve(instance, method="exact")
    assert result.status is Status.OPTIMAL
    for backend in ("highs", "scipy"):
        value, plan = programme_value(instance, backend)
        assert value == pytest.approx(result.objective, rel=1e-6)
        assert float(placement.evaluate(instance, plan).objective) == pytest.approx(value, rel=1e-6)


def test_layers_in_one_programme_cost_what_they_cost_apart() -> None:
    both = PlacementInstance([[8, 5, 3, 2], [1, 1, 9, 4]], gpus=2, slots=6)
    apart = placement.solve(both, method="exact")
    value, plan = programme_value(both, "highs") if both.num_layers == 1 else _whole(both)
    assert value == pytest.approx(apart.objective, rel=1e-6)
    assert plan.slot_expert.shape == (2, 6)


def _whole(instance: PlacementInstance) -> tuple[float, placement.Placement]:
    model = exact.build(instance)
    linear = LinearModel.from_pulp(model.problem)
    answer = solve_model(linear)
    assert answer.values is not None and answer.objective is not None
    return answer.objective, exact.read_back(model, read_back(linear, answer.values))


def test_a_row_of_ones_own_can_be_added_to_the_programme() -> None:
    instance = PlacementInstance([[8, 5, 3, 2]], gpus=2, slots=6)
    model = exact.build(instance)
    problem, variables = model.to_pulp()
    problem += variables["y_3_0"] + variables["y_3_1"] >= 2, "two_copies_of_the_coldest"
    linear = LinearModel.from_pulp(problem)
    answer = solve_model(linear)
    assert answer.values is not None
    plan = exact.read_back(model, read_back(linear, answer.values))
    assert plan.replicas(4)[0, 3] == 2


def test_start_values_satisfy_the_programme() -> None:
    for instance in SMALL:
        plan = placement.solve(instance, method="search").plan
        model = exact.build(instance, scaled=True)
        linear = LinearModel.from_pulp(model.problem)
        start = exact.start_values(model, plan)
        answer = solve_model(linear, start=[start[name] for name in linear.columns], limits=Limits(nodes=0))
        assert not any("not used" in note for note in answer.notes), answer.notes


def test_exported_programme_is_recreated_byte_for_byte_and_solved_by_others_to_the_same_optimum() -> None:
    problem = exact.build(load_instance(TINY / "pair.json")).problem
    kept = (ROOT / "models" / "placement.lp").read_text()
    assert write_lp(problem) == kept
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(ROOT / "models" / "placement.lp"))
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(OPTIMA["pair"])
    for backend in {"cbc", "scipy"} & set(available_backends()):
        answer = solve_model(LinearModel.from_pulp(problem), backend=backend)
        assert answer.objective == pytest.approx(OPTIMA["pair"])


def test_counts_of_a_billion_are_solved_as_well_as_small_ones() -> None:
    result = placement.solve(PlacementInstance([[3, 1, 10**9, 10**9, 2, 5]], gpus=3, slots=6), method="exact")
    assert result.objective == pytest.approx(1_000_000_002, rel=1e-8)
    value, _ = programme_value(PlacementInstance([[3, 1, 10**9, 10**9, 2, 5]], gpus=3, slots=6), "highs")
    assert value == pytest.approx(1_000_000_002, rel=1e-6)


@pytest.mark.parametrize("split", ["even", "free"])
@pytest.mark.parametrize("speed", [1e-9, 1e9])
def test_speeds_far_from_one_are_solved_as_well_as_ordinary_ones(speed: float, split: str) -> None:
    """Rows were written as speed times C, which a solver's absolute tolerance took for nothing at 1e-9."""
    loads = [[7, 1, 2, 9], [1, 12, 12, 1]]
    rules = {"slots": [3, 3], "split": split, "floor_rule": "per_replica", "floor_tokens": 0.5}
    plain = placement.solve(PlacementInstance(loads, **rules, speed=[1.0, 0.5]), method="exact")
    scaled = placement.solve(PlacementInstance(loads, **rules, speed=[speed, 0.5 * speed]), method="exact")
    assert plain.status is scaled.status is Status.OPTIMAL
    assert plain.objective is not None
    assert scaled.objective == pytest.approx(plain.objective / speed, rel=1e-6)


def test_exact_keeps_the_searchs_plan_and_says_so_when_time_runs_out() -> None:
    loads = [[1 + (e * e * 31 % 97) for e in range(64)]]
    instance = PlacementInstance(loads, gpus=16, slots=80)
    result = placement.solve(instance, method="exact", limits=Limits(time_s=0.001))
    assert result.status is Status.FEASIBLE and result.stop is Stop.TIME
    assert any("heuristic" in note for note in result.notes)
    assert placement.faults(instance, result.plan) == []


def test_enumeration_agrees_with_the_programme_on_recorded_loads() -> None:
    with np.load(ROOT / "instances" / "published" / "mixtral_8x7b_counts.npz") as file:
        loads = file["github"]
    instance = PlacementInstance(loads, gpus=4, slots=12)
    result = placement.solve(instance)
    assert result.status is Status.OPTIMAL and result.bound_kind == "certified"
    # the published exact mean over the three layers, found by a solver to 1e-4
    assert result.solution is not None
    assert result.solution["imbalance_mean"] == pytest.approx(1.0088, abs=2e-4)


def test_enumeration_certificate_is_rechecked_and_a_higher_one_proves_nothing() -> None:
    instance = PlacementInstance([[8, 5, 3, 2, 7, 1]], gpus=3, slots=9)
    result = placement.solve(instance, method="exact")
    assert result.certificate is not None and result.objective is not None
    certificate = result.certificate["layers"][0]
    best = Fraction(certificate["value"]) if certificate["kind"] == "enumeration" else None
    if best is None:
        pytest.fail(f"expected a proof by enumeration, got {certificate}")
    assert bounds.check(instance, 0, certificate) == best
    with pytest.raises(ValueError, match="proves nothing"):
        bounds.check(instance, 0, {"kind": "enumeration", "value": str(best + Fraction(1, 1000))})


def test_enumeration_gives_up_at_its_budget_instead_of_claiming() -> None:
    rng = np.random.default_rng(3)
    instance = PlacementInstance([rng.integers(1, 1000, 16).tolist()], gpus=4, slots=20)
    most = bounds.most_replicas(instance)
    just_above_ideal = instance.ideal[0] * Fraction(1001, 1000)
    assert not enumeration.refutes(instance, 0, most, just_above_ideal, budget=1)


def test_start_values_count_the_floor_of_every_copy_on_a_gpu() -> None:
    """The start once had the floor once for two copies on one GPU, which the programme and the referee count twice."""
    instance = PlacementInstance(
        [[5, 1]], slots=[2, 2], distinct=False, split="free", floor_tokens=4, floor_rule="per_replica"
    )
    plan = with_best_shares(instance, placement.Placement.of([[0, 0, 1, 1]]))
    values = exact.start_values(exact.build(instance, scaled=False), plan)
    assert [values[name] for name in values if name.endswith(("t_0_0", "t_1_1"))] == [8.0, 8.0]
