"""The registry: somebody's own policy is a method like ours, and a failure is a row with its reason."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import placement, registry
from moeopt.errors import InstanceError, NotApplicable, PlanError
from moeopt.limits import Limits
from moeopt.placement import METHODS, Placement, PlacementInstance, methods
from moeopt.result import Status

INSTANCE = PlacementInstance([[8, 4, 2, 2], [1, 1, 1, 5]], gpus=2, slots=6)
GOOD = [[0, 1, 2, 0, 1, 3], [0, 1, 3, 1, 2, 3]]


# --- plug-ins ---------------------------------------------------------------------------------------------------------


def mine(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
    """Experts in order, again and again."""
    return np.tile(np.arange(instance.num_slots) % instance.num_experts, (instance.num_layers, 1))


def test_a_three_line_policy_is_a_method_like_ours() -> None:
    placement.register("mine", mine)
    assert METHODS["mine"].summary == "Experts in order, again and again."
    ours, theirs = placement.compare(INSTANCE, ["contiguous", "mine"]).rows
    assert ours.result is not None and theirs.result is not None
    assert theirs.result.method == "mine"
    assert theirs.result.objective == ours.result.objective
    assert theirs.result.lower_bound == ours.result.lower_bound


@pytest.mark.parametrize("give", [list, np.array, Placement.of, tuple, lambda rows: np.array(rows, dtype=np.uint8)])
def test_a_policy_may_return_any_table_of_experts(give: Any) -> None:
    placement.register("mine", lambda instance, limits, seed: give(GOOD))
    assert placement.solve(INSTANCE, method="mine").plan.slot_expert.tolist() == GOOD


def test_a_policy_is_given_limits_and_seed() -> None:
    seen: list[Any] = []

    def note(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        seen.append((limits.iterations, seed))
        return GOOD

    placement.register("mine", note)
    placement.solve(INSTANCE, method="mine", limits=Limits(iterations=3), seed=9)
    assert seen == [(3, 9)]


@pytest.mark.parametrize("split", ["even", "free"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "shape ()"),
        ("a plan", "shape ()"),
        ([[0, 1], [2]], "table of layers"),
        ([[0, 1, 2, 0, 1, 3]], "1 layers, the instance 2"),
        ([[0, 1, 2, 0, 1], [0, 1, 3, 1, 2]], "5 slots, the instance 6"),
        ([[0, 1, 2, 0, 1, 9], GOOD[1]], "expert 9"),
        ([[0, 1, 1, 0, 2, 3], GOOD[1]], "twice"),
        ([[0, 1, 2, 0, 1, 2], GOOD[1]], "expert 3 has no replica"),
        ([[0, 1, 2, 0, 1, -1], GOOD[1]], "empty"),
    ],
)
def test_garbage_from_a_policy_is_a_plan_error_and_a_row_with_its_reason(split: str, answer: Any, words: str) -> None:
    """With a free split the shares programme once saw the plan before the referee did, and broke down."""
    instance = PlacementInstance(INSTANCE.loads, slots=[3, 3], split=split)
    placement.register("mine", lambda instance, limits, seed: answer)
    with pytest.raises(PlanError) as caught:
        placement.solve(instance, method="mine")
    assert words in str(caught.value)
    good, bad = placement.compare(instance, ["lpt", "mine"]).rows
    assert good.result is not None
    assert bad.result is None and words in bad.reason


def test_a_policy_that_raises_is_a_row_with_its_reason_and_an_interrupt_goes_on() -> None:
    def fail(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        raise ZeroDivisionError("no load")

    def interrupt(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        raise KeyboardInterrupt

    placement.register("fail", fail)
    placement.register("interrupt", interrupt)
    bad, good = placement.compare(INSTANCE, ["fail", "lpt"]).rows
    assert bad.result is None and bad.reason == "the policy failed: ZeroDivisionError: no load"
    assert good.result is not None
    with pytest.raises(ZeroDivisionError):
        placement.solve(INSTANCE, method="fail")
    with pytest.raises(KeyboardInterrupt):
        placement.compare(INSTANCE, ["interrupt"])


def test_a_policy_cannot_change_the_loads() -> None:
    def spoil(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        instance.loads[:] = 0
        return GOOD

    placement.register("spoil", spoil)
    (row,) = placement.compare(INSTANCE, ["spoil"]).rows
    assert "read-only" in row.reason


def test_a_name_of_the_house_is_refused_and_ones_own_may_be_given_again() -> None:
    for name in (method.name for method in methods.METHODS):
        with pytest.raises(InstanceError, match="is a method of the house"):
            placement.register(name, mine)
    placement.register("mine", mine)
    placement.register("mine", lambda instance, limits, seed: GOOD)
    assert placement.solve(INSTANCE, method="mine").plan.slot_expert.tolist() == GOOD


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "right"), [("serch", "search"), ("epbl", "eplb"), ("Snake", "snake")])
def test_a_misspelt_method_names_the_nearest(wrong: str, right: str) -> None:
    for call in (lambda: placement.solve(INSTANCE, method=wrong), lambda: placement.compare(INSTANCE, ["lpt", wrong])):
        with pytest.raises(InstanceError) as caught:
            call()
        assert f"Did you mean {right}?" in str(caught.value) and wrong in str(caught.value)


def test_a_method_without_a_near_name_lists_all() -> None:
    with pytest.raises(InstanceError) as caught:
        placement.solve(INSTANCE, method="zzz")
    assert all(name in str(caught.value) for name in METHODS)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "policy_of_mine.py"
    sys.modules.pop("policy_of_mine", None)


def test_a_function_named_by_its_module_is_imported(module: Path) -> None:
    module.write_text(f"def place(instance, limits, seed):\n    'In a file.'\n    return {GOOD}\nnumber = 3\n")
    (row,) = placement.compare(INSTANCE, ["policy_of_mine:place"]).rows
    assert row.result is not None and row.result.method == "policy_of_mine:place"
    assert row.result.plan.slot_expert.tolist() == GOOD
    for name, words in (("policy_of_mine:other", "other"), ("policy_of_mine:number", "is not a function")):
        with pytest.raises(InstanceError, match=words):
            placement.solve(INSTANCE, method=name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_module_x\n", "no_such_module_x"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(module: Path, text: str, words: str) -> None:
    """Only import errors were caught; a slip in somebody's file ended in a traceback of ours."""
    module.write_text(text)
    with pytest.raises(InstanceError, match=words):
        placement.solve(INSTANCE, method="policy_of_mine:place")


