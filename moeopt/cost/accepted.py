"""Tokens that a round of speculative decoding brings, from a chance, from chances by position, or as measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, probability, whole
from moeopt.cost.exact import plain
from moeopt.errors import Violations


@checked
def accepted_length(acceptance: Number, *, length: int) -> Number:
    """Tokens that a round brings on average if every drafted token is accepted with one chance: ``1 + a + ... + a^k``.

    Parameters
    ----------
    acceptance
        ``a``, chance that a drafted token is accepted, given that all before it were; within 0 and 1.
    length
        ``k``, drafted tokens of a round, 0 or more.

    Returns
    -------
    int, Fraction or float
        From 1 (the target's own token) to ``k + 1``; exact if `acceptance` is.

    Raises
    ------
    InstanceError
        A chance outside [0, 1], a negative length.

    Notes
    -----
    Strength: expectation under a constant, independent chance. Leviathan et al., arXiv 2211.17192, equation 1, as a
    sum: the quotient ``(1 - a^(k+1))/(1 - a)`` is 0/0 at a = 1. Measured chances fall with the position, so at
    length 8 this can be 60 % too high: prefer `best_draft_length` on a measured curve.

    >>> accepted_length(0.8, length=5), accepted_length(1, length=5)
    (3.6892800000000006, 6)
    """
    check = Violations()
    probability(check, acceptance=acceptance)
    whole(check, 0, length=length)
    check.raise_if_any()
    return accepted_lengths([plain(acceptance)] * int(length))[-1] if length else 1


@checked
def accepted_lengths(acceptance: Sequence[Number]) -> tuple[Number, ...]:
    """Tokens that rounds of 1, 2, ... drafted tokens bring on average, from the chance of every position.

    Parameters
    ----------
    acceptance
        ``a_j``, chance that the j-th drafted token is accepted, given that all before it were.

    Returns
    -------
    tuple
        ``1 + sum over j <= k of a_1 ... a_j`` for k = 1, 2, ...; exact if the chances are.

    Raises
    ------
    InstanceError
        A chance outside [0, 1].

    Notes
    -----
    Strength: exact expectation for these chances.

    >>> accepted_lengths([0.5, 0.5])
    (1.5, 1.75)
    """
    check = Violations()
    for place, chance in enumerate(acceptance):
        found = Violations()
        probability(found, acceptance=chance)
        for fault in found.found:
            check.add("acceptance", chance, rule=fault.rule, fix=fault.fix, where=str(place))
    check.raise_if_any()
    reached, total, lengths = plain(1), plain(1), []
    for chance in acceptance:
        reached = plain(reached * plain(chance))
        total = plain(total + reached)
        lengths.append(total)
    return tuple(lengths)


@checked
def concave_lengths(lengths: Sequence[Number]) -> tuple[float, ...]:
    """The least concave curve over measured lengths: what noise makes fall or jump, smoothed upwards.

    Parameters
    ----------
    lengths
        Measured mean tokens of a round for k = 1, 2, ... drafted tokens; k = 0 is 1.

    Returns
    -------
    tuple of float
        As long, nowhere below the measured ones; the last is at least the last measured one.

    Raises
    ------
    InstanceError
        A length outside ``[1, k + 1]``, or none.

    Notes
    -----
    Strength: exact hull. True curves of one drafter are concave when chances fall with the position; measured ones are
    not even monotone. The hull is optimistic where the true curve is not concave, which is why it is never applied
    unasked.

    >>> concave_lengths([1.9, 2.6, 2.5, 3.1])
    (1.9, 2.6, 2.85, 3.1)
    """
    curve = [1.0, *(float(value) for value in check_lengths(lengths))]
    hull: list[int] = []
    for place in range(len(curve)):
        while len(hull) > 1 and _below(curve, hull[-2], hull[-1], place):
            hull.pop()
        hull.append(place)
    smooth = list(curve)
    for low, high in pairwise(hull):
        for place in range(low + 1, high):
            smooth[place] = curve[low] + (curve[high] - curve[low]) * (place - low) / (high - low)
    return tuple(smooth[1:])


def _below(curve: list[float], first: int, middle: int, last: int) -> bool:
    """Whether the middle point lies on or below the line between the others."""
    rise = (curve[last] - curve[first]) * (middle - first)
    return (curve[middle] - curve[first]) * (last - first) <= rise


def check_lengths(lengths: Sequence[Number]) -> Sequence[Number]:
    """The lengths, if each is within what a round of its draft can bring."""
    check = Violations()
    if not len(lengths):
        check.add("lengths", "none", rule="there must be a length", fix="Give the mean tokens for k = 1, 2, ...")
    for place, value in enumerate(lengths):
        if not is_number(value) or not 1 <= value <= place + 2:
            rule = f"a round of {place + 1} drafted tokens brings from 1 to {place + 2}"
            check.add("lengths", value, rule=rule, fix="Count the target's own token too", where=str(place))
    check.raise_if_any()
    return lengths
