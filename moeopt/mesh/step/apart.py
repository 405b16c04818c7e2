"""Stages of instances whose attention and experts have GPUs of their own, for many shapes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from moeopt.cost.layer_works import attended_by
from moeopt.cost.operators import moe_ffn
from moeopt.llm.layer_kinds import LayerKind
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.step.communicate import bytes_of, copies_of, line_of, vector_bytes
from moeopt.mesh.step.table import TINY, Floats, Ints, Setting, Table, kinds_of, missed, noise_of
from moeopt.mesh.step.works import (
    Operators,
    Works,
    attention_works,
    dense_works,
    head_works,
    latent_works,
    roofline,
    touched_by,
)


@dataclass(frozen=True)
class Stages:
    """Seconds of one micro-batch in one layer: T_a by kind of layer, T_d, T_e, T_b."""

    attention_s: dict[LayerKind, Floats]
    dispatch_s: Floats
    expert_s: Floats
    combine_s: Floats


@dataclass(frozen=True)
class Node:
    """What instances share that differ in numbers only: GPUs and experts of a node of either side."""

    tp_a: int
    tp_e: int
    n_e: int
    redundant: int


class ApartTable:
    """Instances as columns, attention on one type of GPU and experts on the same or another.

    Parameters
    ----------
    setting, expert_gpu
        What instances share; the setting's GPU is that of attention.
    nodes, node, n_a, m
        Kinds of nodes, and of each instance: its kind, attention nodes, and micro-batches.
    context_tokens
        Tokens that each sequence attends to.

    Notes
    -----
    Strength: model. With an expert a node and none shared it is `moeopt.cost.stage_times`. A node of several experts
    receives a token once. Shared experts and dense layers are split over an attention node, which adds an all-reduce.
    The busiest expert node has `imbalance` times the mean, and what chance adds in a step.
    """

    def __init__(
        self,
        setting: Setting,
        expert_gpu: GpuType,
        nodes: Sequence[Node],
        node: Ints,
        n_a: Ints,
        m: Ints,
        context_tokens: float,
    ) -> None:
        self.setting, self.expert_gpu, self.nodes = setting, expert_gpu, tuple(nodes)
        self.node, self.n_a, self.m = node, n_a, m
        columns = [(one.tp_a, one.tp_e, one.n_e, one.redundant) for one in self.nodes]
        self.tp_a, self.tp_e, self.n_e, self.redundant = np.array(columns).reshape(-1, 4)[node].T
        llm, gpu = setting.llm, setting.gpu
        self.kinds, self.layers = kinds_of(llm)
        attended = {kind: attended_by(llm, kind, context_tokens) for kind, _ in self.kinds}
        self.longest = max(attended, key=lambda kind: attended[kind])
        inner = Table(setting, [Shape("decode", gpu.name, tp=one.tp_a, dense_tp=one.tp_a) for one in self.nodes])
        self.attention = {kind: attention_works(inner, kind, context_tokens).take(node) for kind in attended}
        latent = latent_works(inner)
        self.latent = None if latent is None else latent.take(node)
        self.head = head_works(inner).take(node)
        self.shared = self.dense = None
        if llm.shared_experts:
            self.shared = dense_works(inner, int(llm.shared_experts) * int(llm.shared_width or 0)).take(node)
        if llm.dense_layers:
            self.dense = dense_works(inner, int(llm.dense_width or 0)).take(node)
        lines = np.array([line_of(gpu, "all_reduce", one.tp_a) for one in self.nodes])[node].T
        self.fixed_a, self.slope_a = lines[0], lines[1] * vector_bytes(setting)
        self.port_a, self.port_e = self.port(gpu), self.port(expert_gpu)
        known = setting.memo.setdefault(("node", expert_gpu.name), {})
        for one in self.nodes:
            if (one.tp_e, one.n_e, one.redundant) not in known:
                known[one.tp_e, one.n_e, one.redundant] = self._node(one.tp_e, one.n_e, one.redundant)
        figures = np.array([known[one.tp_e, one.n_e, one.redundant] for one in self.nodes])
        self.chance = noise_of(setting, int(llm.experts or 0) + self.redundant, self.n_e)
        self.flops, self.read, self.copies, self.load, self.fixed_e, self.slope_e = figures[node].T

    def __len__(self) -> int:
        return len(self.node)

    @property
    def gpus(self) -> Ints:
        """GPUs of either side: (2, rows)."""
        return np.array([self.tp_a * self.n_a, self.tp_e * self.n_e])

    def shape(self, row: int) -> ApartShape:
        """One row written out."""
        one = self.nodes[int(self.node[row])]
        names = self.setting.gpu.name, self.expert_gpu.name
        return ApartShape(*names, one.tp_a, int(self.n_a[row]), one.tp_e, one.n_e, int(self.m[row]), one.redundant)

    def _node(self, tp_e: int, n_e: int, extra: int) -> tuple[float, ...]:
        """An expert node: operations and bytes of a token's experts, nodes it touches, load, and an all-reduce."""
        setting, llm = self.setting, replace(self.setting.llm, shared_experts=0)
        none, one = (
            moe_ffn(llm, tokens=1, tp=tp_e, touched=touched, router=False, numerics=setting.numerics)
            for touched in (0.0, 1.0)
        )
        found = copies_of(setting, int(llm.experts or 0) + extra, n_e, 1, "gpu")
        copies = float(found.nvlink) * n_e / (n_e - 1) if n_e > 1 else 1.0
        fixed, slope = line_of(self.expert_gpu, "all_reduce", tp_e)
        wide = int(llm.dispatch_width or 0) * 2.0
        return none.flops / n_e, one.bytes, copies, setting.imbalance.at(n_e, extra, llm.experts), fixed, slope * wide

    def port(self, gpu: GpuType) -> tuple[Floats, Floats]:
        """Latency and bandwidth with which a GPU of one side reaches the other, row by row.

        Where one type of GPU does both and the instance fits a domain, both sides lie in it; else the network joins
        them.
        """
        near = (self.gpus.sum(axis=0) <= gpu.domain_gpus) & (self.setting.gpu == self.expert_gpu)
        inside = gpu.scale_up or gpu.network
        outside = gpu.network or gpu.scale_up
        assert inside is not None and outside is not None
        alpha = np.where(near, inside.alpha_s, outside.alpha_s)
        return alpha, np.where(near, inside.bytes_per_s, outside.bytes_per_s)

    def stages(self, batch: Floats | Ints) -> Stages:
        """Stages for `batch` sequences of each attention node in a micro-batch."""
        own = np.asarray(batch, dtype=np.float64)
        overhead = self.setting.overhead_s
        reduced = self.fixed_a + self.slope_a * own
        more = reduced + overhead
        if self.shared is not None:
            more = more + self._seconds(self.shared, own) + reduced
        if self.latent is not None:
            more = more + self._seconds(self.latent, own)
        first = {kind: self._seconds(works, own) + more for kind, works in self.attention.items()}
        every = own * self.n_a
        busiest = every * self.load * self._chance(every)
        received = busiest * self.copies / self.n_e
        second = self._experts(every, busiest) + self.fixed_e + self.slope_e * received + overhead
        ways = []
        for size in bytes_of(int(self.setting.llm.dispatch_width or 0), self.setting.numerics):
            sending = self.port_a[0] + own * self.copies * size / self.tp_a / self.port_a[1]
            ways.append(np.maximum(sending, self.port_e[0] + received * size / self.tp_e / self.port_e[1]))
        return Stages(first, ways[0], second, ways[1])

    def _seconds(self, works: Works | Operators, own: Floats) -> Floats:
        return works.seconds(self.setting.gpu.machine, own)

    def _chance(self, tokens: Floats) -> Floats:
        """Busiest expert node of one step over the mean, beyond `load`."""
        top_k = int(self.setting.llm.top_k or 1)
        result: Floats = 1 + self.chance * np.sqrt(self.n_e / (top_k * np.maximum(tokens, TINY)))
        return result

    def _experts(self, tokens: Floats, busiest: Floats) -> Floats:
        """Seconds of the busiest node's experts for so many tokens of all attention nodes."""
        held, top_k = int(self.setting.llm.experts or 0) + self.redundant, int(self.setting.llm.top_k or 0)
        touched = touched_by(tokens, held, missed(held, top_k), self.n_e)
        return roofline(self.expert_gpu.machine, self.flops * busiest, self.read * touched, self.setting.numerics.ffn)

    def step(self, batch: Floats | Ints) -> tuple[Floats, Floats]:
        """Seconds of one step of all `m` micro-batches, and its parts as `moeopt.mesh.step.parts.PARTS` names them.

        ``T = R + (L - 1) max(m M, R) + (m - 1) M`` over layers with experts, R a micro-batch's way through all four
        stages and M the longest of them (``models/microbatch.md``); before them each micro-batch passes the dense
        layers, and after them the head, one after the other. Where layers attend to different numbers of tokens, each
        layer counts with its own ``max(m M, R)``, and the ends with the last one's: an estimate.
        """
        own = np.asarray(batch, dtype=np.float64)
        found = self.stages(own)
        counts = {kind: self.layers.count(place) for place, kind in enumerate(self.kinds)}
        sent = found.dispatch_s + found.combine_s
        total = attention = experts = np.zeros_like(own)
        for (kind, moe), layers in counts.items():
            first = found.attention_s[kind]
            if not moe:
                assert self.dense is not None
                once = self._dense(self.dense, first, own)
                total, attention = total + self.m * layers * once, attention + self.m * layers * once
                continue
            trip = first + sent + found.expert_s
            top = np.maximum(np.maximum(first, found.expert_s), np.maximum(found.dispatch_s, found.combine_s))
            cycle = np.maximum(self.m * top, trip)
            total = total + layers * cycle
            attention, experts = attention + self.m * layers * first, experts + self.m * layers * found.expert_s
        first = found.attention_s[self.kinds[self.layers[-1]][0]]
        trip = first + sent + found.expert_s
        top = np.maximum(np.maximum(first, found.expert_s), np.maximum(found.dispatch_s, found.combine_s))
        head = self.m * self._seconds(self.head, own)
        total = total + trip - np.maximum(self.m * top, trip) + (self.m - 1) * top + head
        moe_layers = sum(layers for (_, moe), layers in counts.items() if moe)
        moved = self.m * moe_layers * sent
        hidden = attention + experts + moved + head - total
        return total, np.stack([attention, experts, moved, np.zeros_like(own), head, hidden])

    def _dense(self, works: Works, first: Floats, own: Floats) -> Floats:
        """A dense layer: attention without shared experts, and a split FFN with its all-reduce."""
        reduced = self.fixed_a + self.slope_a * own
        if self.latent is not None:
            first = first - self._seconds(self.latent, own)
        if self.shared is not None:
            first = first - self._seconds(self.shared, own) - reduced
        result: Floats = first + self._seconds(works, own) + reduced
        return result
