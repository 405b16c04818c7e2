"""What a plan states beside its value: seconds, noise, even parts, bytes, the frontier; all that can be computed again.

`unchecked` names the rest, so that nobody takes a number for checked that is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from moeopt.errors import PlanError
from moeopt.placement import engine_rule, seconds, verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.per_step import noise_floor
from moeopt.placement.plan import Placement
from moeopt.placement.plan_document import ResultDocument, Solution, as_plan

TOLERANCE = 1e-9

Number = float | int | None


def unchecked(document: ResultDocument) -> list[str]:
    """Numbers in a plan that nothing here can compute again."""
    solution = document.solution
    if solution is None:
        return []
    found = []
    if solution.frontier is not None:
        found.append("solution.frontier: other points than the plan's own")
    if solution.decision is not None:
        found.append("solution.decision: the stall and the steps it weighs")
    if solution.per_step is not None:
        found.append("per_step_imbalance: it was measured on passes that are not here")
    if solution.equal_split is not None:
        found.append("solution.equal_split.extra_copies_fewest: a proof by search")
    return found


def stated_faults(document: ResultDocument, shape: PlacementInstance) -> Iterator[str]:
    """What the plan's structure alone can refute."""
    solution = document.solution
    assert solution is not None
    said = [document.instance.name, document.instance.document.model_dump().get("name", "")]
    if said[0] != said[1]:
        yield f"instance.name says {said[0]!r}, instance.document.name {said[1]!r}"
    unit = "imbalance" if shape.windows else "tokens"
    if document.unit != unit:
        yield f"unit says {document.unit!r}, these loads are counted in {unit!r}"
    yield from _missing(solution, shape)
    moved = None
    if shape.current is not None and shape.expert_bytes is not None:
        moved = (solution.moves or 0) * shape.expert_bytes
    yield from _differs("solution.moved_bytes", solution.moved_bytes, moved)
    if solution.frontier is not None:
        yield from _frontier_faults(document, solution, shape)
    if solution.repair is not None and [layer.layer for layer in solution.repair.layers] != list(shape.layers):
        yield f"solution.repair: covers layers {[layer.layer for layer in solution.repair.layers]}"
    if solution.equal_split is not None:
        least, extra = solution.equal_split.extra_copies_fewest, solution.equal_split.extra_copies
        if len(least) != len(extra) or any(not 0 <= low <= high for low, high in zip(least, extra, strict=True)):
            yield f"solution.equal_split.extra_copies_fewest says {least}, the plan has {extra}"
    yield from _noise_faults(solution, shape)


def _missing(solution: Solution, shape: PlacementInstance) -> Iterator[str]:
    """Fields that the instance asks for and the plan has not, or the other way round."""
    engine, random = shape.engine_split, shape.split == "random"
    gone, priced = "lost" in shape.extras, seconds.priced(shape)
    repaired = solution.repair is not None and shape.current is not None  # the method can be asked for by name
    for field, there, due in (
        ("solution.imbalance_even_mean", solution.imbalance_even_mean is not None, engine),
        ("solution.seconds", solution.seconds is not None, priced),
        ("solution.repair", solution.repair is not None, gone or repaired),
    ):
        if there != due:
            yield f"{field} is {'not asked for by the instance' if there else 'missing'}"
    for layer in solution.layers:
        for field, there, due in (
            ("max_load_even", layer.max_load_even is not None, engine),
            ("draw_deviation", layer.draw_deviation is not None, random),
            ("seconds", layer.seconds is not None, priced),
            ("moved", layer.moved is not None, shape.current is not None),
        ):
            if there != due:
                yield f"layer {layer.layer}: {field} is {'not asked for by the instance' if there else 'missing'}"


def _frontier_faults(document: ResultDocument, solution: Solution, shape: PlacementInstance) -> Iterator[str]:
    """A frontier rises in moves, goes through the plan, and lies nowhere below the bound."""
    points = solution.frontier or []
    if any(len(point) != 2 or not all(map(math.isfinite, point)) for point in points):
        yield "solution.frontier: every point must be [moves, imbalance_total], finite"
        return
    moves = [point[0] for point in points]
    if any(count < 0 or count != int(count) for count in moves) or moves != sorted(set(moves)):
        yield f"solution.frontier: moves must be whole and rise, they are {moves}"
    if shape.current is None:
        yield "solution.frontier: the instance has no running plan"
    mine = [value for count, value in points if count == solution.moves]
    if len(mine) != 1 or not close(mine[0], solution.imbalance_total):
        yield (
            f"solution.frontier: the plan has {solution.moves} moves and imbalance_total {solution.imbalance_total}, "
            f"the point there says {mine}"
        )
    worths = [value for _, value in points]
    if any(worth > last * (1 + TOLERANCE) for last, worth in pairwise(worths)):
        yield f"solution.frontier: more moves cannot be worse, the values are {worths}"
    stays = [value for count, value in points if count == 0]
    now = solution.imbalance_now
    if stays and not (close(stays[0], now) if now is not None and _one_stays(shape) else _no_worse(stays[0], now)):
        yield f"solution.frontier says {stays[0]} with no move, imbalance_now {solution.imbalance_now}"
    ideal = sum(layer.ideal for layer in solution.layers)
    if document.lower_bound is not None and ideal:
        floor = document.lower_bound / ideal
        for count, value in points:
            if value < floor * (1 - TOLERANCE):
                yield f"solution.frontier: {value} at {count:g} moves lies below the bound, {floor}"


