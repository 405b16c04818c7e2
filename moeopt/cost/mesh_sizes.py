"""Sizes of a mesh: GPUs by either convention of EP, experts of a rank, stripes of a sequence, the TP that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, is_number, not_negative, whole
from moeopt.errors import Violations


@checked
def world_size(
    *, tp: int = 1, pp: int = 1, dp: int = 1, cp: int = 1, ep: int = 1, sp: int | None = None, ep_overlaps: bool
) -> int:
    """GPUs of a mesh; sources differ on whether experts have GPUs of their own axis, so the caller has to say.

    Parameters
    ----------
    tp, pp, dp, cp, ep
        Degrees of tensor, pipeline, data, context and expert parallelism.
    sp
        Sequence parallelism, if any: it uses the tensor group, so it must equal `tp` and multiplies nothing.
    ep_overlaps
        True: experts are spread over the GPUs that TP, DP and CP span, ``W = tp pp dp cp`` and EP divides ``tp dp cp``
        (DeepSeek-V3: TP4 x DP80 = EP320). False: EP is a factor, ``W = tp pp dp cp ep``.

    Raises
    ------
    InstanceError
        Degrees below 1, an SP that is not the TP, an overlapping EP that does not divide ``tp dp cp``.

    Notes
    -----
    Strength: exact. As a factor: note on MoE systems. Overlapping: DeepSeek-V3 report (arXiv 2412.19437),
    3.4, where a factor would ask for 102,400 GPUs.

    >>> world_size(pp=4, tp=2, ep=8, sp=2, ep_overlaps=False), world_size(tp=4, dp=80, ep=320, ep_overlaps=True)
    (64, 320)
    """
    check = Violations()
    whole(check, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep)
    if sp is not None:
        whole(check, sp=sp)
        if not check.found and sp not in (1, tp):
            check.add("sp", sp, rule=f"uses the tensor group, tp = {tp}", fix=f"Use {tp}, or leave it out")
    if not check.found and ep_overlaps:
        divides(check, "ep", ep, "tp x dp x cp", int(tp) * int(dp) * int(cp))
    check.raise_if_any()
    return int(tp) * int(pp) * int(dp) * int(cp) * (1 if ep_overlaps else int(ep))


@checked
def experts_per_rank(experts: int, *, ep: int, redundant: int = 0) -> int:
    """Physical experts of every rank, ``(E + redundant) / EP``.

    Raises
    ------
    InstanceError
        Counts below their range, a degree that does not divide.

    >>> experts_per_rank(64, ep=8), experts_per_rank(256, ep=144, redundant=32)
    (8, 2)
    """
    check = Violations()
    whole(check, experts=experts, ep=ep)
    whole(check, 0, redundant=redundant)
    if not check.found:
        divides(check, "ep", ep, "experts + redundant", int(experts) + int(redundant))
    check.raise_if_any()
    return (int(experts) + int(redundant)) // int(ep)


@checked
def redundant_experts_bound(experts: int, *, ranks: int) -> Fraction:
    """Redundant experts of a rank that suffice for exactly equal ranks, about ``E/R``: as many as it has already.

    Parameters
    ----------
    experts, ranks
        Logical experts, and ranks ``R``.

    Raises
    ------
    InstanceError
        Counts below 1.

    Notes
    -----
    Strength: the bound that the Kimi K3 report states for MoonEP ("at most about E/R"), not proved here. In the worst
    case the memory of experts doubles.

    >>> redundant_experts_bound(896, ranks=64)
    Fraction(14, 1)
    """
    check = Violations()
    whole(check, experts=experts, ranks=ranks)
    check.raise_if_any()
    return Fraction(int(experts), int(ranks))


@checked
def striped_positions(tokens: int, *, ranks: int) -> list[list[int]]:
    """Positions of every rank when token i goes to rank ``i mod C``: causal attention costs all ranks alike.

    Parameters
    ----------
    tokens, ranks
        Length of the sequence, and context-parallel ranks ``C``.

    Raises
    ------
    InstanceError
        Negative tokens, ranks below 1.

    Notes
    -----
    Strength: exact; ranks differ by at most one position. Striped Attention (Brandon et al., arXiv 2311.09431).

    >>> striped_positions(7, ranks=3)
    [[0, 3, 6], [1, 4], [2, 5]]
    """
    check = Violations()
    whole(check, 0, tokens=tokens)
    whole(check, ranks=ranks)
    check.raise_if_any()
    tokens, ranks = int(tokens), int(ranks)
    return [list(range(rank, tokens, ranks)) for rank in range(ranks)]


@dataclass(frozen=True, slots=True)
class TpChoice:
    """The tensor degree with the least seconds, those seconds, and the seconds of all degrees."""

    tp: int
    time_s: float
    times_s: dict[int, float]


@checked
def best_tp(compute_s: Number, *, degrees: Sequence[int], communicate_s: Callable[[int], float]) -> TpChoice:
    """Where tensor parallelism stops paying: the least ``T/N + communication(N)``.

    Parameters
    ----------
    compute_s
        ``T``, seconds of the layers on one GPU.
    degrees
        Degrees to try: divisors of heads, KV heads and widths that the fast fabric holds.
    communicate_s
        Seconds of all collectives at a degree, such as twice `moeopt.cost.collective_s` of an all-reduce; 0 for one.

    Returns
    -------
    TpChoice
        The smallest of equal degrees.

    Raises
    ------
    InstanceError
        A negative time, no degrees, degrees below 1, a function that returns no finite number >= 0.

    Notes
    -----
    Strength: exact minimum of the model: compute shrinks as 1/N, which small matrices do not, and nothing overlaps.

    >>> from moeopt.cost.collectives import collective_s
    >>> from moeopt.cost.links import Link
    >>> reduce = lambda tp: 2 * collective_s("all_reduce", 256 * 8192 * 2, ranks=tp, link=Link(2e-6, 360e9))
    >>> best_tp(400e-6, degrees=(1, 2, 4, 8, 16), communicate_s=reduce).tp
    8
    """
    check = Violations()
    not_negative(check, compute_s=compute_s)
    if not len(degrees):
        check.add("degrees", "none", rule="there must be one to try", fix="Give divisors of the number of heads")
    for place, degree in enumerate(degrees):
        if isinstance(degree, bool) or not isinstance(degree, Integral) or degree < 1:
            check.refuse("degrees", degree, rule="must be a whole number >= 1", fix="Leave it out", where=str(place))
    check.raise_if_any()
    times: dict[int, float] = {}
    for degree in sorted({int(degree) for degree in degrees}):
        value = communicate_s(degree)
        if not is_number(value) or value < 0:
            rule = "must return finite seconds >= 0"
            check.add("communicate_s", value, rule=rule, fix="Repair the function", where=str(degree))
            continue
        times[degree] = float(compute_s) / degree + float(value)
    check.raise_if_any()
    chosen = min(times, key=times.__getitem__)
    return TpChoice(chosen, times[chosen], times)
