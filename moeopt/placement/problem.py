"""The placement room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from moeopt.placement import bounds, conflicts, engine_rule, verify
from moeopt.placement.bounds import LayerBound
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement, as_placement
from moeopt.registry import Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, BoundKind, Result, Status, Stop
from moeopt.versions import versions

UNIT = "tokens"


class PlacementProblem(Problem[PlacementInstance, Placement]):
    """Replicas per expert and the GPU of each, for the least ``sum_l max_g C_lg``."""

    name = "placement"

    def conflicts(self, instance: PlacementInstance) -> list[dict[str, Any]]:
        """Rules that cannot hold together."""
        return conflicts.conflicts(instance)

    def as_plan(self, instance: PlacementInstance, raw: Any) -> Placement:
        """Take a `Placement`, an (L, S) array or nested lists."""
        return as_placement(instance, raw)

    def evaluate(self, instance: PlacementInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault."""
        return verify.evaluate(instance, as_placement(instance, plan), split)

    def relaxed(self, instance: PlacementInstance, method: str) -> tuple[PlacementInstance, str] | None:
        """The published rule knows no `distinct`: compare it without, and say so."""
        if method != "eplb_raw" or not instance.distinct:
            return None
        easier = copy.copy(instance)
        object.__setattr__(easier, "distinct", False)
        easier.__dict__.pop("sha256", None)
        return easier, "distinct"

    def impossible(
        self, instance: PlacementInstance, method: str, conflicts: list[dict[str, Any]], context: Context
    ) -> Result:
        """The INFEASIBLE result."""
        return Result(
            problem=self.name,
            instance=reference(instance),
            method=method,
            status=Status.INFEASIBLE,
            stop=Stop.FINISHED,
            unit=UNIT,
            runtime_s=context.deadline.elapsed_s(),
            seed=context.seed,
            conflicts=tuple(conflicts),
            notes=instance.notes,
            versions=versions("numpy"),
        )

    def result(self, instance: PlacementInstance, method: str, outcome: Outcome[Placement], context: Context) -> Result:
        """Judge the plan, take the better of it and a warm start on each layer, and bound every layer."""
        plan, notes = outcome.plan, list(outcome.notes)
        assert plan is not None  # every placement method has a plan once the rules do not conflict
        if instance.split == "free" and plan.shares is None:
            from moeopt.placement.shares import with_best_shares

            plan = with_best_shares(instance, plan, context.deadline)
            if context.deadline.passed():
                notes.append("the time was up before every layer had its best shares: the others have even parts")
        judged = verify.evaluate(instance, plan)
        if context.warm_start is not None:
            warm = context.warm_start
            if instance.split == "free" and warm.shares is None:
                from moeopt.placement.shares import with_best_shares

                warm = with_best_shares(instance, warm)
            plan, judged = _better_layers(instance, plan, judged, warm)
        floors = _bounds(instance, judged, outcome, context)
        layers = [
            {
                "layer": layer,
                "slot_expert": row,
                "replicas": counts,
                "max_load": float(top),
                "ideal": float(ideal),
                "imbalance": ratio,
                "lower_bound": float(floor.value),
                "gap": float((top - floor.value) / top) if top else 0.0,  # exact: tiny loads round to equal doubles
            }
            for layer, row, counts, top, ideal, ratio, floor in zip(
                instance.layers,
                plan.slot_expert.tolist(),
                plan.replicas(instance.num_experts).tolist(),
                judged.max_load,
                judged.ideal,
                judged.imbalance,
                floors,
                strict=True,
            )
        ]
        beside = _beside_even(instance, plan, judged, layers)
        worst = max(layer["gap"] for layer in layers)
        kind: BoundKind = "solver" if any(floor.kind == "solver" for floor in floors) else "certified"
        optimal = worst <= (CERTIFIED_TOLERANCE if kind == "certified" else SOLVER_TOLERANCE)
        stop = outcome.stop
        if optimal and stop in (Stop.ITERATIONS, Stop.NODES, Stop.TIME):
            stop = Stop.GAP
        solution: dict[str, Any] = {
            "layers": layers,
            "imbalance_mean": judged.imbalance_mean,
            "imbalance_total": judged.imbalance_total,
            "mean_over_max": judged.mean_over_max,
            "excess": judged.excess,
            **beside,
            "gpu_of_slot": instance.gpu_of_slot.tolist(),
            "ep_size": instance.num_gpus,
            "split": instance.split,
            "llm": instance.llm,
            "phase": instance.phase,
            "engine": instance.engine,
        }
        if plan.shares is not None:
            solution["shares"] = [[list(share) for share in row] for row in plan.shares]
        certificates = [
            {"layer": layer, **floor.certificate} for layer, floor in zip(instance.layers, floors, strict=True)
        ]
        return Result(
            problem=self.name,
            instance=reference(instance),
            method=method,
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            stop=stop,
            objective=float(judged.objective),
            lower_bound=float(sum((floor.value for floor in floors), Fraction(0))),
            bound_kind=kind,
            certificate={"layers": certificates},
            solution=solution,
            gap_worst_layer=worst,
            unit=UNIT,
            runtime_s=context.deadline.elapsed_s(),
            seed=context.seed,
            iterations=outcome.iterations,
            incumbents=tuple(outcome.incumbents),
            notes=tuple(dict.fromkeys(notes)),
            versions={**versions("numpy"), **outcome.versions},
            plan=plan,
        )


