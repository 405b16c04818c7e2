"""The plan: which expert sits in each slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.slot_table import slot_table

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

EMPTY = -1


@dataclass(frozen=True, eq=False)
class Collocation:
    """A plan for every layer.

    Parameters
    ----------
    slot_expert
        (L, S) expert in each slot, slots in GPU-major order, -1 where a slot is empty; read-only.

    >>> Collocation.of([0, 2, 1, 3]).slot_expert.tolist()
    [[0, 2, 1, 3]]
    """

    slot_expert: NDArray[np.int32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "slot_expert", slot_table(self.slot_expert))

    @classmethod
    def of(cls, slot_expert: Any) -> Collocation:
        """Copy anything array-like, one layer flat or all layers; refuse what is not whole numbers."""
        return cls(slot_expert)


def as_collocation(instance: CollocationInstance, raw: Any) -> Collocation:
    """Take a plan in any form a policy returns: a `Collocation`, an array, or nested lists."""
    return raw if isinstance(raw, Collocation) else Collocation.of(raw)
