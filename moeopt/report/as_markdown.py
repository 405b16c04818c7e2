"""The report as Markdown: the same tables and words, and a line of blocks for each method instead of plots."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from moeopt import kinds
from moeopt.errors import printable
from moeopt.report import words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, headings, readings_of, title
from moeopt.report.sheet import Sheet, sheets_of

BLOCKS = "▁▂▃▄▅▆▇█"


@kinds.expects(
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"), header="moeopt.report.block:Header"
)
def render_markdown(blocks: Sequence[Block | Sheet], header: Header) -> str:
    """The whole document.

    `blocks` are comparisons, of one problem or of several; `header` says how they came about.

    >>> from moeopt import placement
    >>> from moeopt.report import Block, Header
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four")
    >>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
    >>> "lpt" in render_markdown([block], Header())
    True
    """
    sheets = sheets_of(blocks)
    parts = [f"# {plain(title(sheets))}", ""]
    if len(sheets) == 1:
        parts += [_verdict(sheets[0]), ""]
    parts += _facts(header_facts(sheets, header), marked="Command")
    for sheet, heading in zip(sheets, headings(sheets), strict=True):
        parts += ["", f"## {plain(heading)}", ""]
        if len(sheets) > 1:
            parts += [_verdict(sheet), ""]
        parts += [*_facts(sheet.facts, marked="SHA-256"), "", *_table(sheet), *_spark(sheet)]
        parts += _notes(sheet)
    parts += ["", "## How to read the tables" if len(sheets) > 1 else "### How to read the table", ""]
    readings = readings_of(sheets)
    for place, reading in enumerate(readings):
        if len(readings) > 1:
            parts += [*([""] if place else []), f"### {plain(reading.title)}", ""]
        parts += [f"- *{plain(name)}*: {plain(text)}" for name, text in reading.footnotes]
        parts += ["", plain(reading.closing)] if reading.closing else []
    return "\n".join([*parts, ""])


def plain(text: str) -> str:
    """Text that Markdown shows as it is: in a table too, and on one line.

    >>> print(plain("a|b <i>*c*</i> eplb_raw"))
    a\\|b \\<i>\\*c\\*\\</i> eplb_raw
    """
    one_line = one_line_of(text)
    escaped = re.sub(r"([\\`*\[\]<&|~#$])", r"\\\1", one_line)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)


def one_line_of(text: str) -> str:
    """Text on one line, of signs that can be seen."""
    return printable(re.sub(r"\s+", " ", text))


def code(text: str) -> str:
    """Text in type of its own, whatever is in it.

    >>> code("a`b"), code("eplb")
    ('``a`b``', '`eplb`')
    """
    one_line = one_line_of(text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", one_line)), default=0) + 1)
    pad = " " if one_line[:1] == "`" or one_line[-1:] == "`" else ""
    return f"{fence}{pad}{one_line}{pad}{fence}"


def _text(sentence: words.Text) -> str:
    return "".join(code(piece) if isinstance(piece, words.Name) else plain(piece) for piece in sentence)


def _verdict(sheet: Sheet) -> str:
    return " ".join(_text(sentence) for sentence in sheet.verdict)


def _facts(facts: Sequence[tuple[str, str]], marked: str) -> list[str]:
    return [f"- {name}: {code(text) if name == marked else plain(text)}" for name, text in facts]


def _table(sheet: Sheet) -> list[str]:
    rows = ["| Method | " + " | ".join(plain(head.title) for head in sheet.heads) + " |"]
    rows.append("|---|" + "---:|" * len(sheet.heads))
    for line in sheet.lines:
        method = f"**{plain(line.method)}** (best)" if line.kind == "best" else plain(line.method)
        if line.remark:
            method += f" ({plain(line.remark)})" if line.cells else f": {plain(line.remark)}"
        cells = line.cells or (words.NONE,) * len(sheet.heads)
        strong = "**" if line.kind == "best" else ""
        rows.append(
            f"| {method} | " + " | ".join(f"{strong}{plain(cell)}{strong}" if cell else "" for cell in cells) + " |"
        )
    return rows


def _spark(sheet: Sheet) -> list[str]:
    rows = sheet.spark
    if not rows:
        return []
    low, high = sheet.spark_low, max(max(values) for _, values in rows)
    width = max(len(name) for name, _ in rows)
    lines = [f"{one_line_of(name):{width}}  {_line(values, low, high)}" for name, values in rows]
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", "\n".join(lines)) or [""]))
    said = sheet.spark_said.format(low=BLOCKS[0], high=BLOCKS[-1])
    return ["", said, "", f"{fence}text", *lines, fence]


def _line(values: Sequence[float], low: float, high: float) -> str:
    if high <= low:
        return BLOCKS[0] * len(values)
    steps = np.rint((np.asarray(values) - low) / (high - low) * (len(BLOCKS) - 1)).astype(int)
    return "".join(BLOCKS[step] for step in steps)


def _notes(sheet: Sheet) -> list[str]:
    parts = [""]
    for note, methods in sheet.notes:
        who = _text(words.listed(methods)) + ": " if methods else ""
        parts.append(f"- {who}{plain(note)}.")
    return parts if len(parts) > 1 else []
