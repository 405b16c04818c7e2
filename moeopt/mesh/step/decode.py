"""Seconds of one decode step for many shapes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.step.communicate import around, exchange, merge, vector_bytes
from moeopt.mesh.step.table import Floats, Ints, Table, kinds_of
from moeopt.mesh.step.works import attention_works, dense_works, expert_works, head_works

PARTS = ("attention", "experts", "communication", "overhead", "head", "hidden")
"""Parts of a step, as `moeopt.mesh.config.Config.parts_s` names them; ``hidden`` is what overlap takes off."""


@dataclass(frozen=True)
class Step:
    """Seconds by part, (6, S) in the order of `PARTS`, of the slowest stage; times the stages, it is a token's."""

    parts: Floats

    @property
    def total_s(self) -> Floats:
        """Seconds of the step."""
        return self.parts[:5].sum(axis=0) - self.parts[5]


class Decoder:
    """Decode steps of a table of shapes at one context.

    Parameters
    ----------
    table, context_tokens
        Shapes, and tokens that each sequence attends to.

    Notes
    -----
    Strength: model. For one stage it is `moeopt.cost.ep_decode` (TP1), `moeopt.cost.tp_decode` (one group) and
    `moeopt.cost.helix_decode` (a split cache), to rounding, and joins them: attention over TP and DP above experts over
    EP and TP, two fabrics, stages. Every part grows with the sequences, and no part grows faster than they do: seconds
    a sequence never rise, so the largest batch that keeps a limit has the most throughput.
    """

    def __init__(self, table: Table, context_tokens: float) -> None:
        llm = table.setting.llm
        self.table = table
        self.kinds, self.layers = kinds_of(llm, context_tokens)
        self.counts, self.last = table.stages(self.kinds, self.layers)
        self.attention = {tokens: attention_works(table, tokens) for tokens, _ in self.kinds}
        self.head = head_works(table)
        self.dense = self.experts = None
        self.merged = merge(table)
        if any(not moe for _, moe in self.kinds):
            self.dense = dense_works(table, int(llm.dense_width or 0))
            self.dense_lines = around(table, table.dense_tp)
        if llm.moe_layers:
            self.experts = expert_works(table)
            self.gathered = around(table, table.ffn_stage)
            self.scattered = around(table, table.dense_tp if llm.shared_experts else np.ones_like(table.tp))
            self.exchanged = exchange(table, prefill=False)
        hop = [
            table.setting.gpu.link(gpus * pp) if pp > 1 else None
            for gpus, pp in zip(table.stage, table.pp, strict=True)
        ]
        own = vector_bytes(table.setting) * table.dp / table.stage
        self.hop = (
            np.array([(link.alpha_s, 1 / link.bytes_per_s) if link else (0.0, 0.0) for link in hop]).reshape(-1, 2).T
        )
        self.hop[1] *= own

    @property
    def spread(self) -> NDArray[np.bool_]:
        """Rows that have communication to hide in layers with experts."""
        return (self.table.stage > 1) & bool(self.table.setting.llm.moe_layers)

    def tpot(
        self, batch: Floats | Ints, *, draft: int = 0, mean: float = 1.0, dual: bool = False
    ) -> tuple[Floats, Floats]:
        """Seconds a token of one sequence, and its parts, with so many sequences of each rank in all stages together.

        Parameters
        ----------
        batch
            Sequences of each data-parallel rank; stages work on ``batch / pp`` of them at a time, at least on one.
        draft, mean
            Tokens drafted a step, each by a pass of one layer and the head, and mean tokens that a step yields.
        """
        own = np.maximum(np.asarray(batch, dtype=np.float64) / self.table.pp, 1.0)
        parts = self.step(own, queries=draft + 1, dual=dual).parts * self.table.pp
        if draft:
            parts = parts + draft * self.drafting(own)
        parts = parts / mean
        return parts[:5].sum(axis=0) - parts[5], parts

    def step(self, sequences: Floats, *, queries: int = 1, dual: bool = False) -> Step:
        """One pass of `sequences` of each rank through the slowest stage, `queries` tokens of each (drafts checked).

        ``dual``: two micro-batches of half the sequences in layers with experts, one computing while the other
        communicates; their weights are read twice.
        """
        machine = self.table.setting.gpu.machine
        parts = np.zeros((len(PARTS), *self.last.shape))
        for place, (tokens, moe) in enumerate(self.kinds):
            times = 2 if dual and moe else 1
            own = np.asarray(sequences, dtype=np.float64) / times
            layer = self._layer(tokens, moe, own, queries)
            if times == 2:
                layer[5] = np.minimum(layer[0] + layer[1], layer[2])
            parts += times * layer[:, :, None] * self.counts[None, :, :, place]
        every = np.asarray(sequences, dtype=np.float64) * queries
        parts[4] += self.head.seconds(machine, every)[:, None] * self.last
        parts[2] += (self.hop[0] + self.hop[1] * every)[:, None]
        slowest = (parts[:5].sum(axis=0) - parts[5]).argmax(axis=1)
        return Step(np.take_along_axis(parts, slowest[None, :, None], axis=2)[:, :, 0])

    def _layer(self, tokens: float, moe: bool, own: Floats, queries: int) -> Floats:
        """Parts of one layer for `own` sequences of each rank."""
        setting = self.table.setting
        first = self.attention[tokens].seconds(setting.gpu.machine, own * queries, own)
        if moe:
            assert self.experts is not None
            second = self.experts.seconds(self.table, own * queries)
            sent = self._sent(own * queries)
        else:
            assert self.dense is not None
            second = self.dense.seconds(setting.gpu.machine, own * queries)
            sent = self.dense_lines[0] + self.dense_lines[1] * own * queries
        sent = sent + self.merged[0] + self.merged[1] * own * queries
        nothing = np.zeros_like(first)
        return np.stack([first, second, sent, np.full_like(first, setting.overhead_s), nothing, nothing])

    def drafting(self, own: Floats) -> Floats:
        """Parts of drafting one token: a pass of the last layer, and of the head."""
        parts = self._layer(*self.kinds[self.layers[-1]], own, 1)
        parts[4] = self.head.seconds(self.table.setting.gpu.machine, own)
        return parts

    def _sent(self, tokens: Floats) -> Floats:
        """Communication of a layer with experts: gathered on all GPUs, or exchanged between GPUs with whole experts."""
        table = self.table
        gathered = self.gathered[0] + self.gathered[1] * tokens
        nic = self.exchanged[0] + self.exchanged[1] * tokens
        fast = self.exchanged[2] + self.exchanged[3] * tokens
        exchanged = self.scattered[0] + self.scattered[1] * tokens + np.maximum(nic, fast)
        whole = (table.moe_tp == 1) & (table.ep > 1)
        if table.setting.transport == "allgather":
            return gathered
        near = table.stage <= table.setting.gpu.domain_gpus
        either = near & (table.setting.transport == "auto")
        return np.where(whole, np.where(either, np.minimum(gathered, exchanged), exchanged), gathered)
