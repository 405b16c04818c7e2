"""The plan: which expert sits in each slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError

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

    @classmethod
    def of(cls, slot_expert: Any) -> Collocation:
        """Copy anything array-like, one layer flat or all layers; refuse what is not whole numbers."""
        try:
            array = np.asarray(slot_expert)
        except ValueError as error:
            raise PlanError(["slot_expert is not a table of layers x slots"]) from error
        if array.ndim == 1:
            array = array[None, :]
        if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
            raise PlanError([f"slot_expert has shape {array.shape}, dtype {array.dtype}: need whole (layers, slots)"])
        if int(array.max()) >= 2**31 or int(array.min()) < -(2**31):
            raise PlanError(["slot_expert holds an id beyond 32 bits"])
        copy = array.astype(np.int32)
        copy.flags.writeable = False
        return cls(copy)


def as_collocation(instance: CollocationInstance, raw: Any) -> Collocation:
    """Take a plan in any form a policy returns: a `Collocation`, an array, or nested lists."""
    return raw if isinstance(raw, Collocation) else Collocation.of(raw)
