"""Attention and experts on GPUs of their own: every instance, and those that algorithm 1 of MegaScale-Infer names."""

from __future__ import annotations

from itertools import product

import numpy as np

from moeopt.cost.instances_apart import balanced_nodes
from moeopt.mesh.config import Config, Enumerated, Memory
from moeopt.mesh.degrees import dense_reasons, divisors, moe_tp_reasons, tp_reasons
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.front import front
from moeopt.mesh.families.search import largest
from moeopt.mesh.families.ways import near, redundancies
from moeopt.mesh.hardware import NODE_GPUS, GpuType
from moeopt.mesh.memory import memory_apart
from moeopt.mesh.shape import ApartShape
from moeopt.mesh.step.apart import ApartTable, Node
from moeopt.mesh.step.table import Bools, Floats, Ints, Setting

MOST_APART = 128
"""GPUs of one instance at most: larger ones are several instances side by side."""
MOST_M = 6
"""Micro-batches at most; the published algorithm stops at 4."""
PUBLISHED_M = (3, 4)
ALGORITHM_1 = "algorithm 1 of MegaScale-Infer: an expert a node, m of 3 or 4, n_a by balance"
"""Note on configurations that the published algorithm looks at."""


def apart(context: Context) -> list[Config]:
    """Instances with attention and experts apart, every ``tp_a n_a tp_e n_e m`` and pair of types of GPU.

    Of instances that others beat on requests a second with no more GPUs of any type only those of the published
    algorithm are kept. Strength: exact over these shapes under the model of `moeopt.mesh.step.apart`.
    """
    found: list[Config] = []
    if context.demand.llm.dense:
        return found
    one = context.instance
    for first, second in product(one.for_side("attention"), one.for_side("experts")):
        for numerics in context.numerics(second):
            context.look()
            found += _judge(context, first, second, context.setting(first, numerics))
    return found


