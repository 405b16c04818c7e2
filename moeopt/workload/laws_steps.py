"""Laws of how a recording was made: dummy rows, phases mixed, and samples that are short."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from moeopt.percent import percent
from moeopt.workload.dummies import constant_steps, dummy_loads
from moeopt.workload.evidence import MATTERS, Evidence, Finding

SHARE = 0.01
"""Part of all selections from which on made-up ones, or those of another phase, matter."""
APART = 8.0
"""Times that the smallest step of the larger mode is larger than the largest of the smaller, at least."""
RARE = 1e-6
"""Chance that log-normal step sizes show such a gap."""
FEW_STEPS = 20
NOISE_SAID, NOISE_MATTERS = 0.01, 0.05
"""Noise of the imbalance that is said, and that matters."""
BLOCKS = 32


def dummy_rows(seen: Evidence) -> Iterator[Finding]:
    """Rows that an engine ran on made-up tokens, all of them with the same experts.

    In a trace: runs of equal rows in all layers together (`dummies.least_run`: a trace of independent tokens has one
    with a chance of 1e-6). In counts of steps: steps of 64 tokens and more in which every busy layer has one count
    for all of its experts that were selected, ``top_k`` where it is known and at most 16 otherwise; real steps of
    that size spread over more. It matters from 1 % of the selections.
    """
    total = float(seen.sums.sum())
    if seen.dummies is not None and seen.dummies.runs:
        dummies = seen.dummies
        made_up = dummy_loads(dummies, (seen.loads.shape[0], seen.loads.shape[1]))
        runs = dummies.runs
        places = ", ".join(f"{run.first}-{run.first + run.rows - 1}" for run in runs[:4]) + (
            ", ..." if len(runs) > 4 else ""
        )
        what = f"{dummies.rows:,} of {dummies.total:,} rows ({percent(dummies.rows / dummies.total)}"
        text = f"{what}; rows {places}) select one set of experts a layer"
    elif seen.per_step is not None:
        steps = constant_steps(seen.per_step, seen.top_k)
        if not len(steps):
            return
        made_up = seen.per_step[steps].sum(axis=0)
        what = f"{len(steps):,} of {len(seen.per_step):,} steps, such as step {steps[0]},"
        text = f"{what} select one set of experts a layer"
    else:
        return
    row, now, then = _most_changed(seen.loads.astype(np.float64), made_up)
    changed = f"max/mean of layer {seen.layers[row]} is {now:.2f} with them" + (
        " and nothing is left without them" if then is None else f" and {then:.2f} without them"
    )
    yield Finding(
        "dummy-rows",
        seen.severity(float(made_up.sum()) >= SHARE * total),
        f"{text}, as an engine's warm-up does: {changed}; drop them",
    )


def _most_changed(loads: NDArray[np.float64], made_up: NDArray[np.int64]) -> tuple[int, float, float | None]:
    """The first busy layer, with its max/mean before and after: layers are alike in this."""
    row = int(np.flatnonzero(made_up.any(axis=1))[0])
    left = loads[row] - made_up[row]
    after = float(left.max() / left.mean()) if left.any() else None
    return row, float(loads[row].max() / loads[row].mean()), after


def mixed_phases(seen: Evidence) -> Iterator[Finding]:
    """One kind of step: prefill steps have thousands of tokens, decode steps at most one a request.

    Of the sorted step sizes, dummy steps left aside, take the widest gap that leaves 1 % of the selections or more on
    either side. Fires where there are 20 steps, those beyond the gap are 8 times larger, and it is wider than
    ``s ln(1/1e-6) / sqrt(2 ln n)``, with the larger spread s of the logarithms on either side: the largest gap at the
    end of n normal logarithms goes beyond that with a chance of 1e-6 where s is known. With s from the data, 1 of
    152,000 recordings of one phase was called mixed (log-normal sizes, spreads 0.5 to 3, 20 to 200 steps).
    """
    if seen.per_step is None:
        return
    sizes = seen.per_step.sum(axis=(1, 2)).astype(np.float64)
    sizes[constant_steps(seen.per_step, seen.top_k)] = 0
    sizes = np.sort(sizes[sizes > 0])
    if len(sizes) < FEW_STEPS:
        return
    logs = np.log(sizes)
    before = np.cumsum(sizes)[:-1] / sizes.sum()
    gaps = np.where((before >= SHARE) & (before <= 1 - SHARE), np.diff(logs), 0.0)
    cut = int(gaps.argmax())
    spread = max(float(logs[: cut + 1].std()), float(logs[cut + 1 :].std()))
    rare = spread * math.log(1 / RARE) / math.sqrt(2 * math.log(len(sizes)))
    if gaps[cut] < math.log(APART) or gaps[cut] <= rare:
        return
    busy = len(seen.busy) * (seen.top_k or 1)
    unit = "tokens" if seen.top_k is not None else "selections"
    small, large = np.median(sizes[: cut + 1]) / busy, np.median(sizes[cut + 1 :]) / busy
    yield Finding(
        "mixed-phases",
        MATTERS,
        f"{cut + 1:,} steps of about {small:,.0f} {unit} and {len(sizes) - cut - 1:,} of about {large:,.0f} "
        f"({percent(float(1 - before[cut]))} of all selections): decode and "
        "prefill are mixed, which are served apart and need a plan each; record each by itself",
    )


def short_sample(seen: Evidence) -> Iterator[Finding]:
    """Enough tokens: what a plan balances must not be the noise of its sample.

    With b selections a GPU (an expert, where GPUs are not known) counts scatter by ``d sqrt(b)``, where d >= 1 is
    what blocks of steps scatter more than independent selections, measured where there are 8 steps or more, else 1.
    The busiest of G then stands about ``z_G d / sqrt(b)`` above the mean on new traffic, however good the plan. Said
    from 1 %; it matters from 5 % for a recording with a number of GPUs. An estimate, not a test; silent where loads
    are not whole numbers.
    """
    rows = seen.busy
    if not rows or not seen.whole or seen.loads.min() < 0:
        return
    sums = seen.sums[rows]
    row = rows[int(sums.argmin())]
    parts = seen.gpus or seen.loads.shape[1]
    if parts < 2:
        return
    spread = _dispersion(seen, row)
    noise = _largest_of(parts) * spread / math.sqrt(float(sums.min()) / parts)
    if noise < NOISE_SAID:
        return
    loads = seen.loads[row].astype(np.float64)
    top, total = float(loads.max()), float(loads.sum())
    ratio = top * len(loads) / total
    error = ratio * spread * math.sqrt(max(1 - top / total, 0.0) / top)
    each = f"{total / parts:,.0f}"
    per = f"{each} selection{'' if each == '1' else 's'} {'a GPU' if seen.gpus else 'an expert'}"
    more = "" if spread == 1 else f", of steps that scatter {spread:.2g} times as much as independent tokens"
    yield Finding(
        "short-sample",
        seen.severity(seen.recorded and seen.gpus is not None and noise >= NOISE_MATTERS),
        f"layer {seen.layers[row]} has {per}{more}: max/mean of its experts is {ratio:.2f} +- {error:.2g} (one "
        f"standard error), and on new traffic the busiest of {parts} {'GPUs' if seen.gpus else 'experts'} stands about "
        f"{percent(float(noise))} above what is planned: record longer",
    )


def _largest_of(count: int) -> float:
    """Expected largest of some standard normals, to 2 % (G. Blom, Statistical Estimates, 1958)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def _dispersion(seen: Evidence, row: int) -> float:
    """How many times the scatter of independent selections the counts of an expert have from block to block, >= 1."""
    if seen.per_step is None or len(seen.per_step) < 8:
        return 1.0
    blocks = np.array_split(seen.per_step[:, row], min(BLOCKS, len(seen.per_step) // 2))
    counts = np.array([block.sum(axis=0) for block in blocks], dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0]
    if len(counts) < 4:
        return 1.0
    shares = counts.sum(axis=0) / counts.sum()
    expected = counts.sum(axis=1, keepdims=True) * shares
    used = shares > 0
    chi = float(((counts - expected)[:, used] ** 2 / expected[:, used]).sum())
    freedom = (len(counts) - 1) * (int(used.sum()) - 1)
    return max(1.0, math.sqrt(chi / freedom)) if freedom > 0 else 1.0
