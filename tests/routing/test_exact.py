"""The programme and the tiny instances: what is written down, what back ends say, and what was worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt import routing
from moeopt.backends import LinearModel, available_backends, solve_model, write_lp
from moeopt.result import Status
from moeopt.routing import METHODS, RoutingInstance, exact
from moeopt.routing.document import load_instance
from moeopt.routing.fractional import optimum
from tests.benchmarks.routing import linear, random_instance

ROOT = Path(__file__).parents[2]
TINY = ROOT / "instances" / "tiny" / "routing"
OPTIMA = json.loads((TINY / "optima.json").read_text())["optima"]


@pytest.mark.parametrize("name", OPTIMA)
def test_tiny_instances_have_the_optimum_worked_out_by_hand(name: str) -> None:
    instance = load_instance(TINY / f"{name}.json")
    for method in METHODS:
        if METHODS[method].applies(instance) is None:
            result = routing.solve(instance, method=method)
            assert result.objective is not None
            assert result.objective >= OPTIMA[name] - 1e-9
            if method in ("auto", "integer", "lp", "local_first"):
                assert result.objective == pytest.approx(OPTIMA[name], rel=1e-9), method
                assert result.status is Status.OPTIMAL
    assert {path.stem for path in TINY.glob("*.json")} == {*OPTIMA, "optima"}


def test_every_token_of_home_stays_at_home() -> None:
    result = routing.solve(load_instance(TINY / "home.json"))
    assert result.method == "auto" and result.solution is not None
    assert result.solution["local_share"] == 1.0


def test_the_programme_of_the_page_is_recreated_byte_for_byte_and_solved_by_others() -> None:
    instance = load_instance(TINY / "floor.json")
    problem = exact.build(instance).problem
    assert write_lp(problem) == (ROOT / "models" / "routing.lp").read_text()
    for backend in {"highs", "cbc", "scipy"} & set(available_backends()):
        answer = solve_model(LinearModel.from_pulp(problem), backend=backend)
        assert answer.objective == pytest.approx(OPTIMA["floor"]), backend


def test_the_programme_of_whole_tokens_is_solved_by_back_ends_to_the_same_optimum() -> None:
    instance = load_instance(TINY / "speeds.json")
    for backend in {"highs", "scipy"} & set(available_backends()):
        answer = solve_model(LinearModel.from_pulp(exact.build(instance).problem), backend=backend)
        assert answer.objective == pytest.approx(OPTIMA["speeds"]), backend


def test_the_optimum_is_that_of_the_linear_programme() -> None:
    """A sample; ``python -m tests.benchmarks.routing --agree 5000`` tries more."""
    rng = np.random.default_rng(11)
    for _ in range(150):
        instance = random_instance(rng)
        value = float(optimum(instance.hostings[0], instance.tasks[0]).value)
        assert value == pytest.approx(linear(instance, 0), rel=1e-9)


def test_lp_gives_the_optimum_with_floors_bases_and_speeds() -> None:
    rows = [[0, 1, 0, 2, 1, 2, 0, -1]] * 2
    loads = [[900.5, 40, 20], [3, 0, 9]]
    for rule in ("per_replica", "per_expert"):
        instance = RoutingInstance(
            loads, rows, gpus=4, speed=[1, 2, 0.5, 1.3], base=[3, 0, 1.5, 0], floor_tokens=25, floor_rule=rule
        )
        result, best = (routing.solve(instance, method=name) for name in ("lp", "newton"))
        assert result.status is Status.OPTIMAL and "solver" in result.versions
        assert result.objective == pytest.approx(best.objective, rel=1e-9)
        assert result.solution is not None
        assert result.solution["solver_bound"] == pytest.approx(best.objective, rel=1e-9)
