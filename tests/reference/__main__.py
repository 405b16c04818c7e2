"""Print the table: ``python -m tests.reference [TEXT...]``; a text picks entries whose id or topic contains it."""

from __future__ import annotations

import argparse
import sys
from numbers import Real
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.reference.table import Entry, rows


def said(value: Any) -> str:
    """A value in a few characters.

    >>> said([3.14159265, True, (1, 2)])
    '[3.1416, True, [1, 2]]'
    """
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, Real):
        if value == int(value):
            return str(int(value))
        return f"{float(value):.6g}" if abs(value) >= 1000 else f"{float(value):.5g}"
    return str(value) if isinstance(value, str) else "[" + ", ".join(said(item) for item in value) + "]"


def tolerance_of(entry: Entry) -> str:
    """``exact``, ``+-0.05`` or ``+-1 %``."""
    if any(entry.tolerance.values()):
        return ", ".join(f"±{v:g}" if k == "abs" else f"±{100 * v:g} %" for k, v in entry.tolerance.items())
    return "exact"


def main(texts: list[str]) -> int:
    """Print the table and the count; 0 if nothing differs and nothing is missing, else 1."""
    table = Table("id", "section", "expected", "ours", "tolerance", "verdict", box=None, pad_edge=False)
    apart = Table("id", "section", "quantity", "room", box=None, pad_edge=False)
    wanted = reproduced = failed = 0
    for entry, ours, verdict in rows(texts):
        if verdict == "info":
            continue
        if verdict.startswith("not yet"):
            apart.add_row(entry.id, entry.section, entry.quantity, verdict.partition(": ")[2])
            continue
        wanted, reproduced = wanted + 1, reproduced + (verdict == "reproduced")
        failed += verdict != "reproduced"
        table.add_row(entry.id, entry.section, said(entry.expected), said(ours), tolerance_of(entry), verdict)
    console = Console(width=None if sys.stdout.isatty() else 220, soft_wrap=False)
    console.print(table)
    if apart.row_count:
        console.print(f"\nNot yet, {apart.row_count} that a later room will reproduce:")
        console.print(apart)
    console.print(f"\n{reproduced} of {wanted} reproduced")
    return 1 if failed else 0


if __name__ == "__main__":
    words = argparse.ArgumentParser(prog="python -m tests.reference", description=main.__doc__)
    words.add_argument("texts", nargs="*", help="only values whose id or section has one of these")
    sys.exit(main(words.parse_args().texts))
