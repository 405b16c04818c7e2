"""Micro-batches: attention and experts of one layer after another, and transfers between."""

from __future__ import annotations

from typing import Any

from tests.cases.case import Case, Desk, Refusal, Run
from tests.cases.placing import flags


def asked(desk: Desk, **options: Any) -> Run:
    return desk.moeopt("microbatch", *flags(options), "--json")


def refused(desk: Desk, **options: Any) -> Run:
    return desk.moeopt("microbatch", *flags(options))


def steps(desk: Desk, **options: Any) -> dict[str, Any]:
    """Milliseconds of a step for each number, and the fewest that hide the transfers."""
    solution = asked(desk, **options).document["solution"]
    took = {row["m"]: round(row["time_s"] * 1e3, 9) for row in solution["sweep"]}
    return {"hides from": solution["fewest_m"]["ours"], "ms": took}


def alone(desk: Desk, **options: Any) -> dict[str, Any]:
    found = asked(desk, **options).document
    return {
        "ms": found["solution"]["time_s"] * 1e3,
        "said": any("no overlap with m = 1" in note for note in found["notes"]),
    }


CASES = [
    Case(
        "mb-basic",
        "28 ms a round through both sides and both links: three of them keep a side of 10 ms busy.",
        {"ta": 10, "te": 10, "tc": 4, "layers": 32, "m": "1,2,3,4"},
        {"hides from": 3, "ms": {1: 896, 2: 906, 3: 978, 4: 1298}},
        steps,
    ),
    Case(
        "mb-negative-time",
        "Two clocks were read, and their difference is below nothing.",
        {"ta": 10, "te": 10, "tc": -1, "layers": 4, "m": "1,2"},
        Refusal(2, ("--tc", "T_c", "-1", "two clocks")),
        refused,
    ),
    Case(
        "mb-only-one",
        "With one batch in memory nothing overlaps, and that is said.",
        {"ta": 10, "te": 10, "tc": 4, "layers": 32, "m": "1"},
        {"ms": 896, "said": True},
        alone,
    ),
]
