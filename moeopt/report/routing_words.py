"""Sentences about a comparison of splits: what is best, what a better dispatch rule could win, and who is the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.percent import percent, percent_up, tokens
from moeopt.registry import Comparison
from moeopt.report import words
from moeopt.report.frame import best_of
from moeopt.report.rows import RowFigures, bound_kind
from moeopt.report.sheet import Text
from moeopt.report.words import Name, count

if TYPE_CHECKING:
    from moeopt.routing import RoutingInstance

RIVALS = ("even", "sglang_static", "sglang_static_node")
"""What engines do; the best is held against each that has a split."""


def verdict(instance: RoutingInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Text]:
    """What is best, what the rules of engines leave to win, and why no rule does better."""
    best = best_of(rows)
    if best is None or best.result is None or best.solution is None or best.result.objective is None:
        if any(row.result is not None and row.result.conflicts for row in rows):
            return [["No split exists: experts with tokens lie nowhere, as the table says."]]
        return [["No method gave a split; the table has the reasons."]]
    value = best.result.objective
    solved = [row for row in rows if row is not best and row.solution is not None and row.result is not None]
    equal = [row.method for row in solved if row.result is not None and row.result.objective == value]
    pieces: list[str] = ["The best split is that of ", Name(best.method)]
    if equal:
        pieces += [" (", *words.listed(equal), f" {'gets' if len(equal) == 1 else 'get'} there too)"]
    summed = ", summed over layers" if instance.num_layers > 1 else ""
    excess = best.solution["imbalance_mean"] - 1
    mean = "in perfect balance" if excess <= 0 else f"{percent(excess)} above perfect balance in the mean"
    pieces.append(f": {tokens(value)} tokens on the busiest GPU{summed}, {mean}.")
    found: list[Text] = [pieces]
    won: dict[str, list[str]] = {}
    for row in solved:
        if row.method in RIVALS and row.result is not None and row.result.objective:
            lost = 1 - value / row.result.objective
            if lost > 1e-9:
                won.setdefault(percent(lost), []).append(row.method)
    found += [["Over ", *words.listed(methods), f" it wins {lost}."] for lost, methods in won.items()]
    if best.gap is not None and best.gap <= 1e-9:
        sure = "No dispatch rule does" if bound_kind(comparison) == "certified" else "A solver claims that no rule does"
        found.append([f"{sure} better on these replicas."])
    elif best.gap is not None:
        found.append([f"No dispatch rule does more than {percent_up(best.gap)} better on these replicas."])
    return [*found, [cut(instance, best)]]


def cut(instance: RoutingInstance, best: RowFigures) -> str:
    """Why the worst layer cannot be better."""
    from moeopt.routing.bounds import confined

    assert best.solution is not None
    layer = max(best.solution["layers"], key=lambda one: one["imbalance"])
    gpus = layer["cut"]["gpus"]
    amount, experts = confined(instance, instance.layers.index(layer["layer"]), gpus)
    who = f"GPU {gpus[0]} has" if len(gpus) == 1 else f"{said(gpus, instance.num_gpus)} have"
    what = "1 expert that lies" if experts == 1 else f"{experts:,} experts that lie"
    where = f"In layer {layer['layer']}, the worst, " if instance.num_layers > 1 else ""
    text = f"{where}{who} {tokens(float(amount))} tokens of {what} nowhere else."
    return text[0].upper() + text[1:]


def said(gpus: list[int], of: int) -> str:
    """A set of GPUs, by their ids where they are few.

    >>> said([0, 1], 2), said([3, 5], 8), said(list(range(20)), 32)
    ('all 2 GPUs', 'GPUs 3 and 5', '20 of 32 GPUs')
    """
    if len(gpus) == of:
        return f"all {of} GPUs"
    if len(gpus) > 8:
        return f"{len(gpus)} of {of} GPUs"
    return f"GPUs {', '.join(map(str, gpus[:-1]))} and {gpus[-1]}" if len(gpus) > 1 else f"GPU {gpus[0]}"


def facts(instance: RoutingInstance) -> list[tuple[str, str]]:
    """Digest, shape and rules, label and text."""
    several = [len(hosting.shared) for hosting in instance.hostings]
    low, high = min(several), max(several)
    shape = [
        f"L = {count(instance.num_layers, 'layer')}",
        f"E = {count(instance.num_experts, 'expert')}, {low:,}{'' if low == high else f' to {high:,}'} on several GPUs",
        f"S = {count(int(instance.slot_expert.shape[1]), 'slot')}",
        f"G = {count(instance.num_gpus, 'GPU')}",
        f"N = {count(len(set(instance.node)), 'node')}",
    ]
    rules = ["tokens cannot be cut" if instance.whole else "tokens may be cut"]
    if instance.floor_tokens:
        whose = "expert" if instance.floor_rule == "per_expert" else "replica"
        rules.append(f"floor {float(instance.floor):,g} tokens per {whose}")
    if len(set(instance.speed)) > 1:
        rules.append(f"GPU speeds {min(instance.speed):g} to {max(instance.speed):g}")
    if any(any(row) for row in instance.base):
        rules.append("GPUs have work of their own")
    if len(set(instance.node)) > 1:
        rules.append("sources known" if instance.sources is not None else "every GPU sends as many tokens")
    return [("SHA-256", instance.sha256), ("Shape", ", ".join(shape)), ("Rules", "; ".join(rules))]


def footnotes(instance: RoutingInstance) -> list[tuple[str, str]]:
    """What each column means."""
    found = [
        (
            "Objective",
            "sum over layers l of max over GPUs g of C(l,g), where C(l,g) = tokens on GPU g in layer l / speed of GPU "
            "g, by a referee in exact fractions.",
        ),
        ("Imbalance", "max over g of C(l,g) / what every GPU has in perfect balance; mean and worst over layers."),
        (
            "Gap",
            "(value - bound) / value, to the largest bound of any method: a set of GPUs with more to do than it can.",
        ),
        ("Time", "measured on the machine that made this report, the referee's work and the bounds included."),
    ]
    if len(set(instance.node)) > 1:
        found.insert(2, ("Stay on their node", "the part of tokens that need not leave the node they come from."))
    return found
