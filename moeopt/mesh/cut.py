"""Where layers of a bought configuration are best cut into stages, and what that wins over even counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moeopt.mesh.config import Config
from moeopt.mesh.families.colocated import Mixed
from moeopt.mesh.families.context import Context
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.memory import room_of
from moeopt.mesh.shape import Shape
from moeopt.mesh.stages import Layers, Stages, best_stages, even_counts
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Prefiller, portions
from moeopt.mesh.step.table import Table

CLEAR = 1e-9
"""Parts of a stage's time below which nothing is won."""


@dataclass(frozen=True)
class Cut:
    """Layers of every stage, and seconds of the slowest one, beside those of even counts."""

    layers: tuple[int, ...]
    slowest_s: float
    even_s: float


def cut_of(instance: MeshInstance, config: Config) -> Cut | None:
    """The best cut of a configuration with stages; even counts where nothing is won or memory does not hold it.

    ``None`` without stages, and for figures that were given.
    """
    shape = config.shape
    if instance.configs is not None or not isinstance(shape, Shape) or shape.pp == 1:
        return None
    memo: dict[Any, Cut] = instance.memo.setdefault("cuts", {})
    if config.key not in memo:
        memo[config.key] = _cut(instance, config, shape)
    return memo[config.key]


def _cut(instance: MeshInstance, config: Config, shape: Shape) -> Cut:
    layers, hop_s = stage_costs(instance, config)
    even, best = even_counts(layers, shape.pp), best_stages(layers, shape.pp)
    wins = best.slowest < even.slowest * (1 - CLEAR) and _fits(instance, config, shape, best)
    chosen = best if wins else even
    return Cut(chosen.counts, chosen.slowest + hop_s, even.slowest + hop_s)


def stage_costs(instance: MeshInstance, config: Config) -> tuple[Layers, float]:
    """Seconds of every layer and of the head in the longest pass of a configuration, and of the hop between stages."""
    shape = config.shape
    assert isinstance(shape, Shape)
    context = Context(instance, config.demand, instance.demands[config.demand])
    gpu, workload = instance.gpu(shape.gpu), context.demand.workload
    numerics = next(one for one in context.numerics(gpu) if one.kv == config.kv)
    table = Table(context.setting(gpu, numerics), [shape])
    of: Callable[[Sequence[float], bool], float]
    if config.family == "prefill":
        portion = next(one for one in portions(workload) if math.ceil(one.chunk) == config.chunk)
        prefiller = Prefiller(table, workload)
        kinds, order = len(prefiller.kinds), prefiller.layers

        def of(counts: Sequence[float], last: bool) -> float:
            step = prefiller.stage(counts, last=last).step(portion, dual=config.overlap)
            return float(total_s(step)[0])

    else:
        decoder = Decoder(table, workload.context_tokens)
        kinds, order, batch, carried = len(decoder.kinds), decoder.layers, np.array([config.batch]), None
        if config.family == "colocated":
            portion = next(one for one in portions(workload) if math.ceil(one.chunk) == config.chunk)
            mixed, mean = Mixed(decoder, Prefiller(table, workload), context), (1.0, *instance.drafts)[config.draft]
            carried = mixed.shares(batch, portion, mixed.beside(portion), mean)[1]

        def of(counts: Sequence[float], last: bool) -> float:
            one = decoder.stage(counts, last=last)
            own = one.own(batch)
            return float(one.seconds(own, queries=config.draft + 1, dual=config.overlap, beside=carried)[0])

    hop_s = of([0.0] * kinds, False)
    each = [of([float(kind == place) for place in range(kinds)], False) - hop_s for kind in range(kinds)]
    costs = tuple(max(each[kind], 0.0) for kind in order)
    return Layers(costs, last=max(of([0.0] * kinds, True) - hop_s, 0.0)), hop_s


def _fits(instance: MeshInstance, config: Config, shape: Shape, stages: Stages) -> bool:
    """Whether every stage holds its layers at the batch of the configuration."""
    demand = instance.demands[config.demand]
    workload = demand.workload
    prefills = config.family == "prefill"
    room = room_of(
        shape,
        demand.llm,
        instance.gpu(shape.gpu),
        kept_tokens=workload.input_tokens if prefills else workload.kept_tokens,
        chunk=config.chunk or 0,
        numerics=demand.numerics,
        kv=config.kv,
        transport=instance.transport,
        draft=config.draft,
        overlap=config.overlap,
        reserve_bytes=instance.reserve_bytes,
        stages=stages.counts,
    )
    return room.fits(config.batch)
