"""Sanity laws: what loads must be like if they are what they are taken for, each with its threshold and false alarms.

A law that is broken is a `Finding`. Those that matter stand between data and plan until somebody accepts them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.workload.dummies import without_dummies
from moeopt.workload.evidence import MATTERS, NOTE, Evidence, Finding
from moeopt.workload.laws_numbers import float_counters, int32_wrap
from moeopt.workload.laws_steps import dummy_rows, mixed_phases, short_sample
from moeopt.workload.laws_sums import (
    columns,
    counted_per_rank,
    draft_passes,
    idle_layers,
    more_than_every_token,
    one_rank_only,
    unequal_layer_sums,
)
from moeopt.workload.table import LoadTable

__all__ = ["LAWS", "MATTERS", "NOTE", "Finding", "findings"]

LAWS: dict[str, Callable[[Evidence], Iterator[Finding]]] = {
    "dummy-rows": dummy_rows,
    "mixed-phases": mixed_phases,
    "more-than-every-token": more_than_every_token,
    "unequal-layer-sums": unequal_layer_sums,
    "physical-columns": columns,
    "shared-expert-column": columns,
    "one-rank-only": one_rank_only,
    "counted-per-rank": counted_per_rank,
    "int32-wrap": int32_wrap,
    "float-counters": float_counters,
    "idle-layers": idle_layers,
    "draft-passes": draft_passes,
    "short-sample": short_sample,
}
"""Names of findings and the laws behind them; the docstring of each states its rule and how often it is wrong."""


@kinds.expects(
    table="moeopt.workload.table:LoadTable",
    top_k=kinds.whole,
    experts=kinds.whole,
    gpus=kinds.whole,
    dense_layers=kinds.some,
    mtp_layers=kinds.some,
)
def findings(
    table: LoadTable,
    *,
    per_step: NDArray[np.int64] | None = None,
    top_k: int | None = None,
    dense_layers: Sequence[int] | None = None,
    mtp_layers: Sequence[int] | None = None,
    experts: int | None = None,
    slots: int | None = None,
    gpus: int | None = None,
    parallel: Sequence[int] = (),
    absolute: bool = False,
    recorded: bool | None = None,
) -> list[Finding]:
    """Every law that a table of loads breaks, those that matter first.

    Parameters
    ----------
    table
        Loads; its own ``per_step``, ``top_k`` and ``dummies`` are used where the arguments are not given.
    per_step
        (T, L, E) counts step by step.
    top_k, experts, slots, gpus
        Experts a token selects; experts of the LLM; slots of the plan that ran; GPUs to plan for.
    dense_layers, mtp_layers
        Layers without experts, and of the draft model, by the LLM's configuration; ``None`` (not empty): not known.
    parallel
        Sizes of groups of ranks that may each have counted the same tokens, such as tp and dp.
    absolute
        Whether loads are used as numbers of tokens (a floor, seconds) and not only in proportion.
    recorded
        Whether loads are known to be counts of selections, by default where ``per_step`` or ``top_k`` is known; weights
        of anybody's making need not be alike in all layers, nor many.

    Returns
    -------
    list of Finding
        Empty for clean data. About clean counts each test is wrong at most once in some 100,000 tables, as its
        docstring says; `short-sample` is an estimate, and facts such as idle layers are not tests.

    Examples
    --------
    >>> clean = LoadTable(np.array([[40_000, 60_000], [50_000, 50_000]]), layers=(0, 1))
    >>> findings(clean, top_k=1)
    []
    >>> [(found.name, found.severity) for found in findings(clean, top_k=2)]
    [('more-than-every-token', 'matters')]
    """
    if per_step is not None or top_k is not None:
        per_step = table.per_step if per_step is None else per_step
        table = replace(table, per_step=per_step, top_k=table.top_k if top_k is None else top_k)
    seen = Evidence(
        table.loads,
        table.layers,
        table.per_step,
        table.top_k,
        experts,
        slots,
        gpus,
        None if dense_layers is None else tuple(dense_layers),
        None if mtp_layers is None else tuple(mtp_layers),
        tuple(parallel),
        absolute,
        table.dummies,
        table.per_step is not None or table.top_k is not None if recorded is None else recorded,
    )
    with np.errstate(over="ignore", invalid="ignore"):  # sums beyond a double are refused where plans need them
        return _broken(table, seen)


def _broken(table: LoadTable, seen: Evidence) -> list[Finding]:
    found = list(dummy_rows(seen))
    left = without_dummies(table)
    if left is not table:  # the other laws are about what is left
        seen = replace(seen, loads=left.loads, per_step=left.per_step, dummies=None)
    if found and not seen.busy:
        return found
    laws = [law for law in dict.fromkeys(LAWS.values()) if law is not dummy_rows]
    found += [finding for law in laws for finding in law(seen)]
    return sorted(found, key=lambda finding: finding.severity != MATTERS)
