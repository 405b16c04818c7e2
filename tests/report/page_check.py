"""A strict reading of a page: balanced tags, unique ids, nothing from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Collects tags, ids, references, scripts and text, and every fault."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.refs: set[str] = set()
        self.faults: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.rows: list[str] = []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"left open: {self.open}")
        if len(set(self.ids)) != len(self.ids):
            self.faults.append("an id stands twice")
        if self.refs - set(self.ids):
            self.faults.append(f"dangling references: {sorted(self.refs - set(self.ids))}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if "svg" not in self.open and tag not in VOID:
            self.faults.append(f"<{tag}/> outside SVG")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes something else")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.text.append(data)
            if self.tags[-1:] == [("th", {"scope": "row"})] and self.open[-1:] == ["th"]:
                self.rows.append(data)  # the name, before what is said of it

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.append((tag, known))
        if known.get("id"):
            self.ids.append(str(known["id"]))
        for key, value in attrs:
            if key.startswith("on"):
                self.faults.append(f"event handler {key}")
            if key in ("href", "src") and not str(value).startswith(("#", "data:image/png;base64,")):
                self.faults.append(f"{key} leads outside: {value}")
            if key == "href" and str(value).startswith("#"):
                self.refs.add(str(value)[1:])
            if key in ("aria-labelledby", "aria-describedby"):
                self.refs.add(str(value))
            self.refs.update(re.findall(r"url\(#([^)]+)\)", str(value)))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)
