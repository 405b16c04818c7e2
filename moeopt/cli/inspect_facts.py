"""What inspect says of loads, plans and maps: shapes, the hottest experts, and what any plan could reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap
    from moeopt.placement import PlacementInstance
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.workload import LoadTable


def map_facts(found: ExpertMap, form: str) -> dict[str, Any]:
    """What can be said of a map without loads."""
    import numpy as np

    experts = found.known_experts
    counts = np.stack([np.bincount(row[row >= 0], minlength=experts) for row in found.slot_expert])
    return {
        "engine": found.engine,
        "form": form,
        "layers": len(found.layers),
        "layer_ids": list(found.layers),
        "slots": found.slot_expert.shape[1],
        "empty_slots": int((found.slot_expert < 0).sum()),
        "gpus": None if found.slots is None else len(found.slots),
        "experts": experts,
        "experts_said": found.num_experts is not None,
        "replicas_max": int(counts.max()),
        "absent": int((counts == 0).sum()),
        "notes": list(found.notes),
    }


def load_facts(content: LoadTable | PlacementInstance, rows: list[int] | None = None) -> dict[str, Any]:
    """What can be said of loads alone, or of some rows of them."""
    from moeopt.workload import LoadTable

    rows = list(range(len(content.layers))) if rows is None else rows
    loads, ids = content.loads[rows], [content.layers[row] for row in rows]
    layers, experts = loads.shape
    totals = loads.sum(axis=1, dtype=float)
    order = (-loads).argsort(axis=1, kind="stable")[:, :3]
    mean = [total / experts for total in totals.tolist()]
    return {
        "layers": layers,
        "experts": experts,
        "layer_ids": ids,
        "steps": sum(content.steps) if isinstance(content.steps, tuple) else content.steps,
        "tokens": float(totals.sum()),
        "zero_cells": int((loads == 0).sum()),
        "hottest": [
            {
                "layer": layer,
                "experts": row.tolist() if average else [],
                "times_mean": [round(float(cells[e]) / average, 3) for e in row.tolist() if average],
            }
            for layer, row, cells, average in zip(ids, order, loads, mean, strict=True)
        ],
        "notes": list(content.notes),
        "name": content.source if isinstance(content, LoadTable) else content.name,
    }


def reach(instance: PlacementInstance) -> dict[str, Any]:
    """Imbalance of the running plan, or of experts in order, and the floor that no plan gets below."""
    from moeopt.placement import PROBLEM, bounds

    conflicts = PROBLEM.conflicts(instance)
    if conflicts:
        return {"conflicts": [dict(conflict) for conflict in conflicts]}
    judged, why = _now(instance)
    floors = [float(bound.value) for bound in bounds.cheap(instance)]
    ideal = [float(value) for value in instance.par]
    best = [floor / even if even else 1.0 for floor, even in zip(floors, ideal, strict=True)]
    now = [None] * len(best) if judged is None else list(judged.imbalance)
    return {
        "gpus": instance.num_gpus,
        "slots": instance.num_slots,
        "now_is": "with experts in order" if instance.current is None else "of the running plan",
        "per_layer": [
            {"layer": layer, "now": value, "best_possible": least}
            for layer, value, least in zip(instance.layers, now, best, strict=True)
        ],
        "best_possible_mean": sum(best) / len(best),
        "best_possible_total": sum(floors) / sum(ideal) if sum(ideal) else 1.0,
        "now_mean": None if judged is None else judged.imbalance_mean,
        "now_total": None if judged is None else judged.imbalance_total,
        "why_not_now": why,
    }


def _now(instance: PlacementInstance) -> tuple[Any, str]:
    """The referee on the running plan, or where none runs on experts in order; or why that cannot be said."""
    from moeopt.errors import NotApplicable, PlanError
    from moeopt.placement import PROBLEM
    from moeopt.placement.replanning.parts import without_budgets
    from moeopt.placement.replanning.report import running_plan

    free = without_budgets(instance)
    try:
        if instance.current is not None:
            return PROBLEM.evaluate(free, running_plan(instance)), ""
        found = PROBLEM.solve(free, method="contiguous")
    except PlanError as error:
        return None, f"it breaks today's rules: {error.faults[0]}"
    except NotApplicable as error:
        return None, str(error)
    return PROBLEM.evaluate(free, found.plan), ""


def plan_facts(path: str, content: Any) -> dict[str, Any]:
    """What can be said of a plan without loads."""
    from moeopt.placement.load_plan import document_faults, read_result
    from moeopt.placement.plan_shape import plan_shape

    document: ResultDocument = read_result(content, path)
    faults = document_faults(document)
    shape = {} if faults else plan_shape(document)
    facts: dict[str, Any] = {
        "name": document.instance.name,
        "method": document.method,
        "status": document.status,
        "stop": document.stop,
        "objective": document.objective,
        "gap": document.gap,
        "gap_worst_layer": document.gap_worst_layer,
        "notes": document.notes,
        "faults": faults,
    }
    if document.solution is not None:
        first = document.solution.layers[0]
        facts |= {
            "layers": len(document.solution.layers),
            "experts": len(first.replicas),
            "slots": len(first.slot_expert),
            "gpus": document.solution.ep_size,
            "imbalance_mean": document.solution.imbalance_mean,
            "moves": document.solution.moves,
            "imbalance_now": document.solution.imbalance_now,
            "shape": shape,
            "gpus_without_slots": sorted({*range(document.solution.ep_size)} - {*document.solution.gpu_of_slot}),
        }
    return facts
