"""Operations and bytes of operators for many shapes, affine in tokens and sequences, and their rooflines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from moeopt.cost.layer_works import layer_decode
from moeopt.cost.operators import dense_ffn, lm_head, moe_ffn
from moeopt.cost.roofline import Machine
from moeopt.llm.attention_counts import latent_parameters
from moeopt.llm.layer_kinds import LayerKind
from moeopt.mesh.step.table import Floats, Ints, Table


@dataclass(frozen=True)
class Works:
    """One operator on one GPU: ``flops tokens`` operations, ``bytes + token_bytes tokens`` moved, in `dtype`."""

    flops: Floats
    fixed_bytes: Floats
    token_bytes: Floats
    dtype: str

    def take(self, rows: Ints) -> Works:
        """These rows, in this order."""
        return Works(self.flops[rows], self.fixed_bytes[rows], self.token_bytes[rows], self.dtype)

    def seconds(self, machine: Machine, tokens: Floats, sequences: Floats | None = None) -> Floats:
        """The longer of computing and moving; `sequences` is what bytes count where it differs from `tokens`."""
        moved = self.fixed_bytes + self.token_bytes * (tokens if sequences is None else sequences)
        return roofline(machine, self.flops * tokens, moved, self.dtype)


def roofline(machine: Machine, flops: Floats, moved: Floats, dtype: str) -> Floats:
    """`Machine.time_s` of arrays."""
    reached = machine.efficiency
    return np.maximum(flops / (machine.peak(dtype) * reached.compute), moved / (machine.bytes_per_s * reached.memory))


@dataclass(frozen=True)
class Operators:
    """Operators that run one after another, as attention and an index do.

    `query_bytes` are moved a token besides what `Works` counts a sequence; ``None``: nothing is.
    """

    works: tuple[Works, ...]
    query_bytes: tuple[Floats | None, ...]

    def take(self, rows: Ints) -> Operators:
        """These rows, in this order."""
        return Operators(
            tuple(works.take(rows) for works in self.works),
            tuple(None if each is None else each[rows] for each in self.query_bytes),
        )

    def seconds(self, machine: Machine, tokens: Floats, sequences: Floats | None = None) -> Floats:
        """Of so many tokens, which belong to so many sequences (default: one each)."""
        own = tokens if sequences is None else sequences
        times = []
        for one, each in zip(self.works, self.query_bytes, strict=True):
            moved = one.fixed_bytes + one.token_bytes * own
            if each is not None:
                moved = moved + each * tokens
            times.append(roofline(machine, one.flops * tokens, moved, one.dtype))
        return reduce(np.add, times)


def attention_works(table: Table, kind: LayerKind, context_tokens: float) -> Operators:
    """Attention of one layer in decoding: a token is one query of a sequence, whose cache is read once a step."""
    llm, numerics = table.setting.llm, table.setting.numerics

    def figures(tp: int, kvp: int, out: int) -> list[float]:
        sizes = {"context_tokens": context_tokens, "tp": tp, "kvp": kvp, "out_tp": out}
        none, one, two = (
            layer_decode(llm, kind, sequences=n, queries=q, numerics=numerics, **sizes)  # type: ignore[arg-type]
            for n, q in ((0, 1), (1, 1), (1, 2))
        )
        found = []
        for idle, first, second in zip(none, one, two, strict=True):
            again = second.bytes - first.bytes
            found += [first.flops, idle.bytes, first.bytes - idle.bytes - again, again]
        return found

    dtypes = [numerics.attention, *([numerics.index] if kind.indexed else [])]
    found = table.gather(figures, table.tp, table.kvp, table.out, key=("attention", kind, context_tokens))
    rows = found.reshape(len(dtypes), 4, -1)
    works = tuple(Works(row[0], row[1], row[2], dtype) for row, dtype in zip(rows, dtypes, strict=True))
    return Operators(works, tuple(row[3] if row[3].any() else None for row in rows))


def latent_works(table: Table) -> Works | None:
    """Projections of a token into the space of routed experts and back, whole on every GPU; ``None`` without them."""
    parameters = latent_parameters(table.setting.llm)
    if not parameters:
        return None
    numerics = table.setting.numerics
    one = np.ones(len(table))
    return Works(2.0 * parameters * one, parameters * numerics.weight_bytes * one, 0.0 * one, numerics.ffn)


def dense_works(table: Table, width: int) -> Works:
    """A dense FFN of one layer, in tokens of the rank: whole, or split over `dense_tp` GPUs that share their tokens."""
    llm, numerics = table.setting.llm, table.setting.numerics

    def figures(dense_tp: int) -> tuple[float, float]:
        work = dense_ffn(tokens=1, hidden=int(llm.hidden or 0), width=width, tp=dense_tp, numerics=numerics)
        return work.flops * dense_tp, work.bytes

    flops, moved = table.gather(figures, table.dense_tp, key=("dense", width))
    return Works(flops * table.dp / table.ffn_stage, moved, np.zeros_like(moved), numerics.ffn)


def head_works(table: Table) -> Works:
    """The projection onto the vocabulary, split over the GPUs of attention."""
    llm, numerics = table.setting.llm, table.setting.numerics

    def figures(group: int) -> tuple[float, float]:
        work = lm_head(llm, tokens=1, tp=group, numerics=numerics)
        return work.flops, work.bytes

    flops, moved = table.gather(figures, table.group, key="head")
    return Works(flops, moved, np.zeros_like(moved), numerics.attention)


@dataclass(frozen=True)
class ExpertWorks:
    """Routed and shared experts with the router of one layer, as one grouped product.

    Operations a token of the rank, on every GPU and by chance on the busiest; bytes of what is always read, and of one
    touched expert.
    """

    flops: Floats
    routed_flops: Floats
    fixed_bytes: Floats
    expert_bytes: Floats
    dtype: str

    def take(self, rows: Ints) -> ExpertWorks:
        """These rows, in this order."""
        flops, routed_flops = self.flops[rows], self.routed_flops[rows]
        return ExpertWorks(flops, routed_flops, self.fixed_bytes[rows], self.expert_bytes[rows], self.dtype)

    def seconds(self, table: Table, tokens: Floats, noise: Floats) -> Floats:
        """`tokens` are those of one data-parallel rank, `noise` that of the table for so many."""
        moved = self.fixed_bytes + self.expert_bytes * touched(table, tokens * table.dp)
        flops = (self.flops + self.routed_flops * noise) * tokens
        return roofline(table.setting.gpu.machine, flops, moved, self.dtype)


def expert_works(table: Table) -> ExpertWorks:
    """Experts over EP, each over `moe_tp`; shared ones as dense FFNs are."""
    llm, numerics = table.setting.llm, table.setting.numerics
    routed = replace(llm, shared_experts=0)

    def figures(moe_tp: int) -> tuple[float, float, float, float]:
        gate, one, read = (
            moe_ffn(routed, tokens=1, tp=moe_tp, load=load, touched=touched, numerics=numerics)
            for load, touched in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
        )
        return gate.flops, one.flops - gate.flops, gate.bytes, read.bytes - gate.bytes

    gate, busy, fixed, each = table.gather(figures, table.moe_tp, key="experts")
    flops, routed_flops = gate * table.dp / table.ep, busy * table.load * table.dp / table.ep
    if llm.shared_experts:
        shared = dense_works(table, int(llm.shared_experts) * int(llm.shared_width or 0))
        flops, fixed = flops + shared.flops, fixed + shared.fixed_bytes
    return ExpertWorks(flops, routed_flops, fixed, each, numerics.ffn)


def touched(table: Table, tokens: Floats) -> Floats:
    """Experts that the busiest GPU reads for so many tokens of all ranks, every replica as likely as another.

    The mean of all GPUs, ``E/ep (1 - (1 - k/E)^n)`` with replicas among E, but at least one expert once there is a
    token: somebody reads it. Strength: a floor, which small batches on many GPUs would otherwise go below.
    """
    return touched_by(tokens, table.held, table.missed, table.ep)


def touched_by(tokens: Floats, held: Ints, missed: Floats, ranks: Ints) -> Floats:
    """`touched` in plain numbers, with `missed` as `moeopt.mesh.step.table.missed` has it."""
    once = np.minimum(tokens, 1.0)
    mean = np.where(missed < 0, -np.expm1(tokens * missed), once) * held / ranks
    result: Floats = np.maximum(mean, once)
    return result
