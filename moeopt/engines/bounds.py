"""How large anything that a file of an engine says may be, checked where it is first known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from moeopt.errors import Violations
from moeopt.workload import trace_fold

EXPERTS_MAX = LAYERS_MAX = SLOTS_MAX = trace_fold.EXPERTS_MAX
"""Experts and layers, and slots of a layer, at most; their ids are below."""
RANKS_MAX = STEPS_MAX = 1_000_000
"""Ranks, and steps of one recording, at most; numbers of ranks are below."""
NUMBERS_MAX = 2**63
"""Numbers of steps, which only order them, are below."""
AXES_MAX, CELLS_MAX = 8, 2**40
"""Axes of a tensor, and the product of its lengths but those of 0, at most."""


def within(
    value: object, field: str, most: int, check: Violations, *, least: int = 0, where: str = "", fix: str = ""
) -> bool:
    """Whether a value is a whole number from `least` to `most`; else it is named.

    >>> check = Violations(); within(10**18, "num_experts", EXPERTS_MAX, check, least=1)
    False
    >>> str(check.found[0])
    'num_experts = 1000000000000000000: must be a whole number from 1 to 65,536. Repair the file.'
    """
    if type(value) is int and least <= value <= most:
        return True
    rule = f"must be a whole number from {least} to {most:,}"
    check.add(field, _shown(value), rule=rule, fix=fix or "Repair the file", where=where)
    return False


def _shown(value: object) -> object:
    """The value, or its size where it has more digits than Python writes."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    return value


def numbered(text: str) -> int:
    """The number of some digits; for too many of them, one that is beyond every limit.

    >>> numbered("007"), numbered("9" * 5000) > NUMBERS_MAX
    (7, True)
    """
    short = text.lstrip("0")
    return int(short or "0") if len(short) < 20 else 10**20


def plain_shape(shape: Sequence[int]) -> bool:
    """Whether an array can have this shape: `AXES_MAX` axes, and no overflow in lengths beside one of 0.

    >>> plain_shape((3, 0, 8)), plain_shape((2**40, 2**40, 0)), plain_shape((1,) * 103)
    (True, False, False)
    """
    return len(shape) <= AXES_MAX and math.prod(length for length in shape if length) <= CELLS_MAX


def check_layers(ids: Iterable[int], check: Violations, *, field: str = "layers") -> None:
    """Ids of layers are different whole numbers below `LAYERS_MAX`."""
    seen: set[int] = set()
    for index, one in enumerate(ids):
        if within(one, field, LAYERS_MAX - 1, check, where=f"index {index}") and one in seen:
            rule = "the layer id stands twice"
            check.add(field, one, rule=rule, fix="Give every row its own id", where=f"index {index}")
        seen.add(one)


def gaps(numbers: Iterable[int], count: int = 0) -> str:
    """The numbers that are missing from 0 to the largest one, or to `count` - 1, with runs drawn together.

    >>> gaps([0, 99_999_999, 3]), gaps([0, 1]), gaps([1], 4)
    ('1-2,4-99999998', '', '0,2-3')
    """
    found, after = [], 0
    for one in [*sorted(set(numbers)), count]:
        if one > after:
            found.append(f"{after}" if one == after + 1 else f"{after}-{one - 1}")
        after = max(after, one + 1)
    return ",".join(found)
