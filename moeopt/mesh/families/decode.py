"""Pools of replicas that decode."""

from __future__ import annotations

import numpy as np

from moeopt.mesh.config import Binds, Config, Enumerated
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.families.search import largest
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.table import Floats, Ints, Table


def decode(context: Context) -> list[Config]:
    """Decode replicas: the largest batch of each shape within TPOT and memory, with the best draft and overlap."""
    found: list[Config] = []
    for table, refused in context.fitting("decode", context.demand.workload.kept_tokens):
        found += refused
        if len(table):
            found += _judge(context, table)
    return found


def _judge(context: Context, table: Table) -> list[Config]:
    one, workload, slo = context.instance, context.demand.workload, context.demand.slo
    decoder = Decoder(table, workload.context_tokens)
    rooms: dict[tuple[int, bool], Rooms] = {}
    limit = np.inf if slo.tpot_s is None else slo.tpot_s
    best, least = Best.none(len(table)), np.full(len(table), np.inf)
    for draft, mean in enumerate((1.0, *one.drafts)):
        for overlap in (False, True) if decoder.ffn.overlaps.any() else (False,):
            context.look()
            rooms[draft, overlap] = context.rooms(table, workload.kept_tokens, draft=draft, overlap=overlap)
            fit = rooms[draft, overlap].most()
            most = np.minimum(fit, context.most_batch)

            def tpot(batch: Ints, draft: int = draft, overlap: bool = overlap, mean: float = mean) -> Floats:
                return decoder.tpot_s(batch, draft=draft, mean=mean, dual=overlap)

            least = np.minimum(least, tpot(np.ones_like(most)))
            batch = largest(lambda b, tpot=tpot: tpot(b) <= limit, most)  # type: ignore[misc]
            seconds, parts = decoder.tpot(np.maximum(batch, 1), draft=draft, mean=mean, dual=overlap)
            rate = batch * table.dp / seconds * context.launched(table, draft, overlap)
            better = rate > best.rate * (1 + 1e-12)
            best.take(better, batch=batch, rate=rate, tpot_s=seconds, parts=parts)
            best.take(better, draft=draft, overlap=overlap, fit=fit)
    return [_config(context, table, rooms, best, row, float(least[row])) for row in range(len(table))]


def _config(
    context: Context, table: Table, rooms: dict[tuple[int, bool], Rooms], best: Best, row: int, least_s: float
) -> Config:
    shape, kv = table.shapes[row], table.setting.numerics.kv
    batch, draft, overlap = int(best.batch[row]), int(best.draft[row]), bool(best.overlap[row])
    if not batch:
        return context.refuse("decode", shape, (late(context, least_s),), kv, tpot_s=least_s)
    room, tokens = rooms[draft, overlap], float(best.rate[row])
    return Enumerated(
        context.place,
        "decode",
        shape,
        batch,
        {shape.gpu: shape.gpus},
        decode_per_s=tokens / context.demand.workload.output_tokens,
        tpot_s=float(best.tpot_s[row]),
        tokens_per_s=tokens,
        draft=draft,
        overlap=overlap,
        kv=kv,
        memory=lambda: {shape.gpu: room.at(row, batch)},
        binds=binds(context, room, row, best),
        parts_s=lambda: best.parts_of(row),
        legal_in=lambda: context.legal_in(table, row, draft, overlap),
    )


def late(context: Context, least_s: float) -> str:
    """A time per token that even one sequence exceeds."""
    slo = context.demand.slo.tpot_s or 0.0
    return f"TPOT is {least_s * 1e3:.4g} ms with one sequence, above {slo * 1e3:.4g} ms"


def binds(context: Context, room: Rooms, row: int, best: Best) -> Binds:
    """What keeps a batch from growing: the instance, memory, or else the time per token."""
    batch = int(best.batch[row])
    if batch == context.most_batch:
        return "most"
    if batch == int(best.fit[row]):
        return room.binds(row)
    return "tpot" if context.demand.slo.tpot_s is not None else "none"
