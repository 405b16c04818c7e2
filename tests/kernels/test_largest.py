"""Largest first as a kernel gives the bytes of the NumPy version, whatever the shape."""

from __future__ import annotations

import random

import numpy as np
import pytest

from moeopt.kernels import lpt
from moeopt.kernels.largest import largest
from moeopt.kernels.warmup import load_search


def test_kernel_and_numpy_packing_agree_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    load_search()
    rng = random.Random(3)
    for _ in range(150):
        num_gpus, num_experts, num_layers = rng.randint(1, 6), rng.randint(1, 9), rng.randint(1, 3)
        slots = [rng.randint(0, 4) for _ in range(num_gpus)]
        slots[0] += max(num_experts - sum(slots), 0)
        pieces = np.array([[rng.choice([0.0, 1.0, 1.0, 2.5, rng.random()]) for _ in range(num_experts)]] * num_layers)
        counts = np.ones((num_layers, num_experts), dtype=np.int64)
        for _ in range(rng.randint(0, sum(slots) - num_experts)):
            counts[:, rng.randrange(num_experts)] += 1
        speed = None if rng.random() < 0.5 else [rng.choice([1.0, 0.5, 3.0]) for _ in slots]
        distinct = rng.random() < 0.5
        with monkeypatch.context() as patch:  # interpreted where nothing is compiled
            patch.setattr(type(largest), "ready", lambda self: True)
            fast = lpt.pack(pieces, counts, slots, speed, distinct=distinct)
        with monkeypatch.context() as patch:
            patch.setattr(type(largest), "ready", lambda self: False)
            slow = lpt.pack(pieces, counts, slots, speed, distinct=distinct)
        assert fast.tolist() == slow.tolist()
