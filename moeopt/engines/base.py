"""What an engine recorded, and what an engine loads: the two things every reader of this room returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.workload.table import LoadTable

ENGINES = ("sglang", "vllm", "trtllm", "vllm-ascend", "omni", "eplb", "plain", "moeopt")
"""Names of the engines whose files are read; ``plain`` is nobody's own form, ``moeopt`` a plan of ours."""


@dataclass(frozen=True, eq=False)
class ExpertMap:
    """The experts in the slots of an engine: a plan without numbers.

    Parameters
    ----------
    engine
        One of `ENGINES`.
    slot_expert
        (L, S) logical experts, int32, GPU-major, -1 where a slot is empty.
    layers
        L layer ids of the LLM.
    slots
        Slots of each GPU, summing to S; ``None`` where the file does not say how many GPUs there are.
    num_experts
        E, where the file says it; else no expert is known beyond the largest id in a slot.
    notes
        What the reader did that was not asked for.

    >>> ExpertMap("sglang", np.array([[0, 1, 1]], np.int32), (3,)).known_experts
    2
    """

    engine: str
    slot_expert: NDArray[np.int32]
    layers: tuple[int, ...]
    slots: tuple[int, ...] | None = None
    num_experts: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def known_experts(self) -> int:
        """E where the file says it, else one more than the largest id in a slot."""
        return int(self.slot_expert.max()) + 1 if self.num_experts is None else self.num_experts


@dataclass(frozen=True, eq=False)
class Dump:
    """One recording of an engine: the selections that each logical expert got.

    Parameters
    ----------
    engine
        One of `ENGINES`.
    form
        Which of the engine's forms it is, for people: ``recorder stat``, ``recorder per_token``, ``statistics``.
    table
        (L, E) int64 counts summed over steps and ranks, with the layer ids of the LLM and the notes of the reader.
    per_step
        (T, L, E) counts of each step, where the file has them and they fit `PER_STEP_BYTES`.
    top_k
        Experts a token selects, where the file says it.
    physical
        The map that was loaded while recording, which is the running plan.
    steps
        Forward passes that were counted, where the file says it.
    notes
        What the reader did that was not asked for; the same as ``table.notes``.
    """

    engine: str
    form: str
    table: LoadTable
    per_step: NDArray[Any] | None = None
    top_k: int | None = None
    physical: ExpertMap | None = None
    steps: int | None = None
    notes: tuple[str, ...] = ()


PER_STEP_BYTES = 256 * 1000**2
"""Counts step by step are kept up to this size."""
