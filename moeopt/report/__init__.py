"""Comparisons for people and programs: one HTML page, Markdown, LaTeX, CSV and JSON with the same numbers in them.

>>> from moeopt import placement
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four experts")
>>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
>>> rows = render_csv([block], Header("moeopt compare four.json")).splitlines()
>>> len(rows), rows[0].partition(",nodes")[0]
(3, 'instance,sha256,layers,experts,slots,gpus')
"""

from __future__ import annotations

from moeopt.report.as_csv import render_csv
from moeopt.report.as_html import render_html
from moeopt.report.as_json import render_json
from moeopt.report.as_markdown import render_markdown
from moeopt.report.as_tex import render_tex
from moeopt.report.block import Block, Header
from moeopt.report.write import FORMATS, format_of, write_report

__all__ = [
    "FORMATS",
    "Block",
    "Header",
    "format_of",
    "render_csv",
    "render_html",
    "render_json",
    "render_markdown",
    "render_tex",
    "write_report",
]
