"""What a replay promises: nothing is seen before its time, budgets hold, and the referee finds the same numbers."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import placement, replay
from moeopt.errors import InstanceError
from moeopt.limits import Limits
from moeopt.placement import METHODS, PlacementInstance
from moeopt.placement.moves import count_moves
from moeopt.replay.document import read_replay
from moeopt.workload import generate_history

FEW = Limits(iterations=1)
POLICIES = ("keep", "eplb", "lpt", "search")


def history(windows: int = 6, *, seed: int = 0, layers: int = 2, **rules: Any) -> PlacementInstance:
    table = generate_history(
        "walk", windows=windows, layers=layers, experts=8, top_k=2, tokens=400, seed=seed, drift=0.4
    )
    return PlacementInstance(table.windows, **{"gpus": 3, "slots": 12, **rules})


def play(instance: PlacementInstance, names: Any = POLICIES, **how: Any) -> replay.Replay:
    """A quick replay: the first placement is by lpt, searches are short."""
    if instance.current is None:
        how = {"first": "lpt", **how}
    return replay.replay(instance, names, **{"limits": FEW, **how})


@st.composite
def histories(draw: st.DrawFn) -> tuple[PlacementInstance, dict[str, Any]]:
    windows, layers, experts, gpus = (draw(st.integers(low, high)) for low, high in ((2, 6), (1, 2), (3, 6), (2, 3)))
    loads = draw(st.lists(st.integers(0, 50), min_size=windows * layers * experts, max_size=windows * layers * experts))
    each = draw(st.integers(-(-experts // gpus), experts))
    instance = PlacementInstance(np.array(loads).reshape(windows, layers, experts), gpus=gpus, slots=each * gpus)
    lookback = draw(st.integers(1, windows - 1))
    combine = draw(st.sampled_from(["sum", "worst", "mean"]))
    budget = draw(st.sampled_from([None, 0, 1, 3, "10%", "50%"]))
    every = draw(st.integers(1, 3))
    return instance, {"lookback": lookback, "every": every, "combine": combine, "max_moves": budget}


@settings(max_examples=12)
@given(histories())
def test_the_referee_finds_the_same_scores_moves_and_figures(case: tuple[PlacementInstance, dict[str, Any]]) -> None:
    instance, how = case
    found = play(instance, POLICIES, **how)
    document = json.loads(found.to_json())
    assert replay.faults(document, instance) == []
    assert found.complete and list(found.scored) == list(range(how["lookback"], len(instance.windows)))
    for row in found.rows:
        assert [score.window for score in row.scores] == list(found.scored)
        assert all(score.imbalance_mean >= low - 1e-12 for score, low in zip(row.scores, found.bound, strict=True))
        plan = found.first
        replans = {replan.window: replan for replan in row.replans}
        for score in row.scores:
            replan = replans.get(score.window)
            plan = plan if replan is None or replan.plan is None else replan.plan
            judged = placement.evaluate(instance.windows[score.window], plan)
            assert score.imbalance_mean == judged.imbalance_mean
            assert score.imbalance_total == judged.imbalance_total


@settings(max_examples=12)
@given(histories())
def test_budgets_hold_at_every_replan_and_keep_moves_nothing(case: tuple[PlacementInstance, dict[str, Any]]) -> None:
    instance, how = case
    found = play(instance, ["keep", "search", "search@1", "search@none"], **how)
    keep, *searches = found.rows
    assert keep.replans == () and keep.figures is not None and keep.figures.moves == 0
    for row in searches:
        plan = found.first
        for replan in row.replans:
            running = instance.changed(current=plan.slot_expert, current_gpu=tuple(instance.gpu_of_slot.tolist()))
            new = plan if replan.plan is None else replan.plan
            assert replan.moves == sum(count_moves(running, new.slot_expert))
            assert row.max_moves is None or replan.moves <= row.max_moves
            plan = new
    assert [row.max_moves for row in searches[1:]] == [1, None]
    if isinstance(how["max_moves"], str):
        assert searches[0].max_moves == instance.num_slots * instance.num_layers * int(how["max_moves"][:-1]) // 100


@pytest.mark.parametrize("how", [{}, {"every": 2}, {"lookback": 3}, {"lookback": 2, "combine": "worst"}])
def test_a_window_that_is_not_over_changes_no_plan(how: dict[str, Any]) -> None:
    """Windows from `changed` on are other ones: every plan made before one of them was over is the same."""
    one = history(layers=1)
    base = play(one, ["eplb", "search"], max_moves=4, **how)
    for changed in (1, 3, 5):
        loads = np.array(one.window_loads)
        loads[changed:] = loads[changed:, :, ::-1] * 3 + 1
        other = PlacementInstance(loads, gpus=3, slots=12)
        found = play(other, ["eplb", "search"], max_moves=4, **how)
        if changed >= found.lookback:
            assert np.array_equal(found.first.slot_expert, base.first.slot_expert)
        for row, before in zip(found.rows, base.rows, strict=True):
            for new, old in zip(row.replans, before.replans, strict=True):
                if old.seen.stop <= changed:
                    assert (new.plan is None) == (old.plan is None)
                    assert old.plan is None or np.array_equal(new.plan.slot_expert, old.plan.slot_expert)


def test_a_policy_is_shown_what_is_over_and_nothing_else() -> None:
    shown: list[Any] = []

    def watching(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        shown.append(instance)
        return instance.current

    placement.register("watching", watching)
    one = history()
    play(one, ["watching"], every=2, lookback=2, max_moves=3)
    assert [instance.name.rpartition(" ")[2] for instance in shown] == ["2-3"]
    assert [instance.max_moves for instance in shown] == [3]
    assert all(instance.window_loads is None and not instance.windows for instance in shown)
    assert np.array_equal(shown[0].loads, one.window_loads[2:4].sum(axis=0))
    shown.clear()
    play(one, ["watching"], every=2, lookback=3, combine="worst")
    assert [len(instance.windows) for instance in shown] == [3]
    assert np.array_equal(shown[0].window_loads, one.window_loads[2:5])


def test_equal_seeds_give_equal_bytes() -> None:
    one, again = (play(history(), POLICIES, max_moves="20%", seed=3) for _ in range(2))
    assert one.canonical() == again.canonical()
    assert b"runtime_s" not in one.canonical()


def test_all_begin_with_the_given_plan_and_replan_at_once() -> None:
    given = placement.solve(history().windows[0], method="lpt").plan
    found = play(history(current=given.slot_expert), ["keep", "search"], max_moves=2)
    assert found.first_method == "current" and np.array_equal(found.first.slot_expert, given.slot_expert)
    assert [replan.window for replan in found.rows[1].replans] == [1, 2, 3, 4, 5]
    assert replay.faults(found.to_dict(), history(current=given.slot_expert)) == []
    made = play(history(), ["keep", "search"], max_moves=2)
    assert [replan.window for replan in made.rows[1].replans] == [2, 3, 4, 5]


def test_first_windows_are_scored_alike() -> None:
    found = play(history(), POLICIES, every=3, lookback=1)
    assert len({tuple(score.imbalance_mean for score in row.scores[:3]) for row in found.rows}) == 1


def test_method_without_budgets_says_so() -> None:
    found = play(history(), ["eplb", "search"], max_moves=0)
    assert [row.budget_held for row in found.rows] == [False, True]
    most = found.rows[0].figures.most_moves
    (note,) = [note for note in found.notes if note.startswith("eplb knows no budget")]
    assert note == (
        f"eplb knows no budget of moves, and was over it (up to {most} moves, allowed 0): "
        "it is scored, but not called best; eplb@none or eplb@100% may be"
    )
    assert found.rows[0].figures.moves > 0 == found.rows[1].figures.moves
    wide = play(history(), ["eplb"], max_moves="100%")
    assert wide.rows[0].budget_held is True and wide.best == "eplb"
    assert "eplb knows no budget of moves: it was run without one, and held it" in wide.notes


def test_whoever_moves_more_than_the_budget_is_scored_and_never_best() -> None:
    """A policy of somebody's that is eplb, move by move, has the same row as eplb."""

    shown: list[int | None] = []

    def fresh(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        shown.append(instance.max_moves)
        return placement.solve(instance.changed(current=None, max_moves=None), method="eplb").plan

    placement.register("fresh", fresh)
    found = play(history(), ["keep", "eplb", "fresh", "fresh@none", "search"], max_moves=2)
    rows = {row.policy: row for row in found.rows}
    assert rows["eplb"].figures == rows["fresh"].figures is not None
    assert [rows[name].budget_held for name in ("eplb", "fresh", "search")] == [False, False, True]
    assert [rows[name].budget_held for name in ("keep", "fresh@none")] == [None, None]
    assert [rows[name].reason for name in rows] == [""] * 5 and shown == [2, None] * 4
    means = {name: row.figures.imbalance_mean for name, row in rows.items() if row.figures is not None}
    assert found.best == min((name for name in means if name not in ("eplb", "fresh")), key=means.__getitem__)
    assert replay.faults(found.to_dict(), history()) == []
    alone = play(history(), ["fresh"], max_moves=2)
    assert alone.best is None and replay.faults(alone.to_dict(), history()) == []


def test_a_budget_of_each_layer_is_one_too() -> None:
    found = play(history(), ["eplb", "search"], max_moves_per_layer=1)
    eplb, search = found.rows
    assert (eplb.budget_held, search.budget_held, found.best) == (False, True, "search")
    assert any("over it (more than 1 in a layer)" in note for note in found.notes)
    assert replay.faults(found.to_dict(), history()) == []


@pytest.mark.parametrize("fault", ["breaks a rule", "raises", "is no plan"])
def test_a_policy_that_fails_is_scored_up_to_there(fault: str) -> None:
    def policy(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        if instance.name.endswith("2-2"):
            if fault == "raises":
                raise ZeroDivisionError("by hand")
            return instance.current * 0 if fault == "breaks a rule" else [[0]]
        return instance.current

    placement.register("theirs", policy)
    found = play(history(), ["theirs", "keep"], max_moves=0)
    theirs, keep = found.rows
    assert theirs.figures is None and theirs.reason.startswith("at window 3: ")
    assert [score.window for score in theirs.scores] == [1, 2] and len(keep.scores) == 5
    assert found.best == "keep"
    assert replay.faults(found.to_dict(), history()) == []


def test_seconds_add_up_and_keeping_saves_nothing() -> None:
    one = history(steps=10, expert_bytes=100.0)
    prices = replay.Prices(step_seconds=0.5, bytes_per_s=200.0)
    found = play(one, ["keep", "eplb"], prices=prices)
    keep, eplb = (row.figures for row in found.rows)
    assert keep.saved_s == 0 and keep.stall_s == 0 and keep.total_s == keep.experts_s
    first = found.rows[0].scores[0].imbalance_total
    by_hand = sum(10 * 0.5 * score.imbalance_total / first for score in found.rows[0].scores)
    assert keep.experts_s == pytest.approx(by_hand, rel=1e-12)
    assert eplb.stall_s == pytest.approx(eplb.moves * 100 / 200) and eplb.moved_bytes == eplb.moves * 100
    assert eplb.saved_s == pytest.approx(keep.total_s - eplb.total_s)
    for replan in found.rows[1].replans:
        if replan.gain_s > 0 and replan.moves:
            gain = replan.gain_s / 10  # a step: every period has one window of ten
            assert (replan.break_even_steps - 1) * gain < replan.stall_s <= replan.break_even_steps * gain * (1 + 1e-12)
        else:
            assert replan.break_even_steps is None
    assert replay.faults(found.to_dict(), one) == []


def test_nothing_moves_where_no_move_pays() -> None:
    prices = replay.Prices(step_seconds=1e-9, stall_seconds=1e6)
    found = play(history(), ["eplb", "search"], prices=prices, if_it_pays=True)
    assert [row.figures.moves for row in found.rows] == [0, 0]
    assert any(replan.note.startswith("keep: ") for replan in found.rows[0].replans)
    free = replay.Prices(step_seconds=1.0, stall_seconds=0.0)
    moved = play(history(), ["eplb"], prices=free, if_it_pays=True)
    assert moved.rows[0].figures.moves > 0
    assert replay.faults(moved.to_dict(), history()) == []


def test_an_interrupt_keeps_the_periods_that_were_played() -> None:
    stopped = [False]

    def listen(progress: Any) -> None:
        stopped[0] = progress.done > 2 * len(POLICIES)  # within the third period

    limits = Limits(iterations=1, stop=lambda: stopped[0])
    found = play(history(), POLICIES, limits=limits, on_progress=listen)
    assert (str(found.stop), found.complete, found.played) == ("INTERRUPTED", False, 2)
    assert all([score.window for score in row.scores] == [1, 2] for row in found.rows)
    assert "interrupted before window 3: 3 windows were not scored" in found.notes
    assert replay.faults(found.to_dict(), history()) == []
    whole = play(history(), POLICIES)
    for row, other in zip(found.rows, whole.rows, strict=True):
        assert row.scores == other.scores[:2]


def test_a_time_limit_ends_it_between_periods() -> None:
    def slow(instance: PlacementInstance, limits: Limits, seed: int) -> Any:
        import time

        assert limits.time_s is not None and limits.time_s < 0.3
        time.sleep(0.12)
        return instance.current

    placement.register("slow", slow)
    found = play(history(), ["keep", "slow"], limits=Limits(time_s=0.3))
    assert str(found.stop) == "TIME" and 1 <= found.played < len(found.periods)
    assert found.runtime_s < 0.3 + 0.25
    assert len({len(row.scores) for row in found.rows}) == 1


def test_rules_in_conflict_are_told_and_not_played() -> None:
    loads = np.ones((3, 1, 4), dtype=int)
    found = play(PlacementInstance(loads, gpus=2, slots=4, pin=[(0, 0), (1, 0), (2, 0)]), ["keep"])
    assert found.first is None and found.rows == () and found.conflicts and found.best is None
    read_replay(json.loads(found.to_json()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": "keep"}, "must be a list of names"),
        ({"names": ["keep", "serach"]}, "Did you mean search?"),
        ({"names": ["keep@5%"]}, "it has no budget"),
        ({"names": ["search@x"]}, "must be whole moves"),
        ({"max_moves": -1}, "max_moves = -1"),
        ({"max_moves": "101%"}, "a per cent of all slots"),
        ({"every": 0}, "every = 0"),
        ({"lookback": 6}, "needs more windows than the 6"),
        ({"combine": "best"}, "must be one of sum, worst, mean, cvar"),
        ({"first": "keepp"}, "is not a method"),
        ({"if_it_pays": True}, "are needed to say whether a move pays"),
        ({"prices": replay.Prices(step_seconds=1.0)}, "stall_seconds = missing"),
        ({"windows": ["a"]}, "must be one for each of the 6 windows"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(arguments: dict[str, Any], words: str) -> None:
    arguments = {"names": ["keep"], **arguments}
    with pytest.raises(InstanceError) as error:
        play(history(), arguments.pop("names"), **arguments)
    assert words in str(error.value)


def test_a_history_needs_windows_and_a_legal_plan() -> None:
    with pytest.raises(InstanceError, match="must have windows"):
        play(PlacementInstance([[1, 2]], gpus=2, slots=2), ["keep"])
    with pytest.raises(InstanceError, match="GPU 0 holds expert 0 twice"):
        play(history(layers=1, current=[[0, 0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3]]), ["keep"])


def test_every_kind_of_damage_is_found() -> None:
    one = history(steps=5, expert_bytes=10.0)
    prices = replay.Prices(step_seconds=1.0, stall_seconds=2.0)
    document = play(one, ["keep", "eplb", "lpt"], max_moves=2, prices=prices).to_dict()
    assert replay.faults(document, one) == []

    def damaged(change: Any) -> list[str]:
        other = copy.deepcopy(document)
        change(other)
        return replay.faults(other, one)

    def new_plan(other: Any) -> None:
        replan = next(item for item in other["policies"][1]["replans"] if item["slot_expert"] is not None)
        replan["slot_expert"][0] = replan["slot_expert"][0][::-1]

    def moved(other: Any) -> Any:
        return next(item for row in other["policies"] for item in row["replans"] if item["slot_expert"] is not None)

    changes: list[Any] = [
        new_plan,
        lambda other: other["policies"][2]["replans"][0].update(budget_held=True),
        lambda other: other["policies"][1]["replans"][0].update(moves=1),
        lambda other: other["policies"][1]["replans"][0].update(seen=(0, 0)),
        lambda other: other["policies"][1]["replans"][0].update(gain_s=1e9),
        lambda other: other["policies"][0]["scores"].pop(),
        lambda other: other["policies"][0].update(figures=None),
        lambda other: other["policies"][0]["figures"].update(saved_s=1.0),
        lambda other: other["policies"][0]["scores"][2].update(worst_layer=7),
        lambda other: other["bound"].__setitem__(0, 1.5),
        lambda other: other.update(best="keep" if document["best"] != "keep" else "eplb"),
        lambda other: other.update(complete=False),
        lambda other: other.update(scored=(1, 3)),
        lambda other: other["first"].update(slot_expert=[[0] * 12, [0] * 12]),
        lambda other: other["instance"].update(sha256="0" * 64),
        lambda other: other.update(unknown=1),
        lambda other: other["windows"][1].update(selections=-7.5),
        lambda other: other["windows"][0].update(steps=0),
        lambda other: moved(other).update(imbalance_now=0.0),
        lambda other: moved(other).update(imbalance_after=1e300),
        lambda other: moved(other).update(runtime_s=-5.0),
    ]
    assert [number for number, change in enumerate(changes) if not damaged(change)] == []


def test_equal_policies_are_played_once() -> None:
    found = play(history(), ["keep", "keep"])
    assert [row.policy for row in found.rows] == ["keep"]
    assert "keep" not in METHODS


@pytest.mark.parametrize(
    "rules",
    [
        {"split": "free"},
        {"split": "sglang-static"},
        {"fill": "at_most"},
        {"speed": [1, 1, 0.5]},
        {"shared": "hosted", "top_k": 2},
        {"shared": "replicated", "top_k": 2},
        {"distinct": False},
        {"lost": [1], "slots": 24},
        {"move_cost": 5.0},
    ],
)
def test_rules_of_placement_hold_in_every_window(rules: dict[str, Any]) -> None:
    one = history(3, layers=1, **rules)
    found = play(one, ["keep", "eplb"], max_moves=2)
    assert [row.reason for row in found.rows] == ["", ""]
    assert replay.faults(json.loads(found.to_json()), one) == []


def test_a_method_that_does_not_apply_says_why() -> None:
    found = play(history(survive_nodes=1, nodes=3, slots=18), ["keep", "eplb"], max_moves=2, first="search")
    assert found.rows[1].reason == "at window 2: eplb does not apply: it does not know these rules: survive_nodes"
