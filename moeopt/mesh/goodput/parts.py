"""One replica of a pool with its part of the requests, simulated from a service in full swing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.config import Config
from moeopt.mesh.goodput.pools import decoding, prefilling, service_of
from moeopt.mesh.goodput.requests import Requests
from moeopt.mesh.goodput.search import most_rate
from moeopt.mesh.goodput.service import Service
from moeopt.mesh.goodput.simulate import simulate
from moeopt.mesh.instance import MeshInstance

Floats = NDArray[np.float64]
SETTLING = 1.0
"""Requests before those that count, as a part of these: queues that grow without end have to show."""


def part_of(instance: MeshInstance, config: Config, share: float, notes: list[str]) -> Part:
    """The replica of a configuration, usable ones of any family."""
    if config.family == "colocated":
        return Part(instance, config, service_of(instance, config), share)
    if config.family == "prefill":
        return Part(instance, config, prefilling(instance, config), share)
    return Part(instance, config, _decoding(instance, config, notes), share)


def _decoding(instance: MeshInstance, config: Config, notes: list[str]) -> Service:
    if config.family == "decode":
        return decoding(instance, config)
    assert config.tpot_s is not None
    output = instance.demands[config.demand].workload.output_tokens
    notes.append(f"steps of {config.label} take the time of a full batch")
    slots = max(round(config.decode_per_s * output * config.tpot_s), 1)
    return Service(step_s=config.tpot_s, slots=slots, prefill_servers=1, prefill_s=0.0)


class Part:
    """One replica of a pool; what comes to it is `share` of all requests."""

    def __init__(self, instance: MeshInstance, config: Config, service: Service, share: float) -> None:
        self.config, self.service, self.share = config, service, share
        workload = instance.demands[config.demand].workload
        self.inputs = max(round(workload.computed_tokens), 1)
        self.outputs = 1 if config.family == "prefill" else workload.output_tokens

    def most(self) -> float:
        """Requests a second of the replica that cannot be kept up for longer.

        Where it serves whole requests that is the rate of means: all its places are taken then (Little's law).
        """
        if self.config.family == "colocated":
            return self.config.decode_per_s
        one = Requests.poisson(1, input_tokens=self.inputs, output_tokens=self.outputs)
        if self.service.prefill_tokens is None:
            return most_rate(self.service, one)
        prompts = self.service.prefill_tokens // self.inputs
        batch = float(self.service.prefill_seconds(np.array([prompts * self.inputs]))[0])
        return self.service.prefill_servers * prompts / batch

    def run(self, rate_per_s: float, count: int, seed: int) -> tuple[Floats, Floats]:
        """TTFT and TPOT of the requests that count."""
        steps: Any = self.service.step_s
        held = self._in_flight(rate_per_s)
        stay = self.outputs * steps[max(-(-held // self.service.ranks), 1)]
        before = math.ceil(SETTLING * count)
        after = math.ceil(rate_per_s * stay) if self.outputs > 1 else 0
        asked = Requests.poisson(
            before + count + after, input_tokens=self.inputs, output_tokens=self.outputs, rate_per_s=rate_per_s,
            seed=seed,
        )  # fmt: skip
        warm = [2 + place * (self.outputs - 2) // held for place in range(held)] if self.outputs > 1 else []
        served = simulate(self.service, asked, seed=seed, warm=warm)
        return served.ttft_s[before : before + count], served.tpot_s[before : before + count]

    def _in_flight(self, rate_per_s: float) -> int:
        """Sequences at which as many end as come, at most those that there is room for."""
        steps: Any = self.service.step_s
        batches = np.arange(1, self.service.slots + 1)
        ends = batches * self.service.ranks / (np.array(steps[1:]) * self.outputs)
        enough = np.flatnonzero(ends >= rate_per_s)
        batch = int(batches[enough[0]]) if len(enough) else self.service.slots
        least = rate_per_s * self.outputs * steps[batch]
        return min(max(round(float(least)), 0), self.service.slots * self.service.ranks)
