"""The referee on steps worked out by hand: limits at their edge, long steps, and certificates that were changed."""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from typing import Any

import pytest

from moeopt import microbatch
from moeopt.errors import PlanError
from moeopt.microbatch import Candidate, Linear, MicrobatchInstance, MicrobatchPlan, verify
from moeopt.microbatch.graph import Stage, StageGraph, flow

TIMES = {"attention": 3, "dispatch": 1, "experts": 2}


def one(**fields: Any) -> MicrobatchInstance:
    """Two micro-batches or three, each of one token, in two layers: trips of 7, the side of attention busy for 3."""
    return MicrobatchInstance(TIMES, layers=2, **{"m": [2, 3], **fields})


def test_a_step_by_hand() -> None:
    judged = verify.evaluate(one(objective="throughput"), MicrobatchPlan(2, 2))
    # attention of the first layer until 6; the first one is back at 7, and the second of the second layer ends at 17
    assert judged.time == 17 and judged.objective == Fraction(17, 2) and judged.throughput == 2 / 17
    assert judged.seconds(judged.ticks * 5) == 5.0
    assert judged.utilisation == {
        name: pytest.approx(busy / 17) for name, busy in zip(judged.utilisation, (12, 4, 8, 4), strict=True)
    }
    assert verify.evaluate(one(objective="time"), MicrobatchPlan(2, 2)).objective == 17


def test_a_step_of_no_time() -> None:
    idle = MicrobatchInstance(dict.fromkeys(TIMES, 0), layers=2, m=2)
    judged = verify.evaluate(idle, MicrobatchPlan(2, 2))
    assert judged.throughput == math.inf and set(judged.utilisation.values()) == {0.0}


def test_limits_at_their_edge() -> None:
    full = one(bytes_per_sequence=0.1, memory_bytes=0.1 * 2, tbt_slo_s=17)
    assert verify.faults(full, MicrobatchPlan(2, 2)) == []
    over = verify.faults(full, MicrobatchPlan(3, 3))
    assert over[0] == "a batch of 3 does not fit into the memory"
    assert over[1].startswith("the step takes ") and over[1].endswith("s, tbt_slo_s allows 17") and len(over) == 2
    assert verify.faults(one(tbt_slo_s=math.nextafter(17, 0)), MicrobatchPlan(2, 2)) != []
    assert verify.faults(full, MicrobatchPlan(2, 4)) == ["m = 2 with a batch of 4 is not among the candidates"]


def test_ticks_are_whole_and_divide_into_the_seconds_again() -> None:
    stages = [Stage("x", "gpu"), Stage("y", "link")]
    lap = flow(stages, [[Fraction(1, 3), Fraction(1, 4)], [2, Fraction(1, 2)]])
    scale = ((Fraction(1, 2), 1), (2, Fraction(2, 5)))
    for graph in (StageGraph(lap, 2), StageGraph(lap, 2, scale)):
        made, ticks = verify.in_ticks(graph)
        assert all(isinstance(time, int) for time in made.durations)
        assert [Fraction(time, ticks) for time in made.durations] == [Fraction(time) for time in graph.durations]


@pytest.mark.parametrize("pattern", ["ping-pong", "dual", "chunks", "shared-link"])
def test_a_long_step_takes_what_going_through_it_takes(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"dispatch": 1, "experts": 2} if pattern == "chunks" else TIMES
    instance = MicrobatchInstance(times, layers=40, pattern=pattern, m=[2, 3])
    plan = MicrobatchPlan(2, 2)
    whole = verify.evaluate(instance, plan)
    items = 40 * 2 * len(instance.kind.stages)
    monkeypatch.setattr(verify, "MOST_ITEMS", items)
    assert not verify.long(instance, Candidate(2, 2)) and verify.long(instance, Candidate(3, 3))
    monkeypatch.setattr(verify, "MOST_ITEMS", items - 1)
    assert verify.long(instance, Candidate(2, 2))
    long = verify.evaluate(instance, plan)
    assert long.time == whole.time and long.utilisation == whole.utilisation
    assert type(long.schedule) is not type(whole.schedule)

    def never(*_: object) -> None:
        raise verify.TooLong

    monkeypatch.setattr(verify, "fcfs_laps", never)
    if verify.form_of(instance, Candidate(2, 2)) is None:
        assert "they do not repeat themselves" in verify.faults(instance, plan)[0]
    else:
        assert verify.evaluate(instance, plan).time == whole.time


