"""Whole runs replayed: errors by group, the regret of choices, and reasons for what was not answered."""

from __future__ import annotations

import pytest

from moeopt.calibrate import read_table, replay
from moeopt.errors import InstanceError
from tests.calibrate.tables import as_csv, silicon


def agg(tp, dp, batch, tpot, **rest):
    degrees = {"tp_size": tp, "attention_dp_size": dp, "moe_tp_size": 1, "moe_ep_size": tp * dp, "batch_size": batch}
    return degrees | {"silicon_ttft_ms": 200, "silicon_tpot_ms": tpot} | rest


@pytest.fixture
def table(tmp_path):
    disagg = {"mode": "disagg", "silicon_ttft_ms": 400, "silicon_tpot_ms": 20, "system": "gb200"}
    for pool in ("prefill", "decode"):
        for name, value in (("batch_size", 8), ("num_workers", 2), ("tp_size", 1), ("pp_size", 1)):
            disagg[f"{pool}_{name}"] = value
        disagg |= {f"{pool}_attention_dp_size": 4, f"{pool}_moe_tp_size": 1, f"{pool}_moe_ep_size": 4}
    rows = [
        agg(8, 1, 64, 40.0),
        agg(4, 1, 64, 50.0),
        agg(1, 8, 8, 30.0),
        agg(1, 1, 4, 10.0, model_path="c/d"),
        disagg,
        agg(0, 1, 4, 10.0),
        agg(1, 1, 4, 10.0, system="potato"),
    ]
    path = tmp_path / "silicon.csv"
    path.write_text(as_csv(silicon(rows)))
    return read_table(str(path))


def test_replay_counts_errors_choices_and_refusals(table):
    seen = []

    def predict(run):
        seen.append(run)
        if run.llm == "c/d":
            raise InstanceError([__import__("moeopt.errors").errors.Violation("llm", "", "c/d", "is not known", "")])
        return 0.2, {8: 0.030, 4: 0.070, 16: 0.020}[run.gpus]

    found = replay(table, predict)
    assert [run.gpus for run in seen] == [8, 4, 8, 1, 16] and [run.sequences for run in seen] == [64, 64, 64, 4, 64]
    assert set(seen[-1].pools) == {"prefill", "decode"} and seen[-1].gpu == "GB200"
    assert found.parts["all"].runs == 5 and found.parts["all"].answered == 4
    assert found.parts["disagg"].tpot.median == pytest.approx(0) and found.parts["disagg"].ttft.bias == pytest.approx(
        -0.5
    )
    # 64 sequences on 8, 4 and 8 GPUs: of equals the first is chosen, 64 / 0.040 / 8 against the best 64 / 0.050 / 4
    assert found.questions == 1 and found.regret == pytest.approx((1 / 0.040 / 8) / (1 / 0.050 / 4))
    assert found.fewest_mean == 1.0  # four GPUs are the best measured
    assert found.refused == {"llm = c/d: is not known.": 1}
    assert found.unreadable == {"tp_size is 0": 1, "system potato is no GPU of the catalogue": 1}


def test_perfect_predictions_regret_nothing(table):
    found = replay(table, lambda run: (run.ttft_s, run.tpot_s))
    assert found.regret == found.regret_worst == found.regret_mean == 1.0 and found.parts["all"].tpot.p90 == 0


def test_what_a_predictor_raises_is_its_answer(table):
    found = replay(table, lambda run: 1 / 0)
    assert found.refused == {"ZeroDivisionError: division by zero": 5} and found.parts["all"].tpot is None
    assert "ValueError: -1 is no time" in replay(table, lambda run: (None, -1)).refused


def test_tables_without_the_columns_are_refused(tmp_path):
    path = tmp_path / "silicon.csv"
    path.write_text("silicon_tpot_ms,mode\n5,agg\n")
    with pytest.raises(InstanceError, match="model_path, backend, precision, system"):
        replay(read_table(str(path)), lambda run: (1.0, 1.0))
