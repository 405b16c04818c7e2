"""What a collocation result says: layers, links, seconds, and whether the plan is worth a move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moeopt.collocation import reasons, seconds, verify
from moeopt.collocation.bounds import LayerBound
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.rows import loads_of
from moeopt.percent import percent

WORTH = 0.01
"""What is below this share of a step is not worth a move."""


def unit(instance: CollocationInstance) -> str:
    """Of the objective."""
    if instance.pairs is not None:
        return "pairs apart"
    return {"time": "s", "copies": "copies", "tokens": "tokens"}[instance.objective]


def cap_conflicts(instance: CollocationInstance) -> list[dict[str, Any]]:
    """Layers whose most selected expert is above the cap wherever its replicas are."""
    if instance.max_imbalance is None:
        return []
    found = []
    most = min(instance.num_slots - instance.num_experts + 1, instance.num_gpus)
    for row, layer in enumerate(instance.layers):
        loads = loads_of(instance, row)
        cap = instance.max_imbalance * float(loads.sum()) / instance.num_gpus
        least = float(loads.max()) / most
        if least > cap * (1 + 1e-9):
            need = least * instance.num_gpus / float(loads.sum())
            text = (
                f"layer {layer}: expert {int(loads.argmax())} alone makes an imbalance of {need:.4f} on a GPU, above "
                f"max_imbalance = {instance.max_imbalance:g}"
            )
            found.append({"rule": "max_imbalance", "layer": layer, "least": need, "message": text})
    return found


def solution(
    instance: CollocationInstance,
    plan: Collocation,
    judged: verify.Evaluation,
    floors: Sequence[LayerBound],
    gaps: Sequence[float],
) -> dict[str, Any]:
    """The plan and its figures, JSON-ready."""
    rows = []
    scored = _scored(instance, plan)
    for row, (layer, held) in enumerate(zip(judged.layers, plan.slot_expert, strict=True)):
        floor = floors[row]
        entry: dict[str, Any] = {
            "layer": instance.layers[row],
            "slot_expert": held.tolist(),
            "replicas": np.bincount(held[held >= 0], minlength=instance.num_experts).tolist(),
            "objective": float(judged.values[row]),
            "lower_bound": float(min(floor.value, judged.values[row])),
            "gap": gaps[row],
            "lambda": layer.mean_lambda,
            "lambda_lower_bound": None if floor.touched is None else float(floor.touched / layer.counts.tokens),
            "copies_per_token": float(layer.copies / layer.counts.tokens),
            "imbalance": layer.imbalance,
        }
        if scored is not None:
            entry |= {"lambda_held_out": scored[row].mean_lambda, "imbalance_held_out": scored[row].imbalance}
        if layer.seconds is not None:
            entry["seconds"] = layer.seconds
        rows.append(entry)
    found: dict[str, Any] = {
        "layers": rows,
        "lambda": _mean(rows, "lambda"),
        "lambda_held_out": _mean(rows, "lambda_held_out") if scored is not None else None,
        "lambda_lower_bound": _mean(rows, "lambda_lower_bound") if rows[0]["lambda_lower_bound"] is not None else None,
        "copies_per_token": _mean(rows, "copies_per_token"),
        "imbalance": max(row["imbalance"] for row in rows),
        "gpu_of_slot": instance.gpu_of_slot.tolist(),
        "ep_size": instance.num_gpus,
        "objective": instance.objective,
        "transport": instance.transport.name,
        "replica_rule": instance.replica_rule,
    }
    if instance.cluster is not None and instance.pairs is None:
        found |= _seconds(instance, judged)
    found["advice"] = advice(instance, judged, found)
    return found


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float:
    return float(sum(row[key] for row in rows) / len(rows))


def _scored(instance: CollocationInstance, plan: Collocation) -> list[verify.LayerValue] | None:
    if not instance.held_out:
        return None
    return [
        verify.value(instance, verify.count(instance, row, held, scored=True))
        for row, held in enumerate(plan.slot_expert)
    ]


def _seconds(instance: CollocationInstance, judged: verify.Evaluation) -> dict[str, Any]:
    """Sums over layers, and the links of the layer that takes longest."""
    parts = [seconds.stages(instance, layer.counts) for layer in judged.layers]
    worst = reasons.worst_layer(judged.layers)
    counts = judged.layers[worst].counts
    found: dict[str, Any] = {
        "busiest_link_s": sum(layer.seconds or 0.0 for layer in judged.layers),
        "critical_path": {key: sum(part[key] for part in parts) for key in parts[0]},
        "links": {
            "layer": instance.layers[worst],
            "rows": seconds.link_table(instance, counts),
        },
        "weakest_cut": reasons.cuts_of(instance, counts)[0],
        "rank_cost": _rank_cost(instance),
    }
    if reasons.damage(instance):
        found["free_routes"] = {"layer": instance.layers[worst], **reasons.routes_of(instance, counts)}
    return found


def _rank_cost(instance: CollocationInstance) -> list[list[float]] | None:
    """The rank-cost matrix of the cluster, worked out once for all methods that are compared."""
    if instance.cluster is None:
        return None
    known = instance.__dict__.setdefault("_rank_cost", [])
    if not known:
        known.append(instance.cluster.rank_cost())
    found: list[list[float]] = known[0].tolist()
    return found


def advice(instance: CollocationInstance, judged: verify.Evaluation, found: dict[str, Any]) -> dict[str, Any]:
    """Keep or move, against the running plan, or without one against experts in order."""
    from moeopt.collocation.heuristics.simple import id_order
    from moeopt.limits import Deadline, Limits
    from moeopt.registry import Context

    if instance.current is not None:
        before, what = Collocation.of(instance.current), "the running plan"
    else:
        before = id_order(instance, Context(Limits(), 0, Deadline(None))).plan  # type: ignore[assignment]
        what = "experts in order"
    wrong = verify.faults(instance, before, capped=False)
    if wrong:
        return {"action": "move", "reason": f"{what} cannot be judged: {wrong[0]}", "against": what}
    old = verify.evaluate(instance, before, capped=False)
    gained = float(old.objective - judged.objective)
    share = gained / float(old.objective) if old.objective else 0.0
    where = f"{percent(share)} of {describe_objective(instance)}" if share >= 0 else "nothing"
    told: dict[str, Any] = {"against": what, "before": float(old.objective), "gain": gained, "gain_share": share}
    told["lambda_before"] = float(sum(layer.mean_lambda for layer in old.layers) / len(old.layers))
    told["imbalance_before"] = max(layer.imbalance for layer in old.layers)
    scored = _scored(instance, before)
    if scored is not None:
        told["imbalance_held_out_before"] = max(layer.imbalance for layer in scored)
    if instance.objective == "time" and instance.step_s is not None:
        share = gained / instance.step_s
        where = f"{percent(max(share, 0))} of a step"
        told["share_of_step"] = share
    won = f"{where} is won over {what}{_in_ms(instance, gained, float(old.objective))}"
    if share < WORTH:
        return told | {"action": "keep", "reason": f"{won}, below {percent(WORTH)}"}
    reason = won
    if instance.objective == "time" and instance.step_s is None:
        reason += "; what that is of a step needs step_s"
    told |= _balance(instance, told, found)
    return told | {"action": "move", "reason": reason, "knob": knob(instance)}


def _balance(instance: CollocationInstance, told: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """That the busiest GPU has more than before, where links are what a move is advised for."""
    key, what = ("imbalance_held_out", "the tokens held out") if instance.held_out else ("imbalance", "tokens")
    before, after = told[f"{key}_before"], max(row[key] for row in found["layers"])
    if instance.objective == "tokens" or after <= before * (1 + WORTH):
        return {}
    text = (
        f"the busiest GPU has {after:.3f} times the mean of {what}, {before:.3f} with {told['against']}: advice is "
        "about what travels, not about what GPUs compute; max_imbalance caps that, on tokens planned for"
    )
    return {"balance": text}


def _in_ms(instance: CollocationInstance, gained: float, before: float) -> str:
    """What was won in milliseconds, and in how many layers: a trace may have a few of them."""
    if instance.objective != "time" or instance.pairs is not None or gained <= 0:
        return ""
    layers = "1 layer" if instance.num_layers == 1 else f"{instance.num_layers} layers"
    return f" ({gained * 1e3:.3g} of {before * 1e3:.3g} ms, in {layers})"


def describe_objective(instance: CollocationInstance) -> str:
    """The objective in words."""
    if instance.pairs is not None:
        return "the pairs apart"
    return {
        "time": "the busiest link's seconds",
        "copies": "the copies that travel",
        "tokens": "the busiest GPU's tokens",
    }[instance.objective]


def knob(instance: CollocationInstance) -> str:
    """What to turn."""
    return "load slot_expert as the engine's expert map: moeopt convert PLAN --to ENGINE"


def notes(instance: CollocationInstance, found: dict[str, Any]) -> list[str]:
    """What has to be said besides."""
    told = []
    if instance.objective == "tokens":
        told.append(
            f"{instance.transport.name} merges nothing and sources are alike: the bytes are the same for every plan, "
            "so only the balance of tokens is improved"
        )
    if not instance.transport.returns_home:
        told.append(
            "results stay where they are between layers: copies are counted as if sources were those given, and units "
            "are named layer after layer for the fewest hops"
        )
    if instance.transport.merge == "node" and instance.num_units == 1:
        told.append("there is one node: nothing crosses the network, whatever the plan")
    if instance.step_s is not None and instance.objective != "time":
        told.append(
            "step_s is not used: without a link graph, or for another objective than time, there are no seconds"
        )
    return told
