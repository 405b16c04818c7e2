"""The report as one HTML page that needs nothing beside itself: no links, no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escaped
from itertools import groupby

from moeopt.report import table, words
from moeopt.report.block import Block, Header
from moeopt.report.head import header_facts, title
from moeopt.report.page import STYLE
from moeopt.report.summary import Summary, summarise


def render_html(blocks: Sequence[Block], header: Header) -> str:
    """The whole page."""
    summaries = [summarise(block) for block in blocks]
    name = escape(title(summaries))
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
    if len(summaries) == 1:
        parts.append(_verdict(summaries[0]))
    parts.append(_facts(header_facts(summaries, header), marked="Command"))
    for index, summary in enumerate(summaries, 1):
        parts += _section(summary, index, alone=len(summaries) == 1)
    parts += ["</main>", "</body>", "</html>", ""]
    return "\n".join(parts)


def escape(text: str) -> str:
    """Text as HTML shows it; a percent sign stays with its number."""
    return escaped(text).replace(" %", "\u00a0%")


def _section(summary: Summary, index: int, *, alone: bool) -> list[str]:
    heading = f"b{index}"
    parts = [f'<section aria-labelledby="{heading}">', f'<h2 id="{heading}">{escape(summary.name)}</h2>']
    if not alone:
        parts.append(_verdict(summary))
    parts += [_facts(words.facts(summary.instance), marked="SHA-256"), _table(summary, heading), _footnotes(summary)]
    parts += _figures(summary, heading)
    return [*parts, "</section>"]


def _verdict(summary: Summary) -> str:
    return f'<p class="verdict">{" ".join(_text(sentence) for sentence in words.verdict(summary))}</p>'


def _text(sentence: words.Text) -> str:
    pieces = (f"<code>{escape(piece)}</code>" if isinstance(piece, words.Name) else escape(piece) for piece in sentence)
    return "".join(pieces)


def _facts(facts: list[tuple[str, str]], marked: str) -> str:
    rows = []
    for name, text in facts:
        said = f"<code>{escape(text)}</code>" if name == marked else escape(text)
        rows.append(f"<dt>{escape(name)}</dt><dd>{said}</dd>")
    return '<dl class="facts">\n' + "\n".join(rows) + "\n</dl>"


def _table(summary: Summary, heading: str) -> str:
    columns = table.columns(summary)
    first = ['<th scope="col" rowspan="2">Method</th>']
    second = []
    for group, members in groupby(columns, key=lambda column: column.group):
        heads = [column.head for column in members]
        if heads == [""]:
            first.append(f'<th scope="col" rowspan="2">{escape(group)}</th>')
            continue
        scope = "colgroup" if len(heads) > 1 else "col"
        first.append(f'<th scope="{scope}" colspan="{len(heads)}">{escape(group)}</th>')
        second += [f'<th scope="col">{escape(head)}</th>' for head in heads]
    body = []
    for line in table.lines(summary):
        tags = [text for text in ("best" if line.kind == "best" else "", line.remark if line.cells else "") if text]
        shown = escape(line.method) + "".join(f' <span class="tag">{escape(tag)}</span>' for tag in tags)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in line.cells)
        if not line.cells:
            cells = f'<td class="why" colspan="{len(columns)}">{escape(line.remark)}</td>'
        body.append(f'<tr class="{line.kind}"><th scope="row">{shown}</th>{cells}</tr>')
    label = f"Methods compared on {summary.name}"
    return "\n".join(
        [
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {escape(label)}">',
            f'<table aria-describedby="{heading}-notes">',
            f"<caption><span>{escape(label)}, all judged by one referee.</span></caption>",
            f"<thead>\n<tr>{''.join(first)}</tr>\n<tr>{''.join(second)}</tr>\n</thead>",
            "<tbody>",
            *body,
            "</tbody>",
            "</table>",
            "</div>",
            f'<div class="notes" id="{heading}-notes">',
        ]
    )


def _footnotes(summary: Summary) -> str:
    """What happened, then what the columns mean; closes the notes that the table opened."""
    parts = []
    notes = table.notes(summary)
    if notes:
        parts.append("<ul>")
        for note, methods in notes:
            who = _text(words.listed(methods)) + ": " if methods else ""
            parts.append(f"<li>{who}{escape(note)}.</li>")
        parts.append("</ul>")
    parts.append("<dl>")
    parts += [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in table.footnotes(summary)]
    parts += ["</dl>", f"<p>{escape(table.LIKE_NAMED)}</p>", "</div>"]
    return "\n".join(parts)


def _figures(summary: Summary, prefix: str) -> list[str]:
    from moeopt.report.plots.gaps import gap_plot
    from moeopt.report.plots.heat import heat_map
    from moeopt.report.plots.replicas import replica_plot

    drawn = [(draw(summary, f"{prefix}{key}")) for key, draw in (("h", heat_map), ("g", gap_plot), ("r", replica_plot))]
    parts = []
    for plot in drawn:
        if plot is None:
            continue
        parts += [
            "<figure>",
            f'<div class="card" role="img" tabindex="0" aria-label="{escape(plot.alt)}">',
            plot.svg,
            "</div>",
            f"<figcaption><b>{escape(plot.title)}.</b> {escape(plot.caption)}</figcaption>",
            "</figure>",
        ]
    return parts
