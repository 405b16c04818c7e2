"""What each engine's load balancer asks of a shape: slots, GPUs and nodes that it refuses, and what to know before use.

Read in the sources of SGLang (``eplb/expert_location.py``), vLLM (``distributed/eplb``), TensorRT-LLM
(``modules/fused_moe``), vllm-ascend (``eplb/core``), omni-infer (``placement``) and EPLB (``eplb.py``), and in what
their users report, as of 2026; versions differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

VLLM_MOST_REDUNDANT = 1023
"""vLLM asserts at most so many redundant experts (``eplb_state.py``)."""
TRTLLM_FAMILIES = ("deepseek_v3", "mixtral", "llama4", "qwen2_moe", "qwen3_moe")
"""Families of the architectures that TensorRT-LLM's load balancer names in all versions read; later ones name more."""


Found = tuple[list[str], list[str]]
"""Faults and notes."""


@dataclass(frozen=True)
class Shape:
    """Sizes of one layer, and the family of the LLM where it is known."""

    experts: int
    slots: int
    gpus: int
    nodes: int = 1
    groups: int | None = None
    family: str | None = None

    @property
    def redundant(self) -> int:
        """Slots beyond one an expert."""
        return self.slots - self.experts


@dataclass(frozen=True)
class Verdict:
    """What one engine says of a shape: it is taken if there are no `faults`; `notes` are conditions and surprises."""

    engine: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the engine starts with this shape."""
        return not self.faults


def verdicts(shape: Shape) -> list[Verdict]:
    """What every engine says of a shape.

    >>> [(verdict.engine, verdict.faults) for verdict in verdicts(Shape(256, 288, 72, 9)) if not verdict.ok]
    []
    >>> verdicts(Shape(256, 290, 72, 9))[1].faults
    ('290 slots are no multiple of 72 GPUs: 288 is',)
    """
    found = {engine: rule(shape) for engine, rule in RULES.items()}
    return [Verdict(engine, tuple(faults), tuple(notes)) for engine, (faults, notes) in found.items()]


def _uniform(shape: Shape) -> list[str]:
    """Equally many slots on every GPU, and one at least for every expert."""
    faults = []
    if shape.slots % shape.gpus:
        low = shape.slots // shape.gpus * shape.gpus
        least = -(-shape.experts // shape.gpus) * shape.gpus
        near = max(low if shape.slots - low <= low + shape.gpus - shape.slots else low + shape.gpus, least)
        faults.append(f"{shape.slots:,} slots are no multiple of {shape.gpus:,} GPUs: {near:,} is")
    if shape.slots < shape.experts:
        faults.append(f"{shape.slots:,} slots cannot hold {shape.experts:,} experts")
    return faults


def _sglang(shape: Shape) -> Found:
    faults, notes = _uniform(shape), []
    if shape.gpus % shape.nodes:
        faults.append(f"{shape.gpus:,} GPUs are no multiple of {shape.nodes:,} nodes")
    if shape.redundant > 0:
        notes.append("redundant experts need an all-to-all backend (DeepEP); without one, outputs are silently wrong")
        if shape.redundant % shape.nodes:
            notes.append(f"deepseek_vec needs redundant experts in multiples of {shape.nodes} nodes")
    if shape.groups and shape.groups > 1:
        how = "within nodes by groups" if shape.groups % shape.nodes == 0 else "over all GPUs, groups left aside"
        notes.append(f"with eplb_algorithm auto it plans {how}")
    return faults, notes


def _vllm(shape: Shape) -> Found:
    faults, notes = _uniform(shape), ["loads no map from a file: a plan gets in as a policy only"]
    if shape.redundant > VLLM_MOST_REDUNDANT:
        faults.append(f"{shape.redundant:,} redundant experts are more than {VLLM_MOST_REDUNDANT:,}")
    if shape.gpus < 2:
        faults.append("needs two GPUs or more")
    if shape.gpus % shape.nodes:
        notes.append(f"{shape.gpus:,} GPUs are no multiple of {shape.nodes:,} nodes: it takes all for one node")
    return faults, notes


def _trtllm(shape: Shape) -> Found:
    faults, notes = _uniform(shape), []
    if shape.gpus < 2:
        faults.append("needs two GPUs or more")
    if shape.family is not None and shape.family not in TRTLLM_FAMILIES:
        notes.append(f"not every version balances {shape.family}: elsewhere the section is ignored, or it stops")
    return faults, notes


def _ascend(shape: Shape) -> Found:
    notes = []
    if shape.redundant > shape.gpus:
        notes.append(f"policy 1 takes at most {shape.gpus:,} redundant experts, one a GPU; policy 2 takes these")
    return _uniform(shape), notes


def _omni(shape: Shape) -> Found:
    faults, each = [], -(-shape.slots // shape.gpus)
    if shape.slots < shape.experts:
        faults.append(f"{shape.slots:,} slots cannot hold {shape.experts:,} experts")
    if each > shape.experts:
        faults.append(f"{each:,} slots a GPU are more than {shape.experts:,} experts: it knows no second copy there")
    return faults, ["layers and GPUs may differ in slots"]


def _eplb(shape: Shape) -> Found:
    faults, notes = _uniform(shape), []
    if shape.groups:
        if shape.experts % shape.groups:
            faults.append(f"{shape.experts:,} experts are no multiple of {shape.groups:,} groups")
        if shape.groups % shape.nodes:
            groups = "1 group is" if shape.groups == 1 else f"{shape.groups:,} groups are"
            notes.append(f"{groups} no multiple of {shape.nodes:,} nodes: it silently plans flat")
        elif shape.gpus % shape.nodes:
            faults.append(f"{shape.gpus:,} GPUs are no multiple of {shape.nodes:,} nodes")
    return faults, notes


RULES: dict[str, Callable[[Shape], Found]] = {
    "sglang": _sglang,
    "vllm": _vllm,
    "trtllm": _trtllm,
    "vllm-ascend": _ascend,
    "omni": _omni,
    "eplb": _eplb,
}
"""Faults and notes of each engine."""
