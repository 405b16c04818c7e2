"""Names are somebody's text: a terminal, a page, LaTeX and a spreadsheet show them and obey none of their signs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from moeopt import placement
from moeopt.bench.tables import pivot
from moeopt.report import Block, Header
from moeopt.report.as_csv import render_csv
from moeopt.report.as_html import render_html
from moeopt.report.as_markdown import render_markdown
from moeopt.report.as_tex import render_tex
from tests.fuzz.kinds import run

OBEYED = "\x1b[31m\x07\x7f\u202e\u2066\u200b\u2028"
"""Colour, bell, delete, and what turns the direction of text or cannot be seen."""


def block(name: str) -> Block:
    instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name=name)
    return Block(instance, placement.compare(instance, ["contiguous", "lpt"]))


@pytest.mark.parametrize("render", [render_html, render_markdown, render_tex, render_csv])
def test_reports_show_signs_that_would_be_obeyed(render):
    text = render([block(f"a{OBEYED}b")], Header(command=f"moeopt {OBEYED}"))
    assert not [sign for sign in text if not sign.isprintable() and sign not in "\n\u00a0"]
    assert "x1b" in text and "u202e" in text


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0"])
def test_no_cell_of_a_csv_report_begins_a_formula(name):
    rows = list(csv.reader(io.StringIO(render_csv([block(name)], Header(command=name)), newline="")))
    assert [row[0] for row in rows[1:]] == [f"'{name}"] * 2
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))]


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "a\nb", 'a"b,c'])
def test_a_row_of_a_csv_report_stays_a_row(name):
    """A carriage return in a name stood without quotes and ended its row."""
    rows = list(csv.reader(io.StringIO(render_csv([block(name)], Header()), newline="")))
    assert [len(row) for row in rows] == [len(rows[0])] * 3


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_an_instance_whose_name_cannot_be_seen_is_called_by_its_digest(name):
    text = render_markdown([block(name)], Header())
    assert text.startswith("# Expert placement compared: instance ")


def test_tables_of_grids_take_names_as_text():
    cells = [{"cell": {"policy": "=1+1", "shape": "<b>|\\", "loads": "l", "seed": 0}, "objective": 0.5}]
    found = pivot(cells, ["policy", "shape"], "objective")
    assert found.as_csv().splitlines()[1].startswith("'=1+1,<b>|\\,objective,0.5")
    assert "| \\<b>\\|\\\\ |" in found.as_markdown()


def test_a_terminal_is_not_obeyed_by_names_of_files_and_instances(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = "a\x1b[31m\u202eb.csv"
    Path(file).write_text("8,4,2,2\n")
    Path("named.json").write_text(
        json.dumps({"type": "x\x1b[2J", "name": "\x1b[2J"}),
    )
    for line in (
        ["inspect", file],
        ["compare", file, "--gpus", "2", "--slots", "4", "--methods", "lpt", "--name", OBEYED],
        ["place", file, "--gpus", "2", "--slots", "3"],
        ["place", f"no{OBEYED}", "--gpus", "2", "--slots", "4"],
        ["verify", "named.json", file],
        ["compare", file, "--gpus", "2", "--slots", "4", "--methods", f"no{OBEYED}"],
    ):
        _, said = run(*line)
        assert said and not [sign for sign in said if not sign.isprintable() and sign != "\n"], (line, said)
