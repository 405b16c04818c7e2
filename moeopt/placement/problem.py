"""The placement room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from moeopt.kernels.fractions import shortfall, total
from moeopt.placement import bounds, conflicts, damage, engine_rule, per_step, seconds, verify
from moeopt.placement.bounds import LayerBound
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import count_moves
from moeopt.placement.plan import Placement, as_placement
from moeopt.placement.reference import Reference
from moeopt.placement.replanning.report import described
from moeopt.registry import Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, BoundKind, Result, Status

UNIT = "tokens"
RATIO = "imbalance"
"""Unit with windows, whose tokens cannot be added: the combined ratio of the busiest GPU to the ideal."""


class PlacementProblem(Problem[PlacementInstance, Placement]):
    """Replicas per expert and the GPU of each, for the least ``sum_l max_g C_lg``."""

    name = "placement"

    def conflicts(self, instance: PlacementInstance) -> list[dict[str, Any]]:
        """Rules that cannot hold together."""
        return conflicts.conflicts(instance)

    def as_plan(self, instance: PlacementInstance, raw: Any) -> Placement:
        """Take a `Placement`, an (L, S) array or nested lists."""
        return as_placement(instance, raw)

    def from_policy(self, instance: PlacementInstance, raw: Any) -> Placement:
        """A copy."""
        plan = as_placement(instance, raw)
        return Placement(plan.slot_expert, plan.shares)

    def evaluate(self, instance: PlacementInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault.

        `split` judges under another rule than the instance's.

        >>> from moeopt import placement
        >>> placement.evaluate(placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), [[0, 1, 2, 3]]).imbalance
        (1.5,)
        """
        self.own(instance)
        return verify.evaluate(instance, as_placement(instance, plan), split)

    def relaxed(self, instance: PlacementInstance, method: str) -> tuple[PlacementInstance, str] | None:
        """The published rule knows no `distinct`: compare it without, and say so."""
        if method != "eplb_raw" or not instance.distinct:
            return None
        return instance.changed(distinct=False), "distinct"

    def reference(self, instance: PlacementInstance) -> Reference:
        """Name, digest and document, made when they are read."""
        return Reference(instance)

    def unit(self, instance: PlacementInstance) -> str:
        """What the objective is counted in."""
        return RATIO if instance.windows else UNIT

    def finished(
        self, instance: PlacementInstance, outcome: Outcome[Placement], context: Context
    ) -> Outcome[Placement]:
        """An outcome with what costs time in its result done: the best parts of a free split, and the bounds."""
        outcome = _with_shares(instance, outcome, context)
        if outcome.plan is None:
            return outcome
        return replace(outcome, bounds=_bounds(instance, verify.evaluate(instance, outcome.plan), outcome, context))

    def result(self, instance: PlacementInstance, method: str, outcome: Outcome[Placement], context: Context) -> Result:
        """Judge the plan, take the better of it and a warm start on each layer, and bound every layer."""
        outcome = _with_shares(instance, outcome, context)
        plan, notes = outcome.plan, list(outcome.notes)
        if plan is None:
            return Result(status=Status.UNKNOWN, **self.frame(instance, method, outcome, context))
        judged = verify.evaluate(instance, plan)
        advice = seconds.advice(instance, plan)
        if advice is not None:
            notes.append(f"{advice['reason']}: {'keep' if advice['action'] == 'keep' else 'any plan does'}")
            plan = seconds.kept(instance) or plan
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
                "gap": shortfall(floor.value, top),  # exact: tiny loads round to equal doubles
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
        for layer, ratios in zip(layers, judged.windows, strict=False):  # none with one window
            layer["windows"] = [float(ratio) for ratio in ratios]
        _add_noise(instance, layers)
        prices = seconds.price(instance, plan) if seconds.priced(instance) else None
        if prices is not None:
            for row, layer in enumerate(layers):
                layer["seconds"] = float(prices.after[row])
                layer["seconds_now"] = None if prices.now is None else float(prices.now[row])
        beside = _beside_even(instance, plan, judged, layers)
        worst = max(layer["gap"] for layer in layers)
        kind: BoundKind = "solver" if any(floor.kind == "solver" for floor in floors) else "certified"
        optimal = worst <= (CERTIFIED_TOLERANCE if kind == "certified" else SOLVER_TOLERANCE)
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
        if prices is not None:
            solution["seconds"] = prices.to_dict()
        if advice is not None:
            solution["advice"] = advice
        if instance.current is not None:
            described(instance, plan, solution)
        if plan.shares is not None:
            solution["shares"] = [[list(share) for share in row] for row in plan.shares]
        solution |= outcome.details
        if advice is not None:
            solution.pop("frontier", None)  # no move is proposed
        if "lost" in instance.extras and "repair" not in solution:
            solution["repair"] = damage.describe(instance, plan.slot_expert)
        certificates = [
            {"layer": layer, **floor.certificate} for layer, floor in zip(instance.layers, floors, strict=True)
        ]
        return Result(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            objective=float(judged.objective),
            lower_bound=float(total(floor.value for floor in floors)),
            bound_kind=kind,
            certificate={"layers": certificates},
            solution=solution,
            gap_worst_layer=worst,
            incumbents=tuple(outcome.incumbents),
            plan=plan,
            **self.frame(instance, method, replace(outcome, notes=notes), context, proved=optimal),
        )


