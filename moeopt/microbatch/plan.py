"""The plan: how many micro-batches, how many tokens, and where it is not first come first served, the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.errors import PlanError, shortened
from moeopt.kinds import is_whole


@dataclass(frozen=True)
class MicrobatchPlan:
    """One choice.

    Parameters
    ----------
    m, batch
        Micro-batches, and tokens of the whole step.
    sequences
        Items of each resource in the order they are served; ``None``: first come, first served.

    Raises
    ------
    PlanError
        `m` or `batch` is no whole number, or `sequences` are no tuples of them.
    """

    m: int
    batch: int
    sequences: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        for name, value in (("m", self.m), ("batch", self.batch)):
            if not is_whole(value):
                raise PlanError([f"{name} = {shortened(repr(value))} is not a whole number"])
            object.__setattr__(self, name, int(value))
        rows = self.sequences
        if rows is not None and not (isinstance(rows, tuple) and all(isinstance(row, tuple) for row in rows)):
            raise PlanError(["sequences are tuples of item numbers, one a resource"])


def as_plan(raw: Any) -> MicrobatchPlan:
    """Take a plan in any form a policy returns: a `MicrobatchPlan`, ``(m, batch)``, or a mapping of its fields.

    >>> as_plan((4, 64)) == as_plan({"m": 4, "batch": 64}) == MicrobatchPlan(4, 64)
    True
    """
    if isinstance(raw, MicrobatchPlan):
        return raw
    if isinstance(raw, Mapping):
        values: tuple[Any, ...] = (raw.get("m"), raw.get("batch"), raw.get("sequences"))
    elif isinstance(raw, Sequence) and not isinstance(raw, str) and len(raw) in (2, 3):
        values = (*raw, None) if len(raw) == 2 else tuple(raw)
    else:
        raise PlanError([f"a plan is (m, batch) or a mapping with m and batch, not {type(raw).__name__}"])
    m, batch, sequences = values
    MicrobatchPlan(m, batch)
    try:
        rows = None if sequences is None else tuple(tuple(map(_item, row)) for row in sequences)
    except TypeError as error:
        raise PlanError(["sequences are rows of item numbers, one row a resource"]) from error
    return MicrobatchPlan(int(m), int(batch), rows)


def _item(number: Any) -> int:
    if not is_whole(number):
        raise TypeError("no whole number")
    return int(number)
