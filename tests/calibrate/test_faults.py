"""Files of constants in ``moeopt inspect`` and ``moeopt verify``: described, and held against their tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moeopt.calibrate import Calibration, calibrate, read_table
from moeopt.calibrate.faults import calibration_faults
from tests.calibrate.tables import as_csv, moe_perf, nccl_perf
from tests.cli.conftest import moeopt  # noqa: F401

NAMES = ("moe.csv", "nccl.csv", "steps.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("constants")
    (made / "moe.csv").write_text(as_csv(moe_perf(noise=0.05)))
    (made / "nccl.csv").write_text(as_csv(nccl_perf()))
    (made / "steps.csv").write_text("batch,time_ms\n1,10\n2,11\n4,13\n8,17\n")
    return made


@pytest.fixture(scope="module")
def constants(folder):
    return calibrate([read_table(folder / name) for name in NAMES])


@pytest.fixture(scope="module")
def file(folder, constants):
    path = folder / "constants.json"
    path.write_text(constants.model_dump_json(by_alias=True))
    return path


def damaged(constants: Calibration, change: Any) -> Calibration:
    document = json.loads(constants.model_dump_json(by_alias=True))
    change(document)
    return Calibration.model_validate(document)


def test_constants_follow_from_their_tables(folder, constants):
    tables = [read_table(folder / name) for name in NAMES]
    assert calibration_faults(constants, tables) == ([], [])
    assert calibration_faults(constants) == ([], ["constants and residuals: give the tables that they are from"])
    assert calibration_faults(constants, tables[:2]) == (
        [],
        [f"constants and residuals: {folder / 'steps.csv'} is missing"],
    )


def test_a_gpu_that_was_named_need_not_be_in_the_tables(folder):
    table = read_table(folder / "nccl.csv")
    assert calibration_faults(calibrate([table], gpu="H100"), [table]) == ([], [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["kernels"][0].update(compute=-0.5), "compute = -0.5: must be a finite number > 0"),
        (lambda d: d["kernels"][0].update(gpu="H2000"), "gpu = H2000: is no GPU of the catalogue"),
        (lambda d: d["kernels"][0].update(dtype="fp6"), "dtype = fp6: is not one of"),
        (lambda d: d["kernels"][0]["ranges"].update(tokens=[9, 1]), "ranges.tokens = 9 to 1: must rise"),
        (lambda d: d["kernels"][0]["errors"].update(median=9.0), "errors.median = 9.0: is above p90"),
        (lambda d: d["kernels"][0].update(regret=1.5), "regret = 1.5: must be above 0 and at most 1"),
        (lambda d: d["kernels"].append(d["kernels"][0]), "is there twice"),
        (lambda d: d["collectives"][0].update(op="gossip"), "op = gossip: is not one of"),
        (lambda d: d["collectives"][0].update(ranks=1), "ranks = 1: must be at least 2"),
        (lambda d: d["collectives"][0].update(alpha_s=-1e-6), "alpha_s = -1e-06: must be a finite number >= 0"),
        (lambda d: d["steps"][0]["errors"].update(points=0), "errors.points = 0: must be at least 1"),
        (lambda d: d["sources"].pop(), "sources: none is a table of steps"),
        (lambda d: d["sources"][0].update(rows=0), ".rows = 0: must be at least 1"),
        (lambda d: [d.update({kind: []}) for kind in ("kernels", "collectives", "steps")], "there are no constants"),
    ],
)
def test_what_cannot_be_is_a_fault_without_any_table(constants, change, said):
    faults, _ = calibration_faults(damaged(constants, change))
    assert any(said in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda d: d["kernels"][0].update(memory=0.5),
            "kernels[H200 TRTLLM 1.0 bfloat16].memory = 0.5: fitted anew 0.8",
        ),
        (lambda d: d["collectives"].pop(0), "is missing"),
        (lambda d: d["steps"][0].update(config="other"), "steps[other]: does not follow from the tables"),
        (lambda d: d["steps"][0]["errors"].update(points=5), "errors.points = 5: fitted anew 4"),
    ],
)
def test_another_constant_than_the_tables_give_is_a_fault(folder, constants, change, said):
    faults, _ = calibration_faults(damaged(constants, change), [read_table(folder / name) for name in NAMES])
    assert any(said in fault for fault in faults), faults


def test_inspect_describes_constants_with_residuals_ranges_and_sources(moeopt, file, folder):  # noqa: F811
    run = moeopt("inspect", file)
    out = " ".join(run.out.split())
    assert run.code == 0, run.err
    assert "calibration, 1 expert kernel" in out and "1 step" in out and "structure ok" in out
    assert "held out" in out and "range" in out and "SHA-256" in out and "tokens 1-16,384" in out
    (known,) = moeopt("inspect", file, "--json").document["files"]
    assert known["what"] == "calibration" and known["faults"] == [] and len(known["sources"]) == 3
    refused = moeopt("inspect", file, "--gpus", 4)
    assert refused.code == 2 and "is a calibration, and options are for loads" in refused.err


def test_verify_checks_constants_and_fits_them_anew(moeopt, file, folder, tmp_path):  # noqa: F811
    run = moeopt("verify", file)
    assert run.code == 0 and "ok (calibration: structure)" in run.out and "give the tables" in run.err
    run = moeopt("verify", file, *(folder / name for name in NAMES))
    assert run.code == 0 and "ok (calibration: structure, constants and residuals)" in run.out
    wrong = tmp_path / "wrong.json"
    wrong.write_text(file.read_text().replace('"op":"all_to_all"', '"op":"gossip"'))
    run = moeopt("verify", wrong, "--json")
    assert run.code == 5 and not run.document["ok"] and any("gossip" in one for one in run.document["faults"])
    other = tmp_path / "other.csv"
    other.write_text("batch,time_ms\n1,10\n2,11\n4,13\n8,18\n")
    run = moeopt("verify", file, other)
    assert run.code == 5 and "is none of the tables that these constants are from" in run.out
    assert moeopt("verify", "-", stdin=file.read_text()).code == 0
    unknown = tmp_path / "unknown.json"
    unknown.write_text(json.dumps(json.loads(file.read_text()) | {"surplus": 1}))
    run = moeopt("verify", unknown)
    assert run.code == 2 and "surplus" in run.err
    assert moeopt("verify", file, "--gpus", 4).code == 2
