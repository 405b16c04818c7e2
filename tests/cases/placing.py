"""Where experts go: shapes that do not work, loads that are none, values that greedy rules and solvers miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case, Desk, Refusal, Run

PLAN = {"schema": "moeopt/placement-instance/1"}


def place(desk: Desk, *words: object, loads: Any) -> Run:
    return desk.moeopt("place", desk.write("loads.json", loads), *words, "--json")


def flags(options: dict[str, Any]) -> list[object]:
    """Options of the command line: ``{"max_moves": 3, "uneven_slots": True}`` is ``--max-moves 3 --uneven-slots``."""
    words: list[object] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return words


def planned(desk: Desk, loads: Any, **options: Any) -> Run:
    return place(desk, *flags(options), loads=loads)


def busiest(desk: Desk, loads: Any, **options: Any) -> float:
    """The busiest GPU's tokens, summed over layers."""
    return planned(desk, loads, **options).document["objective"]


def beside_rule(desk: Desk, loads: Any, **options: Any) -> dict[str, float]:
    return {
        "ours": busiest(desk, loads, **options),
        "public rule": busiest(desk, loads, **options, method="eplb"),
    }


def with_replicas(desk: Desk, loads: Any, **options: Any) -> dict[str, Any]:
    found = planned(desk, loads, **options).document
    return {"busiest": found["objective"], "replicas": found["solution"]["layers"][0]["replicas"]}


def copies_of(desk: Desk, loads: Any, expert: int, **options: Any) -> dict[str, Any]:
    found = with_replicas(desk, loads, **options)
    return {"busiest": found["busiest"], "copies": found["replicas"][expert]}


def slots_of_gpus(desk: Desk, loads: Any, **options: Any) -> list[int]:
    gpu_of_slot = planned(desk, loads, **options).document["solution"]["gpu_of_slot"]
    return sorted(np.bincount(gpu_of_slot).tolist(), reverse=True)


def cards(desk: Desk, loads: Any, **options: Any) -> dict[str, Any]:
    found = planned(desk, loads, **options).document
    return {"busiest": found["objective"], "slots": np.bincount(found["solution"]["gpu_of_slot"]).tolist()}


def counts_in_32_bits(desk: Desk, loads: Any, dtype: str, **options: Any) -> float:
    file = desk.folder / "loads.npy"
    np.save(file, np.array(loads, dtype=dtype))
    return desk.moeopt("place", file, *flags(options), "--json").document["objective"]


def not_a_number(desk: Desk, rows: str, **options: Any) -> Run:
    return desk.moeopt("place", desk.write("loads.csv", rows), *flags(options))


def documented(desk: Desk, **fields: Any) -> Run:
    return desk.moeopt("place", desk.write("instance.json", PLAN | fields))


def plain(desk: Desk, loads: Any, **options: Any) -> Run:
    """Without ``--json``: what a person reads."""
    return desk.moeopt("place", desk.write("loads.json", loads), *flags(options))


