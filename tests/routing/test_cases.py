"""Awkward numbers that have broken flow and solver code before: each gives the value, or names what is wrong."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from moeopt import routing
from moeopt.errors import InstanceError, PlanError
from moeopt.result import Status
from moeopt.routing import RoutingInstance
from tests.routing import oracle


def refusal(loads: Any, slot_expert: Any, **fields: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        RoutingInstance(loads, slot_expert, **fields)
    return str(caught.value)


def names(text: str, *words: str) -> None:
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"{missing} not in: {text}"


def value(instance: RoutingInstance, method: str = "newton") -> float | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = routing.solve(instance, method=method)
    assert result.status is Status.OPTIMAL
    return result.objective


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_float_loads_end_and_are_taken_as_the_decimals_they_are_written_as() -> None:
    assert value(RoutingInstance([[0.1, 0.2, 0.3]], [[0, 2, 1, 2]], gpus=2)) == 0.3
    result = routing.solve(RoutingInstance([[0.1, 0.2]], [[0, 1, 0, 1]], gpus=2))
    assert result.certificate is not None
    assert result.certificate["layers"][0]["value"] == "3/20"


def test_counts_of_a_billion_are_split_to_the_last_token() -> None:
    loads = [[3, 1, 10**9, 10**9, 2, 5]]
    row = [[2, 0, 3, 2, 1, 3, 4, 5, 2]]
    assert value(RoutingInstance(loads, row, gpus=3)) == pytest.approx((2 * 10**9 + 11) / 3, rel=1e-15)
    whole = RoutingInstance(loads, row, gpus=3, whole=True)
    assert value(whole, "integer") == -(-(2 * 10**9 + 11) // 3)


def test_sums_beyond_32_bits_do_not_wrap() -> None:
    loads = np.full((1, 4), 2_000_000_000, dtype=np.int32)
    assert value(RoutingInstance(loads, [[0, 1, 2, 3]], gpus=2)) == 4e9


def test_sums_and_products_beyond_64_bits_are_exact() -> None:
    loads = np.full((1, 3), 2**62, dtype=np.int64)
    instance = RoutingInstance(loads, [[0, 1, 0, 2]], gpus=2, speed=[1.0, 3.0])
    assert not instance.tasks[0].fits
    assert value(instance) == pytest.approx(float(oracle.optimum(instance)), rel=1e-15)
    whole = RoutingInstance(loads, [[0, 1, 0, 2]], gpus=2, whole=True)
    result = routing.solve(whole, method="integer")
    assert sum(part for expert, _, part in result.plan.shares[0] if expert == 0) == 2**62


def test_huge_and_tiny_loads_together_are_exact() -> None:
    instance = RoutingInstance([[1e12, 1e12, 1e-9, 1e-9]], [[0, 2, 0, 1, 3, 1]], gpus=3)
    result = routing.solve(instance)
    assert result.certificate is not None
    assert Fraction(result.certificate["layers"][0]["value"]) == oracle.optimum(instance)
    assert result.objective == pytest.approx(2e12 / 3, rel=1e-9)


def test_idle_layers_and_idle_experts_are_no_trouble() -> None:
    instance = RoutingInstance([[0] * 8], [list(range(8))], gpus=4)
    assert value(instance) == 0.0
    assert value(RoutingInstance([[0, 6]], [[0, 1, 0, 1]], gpus=2)) == 3.0


def test_speeds_of_many_digits_are_exact() -> None:
    speed = [1 / 3, 0.7071067811865476, 1.0]
    instance = RoutingInstance([[100, 50, 7]], [[0, 1, 0, 2, 1, 0]], gpus=3, speed=speed)
    assert value(instance) == pytest.approx(float(oracle.optimum(instance)), rel=1e-14)


# --- tokens stay on their node ----------------------------------------------------------------------------------------


def test_local_replicas_come_first_at_equal_balance() -> None:
    """The shared example of two nodes, here with a replica of every expert on each."""
    by_node = [[90, 80, 70, 60, 40, 30, 20, 10], [10, 20, 30, 40, 60, 70, 80, 90]]
    sources = np.zeros((1, 8, 4), dtype=np.int64)
    sources[0, :, 0], sources[0, :, 2] = by_node
    rows = [[0, 1, 2, 3, 4, 5, 6, 7] * 2]
    gpu_of_slot = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    fields: dict[str, Any] = {"gpus": 4, "gpu_of_slot": gpu_of_slot, "nodes": 2, "sources": sources}
    instance = RoutingInstance(sources.sum(axis=2), rows, **fields)
    local, plain = (routing.solve(instance, method=name) for name in ("local_first", "even"))
    assert local.objective == 200.0 and local.solution is not None and plain.solution is not None
    assert plain.solution["layers"][0]["crossing_tokens"] == 200.0
    # GPU 0 is the only one on its node for experts 0-3, whose 300 tokens there are more than its 200
    assert local.solution["layers"][0]["crossing_tokens"] == 200.0
    whole = routing.solve(RoutingInstance(sources.sum(axis=2), rows, whole=True, **fields))
    assert whole.solution is not None
    assert whole.solution["layers"][0]["crossing_tokens"] == 200.0


# --- malformed --------------------------------------------------------------------------------------------------------


def test_everything_malformed_is_named_at_once() -> None:
    text = refusal(
        [[5.0, -1.0], [1.0, 2.0]],
        [[0, 7], [1, -2]],
        gpus=2,
        speed=[1.0, 0.0],
        base=[1.0],
        nodes=3,
        steps=0,
        floor_tokens=float("inf"),
        floor_rule="some",
        whole="yes",
        layers=[3, 3],
    )
    names(text, "loads[layer 3, expert 1]", "slot 1] = 7", "slot 1] = -2", "layers", "speed[GPU 1]", "base", "nodes")
    names(text, "steps", "floor_tokens", "floor_rule", "whole", "per_replica")


def test_hosting_that_does_not_fit_is_named_by_place() -> None:
    names(refusal([[1, 2]], [[0, 7]], gpus=2), "slot_expert[layer row 0, slot 1] = 7", "0 to 1")
    names(refusal([[1, 2]], [[0, 1, 0]], gpus=2), "3 slots", "multiple of gpus = 2", "gpu_of_slot")
    names(refusal([[1, 2]], [[0, 1], [1, 0]], gpus=2), "2 rows", "1")
    names(refusal([[1, 2]], [[0, 1]], gpu_of_slot=[0, 2], gpus=2), "gpu_of_slot", "slot 1", "0 to 1")
    names(refusal([[1, 2]], [[0, 1]], gpu_of_slot=[0], gpus=2), "1 entries", "2")
    names(refusal([[1, 2]], [[0, 1], [1]], gpus=2), "slot_expert", "layers x slots")
    names(refusal([[1, 2]], [[0.5, 1]], gpus=2), "slot_expert", "float64")
    names(refusal([[1, 2]], [[0, 1]]), "gpus", "needed")
    names(refusal([[1, 2]], [[0, 1]], gpus=10**9), "65536")


def test_loads_that_are_no_numbers_are_named_by_place() -> None:
    names(refusal([[5.0, float("nan")]], [[0, 1]], gpus=2), "nan", "layer 0", "expert 1")
    names(refusal([[5, 1], [2]], [[0, 1]], gpus=2), "loads")


def test_sources_have_to_sum_to_the_loads() -> None:
    text = refusal([[4, 2]], [[0, 1]], gpus=2, sources=[[[3, 1], [1, 0]]])
    names(text, "sources[layer row 0, expert 1]", "must sum to its load, 2")
    names(refusal([[4, 2]], [[0, 1]], gpus=2, sources=[[[4, 0]]]), "shape", "(1, 2, 2)")
    names(refusal([[4, 2]], [[0, 1]], gpus=2, sources=[[[5, -1], [2, 0]]]), "finite tokens >= 0")


def test_whole_tokens_need_whole_loads_and_floors() -> None:
    names(refusal([[1.5, 2]], [[0, 1]], gpus=2, whole=True), "loads[layer row 0, expert 0] = 1.5", "whole")
    names(refusal([[1, 2]], [[0, 1]], gpus=2, whole=True, floor_tokens=2.5), "floor_tokens", "Use 3")
    text = refusal([[1, 2]], [[0, 1]], gpus=2, whole=True, floor_tokens=2, floor_rule="per_expert")
    names(text, "whole", "per_replica")


def test_a_whole_instance_takes_whole_tokens_only() -> None:
    instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2, whole=True)
    with pytest.raises(PlanError, match="tokens cannot be cut"):
        routing.evaluate(instance, [(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0), (2, 1, 1.0)])
    tokens = {"shares": [[[0, 0, 4], [0, 1, 4], [1, 0, 4], [2, 1, 2]]], "unit": "tokens"}
    with pytest.raises(PlanError, match="8 of 9 tokens"):
        routing.evaluate(instance, tokens)
    with pytest.raises(PlanError, match="not a whole number"):
        routing.evaluate(instance, {"shares": [[[0, 0, 4.5]]], "unit": "tokens"})


JUNK: list[Any] = [None, True, -1, 1e308, float("nan"), float("inf"), "x", [], [[]], [[[1]]], {}, 10**30, [1, "a"]]
JUNK += [[[None]], np.zeros((0, 2)), np.array(3), np.array([["a"]]), b"x", 2.5, [[1, 2], [3]], [True, False]]


@pytest.mark.parametrize("field", [key for key in RoutingInstance.__init__.__annotations__ if key != "return"])
def test_junk_in_any_field_is_an_instance_or_a_refusal(field: str) -> None:
    plain: dict[str, Any] = {"loads": [[9, 4, 2]], "slot_expert": [[0, 1, 0, 2]], "gpus": 2}
    for junk in JUNK:
        try:
            RoutingInstance(**(plain | {field: junk}))
        except InstanceError as error:
            assert str(error)


def test_junk_for_a_plan_is_a_plan_error() -> None:
    instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    extra = [{"shares": 3}, {"shares": [], "unit": "x"}, [[(0, 0, 10**400)]], [[(10**30, 0, 1.0)]], [[(0, 0, "a")]]]
    for junk in [*JUNK, *extra]:
        with pytest.raises(PlanError):
            routing.evaluate(instance, junk)


@pytest.mark.parametrize("wrong", [1e-307, 1e-300, 1e300])
def test_numbers_whose_sums_leave_the_range_of_a_double_are_refused(wrong: float) -> None:
    rows = [[0, 1, 0, 2]]
    names(refusal([[1, 2, 3]], rows, gpus=2, speed=[1.0, wrong]), "speed[GPU 1]", "between 1e-50 and 1e+50")
    names(refusal([[1, wrong, 3]], rows, gpus=2), "loads[layer row 0, expert 1]", "between 1e-50 and 1e+50")
    names(refusal([[1, 2, 3]], rows, gpus=2, base=wrong, floor_tokens=wrong), "base", "floor_tokens")


def test_the_widest_numbers_are_solved_exactly() -> None:
    instance = RoutingInstance([[1e50, 1e-50, 1e50]], [[0, 1, 0, 2]], gpus=2, speed=[1e-50, 1e50], base=[1e-50, 1e50])
    result = routing.solve(instance)
    assert result.status is Status.OPTIMAL and result.certificate is not None
    proved = Fraction(result.certificate["layers"][0]["value"])
    assert float(proved) == pytest.approx(float(oracle.optimum(instance)), rel=1e-14)


@pytest.mark.parametrize("whole", [False, True])
def test_verify_goes_through_every_figure_of_a_written_routing(whole: bool) -> None:
    from moeopt.routing.result_document import document_faults, read_result

    loads = [[9, 4, 2], [3, 3, 3]]
    result = json.loads(routing.solve(RoutingInstance(loads, [[0, 1, 0, 2]] * 2, gpus=2, whole=whole)).to_json())
    assert document_faults(read_result(result), loads) == []
    for field, value in (("gap", 0.5), ("gap_worst_layer", 0.5), ("gap", None), ("unit", "x"), ("runtime_s", -1.0)):
        found = document_faults(read_result(result | {field: value}), loads)
        assert len(found) == 1 and field in found[0], field
    result["certificate"]["layers"][0]["price"] = "0"
    assert "dual prices prove 0" in document_faults(read_result(result), loads)[0]


def test_documents_name_what_is_wrong_in_them() -> None:
    document = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2).to_dict()
    for wrong, words in (
        ({"speeds": [1, 1]}, ("speeds", "Did you mean speed?")),
        ({"slot_expert": "none"}, ("slot_expert",)),
        ({"loads": [[1, None, 2]]}, ("loads", "expert 1")),
        ({"steps": 1.5}, ("steps",)),
    ):
        with pytest.raises(InstanceError) as caught:
            RoutingInstance.from_dict(document | wrong)
        names(str(caught.value), *words)
    with pytest.raises(InstanceError, match="JSON object"):
        RoutingInstance.from_dict([1])
    assert json.loads(json.dumps(document)) == document


def test_somebody_s_own_policy_is_judged_like_ours() -> None:
    def first_replica(instance: RoutingInstance, limits: Any, seed: int) -> Any:
        """All tokens to the first replica."""
        rows = []
        for hosting in instance.hostings:
            first = hosting.first[:-1][hosting.hosts > 0]
            taken = [(int(hosting.expert[p]), int(hosting.gpu[p]), 1.0) for p in first]
            rows.append(taken)
        return rows

    instance = RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
    routing.register("first_replica", first_replica)
    try:
        result = routing.solve(instance, method="first_replica")
        assert (result.objective, result.lower_bound) == (13.0, 7.5)
    finally:
        del routing.METHODS["first_replica"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("imbalance_mean",), 0.0),
        (("even_objective",), 1e300),
        (("gain_over_even",), -5.0),
        (("local_share",), 1e300),
        (("local_share",), None),
        (("layers", 0, "even_max_load"), -72.0),
        (("layers", 0, "local_tokens"), 1e300),
        (("layers", 0, "crossing_tokens"), None),
        (("layers", 0, "cut", "experts"), -12),
        (("layers", 0, "cut", "gpus"), [0, -7]),
    ],
)
def test_every_figure_of_a_routing_is_computed_anew(path: tuple[str | int, ...], value: object) -> None:
    """Figures beside the loads were believed."""
    from moeopt.routing.result_document import document_faults, read_result

    loads = [[9.0, 4.0, 2.0, 7.0], [1.0, 8.0, 3.0, 2.0]]
    instance = RoutingInstance(loads, [[0, 1, 0, 2, 3, 2, 1, 3]] * 2, gpus=4, nodes=2)
    document = json.loads(routing.solve(instance).to_json())
    assert document_faults(read_result(document), loads) == []
    *way, last = path
    item = document["solution"]
    for key in way:
        item = item[key]
    item[last] = value
    assert any(str(last) in fault for fault in document_faults(read_result(document), loads))
