"""Sentences about a comparison of meshes: what is best, how far from the bound, and what the columns mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.percent import percent, percent_up, three
from moeopt.registry import Comparison
from moeopt.report import words
from moeopt.report.mesh_rows import pools_said
from moeopt.report.rows import RowFigures, bound_kind
from moeopt.report.sheet import Text
from moeopt.report.words import Name, count

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance

GOALS = {
    "gpus": "fewest GPUs",
    "price": "lowest price",
    "goodput": "most requests a second",
    "time": "least time per output token",
}


SAME = {"goodput": "as many requests", "gpus": "as many GPUs", "price": "the same price", "time": "the same time"}
EQUAL = 1e-9
"""Part of a value within which another one is the same."""


def per_second(value: float | None) -> str:
    """Requests or tokens a second, three digits: a model has no more.

    >>> per_second(15.8412), per_second(51234.0), per_second(0.0123), per_second(None)
    ('15.8', '51,200', '0.0123', '–')
    """
    return words.NONE if value is None else three(value)


def achieved(instance: MeshInstance, value: float) -> str:
    """A value of the objective in the words of its goal."""
    if instance.objective == "goodput":
        return f"{per_second(1 / value)} requests/s"
    if instance.objective == "time":
        return f"{words.seconds(value)} a token"
    return f"{value:,.0f} GPUs" if instance.objective == "gpus" else f"price {value:,.6g}"


def behind(instance: MeshInstance, value: float, best: float) -> str:
    """How a value of the objective compares with the best one, in the words of its goal."""
    if abs(value - best) <= EQUAL * best:
        return SAME[instance.objective]
    if instance.objective == "goodput":
        return f"{percent(1 - best / value)} fewer requests"
    more = percent(value / best - 1)
    what = {"gpus": "more GPUs", "price": "dearer", "time": "more time a token"}
    return f"{more} {what[instance.objective]}"


def verdict(instance: MeshInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Text]:
    """What is best, who else gets there, and how far from the bound it is."""
    best = next((row for row in rows if row.best), None)
    if best is None or best.result is None or best.solution is None or best.result.objective is None:
        impossible = any(row.result is not None and row.result.conflicts for row in rows)
        if impossible:
            return [["No plan exists: what is asked cannot be served, as the table says."]]
        return [["No method found a plan; the table has the reasons."]]
    value = best.result.objective
    goal = GOALS[instance.objective]
    solved = [row for row in rows if row is not best and row.solution is not None and row.result is not None]
    equal = [row.method for row in solved if row.result is not None and row.result.objective == value]
    first: list[str] = [f"{goal[0].upper()}{goal[1:]}: {achieved(instance, value)}, by ", Name(best.method)]
    if equal:
        first += [" (", *words.listed(equal), f" {'gets' if len(equal) == 1 else 'get'} there too)"]
    found: list[Text] = [[*first, f": {pools_said(best.solution)}."]]
    rivals = [row for row in solved if row.method in ("recipe", "uniform", "per_price")]
    known = [(row.result.objective, row.method) for row in rivals if row.result and row.result.objective]
    worst = max(known, default=None)
    if worst is not None and worst[0] > value * (1 + 1e-9):
        found.append(["The plan of ", Name(worst[1]), f": {behind(instance, worst[0], value)}."])
    if best.gap is not None:
        sure = "No plan of these configurations is"
        sure = sure if bound_kind(comparison) == "certified" else f"A solver claims that {sure[0].lower()}{sure[1:]}"
        found.append([f"{sure} better." if best.gap <= 1e-9 else f"{sure} more than {percent_up(best.gap)} better."])
    return found


def facts(instance: MeshInstance) -> list[tuple[str, str]]:
    """Digest, demands, GPUs and what may be chosen, label and text."""
    from moeopt.mesh.market import configs_of, refusals

    found = [("SHA-256", instance.sha256)]
    for demand in instance.demands:
        workload, slo = demand.workload, demand.slo
        said = [f"{demand.llm.name}, {workload.input_tokens:,} tokens in, {workload.output_tokens:,} out"]
        said += [f"{workload.cached:g} of prompts cached"] if workload.cached else []
        said += [] if workload.rate_per_s is None else [f"{per_second(workload.rate_per_s)} requests/s"]
        levels = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s))
        said += [f"{name} at most {words.seconds(level)}" for name, level in levels if level is not None]
        found.append(("Demand", "; ".join(said)))
    kinds = [
        f"{gpu.name}, {'any number' if gpu.stock is None else count(gpu.stock, 'GPU')}"
        + ("" if gpu.price is None else f", price {gpu.price:g}")
        for gpu in instance.gpus
    ]
    found.append(("GPUs", "; ".join(kinds)))
    configs = configs_of(instance)
    usable = sum(not refusals(instance, place) for place in range(len(configs)))
    source = "given" if instance.configs is not None else f"of the families {', '.join(instance.families)}"
    found.append(("Choice", f"{count(len(configs), 'configuration')} {source}, {usable:,} usable"))
    return found


FOOTNOTES = [
    (
        "Objective",
        "what is minimised, judged by one referee in fractions: GPUs, price, seconds a request (one over requests a "
        "second of all GPUs) or seconds an output token.",
    ),
    ("Requests/s", "that keep the service levels in every phase of every demand, with chance left aside."),
    ("GPUs", "used, and idle where there is a stock."),
    ("In the mean", "time to the first token, queueing and hand-off included, and of each further one; slowest pool."),
    ("Pools", "different configurations that are bought."),
    ("Gap", "(value - bound) / value, to the largest bound of any method, over the configurations of this instance."),
    ("Time", "measured on the machine that made this report, the referee's work included."),
]
"""What each column means."""


def closing(instance: MeshInstance) -> str:
    """How far figures are to be trusted."""
    from moeopt.mesh.calibrated import CALIBRATED, UNCALIBRATED

    if instance.configs is not None:
        return "Figures of configurations are those of the instance, taken as they stand."
    sheets, fitted = UNCALIBRATED, CALIBRATED
    return (
        "Times are modelled and rank configurations. Measured tokens a second were "
        f"{sheets.low:g} to {sheets.high:g} times those modelled from data sheets, {fitted.low:g} to {fitted.high:g} "
        "times those with measured kernels and links, in nine of ten runs (models/mesh_expectations.md)."
    )
