"""Formats by the endings of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from moeopt.errors import InstanceError, Violation

T = TypeVar("T")


def of_ending(path: str | Path, formats: Mapping[str, T], what: str) -> T:
    """What makes a file of that name.

    Raises
    ------
    InstanceError
        The ending is that of no format of `what`.

    >>> of_ending("a/table.MD", {".md": "Markdown"}, "report format")
    'Markdown'
    """
    ending = Path(path).suffix.lower()
    if ending not in formats:
        rule = f"has an ending that no {what} goes by" if ending else "has no ending, which chooses the format"
        raise InstanceError([Violation("output", "", str(path), rule, f"Known: {', '.join(formats)}")])
    return formats[ending]
