"""One kernel for dispatch, experts and combine: when communication hides, and how many waves of experts to make."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, whole
from moeopt.cost.exact import plain
from moeopt.errors import Violations

MOST_WAVES = 2**52
"""Where no limit is given; beyond it floats do not tell two numbers of waves apart."""


@checked
def balance_flops_per_byte(
    intermediate: int, *, matrices: int = 3, dispatch_bytes: Number = 1, combine_bytes: Number = 2
) -> Number:
    """Operations per byte that an expert offers: computing at a higher ``C/B`` waits for the network.

    Parameters
    ----------
    intermediate
        ``d``, width inside an expert.
    matrices
        Products of hidden x d: 3 with a gate, 2 without.
    dispatch_bytes, combine_bytes
        Bytes of an element each way; FP8 and BF16 by default.

    Returns
    -------
    int, Fraction or float
        ``2 matrices h d / (h (dispatch + combine))``, with the defaults ``6 h d / 3 h = 2 d``; the hidden size cancels.
        Exact if the bytes are.

    Raises
    ------
    InstanceError
        Counts below 1, bytes that are not above 0.

    Notes
    -----
    Strength: exact count; every pair (token, expert) crosses the network. Merging copies or experts on the home GPU
    raise it. DeepSeek-V4 report (MegaMoE).

    >>> balance_flops_per_byte(3072)
    6144
    """
    check = Violations()
    whole(check, intermediate=intermediate, matrices=matrices)
    positive(check, dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes)
    check.raise_if_any()
    both, flops = plain(plain(dispatch_bytes) + plain(combine_bytes)), 2 * int(matrices) * int(intermediate)
    return flops / both if isinstance(both, float) else plain(Fraction(flops) / both)


@dataclass(frozen=True, slots=True)
class Balance:
    """Whether experts hide their communication.

    Parameters
    ----------
    hidden
        ``flops_per_byte <= threshold``: ideally nothing of the communication shows.
    flops_per_byte, threshold
        ``C/B`` of the hardware, and what experts offer.
    bytes_per_s_needed
        Bandwidth from which it hides.
    """

    hidden: bool
    flops_per_byte: float
    threshold: float
    bytes_per_s_needed: float


@checked
def communication_hides(
    *,
    flops_per_s: Number,
    bytes_per_s: Number,
    intermediate: int,
    matrices: int = 3,
    dispatch_bytes: Number = 1,
    combine_bytes: Number = 2,
) -> Balance:
    """Whether ``C/B`` is within `balance_flops_per_byte`, and the bandwidth that it takes.

    Parameters
    ----------
    flops_per_s
        ``C``, operations a second that experts reach: peak times an efficiency.
    bytes_per_s
        ``B``, bytes a second of a GPU in one direction. Both directions count here as one sum, as in the source; a full
        duplex link that sends and receives at once has twice the room.
    intermediate, matrices, dispatch_bytes, combine_bytes
        As in `balance_flops_per_byte`.

    Raises
    ------
    InstanceError
        As in `balance_flops_per_byte`; rates that are not above 0.

    Notes
    -----
    Strength: ideal threshold, necessary for hiding: experts that wait for weights, and the first and last wave, come on
    top.

    >>> communication_hides(flops_per_s=1979e12 * 0.7, bytes_per_s=40e9, intermediate=2048).hidden  # H800, 400 Gb/s
    False
    """
    check = Violations()
    positive(check, flops_per_s=flops_per_s, bytes_per_s=bytes_per_s)
    threshold = 1.0
    with check.within():
        threshold = float(
            balance_flops_per_byte(
                intermediate, matrices=matrices, dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes
            )
        )
    check.raise_if_any()
    ratio = float(flops_per_s) / float(bytes_per_s)
    return Balance(ratio <= threshold, ratio, threshold, float(flops_per_s) / threshold)


@dataclass(frozen=True, slots=True)
class Waves:
    """The best number of waves, its seconds, and the seconds of one wave: no overlap at all."""

    waves: int
    time_s: float
    one_wave_s: float


@checked
def waves_s(waves: int, *, dispatch_s: Number, compute_s: Number, combine_s: Number, wave_s: Number = 0.0) -> float:
    """Seconds of a layer in equal waves of experts: one wave computes while the next arrives and the last returns.

    Parameters
    ----------
    waves
        ``w``, at least 1.
    dispatch_s, compute_s, combine_s
        Seconds of each stage for the whole layer, all waves together.
    wave_s
        Seconds that every stage adds for each wave: signals, tiles that are not full, weights read again.

    Returns
    -------
    float
        ``(S - M)/w + M + (w + 2) wave_s`` for the sum ``S`` and the largest ``M`` of the stages.

    Raises
    ------
    InstanceError
        Waves below 1, negative times.

    Notes
    -----
    Strength: exact for three stages of equal waves, each on its own resource; dispatch and combine each have a
    direction of the link. `moeopt.microbatch` has uneven ones.

    >>> round(waves_s(4, dispatch_s=1.0, compute_s=2.0, combine_s=1.0, wave_s=0.01), 9)
    2.56
    """
    check = Violations()
    whole(check, waves=waves)
    not_negative(check, dispatch_s=dispatch_s, compute_s=compute_s, combine_s=combine_s, wave_s=wave_s)
    check.raise_if_any()
    stages, waves = [float(dispatch_s), float(compute_s), float(combine_s)], int(waves)
    return (sum(stages) - max(stages)) / waves + max(stages) + (waves + 2) * float(wave_s)


@checked
def best_waves(
    *, dispatch_s: Number, compute_s: Number, combine_s: Number, wave_s: Number, most: int | None = None
) -> Waves:
    """The number of waves with the least `waves_s`; the fewest of equals.

    Parameters
    ----------
    dispatch_s, compute_s, combine_s, wave_s
        As in `waves_s`; `wave_s` above 0 unless `most` is given.
    most
        Most waves: experts of a GPU, since an expert is in one wave.

    Returns
    -------
    Waves
        Two waves or more pay exactly if ``(S - M)/2 > wave_s``.

    Raises
    ------
    InstanceError
        As in `waves_s`; waves that cost nothing without a limit.

    Notes
    -----
    Strength: exact. ``waves_s`` is convex in w, least at ``sqrt((S - M)/wave_s)``; both whole numbers beside it are
    looked at.

    >>> best_waves(dispatch_s=1.0, compute_s=2.0, combine_s=1.0, wave_s=0.125)
    Waves(waves=4, time_s=3.25, one_wave_s=4.375)
    """
    check = Violations()
    not_negative(check, dispatch_s=dispatch_s, compute_s=compute_s, combine_s=combine_s, wave_s=wave_s)
    if most is not None:
        whole(check, most=most)
    elif not check.found and wave_s == 0:
        check.add(
            "wave_s", wave_s, rule="waves that cost nothing have no best number", fix="Give most, or their seconds"
        )
    check.raise_if_any()
    stages = [float(dispatch_s), float(compute_s), float(combine_s)]
    hideable = sum(stages) - max(stages)
    ideal = sqrt(hideable / float(wave_s)) if wave_s else inf if hideable else 1.0
    limit = int(most) if most is not None else MOST_WAVES
    near = int(min(ideal, limit))

    def seconds(waves: int) -> float:
        return waves_s(waves, dispatch_s=dispatch_s, compute_s=compute_s, combine_s=combine_s, wave_s=wave_s)

    tried = sorted({min(max(waves, 1), limit) for waves in (near - 1, near, near + 1, near + 2)})
    chosen = min(tried, key=seconds)
    return Waves(chosen, seconds(chosen), seconds(1))
