"""Shapes: how the GPUs of one replica are cut up, before a batch is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["colocated", "prefill", "decode", "long"]
ROLES: tuple[Role, ...] = ("colocated", "prefill", "decode", "long")
"""``colocated`` serves whole requests, ``prefill`` and ``decode`` one phase each with a hand-off between, ``long``
decodes long contexts with the cache split over tokens."""


@dataclass(frozen=True, order=True)
class Shape:
    """One replica on GPUs of one type: attention and experts cut the same GPUs of a stage in two ways.

    A stage has ``tp dp cp kvp`` GPUs for attention and the same ``ep moe_tp`` for experts (``TP4 x DP80 = EP320`` is
    a point); `pp` stages follow one another.

    Parameters
    ----------
    role, gpu
        What it does, and on which type of GPU.
    pp, tp, dp, cp, kvp
        Stages; attention over heads, over requests, over the tokens of a prompt (prefill), over the tokens of the
        cache (decode).
    ep, moe_tp
        Experts over GPUs, and each expert over GPUs. ``ep = 1, moe_tp = 1`` for a dense LLM's shape of one GPU.
    dense_tp
        GPUs over which dense layers and shared experts are split.
    redundant
        Redundant experts of a layer, of all GPUs.
    ffn_gpus
        For ``long``: GPUs of output projection and FFN where they are fewer than the stage's (Medha); ``None``: all.

    >>> Shape("decode", "H800", tp=4, dp=80, ep=320).label
    'TP4 x DP80 = EP320'
    >>> Shape("prefill", "H800", tp=8, ep=1, moe_tp=8, dense_tp=8, pp=2).gpus
    16
    """

    role: Role
    gpu: str
    pp: int = 1
    tp: int = 1
    dp: int = 1
    cp: int = 1
    kvp: int = 1
    ep: int = 1
    moe_tp: int = 1
    dense_tp: int = 1
    redundant: int = 0
    ffn_gpus: int | None = None

    def staged(self, pp: int) -> Shape:
        """The same in so many stages: what `dataclasses.replace` gives, for thousands of shapes."""
        made = object.__new__(Shape)
        made.__dict__.update(self.__dict__, pp=pp)
        return made

    @property
    def stage_gpus(self) -> int:
        """GPUs of one stage."""
        return self.tp * self.dp * self.cp * self.kvp

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.pp * self.stage_gpus

    @property
    def label(self) -> str:
        """How people write it, attention left of experts; degrees of 1 are left out where that is clear."""
        left = [f"{name}{value}" for name, value in _named(self, "tp", "dp", "cp", "kvp") if value > 1] or ["TP1"]
        right = [f"{name}{value}" for name, value in (("EP", self.ep), ("MoE-TP", self.moe_tp)) if value > 1]
        stages = f"PP{self.pp} x " if self.pp > 1 else ""
        return stages + " x ".join(left) + (f" = {' x '.join(right)}" if right else "")


def _named(shape: Shape, *names: str) -> list[tuple[str, int]]:
    return [(name.upper(), getattr(shape, name)) for name in names]


@dataclass(frozen=True, order=True)
class ApartShape:
    """One instance whose attention and experts have GPUs of their own.

    Parameters
    ----------
    gpu, expert_gpu
        Types of GPU of either side.
    tp_a, n_a
        GPUs of an attention node, and attention nodes (data-parallel copies).
    tp_e, n_e
        GPUs of an expert node, and expert nodes; each has ``E / n_e`` experts. Algorithm 1 of MegaScale-Infer has
        ``n_e = E``.
    m
        Micro-batches that go back and forth.
    redundant
        Redundant experts of a layer.

    >>> shape = ApartShape("H20", "L40S", tp_a=8, n_a=4, tp_e=2, n_e=8, m=3)
    >>> shape.gpus, shape.label
    (48, '4 x TP8 attention on H20, 8 x TP2 experts on L40S, m = 3')
    """

    gpu: str
    expert_gpu: str
    tp_a: int
    n_a: int
    tp_e: int
    n_e: int
    m: int
    redundant: int = 0

    @property
    def attention_gpus(self) -> int:
        """GPUs of all attention nodes."""
        return self.tp_a * self.n_a

    @property
    def expert_gpus(self) -> int:
        """GPUs of all expert nodes."""
        return self.tp_e * self.n_e

    @property
    def gpus(self) -> int:
        """GPUs of the instance."""
        return self.attention_gpus + self.expert_gpus

    @property
    def label(self) -> str:
        """A line for tables."""
        return (
            f"{self.n_a} x TP{self.tp_a} attention on {self.gpu}, {self.n_e} x TP{self.tp_e} experts on "
            f"{self.expert_gpu}, m = {self.m}"
        )
