"""The search over counts: legal counts, the same steps however it is cut, compiled or not."""

from __future__ import annotations

import random

import numpy as np

from moeopt.kernels import settle
from moeopt.kernels.counts import greedy_counts


def test_counts_stay_legal_and_steps_do_not_depend_on_how_they_are_run() -> None:
    rng = random.Random(8)
    for _ in range(25):
        slots, num_gpus = rng.choice([(2, 5), (3, 4), (4, 4)])
        num_experts = rng.randint(num_gpus, slots * num_gpus - 2)
        loads = np.array([rng.choice([1.0, 2.0, 9.0, 20 * rng.random()]) for _ in range(num_experts)])
        ones = np.ones(num_experts, dtype=np.int64)
        answers = []
        for run, chunk in ((settle.settle, 300), (settle.settle, 37), (settle.settle.plain(), 300)):
            counts = greedy_counts(loads[None, :], slots * num_gpus, num_gpus)[0]
            best, memory, state = counts.copy(), settle.forget(), np.array([5], dtype=np.int64)
            for begin in range(0, 300, chunk):
                todo = min(chunk, 300 - begin)
                run(loads, 0.0, counts, best, ones, num_gpus, slots, num_gpus, 0.0, todo, memory, state)
            answers.append((best.tolist(), memory.tolist(), state.tolist()))
            assert best.sum() == slots * num_gpus and best.min() >= 1 and best.max() <= num_gpus
        assert answers[0] == answers[1] == answers[2]
