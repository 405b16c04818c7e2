"""Memory of many shapes at once: `moeopt.mesh.memory` as columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from moeopt.cost.roofline import Numerics
from moeopt.mesh.config import Memory
from moeopt.mesh.holdings import even_stages, held_by
from moeopt.mesh.step.table import Floats, Ints, Table
from moeopt.mesh.transport import buffers_of


class Rooms:
    """What every row of a table holds on each stage, whatever the batch: `moeopt.mesh.memory.room_of` of all rows.

    Parameters
    ----------
    table
        Shapes without faults.
    kept_tokens, reserve_bytes, numerics
        As in `room_of`; the format of the cache is that of the table.
    draft
        Tokens drafted a step: with any MTP layers are loaded, and linear layers keep a state for each.
    overlap
        Whether two micro-batches are there at once.

    Notes
    -----
    Strength: exact, as `room_of`: the same sums, looked up once for what shapes share.
    """

    def __init__(
        self,
        table: Table,
        *,
        kept_tokens: int,
        reserve_bytes: float = 0.0,
        numerics: Numerics | None = None,
        draft: int = 0,
        overlap: bool = False,
    ) -> None:
        setting = table.setting
        llm, gpu = setting.llm, setting.gpu
        most = max(table.pp.tolist())
        kv, states = setting.numerics.kv, 1 + draft if llm.attention.linear else 1

        def held(tp: int, cp: int, kvp: int, pp: int, dense_tp: int, ffn: int) -> list[float]:
            shape = replace(
                table.shapes[0], tp=tp, dp=1, cp=cp, kvp=kvp, pp=pp, ep=1, moe_tp=1, dense_tp=dense_tp, redundant=0
            )
            shape = replace(shape, ffn_gpus=ffn or None)
            rows = held_by(shape, llm, numerics, even_stages(llm.layers, pp), kept_tokens, kv, draft > 0, states)
            rows = rows + (rows[-1],) * (most - len(rows))
            return [*(row.weights for row in rows), *(row.experts for row in rows), *(row.kv for row in rows)]

        ffn = np.array([shape.ffn_gpus or 0 for shape in table.shapes])
        role = table.shapes[0].role
        columns = (table.tp, table.cp, table.kvp, table.pp, table.dense_tp, ffn)
        found = table.gather(held, *columns, key=("held", role, numerics, kept_tokens, draft > 0, states, most))
        weights, experts, cache = found.reshape(3, most, len(table))
        spread = table.ep * table.moe_tp
        self.weights, self.kv = weights, cache
        self.experts = experts / spread
        self.stages = table.pp.tolist()
        self.redundant = experts * table.redundant / max(int(llm.experts or 1), 1) / spread
        self.fixed = self.weights + self.experts + self.redundant

        def buffers(ep: int, moe_tp: int, redundant: int) -> tuple[float, float, float]:
            shape = replace(table.shapes[0], ep=ep, moe_tp=moe_tp, redundant=redundant, ffn_gpus=None)
            one = buffers_of(shape, llm, gpu, setting.transport, overlap=overlap)
            return one.base, one.slope, one.prompt_slope

        self.base, self.slope, self.prompt_slope = table.gather(
            buffers, table.ep, table.moe_tp, table.redundant, key=("buffers", role, overlap)
        )
        share = table.tp * table.cp * table.kvp
        decodes = table.shapes[0].role != "prefill"
        self.tokens = ((1 + draft) / table.pp / share) if decodes else np.zeros(len(table))
        self.chunk = 1 / share
        self.reserve, self.usable = float(reserve_bytes), gpu.machine.usable_bytes()

    def used(self, sequences: Floats | Ints, chunk: float = 0.0) -> Floats:
        """Bytes at so many sequences of each rank, and so many prompt tokens of a rank and step: (stages, rows)."""
        buffers = self.base + self.slope * self.tokens * sequences + self.prompt_slope * self.chunk * chunk
        result: Floats = self.fixed + self.kv * sequences + buffers + self.reserve
        return result

    def most(self, chunk: float = 0.0) -> Ints:
        """Most sequences of a rank that fit; 0 where none does."""
        left = self.usable - self.used(np.zeros(len(self.base)), chunk)
        found = np.floor((left / (self.kv + self.slope * self.tokens)).min(axis=0))
        found = np.maximum(found, 0.0)
        for change in (1.0, -1.0, -1.0):  # a division may round either way
            fits = (self.used(found + max(change, 0.0), chunk) <= self.usable).all(axis=0)
            found = np.where(fits, found + max(change, 0.0), found + min(change, 0.0))
        result: Ints = np.maximum(found, 0.0).astype(np.int64)
        return result

    def at(self, row: int, sequences: float, chunk: float = 0.0) -> Memory:
        """Parts on the GPU that holds most."""
        buffers = self.base[row] + self.slope[row] * self.tokens[row] * sequences
        buffers += self.prompt_slope[row] * self.chunk[row] * chunk
        stages = range(self.stages[row])
        stage = max(stages, key=lambda s: self.fixed[s, row] + self.kv[s, row] * sequences) if len(stages) > 1 else 0
        return Memory(
            weights=float(self.weights[stage, row]),
            experts=float(self.experts[stage, row]),
            redundant=float(self.redundant[stage, row]),
            kv=float(self.kv[stage, row]) * sequences,
            buffers=float(buffers),
            reserve=self.reserve,
            usable=self.usable,
        )

    def binds(self, row: int) -> Literal["kv", "buffer"]:
        """What a further sequence takes more of."""
        return "buffer" if self.slope[row] * self.tokens[row] > self.kv[:, row].max() else "kv"

    def reason(self, row: int, chunk: float = 0.0) -> str:
        """Why not even one sequence fits."""
        none, one = self.at(row, 0.0, chunk), self.at(row, 1.0, chunk)
        held, what = (none, "weights and buffers") if none.free < 0 else (one, "weights, buffers and one sequence")
        return f"does not fit: {what} need {held.used / 1e9:.4g} GB of {held.usable / 1e9:.4g} GB usable on a GPU"
