"""Seconds of prefill steps for many shapes at once: whole prompts, or chunks of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from moeopt.cost.context_volumes import cp_volume
from moeopt.cost.operators import attention_prefill
from moeopt.cost.roofline import Work
from moeopt.llm.facts import GROWING
from moeopt.mesh.step.layers import FfnLayers
from moeopt.mesh.step.parts import PARTS, slowest
from moeopt.mesh.step.table import Floats, Table
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

    Strength: model. With one GPU a rank it is `moeopt.cost.attention_prefill`, `moe_ffn` and `dense_ffn` one after the
    other; context parallelism splits queries evenly (stripes) and sends keys and values around or turns heads and
    tokens, whichever is quicker.
    """

    def __init__(self, table: Table, workload: Workload) -> None:
        llm = table.setting.llm
        self.table, self.workload = table, workload
        self._known: dict[tuple[int, float, float, int | None], Work] = {}
        at, moe = llm.attention, set(llm.moe_layers)
        windowed = set(at.windowed)
        every = [(at.window if layer in windowed else None, layer in moe) for layer in range(llm.layers)]
        self.kinds = list(dict.fromkeys(every))
        self.layers = [self.kinds.index(kind) for kind in every]
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
        for place, (window, moe) in enumerate(self.kinds):
            times = 2 if dual and moe else 1
            weights, flops, moved = self.attention(portion, window)
            first = roofline(setting.gpu.machine, flops / times, weights + moved / times, setting.numerics.attention)
            own = np.full(len(table), portion.chunk / times)
            second, sent, exchanged = self.ffn.seconds(own, moe=moe, dual=times == 2)
            hidden = np.minimum(first + second + sent - exchanged, exchanged) if times == 2 else np.zeros_like(first)
            sent = sent + self.passed(portion, window) / times
            nothing = np.zeros_like(first)
            layer = np.stack([first, second, sent, nothing + setting.overhead_s, nothing, hidden])
            parts += times * layer[:, :, None] * self.counts[None, :, :, place]
        heads = np.full(len(table), portion.prompts / portion.rounds)
        parts[4] += self.ffn.head.seconds(setting.gpu.machine, heads)[:, None] * self.last
        parts[2] += self.ffn.hop_s(np.full(len(table), portion.chunk))[:, None]
        return slowest(parts)

    def attention(self, portion: Portion, window: int | None) -> Floats:
        """Bytes of weights, operations, and all other bytes of one layer, (3, S): of one GPU."""
        setting = self.table.setting

        def works(tp: int, new: float, before: float) -> Work:
            key = (tp, new, before, window)
            if key not in self._known:
                sizes = {"new_tokens": new, "cached_tokens": before, "tp": tp, "window": window}
                self._known[key] = attention_prefill(setting.llm, numerics=setting.numerics, **sizes)  # type: ignore[arg-type]
            return self._known[key]

        def figures(tp: int, cp: int) -> tuple[float, float, float]:
            none, one = works(tp, 0.0, 0.0), works(tp, portion.tokens, portion.before)
            return none.bytes, portion.prompts * one.flops / cp, portion.prompts * (one.bytes - none.bytes)

        return self.table.gather(figures, self.table.tp, self.table.cp, key=("prefill", portion, window))

    def passed(self, portion: Portion, window: int | None) -> Floats:
        """Seconds of context parallelism in one layer: the quickest product of ring and Ulysses."""
        llm, numerics, gpu = self.table.setting.llm, self.table.setting.numerics, self.table.setting.gpu
        at = llm.attention
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
            times = []
            for turn in [d for d in range(1, cp + 1) if cp % d == 0]:
                if turn > 1 and (at.kind not in GROWING or heads % turn or own_kv % turn):
                    continue
                found = cp_volume(query_bytes=query, kv_bytes=kv, ring=cp // turn, ulysses=turn)
                times.append(found.rounds * link.alpha_s + float(found.sent_bytes) / link.bytes_per_s)
            return (min(times),)

        result: Floats = self.table.gather(figures, self.table.tp, self.table.cp, key=("passed", portion, window))[0]
        return result
