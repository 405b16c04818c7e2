"""What is written for an engine is read back by the package's own readers as the same experts in the same slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from moeopt.engines import read_map, what_is
from moeopt.engines.map_check import check_map
from moeopt.engines.rules import RULES, TARGETS
from moeopt.engines.source import read_source
from tests.engines.test_writing import LLM, ROWS, a_map, engine_cases, written

READ = [target for target in TARGETS if target != "moeopt"]


@given(engine_cases(), st.sampled_from(READ))
def test_a_plan_comes_back_as_the_same_slots(case: Any, to: str) -> None:
    plan, rows, facts, gpus = case
    slots = np.bincount(plan.solution.gpu_of_slot, minlength=gpus)
    assume(slots.min() > 0 and (not RULES[to].uniform or len(set(slots.tolist())) == 1))
    path, _ = written(plan, to, llm=facts)
    kind = what_is(str(path))
    assert kind is not None and kind[0] == to
    found = read_map(str(path))
    back = found.slot_expert.tolist()
    if to == "sglang":
        back = [back[layer] for layer in facts.moe]
    wanted = rows
    if to == "omni":
        ends = np.cumsum(slots)[:-1]
        wanted = [[e for part in np.split(np.array(row), ends) for e in sorted(part.tolist())] for row in rows]
    assert back == wanted
    layers = {"sglang": range(facts.layers), "trtllm": facts.moe}.get(to, range(len(rows)))
    assert found.layers == tuple(layers)
    assert found.slots is None or found.slots == tuple(slots.tolist())
    assert found.num_experts in (None, facts.experts)
    checked = check_map(found, facts=facts, experts=facts.experts, slots=len(rows[0]), gpus=gpus)
    assert checked.faults == ()


@pytest.mark.parametrize("first", READ)
@pytest.mark.parametrize("second", READ)
def test_any_map_converts_to_any_other(first: str, second: str) -> None:
    rows = [sorted(row[:5]) + sorted(row[5:]) for row in ROWS]  # the order that a cube keeps
    path, _ = written(a_map(rows), first, llm=LLM)
    source = read_source(str(path))
    again, _ = written(source, second, llm=LLM, gpus=None if source.slots else 2)
    found = read_map(str(again)).slot_expert.tolist()
    assert (found[1:] if second == "sglang" else found[-3:]) == rows
