"""From configurations of the mesh to a service that can be simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, Violation
from moeopt.mesh.config import Config
from moeopt.mesh.families.colocated import Mixed
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.prefill import handoff, together
from moeopt.mesh.goodput.service import Service
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.decode import Beside, Decoder
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller
from moeopt.mesh.step.table import Table
from moeopt.mesh.workload import Workload

GRID = 33
"""Prompt lengths at which a prefill is timed, besides multiples of the mean; between them it is taken as linear."""


def service_of(
    instance: MeshInstance, prefill: Config, decode: Config | None = None, *, copies: tuple[int, int] = (1, 1)
) -> Service:
    """The service of a prefill and a decode pool, or of replicas that serve whole requests.

    Parameters
    ----------
    instance
        What the configurations are of.
    prefill, decode
        Usable configurations of one demand; `prefill` alone where it is colocated.
    copies
        Replicas of either.

    Raises
    ------
    InstanceError
        Configurations that are refused, of other families or of two demands.

    Notes
    -----
    Strength: a step takes the time of the busiest rank's batch, whatever the others hold; a draft counts by its mean.
    Prefill ranks whose experts span them wait half a step for each other in the mean, and are else on their own. A
    mixed step carries what it carries in the mean at the configuration's batch.
    """
    check = [] if decode is None else [("decode", decode, ("decode",))]
    families = ("colocated",) if decode is None else ("prefill",)
    for name, one, wanted in (("prefill", prefill, families), *check):
        if one.family not in wanted or not one.usable:
            rule = f"must be a usable configuration of the family {wanted[0]}"
            raise InstanceError([Violation(name, "", one.label, rule, "Give one of its configurations")])
    if decode is None:
        return _colocated(instance, prefill, copies[0])
    if prefill.demand != decode.demand:
        rule = f"serves demand {decode.demand}, prefill {prefill.demand}"
        raise InstanceError([Violation("decode", "", decode.label, rule, "Give two of one demand")])
    return Service(**_prefill_side(instance, prefill, copies[0]), **_decode_side(instance, decode, copies[1]))


def prefilling(instance: MeshInstance, config: Config) -> Service:
    """One replica that prefills, and nothing behind it: for requests of one token."""
    return Service(step_s=1.0, slots=1, **_prefill_side(instance, config, 1))


def decoding(instance: MeshInstance, config: Config) -> Service:
    """One replica that decodes what comes with its cache."""
    return Service(prefill_servers=1, prefill_s=0.0, **_decode_side(instance, config, 1))


def _decode_side(instance: MeshInstance, decode: Config, copies: int) -> dict[str, Any]:
    context, table = _table(instance, decode)
    steps = _steps(instance, table, decode, context.demand.workload, np.arange(1, decode.batch + 1))
    return {"step_s": steps, "slots": decode.batch, "replicas": copies, "ranks": table.shapes[0].dp}


def _prefill_side(instance: MeshInstance, prefill: Config, copies: int) -> dict[str, Any]:
    context, source = _table(instance, prefill)
    workload = context.demand.workload
    shape: Shape = source.shapes[0]
    prompts, rounds = prefill.batch, _rounds(workload, prefill)
    seconds = _prefill_s(source, workload, prefill, rounds)
    step = seconds(round(workload.computed_tokens)) / rounds
    fixed = float(handoff(context, source)[0]) + (shape.pp - 1) * step + float(together(source)[0]) * step / 2
    return {
        "prefill_servers": copies * shape.dp,
        "prefill_s": seconds,
        "prefill_tokens": prompts * round(workload.computed_tokens) if prompts > 1 else None,
        "handoff_s": fixed,
    }


def _colocated(instance: MeshInstance, config: Config, copies: int) -> Service:
    context, table = _table(instance, config)
    workload, shape = context.demand.workload, table.shapes[0]
    mean = _mean(instance, config)
    mixed = Mixed(Decoder(table, workload.context_tokens), Prefiller(table, workload), context)
    rounds = _rounds(workload, config)
    size = workload.computed_tokens / rounds
    before = workload.cached_tokens + (workload.computed_tokens - size) / 2
    portion = Portion(1, size, before, rounds)
    beside = mixed.beside(portion)
    carried: Beside = mixed.shares(np.array([config.batch]), portion, beside, mean)[1]

    def long(batch: int) -> float:
        own = mixed.decoder.own(np.array([batch]))
        one = mixed.decoder.seconds(own, queries=config.draft + 1, dual=config.overlap, beside=carried)
        return float(one[0]) * shape.pp / mean

    slots = max(config.batch // shape.pp, 1)
    return Service(  # each stage works on sequences of its own, and each of these turns may carry a chunk
        step_s=_steps(instance, table, config, workload, shape.pp * np.arange(1, slots + 1)),
        slots=slots,
        replicas=copies,
        ranks=shape.dp * shape.pp,
        chunk=max(round(size), 1),
        mixed_step_s=lambda batch: long(max(batch, 1) * shape.pp),
    )


def _table(instance: MeshInstance, config: Config) -> tuple[Context, Table]:
    assert isinstance(config.shape, Shape)
    demand = instance.demands[config.demand]
    context = Context(instance, config.demand, demand)
    gpu = instance.gpu(config.shape.gpu)
    numerics = served(demand.llm, gpu.machine, demand.numerics, config.kv)
    return context, Table(context.setting(gpu, numerics), [config.shape])


def _mean(instance: MeshInstance, config: Config) -> float:
    return (1.0, *instance.drafts)[config.draft]


def _steps(
    instance: MeshInstance, table: Table, config: Config, workload: Workload, batches: NDArray[np.int64]
) -> list[float]:
    """Seconds a token by the sequences of a rank."""
    rows = Table(table.setting, table.shapes * len(batches))
    found = Decoder(rows, workload.context_tokens).tpot_s(
        batches, draft=config.draft, mean=_mean(instance, config), dual=config.overlap
    )
    seconds: list[float] = found.tolist()
    return seconds


def _rounds(workload: Workload, config: Config) -> int:
    """Steps until a prompt of the mean length is read."""
    each = (config.chunk or 1) / (config.batch if config.family == "prefill" else 1)
    return max(-(-round(workload.computed_tokens) // max(round(each), 1)), 1)


def _prefill_s(table: Table, workload: Workload, config: Config, rounds: int) -> Callable[[int], float]:
    """Seconds of a rank's prefill by its tokens, all rounds."""
    most = workload.computed_tokens * max(config.batch, 8)
    mean = round(workload.computed_tokens)  # whole prompts of the mean length are met exactly
    lengths = mean * np.arange(1, max(config.batch, 8) + 1)
    grid = np.unique(np.concatenate([np.round(np.geomspace(1, most, GRID)), lengths]))
    times = []
    for tokens in grid.tolist():
        of = max(round(tokens / workload.computed_tokens), 1)  # whole prompts, or a part of one
        new = tokens / of
        turns = max(-(-round(new) * rounds // round(workload.computed_tokens)), 1)
        portion = Portion(of, new / turns, workload.cached_tokens + (new - new / turns) / 2, turns)
        own = replace(workload, input_tokens=max(round(new), 1), cached=0.0)
        times.append(turns * float(total_s(Prefiller(table, own).step(portion, dual=config.overlap))[0]))

    def seconds(tokens: int) -> float:
        if tokens > grid[-1]:
            return float(times[-1] * tokens / grid[-1])
        return float(np.interp(tokens, grid, times))

    return seconds
