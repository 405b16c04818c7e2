"""The kernel's value of whole plans, in numpy: what needs no compiler."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.loads import gpu_loads
from moeopt.kernels.moving import MEAN, TAIL, Layer


def values(layer: Layer, plans: NDArray[np.int64]) -> NDArray[np.float64]:
    """(P,) values, in units of the ideal, of plans (P, S) with -1 for empty slots."""
    experts = layer.loads.shape[1] - (layer.empty >= 0)
    rows = np.arange(len(plans))[:, None]
    filled = plans >= 0
    keys = (rows * experts + plans)[filled]
    counts = np.maximum(np.bincount(keys, minlength=len(plans) * experts).reshape(len(plans), experts), 1)
    tops = np.empty((len(plans), len(layer.loads)))
    for window, (loads, floor, base) in enumerate(zip(layer.loads, layer.floor, layer.base, strict=True)):
        pieces = np.maximum(loads[:experts] / counts, floor)
        tops[:, window] = ((gpu_loads(pieces, plans, layer.start) + base) * layer.pace).max(axis=1)
    if layer.combine == MEAN:
        combined = tops @ layer.tail
    elif layer.combine == TAIL:
        combined = -np.sort(-tops, axis=1) @ layer.tail
    else:
        combined = tops.max(axis=1)
    return np.asarray(combined, dtype=np.float64)
