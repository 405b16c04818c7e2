"""What a law looks at, and what it says: plain data that the files of laws share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.workload.dummies import Dummies
from moeopt.workload.table import Loads

NOTE, MATTERS = "note", "matters"


@dataclass(frozen=True)
class Finding:
    """One law that the data do not keep.

    Parameters
    ----------
    name
        Stable, as `LAWS` lists it.
    severity
        ``note``, or ``matters``: a plan made on these data may be wrong or worse than it looks.
    text
        What, where, how much, and what to do.

    >>> Finding("idle-layers", "note", "layers 0-2 are idle")
    Finding(name='idle-layers', severity='note', text='layers 0-2 are idle')
    """

    name: str
    severity: str
    text: str


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything known of a recording.

    Parameters
    ----------
    loads, layers
        (L, E) counts and the ids of the layers.
    per_step
        (T, L, E) counts step by step, where known.
    top_k, experts, slots, gpus
        Experts a token selects; experts of the LLM; slots of the plan that ran; GPUs; ``None`` where not known.
    dense_layers, mtp_layers
        Layers without experts and layers of the draft model; ``None`` where the LLM is not known.
    parallel
        Sizes of groups of ranks that may each have counted the same tokens, such as tp and dp.
    absolute
        Whether the loads are used as numbers of tokens (a floor, seconds) and not only in proportion.
    dummies
        Dummy rows of a trace.
    recorded
        Whether the loads are known to be counts of selections, and not weights of somebody's making.
    """

    loads: Loads
    layers: tuple[int, ...]
    per_step: NDArray[np.int64] | None = None
    top_k: int | None = None
    experts: int | None = None
    slots: int | None = None
    gpus: int | None = None
    dense_layers: tuple[int, ...] | None = None
    mtp_layers: tuple[int, ...] | None = None
    parallel: tuple[int, ...] = ()
    absolute: bool = False
    dummies: Dummies | None = None
    recorded: bool = False

    @property
    def whole(self) -> bool:
        """Whether all loads are whole numbers."""
        return self.loads.dtype.kind == "i" or bool((self.loads == np.floor(self.loads)).all())

    @property
    def sums(self) -> NDArray[np.float64]:
        """(L,) selections of a layer."""
        return np.asarray(self.loads.sum(axis=1, dtype=np.float64))

    @property
    def busy(self) -> list[int]:
        """Rows of layers that have any load."""
        return np.flatnonzero(self.sums > 0).tolist()

    def severity(self, matters: bool) -> str:
        """The word for it."""
        return MATTERS if matters else NOTE


def some(ids: list[int] | tuple[int, ...]) -> str:
    """Layers by id, in words.

    >>> some([3]), some([0, 1, 2, 7])
    ('layer 3', 'layers 0-2,7')
    """
    from moeopt.workload.table import id_ranges

    shown = id_ranges(list(ids)[:200])
    return f"layer{'' if len(ids) == 1 else 's'} {shown}" + (" and more" if len(ids) > 200 else "")
