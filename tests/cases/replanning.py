"""A plan that runs: what may move, what it costs, and what a failure takes."""

from __future__ import annotations

from typing import Any

from moeopt import placement
from tests.cases.case import Case, Desk, Refusal, Run
from tests.cases.placing import flags

SKEWED, IN_ORDER = [[10, 9, 5, 4, 2, 1]], [[0, 1, 2, 3, 4, 5]]


def replanned(desk: Desk, loads: Any, running: Any, **options: Any) -> Run:
    current = desk.write("running.json", running)
    return desk.moeopt("place", desk.write("loads.json", loads), "--current", current, *flags(options), "--json")


def moved(desk: Desk, loads: Any, running: Any, **options: Any) -> dict[str, Any]:
    found = replanned(desk, loads, running, **options).document
    return {"busiest": found["objective"], "moves": found["solution"]["moves"]}


def priced(desk: Desk, loads: Any, running: Any, costs: list[float], **options: Any) -> list[dict[str, Any]]:
    return [moved(desk, loads, running, **options, move_cost=cost) for cost in costs]


def worth_it(desk: Desk, **figures: float) -> dict[str, Any]:
    found = placement.decide(**figures)  # type: ignore[arg-type]
    return {"net": found.net_seconds, "decision": found.decision}


def checked(desk: Desk, **options: Any) -> Run:
    """What `check` says against a shape; the totals that do work are its answer on standard output."""
    run = desk.moeopt("check", *flags(options))
    return Run(run.code, "", run.err)


def survivors(desk: Desk, loads: Any, gpus: int, slots: int, lost: int) -> Run:
    file, plan = desk.write("loads.json", loads), desk.folder / "plan.json"
    assert desk.moeopt("place", file, "--gpus", gpus, "--slots", slots, "-q", "-o", plan).code == 0
    return desk.moeopt("place", file, "--current", plan, "--lost", lost)


def lost_by(desk: Desk, slots: list[list[int]], experts: int) -> dict[int, list[int]]:
    """By the library, and by the command line from a plan; both have to say the same."""
    row = [expert for gpu in slots for expert in gpu]
    instance = placement.PlacementInstance([[1] * experts], gpus=len(slots), slots=len(row))
    found = {gpu: list(gone.get(0, ())) for gpu, gone in placement.lost_if(instance, [row]).items()}
    placement.register("as_given", lambda *_: [row])
    try:
        plan = desk.write("plan.json", placement.solve(instance, method="as_given").to_json())
    finally:
        placement.METHODS.pop("as_given")
    told = desk.moeopt("verify", plan, "--failures").out
    assert all((f" GPU {gpu} " in told) == bool(gone) for gpu, gone in found.items()), told
    return found


CASES = [
    Case(
        "current-map-wrong-length",
        "A map that was cut short or edited by hand.",
        {
            "loads": [[1] * 256],
            "running": [[e % 256 for e in range(287)]],
            "gpus": 32,
            "slots": 288,
        },
        Refusal(2, ("layer 0", "287", "288")),
        replanned,
    ),
    Case(
        "equal-loads-keep-current-plan",
        "Nothing is to be won, so nothing moves.",
        {"loads": [[5] * 8], "running": [[6, 7, 4, 5, 2, 3, 0, 1]], "gpus": 4, "slots": 8},
        {"busiest": 10, "moves": 0},
        moved,
    ),
    Case(
        "relabelled-optimum-needs-no-move",
        "A plan that is the best one under other numbers of GPUs or slots is no change.",
        {"loads": [[10, 1, 9, 2]], "running": [[3, 2, 1, 0]], "gpus": 2, "slots": 4},
        {"busiest": 11, "moves": 0},
        moved,
    ),
    Case(
        "migration-budget-0",
        "No moves means the plan that runs: no error, and no free choice.",
        {"loads": SKEWED, "running": IN_ORDER, "gpus": 3, "slots": 6, "max_moves": 0},
        {"busiest": 19, "moves": 0},
        moved,
    ),
    Case(
        "migration-weight-has-effect",
        "A price on all that is placed alike changes no plan; one on what moves does.",
        {"loads": SKEWED, "running": IN_ORDER, "gpus": 3, "slots": 6, "costs": [0, 1_000_000]},
        [{"busiest": 11, "moves": 2}, {"busiest": 19, "moves": 0}],
        priced,
    ),
    Case(
        "rebalance-costs-more-than-it-saves",
        "Better balance and a third of the throughput: the stall ate the gain.",
        {"steps_until_next": 200, "step_seconds": 0.03, "stall_seconds": 16.0, "now": 1.069, "after": 1.008},
        {"net": 200 * 0.03 * (1 - 1.008 / 1.069) - 16.0, "decision": "keep"},
        worth_it,
    ),
    Case(
        "survivors-not-divisible",
        "One GPU less, and the slots that were enough cannot be dealt out any more.",
        {"experts": 64, "slots": 64, "gpus": 3},
        Refusal(2, ("slots = 64", "gpus = 3", "nearest workable redundancy is 2 (66 slots, 22 a GPU)")),
        checked,
    ),
    Case(
        "survivors-too-small",
        "Too few slots are left for every expert, and none may be dropped in silence.",
        {"loads": [[1] * 10], "gpus": 4, "slots": 12, "lost": 3},
        Refusal(3, ("9 slots", "10 experts", "1 expert too many")),
        survivors,
    ),
    Case(
        "which-failures-lose-experts",
        "What an orchestrator has to know before it lets a GPU go.",
        {"slots": [[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 6]], "experts": 7},
        {0: [], 1: [], 2: [5], 3: [6]},
        lost_by,
    ),
]