def _with_shares(instance: PlacementInstance, outcome: Outcome[Placement], context: Context) -> Outcome[Placement]:
    if outcome.plan is None or instance.split != "free" or outcome.plan.shares is not None:
        return outcome
    from moeopt.placement.shares import with_best_shares

    plan, notes = with_best_shares(instance, outcome.plan, context.deadline), list(outcome.notes)
    if context.deadline.passed():
        notes.append("the time was up before every layer had its best shares: the others have even parts")
    return replace(outcome, plan=plan, notes=notes)


def _add_noise(instance: PlacementInstance, layers: list[dict[str, Any]]) -> None:
    """The imbalance that single passes have in any plan, where the batch is known."""
    if instance.top_k is None or instance.batch_tokens is None:
        return
    gpus = sum(count > 0 for count in instance.slots)
    floor = per_step.noise_floor(gpus, instance.top_k, instance.batch_tokens)
    for layer in layers:
        layer["per_step_imbalance"] = floor


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


def _bounds(
    instance: PlacementInstance, judged: verify.Evaluation, outcome: Outcome[Placement], context: Context
) -> list[LayerBound]:
    """The method's own bounds or the cheap ones, tightened where a gap matters to method or caller and time allows."""
    floors = list(outcome.bounds) if outcome.bounds is not None else bounds.cheap(instance)
    if outcome.bounds is None and context.limits.gap is None:
        return floors  # a baseline that asked for no gap is not made to wait for one
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
    if "moves" in instance.extras:  # budgets hold for the whole plan: no layer can be changed alone
        price = Fraction(instance.move_cost)
        ours, theirs = (sum(count_moves(instance, one.slot_expert)) for one in (plan, warm))
        better = warm_judged.objective + price * theirs < judged.objective + price * ours
        return (warm, warm_judged) if better else (plan, judged)
    keep = [old <= new for old, new in zip(warm_judged.max_load, judged.max_load, strict=True)]
    if not any(keep):
        return plan, judged
    slots = plan.slot_expert.copy()
    slots[keep] = warm.slot_expert[keep]
    shares = plan.shares
    if shares is not None or warm.shares is not None:  # with a free split only
        from moeopt.placement.shares import with_even_shares

        shares, warm_shares = with_even_shares(instance, plan).shares, with_even_shares(instance, warm).shares
        assert shares is not None and warm_shares is not None
        shares = tuple(old if kept else new for kept, old, new in zip(keep, warm_shares, shares, strict=True))
    merged = Placement.of(slots, shares)
    return merged, verify.evaluate(instance, merged)


PROBLEM = PlacementProblem()


def house(method: Method[PlacementInstance, Placement]) -> None:
    """Add a method of the house."""
    PROBLEM.methods[method.name] = method
