"""Limits on time and memory: kept, or said to be impossible with the best possible; by every back end alike."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt import microbatch
from moeopt.microbatch import MicrobatchInstance, bounds, exact, verify
from moeopt.microbatch.heuristics import sweep
from moeopt.result import Status
from tests.microbatch import strategies


@given(strategies.instances())
def test_limits_hold_or_the_best_possible_is_said(instance: MicrobatchInstance) -> None:
    rows = sweep.table(instance)
    times = sorted(row.time for row in rows)
    if not times[0]:
        return
    document = instance.to_dict()
    tight = MicrobatchInstance.from_dict({**document, "tbt_slo_s": float(times[0]) * 1.0000001})
    assert verify.evaluate(tight, microbatch.solve(tight).plan).time <= Fraction(float(times[0]) * 1.0000001)
    below = min(bounds.bound(instance, one).seconds for one in instance.candidates)
    if below:
        result = microbatch.solve(MicrobatchInstance.from_dict({**document, "tbt_slo_s": float(below) * 0.999}))
        assert result.status is Status.INFEASIBLE
        assert result.conflicts[0]["best"] == float(below)
        assert "best possible" in result.conflicts[0]["message"]


@given(strategies.instances(), st.integers(1, 30))
def test_memory_holds_or_is_said_to_be_short(instance: MicrobatchInstance, room: int) -> None:
    document = {**instance.to_dict(), "bytes_per_sequence": 10.0, "memory_bytes": 10.0 * room}
    limited = MicrobatchInstance.from_dict(document)
    result = microbatch.solve(limited)
    least = min(one.batch for one in instance.candidates)
    assert (result.status is Status.INFEASIBLE) == (least > room)
    if result.plan is not None:
        assert result.plan.batch <= room
    else:
        assert result.conflicts[0]["rule"] == "memory_bytes"
        assert str(least) in result.conflicts[0]["message"]


@pytest.mark.parametrize("backend", ["highs", "cbc", "scipy"])
@settings(max_examples=4)
@given(instance=strategies.instances(), data=st.data())
def test_back_ends_agree_on_the_programme_of_candidates(
    backend: str, instance: MicrobatchInstance, data: st.DataObject
) -> None:
    from moeopt.backends import BACKENDS, LinearModel, solve_model

    if not BACKENDS[backend].available():
        pytest.skip(f"{backend} is not installed")
    document = instance.to_dict()
    if data.draw(st.booleans()):
        slo = float(data.draw(st.sampled_from(sweep.table(instance))).time) * data.draw(st.sampled_from([0.9, 1.1]))
        document["tbt_slo_s"] = slo or None
    if data.draw(st.booleans()):
        document |= {"bytes_per_sequence": 3.0, "memory_bytes": 3.0 * data.draw(st.integers(1, 24))}
    instance = MicrobatchInstance.from_dict(document)
    model = exact.build(instance, scaled=True)
    answer = solve_model(LinearModel.from_pulp(model.problem), backend=backend)
    ranked = sweep.ranked(instance, model.rows)
    if not ranked:
        assert answer.status is Status.INFEASIBLE
        return
    best = ranked[0]
    truth = float(verify.worth(instance, best.candidate, best.time))
    assert answer.objective is not None
    assert answer.objective * model.scale[0] == pytest.approx(truth, rel=1e-6, abs=1e-9)
