"""Formulas as they are published, each with a flag that says whether it is right for these numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from moeopt.microbatch import closed_forms
from moeopt.microbatch.graph import Number

NEAR = 1e-12
"""Relative difference at which two doubles count as equal here."""


@dataclass(frozen=True)
class Published:
    """A published time, whether it equals the true one, and by what part of the true one it is off."""

    time: Number
    valid: bool
    error: float | None

    def to_dict(self, source: str) -> dict[str, Any]:
        """For documents."""
        return {"time_s": float(self.time), "valid": self.valid, "error": self.error, "source": source}


PING_PONG_SOURCE = "MegaScale-Infer (arXiv 2504.02263), equation 5"
DUAL_SOURCE = "dual micro-batch overlap as often quoted: max(2 compute, 2 network) a layer"


def ping_pong(
    m: int,
    layers: int,
    attention: Number,
    dispatch: Number,
    experts: Number,
    combine: Number,
    truth: Number | None = None,
) -> Published:
    """``(T_a + T_e + 2 T_c) + T_f (m L - 1)`` with ``T_f = max(T_a, T_e)``, held against the closed form or `truth`.

    It supposes that attention or experts are never idle, which needs ``m T_f >= R`` and links no slower than T_f; with
    fewer micro-batches it is too low, by more than half with one.

    >>> ping_pong(3, 40, 0.4, 0.3, 0.5, 0.3).valid, ping_pong(2, 40, 0.4, 0.3, 0.5, 0.3)
    (True, Published(time=41.0, valid=False, error=-0.32231404958677684))
    """
    time = attention + dispatch + experts + combine + max(attention, experts) * (m * layers - 1)
    if truth is None:
        truth = closed_forms.ping_pong(m, layers, attention, dispatch, experts, combine).time
    return compared(time, truth)


def dual(
    m: int,
    layers: int,
    attention: Number,
    dispatch: Number,
    experts: Number,
    combine: Number,
    truth: Number | None = None,
) -> Published:
    """``L max(m (T_a + T_e), m (T_d + T_b))``: neither fill nor drain, and an order that hides everything.

    Held against the closed form, first come first served, or against the `truth` of another order.

    >>> dual(2, 58, 2, 1, 2, 1)
    Published(time=464, valid=False, error=-0.002150537634408602)
    """
    time = layers * m * max(attention + experts, dispatch + combine)
    if truth is None:
        truth = closed_forms.dual(m, layers, attention, dispatch, experts, combine).time
    return compared(time, truth)


def compared(time: Number, truth: Number) -> Published:
    """A published time beside the true one; exact numbers must be equal, doubles within 1e-12."""
    valid = time == truth
    if not valid and (isinstance(time, float) or isinstance(truth, float)):
        valid = math.isclose(time, truth, rel_tol=NEAR, abs_tol=0.0)
    return Published(time, valid, float((time - truth) / truth) if truth else (0.0 if valid else None))


def asked_m(attention: Number, dispatch: Number, experts: Number, combine: Number) -> Number | None:
    """``2 (1 + T_c / T_f)``, with two links ``2 + (T_d + T_b) / T_f``; ``None`` where T_f is 0 and links take time.

    >>> round(asked_m(0.4, 0.3, 0.5, 0.3), 9)
    3.2
    """
    top, links = max(attention, experts), dispatch + combine
    if not top:
        return None if links else 2
    if isinstance(top, int) and isinstance(links, int):
        return 2 + Fraction(links, top)
    return 2 + links / top


def fewest_m(attention: Number, dispatch: Number, experts: Number, combine: Number) -> int | None:
    """The published rule, the least m with ``m >= 2 (1 + T_c / T_f)``; ``None``: no m is enough.

    It asks for more than is needed where attention and experts differ.

    >>> fewest_m(0.4, 0.3, 0.5, 0.3), fewest_m(1, Fraction(1, 2), 1, Fraction(1, 2))
    (4, 3)
    """
    asked = asked_m(attention, dispatch, experts, combine)
    if asked is None:
        return None
    return math.ceil(asked * (1 - closed_forms.HIDES)) if isinstance(asked, float) else math.ceil(asked)
