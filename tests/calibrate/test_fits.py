"""Fits find again the constants that tables were made from; what tables do not determine is said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from moeopt.calibrate import Calibration, calibrate, read_calibration, read_table
from moeopt.calibrate.fit import least_deviations
from moeopt.cost import collective_s
from moeopt.cost.roofline import BF16, FP8
from moeopt.errors import InstanceError
from moeopt.mesh.calibrated import CALIBRATED, UNCALIBRATED, calibrated
from moeopt.mesh.hardware import GpuType
from tests.calibrate.tables import KERNEL, as_csv, kernel_seconds, moe_perf, nccl_perf


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "moe.csv").write_text(as_csv(moe_perf()))
    (folder / "nccl.csv").write_text(as_csv(nccl_perf()))
    return folder


def test_kernel_constants_are_found_again(files):
    (fit,) = calibrate([read_table(str(files / "moe.csv"))]).kernels
    assert (fit.gpu, fit.dtype, fit.errors.points) == ("H200", "bfloat16", 84)
    for name, value in KERNEL.items():
        assert getattr(fit, name) == pytest.approx(value, rel=1e-9)
    assert fit.errors.p90 < 1e-9 and fit.errors.held_out < 1e-9 and not fit.notes
    assert fit.uncalibrated.median > 0.1 and fit.skew == {"power_law_1.2": pytest.approx(1.5)}
    assert fit.regret == 1.0 and fit.questions == 21
    asked = {"tokens": 512, "hidden": 4096, "width": 1536, "experts": 128, "top_k": 8, "moe_tp": 1, "ep": 4}
    assert fit.seconds(**asked) == pytest.approx(kernel_seconds(*asked.values()))
    assert fit.outside(**asked) == []
    assert fit.outside(tokens=20000, width=1536) == ["tokens = 20000 is beyond the measured 1 to 16384"]


def test_noise_leaves_errors_of_its_own_size(tmp_path):
    path = tmp_path / "moe.csv"
    path.write_text(as_csv(moe_perf(noise=0.1)))
    (fit,) = calibrate([read_table(str(path))]).kernels
    assert 0.03 < fit.errors.median < 0.12 and fit.errors.held_out < 0.15
    assert fit.errors.median < fit.uncalibrated.median
    assert fit.constant_s == pytest.approx(KERNEL["constant_s"], rel=0.25)


def test_own_columns_and_units_mean_the_same(files, tmp_path):
    names = {
        "num_tokens": "tokens",
        "hidden_size": "hidden",
        "inter_size": "width",
        "topk": "top_k",
        "num_experts": "experts",
        "moe_tp_size": "moe_tp",
        "moe_ep_size": "ep",
        "moe_dtype": "dtype",
    }
    rows = [row for row in moe_perf() if row["distribution"] == "balanced"]
    own = [{names[key]: value for key, value in row.items() if key in names} | {"time_us": row["latency"] * 1e3}
           for row in rows]  # fmt: skip
    (tmp_path / "own.json").write_text(json.dumps(own))
    columns = {name: [row[name] for row in own] for name in own[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    found = [
        calibrate([read_table(str(tmp_path / name))], gpu="H200").kernels[0] for name in ("own.json", "columns.json")
    ]
    assert found[0] == found[1] and found[0].compute == pytest.approx(KERNEL["compute"])
    with pytest.raises(InstanceError, match="gpu = missing: is no GPU of the catalogue"):
        calibrate([read_table(str(tmp_path / "own.json"))])


def test_parquet_means_the_same(files, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.Table.from_pylist(moe_perf()), tmp_path / "moe.parquet")
    found = calibrate([read_table(str(tmp_path / "moe.parquet"))]).kernels
    assert found[0].compute == pytest.approx(calibrate([read_table(str(files / "moe.csv"))]).kernels[0].compute)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "moe.parquet").read_bytes()[:200])
    with pytest.raises(InstanceError, match=r"is not a whole \.parquet"):
        read_table(str(tmp_path / "cut.parquet"))


def test_collectives_are_found_again_and_make_links(files):
    reduce, to_all = calibrate([read_table(str(files / "nccl.csv"))]).collectives
    assert (reduce.op, reduce.ranks, to_all.op) == ("all_reduce", 8, "all_to_all")
    assert (reduce.alpha_s, reduce.bytes_per_s) == (pytest.approx(18e-6), pytest.approx(207e9))
    assert (to_all.alpha_s, to_all.bytes_per_s) == (pytest.approx(10e-6), pytest.approx(308e9))
    assert "elements" in reduce.notes[0] and reduce.outside(2.0**40)
    link = reduce.link()
    assert collective_s("all_reduce", 1e6, ranks=8, link=link) == pytest.approx(reduce.seconds(1e6))
    direct = collective_s("all_to_all", 1e6, ranks=8, link=to_all.link())
    assert direct == pytest.approx(to_all.seconds(1e6))


def test_steps_are_found_again_and_one_context_determines_no_cache(tmp_path):
    rows = ["batch,context,itl_ms"]
    rows += [f"{b},{c},{1e3 * (0.008 + 4e-5 * b + 3e-9 * b * c)}" for b in (1, 4, 16, 64, 128) for c in (512, 4096)]
    (tmp_path / "steps.csv").write_text("\n".join(rows) + "\n")
    (fit,) = calibrate([read_table(str(tmp_path / "steps.csv"))]).steps
    found = (fit.fixed_s, fit.per_sequence_s, fit.per_cached_token_s)
    assert found == (pytest.approx(0.008), pytest.approx(4e-5), pytest.approx(3e-9))
    assert fit.seconds(64, 1024) == pytest.approx(0.008 + 64 * (4e-5 + 3e-9 * 1024))
    assert fit.outside(256, 1024) == ["batch = 256 is beyond the measured 1 to 128"]
    (tmp_path / "one.csv").write_text("\n".join(row for row in rows if ",512," not in row) + "\n")
    (one,) = calibrate([read_table(str(tmp_path / "one.csv"))]).steps
    assert one.per_cached_token_s == 0 and "is not determined" in one.notes[0]


def test_constants_that_no_point_shows_are_none(tmp_path):
    few = [
        row for row in moe_perf() if row["num_tokens"] == 1 and row["inter_size"] == 1536 and row["moe_tp_size"] == 1
    ]
    rows = [row | {"num_tokens": tokens, "latency": 0.05} for row in few for tokens in (1, 2, 3, 4)]
    (tmp_path / "flat.csv").write_text(as_csv(rows))
    (fit,) = calibrate([read_table(str(tmp_path / "flat.csv"))]).kernels
    assert fit.compute is None and fit.memory is None and fit.constant_s == pytest.approx(5e-5)
    assert any("compute is not determined" in note for note in fit.notes)
    assert any("one width" in note for note in fit.notes)


def test_deviations_are_no_larger_than_those_of_any_other_constants():
    rng = np.random.default_rng(0)
    terms = rng.uniform(0, 1, (60, 3))
    measured = terms @ [1.0, 0.5, 2.0] * rng.lognormal(0, 0.3, 60)
    found = least_deviations(terms, measured)

    def off(constants):
        return np.abs(terms @ constants / measured - 1).sum()

    assert (found >= 0).all()
    for _ in range(300):
        assert off(found) <= off(np.maximum(found + rng.normal(0, 0.05, 3), 0)) * 1.001


def test_document_is_read_back_and_faults_are_named(files, tmp_path):
    found = calibrate([read_table(str(files / name)) for name in ("moe.csv", "nccl.csv")])
    path = tmp_path / "constants.json"
    path.write_text(found.model_dump_json(by_alias=True))
    assert read_calibration(path) == found
    assert [source.rows for source in found.sources] == [168, 40]
    document = json.loads(path.read_text())
    document["mine"] = 1
    del document["kernels"][0]["constant_s"]
    path.write_text(json.dumps(document))
    with pytest.raises(InstanceError, match=r"kernels\.0\.constant_s.*\n.*mine"):
        read_calibration(path)
    path.write_text('{"schema": "moeopt/calibration/2"}')
    with pytest.raises(InstanceError, match="must be moeopt/calibration/1"):
        read_calibration(path)


def test_mesh_takes_what_was_measured_and_says_what_was_not(files):
    found = calibrate([read_table(str(files / name)) for name in ("moe.csv", "nccl.csv")])
    made = calibrated(GpuType.of("H200"), found, expert_width=1536, numerics=BF16)
    efficiency = made.gpu.machine.efficiency
    assert efficiency.compute == pytest.approx(KERNEL["compute"] * 1536 / (1536 + 320))
    assert efficiency.memory == pytest.approx(KERNEL["memory"]) and made.overhead_s == pytest.approx(41e-6)
    assert made.gpu.scale_up == found.collectives[0].link() and made.gpu.network == GpuType.of("H200").network
    assert made.band is CALIBRATED and any("beyond a domain" in note for note in made.notes)
    narrow = calibrated(GpuType.of("H200"), found, expert_width=64, numerics=BF16)
    assert any("own_width = 64 is beyond the measured" in note for note in narrow.notes)
    other = calibrated(GpuType.of("H200"), found, expert_width=1536, numerics=FP8)
    assert other.band is UNCALIBRATED and other.gpu.machine == GpuType.of("H200").machine
    assert Calibration(schema="moeopt/calibration/1").kernel("H200", "bf16") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "are of no known table"),
        ("batch,itl_ms\n1,5\n2,x\n", r"itl_ms\[row 2\] = 'x': must be a finite number > 0"),
        ("batch,itl_ms\n1,5\n2,-1\n", r"itl_ms\[row 2\] = '-1'"),
        ("batch,itl_ms\n1,5\n1,6\n", "nothing can be fitted"),
        ("batch,batch,itl_ms\n1,1,5\n", "names stand twice"),
        ("batch,itl_ms\n1\n", "has 1 cells, the first line 2"),
        ("batch,itl_ms\n", "has no rows"),
        ("", "the file is empty"),
        ('[{"batch": 1}, 3]', "must be a list of rows, or an object of columns"),
        ('{"batch": [1, 2], "itl_ms": [1]}', "have different lengths"),
        ("op,ranks,bytes,time_us\nall_reduce,1,5,5\n", r"ranks\[row 1\] = 1.0: must be a whole number >= 2"),
        ("silicon_tpot_ms\n5\n", "has whole runs, from which no constant follows"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InstanceError, match=message):
        calibrate([read_table(str(path))])


def test_unknown_formats_and_operations_are_skipped_with_a_reason(tmp_path):
    rows = [row | {"moe_dtype": "int3"} for row in moe_perf()]
    (tmp_path / "moe.csv").write_text(as_csv(moe_perf() + rows))
    found = calibrate([read_table(str(tmp_path / "moe.csv"))])
    assert found.skipped == ["H200, TRTLLM 1.0, int3: 168 points of a format that is not known: int3"]
    (tmp_path / "nccl.csv").write_text(as_csv(nccl_perf() + [row | {"op_name": "scan"} for row in nccl_perf()]))
    skipped = calibrate([read_table(str(tmp_path / "nccl.csv"))]).skipped
    assert all("scan" in reason and "not known" in reason for reason in skipped) and skipped
