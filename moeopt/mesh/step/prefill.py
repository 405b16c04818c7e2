"""Seconds of prefill steps for many shapes at once: whole prompts, or chunks of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from moeopt.cost.context_volumes import cp_gather_volume, cp_volume
from moeopt.cost.layer_works import layer_prefill
from moeopt.cost.roofline import Machine, Work
from moeopt.llm.facts import GROWING
from moeopt.llm.layer_kinds import LayerKind
from moeopt.llm.memory import index_bytes
from moeopt.mesh.step.layers import FfnLayers
from moeopt.mesh.step.parts import PARTS, slowest
from moeopt.mesh.step.table import Floats, Table, kinds_of
from moeopt.mesh.step.works import roofline
from moeopt.mesh.workload import Workload

MOST_TOKENS = 16384
"""Prompt tokens of a rank and step at most: beyond this kernels gain nothing and activations fill memory."""


@dataclass(frozen=True)
class Portion:
    """What one step prefills on each rank: `prompts` whole ones, or one chunk.

    Parameters
    ----------
    prompts
        Prompts at once.
    tokens
        New tokens of each: all that prefill computes, or those of a chunk.
    before
        Tokens in the cache before these, mean of all chunks.
    rounds
        Steps until a prompt is read.
    """

    prompts: int
    tokens: float
    before: float
    rounds: int

    @property
    def chunk(self) -> float:
        """New tokens of a rank and step."""
        return self.prompts * self.tokens


def portions(workload: Workload, least: int = 128) -> list[Portion]:
    """Chunks of powers of two from `least` tokens, the whole prompt, and twice as many prompts at a time, ever again.

    >>> [(p.prompts, p.tokens, p.rounds) for p in portions(Workload(3000, 100), least=1024)]
    [(1, 1024.0, 3), (1, 2048.0, 2), (1, 3000.0, 1), (2, 3000.0, 1), (4, 3000.0, 1)]
    """
    new, cached = max(workload.computed_tokens, 1.0), workload.cached_tokens
    found = []
    size = least
    while size < min(new, MOST_TOKENS + 1):
        found.append(Portion(1, float(size), cached + (new - size) / 2, math.ceil(new / size)))
        size *= 2
    prompts = 1
    while prompts * new <= MOST_TOKENS or (prompts == 1 and not found):
        found.append(Portion(prompts, new, cached, 1))
        prompts *= 2
    return found


class Prefiller:
    """Prefill steps of a table of shapes.

    Strength: model. With one GPU a rank it is `moeopt.cost.layer_prefill`, `moe_ffn` and `dense_ffn` one after the
    other; context parallelism splits queries evenly (stripes) and sends keys and values around or turns heads and
    tokens, whichever is quicker.
    """

    def __init__(self, table: Table, workload: Workload) -> None:
        llm = table.setting.llm
        self.table, self.workload = table, workload
        self._known: dict[tuple[int, float, float, LayerKind], tuple[Work, ...]] = {}
        self.kinds, self.layers = kinds_of(llm)
        self.counts, self.last = table.stages(len(self.kinds), self.layers)
        self.ffn = FfnLayers(table, prefill=True)

    def stage(self, counts: Sequence[float], *, last: bool) -> Prefiller:
        """The same with one stage of so many layers of each kind, with or without the head."""
        made = copy(self)
        made.counts = np.tile(np.array(counts, dtype=np.float64), (len(self.table), 1, 1))
        made.last = np.full((len(self.table), 1), float(last))
        return made

    def step(self, portion: Portion, *, dual: bool = False) -> Floats:
        """Parts of one pass of this portion of each rank through the slowest stage; `dual` as in decoding."""
        table, setting = self.table, self.table.setting
        parts = np.zeros((len(PARTS), *self.last.shape))
        for place, (kind, moe) in enumerate(self.kinds):
            times = 2 if dual and moe else 1
            first = self.attention_s(portion, kind, setting.gpu.machine, times=times)
            own = np.full(len(table), portion.chunk / times)
            second, sent, exchanged = self.ffn.seconds(own, moe=moe, dual=times == 2)
            hidden = np.minimum(first + second + sent - exchanged, exchanged) if times == 2 else np.zeros_like(first)
            sent = sent + self.passed(portion, kind) / times
            nothing = np.zeros_like(first)
            layer = np.stack([first, second, sent, nothing + setting.overhead_s, nothing, hidden])
            parts += times * layer[:, :, None] * self.counts[None, :, :, place]
        heads = np.full(len(table), portion.prompts / portion.rounds)
        parts[4] += self.ffn.head.seconds(setting.gpu.machine, heads)[:, None] * self.last
        parts[2] += self.ffn.hop_s(np.full(len(table), portion.chunk))[:, None]
        return slowest(parts)

    def attention_s(
        self, portion: Portion, kind: LayerKind, machine: Machine, *, times: int = 1, weights: bool = True
    ) -> Floats:
        """Seconds of a `times`-th of the portion in one layer, one operator after another, with its weights or not."""
        numerics = self.table.setting.numerics
        dtypes = [numerics.attention, *([numerics.index] if kind.indexed else [])]
        found = np.zeros(len(self.table))
        for (fixed, flops, moved), dtype in zip(self.attention(portion, kind), dtypes, strict=True):
            read = fixed if weights else 0.0
            found = found + roofline(machine, flops / times, read + moved / times, dtype)
        return found

    def attention(self, portion: Portion, kind: LayerKind) -> Floats:
        """Bytes of weights, operations, and all other bytes of one layer on one GPU: (operators, 3, S)."""
        setting = self.table.setting

        def works(tp: int, new: float, before: float) -> tuple[Work, ...]:
            key = (tp, new, before, kind)
            if key not in self._known:
                sizes = {"new_tokens": new, "cached_tokens": before, "tp": tp}
                self._known[key] = layer_prefill(setting.llm, kind, numerics=setting.numerics, **sizes)  # type: ignore[arg-type]
            return self._known[key]

        def figures(tp: int, cp: int) -> list[float]:
            found = []
            for none, one in zip(works(tp, 0.0, 0.0), works(tp, portion.tokens, portion.before), strict=True):
                found += [none.bytes, portion.prompts * one.flops / cp, portion.prompts * (one.bytes - none.bytes)]
            return found

        found = self.table.gather(figures, self.table.tp, self.table.cp, key=("prefill", portion, kind))
        return found.reshape(-1, 3, len(self.table))

    def passed(self, portion: Portion, kind: LayerKind) -> Floats:
        """Seconds of context parallelism in one layer: the quickest product of ring and Ulysses.

        An index needs all keys before it selects: they and the latents are gathered.
        """
        llm, numerics, gpu = self.table.setting.llm, self.table.setting.numerics, self.table.setting.gpu
        at, window = llm.attention, kind.window
        seen = portion.tokens + (portion.before if window is None else min(portion.before, float(window)))

        def figures(tp: int, cp: int) -> tuple[float]:
            if cp == 1:
                return (0.0,)
            heads = int(at.heads or 0) // tp
            own_kv = max(1, int(at.kv_heads or 1) // tp) if at.kind in GROWING else 1
            one = (
                2 * own_kv * int(at.head_dim or 0)
                if at.kind in GROWING
                else int(at.kv_rank or 0) + int(at.rope_dim or 0)
            )
            kv = portion.prompts * seen * one * numerics.kv_bytes
            query = portion.prompts * portion.tokens * heads * int(at.head_dim or 0) * 2
            link = gpu.link(tp * cp)
            if kind.indexed:
                gathered = kv + portion.prompts * seen * index_bytes(llm, numerics.kv)
                whole = cp_gather_volume(gathered, ranks=cp)
                return (whole.rounds * link.alpha_s + float(whole.sent_bytes) / link.bytes_per_s,)
            times = []
            for turn in [d for d in range(1, cp + 1) if cp % d == 0]:
                if turn > 1 and (at.kind not in GROWING or heads % turn or own_kv % turn):
                    continue
                found = cp_volume(query_bytes=query, kv_bytes=kv, ring=cp // turn, ulysses=turn)
                times.append(found.rounds * link.alpha_s + float(found.sent_bytes) / link.bytes_per_s)
            return (min(times),)

        result: Floats = self.table.gather(figures, self.table.tp, self.table.cp, key=("passed", portion, kind))[0]
        return result
