"""Shared experts, which every token selects beside its `top_k` routed ones: a constant load, or further experts.

Of ``A = sum_e a_e`` selections come ``T = A / top_k`` tokens. ``replicated`` and ``fused``: every GPU has a copy and
computes the tokens that begin on it, T/G on average; a fused copy takes one of the GPU's slots. ``hosted``: each shared
expert is one more expert, of load T, that is placed and replicated like the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.errors import Violations
from moeopt.placement.checks import listed
from moeopt.workload.table import Loads

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


def hosted(loads: Loads, num_shared: int, top_k: int) -> Loads:
    """Loads (..., E) with `num_shared` further experts of T tokens each.

    >>> hosted(np.array([[3, 1]]), 1, 2).tolist(), hosted(np.array([[2, 1]]), 1, 2).tolist()
    ([[3, 1, 2]], [[2.0, 1.0, 1.5]])
    """
    total = loads.sum(axis=-1, keepdims=True)
    whole = loads.dtype == np.int64 and not (total % top_k).any()
    tokens = total // top_k if whole else total / top_k
    found: Any = np.concatenate([loads, *[tokens] * num_shared], axis=-1)
    found.flags.writeable = False
    return found  # type: ignore[no-any-return]


def extended(value: Any, more: list[Any], length: int) -> Any:
    """Entries given for the routed experts, and those of the hosted ones; anything else as it is."""
    return [*value, *more] if listed(value) and len(value) + len(more) == length else value


MOST = 65_536
"""More experts of a token, or shared ones, are surely a slip, and would fill the memory."""


def refuse(shared: str | None, num_shared: int, top_k: int | None, groups: Any, check: Violations) -> None:
    """What shared experts need, and what they cannot be combined with."""
    for field, count in (("num_shared", num_shared), ("top_k", top_k)):
        if count is not None and count > MOST:
            check.add(field, count, rule=f"must be at most {MOST}", fix="Check the number")
    if not isinstance(shared, str):
        return
    if top_k is None:
        rule = f"is needed with shared = {shared!r}: shared experts get selections / top_k tokens"
        check.add("top_k", "missing", rule=rule, fix="Give the routed experts a token selects, such as 8")
    if shared == "hosted" and groups is not None:
        rule = "cannot be combined with shared = 'hosted': a shared expert belongs to no group"
        check.add("groups", "...", rule=rule, fix="Leave groups out, or use shared replicated")


def fused_slots(slots: tuple[int, ...], num_shared: int, check: Violations) -> tuple[int, ...]:
    """Slots left for routed experts where every GPU gives `num_shared` of its own to shared ones.

    >>> fused_slots((9, 9), 1, Violations())
    (8, 8)
    """
    for gpu, count in enumerate(slots):
        if 0 < count < num_shared:
            rule = f"must hold the {num_shared} fused shared experts"
            check.add("slots", count, rule=rule, fix=f"Give {num_shared + 1} or more", where=f"GPU {gpu}")
    return tuple(max(count - num_shared, 0) for count in slots)


def constant_loads(instance: PlacementInstance) -> tuple[Fraction, ...]:
    """L exact loads that every GPU with slots carries for its copies of the shared experts, tokens.

    The load floor counts as for any expert with a replica on every GPU: ``max(T, K)/G`` per expert, ``max(T/G, K)``
    per replica.

    >>> from moeopt.placement.instance import PlacementInstance
    >>> constant_loads(PlacementInstance([[3, 1]], gpus=2, slots=2, shared="replicated", top_k=2))
    (Fraction(1, 1),)
    """
    assert instance.top_k is not None
    whole, floor, denominator = instance.exact_loads
    least = Fraction(floor, denominator)
    gpus = sum(count > 0 and gpu not in instance.gone for gpu, count in enumerate(instance.slots_before))
    found = []
    for row in whole.tolist():
        tokens = Fraction(sum(row), denominator * instance.top_k)
        if instance.floor_rule == "per_replica":
            each = max(tokens / gpus, least)
        else:
            each = max(tokens, least) / gpus
        found.append(each * instance.num_shared)
    return tuple(found)
