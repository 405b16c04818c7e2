"""Tensors in, tensors out, without importing whose tensors they are."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_numpy(given: Any) -> NDArray[Any]:
    """Anything array-like on the host: an array, nested lists, or a tensor wherever it lies.

    A tensor of a type numpy does not know, such as bfloat16, is taken in single precision.

    >>> as_numpy([[1, 2]]).shape
    (1, 2)
    """
    if isinstance(given, np.ndarray):
        return given
    for step in ("detach", "cpu"):
        given = getattr(given, step, lambda given=given: given)()
    to_numpy = getattr(given, "numpy", None)
    if to_numpy is None:
        return np.asarray(given)
    try:
        return np.asarray(to_numpy())
    except TypeError:
        return np.asarray(given.float().numpy())


def as_given(array: NDArray[np.int64], given: Any) -> Any:
    """`array` as what was given: numpy for numpy and lists; for a tensor one of its kind on its device, int64.

    The tensor itself is asked (``new_tensor``), else the module of its type, which is loaded as somebody made the
    tensor; where neither can, numpy.

    >>> as_given(np.array([1]), [1.0])
    array([1])
    """
    if isinstance(given, np.ndarray | list | tuple | np.generic) or given is None:
        return array
    module = sys.modules.get(type(given).__module__.partition(".")[0])
    dtype = getattr(module, array.dtype.name, None)
    if hasattr(given, "new_tensor"):
        return given.new_tensor(array) if dtype is None else given.new_tensor(array, dtype=dtype)
    maker = getattr(module, "as_tensor", None) or getattr(module, "asarray", None)
    if maker is None:
        return array
    device = getattr(given, "device", None)
    return maker(array, dtype=dtype or array.dtype) if device is None else maker(array, device=device, dtype=dtype)
