"""collocate at the command line: plans, refusals, pictures, and what convert makes of its plans."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    group = rng.permutation(32) // 8
    where = [np.flatnonzero(group == one) for one in range(4)]
    ids = np.array([[rng.choice(where[rng.integers(4)], size=4, replace=False) for _ in range(200)] for _ in range(2)])
    path = tmp_path / "trace.npz"
    np.savez(path, topk_ids=ids, layers=np.array([3, 4]), num_experts=32)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_plan_is_written_shown_and_converted(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    words = ("collocate", trace, "--cluster", "4x8-h100", "--transport", "deepep-normal", "--iterations", "200")
    code, out, err = run(capsys, *words, "-o", plan)
    assert code == 0 and "held out" in out and "busiest link" in out and "sources of tokens are not given" in err
    found = json.loads(Path(plan).read_text())
    assert found["schema"] == "moeopt/collocation-result/1" and found["solution"]["lambda"] == 1.0
    target = str(tmp_path / "map.json")
    code, _, _ = run(capsys, "convert", plan, "--to", "moeopt", "-o", target)
    assert code == 0
    table = json.loads(Path(target).read_text())
    assert table["layers"] == [3, 4] and table["slots"] == [1] * 32
    for running in (target, plan):
        code, out, _ = run(capsys, *words, "--current", running, "--json")
        assert code == 0 and json.loads(out)["solution"]["advice"]["action"] == "keep"


def test_allgather_is_refused_with_the_reason(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "collocate", trace, "--cluster", "4x8-h100", "--transport", "allgather")
    assert code == 2 and not out and "no placement changes the bytes" in err


def test_low_latency_says_that_only_tokens_are_balanced(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "collocate", trace, "--cluster", "4x8-h100", "--transport", "deepep-ll")
    assert code == 0 and "tokens, of the busiest GPU" in out and "only the balance of tokens" in err


def test_pictures_and_slips(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("picture.svg", "picture.png"):
        words = ("--cluster", "2x8-h100", "--method", "load_only", "-o", str(tmp_path / name))
        assert run(capsys, "collocate", trace, *words)[0] == 0
        assert (tmp_path / name).stat().st_size > 5_000
    code, _, err = run(
        capsys, "collocate", trace, "--nodes", "3", "--gpus", "4", "--transport", "custom", "--step", "x"
    )
    assert code == 2 and "--merge" in err and "--step" in err
    code, _, err = run(capsys, "collocate", str(tmp_path / "none.npz"), "--nodes", "2", "--gpus", "2")
    assert code == 2 and "does not exist" in err


def test_broken_plans_are_refused_by_convert(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    run(capsys, "collocate", trace, "--nodes", "2", "--gpus", "4", "--method", "id_order", "-o", str(plan))
    document = json.loads(plan.read_text())
    document["solution"]["layers"][0]["slot_expert"].pop()
    plan.write_text(json.dumps(document))
    code, _, err = run(capsys, "convert", str(plan), "--to", "moeopt", "-o", str(tmp_path / "map.json"))
    assert code == 2 and "must be as many as gpu_of_slot" in err


def test_what_is_won_is_said_in_milliseconds_and_beside_what_was_before(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("collocate", trace, "--cluster", "4x8-h100", "--iterations", "200")
    code, out, err = run(capsys, *words)
    assert code == 0 and " ms, in 2 layers); what that is of a step needs step_s (--step)" in out
    assert "imbalance    " in out and ": experts in order" in out and "hidden and batch_tokens (--hidden" in err
    code, out, _ = run(capsys, *words, "--step", "1s")
    assert code == 0 and "keep: " in out and "of a step is won over experts in order (" in out
    picture = str(tmp_path / "traffic.svg")
    code, _, err = run(capsys, *words, "--max-imbalance", "1.0001", "-o", picture)
    assert code in (3, 4) and "written" not in err and not Path(picture).exists()


def test_phases_that_are_mixed_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    sizes = [2000, *[20] * 60]
    ids = np.array([rng.choice(8, size=2, replace=False) for _ in range(sum(sizes))])
    path = tmp_path / "mixed.npz"
    np.savez(path, topk_ids=ids[None], token_idx=np.concatenate([np.arange(size) for size in sizes]))
    code, _, err = run(capsys, "collocate", str(path), "--nodes", "2", "--gpus", "2", "--iterations", "50")
    assert code == 0 and "mixed-phases: 60 steps of about 20 tokens" in err
