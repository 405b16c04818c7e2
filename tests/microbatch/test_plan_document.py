"""Documents of plans: whatever is deleted or changed is a fault, or said not to be re-checked."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from moeopt import microbatch
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.microbatch import MicrobatchInstance
from moeopt.microbatch.written_plan import written_faults
from moeopt.result import Status
from tests.microbatch import strategies

Path = tuple[str | int, ...]
DUAL = {"attention": 1, "dispatch": 15, "experts": 8, "combine": 2}
FOUR = {"attention": 0.4, "dispatch": 0.3, "experts": 0.5}
WAVES = {"dispatch": 0.2, "experts": 0.3, "rest": 0.1}
TIGHT = {"attention": 4, "dispatch": 4, "experts": 6}  # no order takes less than 44, which no bound says
LINK = {"attention": 3, "dispatch": 3, "experts": 2, "combine": 1}


STATUSES = {
    "formula": "OPTIMAL",
    "own order": "FEASIBLE",
    "batches": "OPTIMAL",
    "solver": "OPTIMAL",
    "simulated": "FEASIBLE",
    "infeasible": "INFEASIBLE",
    "infeasible by a solver": "INFEASIBLE",
    "unknown": "UNKNOWN",
    "no memory": "INFEASIBLE",
}


def document(instance: MicrobatchInstance, **options: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(microbatch.solve(instance, **options).to_json())
    return written


def documents() -> dict[str, dict[str, Any]]:
    link = MicrobatchInstance(LINK, layers=1, pattern="shared-link", m=3)
    tight = MicrobatchInstance(TIGHT, layers=2, pattern="shared-link", m=2, tbt_slo_s=43.0)
    return {
        "formula": document(MicrobatchInstance(FOUR, layers=3, m=[1, 2], name="pair")),
        "own order": document(MicrobatchInstance(DUAL, layers=4, pattern="dual", m=[1, 2, 3])),
        "batches": document(MicrobatchInstance(WAVES, layers=2, pattern="waves", m=[1, 2], batches=[4, 8])),
        "solver": document(link, method="exact"),
        "simulated": document(link, method="simulate"),
        "infeasible": document(MicrobatchInstance(FOUR, layers=3, tbt_slo_s=1.0)),
        "infeasible by a solver": document(tight, method="exact"),
        "unknown": document(tight, method="simulate"),
        "no memory": document(MicrobatchInstance(FOUR, layers=3, bytes_per_sequence=4.0, memory_bytes=3.0)),
    }


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, Any]]:
    return documents()


def paths(value: Any, before: Path = ()) -> Iterator[Path]:
    """Every place in a document; of long lists the first entries and the last."""
    if before:
        yield before
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*before, key))
    elif isinstance(value, list):
        for place in sorted({*range(min(len(value), 2)), len(value) - 1} if value else ()):
            yield from paths(value[place], (*before, place))


def named(path: Path) -> str:
    """As faults and unchecked places are named."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def damaged(whole: dict[str, Any], path: Path, *value: Any) -> dict[str, Any]:
    """A copy without what stands there, or with another value."""
    found = copy.deepcopy(whole)
    inner: Any = found
    for part in path[:-1]:
        inner = inner[part]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return found


def changes(value: Any) -> list[Any]:
    """Other values of the same kind, and of others."""
    return [other for other in _others(value) if other != value]


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value, 7]
    if isinstance(value, int | float):
        return [value * 1.5 + 1, -1, None, math.nan, "x"]
    if isinstance(value, str):
        return [value + "x", "", None, 7]
    if isinstance(value, list):
        return [[], [*value, 7], None, {}] if value else [[7], None, {}]
    if isinstance(value, dict):
        return [{}, None, []] if value else [None, []]
    return [7, "x", {}, []]


def faults(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    try:
        return written_faults(found, "plan")
    except InstanceError as error:
        return [str(error)], []


def at(whole: Any, path: Path) -> Any:
    for part in path:
        whole = whole[part]
    return whole


@pytest.mark.parametrize("which", STATUSES)
def test_whatever_is_deleted_or_changed_is_a_fault_or_said_not_to_be_checked(
    written: dict[str, dict[str, Any]], which: str
) -> None:
    whole = written[which]
    found, aside = faults(whole)
    assert found == []
    kept = [
        f"{named(path)} {value}"
        for path in paths(whole)
        for value in ((), *((other,) for other in changes(at(whole, path))))
        if not any(named(path).startswith(place) for place in aside) and faults(damaged(whole, path, *value))[0] == []
    ]
    assert kept == []


def test_the_statuses_are_those_that_are_meant(written: dict[str, dict[str, Any]]) -> None:
    assert {name: found["status"] for name, found in written.items()} == STATUSES


@pytest.mark.parametrize("key", ["objective", "lower_bound", "gap", "status", "certificate", "conflicts", "problem"])
def test_a_plan_without_its_proof_is_a_fault(written: dict[str, dict[str, Any]], key: str) -> None:
    assert faults(damaged(written["formula"], (key,)))[0] == [f"{key} = missing: is needed"]


def test_a_solution_that_is_gone_is_a_fault_whatever_is_said_beside_it(written: dict[str, dict[str, Any]]) -> None:
    whole = written["formula"]
    gone = {**whole, "solution": None}
    assert any("without a solution" in fault for fault in faults(gone)[0])
    forged = {**gone, "objective": 0.001, "lower_bound": 0.02}
    assert faults(forged)[0]
    unknown = {**gone, "status": "UNKNOWN", "objective": None, "lower_bound": None, "gap": None}
    unknown |= {"gap_worst_layer": None, "bound_kind": None, "certificate": None, "incumbents": []}
    assert faults(unknown)[0] == ["status = UNKNOWN: m = 1 with a batch of 1 keeps the limits"]
    assert faults({**whole, "status": "INFEASIBLE"})[0] == ["status = INFEASIBLE with a plan beside it"]


def test_rows_that_are_left_out_are_missing_unless_time_was_up(written: dict[str, dict[str, Any]]) -> None:
    whole = copy.deepcopy(written["own order"])
    del whole["solution"]["sweep"][0]
    found, _ = faults(whole)
    assert "solution.sweep: m = 1, batch 1 is missing, and stop is FINISHED" in found
    found, _ = faults({**whole, "stop": "TIME"})
    assert "solution.sweep: m = 1, batch 1 is missing, and stop is TIME" in found  # no note says so


def test_an_order_of_its_own_that_is_no_faster_is_a_fault(written: dict[str, dict[str, Any]]) -> None:
    whole = copy.deepcopy(written["formula"])
    row = whole["solution"]["sweep"][0]
    row |= {"order": "own", "sequences": [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]}
    assert "solution.sweep[0].order = own: first come, first served is as fast" in faults(whole)[0]


@settings(max_examples=40)
@given(strategies.instances())
def test_every_answer_is_in_order(instance: MicrobatchInstance) -> None:
    for name, method in microbatch.METHODS.items():
        if method.claim != "plug-in" and name != "exact" and method.applies(instance) is None:
            assert faults(document(instance, method=name))[0] == [], name


def test_answers_that_time_cut_short_are_in_order() -> None:
    instance = MicrobatchInstance(FOUR, layers=40, pattern="shared-link", m=range(1, 17))
    for method in ("search", "simulate", "lpt", "exact"):
        short = document(instance, method=method, limits=Limits(time_s=1e-6))
        assert short["stop"] == "TIME" and short["status"] == str(Status.FEASIBLE)
        found, aside = faults(short)
        assert found == [], method
        assert "solution.sweep beyond 1 of 16 candidates" in aside
