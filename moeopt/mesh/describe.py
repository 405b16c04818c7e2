"""A judged purchase as JSON-ready data: pools, demands, GPUs, idle ones, ranking, front, families, sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from math import nextafter
from typing import Any

from moeopt.mesh.attention_notes import attention_notes
from moeopt.mesh.beside import beside_colocated, not_compared
from moeopt.mesh.clock import OutOfTime, look
from moeopt.mesh.config import Config
from moeopt.mesh.config_document import write_config
from moeopt.mesh.cut import cut_of
from moeopt.mesh.front import pareto
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.late import late_notes
from moeopt.mesh.launching import engines
from moeopt.mesh.market import PHASES, as_written, configs_of, phases_of
from moeopt.mesh.plan import Pool
from moeopt.mesh.ranking import ranking
from moeopt.mesh.roles import said
from moeopt.mesh.sensitivity import NO_SENSITIVITY, families, no_families, sensitivity, simplest
from moeopt.mesh.verify import Evaluation

UNITS = {"gpus": "GPUs", "price": "price", "goodput": "s/request", "time": "s/token"}


Make = Callable[[MeshInstance, Evaluation], Any]
PARTS: dict[str, tuple[Make, Callable[[Evaluation], Any]]] = {
    "ranking": (ranking, lambda judged: []),
    "families": (families, no_families),
    "beside_colocated": (beside_colocated, lambda judged: None),
    "pareto": (pareto, lambda judged: []),
    "sensitivity": (sensitivity, lambda judged: dict(NO_SENSITIVITY)),
    "simplest": (lambda instance, judged: simplest(instance), lambda judged: None),
}
"""Parts of a description that take time, what people ask first before the rest; and what they are when left out."""
ORDER = ("families", "beside_colocated", "simplest", "ranking", "pareto", "sensitivity")
"""The same as they come in a document."""


def unit(instance: MeshInstance) -> str:
    """What the objective is counted in."""
    return UNITS[instance.objective]


def floored(value: Fraction) -> float:
    """The largest double that, as it is written, is no more: a rate that a plan serves for certain.

    >>> floored(Fraction(1, 3)), floored(Fraction(30))
    (0.3333333333333333, 30.0)
    """
    found = float(value)
    while as_written(found) > value:
        found = nextafter(found, 0.0)
    return found


def solution(instance: MeshInstance, judged: Evaluation, without: Collection[str] = ()) -> dict[str, Any]:
    """Everything a reader asks of a plan; `without`: parts that stay empty."""
    return in_time(instance, judged, without)[0]


def in_time(
    instance: MeshInstance, judged: Evaluation, without: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Everything a reader asks of a plan, and names of the parts that the clock leaves no time for: these are empty."""
    parts: dict[str, Any] = {}
    late = list(without)
    for name, (make, empty) in PARTS.items():
        parts[name] = empty(judged)
        if name not in late:
            try:
                look()
                parts[name] = make(instance, judged)
            except OutOfTime:
                late.append(name)
    used = sum(judged.gpus.values())
    rates = [judged.rate(demand) for demand in range(len(instance.demands))]
    figures = {
        "pools": [_pool(instance, pool, judged) for pool in judged.pools],
        "demands": [_demand(instance, judged, demand) for demand in range(len(instance.demands))],
        "rate_per_s": floored(sum(rates, Fraction(0))),
        "gpus": dict(judged.gpus),
        "total_gpus": used,
        "price": None if judged.price is None else float(judged.price),
        "idle_gpus": idle(instance, judged),
        "ranking_left_out": 0,
    }
    return figures | {name: parts[name] for name in sorted(PARTS, key=ORDER.index)}, late


def idle(instance: MeshInstance, judged: Evaluation) -> dict[str, int]:
    """GPUs of the stock that are not used, by type; types of which all are used are left out."""
    left = {gpu.name: gpu.stock - judged.gpus[gpu.name] for gpu in instance.gpus if gpu.stock is not None}
    return {name: count for name, count in left.items() if count}