@pytest.mark.parametrize("name", ["no_such_module_x:place", ":place", "moeopt:", "a:b:c", ".:x"])
def test_a_function_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InstanceError, match="cannot be imported"):
        placement.solve(INSTANCE, method=name)


def test_problems_are_found_by_name() -> None:
    assert registry.problem("placement") is placement.PROBLEM
    registry.register("placement", "mine", mine)
    assert "mine" in METHODS
    with pytest.raises(InstanceError, match="placemnet"):
        registry.problem("placemnet")


# --- solve and compare ------------------------------------------------------------------------------------------------


def test_a_method_that_does_not_apply_says_which_does() -> None:
    with pytest.raises(NotApplicable, match="fold does not apply: fold needs two slots"):
        placement.solve(INSTANCE, method="fold")
    (row,) = placement.compare(INSTANCE, ["fold"]).rows
    assert row.result is None and "two slots" in row.reason


def test_comparison_names_the_best_plan_and_measures_all_against_the_best_bound() -> None:
    comparison = placement.compare(
        INSTANCE, ["contiguous", "lpt", "search", "lpt"], plans={"by hand": GOOD, "bad": [[0]]}
    )
    assert [row.method for row in comparison.rows] == ["contiguous", "lpt", "search", "by hand", "bad"]
    objectives = {row.method: row.result.objective for row in comparison.rows if row.result is not None}
    assert comparison.best is not None and objectives[comparison.best] == min(objectives.values())
    bounds = [row.result.lower_bound for row in comparison.rows if row.result is not None]
    assert comparison.lower_bound == max(bound for bound in bounds if bound is not None)
    assert comparison.rows[-1].result is None and "slots" in comparison.rows[-1].reason
    assert [comparison.gap(row) is None for row in comparison.rows] == [False, False, False, False, True]


