"""The further rules as data: checked, kept in documents, and absent from documents where they are not in force."""

from __future__ import annotations

import numpy as np
import pytest

from moeopt.errors import InstanceError
from moeopt.placement import PlacementInstance

LOADS = [[8, 4, 2, 2], [1, 1, 1, 1]]


def refused(**rules: object) -> str:
    with pytest.raises(InstanceError) as caught:
        PlacementInstance(rules.pop("loads", LOADS), gpus=2, slots=4, **rules)  # type: ignore[arg-type]
    return str(caught.value)


def test_windows_are_summed_and_kept() -> None:
    instance = PlacementInstance([LOADS, LOADS], gpus=2, slots=4, steps=[3, 4])
    assert instance.loads.tolist() == (2 * np.array(LOADS)).tolist()
    assert instance.steps == 7 and len(instance.windows) == 2
    assert instance.windows[1].loads.tolist() == LOADS and instance.windows[1].steps == 4
    assert instance.windows[0].extras == frozenset() and instance.extras == {"windows"}


def test_one_window_is_no_window() -> None:
    assert PlacementInstance([LOADS], gpus=2, slots=4) == PlacementInstance(LOADS, gpus=2, slots=4)


def test_window_faults_name_the_window() -> None:
    assert "window 1, layer 0, expert 2" in refused(loads=[LOADS, [[1, 1, float("nan"), 1], [1, 1, 1, 1]]])
    assert "window 1" in refused(loads=[LOADS, [[1, 1, 1, 1]]])
    assert "steps" in refused(loads=[LOADS, LOADS], steps=[1, 2, 3])


def test_running_plan_of_the_wrong_length_names_both_lengths_and_the_layer() -> None:
    said = refused(current=[[0, 1, 2, 3], [0, 1, 2]])
    assert "current[layer 1]" in said and "3 slots" in said and "one expert a slot, 4" in said
    assert "expert ids run from 0 to 3" in refused(current=[[0, 1, 2, 4], [0, 1, 2, 3]])
    assert "needs the running plan" in refused(max_moves=3)


def test_lost_gpus_have_no_slots_and_the_document_keeps_the_shape_before() -> None:
    instance = PlacementInstance(LOADS, gpus=3, slots=9, lost=[1], current=[[0, 1, 2, 3, -1, 0, 1, 2, 3]] * 2)
    assert instance.slots == (3, 0, 3) and instance.slots_before == (3, 3, 3)
    assert instance.to_dict()["slots"] == [3, 3, 3] and instance.extras == {"lost"}
    assert PlacementInstance.from_dict(instance.to_dict()) == instance
    assert "at least one GPU" in refused(lost=[0], retire=[1])


@pytest.mark.parametrize(
    "rules",
    [
        {"loads": [LOADS, LOADS], "combine": "cvar", "alpha": 0.5},
        {"current": [[0, 1, 2, 3]] * 2, "max_moves": 0, "max_moves_per_layer": 1, "move_cost": 2.5},
        {"min_replicas": [1, 2, 1, 1], "survive_nodes": 1, "nodes": 2, "slots": 6},
        {"c_slot": 1e-6, "c_tok": 1e-7, "token_bytes": 7168.0, "recv_bytes_per_s": [4e10, 2e10]},
        {"shared": "replicated", "num_shared": 2, "top_k": 8, "batch_tokens": 128},
        {"split": "sglang-static-node"},
    ],
)
def test_rules_survive_the_document(rules: dict[str, object]) -> None:
    given = {"gpus": 2, "slots": 4, **rules}
    instance = PlacementInstance(given.pop("loads", LOADS), **given)  # type: ignore[arg-type]
    assert PlacementInstance.from_dict(instance.to_dict()) == instance
    plain = PlacementInstance(instance.loads, gpus=2, slots=given["slots"])  # type: ignore[arg-type]
    assert plain != instance and set(plain.to_dict()) <= set(instance.to_dict())


def test_receiving_slows_gpus_down_and_needs_its_fellows() -> None:
    rates = {"c_tok": 1e-6, "token_bytes": 1e4, "recv_bytes_per_s": [1e10, 5e9]}
    instance = PlacementInstance(LOADS, gpus=2, slots=4, **rates)  # type: ignore[arg-type]
    assert instance.speed == (0.5, 1 / 3) and instance.given_speed == (1.0, 1.0)
    assert "token_bytes" in refused(recv_bytes_per_s=1e9) and "c_tok" in refused(token_bytes=1, recv_bytes_per_s=1e9)


@pytest.mark.parametrize(
    ("given", "moves"), [("10%", 8), ("12.5%", 10), ("64", 64), (7, 7), ("none", None), (np.int64(3), 3), ("0%", 0)]
)
def test_a_budget_is_spelt_as_in_a_replay(given: object, moves: int | None) -> None:
    """80 slots: 40 in each of two layers; a part is of the slots there are, those of lost GPUs left out."""
    current = [[slot % 40 for slot in range(40)]] * 2
    fields = {"loads": np.ones((2, 40)), "slots": [10] * 4, "current": current}
    instance = PlacementInstance(**fields, max_moves=given)  # type: ignore[arg-type]
    assert instance.max_moves == moves
    assert PlacementInstance.from_dict(instance.to_dict()).max_moves == moves
    if isinstance(given, str) and given.endswith("%"):
        one = PlacementInstance(**fields, lost=[3], fill="at_most", max_moves=given)  # type: ignore[arg-type]
        assert one.max_moves == moves * 3 // 4  # type: ignore[operator]


@pytest.mark.parametrize("wrong", [-1, "101%", "x", True, 2.5, "1e999999999", "1/2", "", [3], "-5%", float("nan")])
def test_a_budget_that_is_none_is_refused_in_one_way(wrong: object) -> None:
    said = refused(current=[[0, 1, 2, 3]] * 2, max_moves=wrong)
    assert "must be whole moves >= 0, or a per cent of all slots. Write 64, 10% or none." in said
