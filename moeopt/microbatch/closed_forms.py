"""Closed forms of the schedules, valid for micro-batches that are all alike in layers that are all alike.

They hold in whatever numbers they are given, exactly in whole numbers and fractions. Uneven micro-batches, uneven
layers and one link for both directions have no formula: see `moeopt.microbatch.simulate`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from moeopt.microbatch.graph import Number

if TYPE_CHECKING:
    from moeopt.microbatch.candidates import Candidate
    from moeopt.microbatch.instance import MicrobatchInstance

HIDES = 1e-12
"""Relative error that is forgiven when ``m M >= R`` is asked of doubles."""


@dataclass(frozen=True)
class Form:
    """What a formula says.

    Parameters
    ----------
    time
        T, from the start of the first item to the end of the last one.
    cycle
        C, what one more layer costs.
    round_trip
        R, one micro-batch through all stages of a layer with nobody in its way.
    busiest
        M, the largest time of one micro-batch on one resource.
    """

    time: Number
    cycle: Number
    round_trip: Number
    busiest: Number


def ping_pong(m: int, layers: int, attention: Number, dispatch: Number, experts: Number, combine: Number) -> Form:
    """``C = max(m M, R)`` and ``T = R + (L - 1) C + (m - 1) M``, with R the sum of the four times and M the largest.

    Valid for every m, every number of layers and all times >= 0, each stage on a resource of its own. It is also the
    least time that any order of service allows (``models/microbatch.md``, bounds).

    Source: derived here; the lecture notes on MoE inference, section 4.3, have it for equal links. MegaScale-Infer
    (arXiv 2504.02263) prints the special case of `moeopt.microbatch.published`.

    >>> [ping_pong(m, 32, 10, 4, 10, 4).time for m in (1, 2, 3, 4)]
    [896, 906, 978, 1298]
    """
    times = (attention, dispatch, experts, combine)
    trip, top = sum(times), max(times)
    cycle = max(m * top, trip)
    return Form(trip + (layers - 1) * cycle + (m - 1) * top, cycle, trip, top)


def dual(m: int, layers: int, attention: Number, dispatch: Number, experts: Number, combine: Number) -> Form:
    """Two resources, computing and network, with two stages each; m = 1 (no overlap) or 2, first come first served.

    With m = 2: ``C = max(2 (A + E), 2 (D + B), R + max - min)`` over the four times, and ``T = T_1 + (L - 1) C`` where
    ``T_1 = max(2A + 2E + B, A + 2D + 2B, R + max, 2A + D + 2B, 2A + E + 2B)`` is one layer.

    The often quoted ``max(2 (A + E), 2 (D + B))`` a layer is a lower bound that this order of service meets only when
    the third term is not larger.

    Source: derived here from the cycles and paths of the stage graph.

    >>> dual(1, 58, 2, 1, 2, 1).time, dual(2, 58, 2, 1, 2, 1).time, dual(2, 58, 2, 1, 2, 1).cycle
    (348, 465, 8)

    Raises
    ------
    ValueError
        m above 2: the order of service is then not known beforehand.
    """
    a, d, e, b = attention, dispatch, experts, combine
    trip, top = a + d + e + b, max(a, d, e, b)
    if m == 1:
        return Form(layers * trip, trip, trip, max(a + e, d + b))
    if m != 2:
        raise ValueError(f"the formula of two resources is for m = 1 and 2, not {m}")
    cycle = max(2 * (a + e), 2 * (d + b), trip + top - min(a, d, e, b))
    first = max(2 * a + 2 * e + b, a + 2 * d + 2 * b, trip + top, 2 * a + d + 2 * b, 2 * a + e + 2 * b)
    return Form(first + (layers - 1) * cycle, cycle, trip, max(a + e, d + b))


def flow_shop(m: int, layers: int, times: Sequence[Number], rest: Number = 0) -> Form:
    """``C = rest + R + (m - 1) M`` and ``T = L C``: m equal parts through stages in a row, layers one after another.

    Valid for every m >= 1 and all times >= 0; the least time that any order allows.

    >>> flow_shop(4, 1, [Fraction(3, 10)] * 2).time
    Fraction(3, 2)
    """
    trip, top = sum(times), max(times)
    cycle = rest + trip + (m - 1) * top
    return Form(layers * cycle, cycle, trip, top)


def chunks(m: int, layers: int, dispatch: Number, experts: Number, rest: Number = 0) -> Form:
    """m chunks: ``t_c + t_g + (m - 1) max(t_c, t_g)`` a layer; times of one chunk, its fixed cost included.

    >>> round(chunks(4, 1, 1.0 / 4 + 0.05, 1.0 / 4 + 0.05).time, 9)
    1.5
    """
    return flow_shop(m, layers, (dispatch, experts), rest)


def waves(m: int, layers: int, dispatch: Number, experts: Number, combine: Number, rest: Number = 0) -> Form:
    """m waves: ``t_d + t_e + t_b + (m - 1) max(t_d, t_e, t_b)`` a layer, fill and drain included.

    >>> waves(8, 1, 2, 3, 2).time
    28
    """
    return flow_shop(m, layers, (dispatch, experts, combine), rest)


def hop_b(m: int, layers: int, attention: Number, exchange: Number, rest: Number = 0) -> Form:
    """m groups: ``max(m a + c, a + m c)`` a layer; times of one group.

    With latency per message c is the exchange of one group; amortised it is the exchange of the whole batch over m.

    >>> hop_b(8, 1, 2, Fraction(6, 5)).time, hop_b(8, 1, Fraction(6, 5), 2).time
    (Fraction(86, 5), Fraction(86, 5))
    """
    return flow_shop(m, layers, (attention, exchange), rest)


def fewest_m(times: Sequence[Number]) -> int:
    """The least m with ``m M >= R (1 - 1e-12)``: the busiest resource is then never idle once it runs; 1 if all are 0.

    >>> fewest_m([0.4, 0.3, 0.5, 0.3]), fewest_m([10, 4, 10, 4]), fewest_m([0.1, 0.1, 0.1, 0.0])
    (3, 3, 3)
    """
    trip, top = sum(times), max(times)
    if not top:
        return 1
    ratio = trip / top if isinstance(trip, float) or isinstance(top, float) else Fraction(trip) / Fraction(top)
    return max(1, math.ceil(ratio * (1 - Fraction(1, 10**12)) if isinstance(ratio, Fraction) else ratio * (1 - HIDES)))


def form_of(instance: MicrobatchInstance, candidate: Candidate) -> Form | None:
    """The formula's word on a candidate, exact; ``None`` where there is no formula."""
    if instance.layer_scale is not None or not candidate.alike:
        return None
    fine, ticks = instance.in_ticks(candidate)
    form = form_of_times(instance.pattern, candidate.m, instance.layers, ticks)
    if form is None:
        return None
    return Form(*(Fraction(int(value), fine) for value in (form.time, form.cycle, form.round_trip, form.busiest)))


def form_of_times(pattern: str, m: int, layers: int, times: Mapping[str, Number]) -> Form | None:
    """The same from the seconds of each stage."""
    rest: Number = times.get("rest", 0)
    if pattern == "ping-pong":
        return ping_pong(m, layers, times["attention"], times["dispatch"], times["experts"], times["combine"])
    if pattern == "dual" and m <= 2:
        return dual(m, layers, times["attention"], times["dispatch"], times["experts"], times["combine"])
    if pattern == "chunks":
        return chunks(m, layers, times["dispatch"], times["experts"], rest)
    if pattern == "waves":
        return waves(m, layers, times["dispatch"], times["experts"], times["combine"], rest)
    if pattern == "hop-b":
        return hop_b(m, layers, times["attention"], times["exchange"], rest)
    return None
