"""Pools of replicas that prefill."""

from __future__ import annotations

import math

import numpy as np

from moeopt.cost.handoff import handoff_s
from moeopt.llm.memory import kv_bytes
from moeopt.mesh.config import Config, Enumerated
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.queue import MOST_BUSY, busy_for, wait_s
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller, portions
from moeopt.mesh.step.table import Floats, Table

LEAST_CHUNK = 1024
"""Smaller chunks are for steps that decode besides: alone they read weights again and win nothing."""


def prefill(context: Context) -> list[Config]:
    """Prefill replicas: the portion of a step, and overlap, with the highest rate whose mean TTFT keeps the SLO."""
    found: list[Config] = []
    for table, refused in context.fitting("prefill", context.demand.workload.input_tokens):
        found += refused
        if len(table):
            found += _judge(context, table)
    return found


def handoff(context: Context, table: Table) -> Floats:
    """Seconds that the cache of one prompt takes to the decode side, over the ports of its rank's GPUs.

    Each of the rank's GPUs sends its part, MLA's copies none twice; the whole cache, none of it sent while layers are
    still computed. Without a network both pools lie in one domain.
    """
    setting = table.setting
    size = kv_bytes(setting.llm, context.demand.workload.input_tokens, setting.numerics.kv)
    link = setting.gpu.network or setting.gpu.scale_up
    if link is None:
        return np.zeros(len(table))

    def figures(tp: int, cp: int, pp: int) -> tuple[float]:
        return (handoff_s(size, bytes_per_s=link.bytes_per_s, links=tp * cp * pp, fixed_s=link.alpha_s).time_s,)

    result: Floats = table.gather(figures, table.tp, table.cp, table.pp, key=("handoff", size))[0]
    return result


def together(table: Table) -> Floats:
    """Whether ranks step together (1) or each on its own (0): experts that span ranks make them wait for each other."""
    return ((table.dp > 1) & bool(table.setting.llm.moe_layers)).astype(np.float64)


def _judge(context: Context, table: Table) -> list[Config]:
    workload, slo = context.demand.workload, context.demand.slo
    prefiller = Prefiller(table, workload)
    context.look()
    rooms = {overlap: context.rooms(table, workload.input_tokens, overlap=overlap) for overlap in (False, True)}
    sent, locked = handoff(context, table), together(table)
    overlaps = (False, True) if prefiller.ffn.overlaps.any() else (False,)
    launched = {overlap: context.launched(table, 0, overlap) for overlap in overlaps}
    best, least = Best.none(len(table)), np.full(len(table), np.inf)
    options = portions(workload, LEAST_CHUNK)
    for place, portion in enumerate(options):
        context.look()
        for overlap in overlaps:
            fits = rooms[overlap].most(portion.chunk) >= portion.prompts
            fits &= launched[overlap]
            parts = prefiller.step(portion, dual=overlap)
            step = total_s(parts)
            service = step * portion.rounds
            fixed = service + (table.pp - 1) * step + sent + locked * step / 2
            if portion.prompts > 1:
                fixed = fixed + (1 - locked) * step / 2  # the batch before is still running
            least = np.minimum(least, np.where(fits, fixed, np.inf))
            if slo.ttft_s is None:
                busy = np.full(len(table), MOST_BUSY)
            else:
                busy = busy_for(slo.ttft_s - fixed, service, portion.prompts)
            rate = np.where(fits, table.dp * busy * portion.prompts / service, 0.0)
            ttft = fixed + wait_s(busy, service, portion.prompts)
            better = rate > best.rate * (1 + 1e-12)
            best.take(
                better, batch=portion.prompts, rate=rate, ttft_s=ttft, parts=parts, portion=place, overlap=overlap
            )
    return [_config(context, table, rooms, best, row, options, float(least[row])) for row in range(len(table))]


def _config(
    context: Context,
    table: Table,
    rooms: dict[bool, Rooms],
    best: Best,
    row: int,
    options: list[Portion],
    least_s: float,
) -> Config:
    shape, kv, workload = table.shapes[row], table.setting.numerics.kv, context.demand.workload
    if not best.rate[row] > 0:
        why = _reason(context, rooms[False], row, options, least_s)
        return context.refuse("prefill", shape, (why,), kv, ttft_s=least_s)
    rate, portion = float(best.rate[row]), options[int(best.portion[row])]
    return Enumerated(
        context.place,
        "prefill",
        shape,
        portion.prompts,
        {shape.gpu: shape.gpus},
        prefill_per_s=rate,
        ttft_s=float(best.ttft_s[row]),
        tokens_per_s=rate * workload.input_tokens,
        chunk=math.ceil(portion.chunk),
        overlap=bool(best.overlap[row]),
        kv=kv,
        memory=lambda: {shape.gpu: rooms[bool(best.overlap[row])].at(row, portion.prompts, portion.chunk)},
        binds="none" if context.demand.slo.ttft_s is None else "ttft",
        parts_s=lambda: best.parts_of(row),
        legal_in=lambda: context.legal_in(table, row, 0, bool(best.overlap[row])),
    )


def _reason(context: Context, room: Rooms, row: int, options: list[Portion], least_s: float) -> str:
    if not np.isfinite(least_s):
        return room.reason(row, min(portion.chunk for portion in options))
    slo = context.demand.slo.ttft_s or 0.0
    return f"TTFT is {least_s * 1e3:.4g} ms for a prompt that never waits, above {slo * 1e3:.4g} ms"