def test_a_comparison_of_rules_that_conflict_has_no_best() -> None:
    instance = PlacementInstance([[1, 1]], gpus=2, slots=2, pin=[(0, 1)], forbid=[(None, 1)])
    comparison = placement.compare(instance, list(METHODS), plans={"by hand": [[0, 1]]})
    assert comparison.best is None and comparison.lower_bound is None
    statuses = {row.result.status for row in comparison.rows if row.result is not None}
    assert statuses == {Status.INFEASIBLE}
    assert "pinned" in comparison.rows[-1].reason


@pytest.mark.parametrize("start", [[[0, 1, 2, 0, 1, 3]], [[0, 1, 1, 0, 2, 3], GOOD[1]], "x"])
def test_a_warm_start_that_breaks_a_rule_is_refused(start: Any) -> None:
    with pytest.raises(PlanError):
        placement.solve(INSTANCE, method="search", warm_start=start)


def test_evaluate_takes_another_split_and_refuses_an_unknown_one() -> None:
    """An unknown split was silently judged as an even one."""
    assert placement.evaluate(INSTANCE, GOOD, split="even").objective == placement.evaluate(INSTANCE, GOOD).objective
    with pytest.raises(InstanceError, match="split"):
        placement.evaluate(INSTANCE, GOOD, split="sometimes")


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"limits": 5}, "limits = 5: must be a Limits. Write limits=Limits(time_s=5)."),
        ({"limits": {"time_s": 5}}, "must be a Limits"),
        ({"seed": -1}, "seed = -1: must be a whole number >= 0"),
        ({"seed": 1.5}, "seed = 1.5: must be a whole number >= 0"),
        ({"seed": True}, "seed = True: must be a whole number >= 0"),
        ({"seed": "0"}, "seed = '0': must be a whole number >= 0"),
        ({"instance": [[1, 2]]}, "instance = [[1, 2]]: must be a PlacementInstance"),
        ({"instance": None, "seed": None}, "seed = None"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments: dict[str, Any], said: str) -> None:
    given = {"instance": INSTANCE, **arguments}
    instance = given.pop("instance")
    for call in (
        lambda: placement.solve(instance, method="lpt", **given),
        lambda: placement.compare(instance, ["lpt"], **given),
    ):
        with pytest.raises(InstanceError) as caught:
            call()
        assert said in str(caught.value)


def test_a_seed_may_be_a_whole_number_of_numpy() -> None:
    result = placement.solve(INSTANCE, method="lpt", seed=np.int64(3))  # type: ignore[arg-type]
    assert '"seed": 3' in result.to_json()


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ("eplb", "methods = 'eplb': must be a list of names, not one string. Write ['eplb']."),
        ("eplb, lpt", "Write ['eplb', 'lpt']"),
        (None, "methods = None: must be a list of names and functions. Write ['eplb', 'search']."),
        (["lpt", 3], "methods = 3: must be the name of a method"),
    ],
)
def test_methods_that_are_no_list_of_names_are_refused(methods: Any, said: str) -> None:
    with pytest.raises(InstanceError) as caught:
        placement.compare(INSTANCE, methods)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["", "two words", "a,b", "a\tb", 3, None])
def test_register_refuses_names_that_no_list_can_hold_and_what_cannot_be_called(name: Any) -> None:
    with pytest.raises(InstanceError, match=r"name = .*: must be a word without spaces and commas"):
        placement.register(name, mine)
    with pytest.raises(InstanceError, match=r"policy = 3: must be a function"):
        placement.register("mine", 3)  # type: ignore[arg-type]
    assert name not in METHODS and "mine" not in METHODS


