"""Constants that sources of cost models leave unsaid, each with what pins it; every function takes others instead."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checks import fraction
from moeopt.errors import Violations


@dataclass(frozen=True)
class Efficiency:
    """Parts of the peak figures of a data sheet that kernels and libraries reach; see Notes for what pins the defaults.

    Parameters
    ----------
    compute
        Of peak dense FLOP/s, by large matrix products.
    memory
        Of memory bandwidth, by kernels that stream weights or caches.
    network
        Of the bandwidth of a link in one direction, NVLink and NIC alike.
    usable_memory
        Of a GPU's capacity, after context, activations and fragments.

    Raises
    ------
    InstanceError
        A part that is not above 0 and at most 1.

    Notes
    -----
    Strength: assumptions. ``0.7`` and ``0.8`` together give the 258 tokens an expert that lecture notes on MoE
    inference print for the H100 (section 2.4), and with ``network = 0.8`` and 72 of 80 GB the 30,144 and 18,624
    tokens/s of section 2.3 to the last digit. Network: 40 of 50 GB/s of a 400 Gb/s port, 720 of 900 GB/s of NVLink 5.
    They are no measurement of your cluster.

    >>> Efficiency()
    Efficiency(compute=0.7, memory=0.8, network=0.8, usable_memory=0.9)
    """

    compute: float = 0.7
    memory: float = 0.8
    network: float = 0.8
    usable_memory: float = 0.9

    def __post_init__(self) -> None:
        check = Violations()
        fraction(check, compute=self.compute, memory=self.memory)
        fraction(check, network=self.network, usable_memory=self.usable_memory)
        check.raise_if_any()


PEAK = Efficiency(1.0, 1.0, 1.0, 1.0)
"""Data-sheet figures as they stand: floors of time, and counts of GPUs without any reserve."""

LINK_ALPHA_S = 2e-6
"""Latency of one step of a collective over NVLink, seconds. Pinned by the all-reduces of 590 and 770 us on eight A800
(lecture notes, section 4.4) and, with `OVERHEAD_S`, by both throughputs of section 2.3: 14 steps twice and the overhead
are 66.0 us a layer."""

IB_ALPHA_S = 5e-6
"""Latency of one all-to-all over InfiniBand, seconds: exercise 3 of the lecture notes says it."""

OVERHEAD_S = 1e-5
"""Launches and small kernels of one layer, seconds: what is left of the 66.0 us beside 28 steps of `LINK_ALPHA_S`."""

NVL72_COLLECTIVE_S = 3e-6
"""Fixed time of one collective within an NVL72 rack, whatever its size, seconds: lecture notes, section 5.5 (one shot
through the switches); with it the least times per token of Helix and pure TP come out as 2.29 and 3.83 ms."""
