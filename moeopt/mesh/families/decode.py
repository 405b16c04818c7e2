"""Pools of replicas that decode."""

from __future__ import annotations

import numpy as np

from moeopt.mesh.config import Binds, Config
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.room import Room, room_of
from moeopt.mesh.families.search import largest
from moeopt.mesh.step.decode import Decoder
from moeopt.mesh.step.parts import PARTS
from moeopt.mesh.step.table import Floats, Ints, Table


def decode(context: Context) -> list[Config]:
    """Decode replicas: the largest batch of each shape within TPOT and memory, with the best draft and overlap."""
    found: list[Config] = []
    for table, refused in context.tables("decode"):
        found += refused
        if len(table):
            found += _judge(context, table)
    return found


def _judge(context: Context, table: Table) -> list[Config]:
    one, workload, slo = context.instance, context.demand.workload, context.demand.slo
    decoder = Decoder(table, workload.context_tokens)
    room = room_of(table, workload.kept_tokens, one.reserve_bytes)
    memory = room.most()
    most = np.minimum(memory, one.most_batch)
    limit = np.inf if slo.tpot_s is None else slo.tpot_s
    best, least = Best.none(len(table)), np.full(len(table), np.inf)
    for draft, mean in enumerate((1.0, *one.drafts)):
        for overlap in (False, True) if decoder.spread.any() else (False,):

            def tpot(batch: Ints, draft: int = draft, overlap: bool = overlap, mean: float = mean) -> Floats:
                return decoder.tpot(batch, draft=draft, mean=mean, dual=overlap)[0]

            least = np.minimum(least, tpot(np.ones_like(most)))
            batch = largest(lambda b, tpot=tpot: tpot(b) <= limit, most)
            seconds, parts = decoder.tpot(np.maximum(batch, 1), draft=draft, mean=mean, dual=overlap)
            rate = batch * table.dp / seconds
            better = rate > best.rate * (1 + 1e-12)
            best.take(better, batch=batch, rate=rate, tpot_s=seconds, parts=parts, draft=draft, overlap=overlap)
    return [_config(context, table, room, best, row, int(memory[row]), float(least[row])) for row in range(len(table))]


def _config(context: Context, table: Table, room: Room, best: Best, row: int, memory: int, least_s: float) -> Config:
    shape, kv = table.shapes[row], table.setting.numerics.kv
    batch = int(best.batch[row])
    if not batch:
        return context.refuse("decode", shape, (reason_of(context, room, row, memory, least_s),), kv)
    one = context.instance
    binds: Binds = "most" if batch == one.most_batch else "kv" if batch == memory else "tpot"
    tokens = float(best.rate[row])
    return Config(
        context.place,
        "decode",
        shape,
        batch,
        {shape.gpu: shape.gpus},
        decode_per_s=tokens / context.demand.workload.output_tokens,
        tpot_s=float(best.tpot_s[row]),
        tokens_per_s=tokens,
        draft=int(best.draft[row]),
        overlap=bool(best.overlap[row]),
        kv=kv,
        memory={shape.gpu: room.at(row, batch)},
        binds=binds,
        parts_s={name: float(value) for name, value in zip(PARTS, best.parts[:, row], strict=True)},
    )


def reason_of(context: Context, room: Room, row: int, memory: int, least_s: float) -> str:
    """Why a shape has no batch at all: memory, or a time per token that even one sequence exceeds."""
    if not memory:
        return room.reason(row)
    slo = context.demand.slo.tpot_s or 0.0
    return f"TPOT is {least_s * 1e3:.4g} ms with one sequence, above {slo * 1e3:.4g} ms"
