"""A row over another one: numba compiles ``a[:] = b`` for seconds, as it would put the shapes into an error's text."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from moeopt.kernels._jit import jit


@jit
def copy_into(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Make the entries of `target` (n,) those of `source` (n,)."""
    for i in range(target.shape[0]):
        target[i] = source[i]