def _one_stays(shape: PlacementInstance) -> bool:
    """Whether no other plan than the running one has no moves, and its value is one number.

    Else replicas are dropped or doubled on their GPU without a move, a GPU has fewer slots now, or shares are free.
    """
    as_before = shape.current_gpu is not None and list(shape.current_gpu) == shape.gpu_of_slot.tolist()
    return shape.distinct and shape.fill == "all" and shape.split != "free" and as_before


def _no_worse(value: float, now: float | None) -> bool:
    """Whether a plan without moves is worth what the running one is, or more; any may be where that breaks a rule."""
    return now is None or value <= now * (1 + TOLERANCE)


def _noise_faults(solution: Solution, shape: PlacementInstance) -> Iterator[str]:
    """The noise of counting follows from the shape; what was measured on passes cannot be measured again."""
    if solution.per_step is not None:
        for layer in solution.layers:
            value = layer.per_step_imbalance
            if value is None or not (math.isfinite(value) and value >= 1 - TOLERANCE):
                yield f"layer {layer.layer}: per_step_imbalance is {value}, must be a finite number >= 1"
        return
    floor = None
    if shape.top_k is not None and shape.batch_tokens is not None:
        floor = noise_floor(sum(count > 0 for count in shape.slots), shape.top_k, shape.batch_tokens)
    for layer in solution.layers:
        yield from _differs(f"layer {layer.layer}: per_step_imbalance", layer.per_step_imbalance, floor)


def recomputed_faults(document: ResultDocument, instance: PlacementInstance) -> Iterator[str]:
    """What follows from the loads and a plan that keeps every rule."""
    solution = document.solution
    assert solution is not None
    try:
        plan = as_plan(document, instance.layers)
    except PlanError:
        return  # said already
    if verify.faults(instance, plan):
        return  # said already, as a budget over all layers
    if instance.engine_split:
        even = verify.evaluate(instance, plan, "even")
        yield from _differs("solution.imbalance_even_mean", solution.imbalance_even_mean, even.imbalance_mean)
    if instance.split == "random":
        deviations = engine_rule.draw_deviation(instance, plan, verify.evaluate(instance, plan).gpu_cost)
        for layer, sigma in zip(solution.layers, deviations, strict=True):
            yield from _differs(f"layer {layer.layer}: draw_deviation", layer.draw_deviation, sigma)
    if seconds.priced(instance):
        yield from _price_faults(solution, instance, plan)
    if solution.advice is not None:
        own = seconds.advice(instance, plan)
        if own is None:
            yield f"solution.advice says {solution.advice.action}, these loads give none"
        elif (own["action"], own["reason"]) != (solution.advice.action, solution.advice.reason):
            yield f"solution.advice says {solution.advice.action}: {solution.advice.reason}; it should be {own}"


def _price_faults(solution: Solution, instance: PlacementInstance, plan: Placement) -> Iterator[str]:
    prices = seconds.price(instance, plan)
    now = [None] * len(solution.layers) if prices.now is None else prices.now.tolist()
    for layer, after, before in zip(solution.layers, prices.after.tolist(), now, strict=True):
        yield from _differs(f"layer {layer.layer}: seconds", layer.seconds, after)
        yield from _differs(f"layer {layer.layer}: seconds_now", layer.seconds_now, before)
    if solution.seconds is not None:
        for key, value in prices.to_dict().items():
            yield from _differs(f"solution.seconds.{key}", getattr(solution.seconds, key), value)


def _differs(what: str, said: Number, value: Number) -> Iterator[str]:
    if (said is None) != (value is None) or (said is not None and value is not None and not close(said, value)):
        yield f"{what} says {said}, recomputed {value}"


def close(said: float, value: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    return abs(said - value) <= TOLERANCE * max(abs(said), abs(value))
