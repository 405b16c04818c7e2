"""Every format says what the comparison says."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from moeopt import placement
from moeopt.comparison import NOT_RUN
from moeopt.errors import InstanceError
from moeopt.placement import PlacementInstance
from moeopt.registry import Row
from moeopt.report import Block, Header, render_csv, render_html, render_json, render_markdown, table, words
from moeopt.report.as_csv import MADE
from moeopt.report.placement_records import COLUMNS
from moeopt.report.summary import summarise
from moeopt.result import Stop, relative_gap
from tests.report.conftest import compared, frozen, instance_of


def read_rows(block: Block, header: Header) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(render_csv([block], header))))


def test_csv_agrees_with_the_comparison(block: Block, header: Header) -> None:
    rows = read_rows(block, header)
    assert [row["method"] for row in rows] == [row.method for row in block.comparison.rows]
    for said, row in zip(rows, block.comparison.rows, strict=True):
        assert tuple(said) == (*COLUMNS, *MADE)
        assert said["sha256"] == block.instance.sha256 and said["seed"] == "7"
        assert float(said["best_bound"]) == block.comparison.lower_bound
        assert (said["best"] == "true") == (row.method == block.comparison.best)
        if row.result is None:
            assert said["objective"] == "" and said["reason"] == row.reason
            continue
        assert row.result.solution is not None
        assert float(said["objective"]) == row.result.objective
        for name in ("imbalance_mean", "imbalance_total", "mean_over_max", "excess"):
            assert float(said[name]) == row.result.solution[name]
        assert said["remark"] == row.remark
        if not row.remark:
            assert float(said["gap"]) == block.comparison.gap(row)


def test_csv_layers_are_ids_of_the_llm(header: Header) -> None:
    block = compared(PlacementInstance([[1, 1], [9, 1]], gpus=2, slots=2, layers=[3, 7]), ["contiguous"])
    (row,) = read_rows(block, header)
    assert row["imbalance_worst_layer"] == "7"


def test_layer_gaps_are_measured_against_the_best_bound_of_all_methods(block: Block) -> None:
    """A method with a weak bound of its own is not punished for it, and cannot hide behind it either."""
    rows = []
    for row in block.comparison.rows:
        result = row.result
        if row.method == "contiguous" and result is not None and result.solution is not None:
            layers = [{**layer, "lower_bound": 0.0, "gap": 1.0} for layer in result.solution["layers"]]
            solution = {**result.solution, "layers": layers}
            result = replace(result, solution=solution, lower_bound=0.0, gap_worst_layer=1.0)
        rows.append(replace(row, result=result))
    weak = Block(block.instance, replace(block.comparison, rows=tuple(rows)))
    for before, after in zip(summarise(block).rows, summarise(weak).rows, strict=True):
        assert (before.layer_gap is None) == (after.layer_gap is None)
        if before.layer_gap is not None and after.layer_gap is not None:
            assert np.array_equal(before.layer_gap, after.layer_gap)


def test_a_plan_that_breaks_a_rule_gets_no_gap_and_is_never_best(header: Header) -> None:
    instance = PlacementInstance([[60, 1, 1, 1]], gpus=2, slots=8)
    block = compared(instance, ["eplb_raw", "lpt"])
    raw, lpt = summarise(block).rows
    assert raw.remark == "breaks distinct" and raw.objective is not None
    assert raw.gap is raw.layer_gap is raw.layers_near is None
    assert lpt.best and not raw.best
    assert "| eplb_raw (breaks distinct) |" in render_markdown([block], header)
    assert ",breaks distinct," in render_csv([block], header)


def test_a_solvers_bound_certifies_nothing(block: Block, header: Header) -> None:
    rows = [
        row if row.result is None else replace(row, result=replace(row.result, bound_kind="solver"))
        for row in block.comparison.rows
    ]
    claimed = summarise(Block(block.instance, replace(block.comparison, rows=tuple(rows))))
    assert claimed.bound_kind == "solver" and not claimed.certified
    assert all(row.layers_near is None for row in claimed.rows)
    assert any("a solver's bounds, which were not checked" in "".join(sentence) for sentence in words.verdict(claimed))
    assert table.lines(claimed)[-1].remark == "a solver's claim, not checked"


def test_json_is_strict_and_complete(block: Block, header: Header) -> None:
    document = json.loads(render_json([block], header), parse_constant=pytest.fail)
    assert document["schema"] == "moeopt/comparison/1"
    assert document["command"] == header.command and document["seed"] == 7 and document["created"] is None
    (said,) = document["blocks"]
    again = PlacementInstance.from_dict(said["instance"]["document"])
    assert again.sha256 == block.instance.sha256 == said["instance"]["sha256"]
    assert said["best"] == block.comparison.best and said["lower_bound"] == block.comparison.lower_bound
    for row, known in zip(said["rows"], block.comparison.rows, strict=True):
        if known.result is None:
            assert row["result"] is None and row["reason"] == known.reason
            continue
        assert row["result"]["solution"] == json.loads(json.dumps(known.result.solution))
        assert row["objective"] == known.result.objective
        if known.remark:
            continue
        tops = [layer["max_load"] for layer in row["result"]["solution"]["layers"]]
        floors = [layer["lower_bound"] for layer in said["layers"]]
        assert row["gap_of_layer"] == [relative_gap(top, floor) for top, floor in zip(tops, floors, strict=True)]
        assert placement.evaluate(
            again, [layer["slot_expert"] for layer in row["result"]["solution"]["layers"]]
        ).objective == pytest.approx(row["objective"])


def test_html_and_markdown_show_the_same_cells(block: Block, header: Header, page_text: str) -> None:
    page, text = page_text, render_markdown([block], header)
    for line in table.lines(summarise(block)):
        assert "".join(f"<td>{cell}</td>" for cell in line.cells).replace(" %", "\u00a0%") in page
        strong = "**" if line.kind == "best" else ""
        assert " | ".join(f"{strong}{cell}{strong}" if cell else "" for cell in line.cells) in text


def test_table_rounds_what_the_comparison_says(block: Block) -> None:
    summary = summarise(block)
    titles = [column.title for column in table.columns(summary)]
    for line, row in zip(table.lines(summary), block.comparison.rows, strict=False):
        if row.result is None or row.result.solution is None:
            assert line.kind == "none" and line.remark == row.reason
            continue
        cells = dict(zip(titles, line.cells, strict=True))
        assert float(cells["Objective (tokens)"].replace(",", "")) == pytest.approx(row.result.objective, rel=1e-5)
        assert cells["Imbalance, mean"] == f"{row.result.solution['imbalance_mean']:.4f}"
        replicas = [layer["replicas"] for layer in row.result.solution["layers"]]
        assert cells["Replicas, max"] == str(max(map(max, replicas)))
        assert cells["Replicas, redundant"] == str(block.instance.num_slots - block.instance.num_experts)


def test_verdict_names_best_and_public_rule_and_the_gaps_of_the_table(block: Block) -> None:
    summary = summarise(block)
    said = " ".join("".join(sentence) for sentence in words.verdict(summary))
    best = summary.best
    assert best is not None and best.gap is not None and best.objective is not None
    assert best.method in said and "eplb" in said
    (line,) = [line for line in table.lines(summary) if line.kind == "best"]
    cells = dict(zip([column.title for column in table.columns(summary)], line.cells, strict=True))
    mean, worst = cells["Gap to best bound, mean"], cells["Gap to best bound, worst"]
    assert f"is better by more than its gap: {mean} as a mean over layers, {worst} on the worst" in said


def test_verdict_claims_no_better_plan_only_when_every_bound_is_met() -> None:
    proved = summarise(compared(PlacementInstance([[3, 1]], gpus=2, slots=2), ["lpt"]))
    assert "no plan that keeps the rules is better on any layer" in "".join(map("".join, words.verdict(proved)))
    open_ = summarise(compared(PlacementInstance([[9, 1, 1, 1], [3, 3, 3, 1]], gpus=2, slots=4), ["contiguous"]))
    assert "is better on any layer" not in "".join(map("".join, words.verdict(open_)))


def test_a_plan_named_like_a_method_is_told_from_it() -> None:
    """Ready-made plans may bear any name: the better of two rows of one name is the best one."""
    instance = instance_of()
    good = placement.solve(instance, method="lpt").plan
    comparison = frozen(placement.compare(instance, ["contiguous"], plans={"contiguous": good}))
    assert [row.best for row in summarise(Block(instance, comparison)).rows] == [False, True]


def test_a_result_without_plan_object_is_read_from_its_document(block: Block, header: Header, page_text: str) -> None:
    rows = [
        Row(row.method, None if row.result is None else replace(row.result, plan=None), row.reason, row.remark)
        for row in block.comparison.rows
    ]
    bare = Block(block.instance, replace(block.comparison, rows=tuple(rows)))
    assert render_html([bare], header) == page_text


def test_block_refuses_another_instance(block: Block) -> None:
    with pytest.raises(InstanceError, match="does not belong to the instance, whose digest is"):
        Block(instance_of(layers=5), block.comparison)
    for name, said in (
        ("scheduling", "is a problem this report has no tables for"),
        ("microbatch", "is not the problem of the instance, a PlacementInstance"),
    ):
        with pytest.raises(InstanceError, match=rf"comparison\.problem = '{name}': {said}"):
            Block(block.instance, replace(block.comparison, problem=name))


def _ended(block: Block, **stops: str) -> Block:
    rows = [
        replace(row, result=replace(row.result, stop=Stop(stops[row.method]))) if row.method in stops else row
        for row in block.comparison.rows
        if row.result is not None
    ]
    return Block(block.instance, replace(block.comparison, rows=tuple(rows)))


def test_a_method_that_was_cut_short_says_so(header: Header) -> None:
    """A row that time had stopped looked like one that had finished."""
    block = _ended(compared(PlacementInstance([[9, 5, 4, 1]], gpus=2, slots=4), ["contiguous", "lpt"]), lpt="TIME")
    block = _ended(block, contiguous="INTERRUPTED")
    page, text = render_html([block], header), render_markdown([block], header)
    for said in ("interrupted", "stopped by TIME"):
        assert f'<span class="tag">{said}</span>' in page and f"({said})" in text
    assert [row["stop"] for row in read_rows(block, header)] == ["INTERRUPTED", "TIME"]


def test_an_interrupted_comparison_says_what_was_not_run(header: Header) -> None:
    block = compared(PlacementInstance([[9, 5, 4, 1]], gpus=2, slots=4), ["contiguous"])
    left_out = (Row("lpt", None, NOT_RUN), Row("search", None, NOT_RUN))
    rows = (*block.comparison.rows, *left_out)
    block = Block(block.instance, replace(block.comparison, rows=rows, interrupted=True))
    for text in (render_html([block], header), render_markdown([block], header)):
        assert "interrupted: lpt, search were not run." in text
    said = json.loads(render_json([block], header))["blocks"][0]
    assert said["interrupted"] and said["not_run"] == ["lpt", "search"]
    assert [row["reason"] for row in read_rows(block, header)[1:]] == [NOT_RUN, NOT_RUN]


def test_layers_within_the_gap_are_not_called_certified(block: Block, header: Header, page_text: str) -> None:
    """Certified is the kind of a bound; a layer is near it or not."""
    assert "layers_within_0_1_percent" in COLUMNS
    for text in (page_text, render_markdown([block], header)):
        assert "certified" not in text.lower() and "Layers within 0.1" in text


def test_a_report_needs_no_command(block: Block) -> None:
    assert "- Command" not in render_markdown([block], Header())
    assert "- Command: `x`" in render_markdown([block], Header("x"))


def test_one_of_a_thing_is_not_called_several(header: Header) -> None:
    block = compared(PlacementInstance([[5]], gpus=1, slots=1, name="one"), ["lpt"])
    for text in (render_html([block], header), render_markdown([block], header)):
        assert not [noun for noun in ("layers", "experts", "slots", "GPUs") if f" 1 {noun}" in text]
