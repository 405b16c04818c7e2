"""What the least time of a configuration is made of: one request, nothing beside it, and all its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from moeopt.cost.links import Link
from moeopt.mesh.config import Config
from moeopt.mesh.families.colocated import Mixed
from moeopt.mesh.families.context import Context
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import milliseconds
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.step.apart import ApartTable, Node
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller, portions
from moeopt.mesh.step.table import Floats, Setting, Table
from moeopt.percent import percent

READ = ("reading weights and cache of attention", "reading FFNs", "bytes between GPUs", "", "the head")
COMPUTED = ("attention", "FFNs", "bytes between GPUs", "", "the head")
REST = {"tpot_s": "prefill beside it", "ttft_s": "hand-off and waiting for a step"}
Parts = Callable[[Setting], Floats]
"""Parts of the least time, as `moeopt.mesh.step.parts.PARTS` names them, under a setting."""


def least_parts(instance: MeshInstance, config: Config, name: str) -> dict[str, float]:
    """Seconds of each part of the least ``tpot_s`` or ``ttft_s`` of a configuration, the largest first.

    Launches, and then latencies, are what the time falls by where they take none, so that all parts add up.

    >>> from moeopt.llm import find
    >>> from moeopt.mesh.instance import demand_of
    >>> one = MeshInstance((demand_of(find("mixtral-8x7b"), (2048, 512)),), (GpuType.of("H100", stock=8),), "goodput")
    >>> shape = Shape("decode", "H100", tp=8, moe_tp=8, dense_tp=8)
    >>> list(least_parts(one, Config(0, "decode", shape, 0, {"H100": 8}), "tpot_s"))[:2]
    ['latencies of collectives', 'reading FFNs']
    """
    context = Context(instance, config.demand, instance.demands[config.demand])
    gpu = instance.gpu(config.shape.gpu)
    sides = config.shape.expert_gpu if isinstance(config.shape, ApartShape) else gpu.name
    numerics = next(one for one in context.numerics(instance.gpu(sides)) if one.kv == config.kv or not config.usable)
    setting = context.setting(gpu, numerics)
    parts = _prefill(context, config) if name == "ttft_s" else _decode(context, config)
    at_once = replace(setting, overhead_s=0.0)
    near = replace(at_once, gpu=_without_latency(gpu))
    rest = parts(near)
    times = [float(total_s(one)) for one in (parts(setting), parts(at_once), rest)]
    found = {
        word: float(seconds)
        for word, seconds in zip(COMPUTED if name == "ttft_s" else READ, rest, strict=False)
        if word
    }
    found["bytes between GPUs"] -= float(rest[5])
    found |= {"launches": times[0] - times[1], "latencies of collectives": times[1] - times[2]}
    value = getattr(config, name)
    if value is not None:
        found[REST[name]] = value - times[0]
    order = sorted(found, key=lambda word: -found[word])
    return {word: found[word] for word in order if found[word] > 0}


def said(parts: Mapping[str, float]) -> str:
    """In words: which part sets the time, and the others that matter.

    >>> said({"launches": 3e-3, "reading FFNs": 1e-3, "the head": 1e-6})
    'launches set it, 3 ms (75.0 %); then reading FFNs 1 ms (25.0 %)'
    """
    total = sum(parts.values())
    shown = [
        f"{word} {milliseconds(float(f'{seconds:.3g}'))} ({percent(seconds / total)})"
        for word, seconds in parts.items()
    ]
    first, seconds = next(iter(parts.items()))
    matter = [text for text, each in zip(shown, parts.values(), strict=True) if each > 0.02 * total][1:]
    sets = "set" if first in ("launches", "latencies of collectives", "FFNs", "bytes between GPUs") else "sets"
    head = f"{first} {sets} it, {milliseconds(float(f'{seconds:.3g}'))} ({percent(seconds / total)})"
    return "; then ".join([head, ", ".join(matter)]) if matter else head


def _without_latency(gpu: GpuType) -> GpuType:
    def quick(link: Link | None) -> Link | None:
        return None if link is None else replace(link, alpha_s=0.0)

    return replace(gpu, scale_up=quick(gpu.scale_up), network=quick(gpu.network))


def _decode(context: Context, config: Config) -> Parts:
    shape, tokens, instance = config.shape, context.demand.workload.context_tokens, context.instance
    if isinstance(shape, ApartShape):
        node, one = Node(shape.tp_a, shape.tp_e, shape.n_e, shape.redundant), np.zeros(1, dtype=np.int64)

        def apart(setting: Setting) -> Floats:
            far = setting.gpu if shape.expert_gpu == shape.gpu else instance.gpu(shape.expert_gpu)
            table = ApartTable(setting, far, [node], one, one + shape.n_a, one + shape.m, tokens)
            return table.step(np.ones(1))[1][:, 0]

        return apart
    plain: Shape = shape

    def decode(setting: Setting) -> Floats:
        decoder = Decoder(Table(setting, [plain]), tokens)
        ways = [
            decoder.tpot(np.ones(1), draft=draft, mean=mean, dual=dual)[1][:, 0]
            for draft, mean in enumerate((1.0, *instance.drafts))
            for dual in ((False, True) if decoder.ffn.overlaps.any() and plain.role != "long" else (False,))
        ]
        return min(ways, key=lambda parts: float(total_s(parts)))

    return decode


def _prefill(context: Context, config: Config) -> Parts:
    shape, workload = config.shape, context.demand.workload
    assert isinstance(shape, Shape), "experts apart do not prefill"

    def prefill(setting: Setting) -> Floats:
        table = Table(setting, [shape])
        prefiller, decoder = Prefiller(table, workload), Decoder(table, workload.context_tokens)
        mixed = Mixed(decoder, prefiller, context)

        def step(portion: Portion, dual: bool) -> Floats:
            if shape.role != "colocated":
                return prefiller.step(portion, dual=dual)[:, 0]
            _, carried, _ = mixed.shares(np.ones(1, dtype=np.int64), portion, mixed.beside(portion), 1.0)
            return decoder.parts(np.ones(1), dual=dual, beside=carried)[:, 0]

        ways = [
            step(portion, dual) * (portion.rounds + shape.pp - 1)
            for portion in portions(workload)
            if portion.prompts == 1
            for dual in ((False, True) if prefiller.ffn.overlaps.any() else (False,))
        ]
        return min(ways, key=lambda parts: float(total_s(parts)))

    return prefill
