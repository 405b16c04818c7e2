"""How many experts a batch touches, and how many GPUs or nodes a token does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, not_negative, top_k_of, whole
from moeopt.errors import Violations


@checked
def touched_experts(*, experts: int, top_k: int, tokens: Number) -> float:
    """Expected distinct experts that at least one of the tokens selects: ``E (1 - (1 - k/E)^n)``.

    Parameters
    ----------
    experts, top_k
        E routed experts of a layer, k different ones a token, ``1 <= k <= E``.
    tokens
        n >= 0 tokens in one pass; half a token (a mean over batches) is interpolated.

    Raises
    ------
    InstanceError
        k above E, counts that are not whole, negative or not finite tokens.

    Notes
    -----
    Strength: the exact expectation if tokens select independently and uniformly. By Jensen, unequal popularity touches
    fewer (`touched_by_chances`), and so do tokens that resemble each other.
    Source: lecture notes on MoE inference, section 2.1; the argument is that of the coupon collector.

    >>> [round(touched_experts(experts=64, top_k=4, tokens=n), 1) for n in (1, 16, 64)]
    [4.0, 41.2, 63.0]
    """
    check = Violations()
    top_k_of(check, experts=experts, top_k=top_k)
    not_negative(check, tokens=tokens)
    check.raise_if_any()
    if top_k == experts:
        return float(experts * min(1.0, float(tokens)))
    return -experts * math.expm1(float(tokens) * math.log1p(-top_k / experts))


@checked
def touched_exactly(*, experts: int, top_k: int, tokens: int) -> Fraction:
    """`touched_experts` as a fraction, for whole tokens; its size grows with the tokens.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> touched_exactly(experts=8, top_k=2, tokens=4)
    Fraction(175, 32)
    """
    check = Violations()
    top_k_of(check, experts=experts, top_k=top_k)
    whole(check, 0, tokens=tokens)
    check.raise_if_any()
    return experts * (1 - Fraction(experts - top_k, experts) ** tokens)


@checked
def touched_by_chances(chances: ArrayLike, *, tokens: Number) -> float:
    """Expected distinct experts touched where a token selects each expert with its own chance: ``sum 1 - (1 - p_e)^n``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    chances
        (E,) chance that one token selects the expert, within 0 and 1; they sum to top-k (`selection_chances`).
    tokens
        n >= 0 tokens.

    Notes
    -----
    Strength: exact expectation for independent tokens, whatever the dependence within a token.

    >>> round(touched_by_chances([0.5, 0.5, 0.5, 0.5], tokens=4), 4)  # E = 4, k = 2
    3.75
    """
    check = Violations()
    values = np.asarray(chances, dtype=np.float64)
    not_negative(check, tokens=tokens)
    if values.ndim != 1 or not np.all((values >= 0) & (values <= 1)):  # NaN fails both
        rule = "must be one row of chances within 0 and 1"
        check.add("chances", values.tolist(), rule=rule, fix="Divide selections by tokens")
    check.raise_if_any()
    n = float(tokens)
    never = np.where(values < 1, np.exp(n * np.log1p(-np.minimum(values, 1 - 1e-16))), max(0.0, 1 - n))
    return float((1 - never).sum())


@checked
def tokens_per_expert(*, experts: int, top_k: int, tokens: Number) -> Number:
    """Mean tokens of an expert, ``n k / E``; exact (`Fraction` or int) for whole tokens.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Where d data-parallel ranks of b tokens each share the experts, n is ``b d``: the batch of an expert grows with the
    ranks that feed it (Shazeer et al. 2017, section 3.1).

    >>> tokens_per_expert(experts=256, top_k=8, tokens=256), tokens_per_expert(experts=8, top_k=2, tokens=3)
    (8, Fraction(3, 4))
    """
    check = Violations()
    top_k_of(check, experts=experts, top_k=top_k)
    not_negative(check, tokens=tokens)
    check.raise_if_any()
    if isinstance(tokens, float):
        return tokens * top_k / experts
    found = Fraction(tokens) * top_k / experts
    return found.numerator if found.denominator == 1 else found


@checked
def expert_bytes_read(*, experts: int, top_k: int, tokens: Number, bytes_per_expert: Number, layers: int = 1) -> float:
    """Expected bytes of routed experts that one pass reads: touched experts x bytes of one, each read once, x layers.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength: expectation under the assumptions of `touched_experts`; a floor of traffic, since kernels with small tiles
    may read weights more than once.

    >>> round(expert_bytes_read(experts=8, top_k=2, tokens=4, bytes_per_expert=352e6, layers=32) / 1e9, 1)
    61.6
    """
    check = Violations()
    not_negative(check, bytes_per_expert=bytes_per_expert)
    whole(check, layers=layers)
    with check.within():
        touched = touched_experts(experts=experts, top_k=top_k, tokens=tokens)
    check.raise_if_any()
    return touched * float(bytes_per_expert) * layers


@checked
def spread_evenly(count: int, units: int) -> list[int]:
    """Sizes of `units` parts of `count` that differ by at most one, the larger ones first.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> spread_evenly(10, 4)
    [3, 3, 2, 2]
    """
    check = Violations()
    whole(check, count=count, units=units)
    check.raise_if_any()
    small, more = divmod(count, units)
    return [small + 1] * more + [small] * (units - more)


@checked
def touched_units(*, sizes: Sequence[int], top_k: int, limit: int | None = None) -> Fraction:
    """Expected distinct GPUs, nodes or groups that one token's experts lie on: ``sum_u 1 - C(E - s_u, k) / C(E, k)``.

    Parameters
    ----------
    sizes
        Experts s_u of every unit, whole, 0 allowed; E is their sum. `spread_evenly` makes them for equal units.
    top_k
        k different experts a token.
    limit
        A router's cap on units a token may use (DeepSeek-V3: 4 of 8 nodes). Units must be of one size then: `limit` of
        them are taken at random, and k experts from those.

    Returns
    -------
    Fraction
        The token's own unit counts like any other; ``D - 1`` of `D` equal units are elsewhere on average.

    Raises
    ------
    InstanceError
        k above E or above what `limit` units hold, a limit with unequal units, sizes that are not whole.

    Notes
    -----
    Strength: exact for a uniform choice of k-subsets (hypergeometric). Selections that cluster on a unit touch fewer.
    A replica counts only if it is the one used. Source: lecture notes on MoE inference, section 3.1, for the rule that
    a token is sent once a GPU.

    >>> float(touched_units(sizes=[4] * 64, top_k=8))  # 256 experts, EP64
    7.67...
    >>> touched_units(sizes=[2, 1], top_k=2)
    Fraction(5, 3)
    """
    sizes, top_k = _units(sizes, top_k, limit)
    ways = math.comb(sum(sizes), top_k)
    return sum((1 - Fraction(math.comb(sum(sizes) - size, top_k), ways) for size in sizes), Fraction(0))


@checked
def touched_units_distribution(*, sizes: Sequence[int], top_k: int, limit: int | None = None) -> list[Fraction]:
    """Chance that one token touches exactly 0, 1, 2, ... units; parameters and strength as of `touched_units`.

    `limit` is the most units that a token may be sent to, where groups are limited.

    >>> touched_units_distribution(sizes=[2, 1], top_k=2)
    [Fraction(0, 1), Fraction(1, 3), Fraction(2, 3)]
    """
    sizes, top_k = _units(sizes, top_k, limit)
    most = min(top_k, sum(size > 0 for size in sizes))
    ways = [[0] * (top_k + 1) for _ in range(most + 1)]  # by touched units and by experts taken
    ways[0][0] = 1
    for size in sizes:
        for touched in range(most, 0, -1):
            row, fewer = ways[touched], ways[touched - 1]
            for taken in range(top_k, 0, -1):
                row[taken] += sum(fewer[taken - x] * math.comb(size, x) for x in range(1, min(size, taken) + 1))
    return [Fraction(row[top_k], math.comb(sum(sizes), top_k)) for row in ways]


def _units(sizes: Sequence[int], top_k: int, limit: int | None) -> tuple[list[int], int]:
    """Sizes that matter (those of `limit` units if there is a limit), checked."""
    check = Violations()
    whole(check, top_k=top_k)
    for unit, size in enumerate(sizes):
        if isinstance(size, bool) or not is_number(size) or size != int(size) or size < 0:
            rule = "must be a whole number of experts >= 0"
            check.refuse("sizes", size, rule=rule, fix="Give the experts of each unit", where=f"unit {unit}")
    if limit is not None:
        whole(check, limit=limit)
    check.raise_if_any()
    kept = [int(size) for size in sizes]
    if limit is not None:
        if len(set(kept)) > 1:
            rule = "with a limit, units must hold equally many experts"
            check.add("sizes", kept, rule=rule, fix="Leave limit out, or give equal sizes")
        if limit > len(kept):
            check.add("limit", limit, rule=f"there are {len(kept)} units", fix=f"Use at most {len(kept)}")
        kept = kept[:limit]
    if not check.found and top_k > sum(kept):
        rule = f"a token cannot select more than the {sum(kept)} experts it may use"
        check.add("top_k", top_k, rule=rule, fix=f"Use at most {sum(kept)}")
    check.raise_if_any()
    return kept, int(top_k)
