"""Bytes of a file as text, cleaned of what terminals, logs and web pages put around it."""

from __future__ import annotations

import re

from moeopt.errors import InstanceError, Violation, shortened

MOST_BYTES = 64 * 1024 * 1024
"""Larger files are refused: the topology of 10,000 nodes has some megabytes."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def refuse(source: str, value: str, rule: str, fix: str, where: str = "") -> InstanceError:
    """The error of a topology file."""
    return InstanceError([Violation("topology", where, shortened(value), rule, fix)], source)


def clean(data: bytes, source: str) -> str:
    """Text without escape sequences of terminals, byte order mark and carriage returns.

    Raises
    ------
    InstanceError
        Empty, larger than `MOST_BYTES`, binary, or no text in UTF-8 or UTF-16.

    >>> clean(b"\\xef\\xbb\\xbf\\t\\x1b[4mGPU0\\tGPU1\\x1b[0m\\r\\n", "topo.txt")
    '\\tGPU0\\tGPU1\\n'
    """
    if len(data) > MOST_BYTES:
        rule = f"is larger than the {MOST_BYTES // 2**20} MiB that are read"
        raise refuse(source, f"{len(data):,} bytes", rule, "Is it a topology file?")
    if not data.strip():
        raise refuse(source, "''", "the file is empty", "Run the command again, and see what it says on standard error")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell writes
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise refuse(source, "...", f"is not text (byte {error.start})", "Is it a topology file?") from error
    if "\0" in text:
        raise refuse(source, "...", f"is binary (byte {text.index(chr(0))})", "Is it a topology file?")
    text = _ESCAPE.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def whole(text: str) -> int | None:
    """A whole number of at most 12 digits, or ``None``: longer ones are no sizes, and no floats either.

    >>> whole("16"), whole("9" * 5000), whole("-1"), whole("\u00b2")
    (16, None, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= 12 else None


def plain_lines(text: str) -> list[str]:
    """Lines without the marks of comments, prompts, quotes and fences before them.

    >>> plain_lines("```\\n# GPU0  X\\n> GPU1\\n")
    ['', 'GPU0  X', 'GPU1', '']
    """
    found = []
    for line in text.split("\n"):
        bare = re.sub(r"^[ \t]*```.*$", "", line)
        found.append(re.sub(r"^(?:[#$>|] ?)+(?=\S|\t| )", "", bare))
    return found
