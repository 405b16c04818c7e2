"""A link as the alpha-beta model sees it: a latency and a bandwidth, and units that data sheets mix."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt import kinds
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, fraction, not_negative, positive, whole
from moeopt.cost.constants import IB_ALPHA_S, LINK_ALPHA_S, Efficiency
from moeopt.errors import InstanceError, Violation, Violations
from moeopt.llm.gpus import find_gpu


@dataclass(frozen=True)
class Link:
    """What one GPU has of one fabric, in one direction: NVLink, or its NIC.

    Parameters
    ----------
    alpha_s
        Latency of one step, seconds: launch, synchronisation and first byte. 1 to 2 us for NVLink, 3 to 5 us for RDMA.
    bytes_per_s
        Bandwidth that messages reach, bytes/s in one direction; times an efficiency if it comes from a data sheet.

    Raises
    ------
    InstanceError
        A negative latency, a bandwidth that is not above 0, or either not finite.

    Notes
    -----
    Strength: model (Hockney, Parallel Computing 20, 1994): full duplex, no congestion, one bandwidth at every size.
    Messages of some kilobytes do not reach it; fit both numbers with two message sizes where there are measurements.

    >>> round(Link(5e-6, 40e9).time_s(7_225_344) * 1e6, 1)  # microseconds
    185.6
    """

    alpha_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        check = Violations()
        not_negative(check, alpha_s=self.alpha_s)
        positive(check, bytes_per_s=self.bytes_per_s)
        check.raise_if_any()

    @classmethod
    def scale_up(cls, gpu: str, *, efficiency: Efficiency | None = None, alpha_s: float = LINK_ALPHA_S) -> Link:
        """NVLink, or what a GPU of the table (`moeopt.llm.find_gpu`) has in its place: data sheet times efficiency.

        Raises
        ------
        InstanceError
            An unknown GPU, or one whose interconnect no source confirms; a negative latency.

        >>> Link.scale_up("H800")
        Link(alpha_s=2e-06, bytes_per_s=160000000000.0)
        """
        row = find_gpu(gpu)
        return cls._of(row.name, "scale_up_bytes_per_s", row.scale_up_bytes_per_s, efficiency, alpha_s)

    @classmethod
    def nic(cls, gpu: str, *, efficiency: Efficiency | None = None, alpha_s: float = IB_ALPHA_S) -> Link:
        """The network port of a GPU of the table: data sheet times efficiency. Errors as in `scale_up`.

        >>> Link.nic("H800")
        Link(alpha_s=5e-06, bytes_per_s=40000000000.0)
        """
        row = find_gpu(gpu)
        return cls._of(row.name, "nic_bytes_per_s", row.nic_bytes_per_s, efficiency, alpha_s)

    @classmethod
    def _of(cls, gpu: str, name: str, bytes_per_s: float | None, efficiency: Efficiency | None, alpha_s: float) -> Link:
        check = Violations()
        kinds.is_a(check, "efficiency", efficiency, Efficiency, none=True)
        check.raise_if_any()
        if bytes_per_s is None:
            rule = "no source confirms it"
            raise InstanceError([Violation(name, gpu, "not known", rule, "Build a Link from your own figures")])
        return cls(alpha_s, bytes_per_s * (efficiency or Efficiency()).network)

    def time_s(self, size_bytes: Number, steps: int = 1) -> float:
        """Seconds of so many bytes in so many steps, one after another: ``steps alpha + bytes / bandwidth``."""
        check = Violations()
        not_negative(check, size_bytes=size_bytes)
        whole(check, 0, steps=steps)
        check.raise_if_any()
        return steps * self.alpha_s + float(size_bytes) / self.bytes_per_s


@checked
def usable_bytes_per_s(bits_per_s: Number, *, efficiency: float = 0.8) -> float:
    """Bytes/s that a port reaches in one direction; ports are sold in bits/s.

    Parameters
    ----------
    bits_per_s
        Line rate of the port in one direction, bits/s.
    efficiency
        Part of the line rate that large messages reach; 0.8 is the network efficiency of `moeopt.cost.Efficiency`.

    Raises
    ------
    InstanceError
        A rate that is not above 0, an efficiency outside (0, 1].

    Notes
    -----
    Strength: model. Lecture notes on MoE inference, section 3.1: 40 of the 50 GB/s of a 400 Gb/s port.

    >>> usable_bytes_per_s(400e9)
    40000000000.0
    """
    check = Violations()
    positive(check, bits_per_s=bits_per_s)
    fraction(check, efficiency=efficiency)
    check.raise_if_any()
    return float(bits_per_s) / 8 * efficiency


@checked
def domain_bytes_per_s(gpu: str, *, both_directions: bool = True) -> float:
    """What all GPUs of one scale-up domain send together, bytes/s by the data sheet; with what they receive, doubled.

    `gpu` is its name in the table; `both_directions` adds what is received.

    Raises
    ------
    InstanceError
        An unknown GPU, or one whose interconnect or domain no source confirms.

    Notes
    -----
    Strength: exact product of catalogue figures. Vendors print both directions added (NVL72: "130 TB/s"); no algorithm
    here may use that sum: a `Link` has one direction.

    >>> domain_bytes_per_s("GB200") / 1e12
    129.6
    """
    row = find_gpu(gpu)
    if row.scale_up_bytes_per_s is None or row.domain is None:
        rule = "has no confirmed interconnect or domain"
        raise InstanceError([Violation("gpu", "", row.name, rule, "Multiply your own figures")])
    return row.scale_up_bytes_per_s * row.domain * (2 if both_directions else 1)
