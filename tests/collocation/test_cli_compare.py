"""compare on collocations: one table for all methods, reports in every format, gates, and what is refused."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from moeopt.cli import main
from moeopt.collocation import METHODS, CollocationInstance


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two layers in which experts of equal remainder modulo 4 go together."""
    rng = np.random.default_rng(3)
    ids = np.array([[rng.permutation(np.arange(4)[:, None] * 4 + rng.integers(4), axis=0)[:3, 0] for _ in range(60)]
                    for _ in range(2)])  # fmt: skip
    path = tmp_path / "trace.npz"
    np.savez(path, topk_ids=ids, layers=np.array([3, 4]), num_experts=16)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_all_methods_are_rows_best_and_bound_are_marked(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", trace, "--transport", "deepep-normal", "--nodes", 4, "--gpus", 4)
    assert code == 0, err
    assert "held out" in out and "proven: no plan is below" in out
    found = json.loads(run(capsys, "compare", trace, "--cluster", "4x1-h100", "--json")[1])
    assert found["problem"] == "collocation"
    block = found["blocks"][0]
    rows = {row["method"]: row for row in block["rows"]}
    assert set(rows) == set(METHODS) - {"auto"}
    assert rows["exact"]["reason"] and rows["exact"]["objective"] is None
    solved = [row for row in rows.values() if row["objective"] is not None]
    assert rows[block["best"]]["objective"] == min(row["objective"] for row in solved)
    assert all(block["lower_bound"] <= row["objective"] * (1 + 1e-12) for row in solved)
    assert rows["kernighan_lin"]["lambda"] == 1.0 and rows["id_order"]["lambda"] == 3.0
    assert all(row["lambda_held_out"] is not None and row["busiest_link_s"] > 0 for row in solved)


def test_reports_say_the_same_in_every_format(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", trace, "--cluster", "4x1-h100", "--methods", "load_only,kernighan_lin,exact")
    texts = {}
    for ending in ("html", "md", "csv", "tex", "json"):
        path = tmp_path / f"report.{ending}"
        assert run(capsys, *words, "-o", path)[0] == 0
        texts[ending] = path.read_text()
    page = texts["html"]
    assert page.count("<figure>") == 2 and "http" not in page.replace("http://www.w3.org", "")
    ET.fromstring(page.partition("<body>")[2].partition("</body>")[0].replace("&nbsp;", " ").join(("<b>", "</b>")))
    rows = list(csv.DictReader(texts["csv"].splitlines()))
    found = json.loads(texts["json"])["blocks"][0]
    assert [row["method"] for row in rows] == ["load_only", "kernighan_lin", "exact"]
    for row, other in zip(rows, found["rows"], strict=True):
        assert (float(row["lambda"]) if row["lambda"] else None) == other["lambda"]
    for ending in ("html", "md", "tex"):
        assert "1.0000" in texts[ending] and "kernighan" in texts[ending], ending
    assert texts["tex"].count(r"\begin{tabular}") == 1 and r"kernighan\_lin" in texts["tex"]
    code, _, err = run(capsys, *words, "-o", tmp_path / "report.html")
    assert code == 2 and "exists" in err


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_takes_the_table(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", trace, "--cluster", "4x1-h100", "--methods", "load_only,kernighan_lin,exact")
    run(capsys, *words, "-o", tmp_path / "report.tex")
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{report}\end{document}"
    )
    subprocess.run(["pdflatex", "-halt-on-error", "paper.tex"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


def test_plans_the_running_one_and_the_gate(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, worse = tmp_path / "good.json", tmp_path / "poor.json"
    where = ("--nodes", 4, "--gpus", 4)
    for path, method in ((plan, "kernighan_lin"), (worse, "id_order")):
        assert run(capsys, "collocate", trace, *where, "--method", method, "-o", path)[0] == 0
    words = ("compare", trace, "--transport", "deepep-normal", *where, "--methods", "load_only")
    code, out, _ = run(capsys, *words, "--plans", f"{plan},{worse}", "--json")
    rows = {row["method"]: row for row in json.loads(out)["blocks"][0]["rows"]}
    assert code == 0 and rows["good.json"]["copies_per_token"] < rows["poor.json"]["copies_per_token"]
    assert run(capsys, *words, "--plans", plan, "--fail-if-worse")[0] == 0
    code, _, err = run(capsys, *words, "--plans", worse, "--current", plan, "--fail-if-worse")
    assert code == 5 and "worse than running plan" in err
    code, _, err = run(capsys, *words, "--plans", tmp_path / "none.json")
    assert code == 2 and "none.json" in err
    path = tmp_path / "small.json"
    document = json.loads(plan.read_text())
    for layer in document["solution"]["layers"]:
        layer["slot_expert"] = [0] * 16
    path.write_text(json.dumps(document))
    code, _, err = run(capsys, *words, "--plans", path)
    assert code == 2 and "expert 1 is missing" in err


def test_instances_are_compared_and_options_of_placements_refused(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "instance.json"
    instance = CollocationInstance([[0, 1], [2, 3], [0, 1]], experts=4, nodes=2, gpus=2)
    path.write_text(json.dumps(instance.to_dict()))
    code, out, _ = run(capsys, "compare", path, "--methods", "id_order,exact")
    assert code == 0 and "best" in out
    code, _, err = run(capsys, "compare", path, "--cluster", "2x1-h100")
    assert code == 2 and "which says it itself" in err
    code, _, err = run(capsys, "compare", trace, "--cluster", "4x1-h100", "--floor-tokens", 3, "--apart")
    assert code == 2 and "--floor-tokens" in err and "--apart" in err
    code, _, err = run(capsys, "compare", trace, trace, "--cluster", "4x1-h100")
    assert code == 2 and "must be one trace" in err
    code, _, err = run(capsys, "compare", trace, "--cluster", "4x1-h100", "--transport", "allgather")
    assert code == 2 and "no placement changes the bytes" in err
    code, _, err = run(
        capsys, "compare", trace, "--nodes", 4, "--gpus", 4, "--methods", "grady", "--transport", "deepep-ll"
    )
    assert code == 2 and "greedy" in err


def test_exact_waits_for_a_time_limit_or_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "instance.json"
    instance = CollocationInstance([[0, 1], [2, 3], [0, 1]], experts=4, nodes=2, gpus=2)
    path.write_text(json.dumps(instance.to_dict()))
    code, out, err = run(capsys, "compare", path)
    assert code == 0 and "exact" not in out and "exact is left out" in err
    code, out, err = run(capsys, "compare", path, "--time-limit", "20s")
    assert code == 0 and "exact" in out and "left out" not in err
