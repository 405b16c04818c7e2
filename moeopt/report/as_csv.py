"""The report as CSV: a row for each instance and method, full precision, names of columns that stay."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from moeopt import kinds
from moeopt.errors import printable
from moeopt.report.block import Block, Header
from moeopt.report.head import all_versions
from moeopt.report.sheet import Sheet, sheets_of

MADE = ("problem", "seed", "command", "versions")
"""Columns of the whole report, behind those of its problems; an empty cell means there is no such number."""


@kinds.expects(
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"), header="moeopt.report.block:Header"
)
def render_csv(blocks: Sequence[Block | Sheet], header: Header) -> str:
    """The whole file.

    `blocks` are comparisons, of one problem or of several; `header` says how they came about.

    >>> from moeopt import placement
    >>> from moeopt.report import Block, Header
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four")
    >>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
    >>> render_csv([block], Header()).splitlines()[0].startswith("instance,sha256")
    True
    """
    sheets = sheets_of(blocks)
    versions = "; ".join(f"{name} {version}" for name, version in all_versions(sheets, header).items())
    made = {"seed": header.seed, "command": header.command, "versions": versions}
    buffer = StringIO()
    columns = dict.fromkeys(name for sheet in sheets for name in sheet.columns)
    writer = csv.DictWriter(buffer, [*columns, *MADE], lineterminator="\n")
    writer.writeheader()
    for block, sheet in zip(blocks, sheets, strict=True):
        for record in sheet.records:
            named = {} if isinstance(block, Sheet) else {"problem": block.comparison.problem}
            row = {**record, **named, **made}
            writer.writerow({name: cell(value) for name, value in row.items()})
    return buffer.getvalue()


def cell(value: object) -> object:
    """A value as a cell of a spreadsheet: text never begins a formula there, and has no sign that ends its row.

    >>> cell("=1+1"), cell("-2"), cell(-2), cell("eplb")
    ("'=1+1", "'-2", -2, 'eplb')
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n")) else text
