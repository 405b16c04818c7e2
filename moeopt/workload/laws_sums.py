"""Laws of what is counted: sums over experts and layers, columns, and idle rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from moeopt.percent import tokens as amount
from moeopt.workload.evidence import MATTERS, NOTE, Evidence, Finding, some
from moeopt.workload.laws_numbers import float_counters, int32_wrap

SIGMAS = 6.0
"""Deviations of a Poisson count that chance is allowed: passed once in 1e9 cells."""
DROPPED = 0.01
"""Part of the selections that an engine may drop before its layers count as unequal."""
SURE_BITS = 30
"""Bits of evidence that a pattern of digits needs: chance has it once in 1e9 tables."""


def more_than_every_token(seen: Evidence) -> Iterator[Finding]:
    """``a_e <= sum / top_k``: an expert is selected at most once a token.

    Exact for exact counts. Six deviations of a Poisson count are allowed, so that loads redrawn as Poisson counts pass
    with a chance of 1e-9 a cell of being called wrong. Silent without top_k.
    """
    if seen.top_k is None:
        return
    tokens = seen.sums / seen.top_k
    room = tokens + SIGMAS * np.sqrt(tokens) * (tokens >= 1) + 1e-6 * tokens
    worst = seen.loads.max(axis=1) / np.maximum(tokens, 1e-300)
    bad = np.flatnonzero(seen.loads.max(axis=1) > room)
    if len(bad):
        row = int(bad[worst[bad].argmax()])
        yield Finding(
            "more-than-every-token",
            MATTERS,
            f"expert {int(seen.loads[row].argmax())} of layer {seen.layers[row]} has "
            f"{float(seen.loads[row].max()):,.0f} selections, but with "
            f"top_k = {seen.top_k} the layer saw only {amount(tokens[row]).removesuffix('.0')} tokens "
            f"({len(bad)} of {len(seen.layers)} layers): check top_k, or selections were dropped or counted twice",
        )


def unequal_layer_sums(seen: Evidence) -> Iterator[Finding]:
    """Every token selects ``top_k`` experts in every layer, so busy layers have one sum, up to dropped tokens.

    Fires where a sum is off the median by more than 1 % and six deviations of a Poisson count. Exact counts never do
    so; layers redrawn as Poisson counts with a chance of 1e-9 a layer. It matters for recordings; in a table of
    anybody's making, rows may be on scales of their own, and this is a note. The last layer alone is left to
    `draft_passes`.
    """
    rows = seen.busy
    if len(rows) < 2 or seen.loads.min() < 0 or _wrapped(seen):
        return
    sums = seen.sums[rows]
    middle = float(np.median(sums))
    room = max(DROPPED * middle, SIGMAS * math.sqrt(2 * middle) if seen.whole else 0.0)
    off = np.flatnonzero(np.abs(sums - middle) > room)
    if not len(off) or (len(rows) > 2 and off.tolist() == [len(rows) - 1]):
        return
    worst = int(off[np.abs(sums[off] - middle).argmax()])
    yield Finding(
        "unequal-layer-sums",
        seen.severity(seen.recorded),
        f"{some([seen.layers[rows[i]] for i in off.tolist()])} "
        f"{'has a sum' if len(off) == 1 else 'have sums'} unlike the others: layer {seen.layers[rows[worst]]} has "
        f"{sums[worst] / middle:.3g} times the median of {amount(middle).removesuffix('.0')} selections, and every "
        "token selects the same number in every layer: was a rank, a layer or a part of the steps lost?",
    )


def columns(seen: Evidence) -> Iterator[Finding]:
    """E columns: not E + shared, and not S.

    Where E is known, any other number of columns is told: S of the running plan are slots, E + 1 may have the shared
    expert. Where it is not, a shared expert is told by its counts: one column at an end that is the strict maximum of
    every layer and equals the sum of the others divided by one whole k from 1 to 16, in all layers, exactly. For
    unrelated counts of some size a, one layer agrees with a chance of about 16 / a; the product over layers must be
    below 1e-6.
    """
    width = seen.loads.shape[1]
    if seen.experts is not None and width != seen.experts:
        if width == seen.slots:
            name, said = "physical-columns", "one a slot of the running plan: fold replicas with its map, or record "
            said += "logical counts"
        elif width == seen.experts + 1:
            name, said = "shared-expert-column", "one more than experts: leave the shared expert's column out"
        else:
            name, said = "physical-columns", "which are not experts: are they slots? Record logical counts"
        yield Finding(name, MATTERS, f"there are {width} columns for {seen.experts} experts, {said}")
    elif seen.experts is None:
        place = _shared_column(seen)
        if place is not None:
            column, k = place
            yield Finding(
                "shared-expert-column",
                MATTERS,
                f"column {column} is the sum of all others divided by {k} in every layer, as a shared expert counted "
                "beside the routed ones is: leave it out, for it is not placed",
            )


def _shared_column(seen: Evidence) -> tuple[int, int] | None:
    rows = seen.busy
    if not rows or seen.loads.shape[1] < 3 or not seen.whole:
        return None
    loads = seen.loads[rows].astype(np.float64)
    for column in (loads.shape[1] - 1, 0):
        mine, others = loads[:, column], np.delete(loads, column, axis=1)
        if not (mine > others.max(axis=1)).all():
            continue
        k = round(float(others[0].sum() / mine[0]))
        fits = 1 <= k <= 16 and bool((others.sum(axis=1) == k * mine).all())
        if fits and float(np.log10(np.maximum(mine / 16, 1)).sum()) >= 6:
            return column, k
    return None


def one_rank_only(seen: Evidence) -> Iterator[Finding]:
    """All experts are used: not those of one rank alone, as counts that were not summed over ranks have it.

    Fires where, in every busy layer, the loads lie in one and the same of 2, 3, ... equal runs of experts and fill nine
    tenths of it. As many experts drawn at random lie in one given run of size b with a chance of ``1 / C(E, b)`` a
    layer; all layers together must come below 1e-6.
    """
    rows, width = seen.busy, seen.loads.shape[1]
    if not rows:
        return
    used = seen.loads[rows] > 0
    places = np.flatnonzero(used.any(axis=0))
    for ranks in range(width // 2, 1, -1):
        size = width // ranks
        rank = int(places[0]) // size
        if width % ranks or int(places[-1]) // size != rank:
            continue
        filled = used[:, rank * size : (rank + 1) * size].mean(axis=1)
        rare = len(rows) * math.log10(math.comb(width, size)) - math.log10(ranks)
        if filled.min() >= 0.9 and rare >= 6:
            yield Finding(
                "one-rank-only",
                MATTERS,
                f"only experts {rank * size}-{(rank + 1) * size - 1} of {width} have loads, in all layers: as one of "
                f"{ranks} ranks counts that were not summed; add up the counts of all",
            )
        return


def counted_per_rank(seen: Evidence) -> Iterator[Finding]:
    """All counts multiples of one number: every token was counted once a rank of a tp or dp group, or scaled.

    Fires where n >= 30 non-zero cells share a divisor g: unrelated counts do so with a chance of 2**-n, below 1e-9.
    Plans do not change by a factor, so it matters only where tokens count as such (a floor, seconds). Divisors that
    the grid of a float explains are left to `float_counters`.
    """
    if not seen.whole or seen.loads.max(initial=0) >= 2**53 or seen.loads.min(initial=0) < 0:
        return
    cells = seen.loads[seen.loads > 0].astype(np.int64)
    if len(cells) < SURE_BITS or len(np.unique(cells)) < 3:
        return
    divisor = int(np.gcd.reduce(cells))
    if divisor < 2 or any(True for _ in float_counters(seen)):
        return
    sizes = [size for size in seen.parallel if size > 1 and divisor % size == 0]
    why = (
        f"as {sizes[0]} ranks that each count the same tokens make them" if sizes else "as ranks of a tp or dp group do"
    )
    yield Finding(
        "counted-per-rank",
        seen.severity(seen.absolute),
        f"all {len(cells):,} counts are multiples of {divisor}, {why}: divide by it before tokens are priced; "
        "balance does not depend on it",
    )


def idle_layers(seen: Evidence) -> Iterator[Finding]:
    """Rows of zeros are dense layers, which have no experts; with the LLM's own list, exactly those.

    A fact, not a test. Without the list a note; with it, a layer of experts without any load matters, and so does a
    dense layer with loads: then rows are not the layers they are taken for.
    """
    idle = [layer for layer, total in zip(seen.layers, seen.sums.tolist(), strict=True) if total == 0]
    if seen.dense_layers is None:
        if idle:
            what = "is" if len(idle) == 1 else "are"
            yield Finding("idle-layers", NOTE, f"{some(idle)} {what} idle: dense layers have no experts to place")
        return
    dense = set(seen.dense_layers)
    lost = [layer for layer in idle if layer not in dense]
    loaded = [layer for layer in seen.layers if layer in dense and layer not in idle]
    if lost:
        what = "has experts by the configuration, and" if len(lost) == 1 else "have experts by the configuration, and"
        yield Finding("idle-layers", MATTERS, f"{some(lost)} {what} no load at all: was it recorded?")
    if loaded:
        yield Finding(
            "idle-layers",
            MATTERS,
            f"{some(loaded)} {'is' if len(loaded) == 1 else 'are'} dense by the configuration, and loaded here: "
            "rows are not the layers they are taken for; name them with layers",
        )
    if idle and not lost:
        yield Finding(
            "idle-layers", NOTE, f"{some(idle)} {'is' if len(idle) == 1 else 'are'} idle, as dense layers are"
        )


def draft_passes(seen: Evidence) -> Iterator[Finding]:
    """A layer of the draft model counts draft passes, not those of the LLM.

    Told by the LLM's own list of such layers; or by steps in which the last busy layer alone has counts (at least
    two); or by sums: all other busy layers, three or more, have exactly one sum, and the last one's is off it by more
    than 1 %. A fact in the first two cases; the third cannot happen in exact counts of one pass a step. A note:
    layers are planned one by one, but sums over layers mix two kinds of passes.
    """
    rows = seen.busy
    known = [layer for layer in seen.layers if layer in (seen.mtp_layers or ()) and seen.layers.index(layer) in rows]
    advice = "plan it by itself, or leave it out with layers"
    if known:
        yield Finding("draft-passes", NOTE, f"{some(known)} belongs to the draft model and counts its passes: {advice}")
        return
    if len(rows) < 3:
        return
    last, others = rows[-1], rows[:-1]
    if seen.per_step is not None:
        alone = seen.per_step[:, last].any(axis=1) & ~seen.per_step[:, others].any(axis=(1, 2))
        times = int(np.count_nonzero(alone))
        if times >= 2:
            text = f"in {times:,} of {len(seen.per_step):,} steps layer {seen.layers[last]} alone has counts"
            yield Finding("draft-passes", NOTE, f"{text}, as a draft model's passes have: {advice}")
            return
    sums = seen.sums
    if len(others) >= 3 and np.ptp(sums[others]) == 0 and abs(sums[last] / sums[others[0]] - 1) > DROPPED:
        text = f"layer {seen.layers[last]} has {sums[last] / sums[others[0]]:.3g} times the sum that all others have"
        yield Finding("draft-passes", NOTE, f"{text}, as a draft model's layer has: {advice}")


def _wrapped(seen: Evidence) -> bool:
    return any(True for _ in int32_wrap(seen))