def instances(context: Context, gpu: GpuType, expert_gpu: GpuType) -> tuple[list[Node], Ints, Ints, Ints]:
    """Kinds of nodes, and of every instance within stocks: its kind, attention nodes and micro-batches.

    `n_e` divides the experts with the fewest redundant ones.
    """
    llm, own, one = context.demand.llm, context.demand.numerics, context.instance
    if gpu != expert_gpu and None in (gpu.network, expert_gpu.network):
        return [], *np.zeros((3, 0), dtype=np.int64)
    sides = [side.stock if side.stock is not None else MOST_APART for side in (gpu, expert_gpu)]
    tps_a = [d for d in _degrees(gpu) if not tp_reasons(llm, d, own) and not dense_reasons(llm, d, own)]
    tps_e = [d for d in _degrees(expert_gpu) if not moe_tp_reasons(llm, d, own)]
    experts = int(llm.experts or 0)
    nodes: list[Node] = []
    columns: list[Ints] = []
    for tp_a, tp_e, n_e in product(tps_a, tps_e, divisors(experts)):
        used = tp_e * n_e
        far = MOST_APART if gpu.network is not None else gpu.domain_gpus
        room = min(sides[0] - (used if gpu.name == expert_gpu.name else 0), far - used)
        if used > sides[1] or room < tp_a:
            continue
        for extra in redundancies(one, experts, n_e)[:1]:
            n_a, m = np.meshgrid(np.arange(1, room // tp_a + 1), np.arange(1, MOST_M + 1), indexing="ij")
            columns.append(np.stack([np.full(n_a.size, len(nodes)), n_a.ravel(), m.ravel()]))
            nodes.append(Node(tp_a, tp_e, n_e, extra))
    rows = np.concatenate(columns, axis=1) if columns else np.zeros((3, 0), dtype=np.int64)
    return nodes, rows[0], rows[1], rows[2]


def _degrees(gpu: GpuType) -> list[int]:
    """GPUs that one node of either side may have."""
    return [d for d in divisors(NODE_GPUS) if d <= near(gpu)]


class _Memory:
    """Sequences that fit a node and micro-batch of every row: both sides are affine in them."""

    def __init__(self, context: Context, table: ApartTable) -> None:
        self.context, self.table = context, table
        rows = []
        for one in table.nodes:
            plain = ApartShape(
                table.setting.gpu.name, table.expert_gpu.name, one.tp_a, 1, one.tp_e, one.n_e, 1, one.redundant
            )
            none, first = self.at(plain, 0), self.at(plain, 1)
            rows.append([*(side.free for side in none), *(b.used - a.used for a, b in zip(none, first, strict=True))])
        free_a, free_e, slope_a, slope_e = np.array(rows).reshape(-1, 4)[table.node].T
        found = np.minimum(free_a / slope_a, free_e / (slope_e * table.n_a)) / table.m
        fits = (free_a >= 0) & (free_e >= 0)
        self.most = np.where(fits, np.floor(np.maximum(found, 0.0) * (1 - 1e-12)), 0.0)

    def at(self, shape: ApartShape, sequences: int) -> tuple[Memory, Memory]:
        """Of an attention GPU and of an expert GPU."""
        one, setting = self.context.instance, self.table.setting
        return memory_apart(
            shape,
            setting.llm,
            setting.gpu,
            self.table.expert_gpu,
            sequences=sequences,
            kept_tokens=self.context.demand.workload.kept_tokens,
            numerics=self.context.demand.numerics,
            kv=setting.numerics.kv,
            reserve_bytes=one.reserve_bytes,
        )


def _judge(context: Context, gpu: GpuType, expert_gpu: GpuType, setting: Setting) -> list[Config]:
    workload, slo = context.demand.workload, context.demand.slo
    nodes, node, n_a, m = instances(context, gpu, expert_gpu)
    if not nodes:
        return []
    table = ApartTable(setting, expert_gpu, nodes, node, n_a, m, workload.context_tokens)
    context.look()
    memory = _Memory(context, table)
    context.look()
    most = np.minimum(memory.most, context.most_batch).astype(np.int64)
    limit = np.inf if slo.tpot_s is None else slo.tpot_s
    batch = largest(lambda b: table.step(b)[0] <= limit, most)
    seconds, parts = table.step(np.maximum(batch, 1))
    rate = batch * table.n_a * table.m / seconds
    best = Best.none(len(table))
    best.take(batch >= 0, batch=batch, rate=rate, tpot_s=seconds, parts=parts, fit=memory.most)
    published = _published(table, most) & (batch > 0)
    uses = table.gpus if gpu.name != expert_gpu.name else table.gpus.sum(axis=0, keepdims=True)
    keep = front(rate, uses) | published
    found = [_config(context, table, memory, best, row, bool(published[row])) for row in np.flatnonzero(keep).tolist()]
    return found or [_refuse(context, table, memory.most, limit)]


def _published(table: ApartTable, most: Ints) -> Bools:
    """Rows that the published algorithm looks at: its numbers of micro-batches, and `n_a` next to balance.

    Slopes of both sides are taken between half of what memory holds and all of it.
    """
    llm = table.setting.llm
    experts, top_k = int(llm.experts or 0), int(llm.top_k or 0)
    rows: Bools = (table.n_e == experts) & np.isin(table.m, PUBLISHED_M) & (table.redundant == 0) & (most > 1)
    full = np.maximum(most, 2).astype(np.float64)
    high, low = table.stages(full), table.stages(full / 2)
    longest = table.longest
    of_a = (high.attention_s[longest] - low.attention_s[longest]) / (full / 2)
    of_e = (high.expert_s - low.expert_s) / (full / 2 * table.n_a * top_k / experts)
    for row in np.flatnonzero(rows).tolist():
        slopes = {"attention_slope_s": float(of_a[row]), "expert_slope_s": float(of_e[row])}
        if min(slopes.values()) <= 0:
            rows[row] = False
            continue
        wanted = balanced_nodes(experts=experts, top_k=top_k, **slopes)
        rows[row] = abs(int(table.n_a[row]) - wanted) < 1 or (wanted < 1 and table.n_a[row] == 1)
    return rows


def _config(context: Context, table: ApartTable, memory: _Memory, best: Best, row: int, published: bool) -> Config:
    shape, batch = table.shape(row), int(best.batch[row])
    gpus = {shape.gpu: shape.attention_gpus}
    gpus[shape.expert_gpu] = gpus.get(shape.expert_gpu, 0) + shape.expert_gpus

    def held() -> dict[str, Memory]:
        attention, experts = memory.at(shape, batch)
        if shape.expert_gpu != shape.gpu:
            return {shape.gpu: attention, shape.expert_gpu: experts}
        return {shape.gpu: experts if experts.free < attention.free else attention}

    tokens, fit = float(best.rate[row]), int(best.fit[row])
    tpot = "tpot" if context.demand.slo.tpot_s is not None else "none"
    return Enumerated(
        context.place,
        "apart",
        shape,
        batch,
        gpus,
        decode_per_s=tokens / context.demand.workload.output_tokens,
        tpot_s=float(best.tpot_s[row]),
        tokens_per_s=tokens,
        kv=table.setting.numerics.kv,
        memory=held,
        binds="most" if batch == context.most_batch else "kv" if batch >= fit else tpot,
        parts_s=lambda: best.parts_of(row),
        legal_in=tuple,
        notes=(ALGORITHM_1,) if published else (),
    )


def _refuse(context: Context, table: ApartTable, most: Floats, limit: float) -> Config:
    """One line for all instances: the one that comes nearest."""
    tpot_s = None
    fits, least = np.flatnonzero(most >= 1), table.step(np.ones(len(table)))[0]
    if len(fits):
        row = int(fits[least[fits].argmin()])
        tpot_s = float(least[row])
        rule = f"TPOT is {least[row] * 1e3:.4g} ms with one sequence a node, above {limit * 1e3:.4g} ms"
    else:
        row = len(table) - 1
        rule = "no instance of these GPUs holds the experts on one side and a sequence on the other"
    shape = table.shape(row)
    gpus = {shape.gpu: shape.attention_gpus}
    gpus[shape.expert_gpu] = gpus.get(shape.expert_gpu, 0) + shape.expert_gpus
    return Config(context.place, "apart", shape, 0, gpus, tpot_s=tpot_s, reasons=(rule,))
