"""Sentences about a comparison of micro-batch methods: what is best, by how much, and what the columns mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moeopt.percent import percent, percent_up
from moeopt.registry import Comparison
from moeopt.report import words
from moeopt.report.frame import best_of
from moeopt.report.rows import RowFigures, bound_kind
from moeopt.report.sheet import Text
from moeopt.report.timeline import NOUNS, plural
from moeopt.report.words import Name, count

if TYPE_CHECKING:
    from moeopt.microbatch import MicrobatchInstance
    from moeopt.microbatch.candidates import Candidate

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
SHOWN = {"us": "µs"}
RIVAL = "simulate"
"""First come, first served with the best m: what other orders are held against."""


def unit_for(seconds: Iterable[float | None]) -> str:
    """The unit in which the largest of some times is at least 1.

    >>> unit_for([0.081, 0.0605]), unit_for([2.5]), unit_for([3e-5]), unit_for([])
    ('ms', 's', 'us', 's')
    """
    largest = max((value for value in seconds if value), default=1.0)
    return next((name for name, size in UNITS.items() if largest >= size), "us")


def step(seconds: float | None, unit: str) -> str:
    """Six digits, without the unit.

    >>> step(0.0605, "ms"), step(0.02025, "ms"), step(None, "s")
    ('60.5', '20.25', '–')
    """
    return words.NONE if seconds is None else f"{seconds / UNITS[unit]:,.6g}"


def spelled(seconds: float) -> str:
    """The same in the unit that fits, with it.

    >>> spelled(0.0605)
    '60.5 ms'
    """
    unit = unit_for([seconds])
    return f"{step(seconds, unit)} {SHOWN.get(unit, unit)}"


def per_second(value: float | None) -> str:
    """Six digits; powers of ten where nobody counts them.

    >>> per_second(16.66666), per_second(49382.71), per_second(1.2345e300)
    ('16.6667', '49,382.7', '1.23e+300')
    """
    if value is None:
        return words.NONE
    return f"{value:.2e}" if value >= 1e12 else f"{value:,.1f}" if value >= 1000 else f"{value:.6g}"


def noun(instance: MicrobatchInstance) -> str:
    """What there is so many of a second: tokens, or where nobody said how many, parts of a step."""
    named = instance.batches is not None or instance.micro_batch > 1
    return "token" if named else NOUNS.get(instance.pattern, "micro-batch")


def part(instance: MicrobatchInstance) -> str:
    """What a step is cut into."""
    return NOUNS.get(instance.pattern, "micro-batch")


def verdict(instance: MicrobatchInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Text]:
    """What is best, who else gets there, what cutting up is worth, and how far from the bound it is."""
    best = best_of(rows)
    if best is None or best.result is None or best.solution is None or best.result.objective is None:
        if any(row.result is not None and row.result.conflicts for row in rows):
            return [["No plan exists: no candidate keeps the limits, as the table says."]]
        return [["No method found a plan; the table has the reasons."]]
    value, solution, what = best.result.objective, best.solution, plural(noun(instance), 2)
    solved = [row for row in rows if row is not best and row.result is not None and row.solution is not None]
    equal = [row.method for row in solved if row.result is not None and row.result.objective == value]
    by_time = instance.objective == "time"
    head = "The shortest step" if by_time else f"Most {what} a second"
    amount = spelled(value) if by_time else per_second(solution["throughput"])
    pieces = [f"{head}: {amount}, by ", Name(best.method)]
    if equal:
        pieces += [" (", *words.listed(equal), f" {'gets' if len(equal) == 1 else 'get'} there too)"]
    m = solution["m"]
    cut = f"{m} {plural(part(instance), m)}"
    batch = f" of {solution['batch']:,} tokens" if instance.batches is not None else ""
    tail = "" if by_time else f" takes {spelled(solution['time_s'])}"
    found: list[Text] = [[*pieces, f": a step{batch} in {cut}{tail}."]]
    overlap = solution["overlap"]
    if overlap is not None and m > 1:
        gain = overlap["gain"]
        one = f"Whole, in one {part(instance)}, a {noun(instance)} takes"
        found.append([f"{one} {percent(gain)} longer." if gain > 0 else f"{one} no longer."])
    rival = next((row for row in solved if row.method == RIVAL and row.result is not None), None)
    if rival is not None and rival.result is not None and rival.result.objective:
        behind = rival.result.objective / value - 1 if value else 0.0
        if behind > 1e-9:
            found.append(["First come, first served (", Name(RIVAL), f") takes {percent(behind)} longer."])
    if best.gap is not None:
        sure = "No plan of these candidates is"
        sure = sure if bound_kind(comparison) == "certified" else f"A solver claims that n{sure[1:]}"
        found.append([f"{sure} better." if best.gap <= 1e-9 else f"{sure} more than {percent_up(best.gap)} better."])
    return found


def facts(instance: MicrobatchInstance) -> list[tuple[str, str]]:
    """Digest, model, times, what may be chosen and its limits, label and text."""
    model = f"{instance.pattern}, {count(instance.layers, 'layer')}"
    found = [("SHA-256", instance.sha256), ("Model", model), ("Times", "; ".join(_times(instance)))]
    choice = [f"m = {_range(instance.m)}"]
    if instance.batches is not None:
        choice.append(f"batches of {_range(instance.batches)} tokens{', uneven parts too' * instance.uneven}")
    else:
        choice.append(f"{count(instance.micro_batch, 'token')} a {part(instance)}")
    found.append(("Choice", f"{'; '.join(choice)}: {count(len(instance.candidates), 'candidate')}"))
    limits = [] if instance.tbt_slo_s is None else [f"a step of at most {spelled(instance.tbt_slo_s)}"]
    if instance.memory_bytes is not None and instance.bytes_per_sequence is not None:
        limits.append(f"{instance.bytes_per_sequence / 1e6:,.4g} MB a sequence, {instance.memory_bytes / 1e9:,.4g} GB")
    return [*found, ("Limits", "; ".join(limits))] if limits else found


def _times(instance: MicrobatchInstance) -> list[str]:
    """Seconds of every stage for the smallest and the largest micro-batch."""

    def size(one: Candidate) -> tuple[int, int]:
        return one.largest, one.batch

    ends = [instance.durations(pick(instance.candidates, key=size), first=True) for pick in (min, max)]
    found = []
    for stage in instance.times:
        low, high = (spelled(float(end[stage][0])) for end in ends)
        found.append(f"{stage} {low}" if low == high else f"{stage} {low} to {high}")
    return found


def _range(values: tuple[int, ...]) -> str:
    """All of a few numbers, the ends of many.

    >>> _range((1, 2, 4)), _range(tuple(range(64, 1024, 64)))
    ('1, 2, 4', '64 to 960')
    """
    return ", ".join(f"{value:,}" for value in values) if len(values) <= 8 else f"{values[0]:,} to {values[-1]:,}"


def footnotes(instance: MicrobatchInstance) -> list[tuple[str, str]]:
    """What each column means."""
    what = noun(instance)
    goal = "the step" if instance.objective == "time" else f"the time of a step divided by its {plural(what, 2)}"
    return [
        ("Step", "from the first start to the last end, by a referee in exact fractions."),
        (f"{plural(what, 2).capitalize()}/s", f"{plural(what, 2)} of a step divided by its time."),
        ("m, batch", f"{plural(part(instance), 2)} of a step, and all its tokens."),
        ("Gap", f"(value - bound) / value, where {goal} is minimised; to the largest bound of any method."),
        ("Time", "measured on the machine that made this report, the referee's work and the bounds included."),
    ]
