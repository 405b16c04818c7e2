"""Memory of many shapes at once: what is fixed on the GPUs of each stage, and what a sequence adds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moeopt.cost.memory import kv_bytes_per_gpu, weights_per_gpu
from moeopt.mesh.config import Memory
from moeopt.mesh.step.table import Floats, Ints, Table


@dataclass(frozen=True)
class Room:
    """Bytes on a GPU of every row: parts that are fixed, and those of one sequence of its rank."""

    weights: Floats
    experts: Floats
    redundant: Floats
    kv: Floats
    reserve: float
    usable: float

    def most(self) -> Ints:
        """Sequences of a rank that fit."""
        free = self.usable - self.reserve - self.weights - self.experts - self.redundant
        return np.maximum(np.floor(free / self.kv), 0).astype(np.int64)

    def at(self, row: int, sequences: float) -> Memory:
        """Parts with so many sequences."""
        return Memory(
            weights=float(self.weights[row]),
            experts=float(self.experts[row]),
            redundant=float(self.redundant[row]),
            kv=float(self.kv[row]) * sequences,
            buffers=0.0,
            reserve=self.reserve,
            usable=self.usable,
        )

    def reason(self, row: int) -> str:
        """Why not even one sequence fits."""
        held = self.at(row, 1.0)
        alone = held.used - held.kv > held.usable
        needed, what = (held.used - held.kv, "weights alone") if alone else (held.used, "weights and one sequence")
        return f"does not fit: {what} need {needed / 1e9:.4g} GB of {held.usable / 1e9:.4g} GB usable on a GPU"


def room_of(table: Table, kept_tokens: int, reserve: float) -> Room:
    """Memory where each sequence keeps so many tokens; stages hold layers in proportion to their number."""
    llm, numerics, machine = table.setting.llm, table.setting.numerics, table.setting.gpu.machine
    part = np.array([-(-llm.layers // pp) / llm.layers for pp in table.pp.tolist()])

    def other(tp: int, dense_tp: int) -> tuple[float, ...]:
        weights = weights_per_gpu(llm, tp=tp, ffn_tp=dense_tp, numerics=numerics)
        one = kv_bytes_per_gpu(llm, context_tokens=kept_tokens, tp=tp, kv=numerics.kv)
        return weights.total - weights.routed, weights.routed, one

    rest, routed, one = table.gather(other, table.tp, table.dense_tp)
    spread = table.ep * table.moe_tp
    extra = table.redundant / max(int(llm.experts or 1), 1)
    return Room(
        weights=rest * part,
        experts=routed / spread * part,
        redundant=routed * extra / spread * part,
        kv=one * part,
        reserve=reserve,
        usable=machine.usable_bytes(),
    )
