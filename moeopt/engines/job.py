"""A map about to be written: the rows an engine wants, and what its writer gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.layers import LayerFacts
from moeopt.engines.map_faults import double_slots


@dataclass(frozen=True, eq=False)
class Job:
    """What the writer of an engine gets.

    Parameters
    ----------
    path
        The file to be written, as it was named.
    slot_expert
        (M, S) experts of the layers that have a row, GPU-major, -1 empty.
    layers
        M layer ids of the LLM.
    dense, mtp
        Rows that a plan has for dense layers, by id, and for draft layers, by number.
    facts
        What is known of the LLM.
    slots
        Slots of each GPU; ``None``: not known.
    num_experts
        E.
    split
        How the plan shares an expert's tokens; ``None``: a map does not say.
    """

    path: str
    slot_expert: NDArray[np.int32]
    layers: tuple[int, ...]
    facts: LayerFacts
    slots: tuple[int, ...] | None
    num_experts: int
    split: str | None = None
    dense: Mapping[int, NDArray[np.int32]] = field(default_factory=dict)
    mtp: Mapping[int, NDArray[np.int32]] = field(default_factory=dict)

    @property
    def num_slots(self) -> int:
        """S."""
        return int(self.slot_expert.shape[1])

    @property
    def redundant(self) -> int:
        """``S - E``."""
        return self.num_slots - self.num_experts

    @property
    def num_gpus(self) -> int:
        """G, which is known where an engine needs it."""
        assert self.slots is not None
        return len(self.slots)

    def in_order(self) -> NDArray[np.int32]:
        """(S,) the start layout of the engines: slot s holds expert s modulo E, which covers all and doubles none."""
        return (np.arange(self.num_slots) % self.num_experts).astype(np.int32)


@dataclass(frozen=True)
class Piece:
    """What the writer of an engine gives back.

    Parameters
    ----------
    content
        Bytes of the file.
    options
        Lines: what the engine has to be started with for the file to be true.
    warnings
        Sentences: what the file cannot say, or what the engine will do otherwise than the plan says.
    """

    content: bytes
    options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def doubles_warning(job: Job, title: str) -> list[str]:
    """One sentence where an expert lies twice on a GPU and the second is of no use."""
    if job.slots is None:
        return []
    found = double_slots(job.slot_expert, job.layers, job.num_experts, job.slots)
    if not found:
        return []
    return [
        f"{len(found):,} times an expert lies more than once on one GPU ({found[0]}): {title} loads every copy, and "
        "all but one are wasted memory"
    ]
