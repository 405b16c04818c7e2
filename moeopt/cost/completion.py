"""When an MoE layer is done: the slowest expert or rank decides, in seconds and not in tokens."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative
from moeopt.errors import Violations


@checked
def completion_s(
    *, dispatch_s: Number, queue_s: Sequence[Number], compute_s: Sequence[Number], combine_s: Number
) -> float:
    """Seconds of a layer without overlap: ``dispatch + max over ranks of (queue + compute) + combine``.

    Parameters
    ----------
    dispatch_s, combine_s
        Seconds of the two all-to-alls, of their busiest rank.
    queue_s, compute_s
        Seconds that each expert or rank waits and computes; the same order, at least one.

    Raises
    ------
    InstanceError
        Negative times, lists that are empty or differ in length.

    Notes
    -----
    Strength: exact for a layer whose phases do not overlap, an upper bound where they do. Equal tokens are not equal
    seconds: ranks differ in speed, in queues and in the shapes of their products. Chapter on multi-node
    inference, 4.3.

    >>> round(completion_s(dispatch_s=0.2, queue_s=[0.1, 0.0, 0.3], compute_s=[0.5, 0.7, 0.2], combine_s=0.3), 9)
    1.2
    """
    check = Violations()
    not_negative(check, dispatch_s=dispatch_s, combine_s=combine_s)
    for name, values in (("queue_s", queue_s), ("compute_s", compute_s)):
        for place, value in enumerate(values):
            found = Violations()
            not_negative(found, value=value)
            for fault in found.found:
                check.add(name, value, rule=fault.rule, fix=fault.fix, where=str(place))
    if len(queue_s) != len(compute_s) or not len(queue_s):
        rule = f"compute_s has {len(compute_s)}: both need one value for each rank, of at least one"
        check.add("queue_s", f"{len(queue_s)} values", rule=rule, fix="Give 0 to ranks that do not wait")
    check.raise_if_any()
    slowest = max(float(wait) + float(work) for wait, work in zip(queue_s, compute_s, strict=True))
    return float(dispatch_s) + slowest + float(combine_s)
