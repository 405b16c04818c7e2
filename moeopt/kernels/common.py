"""What several searches do alike: a random number, the cost of a replica, a row over another one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Ints = NDArray[np.int64]


@jit
def draw(rng: Ints, below: int) -> int:
    """A number in ``0..below-1`` from a Lehmer generator that is the same in any interpreter; `rng` (1,) goes on."""
    rng[0] = (rng[0] * 48271) % 2147483647
    return int(rng[0] % below)


@jit
def piece(load: float, count: int, floor: float) -> float:
    """Cost of one replica out of `count`, at speed 1; nothing for the empty expert, whose load is negative."""
    if load < 0.0 or count < 1:
        return 0.0
    part = load / count
    return part if part > floor else floor


@jit
def copy_into(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Make the entries of `target` (n,) those of `source` (n,).

    Numba compiles ``target[:] = source`` for seconds, as it would put the shapes into the text of an error.
    """
    for i in range(target.shape[0]):
        target[i] = source[i]
