"""The plan: which part of an expert's tokens goes to which GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError
from moeopt.kinds import is_whole

Share = tuple[int, int, float]
"""(expert, GPU, part): a share of the expert's tokens in 0..1, or whole tokens."""
Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Routing:
    """A split for every layer.

    Parameters
    ----------
    shares
        Per layer the (expert, GPU, part) triples. The last one of an expert takes exactly what the others leave, so
        that rounding loses no tokens.
    in_tokens
        Whether parts are whole tokens; else they are shares that sum to 1.

    >>> Routing.of([[(0, 0, 0.75), (0, 1, 0.25)]]).shares
    (((0, 0, 0.75), (0, 1, 0.25)),)
    """

    shares: tuple[tuple[Share, ...], ...]
    in_tokens: bool = False

    def __post_init__(self) -> None:
        rows = self.shares
        if not isinstance(rows, tuple) or not all(isinstance(row, tuple) for row in rows):
            raise PlanError(["shares are tuples of (expert, GPU, part), one a layer: Routing.of(...) makes them"])
        for row in rows:
            for item in row:
                _triple(item, False)

    @classmethod
    def of_columns(cls, rows: Sequence[Columns], in_tokens: bool = False) -> Routing:
        """From the experts, GPUs and parts of every layer, which are copied."""
        columns = {place: (row[0].copy(), row[1].copy(), row[2].copy()) for place, row in enumerate(rows)}
        shares = (tuple(zip(*(column.tolist() for column in row), strict=True)) for row in columns.values())
        plan = cls.__new__(cls)  # what is made of columns is in order
        plan.__dict__.update(shares=tuple(shares), in_tokens=in_tokens, _columns=columns)
        return plan

    def columns(self, row: int) -> Columns:
        """Experts, GPUs and parts of a layer."""
        known: dict[int, Columns] = self.__dict__.setdefault("_columns", {})
        if row not in known:
            expert, gpu, part = zip(*self.shares[row], strict=True) if self.shares[row] else ((), (), ())
            known[row] = np.array(expert), np.array(gpu), np.array(part)
        return known[row]

    @classmethod
    def of(cls, shares: Any, in_tokens: bool = False) -> Routing:
        """Copy triples, one layer flat or all layers; refuse what is none."""
        if isinstance(shares, Sequence) and len(shares) and _is_triple(shares[0]):
            shares = [shares]
        try:
            rows = tuple(tuple(_triple(item, in_tokens) for item in row) for row in shares)
        except TypeError as error:
            raise PlanError(["shares are rows of [expert, GPU, part], one row a layer"]) from error
        return cls(rows, bool(in_tokens))


def as_plan(raw: Any) -> Routing:
    """Take a plan in any form a policy returns: a `Routing`, its triples, or a mapping with ``shares``."""
    if isinstance(raw, Routing):
        return raw
    if isinstance(raw, dict):
        unit = raw.get("unit", "share")
        if "shares" not in raw or unit not in ("share", "tokens"):
            raise PlanError(["a plan has shares, and unit share or tokens"])
        return Routing.of(raw["shares"], unit == "tokens")
    return Routing.of(raw)


def _is_triple(item: Any) -> bool:
    return isinstance(item, Sequence) and len(item) == 3 and all(isinstance(part, Real) for part in item)


def _triple(item: Any, in_tokens: bool) -> Share:
    if not _is_triple(item):
        raise PlanError([f"{item!r} is not [expert, GPU, part]"])
    expert, gpu, part = item
    for what, value in (("expert", expert), ("GPU", gpu), *([("tokens", part)] if in_tokens else [])):
        if not is_whole(value):
            raise PlanError([f"{what} {value!r} in {list(item)} is not a whole number"])
    try:
        return int(expert), int(gpu), int(part) if in_tokens else float(part)
    except OverflowError as error:
        raise PlanError([f"the share of expert {expert} on GPU {gpu} is beyond the range of a double"]) from error
