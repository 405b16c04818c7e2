"""The model of the mesh beside measured runs: every pool is predicted, and refusals say why."""

from __future__ import annotations

import pytest

from moeopt.calibrate import calibrate, read_table, replay
from moeopt.calibrate.end_to_end import Run
from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.mesh.predicted import Predictor
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.table import Table
from tests.calibrate.tables import as_csv, moe_perf, silicon
from tests.calibrate.test_replay import agg

POOL = {"tp": 1, "pp": 1, "dp": 16, "moe_tp": 1, "ep": 16, "batch": 32, "workers": 1}


def run(**changes) -> Run:
    usual = {
        "llm": "deepseek-ai/DeepSeek-V3",
        "gpu": "H200",
        "engine": "sglang",
        "precision": "fp8",
        "mode": "agg",
        "input_tokens": 4096,
        "output_tokens": 1024,
        "pools": {"colocated": POOL},
        "ttft_s": 1.0,
        "tpot_s": 0.05,
    }
    return Run(**{**usual, **changes})


def test_decode_pools_take_the_step_of_the_mesh():
    predictor = Predictor()
    apart = run(mode="disagg", pools={"prefill": POOL, "decode": POOL})
    _, tpot = predictor(apart)
    context, gpu, numerics = predictor._question(apart, 1)
    table = Table(context.setting(gpu, numerics), [Shape("decode", "H200", dp=16, ep=16)])
    assert tpot == pytest.approx(float(Decoder(table, 4096 + 512).tpot_s([32])[0]))
    assert numerics.weights == find("deepseek-v3").expert_format
    together = predictor(run())[1]
    assert together > tpot  # prefill stands in the way


def test_larger_batches_and_longer_prompts_take_longer():
    predictor = Predictor()
    small, large = (predictor(run(pools={"colocated": POOL | {"batch": batch}}))[1] for batch in (8, 64))
    assert small < large
    assert predictor(run(input_tokens=1024))[0] < predictor(run(input_tokens=16384))[0]


def test_constants_that_are_measured_are_used(tmp_path):
    (tmp_path / "moe.csv").write_text(as_csv([row | {"moe_dtype": "fp8_block"} for row in moe_perf()]))
    constants = calibrate([read_table(str(tmp_path / "moe.csv"))])
    assert Predictor(constants)(run())[1] > Predictor()(run())[1]  # 58 layers of 31 us each are not in the data sheet


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"llm": "nobody/nothing"}, "is not in the catalogue"),
        ({"precision": "int3"}, "precision = int3: is not one of fp8, fp4, bf16"),
        ({"precision": "fp4"}, "has no confirmed peak on this GPU"),
        ({"pools": {"colocated": POOL | {"tp": 3}}}, "tp = 3: 128 heads do not divide by 3"),
    ],
)
def test_runs_that_cannot_be_are_refused(changes, text):
    with pytest.raises(InstanceError, match=text):
        Predictor()(run(**changes))


def test_tables_are_replayed_by_the_mesh(tmp_path):
    rows = [agg(1, 8, 16, 40.0, model_path="deepseek-ai/DeepSeek-V3"), agg(1, 1, 1, 5.0)]
    (tmp_path / "runs.csv").write_text(as_csv(silicon(rows)))
    found = replay(read_table(str(tmp_path / "runs.csv")), Predictor())
    assert (found.parts["all"].runs, found.parts["all"].answered) == (2, 1)
