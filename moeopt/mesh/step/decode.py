"""Seconds of decode steps for many shapes at once, with or without a portion of prefill beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.step.communicate import merge
from moeopt.mesh.step.layers import FfnLayers
from moeopt.mesh.step.parts import PARTS, slowest, total_s
from moeopt.mesh.step.table import Floats, Ints, Table, kinds_of
from moeopt.mesh.step.works import attention_works


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
        self.table = table
        self.kinds, self.layers = kinds_of(table.setting.llm, context_tokens)
        self.counts, self.last = table.stages(len(self.kinds), self.layers)
        self.attention = {tokens: attention_works(table, tokens) for tokens, _ in self.kinds}
        self.ffn = FfnLayers(table, prefill=False)
        self.merged = merge(table)

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
        own = self.own(batch)
        parts = self.step(own, queries=draft + 1, dual=dual) * self.table.pp
        if draft:
            parts = parts + draft * self.drafting(own)
        parts = parts / mean
        return total_s(parts), parts

    def own(self, batch: Floats | Ints) -> Floats:
        """Sequences of a rank that a stage works on at a time."""
        return np.maximum(np.asarray(batch, dtype=np.float64) / self.table.pp, 1.0)

    def step(
        self,
        sequences: Floats,
        *,
        queries: int = 1,
        dual: bool = False,
        beside_s: dict[bool, Floats] | None = None,
        beside_tokens: Floats | float = 0.0,
    ) -> Floats:
        """Parts of one pass of `sequences` of each rank through the slowest stage, (6, S) in the order of `PARTS`.

        Parameters
        ----------
        sequences, queries
            Sequences of each rank, and tokens of each (drafts that are checked, and one more).
        dual
            Two micro-batches of half the sequences in layers with experts, one computing while the other communicates;
            their weights are read twice.
        beside_s, beside_tokens
            Prefill in the same step: seconds of its attention in a layer (by whether it has a window), and its tokens
            of each rank in FFNs and communication.
        """
        parts = np.zeros((len(PARTS), *self.last.shape))
        sequences = np.asarray(sequences, dtype=np.float64)
        for place, (tokens, moe) in enumerate(self.kinds):
            times = 2 if dual and moe else 1
            layer = self._layer(tokens, moe, sequences / times, queries, beside_tokens / times)
            if beside_s is not None:
                layer[0] += beside_s[tokens < self.kinds[self.full][0]] / times
            if times == 2:
                layer[5] = np.minimum(layer[0] + layer[1], layer[2])
            parts += times * layer[:, :, None] * self.counts[None, :, :, place]
        every = sequences * queries
        parts[4] += self.ffn.head.seconds(self.table.setting.gpu.machine, every)[:, None] * self.last
        parts[2] += self.ffn.hop_s(every + beside_tokens)[:, None]
        return slowest(parts)

    @property
    def full(self) -> int:
        """The kind of layer that attends to most."""
        return max(range(len(self.kinds)), key=lambda place: self.kinds[place][0])

    def _layer(self, tokens: float, moe: bool, own: Floats, queries: int, more: Floats | float = 0.0) -> Floats:
        """Parts of one layer for `own` sequences of each rank, and `more` tokens in what follows attention."""
        setting = self.table.setting
        layer = np.zeros((len(PARTS), len(self.table)))
        layer[0] = self.attention[tokens].seconds(setting.gpu.machine, own * queries, own)
        layer[1], layer[2] = self.ffn.seconds(own * queries + more, moe=moe)
        layer[2] += self.merged[0] + self.merged[1] * own * queries
        layer[3] = setting.overhead_s
        return layer

    def drafting(self, own: Floats) -> Floats:
        """Parts of drafting one token: a pass of the last layer, and of the head."""
        parts = self._layer(*self.kinds[self.layers[-1]], own, 1)
        parts[4] = self.ffn.head.seconds(self.table.setting.gpu.machine, own)
        return parts
