"""A ranking cut down to what a reader needs: the best in full, of other shapes a few figures and the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

LONG = 100
"""Rows up to which a ranking is not cut."""
FULL = 6
"""Rows of each demand and family that stay as they are, the best first; what is bought does anyway."""
BRIEF = (
    *("config", "demand", "family", "label", "gpus", "batch", "ttft_s", "tpot_s", "memory_bytes"),
    *("behind", "bought", "why_not"),
)
"""What is said of the others."""
Row = Mapping[str, Any]


def kind_of(label: str) -> str:
    """A shape without what its neighbours differ in: stages, attention nodes, micro-batches.

    >>> kind_of("decode PP2 x TP4 x DP80 = EP320"), kind_of("apart 9 x TP1 attention on A, 4 x TP2 experts on B, m = 3")
    ('decode TP4 x DP80 = EP320', 'apart TP1 attention on A, 4 x TP2 experts on B')
    """
    text = re.sub(r"\bPP\d+ x ", "", label)
    return re.sub(r"^apart \d+ x (.*), m = \d+$", r"apart \1", text)


def shortened(solution: Mapping[str, Any]) -> dict[str, Any]:
    """The same solution with a short ranking; ``ranking_left_out`` counts the rows that are not in it."""
    if len(solution["ranking"]) <= LONG:
        return dict(solution)
    kept: list[Row] = []
    many: Counter[tuple[int, str]] = Counter()
    seen: set[tuple[int, str, bool]] = set()
    for row in solution["ranking"]:
        usable = row["behind"] is not None
        kind = (row["demand"], kind_of(row["label"]), usable)
        if usable:
            many[row["demand"], row["family"]] += 1
        if row["bought"] or (usable and many[row["demand"], row["family"]] <= FULL):
            kept.append(row)
        elif kind not in seen:
            kept.append({key: row[key] for key in BRIEF})
        else:
            continue
        seen.add(kind)
    return {**solution, "ranking": kept, "ranking_left_out": len(solution["ranking"]) - len(kept)}


def of_full(full: Sequence[Row], short: Sequence[Row], left_out: int) -> tuple[list[Row], list[str]]:
    """The rows of the full ranking that a short one has, cut alike, and faults where that cannot be."""
    by_place = {row["config"]: row for row in full}
    found = [
        {key: by_place[row["config"]][key] for key in BRIEF} if set(row) == set(BRIEF) else by_place[row["config"]]
        for row in short
        if row["config"] in by_place
    ]
    places = [row["config"] for row in short]
    faults = [f"solution.ranking: configuration {place} is not part of it" for place in places if place not in by_place]
    if len(set(places)) < len(places):
        faults.append("solution.ranking: a configuration is there twice")
    if left_out != len(full) - len(short):
        faults.append(f"solution.ranking_left_out = {left_out}: recomputed {len(full) - len(short)}")
    bought = [row["label"] for row in full if row["bought"] and row["config"] not in places]
    faults += [f"solution.ranking: {label} is missing, which is bought" for label in bought]
    order = [row["config"] for row in full if row["config"] in set(places)]
    if order != [place for place in places if place in by_place]:
        faults.append("solution.ranking: rows are not in their order")
    return found, faults
