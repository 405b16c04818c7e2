"""What `moeopt.report` offers."""

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