CASES = [
    Case(
        "fewer-slots-than-experts",
        "A copy of every expert has to lie somewhere, or tokens of one have nowhere to go.",
        {"loads": [[1] * 16], "gpus": 4, "slots": 12},
        Refusal(2, ("slots = 12", "16", "at least 16 slots are needed")),
        planned,
    ),
    Case(
        "slots-not-divisible-by-gpus",
        "An engine finds out while it builds the model, on all workers at once.",
        {"loads": [[1] * 256], "gpus": 3, "slots": 256},
        Refusal(2, ("slots = 256", "gpus = 3", "nearest workable redundancy is 2 (258 slots, 86 a GPU)")),
        planned,
    ),
    Case(
        "slots-not-divisible-ragged",
        "A remainder goes over the GPUs one by one, not onto the last one.",
        {"loads": [[1] * 30], "gpus": 8, "slots": 30, "uneven_slots": True, "method": "lpt"},
        [4, 4, 4, 4, 4, 4, 3, 3],
        slots_of_gpus,
    ),
    Case(
        "experts-not-divisible-by-groups",
        "Routing by groups takes groups of one size.",
        {"loads": [[1] * 10], "gpus": 4, "slots": 12, "nodes": 2, "groups": 4, "group_rule": "hierarchical"},
        Refusal(2, ("groups = 4", "10", "experts per group must be whole", "Use 5")),
        planned,
    ),
    Case(
        "nan-load",
        "One value that is none, and solvers answer as if there were no model.",
        {"rows": "a,b,c,d\n5,nan,3,1\n", "gpus": 2, "slots": 4},
        Refusal(2, ("nan", "layer 0", "expert 1", "line 2")),
        not_a_number,
    ),
    Case(
        "duplicate-expert-names",
        "Two experts of one name become one wherever names are keys.",
        {"loads": [[1, 2, 3, 4]], "slots": [2, 2], "names": ["e0", "e1", "e1", "e2"]},
        Refusal(2, ("names", "e1", "unique", "1, 2")),
        documented,
    ),
    Case(
        "layers-with-different-expert-counts",
        "Pruned models have layers of another width, and filling them up makes experts that are not there.",
        {"loads": [[1] * 8, [1] * 4], "gpus": 4, "slots": 8},
        Refusal(2, ("layer 1", "4", "8")),
        planned,
    ),
    Case(
        "one-expert-takes-all",
        "More copies than GPUs are no help; two on one GPU carry twice.",
        {"loads": [[0, 0, 0, 1000, 0, 0, 0, 0]], "gpus": 4, "slots": 12, "expert": 3},
        {"busiest": 250, "copies": 4},
        copies_of,
    ),
    Case(
        "more-gpus-than-experts",
        "With a slot a GPU the plan is a number of copies, and here they reach the mean.",
        {"loads": [[8, 4, 2, 2]], "gpus": 8, "slots": 8},
        {"busiest": 2, "replicas": [4, 2, 1, 1]},
        with_replicas,
    ),
    Case(
        "largest-first-trap",
        "Both threes on one GPU are best, and largest first parts them.",
        {"loads": [[3, 3, 2, 2, 2, 0]], "gpus": 2, "slots": 6},
        {"ours": 6, "public rule": 7},
        beside_rule,
    ),
    Case(
        "mixed-huge-and-tiny",
        "Below a tolerance the tiny ones vanish, and both huge ones may end on one GPU.",
        {"loads": [[1e12, 1e12, 1e-9, 1e-9]], "gpus": 2, "slots": 4},
        1e12,
        busiest,
    ),
    Case(
        "solver-counts-1e9",
        "Counts that are not scaled make a solver call a plan optimal that is twice as bad.",
        {"loads": [[3, 1, 10**9, 10**9, 2, 5]], "gpus": 3, "slots": 6, "method": "exact"},
        1_000_000_002,
        busiest,
    ),
    Case(
        "int32-sum-overflow",
        "Each count fits in 32 bits, the sum on a GPU does not.",
        {"loads": [[2_000_000_000] * 4], "dtype": "int32", "gpus": 2, "slots": 4},
        4_000_000_000,
        counts_in_32_bits,
    ),
    Case(
        "two-cards-different-memory",
        "Equal shares waste the larger card, or do not fit the smaller one.",
        {"loads": [[1] * 12], "expert_bytes": "1GB", "memory_bytes": "4GB,8GB", "speed": "1,1"},
        {"busiest": 8, "slots": [4, 8]},
        cards,
    ),
    Case(
        "memory-below-one-copy",
        "Otherwise the card says so, when it is out of memory.",
        {"loads": [[1] * 12], "expert_bytes": "1GB", "memory_bytes": "4GB,6GB"},
        Refusal(3, ("12 GB needed", "10 GB available", "2 experts too many")),
        plain,
    ),
    Case(
        "infeasible-is-explained",
        "A solver says infeasible and no more; which rules conflict is the answer.",
        {"loads": [[1] * 8], "slots": [2] * 4, "pin": [[0, 3]], "forbid": [[None, 3]]},
        Refusal(3, ("expert 0", "GPU 3", "pin and forbid contradict each other")),
        documented,
    ),
]
