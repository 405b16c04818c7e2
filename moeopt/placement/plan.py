"""The plan: which expert sits in each slot, and for a free split, how its tokens are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

Share = tuple[int, int, float]
"""(expert, GPU, share of the expert's tokens)."""

EMPTY = -1
"""The expert id of an empty slot."""


@dataclass(frozen=True, eq=False)
class Placement:
    """A plan for every layer.

    Parameters
    ----------
    slot_expert
        (L, S) expert in each slot, slots in GPU-major order, -1 where a slot is empty; read-only.
    shares
        For a free split, per layer the (expert, GPU, share) triples; ``None``: even parts.

    >>> Placement.of([[0, 1, 1, 2]]).replicas(3).tolist()
    [[1, 2, 1]]
    """

    slot_expert: NDArray[np.int32]
    shares: tuple[tuple[Share, ...], ...] | None = None

    @classmethod
    def of(cls, slot_expert: Any, shares: Sequence[Sequence[Share]] | None = None) -> Placement:
        """Copy anything array-like, one layer flat or all layers; refuse what is not whole numbers."""
        try:
            array = np.asarray(slot_expert)
        except ValueError as error:
            raise PlanError([f"slot_expert is not a table of layers x slots: {_lengths(slot_expert)}"]) from error
        if array.ndim == 1:
            array = array[None, :]
        if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
            raise PlanError([f"slot_expert has shape {array.shape}, dtype {array.dtype}: need whole (layers, slots)"])
        if int(array.max()) >= 2**31 or int(array.min()) < -(2**31):
            raise PlanError(["slot_expert holds an id beyond 32 bits"])
        copy = array.astype(np.int32)
        copy.flags.writeable = False
        frozen = (
            None if shares is None else tuple(tuple((int(e), int(g), float(x)) for e, g, x in row) for row in shares)
        )
        return cls(copy, frozen)

    def replicas(self, num_experts: int) -> NDArray[np.int64]:
        """(L, E) copies of each expert; read-only, counted once."""
        known: NDArray[np.int64] | None = self.__dict__.get("_replicas")
        if known is None or known.shape[1] != num_experts:
            num_layers = len(self.slot_expert)
            keys = self.slot_expert + np.arange(num_layers)[:, None] * num_experts
            filled = keys[self.slot_expert >= 0]
            known = np.bincount(filled, minlength=num_layers * num_experts).reshape(num_layers, num_experts)
            known.flags.writeable = False
            object.__setattr__(self, "_replicas", known)
        return known


def _lengths(rows: Any) -> str:
    """How the rows of what is no table differ."""
    try:
        sizes = [len(row) for row in rows]
    except TypeError:
        return "some rows are no lists"
    odd = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
    if odd is None:
        return "entries are no numbers"
    return f"row 0 has {sizes[0]} slots, row {odd} has {sizes[odd]}"


def as_placement(instance: PlacementInstance, raw: Any) -> Placement:
    """Take a plan in any form a policy returns: a `Placement`, an array, or nested lists."""
    return raw if isinstance(raw, Placement) else Placement.of(raw)
