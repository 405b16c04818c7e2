"""The only script of the page: a click, or a key, on the head of a column sorts the table by it.

It is well-formed XML as it stands. Without it the heads are plain, and everything is there in the order given.
"""

SCRIPT = r"""
(() => {
  const UNITS = {us: 1e-6, "\u00b5s": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600};
  const NEXT = {none: "ascending", ascending: "descending", descending: "none"};
  const number = text => {
    const found = /^([\u003c-]?)(\d[\d.]*(?:e[+-]?\d+)?)\s*([a-z\u00b5]*)/.exec(text.trim().replace(/,/g, ""));
    if (!found) return null;
    const value = found[2] * (UNITS[found[3]] || 1);
    return found[1] == "-" ? -value : found[1] ? value / 2 : value;
  };
  const key = (row, column) => {
    if (column == 0) return row.cells[0].firstChild.textContent.trim();
    return row.className == "none" ? null : number(row.cells[column].textContent);
  };
  const compare = (one, other, sign) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return sign * (typeof one == "string" ? one.localeCompare(other) : one - other);
  };
  document.querySelectorAll("table").forEach(table => {
    const body = table.tBodies[0], rows = [...body.rows];
    const last = rows.filter(row => row.className == "bound");
    const given = rows.filter(row => row.className != "bound");
    const heads = [...table.querySelectorAll("th[data-column]")];
    const sort = head => {
      const order = NEXT[head.getAttribute("aria-sort") || "none"], column = Number(head.dataset.column);
      heads.forEach(one => one.removeAttribute("aria-sort"));
      if (order != "none") head.setAttribute("aria-sort", order);
      const sign = order == "descending" ? -1 : 1;
      const sorted = [...given].sort((a, b) => compare(key(a, column), key(b, column), sign));
      body.append(...(order == "none" ? given : sorted), ...last);
    };
    heads.forEach(head => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(head));
      head.append(button);
    });
    const hint = document.createElement("em");
    hint.textContent = " A click on a head sorts by it.";
    table.caption.firstElementChild.append(hint);
  });
})();
""".strip()
