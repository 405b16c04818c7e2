"""The report as one HTML page that needs nothing beside itself: no links, and one small script that sorts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escaped
from itertools import groupby

from moeopt import kinds
from moeopt.errors import printable
from moeopt.report import words
from moeopt.report.block import Block, Header
from moeopt.report.head import Reading, header_facts, headings, readings_of, title
from moeopt.report.page import STYLE
from moeopt.report.sheet import Sheet, sheets_of
from moeopt.report.sorting import SCRIPT


@kinds.expects(
    blocks=kinds.each("moeopt.report.block:Block|moeopt.report.sheet:Sheet"), header="moeopt.report.block:Header"
)
def render_html(blocks: Sequence[Block | Sheet], header: Header) -> str:
    """The whole page.

    `blocks` are comparisons, of one problem or of several; `header` says how they came about.

    >>> from moeopt import placement
    >>> from moeopt.report import Block, Header
    >>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="four")
    >>> block = Block(instance, placement.compare(instance, ["contiguous", "lpt"]))
    >>> render_html([block], Header()).rstrip().endswith("</html>")
    True
    """
    sheets = sheets_of(blocks)
    name = escape(title(sheets))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="generator" content="moeopt">',
        f"<title>{name}</title>",
        f"<style>\n{STYLE}\n</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{name}</h1>",
    ]
    alone = len(sheets) == 1
    if alone:
        parts.append(_verdict(sheets[0]))
    parts.append(_facts(header_facts(sheets, header), marked="Command"))
    readings = readings_of(sheets)
    for index, (sheet, heading) in enumerate(zip(sheets, headings(sheets), strict=True), 1):
        columns = next(place for place, one in enumerate(readings, 1) if one.of(sheet))
        parts += _section(sheet, heading, index, f"columns{columns}", alone=alone)
    if not alone:
        parts += ['<section aria-labelledby="reading">', '<h2 id="reading">How to read the tables</h2>']
        for place, reading in enumerate(readings, 1):
            parts += [f"<h3>{escape(reading.title)}</h3>"] if len(readings) > 1 else []
            parts += _footnotes(reading, f"columns{place}")
        parts.append("</section>")
    parts += ["</main>", f"<script>\n{SCRIPT}\n</script>", "</body>", "</html>"]
    return "\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text as HTML shows it; a percent sign stays with its number."""
    return escaped(printable(text)).replace(" %", "\u00a0%")


def _section(sheet: Sheet, heading: str, index: int, columns: str, *, alone: bool) -> list[str]:
    name = f"b{index}"
    parts = [f'<section aria-labelledby="{name}">', f'<h2 id="{name}">{escape(heading)}</h2>']
    if not alone:
        parts.append(_verdict(sheet))
    parts += [_facts(sheet.facts, marked="SHA-256"), _table(sheet, columns), _notes(sheet)]
    parts += _footnotes(readings_of([sheet])[0], columns) if alone else []
    parts += _figures(sheet, name)
    return [*parts, "</section>"]


def _verdict(sheet: Sheet) -> str:
    return f'<p class="verdict">{" ".join(_text(sentence) for sentence in sheet.verdict)}</p>'


def _text(sentence: words.Text) -> str:
    pieces = (f"<code>{escape(piece)}</code>" if isinstance(piece, words.Name) else escape(piece) for piece in sentence)
    return "".join(pieces)


def _facts(facts: Sequence[tuple[str, str]], marked: str) -> str:
    rows = []
    for name, text in facts:
        said = f"<code>{escape(text)}</code>" if name == marked else escape(text)
        rows.append(f"<dt>{escape(name)}</dt><dd>{said}</dd>")
    return '<dl class="facts">\n' + "\n".join(rows) + "\n</dl>"


def _table(sheet: Sheet, columns: str) -> str:
    first = [f'<th scope="col" rowspan="2" data-column="0">{escape(sheet.first)}</th>']
    second, column = [], 0
    for group, members in groupby(sheet.heads, key=lambda head: head.group):
        heads = [head.head for head in members]
        places = range(column + 1, column + 1 + len(heads))
        column += len(heads)
        if heads == [""]:
            first.append(f'<th scope="col" rowspan="2" data-column="{column}">{escape(group)}</th>')
            continue
        scope = "colgroup" if len(heads) > 1 else "col"
        first.append(f'<th scope="{scope}" colspan="{len(heads)}">{escape(group)}</th>')
        second += [
            f'<th scope="col" data-column="{place}">{escape(head)}</th>'
            for place, head in zip(places, heads, strict=True)
        ]
    body = []
    for line in sheet.lines:
        tags = [text for text in ("best" if line.kind == "best" else "", line.remark if line.cells else "") if text]
        shown = escape(line.method) + "".join(f' <span class="tag">{escape(tag)}</span>' for tag in tags)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in line.cells)
        if not line.cells:
            cells = f'<td class="why" colspan="{len(sheet.heads)}">{escape(line.remark)}</td>'
        body.append(f'<tr class="{line.kind}"><th scope="row">{shown}</th>{cells}</tr>')
    label = sheet.caption or f"Methods compared on {sheet.name}, all judged by one referee"
    return "\n".join(
        [
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {escape(label)}">',
            f'<table aria-describedby="{columns}">',
            f"<caption><span>{escape(label)}.</span></caption>",
            f"<thead>\n<tr>{''.join(first)}</tr>\n<tr>{''.join(second)}</tr>\n</thead>",
            "<tbody>",
            *body,
            "</tbody>",
            "</table>",
            "</div>",
        ]
    )


def _notes(sheet: Sheet) -> str:
    """What happened and was not asked for."""
    parts = []
    for note, methods in sheet.notes:
        who = _text(words.listed(methods)) + ": " if methods else ""
        parts.append(f"<li>{who}{escape(note)}.</li>")
    return "\n".join(['<ul class="notes">', *parts, "</ul>"]) if parts else ""


def _footnotes(reading: Reading, name: str) -> list[str]:
    """What the columns mean."""
    parts = [f'<div class="notes" id="{name}">', "<dl>"]
    parts += [f"<dt>{escape(head)}</dt><dd>{escape(text)}</dd>" for head, text in reading.footnotes]
    closing = [f"<p>{escape(reading.closing)}</p>"] if reading.closing else []
    return [*parts, "</dl>", *closing, "</div>"]


def _figures(sheet: Sheet, prefix: str) -> list[str]:
    parts = []
    for plot in sheet.figures(prefix):
        parts += [
            "<figure>",
            f'<div class="card" role="img" tabindex="0" aria-label="{escape(plot.alt)}">',
            plot.svg,
            "</div>",
            f"<figcaption><b>{escape(plot.title)}.</b> {escape(plot.caption)}</figcaption>",
            "</figure>",
        ]
    return parts
