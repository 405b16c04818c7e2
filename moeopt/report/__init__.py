"""Comparisons for people and programs: one HTML page, Markdown, LaTeX, CSV and JSON with the same numbers in them.

>>> from moeopt import placement
>>> from moeopt.report import Block, Header, render_csv
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four experts")
>>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
>>> rows = render_csv([block], Header("moeopt compare four.json")).splitlines()
>>> len(rows), rows[0].partition(",nodes")[0]
(3, 'instance,sha256,layers,experts,slots,gpus')
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.report.public import *  # noqa: F403

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

__getattr__ = exports(__name__, __all__)
