"""The plan: which expert sits in each slot, and for a free split, how its tokens are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError
from moeopt.slot_table import slot_table

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

    Raises
    ------
    PlanError
        No such table or triples; `of` takes more.

    >>> Placement.of([[0, 1, 1, 2]]).replicas(3).tolist()
    [[1, 2, 1]]
    """

    slot_expert: NDArray[np.int32]
    shares: tuple[tuple[Share, ...], ...] | None = None

    def __post_init__(self) -> None:
        table, shares = self.slot_expert, self.shares
        if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iu":
            raise PlanError(["slot_expert is no array (layers, slots) of whole numbers: Placement.of(...) makes one"])
        if shares is not None and not (isinstance(shares, tuple) and all(isinstance(row, tuple) for row in shares)):
            raise PlanError(["shares are no tuples, one a layer: Placement.of(...) makes them"])

    @classmethod
    def of(cls, slot_expert: Any, shares: Sequence[Sequence[Share]] | None = None) -> Placement:
        """Copy anything array-like, one layer flat or all layers.

        Raises
        ------
        PlanError
            It is no table of whole numbers, or the shares are no triples of numbers.
        """
        table = slot_table(slot_expert)
        try:
            frozen = (
                None
                if shares is None
                else tuple(tuple((int(e), int(g), float(x)) for e, g, x in row) for row in shares)
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise PlanError(["shares are not rows of (expert, GPU, share), one row a layer"]) from error
        return cls(table, frozen)

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


def as_placement(instance: PlacementInstance, raw: Any) -> Placement:
    """Take a plan in any form a policy returns: a `Placement`, an array, or nested lists."""
    return raw if isinstance(raw, Placement) else Placement.of(raw)
