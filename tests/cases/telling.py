"""What a plan says of itself: the figure by its name, the rule that was followed, and where it came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt import placement
from tests.cases.case import Case, Desk
from tests.cases.placing import flags, planned


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


PRINTED = [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1], [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]]
FLAT = [[10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1], [1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7]]
TWO_LAYERS = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]

CASES = [
    Case(
        "groups-not-divisible-by-nodes",
        "A rule that cannot hold is dropped aloud, or refused where it was asked for.",
        {"loads": [[1] * 24], "gpus": 24, "slots": 24, "nodes": 3, "groups": 8},
        {"busiest": 1, "said": True, "hierarchical": (2, True)},
        nodes_that_do_not_divide,
    ),
    Case(
        "loads-all-zero",
        "A layer without traffic is in balance; nothing divides by its mean.",
        {"loads": [[0] * 8], "gpus": 4, "slots": 8},
        {"busiest": 0, "imbalance": [1.0] * 3, "copies": [1] * 8, "slots": [2] * 4, "warned": False},
        idle,
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
