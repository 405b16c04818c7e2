"""How lines of a plot are told apart: by colour, by dashes and by marker, by each of the three alone."""

from __future__ import annotations

from typing import Any

LOOKS: list[tuple[str, Any, str]] = [
    ("#10355e", "-", "o"),
    ("#c8502f", "--", "s"),
    ("#3f8f7b", "-.", "^"),
    ("#8a62a3", ":", "D"),
    ("#b58a00", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#62707d", (0, (3, 2)), "X"),
    ("#4c95cf", (0, (7, 2)), "P"),
    ("#2b2b2b", (0, (1, 2)), "*"),
]
"""Colour, line, marker."""