def test_a_long_step_is_gone_through_only_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = one(m=2)
    order = verify.schedule(instance, MicrobatchPlan(2, 2))[0].graph.turns
    scaled = one(m=2, layer_scale={"attention": [1, 2]})
    assert verify.faults(instance, MicrobatchPlan(2, 2, order)) == verify.faults(scaled, MicrobatchPlan(2, 2)) == []
    monkeypatch.setattr(verify, "MOST_ITEMS", 1)
    for case, plan in ((instance, MicrobatchPlan(2, 2, order)), (scaled, MicrobatchPlan(2, 2))):
        with pytest.raises(PlanError, match="only first come, first served in layers that are alike"):
            verify.evaluate(case, plan)


# --- certificates -----------------------------------------------------------------------------------------------------

BATCHES: dict[str, Any] = {"m": [1, 2], "batches": [2, 4, 8, 16], "bytes_per_sequence": 1, "memory_bytes": 8}


def certified(**fields: Any) -> tuple[MicrobatchInstance, dict[str, Any]]:
    """Batches of which the largest does not fit and the next is too slow, and the certificate of the answer."""
    instance = MicrobatchInstance(
        {name: Linear(time, time) for name, time in TIMES.items()}, layers=2, **{**BATCHES, "tbt_slo_s": 50, **fields}
    )
    certificate = microbatch.solve(instance, method="simulate").certificate
    assert certificate is not None
    return instance, copy.deepcopy(dict(certificate))


def test_a_true_certificate_has_a_row_of_each_kind_and_nothing_wrong() -> None:
    instance, certificate = certified()
    kinds = {row[2] for row in certificate["candidates"]}
    assert {"memory", "tbt"} < kinds and verify.recheck(instance, certificate) == []
    rows, value = certificate["candidates"], Fraction(certificate["value"])
    least = min(verify.worth(instance, Candidate(row[0], row[1]), Fraction(row[4]))
                for row in rows if row[2] not in ("memory", "tbt"))  # fmt: skip
    assert value == least
    for lower in (value - 1, value / 2):  # a weaker claim is true as well
        assert verify.recheck(instance, {**certificate, "value": str(lower)}) == []


def test_each_change_of_a_certificate_is_named() -> None:
    instance, certificate = certified()
    rows = [list(row) for row in certificate["candidates"]]

    def found(place: int, **changed: Any) -> list[str]:
        row = [changed.get(name, rows[place][at]) for at, name in enumerate(("m", "batch", "kind", "where", "seconds"))]
        return verify.recheck(instance, {**certificate, "candidates": [*rows[:place], row, *rows[place + 1 :]]})

    value = Fraction(certificate["value"])
    assert verify.recheck(instance, {**certificate, "value": str(value * 2)}) != []
    for place, row in enumerate(rows):
        m, batch, kind = row[:3]
        named = f"m = {m}, batch {batch}: "
        gone = verify.recheck(instance, {**certificate, "candidates": rows[:place] + rows[place + 1 :]})
        assert gone == [f"{named}no argument"]
        if kind == "memory":
            continue
        assert found(place, kind="memory") == [f"{named}it fits into the memory"]
        high = str(Fraction(row[4]) + Fraction(1, 10**9))
        assert any("proves" in line and line.startswith(named) for line in found(place, seconds=high))
        low = found(place, seconds="0")
        if kind == "tbt":
            assert low == [f"{named}0 s are within the limit"]
            assert found(place, seconds="50") == [f"{named}50 s are within the limit"]
        else:
            assert low == [f"{named}0 s is less than the bound says"]
            assert any("proves None" in line for line in found(place, kind="guess"))
            assert any("proves None" in line for line in found(place, kind="load", where="nowhere"))
    nothing = {"value": "0", "candidates": []}
    assert verify.recheck(instance, nothing) == []


def test_a_row_that_is_too_slow_needs_a_limit() -> None:
    instance, certificate = certified(tbt_slo_s=None)
    rows = [[*row[:2], "tbt", "", row[4]] if row[2] != "memory" else row for row in certificate["candidates"]]
    found = verify.recheck(instance, {**certificate, "candidates": rows})
    assert len(found) == sum(row[2] == "tbt" for row in rows) and all("within the limit" in line for line in found)


def test_layers_that_wait_are_argued_layer_by_layer() -> None:
    instance = MicrobatchInstance({"dispatch": 1, "experts": 2}, layers=3, pattern="chunks", m=[2])
    certificate = dict(microbatch.solve(instance, method="simulate").certificate or {})
    assert [row[2] for row in certificate["candidates"]] == ["layers"]
    assert verify.recheck(instance, certificate) == []
    assert verify.recheck(instance, {**certificate, "candidates": [[2, 2, "layers", "experts", "1e6"]]}) != []
