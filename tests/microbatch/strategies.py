"""Hypothesis strategies that build valid micro-batch instances of every pattern, filtering nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moeopt.microbatch import PATTERNS, Constant, Linear, MicrobatchInstance, Table, Transfer

small = st.integers(0, 9)
seconds = st.one_of(small, st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.0, 1e-7, 0.1, 0.3, 1e3]))
rates = st.floats(1e3, 1e12)


@st.composite
def tables(draw: st.DrawFn, largest: int) -> Table:
    """Measured at 1, at the largest size, and at some between."""
    sizes = {1, largest, *draw(st.lists(st.integers(1, largest), max_size=4))}
    return Table.of({size: draw(seconds) for size in sizes})


def models(largest: int) -> st.SearchStrategy[Any]:
    """A stage's time model of any kind, good for sizes up to `largest`."""
    return st.one_of(
        seconds,
        st.builds(Constant, seconds),
        st.builds(Linear, seconds, seconds),
        st.builds(Transfer, seconds, st.integers(0, 10_000), rates),
        tables(largest),
    )


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    patterns: tuple[str, ...] = tuple(PATTERNS),
    max_m: int = 4,
    max_layers: int = 4,
    whole: bool = False,
    alike: bool = False,
) -> MicrobatchInstance:
    """Any instance without limits; `whole`: whole times, `alike`: equal micro-batches and layers."""
    pattern = draw(st.sampled_from(patterns))
    m = draw(st.lists(st.integers(1, max_m), min_size=1, max_size=3, unique=True))
    layers = draw(st.integers(1, max_layers))
    uneven = not alike and draw(st.booleans())
    step = 1
    for count in m:
        step *= count
    batches = None
    if draw(st.booleans()):
        sizes = st.integers(max(m), 24) if uneven else st.integers(1, 3).map(lambda times: times * step)
        batches = draw(st.lists(sizes, min_size=1, max_size=3, unique=True))
    largest = max(batches or [max(m)])
    times = small if whole else models(largest)
    stages = [
        name for name in PATTERNS[pattern].stages if name not in PATTERNS[pattern].optional or draw(st.booleans())
    ]
    scale = None
    if not alike and draw(st.integers(0, 3)) == 0:
        factors = st.lists(st.sampled_from([0, 1, 0.5, 2]), min_size=layers, max_size=layers)
        scale = {stages[0]: draw(factors)}
    return MicrobatchInstance(
        {name: draw(times) for name in stages},
        layers=layers,
        pattern=pattern,
        m=m,
        batches=batches,
        uneven=uneven,
        latency=draw(st.sampled_from(["per-message", "amortised"])) if pattern == "hop-b" else "per-message",
        layer_scale=scale,
        objective=draw(st.sampled_from([None, "time", "throughput"])),
    )
