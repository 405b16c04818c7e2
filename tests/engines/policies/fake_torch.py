"""A tensor of a library we do not know: what a policy may ask of it, and no more."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np


class Tensor:
    """Lies on a device, and gives its numbers only on the host."""

    def __init__(self, data: Any, dtype: Any = None, device: str = "gpu:0") -> None:
        self.data, self.device = np.array(data, dtype=dtype), device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return type(self)(self.data, device="cpu")

    def float(self) -> Tensor:
        return Tensor(self.data.astype(np.float32), device=self.device)

    def numpy(self) -> Any:
        if self.device != "cpu":
            raise TypeError("cannot convert a tensor on a GPU")
        return self.data

    def new_tensor(self, data: Any, dtype: Any = None) -> Tensor:
        return type(self)(data, dtype=dtype, device=self.device)

    def tolist(self) -> Any:
        return self.data.tolist()

    def __len__(self) -> int:
        return len(self.data)


class HalfTensor(Tensor):
    """A type that numpy does not know, such as bfloat16."""

    def numpy(self) -> Any:
        raise TypeError("unsupported ScalarType")

    def float(self) -> Tensor:
        return Tensor(self.data.astype(np.float32), device=self.device)


class PlainTensor(Tensor):
    """One that its module makes, not another tensor."""

    new_tensor = property()  # type: ignore[assignment]


def install(monkeypatch: Any) -> ModuleType:
    """Let the classes belong to a module ``faketorch`` that is loaded."""
    module = ModuleType("faketorch")
    module.int64 = np.int64  # type: ignore[attr-defined]
    module.as_tensor = lambda data, dtype=None, device="cpu": PlainTensor(data, dtype, device)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faketorch", module)
    for kind in (Tensor, HalfTensor, PlainTensor):
        monkeypatch.setattr(kind, "__module__", "faketorch")
    return module
