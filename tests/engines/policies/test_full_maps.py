"""Whatever is asked, and whatever goes wrong: the map that leaves is full."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.engines import eplb
from moeopt.engines.policies import Options, ascend, case, guard, sglang, vllm
from moeopt.engines.policies.planning import TimeIsUp
from moeopt.engines.policies.shape import Shape, new_pairs
from moeopt.workload import generate
from tests.engines.policies.test_cover import doubled


def broken(error: BaseException) -> Any:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


def ragged(held: Any) -> Any:
    """A first rank that sends nonsense of the right shape."""
    return np.zeros_like(held) + 7


FAULTS: dict[str, Any] = {
    "none": None,
    "nan": lambda loads: np.where(np.arange(loads.size).reshape(loads.shape) % 3, loads, np.nan),
    "negative": lambda loads: loads - 100,
    "zero": lambda loads: loads * 0,
    "one idle layer": lambda loads: loads * (np.arange(len(loads)) > 0)[:, None],
    "text": lambda loads: loads.astype(str),
}
BUGS = {
    "planner raises": ("with_idle_layers", broken(ZeroDivisionError("oops"))),
    "planner is late": ("with_idle_layers", broken(TimeIsUp())),
    "cover raises": ("covered", broken(KeyError("oops"))),
}


def full(held: Any, layers: int, experts: int, slots: int) -> str:
    """What is missing in a map; nothing: ''."""
    table = np.asarray(held)
    if table.dtype != np.int64 or table.shape != (layers, slots):
        return f"{table.dtype} {table.shape}"
    if table.min() < 0 or table.max() >= experts:
        return "unknown experts"
    lost = [row for row in table.tolist() if len(set(row)) < experts]
    return f"{len(lost)} layers lack experts" if lost else ""


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """Loads, a shape that has a map, a running map of more or fewer GPUs, in any state, and options."""
    gpus, before = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    experts = draw(st.integers(2, 12))
    per_gpu = draw(st.integers(-(-experts // gpus), experts)) if experts > gpus else draw(st.integers(1, experts))
    layers, seed = draw(st.integers(1, 3)), draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    low = draw(st.sampled_from([0, 0, 0, -1, -3]))
    spread = rng.integers(low, experts, (layers, before * per_gpu))
    in_order = np.tile(np.arange(before * per_gpu) % experts, (layers, 1))
    return {
        "loads": rng.integers(0, 1000, (layers, experts)).astype(float) + 1,
        "experts": experts,
        "gpus": gpus,
        "per_gpu": per_gpu,
        "groups": draw(st.sampled_from([1, 1, 2, 4])),
        "nodes": draw(st.sampled_from([1, 2])),
        "old": draw(st.sampled_from([None, spread, spread, in_order, spread + 1000, spread[:, :-1], "junk"])),
        "before": before,
        "options": {
            "max_moves": draw(st.sampled_from([None, 0, 1, 2, 5])),
            "keep": draw(st.sampled_from([0.0, 0.01, 0.2])),
            "time_limit_s": draw(st.sampled_from([1e-9, 0.2, 0.5])),
            "steady": draw(st.booleans()),
            "agree": draw(st.sampled_from([None, None, None, ragged])),
        },
        "fault": draw(st.sampled_from(sorted(FAULTS))),
        "bug": draw(st.sampled_from([None, None, None, *BUGS])),
    }


@settings(max_examples=200)
@given(call=calls())
def test_every_map_that_leaves_is_full_and_within_its_budget(call: dict[str, Any]) -> None:
    loads, gpus, slots = call["loads"], call["gpus"], call["gpus"] * call["per_gpu"]
    given_loads = loads if FAULTS[call["fault"]] is None else FAULTS[call["fault"]](loads)
    options = Options(**call["options"])
    with pytest.MonkeyPatch.context() as patch:
        if call["bug"]:
            name, bug = BUGS[call["bug"]]
            patch.setattr(guard if name == "with_idle_layers" else case, name, bug)
        asked = case.Asked("test", given_loads, slots, call["groups"], call["nodes"], gpus, call["old"])
        held = guard.answer(asked, options).held
    assert full(held, len(loads), call["experts"], slots) == ""
    old = call["old"]
    budget = options.max_moves
    usable = isinstance(old, np.ndarray) and old.size > 0 and not old.shape[1] % call["per_gpu"]
    if budget is None or not usable or old.max() < 0 or old.max() >= call["experts"]:
        assert not doubled(held, gpus).any()
        return
    if options.agree is not None or call["bug"] == "cover raises":
        return
    shape = Shape(len(loads), call["experts"], slots, gpus)
    table = np.full((len(loads), slots), -1)
    table[:, : old.shape[1]] = old[:, :slots]
    moves = new_pairs(shape, table, held)
    for row, count in zip(table, moves, strict=True):
        empty, missing = int((row < 0).sum()), call["experts"] - len(set(row.tolist()) - {-1, -2, -3})
        assert count <= max(budget, empty, missing)
    assert not doubled(held, gpus)[moves < budget].any()  # the budget is used on them


W = generate("lognormal", layers=3, experts=60, top_k=6, tokens=16384, seed=1).loads
LATER = np.rint(W * np.exp(np.random.default_rng(0).normal(0, 0.1, W.shape)))
OLD = vllm.EplbPolicy.rebalance_experts(W, 72, 4, 4, 8)


@pytest.mark.parametrize("loads", [LATER, LATER * np.nan])
def test_engines_that_shrink_keep_every_expert(loads: Any, caplog: pytest.LogCaptureFixture) -> None:
    options = {"max_moves": 2, "logger": logging.getLogger("shrink")}
    with caplog.at_level(logging.INFO, "shrink"):
        maps = [
            vllm.configure(**options).rebalance_experts(loads, 63, 4, 4, 7, OLD),
            eplb.configure(**options)(loads, 63, 8, 1, 7, current=OLD)[0],
            eplb.configure(**options)(loads, 81, 8, 1, 9, current=OLD)[0],
        ]
        asked = (loads[None], 72, 9, 8, 4, "elasticity_aware")
        survivors = sglang.rebalance_experts(
            *asked, current=OLD, active_ranks=[1] * 7 + [0], options=Options(**options)
        )[0][:, :63]
    assert [full(held, 3, 60, held.shape[1]) for held in [*maps, survivors]] == ["", "", "", ""]
    assert all("kept what runs" not in text and "WARNING" in text for text in caplog.text.splitlines())
    assert "max_moves = 2 was too small for every expert and slot to be there: 3 layers took more" in caplog.text
    if np.isnan(loads).any():
        assert "kept what fits of what runs and filled the rest by the fewest moves" in caplog.text


@pytest.mark.parametrize("loads", [LATER, LATER * np.nan, None, "loads"])
@pytest.mark.parametrize("size", [7, 9, 16])
def test_a_table_has_every_expert_after_scaling(loads: Any, size: int) -> None:
    of_slots = np.take_along_axis(loads, OLD, axis=1).reshape(3, 8, 9) if isinstance(loads, np.ndarray) else loads
    policy = ascend.configure(max_moves=2)()
    policy.set_new_ep_size(size)
    table = np.array(policy.rebalance_experts(OLD.reshape(3, 8, 9), of_slots)[2])
    assert table.shape == (3, size, 9) and full(table.reshape(3, -1), 3, 60, 9 * size) == ""
    assert not doubled(table.reshape(3, -1), size).any()


def test_doubles_are_mended_as_far_as_the_budget_lasts_and_the_rest_is_told(caplog: pytest.LogCaptureFixture) -> None:
    start = np.tile(np.r_[np.repeat(np.arange(12), 2), np.arange(12, 60)], (3, 1))
    assert doubled(start, 8).tolist() == [11, 11, 11]
    with caplog.at_level(logging.INFO, "moeopt.engines"):
        few = vllm.configure(max_moves=3).rebalance_experts(LATER, 72, 1, 1, 8, start)
        assert "3 layers" in caplog.text and "24 second replicas of an expert on one GPU stayed" in caplog.text
        assert "WARNING" in caplog.text
        caplog.clear()
        assert not doubled(vllm.configure(max_moves=11).rebalance_experts(LATER, 72, 1, 1, 8, start), 8).any()
    assert doubled(few, 8).tolist() == [8, 8, 8] and "WARNING" not in caplog.text
    assert new_pairs(Shape(3, 60, 72, 8), start, few).tolist() == [3, 3, 3]
    for loads in (LATER * np.nan, LATER * 0):
        assert not doubled(vllm.EplbPolicy.rebalance_experts(loads, 72, 1, 1, 8, start), 8).any()
