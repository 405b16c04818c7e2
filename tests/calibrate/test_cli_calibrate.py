"""``moeopt calibrate``: what it prints, writes and refuses."""

from __future__ import annotations

import pytest

from moeopt.calibrate import read_calibration
from tests.calibrate.tables import KERNEL, as_csv, moe_perf, nccl_perf, silicon
from tests.calibrate.test_replay import agg
from tests.cli.conftest import moeopt  # noqa: F401


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "moe.csv").write_text(as_csv(moe_perf()))
    (tmp_path / "nccl.csv").write_text(as_csv(nccl_perf()))
    (tmp_path / "runs.csv").write_text(as_csv(silicon([agg(8, 1, 64, 40.0), agg(4, 1, 64, 50.0)])))
    (tmp_path / "steps.csv").write_text("batch,time_ms\n1,10\n2,11\n4,13\n8,17\n")
    return tmp_path


def test_constants_are_shown_written_and_printed(moeopt, paths):  # noqa: F811
    target = paths / "constants.json"
    run = moeopt("calibrate", paths / "moe.csv", paths / "nccl.csv", paths / "steps.csv", "-o", target)
    assert run.code == 0, run.err
    assert "0.62" in run.out and "all_to_all" in run.out and "308.0 GB/s" in run.out and "all rows" in run.out
    assert "loads of power_law_1.2 take 1.50 times as long" in run.err and run.err.count("message_size") == 1
    assert read_calibration(target).kernels[0].half_width == pytest.approx(KERNEL["half_width"])
    again = moeopt("calibrate", paths / "moe.csv", "--json")
    assert again.document["schema"] == "moeopt/calibration/1" and again.document["kernels"][0]["regret"] == 1.0
    assert moeopt("calibrate", paths / "moe.csv", "-o", target).code == 2
    quiet = moeopt("calibrate", paths / "moe.csv", "-q", "-o", target, "--force")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_runs_are_replayed_by_a_function(moeopt, paths, monkeypatch):  # noqa: F811
    (paths / "guess.py").write_text("def predict(run):\n    return None, 0.04\n")
    monkeypatch.syspath_prepend(str(paths))
    run = moeopt("calibrate", paths / "runs.csv", "--predict", "guess:predict")
    assert run.code == 0, run.err
    assert "TPOT median" in run.out and "choice: 1.000 of the best measured tokens/s/GPU" in run.out
    assert moeopt("calibrate", paths / "runs.csv", "--predict", "guess:predict", "--json").document["questions"] == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("runs.csv", "moe.csv"), "a table of whole runs is replayed by itself"),
        (("runs.csv", "--constants", "gone.json"), "gone.json: cannot be read"),
        (("runs.csv", "--constants", "gone.json", "--predict", "math:sqrt"), "--predict for another"),
        (("gone.csv", "also_gone.csv"), "also_gone.csv: cannot be read"),
        (("moe.csv", "--gpu", "potato"), "--gpu = potato: is not one of"),
        (("moe.csv", "-o", "constants.txt"), "a calibration is written as .json"),
        (("runs.csv", "--predict", "nowhere:predict"), "--predict = 'nowhere:predict': cannot be imported"),
        (("moe.csv", "--predict", "math:sqrt"), "must be columns of an end-to-end table"),
    ],
)
def test_bad_usage_is_named(moeopt, paths, monkeypatch, words, text):  # noqa: F811
    monkeypatch.chdir(paths)
    run = moeopt("calibrate", *words)
    assert run.code == 2 and text in run.err, run.err


def test_help_has_an_example(moeopt):  # noqa: F811
    run = moeopt("calibrate", "--help")
    assert run.code == 0 and "moeopt calibrate moe_perf.parquet" in run.out


def test_what_is_missing_is_said_with_a_remedy_that_helps(moeopt, tmp_path):  # noqa: F811
    head, row = "op,ranks,bytes,time_us", "all_reduce,8,{},{}"
    rows = [row.format(10 ** (3 * place), 20 + 10 * place) for place in range(1, 4)]
    (tmp_path / "good.csv").write_text("\n".join([head, *rows]))
    run = moeopt("calibrate", tmp_path / "good.csv", "--gpu", "h200")
    assert run.code == 0 and "bytes 1,000-1,000,000,000" in run.out
    for name, old, new, said in (
        ("unit", "time_us", "time", "Call it time_s, time_ms or time_us: time has no unit"),
        ("op", "all_reduce", "all_rdc", "all_rdc, 8 ranks, H200: 3 points of an operation that is not known"),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]).replace(old, new))
        run = moeopt("calibrate", tmp_path / f"{name}.csv", "--gpu", "h200")
        assert run.code == 2 and said in run.err and "Give more measurements" not in run.err
