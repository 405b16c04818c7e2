"""What follows attention in a layer: FFN or experts, and everything that is sent."""

from __future__ import annotations

from copy import copy

import numpy as np

from moeopt.mesh.step.communicate import around, exchange, vector_bytes
from moeopt.mesh.step.table import Bools, Floats, Ints, Table
from moeopt.mesh.step.works import dense_works, expert_works, head_works


class FfnLayers:
    """Seconds of FFNs, experts, collectives, hops between stages and the head, in tokens of a data-parallel rank.

    Parameters
    ----------
    table
        Shapes.
    prefill
        Whether the all-to-all over nodes is that of prefill.
    """

    def __init__(self, table: Table, *, prefill: bool) -> None:
        llm = table.setting.llm
        self.table = table
        self.head = head_works(table)
        self.dense = self.experts = None
        if llm.dense_layers:
            self.dense = dense_works(table, int(llm.dense_width or 0))
            self.dense_lines = around(table, table.dense_tp)
        if llm.moe_layers:
            self.experts = expert_works(table)
            self.gathered = around(table, table.ffn_stage)
            self.scattered = around(table, table.dense_tp if llm.shared_experts else np.ones_like(table.tp))
            self.exchanged = exchange(table, prefill=prefill)
            whole = (table.moe_tp == 1) & (table.ep > 1) & (table.setting.transport != "allgather")
            near = table.ffn_stage <= table.setting.gpu.domain_gpus
            self.only_gathered, self.either = ~whole, whole & near & (table.setting.transport == "auto")
        self.hop = table.gather(self._hop, table.stage, table.pp, table.dp, key="hop")

    def take(self, rows: Ints) -> FfnLayers:
        """These rows, in this order."""
        made = copy(self)
        for name, value in self.__dict__.items():
            if value is not None:
                setattr(made, name, value[..., rows] if isinstance(value, np.ndarray) else value.take(rows))
        return made

    def _hop(self, stage: int, pp: int, dp: int) -> tuple[float, float]:
        if pp == 1:
            return 0.0, 0.0
        link = self.table.setting.gpu.link(stage * pp)
        return link.alpha_s, vector_bytes(self.table.setting) * dp / stage / link.bytes_per_s

    def hop_s(self, tokens: Floats) -> Floats:
        """Seconds of sending tokens to the next stage."""
        result: Floats = self.hop[0] + self.hop[1] * tokens
        return result

    def seconds(self, tokens: Floats, *, moe: bool, dual: bool = False) -> tuple[Floats, Floats, Floats]:
        """The FFN of one layer, what the layer sends, and the part of that which another micro-batch can hide.

        That part is dispatch and combine: collectives of tensor groups wait for what is computed around them.
        """
        if not moe:
            assert self.dense is not None
            computed = self.dense.seconds(self.table.setting.gpu.machine, tokens)
            return computed, self.dense_lines[0] + self.dense_lines[1] * tokens, np.zeros_like(computed)
        assert self.experts is not None
        noise = self.table.noise(tokens)
        sent, hidden = self._sent(tokens, noise, dual)
        return self.experts.seconds(self.table, tokens, noise), sent, hidden

    def _sent(self, tokens: Floats, noise: Floats, dual: bool) -> tuple[Floats, Floats]:
        """Gathered on all GPUs, or exchanged between GPUs with whole experts; the quicker where a domain has both."""
        gathered = self.gathered[0] + self.gathered[1] * tokens
        busiest = tokens * noise
        nic = self.exchanged[0] + self.exchanged[1] * busiest
        exchanged = np.maximum(nic, self.exchanged[2] + self.exchanged[3] * busiest)
        whole = self.scattered[0] + self.scattered[1] * tokens + exchanged
        if dual:
            return np.where(self.only_gathered, gathered, whole), np.where(self.only_gathered, 0.0, exchanged)
        best = np.where(self.either, np.minimum(gathered, whole), whole)
        return np.where(self.only_gathered, gathered, best), exchanged

    @property
    def overlaps(self) -> Bools:
        """Rows that have something to hide."""
        return ~self.only_gathered if self.experts is not None else np.zeros(len(self.table), dtype=bool)
