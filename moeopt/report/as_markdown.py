"""The report as Markdown: the same tables and words, and a line of blocks for each method instead of plots."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from moeopt.report import table, words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, title
from moeopt.report.summary import Floats, Summary, summarise

BLOCKS = "▁▂▃▄▅▆▇█"


def render_markdown(blocks: Sequence[Block], header: Header) -> str:
    """The whole document."""
    summaries = [summarise(block) for block in blocks]
    parts = [f"# {plain(title(summaries))}", ""]
    if len(summaries) == 1:
        parts += [_verdict(summaries[0]), ""]
    parts += _facts(header_facts(summaries, header), marked="Command")
    for summary in summaries:
        parts += ["", f"## {plain(summary.name)}", ""]
        if len(summaries) > 1:
            parts += [_verdict(summary), ""]
        parts += [*_facts(words.facts(summary.instance), marked="SHA-256"), "", *_table(summary), *_spark(summary)]
        parts += ["", *_notes(summary)]
    return "\n".join([*parts, ""])


def plain(text: str) -> str:
    """Text that Markdown shows as it is: in a table too, and on one line.

    >>> print(plain("a|b <i>*c*</i> eplb_raw"))
    a\\|b \\<i>\\*c\\*\\</i> eplb_raw
    """
    one_line = re.sub(r"\s+", " ", text)
    escaped = re.sub(r"([\\`*\[\]<&|~#$])", r"\\\1", one_line)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)


def code(text: str) -> str:
    """Text in type of its own, whatever is in it.

    >>> code("a`b"), code("eplb")
    ('``a`b``', '`eplb`')
    """
    one_line = re.sub(r"\s+", " ", text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", one_line)), default=0) + 1)
    pad = " " if one_line[:1] == "`" or one_line[-1:] == "`" else ""
    return f"{fence}{pad}{one_line}{pad}{fence}"


def _text(sentence: words.Text) -> str:
    return "".join(code(piece) if isinstance(piece, words.Name) else plain(piece) for piece in sentence)


def _verdict(summary: Summary) -> str:
    return " ".join(_text(sentence) for sentence in words.verdict(summary))


def _facts(facts: list[tuple[str, str]], marked: str) -> list[str]:
    return [f"- {name}: {code(text) if name == marked else plain(text)}" for name, text in facts]


def _table(summary: Summary) -> list[str]:
    columns = table.columns(summary)
    rows = ["| Method | " + " | ".join(plain(column.title) for column in columns) + " |"]
    rows.append("|---|" + "---:|" * len(columns))
    for line in table.lines(summary):
        method = f"**{plain(line.method)}** (best)" if line.kind == "best" else plain(line.method)
        if line.remark:
            method += f" ({plain(line.remark)})" if line.cells else f": {plain(line.remark)}"
        cells = line.cells or (words.NONE,) * len(columns)
        strong = "**" if line.kind == "best" else ""
        rows.append(
            f"| {method} | " + " | ".join(f"{strong}{plain(cell)}{strong}" if cell else "" for cell in cells) + " |"
        )
    return rows


def _spark(summary: Summary) -> list[str]:
    rows = [(row.method, row.imbalance) for row in summary.rows if row.imbalance is not None]
    if not rows:
        return []
    low, high = 1.0, max(float(values.max()) for _, values in rows)
    width = max(len(name) for name, _ in rows)
    lines = [f"{' '.join(name.split()):{width}}  {_line(values, low, high)}" for name, values in rows]
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", "\n".join(lines)) or [""]))
    said = (
        f"Imbalance of each layer in turn, from {words.ratio(low)} ({BLOCKS[0]}) to {words.ratio(high)} ({BLOCKS[-1]}):"
    )
    return ["", said, "", f"{fence}text", *lines, fence]


def _line(values: Floats, low: float, high: float) -> str:
    if high <= low:
        return BLOCKS[0] * len(values)
    steps = np.rint((values - low) / (high - low) * (len(BLOCKS) - 1)).astype(int)
    return "".join(BLOCKS[step] for step in steps)


def _notes(summary: Summary) -> list[str]:
    parts = []
    for note, methods in table.notes(summary):
        who = _text(words.listed(methods)) + ": " if methods else ""
        parts.append(f"- {who}{plain(note)}.")
    if parts:
        parts.append("")
    parts += [f"- *{plain(name)}*: {plain(text)}" for name, text in table.footnotes(summary)]
    return [*parts, "", plain(table.LIKE_NAMED)]
