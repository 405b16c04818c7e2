"""Laws of how numbers are kept: counters that wrapped, and counters that lost ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from moeopt.workload.evidence import MATTERS, NOTE, Evidence, Finding

SURE_BITS = 30
"""Bits of evidence that a pattern of digits needs: chance has it once in 1e9 tables."""

FLOATS = (("bfloat16", 8), ("float16", 11), ("float32", 24))
"""Names of types and the bits of their significands."""

NEAR = 1 / 64
"""Part of 2**31 below it that is called near."""


def int32_wrap(seen: Evidence) -> Iterator[Finding]:
    """A counter of 32 bits that ran over: negative, stuck at 2**31 - 1, or short of a multiple of 2**32.

    Negative cells and sums that differ between layers by whole multiples of 2**32, up to 1e-6 of it and in exact
    counts below 2**63 only, are facts; chance has the second with 2e-6 a layer. It matters. A largest cell in the last
    64th below 2**31, with none beyond, is a note: the next one may wrap.
    """
    loads = seen.loads
    if loads.min(initial=0) < 0:
        row, column = divmod(int(loads.argmin()), loads.shape[1])
        where = f"expert {column} of layer {seen.layers[row]} has {loads[row, column]:,.0f}"
        yield Finding("int32-wrap", MATTERS, f"{where}: a counter of 32 bits wrapped; record shorter windows")
        return
    stuck = int((loads == 2**31 - 1).sum())
    if stuck:
        counts = "count" if stuck == 1 else "counts"
        text = f"{stuck} {counts} of 2**31 - 1, where a counter of 32 bits ends: record shorter windows"
        yield Finding("int32-wrap", MATTERS, text)
        return
    rows = seen.busy
    sums = seen.sums[rows]
    if len(rows) > 1 and seen.whole and 2**32 <= sums.max() < 2**63:
        times = (sums.max() - sums) / 2**32
        whole = np.abs(times - np.round(times)) <= 1e-6
        short = np.round(times) >= 1
        if bool((whole & short).any()) and bool(whole.all()):
            short_of_most = rows[int((times * short).argmax())]
            yield Finding(
                "int32-wrap",
                MATTERS,
                f"the sum of layer {seen.layers[short_of_most]} is short of others by {round(float(times.max()))} "
                "times 2**32: counters of 32 bits wrapped; record shorter windows",
            )
            return
    largest = float(loads.max(initial=0))
    if 2**31 * (1 - NEAR) <= largest < 2**31:
        text = f"the largest count is {largest:,.0f}, just below 2**31 = {2**31:,}: the next window may wrap"
        yield Finding("int32-wrap", NOTE, text)


def float_counters(seen: Evidence) -> Iterator[Finding]:
    """Counts kept in a float of p bits: beyond 2**p neighbours are 2 apart and more, and ones are lost.

    Stuck: three cells or more end at exactly 2**p with none beyond, in layers whose sums are no multiple of it (where
    they are, experts that every token selects may stand there). On the grid: every cell beyond 2**p is a multiple of
    its step. Cells of a step 2**j that unrelated counts would hit with a chance of 2**-j each must give 30 bits
    together; a common divisor of all cells is taken out before, so that scaled counts are not called lossy. False
    alarms: once in 1e9 tables. bfloat16 and float16 matter, and so does a stuck counter; float32 on its grid is a
    note (parts in 1e7).
    """
    if not seen.whole or seen.loads.min(initial=0) < 0 or not seen.busy or seen.loads.max() >= 2**53:
        return
    loads = seen.loads.astype(np.int64)
    largest = int(loads.max())
    sums = loads.sum(axis=1)
    for name, bits in FLOATS:
        limit = 1 << bits
        stuck = int((loads == limit).sum())
        odd = (loads == limit).any(axis=1) & (sums % limit != 0)
        if largest == limit and stuck >= 3 and odd.any():
            row = int(odd.argmax())
            yield Finding(
                "float-counters",
                MATTERS,
                f"{stuck} cells end at exactly 2**{bits}, such as in layer {seen.layers[row]}, where a counter in "
                f"{name} no longer takes ones: count in whole numbers",
            )
            return
    divisor = int(np.gcd.reduce(loads[loads > 0]))
    even = divisor & -divisor  # the largest power of two in it
    for name, bits in FLOATS:
        high = loads[loads > 1 << bits]
        if not len(high) or (name == "float16" and largest > 65_504):
            continue
        places = np.floor(np.log2(high.astype(np.float64))).astype(np.int64) + 1 - bits
        step = np.left_shift(np.int64(1), places)
        if (high % step).any():
            continue
        proof = float(np.log2(np.maximum(step // even, 1)).sum())
        if proof >= SURE_BITS:
            severity = NOTE if name == "float32" else MATTERS
            yield Finding(
                "float-counters",
                severity,
                f"all {len(high):,} counts above 2**{bits} lie on the grid of {name}, whose steps reach "
                f"{int(step.max()):,} here, so that ones were lost: count in whole numbers",
            )
            return
