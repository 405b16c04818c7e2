"""The report as LaTeX: a table for each instance, to be taken into a paper with ``\\input``; it needs booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from moeopt import kinds
from moeopt.errors import printable
from moeopt.report import words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, title
from moeopt.report.sheet import Head, Sheet, sheets_of

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
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
    parts.append(r"% needs \usepackage{booktabs}")
    for sheet, label in zip(sheets, _labels(sheets), strict=True):
        parts += ["", *_table(sheet, label)]
    return "\n".join([*parts, ""])


def plain(text: str) -> str:
    """Text that LaTeX sets as it is; what is no Latin letter is left to the engine.

    >>> print(plain("eplb_raw: 5 % of {a} & ~b"))
    eplb\\_raw: 5~\\% of \\{a\\} \\& \\textasciitilde{}b
    """
    one_line = _comment(text)
    return "".join(_SIGNS.get(sign, sign) for sign in one_line).replace(r" \%", r"~\%")


def _comment(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))


def _table(sheet: Sheet, label: str) -> list[str]:
    """Columns that a paper has room for, the best in bold, and remarks as notes below."""
    kept = [place for place, head in enumerate(sheet.heads) if not head.aside]
    heads = [sheet.heads[place] for place in kept]
    rows = [r"\begin{table}", r"\centering", f"\\caption{{Methods compared on {plain(sheet.name)}.}}"]
    rows += [f"\\label{{{label}}}"]
    rows += [f"% {_comment(name)}: {_comment(text)}" for name, text in sheet.facts]
    rows += [f"\\begin{{tabular}}{{l{'r' * len(kept)}}}", r"\toprule", *_heads(heads), r"\midrule"]
    remarks: dict[str, str] = {}
    for line in sheet.lines:
        if line.kind == "bound":
            rows.append(r"\midrule")
        cells = [line.method, *(line.cells[place] if line.cells else words.NONE for place in kept)]
        shown = [f"\\textbf{{{plain(cell)}}}" if line.kind == "best" and cell else plain(cell) for cell in cells]
        if line.remark:
            shown[0] += f"$^{{{remarks.setdefault(line.remark, _mark(len(remarks)))}}}$"
        rows.append(" & ".join(shown) + r" \\")
    rows += [r"\bottomrule", r"\end{tabular}"]
    if remarks:
        said = [f"$^{{{mark}}}$~{plain(text)}" for text, mark in remarks.items()]
        rows += [r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize\raggedright", r" \\".join(said) + "%"]
        rows.append(r"\end{minipage}")
    rows += [f"% {_comment(name)}: {_comment(text)}" for name, text in sheet.footnotes]
    return [*rows, r"\end{table}"]


def _heads(heads: Sequence[Head]) -> list[str]:
    """One row of heads, or two where columns stand in groups."""
    if not any(head.head for head in heads):
        return [" & ".join(["method", *(plain(head.group) for head in heads)]) + r" \\"]
    above, lines, place = [""], [], 2
    for group, members in groupby(heads, key=lambda head: head.group if head.head else id(head)):
        count = len(list(members))
        if isinstance(group, str):
            above.append(f"\\multicolumn{{{count}}}{{c}}{{{plain(group)}}}")
            lines.append(f"\\cmidrule(lr){{{place}-{place + count - 1}}}")
        else:
            above.append("")
        place += count
    below = ["method", *(plain(head.head or head.group) for head in heads)]
    return [" & ".join(above) + r" \\", "".join(lines), " & ".join(below) + r" \\"]


def _mark(number: int) -> str:
    """Letters, and after them numbers.

    >>> _mark(0), _mark(25), _mark(26)
    ('a', 'z', '27')
    """
    return chr(ord("a") + number) if number < 26 else str(number + 1)


def _labels(sheets: Sequence[Sheet]) -> list[str]:
    """``tab:`` and the name of each, none twice."""
    found: list[str] = []
    for sheet in sheets:
        name = re.sub(r"[^A-Za-z0-9]+", "-", sheet.name).strip("-") or "methods"
        again = sum(one == f"tab:{name}" or one.startswith(f"tab:{name}--") for one in found)
        found.append(f"tab:{name}--{again + 1}" if again else f"tab:{name}")
    return found
