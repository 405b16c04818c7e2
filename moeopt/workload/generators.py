"""Synthetic loads by name and seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.workload import popularity as draws
from moeopt.workload.seeding import check_whole, salt
from moeopt.workload.table import Loads, LoadTable

GENERATORS: dict[str, str] = {
    "zipf": "popularity falls as rank to the power -alpha (1.0); ranks dealt anew in every layer",
    "lognormal": "independent log-normal popularity with spread sigma (1.0)",
    "topic": "eight runs of neighbouring experts of unequal popularity, times log-normal factors with sigma (0.8)",
    "uniform": "nearly equal popularity, 5 % jitter",
}
"""Kinds of `generate`, with the defaults of their parameters."""

NOISES = ("poisson",)
SELECTIONS_MAX = 2**53
CELLS_MAX = 10**8


@dataclass(frozen=True)
class _Kind:
    draw: draws.Draw
    parameter: str
    default: float


_KINDS = {
    "zipf": _Kind(draws.zipf, "alpha", 1.0),
    "lognormal": _Kind(draws.lognormal, "sigma", 1.0),
    "topic": _Kind(draws.topic, "sigma", 0.8),
    "uniform": _Kind(draws.uniform, "", draws.UNIFORM_JITTER),
}


@kinds.expects(kind=kinds.text)
def generate(
    kind: str,
    *,
    layers: int,
    experts: int,
    top_k: int,
    tokens: int,
    seed: int = 0,
    alpha: float | None = None,
    sigma: float | None = None,
    noise: str | None = None,
) -> LoadTable:
    """Draw the loads of `tokens` tokens, every layer anew from the distribution named `kind`.

    Parameters
    ----------
    kind
        One of `GENERATORS`.
    layers, experts, top_k, tokens
        Sizes, each >= 1, ``top_k <= experts``.
    seed
        A whole number >= 0; equal arguments give equal tables, in a fresh process too.
    alpha
        Exponent of ``zipf``, in [0, 10].
    sigma
        Spread of ``lognormal`` and ``topic``, in [0, 10].
    noise
        ``"poisson"`` applies `with_noise` with the same seed.

    Returns
    -------
    LoadTable
        int64; without noise no expert has more than `tokens` selections and every layer sums to ``tokens * top_k``.

    Raises
    ------
    InstanceError
        An argument is out of range or does not belong to the kind; all of them in one message.

    >>> generate("zipf", layers=2, experts=4, top_k=2, tokens=100, alpha=1.2).loads.tolist()
    [[39, 87, 53, 21], [38, 24, 91, 47]]
    >>> generate("uniform", layers=1, experts=4, top_k=5, tokens=100, alpha=1.2)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: top_k = 5: must be at most experts = 4. A token selects different experts.
    alpha = 1.2: does not belong to uniform. Leave it out.
    """
    check = Violations()
    if kind not in _KINDS:
        check.add("kind", kind, rule="is not a generator", fix=f"Known are {', '.join(_KINDS)}")
    sizes = {"layers": layers, "experts": experts, "top_k": top_k, "tokens": tokens}
    for name, size in sizes.items():
        check_whole(name, size, 1, check)
    check_whole("seed", seed, 0, check)
    if not check.found and top_k > experts:
        check.add("top_k", top_k, rule=f"must be at most experts = {experts}", fix="A token selects different experts")
    if not check.found and tokens * top_k > SELECTIONS_MAX:
        rule = f"tokens * top_k must be at most {SELECTIONS_MAX}"
        check.add("tokens", tokens, rule=rule, fix="Draw fewer tokens")
    if not check.found and layers * experts > CELLS_MAX:
        check.add("layers", layers, rule=f"layers * experts must be at most {CELLS_MAX}", fix="Draw fewer layers")
    if noise is not None and noise not in NOISES:
        check.add("noise", noise, rule="is not a kind of noise", fix=f"Known are {', '.join(NOISES)}")
    value = _parameter(kind, {"alpha": alpha, "sigma": sigma}, check)
    check.raise_if_any()

    chosen = _KINDS[kind]
    rng = np.random.default_rng([seed, salt(f"zipf{value}" if kind == "zipf" else kind), layers, experts])
    loads = np.empty((layers, experts), dtype=np.int64)
    for row in loads:
        weights = np.maximum(chosen.draw(rng, experts, value), draws.SMALLEST)
        row[:] = draws.counts(rng, draws.inclusion(weights, top_k), top_k, tokens)
    loads.flags.writeable = False
    said = f"{chosen.parameter}={value}, " if chosen.parameter else ""
    source = f"{kind}({said}{', '.join(f'{name}={size}' for name, size in sizes.items())}, seed={seed})"
    table = LoadTable(loads, tuple(range(layers)), source=source)
    return table if noise is None else with_noise(table, noise, seed=seed)


@kinds.expects(table="moeopt.workload.table:LoadTable", noise=kinds.text)
def with_noise(table: LoadTable, noise: str = "poisson", *, seed: int = 0) -> LoadTable:
    """Redraw every count of a table around its value: what another window of the same traffic could have shown.

    Numbers that are none, or do not fit the loads, are refused (`InstanceError`).

    ``poisson``: independent Poisson counts with the given loads as means, so that a layer's sum varies too and a
    hot expert may pass the number of tokens.

    >>> table = LoadTable(np.array([[0, 10, 1000]]), layers=(0,), source="x")
    >>> with_noise(table, seed=1).loads.tolist(), with_noise(table, seed=1).source
    ([[0, 11, 1000]], 'x with poisson noise, seed=1')
    """
    check = Violations()
    if noise not in NOISES:
        check.add("noise", noise, rule="is not a kind of noise", fix=f"Known are {', '.join(NOISES)}")
    check_whole("seed", seed, 0, check)
    if table.loads.max() > SELECTIONS_MAX:
        rule = f"a mean must be at most {SELECTIONS_MAX}"
        check.add("loads", table.loads.max().item(), rule=rule, fix="Divide all loads by one number")
    check.raise_if_any()
    rng = np.random.default_rng([seed, salt(noise), *table.loads.shape])
    loads: Loads = rng.poisson(table.loads).astype(np.int64)
    loads.flags.writeable = False
    return replace(table, loads=loads, source=f"{table.source} with {noise} noise, seed={seed}")


def _parameter(kind: str, given: dict[str, float | None], check: Violations) -> float:
    chosen = _KINDS.get(kind)
    value = chosen.default if chosen is not None else 0.0
    for name, wish in given.items():
        if wish is None:
            continue
        if isinstance(wish, bool) or not isinstance(wish, int | float) or not 0 <= wish <= 10:  # NaN is not <= 10
            check.refuse(name, wish, rule="must be a number in [0, 10]", fix="1.0 is usual")
        elif chosen is not None and name != chosen.parameter:
            check.add(name, wish, rule=f"does not belong to {kind}", fix="Leave it out")
        else:
            value = float(wish)
    return value
