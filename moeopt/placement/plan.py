"""The plan: which expert sits in each slot, and for a free split, how its tokens are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError, shortened
from moeopt.kinds import is_whole
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
        (L, S) expert in each slot, slots in GPU-major order, -1 where a slot is empty; a copy, read-only. Anything
        array-like is taken, one layer flat or all layers.
    shares
        For a free split, per layer the (expert, GPU, share) triples; ``None``: even parts.

    Raises
    ------
    PlanError
        It is no table of whole numbers, or the shares are no triples of two whole numbers and a number.

    >>> Placement.of([[0, 1, 1, 2]]).replicas(3).tolist()
    [[1, 2, 1]]
    """

    slot_expert: NDArray[np.int32]
    shares: tuple[tuple[Share, ...], ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "slot_expert", slot_table(self.slot_expert))
        if self.shares is not None:
            object.__setattr__(self, "shares", _shares(self.shares))

    @classmethod
    def of(cls, slot_expert: Any, shares: Sequence[Sequence[Share]] | None = None) -> Placement:
        """The same, for what is no array yet.

        Raises
        ------
        PlanError
            As the class itself.
        """
        return cls(slot_expert, cast(Any, shares))

    def replicas(self, num_experts: int) -> NDArray[np.int64]:
        """(L, E) copies of each expert; read-only, counted once.

        Raises
        ------
        PlanError
            An expert of the plan is none of so many.
        """
        known: NDArray[np.int64] | None = self.__dict__.get("_replicas")
        if known is None or known.shape[1] != num_experts:
            top = int(self.slot_expert.max())
            if not is_whole(num_experts) or num_experts <= top:
                raise PlanError([f"{shortened(repr(num_experts))} experts, the plan has expert {top}"])
            num_layers = len(self.slot_expert)
            keys = self.slot_expert + np.arange(num_layers)[:, None] * num_experts
            filled = keys[self.slot_expert >= 0]
            known = np.bincount(filled, minlength=num_layers * num_experts).reshape(num_layers, num_experts)
            known.flags.writeable = False
            object.__setattr__(self, "_replicas", known)
        return known


def _shares(rows: Any) -> tuple[tuple[Share, ...], ...]:
    """Shares as they are kept; ``of`` may have them in lists."""
    try:
        return tuple(tuple(_share(*triple) for triple in row) for row in rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise PlanError(["shares are not rows of (expert, GPU, share), one row a layer"]) from error


def _share(expert: Any, gpu: Any, share: Any) -> Share:
    for number in (expert, gpu):
        if not is_whole(number):
            raise TypeError("no whole number")
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError("no number")
    return int(expert), int(gpu), float(share)


def as_placement(instance: PlacementInstance, raw: Any) -> Placement:
    """Take a plan in any form a policy returns: a `Placement`, an array, or nested lists."""
    return raw if isinstance(raw, Placement) else Placement.of(raw)