def _beside_even(
    instance: PlacementInstance, plan: Placement, judged: verify.Evaluation, layers: list[dict[str, Any]]
) -> dict[str, float]:
    """Under an engine's rule: what even parts would give, in every layer and over all, and the deviation of a draw."""
    if not instance.engine_split:
        return {}
    even = verify.evaluate(instance, plan, "even")
    for layer, top in zip(layers, even.max_load, strict=True):
        layer["max_load_even"] = float(top)
    if instance.split == "random":
        for layer, sigma in zip(layers, engine_rule.draw_deviation(instance, plan, judged.gpu_cost), strict=True):
            layer["draw_deviation"] = sigma
    return {"imbalance_even_mean": even.imbalance_mean}


def reference(instance: PlacementInstance) -> Mapping[str, Any]:
    """What a result says of its instance: name, digest, and the rules without the loads."""
    return {
        "name": instance.name,
        "sha256": instance.sha256,
        "document": instance.to_dict(with_loads=False),
    }


def _bounds(
    instance: PlacementInstance, judged: verify.Evaluation, outcome: Outcome[Placement], context: Context
) -> list[LayerBound]:
    """The method's own bounds or the cheap ones, tightened where a gap is left that matters and time allows."""
    floors = list(outcome.bounds) if outcome.bounds is not None else bounds.cheap(instance)
    gap = context.limits.gap if context.limits.gap is not None else 0.001
    for row, top in enumerate(judged.max_load):
        if context.deadline.passed():
            break
        floors[row] = bounds.tighten(instance, floors[row], row, float(top), gap)
    return floors


def _better_layers(
    instance: PlacementInstance, plan: Placement, judged: verify.Evaluation, warm: Placement
) -> tuple[Placement, verify.Evaluation]:
    """Layer by layer the better of plan and warm start; a tie keeps the warm start, which moves nothing."""
    warm_judged = verify.evaluate(instance, warm)
    keep = [old <= new for old, new in zip(warm_judged.max_load, judged.max_load, strict=True)]
    if not any(keep):
        return plan, judged
    slots = plan.slot_expert.copy()
    slots[keep] = warm.slot_expert[keep]
    shares = plan.shares
    if shares is not None:
        assert warm.shares is not None  # both have shares with a free split, neither with an even one
        shares = tuple(old if kept else new for kept, old, new in zip(keep, warm.shares, shares, strict=True))
    merged = Placement.of(slots, shares)
    return merged, verify.evaluate(instance, merged)


PROBLEM = PlacementProblem()


def house(method: Method[PlacementInstance, Placement]) -> None:
    """Add a method of the house."""
    PROBLEM.methods[method.name] = method
