"""The part of YAML that topology files and ``kubectl get -o yaml`` are written in: mappings, lists, scalars, blocks.

Anchors, aliases, tags and merge keys are refused by name: no such file has any, and they are how small files become
huge ones. PyYAML is not used here: it knows no ``[a, n[1-2]]``, takes 10 to 15 times as long where libyaml is missing
(15 s for the labels of 6,000 nodes), and says neither which line is not lined up nor what to do about it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from moeopt.cluster.readers.text import refuse
from moeopt.errors import InstanceError

_REFUSED = {"&": "anchors", "*": "aliases", "!": "tags", "%": "directives", "?": "complex keys", "@": "reserved signs"}
MOST_DEEP = 60


def read_lists(text: str, source: str) -> Any:
    """The value of a document, lists and mappings nested.

    Raises
    ------
    InstanceError
        Not of this part of YAML, a key twice, or cut short; with the line.

    >>> read_lists("- a: 1\\n  b:\\n  - n[1-2]\\n  - 'x: y'  # two\\n- c: {}\\n", "x.yaml")
    [{'a': 1, 'b': ['n[1-2]', 'x: y']}, {'c': {}}]
    """
    return _Reader(text, source).document()


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.raw = text.split("\n")
        self.lines: list[tuple[int, int, str]] = []  # number, indent, text
        for number, line in enumerate(self.raw, 1):
            bare = _uncommented(line).rstrip()
            if not bare.strip() or (bare == "---" and not self.lines):
                continue
            if bare in ("---", "..."):
                break  # the first document
            indent = len(bare) - len(bare.lstrip(" "))
            self.lines.append((number, indent, bare[indent:]))
        self.at = 0

    def bad(self, number: int, value: str, rule: str, fix: str) -> InstanceError:
        return refuse(self.source, value or "''", rule, fix, f"line {number}")

    def document(self) -> Any:
        if not self.lines:
            raise self.bad(1, "", "the file is empty", "Write it again")
        found = self.block(self.lines[0][1], 0)
        if self.at < len(self.lines):
            number, _, text = self.lines[self.at]
            raise self.bad(number, text, "is indented unlike the lines above", "Line it up")
        return found

    def block(self, indent: int, deep: int) -> Any:
        """A list or mapping whose lines begin at `indent`."""
        number, _, text = self.lines[self.at]
        if deep > MOST_DEEP:
            raise self.bad(number, text, f"is nested more than {MOST_DEEP} deep", "Is it the right file?")
        if text == "-" or text.startswith("- "):
            return self.items(indent, deep)
        return self.mapping(indent, deep)

    def items(self, indent: int, deep: int) -> list[Any]:
        found = []
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here != indent or not (text == "-" or text.startswith("- ")):
                break
            rest = text[1:].lstrip(" ")
            inner = indent + len(text) - len(rest)
            if not rest:
                self.at += 1
                found.append(self.nested(indent, deep))
            elif rest.startswith("- ") or _key(rest) is not None:
                self.lines[self.at] = (number, inner, rest)  # the item goes on below, lined up with its first key
                found.append(self.block(inner, deep + 1))
            else:
                self.at += 1
                found.append(self.scalar(rest, number, indent))
        return found

    def mapping(self, indent: int, deep: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here < indent or (here == indent and text.startswith("- ")):
                break
            if text.startswith("\t"):
                rule = "lines are indented with blanks, not tabs"
                raise self.bad(number, text.strip(), rule, "Replace tabs by blanks")
            parts = _key(text)
            if here > indent or parts is None:
                self.refused(text, number)
                raise self.bad(number, text, "is not `key: value` lined up with the keys above", "Line it up")
            key = str(self.value(parts[0], number)) if parts[0][0] in "\"'" else parts[0]
            if key in found:
                raise self.bad(number, key, "the key stands twice", "Keep one of them")
            self.at += 1
            rest = parts[1]
            found[key] = self.scalar(rest, number, indent) if rest else self.nested(indent, deep, lists=True)
        return found

    def nested(self, indent: int, deep: int, *, lists: bool = False) -> Any:
        """What stands below a key or dash, or None."""
        if self.at < len(self.lines):
            _, here, text = self.lines[self.at]
            if here > indent or (lists and here == indent and (text == "-" or text.startswith("- "))):
                return self.block(here, deep + 1)
        return None

    def scalar(self, text: str, number: int, indent: int) -> Any:
        """A value on the line of its key, which may go on over the lines below."""
        if re.fullmatch(r"[|>][+-]?\d*", text):
            return self.block_text(number, indent)
        parts = [text]
        closing = {"[": "]", "{": "}", '"': '"', "'": "'"}.get(text[0])
        while self.at < len(self.lines) and self.lines[self.at][1] > indent:
            if closing is not None and self.closed(" ".join(parts)):
                break
            parts.append(self.lines[self.at][2])
            self.at += 1
        return self.value(" ".join(parts), number)

    def closed(self, text: str) -> bool:
        try:
            self.value(text, 0)
        except InstanceError:
            return False
        return True

    def block_text(self, number: int, indent: int) -> str:
        """A block of text behind ``|`` or ``>``, taken as it stands."""
        last = number
        while last < len(self.raw):
            line = self.raw[last]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            last += 1
        while self.at < len(self.lines) and self.lines[self.at][0] <= last:
            self.at += 1
        return "\n".join(line.strip() for line in self.raw[number:last])

    def refused(self, text: str, number: int) -> None:
        if text[:1] in _REFUSED:
            rule = f"{_REFUSED[text[0]]} of YAML are not read"
            raise self.bad(number, text, rule, "Write the values in place")
        if text.startswith("<<"):
            raise self.bad(number, text, "merge keys of YAML are not read", "Write the values in place")

    def value(self, text: str, number: int) -> Any:
        """A scalar, or a row or mapping on one line."""
        if text[0] in "[{":
            return self.flow(text, number)
        if text[0] == '"':
            try:
                return json.loads(text, strict=False)
            except ValueError as error:
                raise self.bad(number, text, "is no text in double quotes", "Was the line cut short?") from error
        if text[0] == "'":
            if len(text) < 2 or text[-1] != "'" or "'" in text[1:-1].replace("''", ""):
                raise self.bad(number, text, "is no text in single quotes", "Was the line cut short?")
            return text[1:-1].replace("''", "'")
        self.refused(text, number)
        if re.fullmatch(r"[-+]?[0-9]{1,18}", text) and not re.fullmatch(r"[-+]?0[0-9]+", text):
            return int(text)
        return {"true": True, "false": False, "null": None, "~": None}.get(text.lower(), text)

    def flow(self, text: str, number: int) -> Any:
        """``[a, n[1-2]]`` or ``{}`` on one line; commas within brackets of a name do not part."""
        ends = {"[": "]", "{": "}"}
        if len(text) < 2 or text[-1] != ends[text[0]]:
            raise self.bad(number, text, "the bracket is not closed", "Was the file cut short?")
        inner = text[1:-1].strip()
        pieces, depth, at = [], 0, 0
        for place, sign in enumerate(inner):
            depth += (sign in "[{") - (sign in "]}")
            if sign == "," and depth == 0:
                pieces.append(inner[at:place].strip())
                at = place + 1
        pieces = [piece for piece in [*pieces, inner[at:].strip()] if piece]
        if depth or any(len(piece) > 10_000 for piece in pieces):
            raise self.bad(number, text, "the brackets do not match", "Was the file cut short?")
        if text[0] == "[":
            return [self.value(piece, number) for piece in pieces]
        found = {}
        for piece in pieces:
            parts = _key(piece)
            if parts is None:
                raise self.bad(number, piece, "is not `key: value`", "Write it so")
            found[parts[0].strip("\"' ")] = self.value(parts[1], number) if parts[1] else None
        return found


def _key(text: str) -> tuple[str, str] | None:
    """Key and the rest of its line, or None where there is no key.

    >>> _key("a/b: c: d"), _key("'x: y'"), _key("n[1-2]"), _key('"k": [1]')
    (('a/b', 'c: d'), None, None, ('"k"', '[1]'))
    """
    if text[:1] in "\"'":
        end = text.find(text[0], 1)
        while end > 0 and text[0] == '"' and text[end - 1] == "\\":
            end = text.find('"', end + 1)
        rest = text[end + 1 :].lstrip(" ")
        return (text[: end + 1], rest[1:].strip()) if end > 0 and re.match(r":( |$)", rest) else None
    if text[:1] in ("[", "{", "&", "*", "!", "|", ">", "%", "@", "`", ","):
        return None
    found = re.search(r":(?: |$)", text)
    return (text[: found.start()].strip(), text[found.end() :].strip()) if found and found.start() else None


def _uncommented(line: str) -> str:
    if "#" not in line:
        return line
    quote = ""
    for place, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'" and (place == 0 or line[place - 1] in " [{,:-"):
            quote = sign
        elif sign == "#" and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
    return line
