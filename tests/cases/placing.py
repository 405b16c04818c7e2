"""Where experts go: shapes that do not work, loads that are none, values that greedy rules and solvers miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt import placement
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


def idle(desk: Desk, loads: Any, **options: Any) -> dict[str, Any]:
    run = planned(desk, loads, **options)
    solution = run.document["solution"]
    (layer,) = solution["layers"]
    return {
        "busiest": layer["max_load"],
        "imbalance": [layer["imbalance"], solution["imbalance_mean"], solution["imbalance_total"]],
        "copies": layer["replicas"],
        "slots": np.bincount(solution["gpu_of_slot"]).tolist(),
        "warned": "warn" in run.err.lower() or "nan" in run.err.lower(),
    }


def not_a_number(desk: Desk, rows: str, **options: Any) -> Run:
    return desk.moeopt("place", desk.write("loads.csv", rows), *flags(options))


def documented(desk: Desk, **fields: Any) -> Run:
    return desk.moeopt("place", desk.write("instance.json", PLAN | fields))


def nodes_that_do_not_divide(desk: Desk, loads: Any, **options: Any) -> dict[str, Any]:
    run, strict = planned(desk, loads, **options), planned(desk, loads, **options, group_rule="hierarchical")
    notes = " ".join(run.document["notes"])
    words = (f"{options['groups']} groups", f"{options['nodes']} nodes")
    return {
        "busiest": run.document["objective"],
        "said": "global placement" in notes and all(word in notes for word in words),
        "hierarchical": (strict.code, all(str(options[name]) in strict.err for name in ("groups", "nodes"))),
    }


def published_example(desk: Desk, loads: Any, printed: Any, **options: Any) -> dict[str, Any]:
    flat = {name: value for name, value in options.items() if name not in ("groups", "nodes")}
    rule = {"method": "eplb_raw", "allow_doubles": True}

    def tops(found: Any) -> list[float]:
        return [layer["max_load"] for layer in found["solution"]["layers"]]

    def slots(found: Any) -> list[list[int]]:
        return [layer["slot_expert"] for layer in found["solution"]["layers"]]

    ours, raw, flat_raw = (planned(desk, loads, **more).document for more in (options, options | rule, flat | rule))
    instance = placement.PlacementInstance(loads, gpus=options["gpus"], slots=options["slots"], distinct=False)
    judged = placement.evaluate(instance, printed)
    return {
        "ours": tops(ours),
        "printed": [float(top) for top in judged.max_load],
        "rule gives it": slots(raw) == printed,
        "flat": tops(flat_raw),
        "flat map": slots(flat_raw),
    }


def no_time(desk: Desk, experts: int, **options: Any) -> dict[str, Any]:
    loads = [[1 + e * e * 31 % 97 for e in range(experts)]]
    file, plan = desk.write("loads.json", loads), desk.folder / "plan.json"
    found = desk.moeopt("place", file, *flags(options), "--json", "-o", plan).document
    return {
        "whole": desk.moeopt("verify", plan, file).code == 0,
        "optimal": found["status"] == "OPTIMAL",
        "source named": "heuristic" in " ".join(found["notes"]),
    }


def definitions(desk: Desk, loads: Any, **options: Any) -> dict[str, float]:
    solution = planned(desk, loads, **options, method="contiguous").document["solution"]
    return {
        "max over mean": solution["imbalance_mean"],
        "mean over max": solution["mean_over_max"],
        "excess": solution["excess"],
    }


def over_layers(desk: Desk, loads: Any, **options: Any) -> float:
    return planned(desk, loads, **options, method="contiguous").document["solution"]["imbalance_total"]


PRINTED = [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1], [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]]
FLAT = [[10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1], [1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7]]
TWO_LAYERS = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]

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
        "groups-not-divisible-by-nodes",
        "A rule that cannot hold is dropped aloud, or refused where it was asked for.",
        {"loads": [[1] * 24], "gpus": 24, "slots": 24, "nodes": 3, "groups": 8},
        {"busiest": 1, "said": True, "hierarchical": (2, True)},
        nodes_that_do_not_divide,
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
        "loads-all-zero",
        "A layer without traffic is in balance; nothing divides by its mean.",
        {"loads": [[0] * 8], "gpus": 4, "slots": 8},
        {"busiest": 0, "imbalance": [1.0] * 3, "copies": [1] * 8, "slots": [2] * 4, "warned": False},
        idle,
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
        "readme-example-hierarchical",
        "The printed example of the public rule, bit by bit, and the plan it leaves 3.3 % above the best.",
        {"loads": TWO_LAYERS, "printed": PRINTED, "gpus": 8, "slots": 16, "nodes": 2, "groups": 4},
        {
            "ours": [151, 179.5],
            "printed": [156, 179.5],
            "rule gives it": True,
            "flat": [138.5, 172.0],
            "flat map": FLAT,
        },
        published_example,
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
        lambda desk, **given: plain(desk, **given),
    ),
    Case(
        "infeasible-is-explained",
        "A solver says infeasible and no more; which rules conflict is the answer.",
        {"loads": [[1] * 8], "slots": [2] * 4, "pin": [[0, 3]], "forbid": [[None, 3]]},
        Refusal(3, ("expert 0", "GPU 3", "pin and forbid contradict each other")),
        documented,
    ),
    Case(
        "time-limit-no-incumbent",
        "Stopped before it found anything, a wrapper called the values it read optimal.",
        {"experts": 64, "gpus": 16, "slots": 80, "method": "exact", "time_limit": "1ms"},
        {"whole": True, "optimal": False, "source named": True},
        no_time,
    ),
    Case(
        "imbalance-definitions",
        "Three figures go by one name; each has its own here.",
        {"loads": [[30, 10, 20, 20]], "gpus": 4, "slots": 4},
        {"max over mean": 1.5, "mean over max": 2 / 3, "excess": 0.5},
        definitions,
    ),
    Case(
        "imbalance-over-layers",
        "Layers run one after another: what leans left and then right does not cancel.",
        {"loads": [[10, 0], [0, 10]], "gpus": 2, "slots": 2},
        2.0,
        over_layers,
    ),
]


def plain(desk: Desk, loads: Any, **options: Any) -> Run:
    """Without ``--json``: what a person reads."""
    return desk.moeopt("place", desk.write("loads.json", loads), *flags(options))
