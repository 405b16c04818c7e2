"""Decoding of long contexts with the cache split over tokens: Helix, beside pure TP and FFNs on fewer GPUs (Medha)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from moeopt.mesh.config import Config, Enumerated
from moeopt.mesh.degrees import dense_reasons, divisors, kvp_reasons, moe_tp_reasons, tp_reasons
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.decode import binds, late
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.families.search import largest
from moeopt.mesh.families.ways import redundancies
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.shape import Shape
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.table import Ints, Table


def long_context(context: Context) -> list[Config]:
    """One group of GPUs within a domain: ``TPA x KVP`` in attention, ``TPF x EP`` in FFNs over the same GPUs.

    Pure TP (``KVP = 1``) and FFNs on the TPA GPUs alone are among the shapes. The batch is the largest within TPOT and
    memory, with or without hiding the merge of one sequence behind the attention of the next (HOP-B).
    """
    found: list[Config] = []
    for table, refused in context.fitting("long", context.demand.workload.kept_tokens, shapes_of):
        found += refused
        if len(table):
            found += _judge(context, table)
    return found


def shapes_of(context: Context, gpu: GpuType) -> list[Shape]:
    """Shapes of `every_shape` in a list."""
    return list(every_shape(context, gpu))


def every_shape(context: Context, gpu: GpuType) -> Iterator[Shape]:
    """Every grid of heads and tokens within a domain and the stock, every cut of FFNs over it or its heads' GPUs."""
    llm, own, one = context.demand.llm, context.demand.numerics, context.instance
    most = min(gpu.domain_gpus, gpu.stock if gpu.stock is not None else gpu.domain_gpus)
    heads = [tp for tp in range(1, most + 1) if not tp_reasons(llm, tp, own)]
    for tp in heads:
        for kvp in range(1, most // tp + 1):
            size = tp * kvp
            if kvp_reasons(llm, kvp):
                continue
            if size > gpu.node_gpus and size % gpu.node_gpus:
                continue
            for ffn in [size] if kvp == 1 else [size, tp]:
                if dense_reasons(llm, ffn, own):
                    continue
                given = None if ffn == size else ffn
                plain = Shape("long", gpu.name, tp=tp, kvp=kvp, dense_tp=ffn, ffn_gpus=given)
                if llm.dense:
                    yield plain
                    continue
                for ep in divisors(ffn):
                    if moe_tp_reasons(llm, ffn // ep, own):
                        continue
                    for extra in redundancies(one, int(llm.experts or 0), ep)[:1]:
                        yield Shape(
                            "long",
                            gpu.name,
                            tp=tp,
                            kvp=kvp,
                            ep=ep,
                            moe_tp=ffn // ep,
                            dense_tp=ffn,
                            redundant=extra,
                            ffn_gpus=given,
                        )


def _judge(context: Context, table: Table) -> list[Config]:
    workload, slo = context.demand.workload, context.demand.slo
    decoder = Decoder(table, workload.context_tokens)
    context.look()
    rooms = context.rooms(table, workload.kept_tokens)
    fit = rooms.most()
    most = np.minimum(fit, context.most_batch)
    limit = np.inf if slo.tpot_s is None else slo.tpot_s
    best, least = Best.none(len(table)), decoder.seconds(np.ones(len(table)))
    best.take(True, fit=fit)
    batch = largest(lambda b: decoder.seconds(b) <= limit, most)
    for overlap in (False, True):
        if overlap:
            batch = _hidden(decoder, limit, batch, most)
        own = np.maximum(batch, 1).astype(np.float64)
        parts = decoder.parts(own)
        if overlap:
            parts[5] += decoder.hop_b(own) * (own - 1) / own
        seconds = total_s(parts)
        rate = batch / seconds
        better = rate > best.rate * (1 + 1e-12)
        best.take(better, batch=batch, rate=rate, tpot_s=seconds, parts=parts, overlap=overlap)
    return [_config(context, table, rooms, best, row, float(least[row])) for row in range(len(table))]


def _hidden(decoder: Decoder, limit: float, plain: Ints, most: Ints) -> Ints:
    """Largest batches where all but one part in B of a merge is hidden, at least those without hiding.

    With everything hidden times never fall with the batch, which bounds the batch from above; from there down the first
    that keeps the limit is the largest.
    """
    batch = np.maximum(largest(lambda b: decoder.seconds(b) - decoder.hop_b(b) <= limit, most), plain)
    while True:
        own = np.maximum(batch, 1).astype(np.float64)
        seconds = decoder.seconds(own) - decoder.hop_b(own) * (own - 1) / own
        late = (seconds > limit) & (batch > plain)
        if not late.any():
            return batch
        batch = batch - late


def _config(context: Context, table: Table, rooms: Rooms, best: Best, row: int, least_s: float) -> Config:
    shape, kv, batch = table.shapes[row], table.setting.numerics.kv, int(best.batch[row])
    if not batch:
        if best.fit[row] < 1:
            return context.refuse("long", shape, (rooms.reason(row),), kv)
        return context.refuse("long", shape, (late(context, least_s),), kv, tpot_s=least_s)
    tokens = float(best.rate[row])
    return Enumerated(
        context.place,
        "long",
        shape,
        batch,
        {shape.gpu: shape.gpus},
        decode_per_s=tokens / context.demand.workload.output_tokens,
        tpot_s=float(best.tpot_s[row]),
        tokens_per_s=tokens,
        overlap=bool(best.overlap[row]),
        kv=kv,
        memory=lambda: {shape.gpu: rooms.at(row, batch)},
        binds=binds(context, rooms, row, best),
        parts_s=lambda: best.parts_of(row),
        legal_in=lambda: context.legal_in(table, row),
    )
