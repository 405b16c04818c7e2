"""Which m of a range, or of the default, go with the batches and lie within the measured sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.microbatch import Table

OUTSIDE = "lies outside the measured sizes"
"""How the library begins to say it."""


@dataclass(frozen=True)
class Asked:
    """What was asked for, and how.

    Parameters
    ----------
    m, named
        Numbers of micro-batches, and those of them that were listed one by one.
    """

    m: Sequence[int]
    named: frozenset[int]


def listed(text: str) -> frozenset[int]:
    """Numbers that stand there by themselves, not in a range.

    >>> sorted(listed("1-8,16,32"))
    [16, 32]
    """
    return frozenset(int(part) for part in text.split(",") if re.fullmatch(r"\s*\d{1,9}\s*", part))


def kept(
    asked: Asked, tables: Mapping[str, Table], path: str, arguments: dict[str, Any], check: Violations
) -> list[str]:
    """Narrow the m of `arguments` to what can be; notes on what is left out, and violations where it was listed."""
    batches = arguments.get("batches")
    notes, m = [], list(asked.m)
    if batches is not None:
        uneven = arguments.get("uneven", False)
        lame = [one for one in m if not any(one <= batch and (uneven or batch % one == 0) for batch in batches)]
        free = [one for one in lame if one not in asked.named]
        if free and len(lame) < len(m):
            m = [one for one in m if one not in free]
            some, many = _numbers(free), len(free) > 1
            notes.append(
                f"m = {some} {'are' if many else 'is'} left out: {'they divide' if many else 'it divides'} no batch"
            )
            arguments["m"] = m
    if not tables:
        return notes
    low = max(table.tokens[0] for table in tables.values())
    high = min(table.tokens[-1] for table in tables.values())
    if batches is None and "micro_batch" not in arguments:
        if low > 1:
            rule = f"is needed: without it a micro-batch has 1 token, and {path} has {low} to {high}"
            check.add("--batch", "missing", rule=rule, fix=f"Give --batch {high}, or --micro-batch {low}")
        return notes
    outside: dict[int, int] = {}
    for one in m:
        size = next((size for size in _sizes(one, arguments) if not low <= size <= high), None)
        if size is not None:
            outside[one] = size
    bad = {one: size for one, size in outside.items() if one in asked.named or len(outside) == len(m)}
    for one, size in bad.items():
        rule = f"{_tokens(size)} outside the measured {low} to {high}"
        check.add("--times", f"m = {one}", where=path, rule=rule, fix="Measure there, leave it out, or give --extend")
    if outside and not bad:
        arguments["m"] = [one for one in m if one not in outside]
        for one, size in outside.items():
            notes.append(f"m = {one} is left out: {_tokens(size)} outside the measured {low} to {high} of {path}")
    return notes


def _sizes(m: int, arguments: Mapping[str, Any]) -> list[int]:
    """Tokens of the micro-batches of all batches that m goes with."""
    batches, uneven = arguments.get("batches"), arguments.get("uneven", False)
    if batches is None:
        return [int(arguments["micro_batch"])]
    fits = [batch for batch in batches if 1 <= m <= batch and (uneven or batch % m == 0)]
    return sorted({size for batch in fits for size in (batch // m, -(-batch // m))})


def _tokens(size: int) -> str:
    return "1 token lies" if size == 1 else f"{size:,} tokens lie"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
