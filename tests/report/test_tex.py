"""The LaTeX of a report fits a page: few columns, remarks as notes below, a label of its own for every table."""

from __future__ import annotations

import re

from moeopt.placement import PlacementInstance
from moeopt.report import Block, Header
from moeopt.report.as_tex import render_tex
from tests.report.conftest import compared, instance_of


def rows_of(text: str) -> list[list[str]]:
    """Cells of the body, line by line."""
    body = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0].replace(r"\midrule", "")
    lines = [re.sub(r"(?<!\\)%.*", "", line).strip() for line in body.splitlines()]
    return [line.removesuffix(r"\\").split(" & ") for line in lines if line]


def test_the_table_of_a_placement_has_the_main_columns_and_notes_below(block: Block, header: Header) -> None:
    text = render_tex([block], header)
    heads = text.partition(r"\toprule")[2].partition(r"\midrule")[0]
    assert r"\multicolumn{2}{c}{Imbalance} & \multicolumn{2}{c}{Gap to best bound} & " in heads
    assert heads.splitlines()[-1].startswith(r"method & Objective (tokens) & mean & worst & mean & worst & Time")
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-6}" in heads and r"\begin{tabular}{lrrrrrr}" in text
    rows = rows_of(text)
    assert {len(row) for row in rows} == {7} and all(len(cell) < 40 for row in rows for cell in row)
    marks = re.findall(r"\$\^\{(\w+)\}\$~([^\\%]+)", text)
    assert [mark for mark, _ in marks] == ["a", "b", "c"]
    assert sum(f"$^{{{mark}}}$" in row[0] for mark, _ in marks for row in rows) == 3
    assert any("fold needs two slots" in said for _, said in marks) and "hline" not in text


def test_every_table_has_a_label_of_its_own_from_its_name(header: Header) -> None:
    blocks = [compared(instance_of(name=name), ["lpt"]) for name in ("loads.csv, monday", "loads.csv, monday", "")]
    labels = re.findall(r"\\label\{(.+)\}", render_tex(blocks, header))
    assert labels[:2] == ["tab:loads-csv-monday", "tab:loads-csv-monday--2"] and len(set(labels)) == 3
    assert all(re.fullmatch(r"tab:[A-Za-z0-9-]+", label) for label in labels)


def test_moves_are_a_main_column_where_a_plan_runs(header: Header) -> None:
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, current=[[0, 1, 2, 3]], name="runs")
    text = render_tex([compared(instance, ["lpt"])], header)
    assert r" & Moves & Time \\" in text