def _pool(instance: MeshInstance, pool: Pool, judged: Evaluation) -> dict[str, Any]:
    config = pool.config
    rates = (config.prefill_per_s, config.decode_per_s)
    used = [
        float(judged.rate(config.demand) / judged.served[config.demand, phase])
        for phase in phases_of(instance)
        if rates[phase] > 0
    ]
    return {
        "label": config.label,
        "llm": instance.demands[config.demand].llm.name,
        "replicas": pool.replicas,
        "gpus": {name: count * pool.replicas for name, count in config.gpus.items()},
        "prefill_per_s": float(as_written(config.prefill_per_s) * pool.replicas),
        "decode_per_s": float(as_written(config.decode_per_s) * pool.replicas),
        "used": max(used, default=0.0),
        "engines": engines(instance, config),
        "stages": _stages(instance, config),
        "config": write_config(config),
    }


def _stages(instance: MeshInstance, config: Config) -> dict[str, Any] | None:
    """Layers of each stage as commands have them, and what even counts would take; ``None`` without stages."""
    cut = cut_of(instance, config)
    return None if cut is None else {"layers": list(cut.layers), "slowest_s": cut.slowest_s, "even_s": cut.even_s}


def _demand(instance: MeshInstance, judged: Evaluation, demand: int) -> dict[str, Any]:
    mine = [pool.config for pool in judged.pools if pool.config.demand == demand]
    workload, slo = instance.demands[demand].workload, instance.demands[demand].slo
    return {
        "llm": instance.demands[demand].llm.name,
        "wanted_per_s": workload.rate_per_s,
        "rate_per_s": floored(judged.rate(demand)),
        "served_per_s": {PHASES[phase]: float(judged.served[demand, phase]) for phase in phases_of(instance)},
        "output_tokens_per_s": float(judged.rate(demand) * workload.output_tokens),
        "ttft_s": max((one.ttft_s for one in mine if one.ttft_s is not None), default=None),
        "tpot_s": max((one.tpot_s for one in mine if one.tpot_s is not None), default=None),
        "ttft_slo_s": slo.ttft_s,
        "tpot_slo_s": slo.tpot_s,
    }


def notes(instance: MeshInstance, judged: Evaluation, *, proved: bool, short: bool = False) -> list[str]:
    """What a reader may not expect; `proved`: no plan is better; `short`: time ran out before everything was seen."""
    found = []
    left = idle(instance, judged)
    if left:
        named = ", ".join(f"{count} of {instance.gpu(name).stock} {name}" for name, count in left.items())
        why = "they are not needed"
        if instance.objective in ("goodput", "time"):
            why = "they would win nothing" if proved else "this plan has no use for them, another one may have"
        found.append(f"{named} stay idle: {'more time may find a use' if short else why}")
    found += _uneven_sizes(instance, judged)
    if instance.sides:
        looked = " and ".join(instance.families)
        found.append(f"the roles {said(instance.sides)} leave the families {looked}: no other is looked at")
        found += not_compared(instance)
    found += attention_notes(instance)
    found += late_notes(instance, judged)
    served = phases_of(instance)
    if len(served) == 1:
        found.append(f"only {PHASES[served[0]]} is bought: no family of the instance serves the other phase")
    paper = [pool.config.label for pool in judged.pools if not engines(instance, pool.config)["legal_in"]]
    if paper and instance.configs is None:
        found.append(f"no engine that is known launches {', '.join(paper)}: paper only")
    if len(configs_of(instance)) == 0:
        found.append("there are no configurations")
    return found


def _uneven_sizes(instance: MeshInstance, judged: Evaluation) -> list[str]:
    """Sizes of replicas that a purchase of less than a server could have, and that servers cannot be filled with."""
    found = []
    for gpu in instance.gpus if instance.configs is None and instance.objective in ("gpus", "price") else ():
        bought, server = judged.gpus.get(gpu.name, 0), gpu.node_gpus
        sizes = [str(size) for size in range(2, bought) if server % size]
        if sizes and bought <= server and (gpu.stock is None or gpu.stock >= server):
            found.append(
                f"replicas fill servers of {server} {gpu.name} evenly; with a stock of {bought - 1} or fewer, "
                f"stages of {', '.join(sizes)} GPUs are looked at too, and fewer may do"
            )
    return found
