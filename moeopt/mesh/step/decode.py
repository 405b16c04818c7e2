"""Seconds of decode steps for many shapes at once, with or without a portion of prefill beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from moeopt.llm.layer_kinds import LayerKind, draft_kind
from moeopt.mesh.step.communicate import merge
from moeopt.mesh.step.layers import FfnLayers
from moeopt.mesh.step.parts import PARTS, longest, slowest, total_s
from moeopt.mesh.step.table import Floats, Ints, Table, kinds_of
from moeopt.mesh.step.works import attention_works


@dataclass(frozen=True)
class Beside:
    """Prefill beside decoding: seconds of its attention in a layer, by the layer's kind, and its tokens of each rank in
    FFNs and communication. For `Decoder.seconds` both may have a leading axis of cases.
    """

    attention_s: Mapping[LayerKind, Floats]
    tokens: Floats | float


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
        llm = table.setting.llm
        self.kinds, self.layers = kinds_of(llm)
        self.counts, self.last = table.stages(len(self.kinds), self.layers)
        self.drafter = draft_kind(llm)
        kinds = dict.fromkeys([*(kind for kind, _ in self.kinds), self.drafter])
        self.attention = {kind: attention_works(table, kind, context_tokens) for kind in kinds}
        self.ffn = FfnLayers(table, prefill=False)
        self.launches = self._launches()
        self.merged = merge(table) if np.any(table.kvp > 1) else None

    def _launches(self) -> dict[bool, Floats]:
        """Launches of layers in every stage, without and with two micro-batches."""
        moe = np.array([float(moe) for _, moe in self.kinds])
        return {dual: self.counts @ (1 + moe * dual) for dual in (False, True)}

    def take(self, rows: Ints) -> Decoder:
        """These rows, in this order."""
        made = copy(self)
        made.ffn = self.ffn.take(rows)
        made.table, made.counts, made.last = made.ffn.table, self.counts[rows], self.last[rows]
        made.attention = {kind: works.take(rows) for kind, works in self.attention.items()}
        made.launches = {dual: count[rows] for dual, count in self.launches.items()}
        made.merged = None if self.merged is None else self.merged[:, rows]
        return made

    def stage(self, counts: Sequence[float], *, last: bool) -> Decoder:
        """The same with one stage of so many layers of each kind, with or without the head."""
        made = copy(self)
        made.counts = np.tile(np.array(counts, dtype=np.float64), (len(self.table), 1, 1))
        made.last, made.launches = np.full((len(self.table), 1), float(last)), {}
        made.launches = made._launches()
        return made

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
        parts = self.parts(own, queries=draft + 1, dual=dual) * self.table.pp
        if draft:
            parts = parts + draft * self.drafting(own)
        parts = parts / mean
        return total_s(parts), parts

    def tpot_s(self, batch: Floats | Ints, *, draft: int = 0, mean: float = 1.0, dual: bool = False) -> Floats:
        """The first of `tpot` alone, which is quicker."""
        own = self.own(batch)
        seconds = self.seconds(own, queries=draft + 1, dual=dual) * self.table.pp
        return (seconds + (draft * total_s(self.drafting(own)) if draft else 0.0)) / mean

    def own(self, batch: Floats | Ints) -> Floats:
        """Sequences of a rank that a stage works on at a time."""
        return np.maximum(np.asarray(batch, dtype=np.float64) / self.table.pp, 1.0)

    def parts(
        self, sequences: Floats | Ints, *, queries: int = 1, dual: bool = False, beside: Beside | None = None
    ) -> Floats:
        """Parts of one pass of `sequences` of each rank through the slowest stage, (6, S) in the order of `PARTS`.

        Parameters
        ----------
        sequences, queries
            Sequences of each rank, and tokens of each (drafts that are checked, and one more).
        dual
            Two micro-batches of half the sequences in layers with experts, one computing while the other communicates;
            their weights are read twice.
        beside
            Prefill in the same step.
        """
        found = np.zeros((len(PARTS), *self.last.shape))
        for place, (times, layer) in enumerate(self._layers(sequences, queries, dual, beside)):
            for part, seconds in enumerate(layer):
                found[part] += (times * seconds)[:, None] * self.counts[:, :, place]
        head, hop = self._ends(sequences, queries, beside)
        found[4] += head[:, None] * self.last
        found[2] += hop[:, None]
        found[3] += self.table.setting.overhead_s * self.launches[dual]
        return slowest(found)

    def hop_b(self, sequences: Floats | Ints) -> Floats:
        """Seconds that merging one sequence's partial attention behind the attention of the next may hide in a step.

        The shorter of both, of which a ``1/B`` part stays in sight where one latency serves the whole batch
        (`moeopt.cost.helix_decode`).
        """
        if self.merged is None:
            return np.zeros(len(self.table))
        sequences = np.asarray(sequences, dtype=np.float64)
        merged = self.merged[0] + self.merged[1] * sequences
        attention, layers = np.zeros(len(self.table)), np.zeros(len(self.table))
        for place, (kind, _) in enumerate(self.kinds):
            if kind.linear:
                continue  # a state is whole on every GPU: nothing is merged
            count = self.counts[:, :, place].sum(axis=1)
            one = self.attention[kind].seconds(self.table.setting.gpu.machine, sequences, sequences)
            attention, layers = attention + one * count, layers + count
        result: Floats = np.minimum(attention, layers * merged)
        return result

    def seconds(
        self, sequences: Floats | Ints, *, queries: int = 1, dual: bool = False, beside: Beside | None = None
    ) -> Floats:
        """The sum of `parts` alone, which is quicker."""
        head, hop = self._ends(sequences, queries, beside)
        found = head[:, None] * self.last + self.table.setting.overhead_s * self.launches[dual]
        for place, (times, layer) in enumerate(self._layers(sequences, queries, dual, beside)):
            one = layer[0] + layer[1] + layer[2] - (layer[5] if times == 2 else 0.0)
            found = found + (times * one)[..., None] * self.counts[:, :, place]
        return longest(found) + hop

    def _ends(self, sequences: Floats | Ints, queries: int, beside: Beside | None) -> tuple[Floats, Floats]:
        """Seconds of the head, and of the hop to the next stage."""
        tokens = np.asarray(sequences, dtype=np.float64) * queries
        more = beside.tokens if beside is not None else 0.0
        return self.ffn.head.seconds(self.table.setting.gpu.machine, tokens), self.ffn.hop_s(tokens + more)

    def _layers(
        self, sequences: Floats | Ints, queries: int, dual: bool, beside: Beside | None
    ) -> Iterator[tuple[int, list[Floats]]]:
        """For each kind of layer, how many micro-batches, and the parts of one."""
        sequences = np.asarray(sequences, dtype=np.float64)
        attended: dict[tuple[LayerKind, int], Floats] = {}  # layers differ in what follows attention more often
        for kind, moe in self.kinds:
            times = 2 if dual and moe else 1
            own = sequences / times
            if (kind, times) not in attended:
                attended[kind, times] = self._attention_s(kind, own, queries)
            yield times, self._layer(kind, moe, own, queries, beside, times, attended[kind, times])

    def _layer(
        self,
        kind: LayerKind,
        moe: bool,
        own: Floats,
        queries: int,
        beside: Beside | None = None,
        times: int = 1,
        attention_s: Floats | None = None,
    ) -> list[Floats]:
        """Parts of one layer for `own` sequences of each rank and a `times`-th of what is beside, but for launches."""
        every = own * queries
        first = self._attention_s(kind, own, queries) if attention_s is None else attention_s
        after = every
        if beside is not None:
            first = first + beside.attention_s[kind] / times
            after = every + beside.tokens / times
        second, sent, exchanged = self.ffn.seconds(after, moe=moe, dual=times == 2)
        if self.merged is not None and not kind.linear:
            sent = sent + self.merged[0] + self.merged[1] * every
        nothing = np.zeros_like(first)
        hidden = np.minimum(first + second + sent - exchanged, exchanged) if times == 2 else nothing
        return [first, second, sent, nothing, nothing, hidden]

    def _attention_s(self, kind: LayerKind, own: Floats, queries: int) -> Floats:
        """Seconds of attention of one layer for `own` sequences of each rank."""
        return self.attention[kind].seconds(self.table.setting.gpu.machine, own * queries, own)

    def drafting(self, own: Floats) -> Floats:
        """Parts of drafting one token: a pass of a layer such as the last one, and of the head."""
        parts = self._layer(self.drafter, self.kinds[self.layers[-1]][1], own, 1)
        parts[3] = np.full_like(parts[3], self.table.setting.overhead_s)
        parts[4] = self.ffn.head.seconds(self.table.setting.gpu.machine, own)
        return np.stack(parts)
