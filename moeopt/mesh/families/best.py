"""The best choice of every shape so far."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from moeopt.mesh.step.parts import PARTS
from moeopt.mesh.step.table import Bools, Floats, Ints


@dataclass
class Best:
    """One value a row: batch, rate (what is maximised), seconds, parts, what was chosen, how many memory holds,
    and whether prefill keeps up with no more."""

    batch: Floats
    rate: Floats
    tpot_s: Floats
    ttft_s: Floats
    parts: Floats
    draft: Floats
    portion: Floats
    overlap: Floats
    fit: Floats
    full: Floats

    @classmethod
    def none(cls, rows: int) -> Best:
        """Nothing chosen, at no rate."""
        shapes = {item.name: (rows,) for item in fields(cls)} | {"parts": (len(PARTS), rows)}
        return cls(**{name: np.zeros(shape) for name, shape in shapes.items()})

    def take(self, better: Bools | bool, **values: Floats | Ints | float) -> None:
        """Where `better`, these values."""
        for name, value in values.items():
            setattr(self, name, np.where(better, value, getattr(self, name)))

    def parts_of(self, row: int) -> dict[str, float]:
        """Parts of one row by name."""
        return dict(zip(PARTS, self.parts[:, row].tolist(), strict=True))
