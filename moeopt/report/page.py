"""The look of the page: one style sheet, for screens of any width, light and dark, and for paper."""

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2126; --soft: #59616a; --rule: #d5d9de;
  --tint: #f5f6f8; --best: #e6eef7; --mark: #10355e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e4e7ea; --soft: #a0a8b1; --rule: #363c43;
  --tint: #1d2125; --best: #1c2f45; --mark: #9cc3ee; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1.1rem; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 0.6rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.4rem 0 0.4rem; }
p { max-width: 48rem; margin: 0.6rem 0; }
.verdict { font-size: 1.0625rem; }
code { font: 0.9em/1.4 ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace;
  overflow-wrap: anywhere; }
dl.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.2rem 1.2rem; margin: 1rem 0 1.4rem;
  font-size: 0.875rem; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1.2rem 0 0.4rem; }
.scroll:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.8125rem; line-height: 1.35; font-variant-numeric: tabular-nums;
  width: 100%; border-bottom: 1.5px solid var(--ink); }
caption { caption-side: top; text-align: left; font-size: 0.875rem; padding: 0 0 0.5rem; color: var(--ink); }
th, td { padding: 0.32rem 0.5rem; text-align: right; vertical-align: bottom; }
thead th { font-weight: 600; border-bottom: 1px solid var(--rule); }
thead tr:first-child th { border-top: 1.5px solid var(--ink); vertical-align: bottom; }
thead th[scope=colgroup] { text-align: center; }
thead tr:last-child th, thead th[rowspan] { border-bottom: 1px solid var(--ink); }
thead tr:last-child th { font-weight: 400; color: var(--soft); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); padding-left: 0.4rem; }
thead tr:last-child th:first-child { position: static; text-align: right; padding-left: 0.5rem; }
tbody th { font-weight: 400; min-width: 6.4rem; max-width: 14rem; overflow-wrap: anywhere; }
thead button { font: inherit; color: inherit; background: none; border: 0; margin: 0; padding: 0; text-align: inherit;
  cursor: pointer; }
thead button:hover { color: var(--mark); text-decoration: underline; text-underline-offset: 0.2em; }
thead button:focus-visible { outline: 2px solid var(--mark); outline-offset: 3px; }
th[aria-sort] button { color: var(--mark); }
th[aria-sort] button::after { content: "\\00a0\\25b2"; font-size: 0.8em; }
th[aria-sort=descending] button::after { content: "\\00a0\\25bc"; }
caption em { color: var(--soft); font-style: normal; }
caption span { display: block; position: sticky; left: 0; max-width: calc(100vw - 2.5rem); }
tbody td { white-space: nowrap; }
tbody td.why { text-align: left; white-space: normal; color: var(--soft); min-width: 20rem; }
tr.best th, tr.best td { background: var(--best); font-weight: 600; }
tr.broken td { color: var(--soft); }
tr.bound th, tr.bound td { border-top: 1px solid var(--rule); font-style: italic; }
.tag { display: block; font-size: 0.92em; color: var(--soft); font-style: normal; font-weight: 400; }
tr.best .tag { color: var(--mark); font-weight: 600; }
.notes { font-size: 0.8125rem; color: var(--soft); }
.notes p { max-width: 62rem; }
.notes dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.1rem 0.9rem; margin: 0.6rem 0; }
.notes dt { color: var(--ink); }
.notes dd { margin: 0; max-width: 58rem; }
ul.notes { margin: 0.4rem 0; padding-left: 1.1rem; }
figure { margin: 2rem 0 0; }
figure .card { background: #ffffff; border: 1px solid var(--rule); border-radius: 4px; padding: 0.8rem;
  overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 44rem; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { font-size: 0.875rem; margin-top: 0.6rem; max-width: 58rem; }
figcaption b { margin-right: 0.3em; }
@media (max-width: 40rem) { main { padding: 1.2rem 0.9rem 3rem; } h1 { font-size: 1.4rem; }
  dl.facts, .notes dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dl.facts dd, .notes dd { margin-bottom: 0.45rem; } tbody th { max-width: 7.5rem; } }
@page { size: A4 landscape; margin: 14mm; }
@media print { :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #444444; --rule: #bbbbbb;
  --best: #e8e8e8; --mark: #000000; }
  html { font-size: 9.5pt; } body { font-size: 1rem; } main { max-width: none; padding: 0; }
  .scroll, figure .card { overflow: visible; } caption em { display: none; } thead button { display: contents; }
  figure .card { border: 0; padding: 0; } figure svg { min-width: 0; } figure, .scroll, tr, dl { break-inside: avoid; }
  h2, h3 { break-after: avoid; } table { font-size: 7.5pt; } th, td { padding: 0.2rem 0.3rem; }
  th:first-child { position: static; } tr.best th, tr.best td { print-color-adjust: exact; } }
""".strip()
