"""What the line in the log says is so."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import numpy as np
import pytest

from moeopt.engines import eplb
from moeopt.engines.policies import sglang
from moeopt.engines.policies.shape import Shape, new_pairs
from moeopt.workload import generate

LOADS = generate("lognormal", layers=3, experts=64, top_k=6, tokens=16384, seed=1).loads
OLD = eplb.rebalance_experts(LOADS, 72, 1, 1, 8)[0]
LATER = np.rint(LOADS * np.exp(np.random.default_rng(0).normal(0, 0.2, LOADS.shape)))


@pytest.fixture
def line(caplog: pytest.LogCaptureFixture) -> Any:
    """Level and text of the one line that a call has logged."""
    caplog.set_level(logging.INFO, "moeopt.engines")

    def last() -> tuple[str, str]:
        (record,) = caplog.records
        caplog.clear()
        return record.levelname, record.getMessage()

    return last


def fails() -> Any:
    raise RuntimeError("not loaded yet")


@pytest.mark.parametrize(
    ("current", "reason"),
    [
        (fails, "the function raised RuntimeError: not loaded yet"),
        ("junk", "it has <U4 in it, not ids of experts"),
        (OLD[:, :10], "its shape is (3, 10), not 3 layers of GPUs with 9 slots"),
        (OLD[:2], "its shape is (2, 72), not 3 layers"),
        (OLD + 1000, "no slot holds an expert from 0 to 63"),
        (OLD.astype(float), "it has float64 in it"),
        ([[1], [2, 3]], "it is no table, ValueError"),
    ],
)
def test_a_running_map_of_no_use_is_a_warning_and_its_moves_are_unknown(current: Any, reason: str, line: Any) -> None:
    sglang.configure(current=lambda: current() if callable(current) else current)(LOADS[None], 72, 9, 1, 1, "deepseek")
    level, text = line()
    assert level == "WARNING" and "current cannot be used: " in text and "planned from nothing" in text
    assert reason in text
    assert "moves unknown, at most all 216" in text
    eplb.rebalance_experts(LOADS * np.nan, 72, 1, 1, 8, current=current)
    level, text = line()
    assert level == "WARNING" and "current cannot be used" in text and "the start-up map: 192 loads are NaN" in text
    assert "kept" not in text
    ranks = [1] * 8 + [0]
    sglang.rebalance_experts(LOADS[None], 81, 9, 1, 1, "elasticity_aware", current=current, active_ranks=ranks)
    assert "current cannot be used" in line()[1]


def test_slots_without_a_known_expert_are_counted(line: Any) -> None:
    part = OLD.copy()
    part[0, :3] = 64, -1, 99
    eplb.rebalance_experts(LATER, 72, 1, 1, 8, current=part)
    level, text = line()
    assert level == "WARNING" and "3 of the 216 slots that run hold no known expert" in text


def test_moves_are_those_of_the_map(line: Any) -> None:
    held = eplb.rebalance_experts(LATER, 72, 1, 1, 8, current=OLD)[0]
    level, text = line()
    moves = int(new_pairs(Shape(3, 64, 72, 8), OLD, held).sum())
    assert level == "INFO" and f" {moves} moves," in text
    assert re.search(r"3 layers could gain more than keep, \d of them got the deep search", text)


def test_layers_without_loads_count_in_no_mean_and_no_moves(line: Any) -> None:
    eplb.rebalance_experts(LATER, 72, 1, 1, 8, current=OLD)
    alone = line()[1]
    dense = np.concatenate([np.zeros((2, 64)), LATER]).astype(np.int64)
    eplb.rebalance_experts(dense, 72, 1, 1, 8, current=np.concatenate([OLD[:2], OLD]))
    level, text = line()
    figures = re.search(r"imbalance \S+ -> \S+ \(bound \S+\), \d+ moves", alone)
    assert level == "INFO" and figures is not None and figures[0] in text
    assert "2 layers without loads not counted" in text
    eplb.rebalance_experts(dense, 72, 1, 1, 8, current="junk")
    assert "at most all 216," in line()[1]


def test_loads_of_zero_are_said_to_be_none(line: Any) -> None:
    eplb.rebalance_experts(LOADS * 0, 72, 1, 1, 8, current=OLD)
    level, text = line()
    assert level == "INFO" and "kept what runs: there were no loads" in text and "imbalance" not in text
    eplb.rebalance_experts(LOADS * 0, 63 + 9 * 2, 1, 1, 9, current=OLD)
    assert "there were no loads, so nothing was planned, 27 moves" in line()[1]


@pytest.mark.parametrize("algorithm", ["bogus", None, "Deepseek"])
def test_an_unknown_algorithm_is_a_warning_with_the_known_names(algorithm: Any, line: Any) -> None:
    held = sglang.rebalance_experts(LOADS[None], 72, 9, 1, 1, algorithm)[0]
    level, text = line()
    assert level == "WARNING" and f"algorithm {str(algorithm)!r} is not known, planned flat" in text
    assert "deepseek_vec_hierarchical, elasticity_aware" in text
    assert (held == sglang.rebalance_experts(LOADS[None], 72, 9, 1, 1, "deepseek")[0]).all()
    assert line()[0] == "INFO"


def test_a_limit_too_short_for_the_public_rule_is_not_begun(line: Any) -> None:
    many, running = np.tile(LATER, (40, 1)), np.tile(OLD, (40, 1))
    begun = time.perf_counter()
    held = eplb.configure(time_limit_s=0.001)(many, 72, 1, 1, 8, current=running)[0]
    assert time.perf_counter() - begun < 1.0  # a stalled machine; some 5 ms else
    level, text = line()
    assert level == "WARNING" and "kept what runs: 0.001 s are too short to plan" in text
    assert (held == running).all()


@pytest.mark.parametrize(
    ("ranks", "reason"), [([1] * 7, "shape (7,)"), ([0] * 8, "no rank"), ([[1], [1, 1]], "cannot be read")]
)
def test_active_ranks_of_no_use_are_a_warning(ranks: Any, reason: str, line: Any) -> None:
    sglang.rebalance_experts(LOADS[None], 72, 9, 1, 1, "elasticity_aware", active_ranks=ranks)
    level, text = line()
    assert level == "WARNING" and reason in text and "all count as alive" in text
