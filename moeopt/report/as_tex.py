"""The report as LaTeX: a table for each instance, to be taken into a paper with ``\\input``; no package is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from moeopt import kinds
from moeopt.report import words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, title
from moeopt.report.sheet import Sheet, sheets_of

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    words.NONE: "--",
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@kinds.expects(
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"), header="moeopt.report.block:Header"
)
def render_tex(blocks: Sequence[Block | Sheet], header: Header) -> str:
    """The whole file: how it was made in comments, then the tables.

    `blocks` are comparisons, of one problem or of several; `header` says how they came about.

    >>> from moeopt import placement
    >>> from moeopt.report import Block, Header
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four")
    >>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
    >>> "tabular" in render_tex([block], Header())
    True
    """
    sheets = sheets_of(blocks)
    made = [title(sheets), *(f"{name}: {text}" for name, text in header_facts(sheets, header))]
    parts = [f"% {_comment(line)}" for line in made]
    for sheet in sheets:
        parts += ["", *_table(sheet)]
    return "\n".join([*parts, ""])


def plain(text: str) -> str:
    """Text that LaTeX sets as it is; what is no Latin letter is left to the engine.

    >>> print(plain("eplb_raw: 5 % of {a} & ~b"))
    eplb\\_raw: 5~\\% of \\{a\\} \\& \\textasciitilde{}b
    """
    one_line = re.sub(r"\s+", " ", text)
    return "".join(_SIGNS.get(sign, sign) for sign in one_line).replace(r" \%", r"~\%")


def _comment(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _table(sheet: Sheet) -> list[str]:
    count = len(sheet.heads)
    rows = [r"\begin{table}", r"\centering", f"\\caption{{Methods compared on {plain(sheet.name)}.}}"]
    rows += [f"% {_comment(name)}: {_comment(text)}" for name, text in sheet.facts]
    rows += [f"\\begin{{tabular}}{{l{'r' * count}l}}", r"\hline"]
    rows.append(" & ".join(["method", *(plain(head.title) for head in sheet.heads), "remark"]) + r" \\")
    rows.append(r"\hline")
    for line in sheet.lines:
        if line.kind == "bound":
            rows.append(r"\hline")
        said = ", ".join(part for part in ("best" if line.kind == "best" else "", line.remark) if part)
        cells = [line.method, *(line.cells or (words.NONE,) * count)]
        shown = [f"\\textbf{{{plain(cell)}}}" if line.kind == "best" and cell else plain(cell) for cell in cells]
        rows.append(" & ".join([*shown, plain(said)]) + r" \\")
    rows += [r"\hline", r"\end{tabular}"]
    rows += [f"% {_comment(name)}: {_comment(text)}" for name, text in sheet.footnotes]
    return [*rows, r"\end{table}"]
