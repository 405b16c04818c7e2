"""Numbers and sentences for people: rounding that never flatters, and words no stronger than the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moeopt.percent import percent as plain_percent
from moeopt.report.sheet import Text as Text
from moeopt.report.summary import NEAR_GAP, RowSummary, Summary

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

NONE = "–"
"""What a table shows where there is no number."""


NEAR = f"{NEAR_GAP * 100:g} %"
"""The gap up to which layers are counted, as text."""


class Name(str):
    """A piece of text that is a name from the input: shown in type of its own, never read as markup."""


def amount(value: float | None, decimals: int = 1) -> str:
    """Group thousands; whole numbers without decimals when `decimals` is 0.

    >>> amount(1234567.25), amount(12, 0), amount(3e18)
    ('1,234,567.2', '12', '3.00000e+18')
    """
    if value is None:
        return NONE
    return f"{value:.5e}" if abs(value) >= 1e15 else f"{value:,.{decimals}f}"


def decimals_for(values: Iterable[float | None]) -> int:
    """Decimals that give a column six significant digits, none when all entries are whole.

    >>> decimals_for([1.5, 22.25]), decimals_for([10, 20]), decimals_for([40594.125])
    (4, 0, 1)
    """
    known = [abs(value) for value in values if value is not None]
    if all(value.is_integer() for value in map(float, known)):
        return 0
    largest = max(known)
    return min(max(5 - math.floor(math.log10(largest)), 1), 9) if largest > 0 else 1


def ratio(value: float | None) -> str:
    """Four decimals.

    >>> ratio(1.00678)
    '1.0068'
    """
    return NONE if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """As everywhere, and a dash where there is no number.

    >>> percent(0.0195), percent(None)
    ('1.95 %', '–')
    """
    return NONE if value is None else plain_percent(value)


def seconds(value: float | None) -> str:
    """Three significant digits in a unit that fits.

    >>> seconds(0.0072), seconds(0.9996), seconds(16.98), seconds(0.0000005), seconds(5000)
    ('7.20 ms', '1.00 s', '17.0 s', '0.00 ms', '5,000 s')
    """
    if value is None:
        return NONE
    number, unit = (value * 1e3, "ms") if value < 0.9995 else (value, "s")
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{digits}f} {unit}"


def count(number: int, word: str) -> str:
    """A number and its noun.

    >>> count(1, "layer"), count(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def short(text: str, limit: int = 240) -> str:
    """A long reason, cut: the documents have it whole.

    >>> short("one two three", 9)
    'one two …'
    """
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0] + " …"


def listed(names: Sequence[str]) -> list[str]:
    """Names as pieces of a sentence: a, b and c."""
    pieces: list[str] = []
    for index, name in enumerate(names):
        if index:
            pieces.append(" and " if index == len(names) - 1 else ", ")
        pieces.append(Name(name))
    return pieces


def verdict(summary: Summary) -> list[Text]:
    """What is best, by how much, and how far from the proven bound at most."""
    best = summary.best
    if best is None:
        return [*_no_plan(summary), *_idle(summary)]
    said = [_best(summary, best), *_moved(best), *_against(summary, best), *_bounded(summary, best)]
    return [*said, *_held_out(summary), *_idle(summary)]


def _held_out(summary: Summary) -> list[Text]:
    """Whose plan does best on loads that no plan was made for."""
    scored = [row for row in summary.rows if row.held_out is not None]
    if not scored:
        return []
    least = min(scored, key=lambda row: row.held_out_figure("mean") or 0.0)
    files = len((least.held_out or {})["means"])
    mean = ratio(least.held_out_figure("mean"))
    return [[f"On {count(files, 'table')} of loads held out, ", Name(least.method), f" is the most even: {mean}."]]


def _best(summary: Summary, best: RowSummary) -> Text:
    solved = [row for row in summary.rows if row.solution is not None and not row.remark]
    rest = [row.method for row in solved if row is not best and row.objective == best.objective]
    head = "The best of " + count(len(solved), "plan") + " is that of " if len(solved) > 1 else "The only plan is by "
    pieces = [head, Name(best.method)]
    if rest:
        pieces += [" (", *listed(rest), f" {'reaches' if len(rest) == 1 else 'reach'} the same objective)"]
    mean, worst = best.figure("excess"), best.imbalance_worst
    assert mean is not None and worst is not None and best.imbalance is not None
    if worst == 1.0:
        return [*pieces, ": every layer is in perfect balance."]
    pieces.append(f": its busiest GPU costs {percent(mean)} more than in perfect balance")
    if summary.instance.num_layers > 1:
        layer = summary.instance.layers[int(best.imbalance.argmax())]
        pieces.append(f" as a mean over layers, and {percent(worst - 1)} more on the worst one, layer {layer}")
    return [*pieces, "."]


def _moved(best: RowSummary) -> list[Text]:
    """What the best plan costs where one runs: new slots, and the imbalance that they take away."""
    if best.moves is None or best.solution is None:
        return []
    slots = sum(len(layer["slot_expert"]) for layer in best.solution["layers"])
    if not best.moves:
        return [["Nothing moves for it: it has what the running plan has."]]
    text = f"It takes {count(best.moves, 'move')}: {percent(best.moves / slots)} of {count(slots, 'slot')} are new"
    now = best.solution.get("imbalance_now")
    before = "" if now is None else f", where the running plan has imbalance {ratio(now)} over all layers and it"
    return [[text, "." if now is None else f"{before} {ratio(best.solution['imbalance_total'])}."]]


