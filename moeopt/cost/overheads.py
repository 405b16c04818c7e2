"""What is paid beside the bytes: compressing them, and launching kernels."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, whole
from moeopt.errors import Violations

LAUNCHES_PER_LAYER = {"COMET": 33, "Megatron-CUTLASS": 85, "Megatron-TE": 261, "Megatron-DeepEP": 432, "DeepSpeed": 550}
"""GPU operations of one MoE layer, two A100, 32 experts each, counted in the FlashMoE paper (Aimuyo et al., 2025)."""


@dataclass(frozen=True, slots=True)
class Compression:
    """Whether compressing what is sent pays.

    Parameters
    ----------
    saved_s, cost_s
        Seconds that the link is spared, and seconds of packing and unpacking.
    pays
        ``saved_s > cost_s``.
    break_even_bytes_per_s
        Bandwidth below which it pays; ``None`` where packing costs nothing.
    changes_numerics
        The values that arrive are not those that were sent: quality has to be tested, however fast it is.
    """

    saved_s: float
    cost_s: float
    pays: bool
    break_even_bytes_per_s: float | None
    changes_numerics: bool


@checked
def compression_break_even(
    size_bytes: Number,
    *,
    ratio: Number,
    bytes_per_s: Number,
    quantize_s: Number,
    dequantize_s: Number,
    lossless: bool = False,
) -> Compression:
    """Sending fewer bytes against packing and unpacking them: pays if ``V (1 - r) / B > t_q + t_dq``.

    Parameters
    ----------
    size_bytes
        ``V``, bytes in the busiest direction without compression.
    ratio
        ``r``, bytes after over bytes before, scales included: FP8 of BF16 with a 4-byte scale for 128 is 0.516. Above 1
        it never pays.
    bytes_per_s
        ``B``, bandwidth in one direction.
    quantize_s, dequantize_s
        Seconds of packing and unpacking this size; 0 if a kernel does it on the way.
    lossless
        The receiver restores every bit. Else `changes_numerics` is set, whatever experts compute in.

    Raises
    ------
    InstanceError
        Negative bytes, ratio or times, a bandwidth that is not above 0.

    Notes
    -----
    Strength: model, without overlap; one call a direction, since dispatch and combine have their own formats. Chapter
    on multi-node inference, 4.2.

    >>> found = compression_break_even(14_450_688, ratio=0.5, bytes_per_s=40e9, quantize_s=2e-5, dequantize_s=2e-5)
    >>> round(found.saved_s * 1e6, 1), found.pays, found.changes_numerics
    (180.6, True, True)
    """
    check = Violations()
    not_negative(check, size_bytes=size_bytes, ratio=ratio, quantize_s=quantize_s, dequantize_s=dequantize_s)
    positive(check, bytes_per_s=bytes_per_s)
    check.raise_if_any()
    spared = float(size_bytes) * (1 - float(ratio))
    saved, cost = spared / float(bytes_per_s), float(quantize_s) + float(dequantize_s)
    even = max(spared, 0.0) / cost if cost > 0 else None
    return Compression(saved, cost, saved > cost, even, not lossless)


@checked
def launch_overhead_s(launches: int, *, launch_s: Number, layers: int = 1) -> float:
    """Seconds that launching takes when nothing hides it: ``launches x seconds x layers``.

    Parameters
    ----------
    launches
        Kernels and copies of one layer; `LAUNCHES_PER_LAYER` has counts of known stacks.
    launch_s
        Seconds of one launch; a few microseconds on the host, less within a CUDA graph.
    layers
        Layers of the step.

    Raises
    ------
    InstanceError
        Counts or times that are negative.

    Notes
    -----
    Strength: upper bound: launches that run ahead of the GPU cost nothing until the GPU waits. One persistent kernel
    (FlashMoE, MegaMoE) has one launch.

    >>> round(launch_overhead_s(432, launch_s=4e-6, layers=58) * 1e3, 1)  # milliseconds
    100.2
    """
    check = Violations()
    whole(check, 0, launches=launches, layers=layers)
    not_negative(check, launch_s=launch_s)
    check.raise_if_any()
    return int(launches) * float(launch_s) * int(layers)
