"""The report as one HTML page that needs nothing beside itself: no links, no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escaped
from itertools import groupby

from moeopt.report import words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, title
from moeopt.report.page import STYLE
from moeopt.report.sheet import Sheet, sheets_of


def render_html(blocks: Sequence[Block | Sheet], header: Header) -> str:
    """The whole page."""
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
    if len(sheets) == 1:
        parts.append(_verdict(sheets[0]))
    parts.append(_facts(header_facts(sheets, header), marked="Command"))
    for index, sheet in enumerate(sheets, 1):
        parts += _section(sheet, index, alone=len(sheets) == 1)
    if len(sheets) > 1:
        parts += ['<section aria-labelledby="reading">', '<h2 id="reading">How to read the tables</h2>']
        parts += [*_footnotes(sheets[0]), "</section>"]
    parts += ["</main>", "</body>", "</html>"]
    return "\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text as HTML shows it; a percent sign stays with its number."""
    return escaped(text).replace(" %", "\u00a0%")


def _section(sheet: Sheet, index: int, *, alone: bool) -> list[str]:
    heading = f"b{index}"
    parts = [f'<section aria-labelledby="{heading}">', f'<h2 id="{heading}">{escape(sheet.name)}</h2>']
    if not alone:
        parts.append(_verdict(sheet))
    parts += [_facts(sheet.facts, marked="SHA-256"), _table(sheet), _notes(sheet)]
    parts += _footnotes(sheet) if alone else []
    parts += _figures(sheet, heading)
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


def _table(sheet: Sheet) -> str:
    first = ['<th scope="col" rowspan="2">Method</th>']
    second = []
    for group, members in groupby(sheet.heads, key=lambda head: head.group):
        heads = [head.head for head in members]
        if heads == [""]:
            first.append(f'<th scope="col" rowspan="2">{escape(group)}</th>')
            continue
        scope = "colgroup" if len(heads) > 1 else "col"
        first.append(f'<th scope="{scope}" colspan="{len(heads)}">{escape(group)}</th>')
        second += [f'<th scope="col">{escape(head)}</th>' for head in heads]
    body = []
    for line in sheet.lines:
        tags = [text for text in ("best" if line.kind == "best" else "", line.remark if line.cells else "") if text]
        shown = escape(line.method) + "".join(f' <span class="tag">{escape(tag)}</span>' for tag in tags)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in line.cells)
        if not line.cells:
            cells = f'<td class="why" colspan="{len(sheet.heads)}">{escape(line.remark)}</td>'
        body.append(f'<tr class="{line.kind}"><th scope="row">{shown}</th>{cells}</tr>')
    label = f"Methods compared on {sheet.name}"
    return "\n".join(
        [
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {escape(label)}">',
            '<table aria-describedby="columns">',
            f"<caption><span>{escape(label)}, all judged by one referee.</span></caption>",
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


def _footnotes(sheet: Sheet) -> list[str]:
    """What the columns mean; once a page."""
    parts = ['<div class="notes" id="columns">', "<dl>"]
    parts += [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in sheet.footnotes]
    closing = [f"<p>{escape(sheet.closing)}</p>"] if sheet.closing else []
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