def _against(summary: Summary, best: RowSummary) -> list[Text]:
    other = summary.legal("eplb", "contiguous")
    if other is None or other.objective is None or best.objective is None:
        return []
    what = "the public rule, " if other.method == "eplb" else "experts in order, "
    if other is best:
        return [["No other method here beats ", what, Name(other.method), "."]] if len(summary.rows) > 1 else []
    if other.objective == best.objective:
        return []
    less = (other.objective - best.objective) / other.objective
    start = "Summed over layers, its" if summary.instance.num_layers > 1 else "Its"
    pieces = [f"{start} busiest GPU costs {percent(less)} less than with ", what, Name(other.method)]
    return [[*pieces, f" ({percent(other.figure('excess'))} over perfect balance)."]]


def _bounded(summary: Summary, best: RowSummary) -> list[Text]:
    if best.gap_mean is None or best.gap_worst is None or best.layer_gap is None:
        return [["No bound is known: how much better a plan could be is open."]]
    source = "bounds that were checked exactly" if summary.certified else "a solver's bounds, which were not checked"
    if best.gap_worst <= 1e-9:
        return [[f"By {source}, no plan that keeps the rules is better on any layer."]]
    several = summary.instance.num_layers > 1
    pieces = [f"By {source}, no plan that keeps the rules is better by more than its gap: {percent(best.gap_mean)}"]
    if several:
        pieces.append(f" as a mean over layers, {percent(best.gap_worst)} on the worst")
    if several and best.layers_near:
        close = f"{best.layers_near} of {count(summary.instance.num_layers, 'layer')}"
        verb = "is" if best.layers_near == 1 else "are"
        pieces.append(f"; {close} {verb} within {NEAR} of the bound")
    return [[*pieces, "."]]


def _no_plan(summary: Summary) -> list[Text]:
    if any(row.result is not None and row.result.conflicts for row in summary.rows):
        return [["No plan exists: the rules of this instance contradict each other, as the table says."]]
    if any(row.remark for row in summary.rows):
        return [["No method gave a plan that keeps all rules."]]
    return [["No method gave a plan; the table has the reasons."]]


def _idle(summary: Summary) -> list[Text]:
    idle = int((summary.ideal == 0).sum())
    if not idle:
        return []
    if len(summary.ideal) == 1:
        return [["The layer has no load; its imbalance counts as 1 and the gap as 0."]]
    verb = "has" if idle == 1 else "have"
    said = f"{idle} of {count(len(summary.ideal), 'layer')} {verb} no load; {'its' if idle == 1 else 'their'} "
    return [[said + "imbalance counts as 1 and the gap as 0."]]


def facts(instance: PlacementInstance) -> list[tuple[str, str]]:
    """Name, digest, shape and rules, label and text."""
    experts, slots = instance.num_experts, sorted(set(instance.slots))
    each = f"{slots[0]}" if len(slots) == 1 else f"{slots[0]} to {slots[-1]}"
    spare = instance.num_slots - experts
    extra = f"{spare:,} beyond one per expert" if spare >= 0 else f"{-spare:,} fewer than experts"
    shape = [
        f"L = {count(instance.num_layers, 'layer')}",
        f"E = {count(experts, 'expert')}",
        f"S = {count(instance.num_slots, 'slot')} ({each} a GPU, {extra})",
        f"G = {count(instance.num_gpus, 'GPU')}",
        f"N = {count(len(instance.node_ids), 'node')}",
        "no groups" if instance.groups is None else count(len(set(instance.groups)), "group"),
    ]
    found = [("SHA-256", instance.sha256), ("Shape", ", ".join(shape)), ("Rules", "; ".join(_rules(instance)))]
    context = {"phase": instance.phase, "engine": instance.engine, "LLM": (instance.llm or {}).get("name")}
    said = ", ".join(f"{key} {value}" for key, value in context.items() if value)
    return [*found, ("For", said)] if said else found


def _rules(instance: PlacementInstance) -> list[str]:
    parts = f"split by the rule {instance.split}" if instance.engine_split else f"split {instance.split} over replicas"
    rules = [parts]
    if instance.floor_tokens:
        whose = "per expert" if instance.floor_rule == "per_expert" else "per replica"
        passes = count(instance.steps, "step")
        rules.append(f"floor {float(instance.floor):,g} tokens {whose} ({instance.floor_tokens:g} x {passes})")
    else:
        rules.append("no floor")
    rules.append("every slot filled" if instance.fill == "all" else "slots may stay empty")
    rules.append("replicas of an expert on distinct GPUs" if instance.distinct else "an expert may be twice on a GPU")
    if instance.groups is not None:
        rules.append("groups stay on one node" if instance.hierarchical else "groups do not bind")
    if instance.windows:
        how = (
            f"the worst {percent(1 - instance.alpha)} (CVaR)"
            if instance.combine == "cvar"
            else f"the {instance.combine}"
        )
        rules.append(f"{count(len(instance.windows), 'window')}, {how} counts")
    if instance.shared is not None:
        rules.append(f"{count(instance.num_shared, 'shared expert')} {instance.shared}, top-{instance.top_k}")
    if len(set(instance.speed)) > 1:
        rules.append(f"GPU speeds {min(instance.speed):g} to {max(instance.speed):g}")
    for what, pairs in (("pinned", instance.pin), ("forbidden", instance.forbid)):
        if pairs:
            rules.append(f"{count(len(pairs), 'pair')} {what}")
    return rules
