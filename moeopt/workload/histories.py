"""Synthetic histories: the loads of several windows whose popularity drifts, by name and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.workload import drifts
from moeopt.workload import popularity as draws
from moeopt.workload.generators import CELLS_MAX, SELECTIONS_MAX
from moeopt.workload.seeding import check_whole, salt
from moeopt.workload.table import Loads, LoadTable
from moeopt.workload.windows import stacked

HISTORIES: dict[str, str] = {
    "walk": "log-normal popularity with spread sigma (1.0); each expert walks by steps of deviation drift (0.05)",
    "shift": "four topics in turn, six windows each; a part drift (0.5) of the popularity is the topic's own",
    "hotspot": "a run of neighbouring experts, up to drift (3) times as popular, moves once around",
    "burst": "one window in four has a few experts that are drift (4) times as popular, drawn anew",
}
"""Kinds of `generate_history`, with the defaults of their parameters."""


@dataclass(frozen=True)
class _Kind:
    drift: drifts.Drift
    default: float
    allowed: Callable[[float, float], bool]
    rule: str


_KINDS = {
    "walk": _Kind(drifts.walk, 0.05, lambda drift, sigma: 0 <= drift <= sigma, "a number from 0 to sigma"),
    "shift": _Kind(drifts.shift, 0.5, lambda drift, sigma: 0 <= drift <= 1, "a part from 0 to 1"),
    "hotspot": _Kind(drifts.hotspot, 3.0, lambda drift, sigma: 1 <= drift <= 1e6, "a factor of at least 1"),
    "burst": _Kind(drifts.burst, 4.0, lambda drift, sigma: 1 <= drift <= 1e6, "a factor of at least 1"),
}


def generate_history(
    kind: str,
    *,
    windows: int,
    layers: int,
    experts: int,
    top_k: int,
    tokens: int,
    seed: int = 0,
    sigma: float = 1.0,
    drift: float | None = None,
) -> LoadTable:
    """Draw the loads of `windows` windows of `tokens` tokens each, their popularity by the drift named `kind`.

    Parameters
    ----------
    kind
        One of `HISTORIES`.
    windows, layers, experts, top_k, tokens
        Sizes, each >= 1, ``top_k <= experts``.
    seed
        A whole number >= 0; equal arguments give equal tables, in a fresh process too.
    sigma
        Spread of the log-normal popularity that everything drifts around, in [0, 10].
    drift
        How much changes, as the kind says.

    Returns
    -------
    LoadTable
        ``windows`` (W, L, E) int64, every window and layer of ``tokens * top_k`` selections; ``loads`` their sum.

    Raises
    ------
    InstanceError
        An argument is out of range; all of them in one message.

    >>> table = generate_history("walk", windows=3, layers=1, experts=4, top_k=2, tokens=100, drift=0.5)
    >>> table.windows.tolist()
    [[[47, 3, 61, 89]], [[44, 6, 50, 100]], [[41, 8, 52, 99]]]
    """
    check = Violations()
    if not isinstance(kind, str) or kind not in _KINDS:
        check.refuse("kind", kind, rule="is not a drift", fix=f"Known are {', '.join(_KINDS)}")
    sizes = {"windows": windows, "layers": layers, "experts": experts, "top_k": top_k, "tokens": tokens}
    for name, size in sizes.items():
        check_whole(name, size, 1, check)
    check_whole("seed", seed, 0, check)
    if not check.found and top_k > experts:
        check.add("top_k", top_k, rule=f"must be at most experts = {experts}", fix="A token selects different experts")
    if not check.found and tokens * top_k * windows > SELECTIONS_MAX:
        rule = f"windows * tokens * top_k must be at most {SELECTIONS_MAX}"
        check.add("tokens", tokens, rule=rule, fix="Draw fewer tokens")
    if not check.found and windows * layers * experts > CELLS_MAX:
        rule = f"windows * layers * experts must be at most {CELLS_MAX}"
        check.add("windows", windows, rule=rule, fix="Draw fewer windows")
    wide = _number(sigma) and 0 <= sigma <= 10
    if not wide:
        check.refuse("sigma", sigma, rule="must be a number in [0, 10]", fix="1.0 is usual")
    if isinstance(kind, str) and kind in _KINDS and drift is not None:
        known = _KINDS[kind]
        if not (_number(drift) and known.allowed(drift, sigma if wide else 10.0)):
            check.add("drift", drift, rule=f"must be {known.rule} for {kind}", fix=f"{known.default} is usual")
    check.raise_if_any()
    chosen = _KINDS[kind]
    change = min(chosen.default, sigma) if kind == "walk" and drift is None else chosen.default
    change = change if drift is None else float(drift)
    rng = np.random.default_rng([seed, salt(kind), windows, layers, experts])
    shape = drifts.Sizes(windows, layers, experts)
    drawn = []
    for logs in chosen.drift(rng, shape, float(sigma), change):
        weights = np.maximum(np.exp(logs - logs.max(axis=1, keepdims=True)), draws.SMALLEST)
        drawn.append([draws.counts(rng, draws.inclusion(row, top_k), top_k, tokens) for row in weights])
    found = stacked(np.array(drawn, dtype=np.int64), Violations(), None)
    assert found is not None
    total: Loads = found.sum(axis=0)
    total.flags.writeable = False
    said = ", ".join(f"{name}={size}" for name, size in sizes.items())
    source = f"{kind}(drift={change:g}, sigma={sigma:g}, {said}, seed={seed})"
    return LoadTable(total, tuple(range(layers)), source=source, windows=found)


@kinds.expects(table="moeopt.workload.table:LoadTable", parts=kinds.whole, seed=kinds.whole)
def sliced(table: LoadTable, parts: int, *, seed: int = 0) -> LoadTable:
    """The selections of a table dealt at random into `parts` windows, each of them into one.

    Numbers that are none, or do not fit the loads, are refused (`InstanceError`).

    What a recording without times would show window by window if nothing drifted while it was made: every layer is cut
    into parts of equal size (but for one selection) drawn without replacement.

    >>> table = sliced(LoadTable(np.array([[5, 0, 4]]), layers=(0,)), 3)
    >>> table.windows.sum(axis=(1, 2)).tolist(), table.windows.sum(axis=0).tolist()
    ([3, 3, 3], [[5, 0, 4]])
    """
    check = Violations(table.source)
    check_whole("slices", parts, 1, check)
    if table.windows is not None:
        check.add("slices", parts, rule="is for files of one window", fix="Leave it out: the file has its own windows")
    if table.loads.dtype != np.int64:
        check.add("slices", parts, rule="needs whole selections", fix="Record counts, not weights")
    check.raise_if_any()
    rng = np.random.default_rng([seed, salt("sliced"), *table.loads.shape])
    found = np.zeros((parts, *table.loads.shape), dtype=np.int64)
    for row, left in enumerate(table.loads.copy()):
        for part in range(parts):
            size = int(left.sum()) // (parts - part)
            found[part, row] = rng.multivariate_hypergeometric(left, size, method="marginals")
            left -= found[part, row]
    found.flags.writeable = False
    return LoadTable(table.loads, table.layers, None, table.names, table.source, table.notes, found, table.top_k)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
