"""The small part of YAML that balancer files are written in, read strictly; everything else is refused by its name.

Read are block mappings, rows of scalars in brackets (also over several lines) or as ``- `` items, plain and quoted
scalars, and comments. A key that stands twice is refused, where most readers of YAML take the last one in silence.
PyYAML is not used here: on a map of 61 layers it takes 8 times as long with libyaml, 40 times without, and it changes
what has to stay as it is written (``010``, ``1:30``, ``on``).
"""

from __future__ import annotations

import re
from typing import Any

from moeopt.errors import Violations

_KEY = re.compile(r"""(?P<key>[A-Za-z0-9_.\-]+|"[^"\\]*"|'[^']*')[ \t]*:(?:[ \t]+(?P<rest>.*))?""")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_FRACTION = re.compile(r"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+\.(?:[eE][-+]?[0-9]+)?")
DEPTH_MAX, DIGITS_MAX = 32, 40
"""Mappings inside of each other, and digits of a number, at most."""
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class _Bad(Exception):
    def __init__(self, line: int, value: str, rule: str, fix: str) -> None:
        self.line, self.value, self.rule, self.fix = line, value, rule, fix


def read_yaml(data: bytes, source: str) -> Any:
    """The mapping of a file; keys that are whole numbers are ints.

    Raises
    ------
    InstanceError
        Not UTF-8, not of this part of YAML, a key twice, or cut short; with the line.

    Examples
    --------
    >>> read_yaml(b"num_slots: 4  # four\\nrows:\\n  3: [0, 1,\\n      2, 0]\\n  4:\\n  - 1\\n  - 0\\n", "x.yaml")
    {'num_slots': 4, 'rows': {3: [0, 1, 2, 0], 4: [1, 0]}}
    >>> read_yaml(b"a: 1\\na: 2\\n", "x.yaml")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: x.yaml: yaml[line 2] = a: the key stands twice. Keep one of them.
    """
    check = Violations(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        check.add("yaml", "...", rule=f"is not UTF-8 text (byte {error.start})", fix="Is this a YAML file?")
        check.raise_if_any()
    try:
        return _Reader(text).document()
    except _Bad as bad:
        check.add("yaml", bad.value or "''", rule=bad.rule, fix=bad.fix, where=f"line {bad.line}")
        check.raise_if_any()
        raise


class _Reader:
    """Lines with their indentation, without comments and blank ones."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, int, str]] = []
        for number, line in enumerate(text.splitlines(), 1):
            bare = _uncommented(line).rstrip()
            if not bare.strip():
                continue
            if bare == "---" and not self.lines:
                continue
            indent = len(bare) - len(bare.lstrip(" "))
            if bare[indent] == "\t":
                raise _Bad(number, "a tab", "lines are indented with blanks", "Replace tabs by blanks")
            if bare in ("---", "..."):
                raise _Bad(number, bare, "the file holds several documents", "Give one")
            self.lines.append((number, indent, bare[indent:]))
        self.at = 0

    def document(self) -> Any:
        if not self.lines:
            raise _Bad(1, "", "the file is empty", "Write it again")
        if self.lines[0][2].startswith("- "):
            raise _Bad(self.lines[0][0], self.lines[0][2][:40], "must begin with a key", "Is it a balancer's file?")
        found = self.mapping(self.lines[0][1])
        if self.at < len(self.lines):
            number, _, text = self.lines[self.at]
            raise _Bad(number, text[:40], "is indented unlike the lines above", "Line it up")
        return found

    def mapping(self, indent: int, depth: int = 0) -> dict[Any, Any]:
        if depth > DEPTH_MAX:
            number, _, text = self.lines[self.at]
            raise _Bad(number, text[:40], f"lies in more than {DEPTH_MAX} mappings", "Is it a balancer's file?")
        found: dict[Any, Any] = {}
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here < indent or (here == indent and text.startswith("- ")):
                break
            match = _KEY.fullmatch(text)
            if here > indent or match is None:
                _refuse(number, text)
                raise _Bad(number, text[:40], "is not `key: value` lined up with the keys above", "Line it up")
            key = _scalar(match["key"], number)
            if key in found:
                raise _Bad(number, str(key), "the key stands twice", "Keep one of them")
            self.at += 1
            found[key] = self.value((match["rest"] or "").strip(), number, indent, depth)
        return found

    def value(self, text: str, number: int, indent: int, depth: int) -> Any:
        if text.startswith("["):
            return self.row(text, number)
        if text:
            return _scalar(text, number)
        if self.at < len(self.lines):
            _, here, following = self.lines[self.at]
            if following.startswith("- ") and here >= indent:
                return self.items(here)
            if here > indent:
                return self.mapping(here, depth + 1)
        return None

    def items(self, indent: int) -> list[Any]:
        found = []
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here != indent or not text.startswith("- "):
                break
            self.at += 1
            item = text[2:].strip()
            found.append(self.row(item, number) if item.startswith("[") else _scalar(item, number))
        return found

    def row(self, text: str, number: int) -> list[Any]:
        """A row in brackets, which may go on over lines."""
        parts = [text]
        while "]" not in parts[-1]:
            if self.at >= len(self.lines):
                raise _Bad(number, text[:40], "the row is not closed", "The file was cut short: copy it again")
            parts.append(self.lines[self.at][2])
            self.at += 1
        whole = " ".join(parts)
        inner, after = whole[1:].split("]", 1)
        if after.strip() or "[" in inner:
            raise _Bad(number, whole[:40], "rows hold numbers only, one row a key", "Write one row of ids a layer")
        cells = [cell.strip() for cell in inner.split(",")]
        if cells and not cells[-1]:
            cells.pop()  # a comma behind the last one
        return [_scalar(cell, number) for cell in cells]


def _uncommented(line: str) -> str:
    if "#" not in line:
        return line
    quote = ""
    for place, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "#" and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
    return line


def _refuse(number: int, text: str) -> None:
    names = {"&": "anchors", "*": "aliases", "!": "tags", "|": "block texts", ">": "block texts", "{": "braces",
             "%": "directives", "?": "complex keys", "<": "merge keys"}  # fmt: skip
    if text[:1] in names:
        raise _Bad(number, text[:40], f"{names[text[0]]} of YAML are not read", "Write plain keys, numbers and rows")


def _scalar(text: str, number: int) -> Any:
    if _WHOLE.fullmatch(text):
        if len(text) > DIGITS_MAX:
            raise _Bad(number, text[:20] + "...", f"has more than {DIGITS_MAX} digits", "Repair the number")
        return int(text.replace("_", ""))
    if text[:1] in "\"'" and text:
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise _Bad(number, text[:40], "is no plain text in quotes", "Write it without escapes")
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _FRACTION.fullmatch(text):
        return float(text)
    _refuse(number, text)
    if re.fullmatch(r"0[0-9]+", text):
        raise _Bad(number, text, "numbers do not begin with 0 (YAML may take it as octal)", "Leave the 0 out")
    return text
