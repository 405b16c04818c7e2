"""How speculative sampling keeps the target's distribution: how often a draft is accepted, and what replaces it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number
from moeopt.cost.exact import plain
from moeopt.errors import Violations

SUM_TOLERANCE = 1e-9
"""How far floats of a distribution may add up from 1."""


@checked
def draft_acceptance(target: Sequence[Number], draft: Sequence[Number]) -> Number:
    """Chance that a token drawn from `draft` is accepted: ``sum of min(p, q)``.

    Parameters
    ----------
    target, draft
        ``p`` and ``q``, chances of every token of the vocabulary.

    Raises
    ------
    InstanceError
        Lengths that differ, chances outside [0, 1], sums that are not 1 (to 1e-9, exactly for exact chances).

    Notes
    -----
    Strength: exact. Leviathan et al., arXiv 2211.17192, corollary 3.6.

    >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
    >>> draft_acceptance([half, quarter, quarter], [quarter, half, quarter])
    Fraction(3, 4)
    """
    _check(target, draft)
    return plain(sum((min(plain(p), plain(q)) for p, q in zip(target, draft, strict=True)), start=Fraction(0)))


@checked
def residual_distribution(target: Sequence[Number], draft: Sequence[Number]) -> tuple[Number, ...]:
    """The distribution of the token that replaces a rejected one: ``max(p - q, 0)``, scaled to 1.

    Parameters
    ----------
    target, draft
        As in `draft_acceptance`.

    Raises
    ------
    InstanceError
        As in `draft_acceptance`; equal distributions, where nothing is ever rejected and there is no residual.

    Notes
    -----
    Strength: exact: ``min(p, q) + (1 - sum of min(p, q)) x residual = p``, so the output is distributed as without
    drafting, whatever the draft. Chen et al., arXiv 2302.01318, theorem 1.

    >>> residual_distribution([0.3, 0.4, 0.3], [0.6, 0.3, 0.1])
    (0.0, 0.33333333333333337, 0.6666666666666665)
    """
    _check(target, draft)
    left = [max(plain(plain(p) - plain(q)), 0) for p, q in zip(target, draft, strict=True)]
    total = sum(left)
    if total == 0:
        check = Violations()
        rule = "is the target itself: nothing is rejected, so nothing replaces it"
        check.add("draft", "equal to target", rule=rule, fix="Sample from the target")
        check.raise_if_any()
    return tuple(plain(Fraction(value) / total) if not isinstance(total, float) else value / total for value in left)


def _check(target: Sequence[Number], draft: Sequence[Number]) -> None:
    check = Violations()
    if len(target) != len(draft) or not len(target):
        rule = f"target has {len(target)} tokens: both need the same vocabulary, of at least one"
        check.add("draft", f"{len(draft)} tokens", rule=rule, fix="Give 0 to tokens that one of them never says")
    for name, chances in (("target", target), ("draft", draft)):
        wrong = [place for place, chance in enumerate(chances) if not is_number(chance) or not 0 <= chance <= 1]
        for place in wrong[:5]:
            rule = "must be a chance within 0 and 1"
            check.add(name, chances[place], rule=rule, fix="Normalise the logits", where=str(place))
        if not wrong and len(chances):
            total = sum(plain(chance) for chance in chances)
            if abs(total - 1) > SUM_TOLERANCE if isinstance(total, float) else total != 1:
                check.add(name, f"sum {float(total)!r}", rule="must add up to 1", fix="Normalise it")
    check.raise_if_any()
