"""Sentences about a comparison of collocations: what is best, by how much, and what the columns mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.percent import percent, percent_up
from moeopt.registry import Comparison
from moeopt.report import words
from moeopt.report.rows import bound_kind
from moeopt.report.sheet import Text
from moeopt.report.words import Name, count

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance
    from moeopt.report.rows import RowFigures

RIVALS = ("running plan", "load_only", "id_order")
"""What the best is held against, the first that has a plan."""


def verdict(instance: CollocationInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Text]:
    """What is best, against what, how far from the bound, and what held-out tokens say."""
    from moeopt.collocation import describe

    best = next((row for row in rows if row.best), None)
    if best is None or best.result is None or best.solution is None or best.result.objective is None:
        return [["No method found a plan; the table has the reasons."]]
    what = describe.describe_objective(instance)
    value = best.result.objective
    amount = words.seconds(value) if best.result.unit == "s" else f"{value:,.0f}"
    found: list[Text] = [["Least of ", what, ", summed over layers, has ", Name(best.method), f": {amount}."]]
    rival = _rival(best, rows)
    if rival is not None and rival.result is not None and rival.result.objective:
        won = (rival.result.objective - value) / rival.result.objective
        text = f" by {percent(won)}." if won > 0 else " by nothing."
        found.append(["That is below ", Name(rival.method), text])
    if best.gap is not None:
        sure = "No plan is" if bound_kind(comparison) == "certified" else "A solver claims that no plan is"
        found.append([f"{sure} more than {percent_up(best.gap)} below it."])
    scored = best.solution["lambda_held_out"]
    if scored is not None and best.solution["lambda_lower_bound"] is not None:
        fitted = best.solution["lambda"]
        found.append(
            [f"A token touches {fitted:.3f} units in the mean, {scored:.3f} on tokens that no method has seen."]
        )
    advice = best.solution["advice"]
    found.append([f"Advice: {advice['action']}, as {advice['reason']}."])
    if "balance" in advice:
        found.append([f"But {advice['balance']}."])
    return found


def _rival(best: RowFigures, rows: list[RowFigures]) -> RowFigures | None:
    for name in RIVALS:
        for row in rows:
            if row.method == name and row is not best and row.solution is not None and not row.remark:
                return row
    return None


def facts(instance: CollocationInstance) -> list[tuple[str, str]]:
    """Digest, shape, transport and rules, label and text."""
    where = f"{count(instance.num_gpus, 'GPU')} in {count(int(instance.node.max()) + 1, 'node')}"
    named = where if instance.cluster is None else f"{instance.cluster.name}, {where}"
    slots = sorted(set(instance.slots.tolist()))
    each = str(slots[0]) if len(slots) == 1 else f"{slots[0]} to {slots[-1]}"
    shape = f"{count(instance.num_layers, 'layer')}, {count(instance.num_experts, 'expert')}, "
    shape += f"{count(instance.num_slots, 'slot')} ({each} a GPU)"
    if instance.pairs is None:
        tokens = int(instance.ids.shape[1])
        trace = f"{count(tokens, 'token')} of top-{instance.ids.shape[2]}"
        if instance.held_out:
            trace += f", the last {tokens - instance.num_tokens:,} held out"
        trace += "; sources known" if instance.source is not None else "; every GPU has as many"
    else:
        trace = "counts of pairs, an approximation"
    rules = [f"replicas are chosen by {instance.replica_rule}"]
    if instance.max_imbalance is not None:
        rules.append(f"imbalance at most {instance.max_imbalance:g}")
    if instance.limited is not None:
        rules.append(f"tokens use {instance.limited[1]} of {count(instance.limited[0], 'group')}")
    way = f"{instance.transport.name}, {instance.hidden:,} elements, {instance.batch_tokens:,g} tokens a GPU and step"
    return [
        ("SHA-256", instance.sha256),
        ("Cluster", named),
        ("Shape", shape),
        ("Trace", trace),
        ("Transport", way),
        ("Rules", "; ".join(rules)),
    ]


def footnotes(instance: CollocationInstance) -> list[tuple[str, str]]:
    """What each column means."""
    from moeopt.collocation import describe

    said = [
        ("Objective", f"{describe.describe_objective(instance)}, summed over layers, judged by one referee."),
        ("Lambda", "units a token touches, its own among them: nodes, or GPUs where the transport merges by GPU."),
        ("Held out", "the same plan on the last tokens of the trace, which it was not made for."),
        ("Copies a token", "copies that leave the token's own unit."),
        ("Imbalance", "tokens of the busiest GPU over the mean, of the worst layer."),
        ("On the critical path", "network and fabric of the nodes one after the other, or overlapped; with latencies."),
        ("Gap", "(value - bound) / value, to the largest bound of any method."),
        ("Time", "measured on the machine that made this report, the referee's work included."),
    ]
    if instance.pairs is not None:
        said[1] = ("Lambda", "units that a pair of experts touches, 1 or 2: nodes, or GPUs where GPUs are merged by.")
        said[3] = ("Copies a pair", "of the pairs apart, those that leave the unit of their token.")
    linked = instance.cluster is not None and instance.pairs is None
    return [pair for pair in said if linked or pair[0] != "On the critical path"]