def test_a_broken_on_progress_does_not_cost_the_plan() -> None:
    calls: list[Any] = []

    def listen(step: Any) -> None:
        calls.append(step)
        raise ZeroDivisionError("no bar")

    result = placement.solve(INSTANCE, method="search", limits=Limits(iterations=0), on_progress=listen)
    assert result.objective is not None and len(calls) == 1
    assert result.notes[-1] == "on_progress failed and was not called again: ZeroDivisionError: no bar"


def test_a_policy_that_ends_the_process_has_failed() -> None:
    def leave(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        raise SystemExit(3)

    placement.register("leave", leave)
    bad, good = placement.compare(INSTANCE, ["leave", "lpt"]).rows
    assert bad.reason == "the policy failed: RuntimeError: it raised SystemExit(3)" and good.result is not None


def test_a_module_that_ends_the_process_is_refused(module: Path) -> None:
    module.write_text("raise SystemExit(4)\n")
    with pytest.raises(InstanceError, match=r"cannot be imported \(SystemExit: 4\)"):
        placement.solve(INSTANCE, method="policy_of_mine:place")


def test_a_policy_that_takes_too_long_is_said_to_have_been_stopped_by_time() -> None:
    def slow(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        time.sleep(0.25)
        return mine(instance, limits, seed)

    placement.register("slow", slow)
    result = placement.solve(INSTANCE, method="slow", limits=Limits(time_s=0.1))
    (note,) = result.notes
    assert result.stop == "TIME" and note.startswith("the policy took 0.") and note.endswith(" s of 0.1 s allowed")
    assert placement.solve(INSTANCE, method="slow", limits=Limits(time_s=50)).notes == ()
    (row,) = placement.compare(INSTANCE, ["slow"], limits=Limits(time_s=0.1)).rows
    assert row.cut_short == row.said == "stopped by TIME"


def test_an_interrupt_ends_a_comparison_after_the_method_being_run() -> None:
    def interrupt(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        raise KeyboardInterrupt

    placement.register("interrupt", interrupt)
    comparison = placement.compare(INSTANCE, ["eplb", "interrupt", "lpt"], plans={"by hand": GOOD})
    assert [row.reason for row in comparison.rows[1:3]] == ["interrupted", "not run: the comparison was interrupted"]
    assert comparison.interrupted and comparison.not_run == ("lpt", "by hand") and comparison.best == "eplb"
    assert comparison.notes == ("interrupted: lpt, by hand were not run",)


def test_a_comparison_prints_as_a_table() -> None:
    comparison = placement.compare(INSTANCE, ["contiguous", "fold", "lpt"], plans={"bad": [[0]]})
    head, *rows = str(comparison).splitlines()
    assert head.split("  ")[0] == "method" and "imbalance worst" in head
    assert [row.split()[0] for row in rows] == ["contiguous", "fold", "lpt", "bad", "lower"]
    assert rows[1].endswith("fold does not apply: fold needs two slots on every GPU and equal speeds")
    assert sum(row.endswith("best") for row in rows) == 1 and all(len(row) < 180 for row in rows)


def test_a_printed_comparison_has_the_figures_of_the_command_line() -> None:
    from moeopt.cli.tables import comparison_table

    instance = placement.PlacementInstance(
        [[8, 4, 2, 2], [5, 0, 1, 9]], gpus=2, slots=6, current=[[0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 3]]
    )
    comparison = placement.compare(instance, ["contiguous", "lpt"], plans={"runs": instance.current})
    head, *rows = (re.split(r"  +", line.strip()) for line in str(comparison).splitlines())
    table = comparison_table(comparison)
    shown = {str(column.header): list(column.cells) for column in table.columns}
    assert head == [name for name in shown if name not in ("replicas max", "time")]
    assert "moves" in head and "gap mean" in head and "gap" not in head
    for at, row in enumerate(rows[:3]):
        numbers = [str(shown[name][at]) for name in head]
        assert row == [text for text in numbers if text]
    gaps = comparison.layer_gaps(comparison.rows[0])
    assert len(gaps) == 2 and sum(gaps) / 2 != comparison.gap(comparison.rows[0])


def test_faults_that_repeat_are_told_once() -> None:
    assert str(PlanError(["a", "b", "a"])) == "a; b"
