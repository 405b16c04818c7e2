"""A drop-in for SGLang's expert-placement algorithms.

Plug it in
----------
SGLang calls ``eplb_algorithms.rebalance_experts`` at every re-balancing and, with ``--init-expert-location`` given
counts, at start-up, always through the module. Replace it before the server starts, in every process that runs a
model, for example in a module that your launcher imports first::

    from sglang.srt.eplb import eplb_algorithms
    from moeopt.engines.policies import sglang, warm_up

    warm_up()
    eplb_algorithms.rebalance_experts = sglang.configure(current=running, max_moves=16, split="sglang-static")

with the server as before: ``--enable-eplb --ep-num-redundant-experts 32``. SGLang does not tell its algorithms which
map runs. ``current`` is a function that does, without arguments, and is asked in every call; without it every map is
planned afresh and most experts move::

    def running():
        from sglang.srt.eplb.expert_location import get_global_expert_location_metadata
        known = get_global_expert_location_metadata()
        return None if known is None else known.physical_to_logical_map_cpu

``split="sglang-static"`` plans for ``--ep-dispatch-algorithm static``, where every source GPU sends all its tokens of
an expert to one replica; leave it out for ``dynamic``.

The call is the engine's own: ``rebalance_experts(tokens_per_expert, num_physical_experts, num_local_physical_experts,
num_groups, num_nodes, algorithm)``, where ``tokens_per_expert`` is (steps, layers, experts) and the steps are summed.
``algorithm`` may be its enum or a name. Names with ``hierarchical`` and ``auto`` keep groups on nodes where they
divide, the others plan flat, and so does a name that is not known, with a warning in the log. The answers are
(physical_to_logical (L, S), logical_to_physical (L, E, X) padded with -1, counts (L, E)), int64, of the kind and on the
device of the counts; X is the most replicas, and redundant experts + 1 for ``deepseek_vec``, as there.

``elasticity_aware`` plans on the GPUs that are alive, which SGLang's own state names or ``active_ranks`` does; slots
of the others show expert 0 and stand in no list of replicas, as there.

What you can rely on
--------------------
* Every map has every expert and no empty slot, whatever `max_moves` says, also where ranks have died; never two
  replicas of an expert on one GPU, unless they run there and `max_moves` is too small to mend that, which is a warning.
* Without ``current``, no layer above the public rule; with it as `Options.keep` says.
* No exception but `NoRoom`, see below: the assertions of the original (groups, nodes, divisions) are a line in the
  log, and so are loads that are NaN, infinite, negative or all zero; the map that runs comes back, made full by the
  fewest moves where it does not fit, or experts in order. A ``current`` that fails or does not fit is a warning, and
  the plan begins from nothing.
* Rows without loads, as the dense layers have in SGLang's arrays, stay as they are and count in no logged figure.
* Every rank plans for itself and finds the same map, as the clock does not decide; see `Options.steady`.

Source of the signature: sgl-project/sglang, ``python/sglang/srt/eplb``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from moeopt.engines.eplb import Maps, maps
from moeopt.engines.policies.arrays import as_numpy
from moeopt.engines.policies.case import Asked, given_map
from moeopt.engines.policies.guard import Answer, answer, in_order
from moeopt.engines.policies.last import alike, guarded, size, why
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.shape import Ints

ALGORITHMS = (
    "auto",
    "deepseek",
    "deepseek_hierarchical",
    "deepseek_vec",
    "deepseek_vec_hierarchical",
    "elasticity_aware",
    "elasticity_aware_hierarchical",
)
"""Names of SGLang's enum, and its ``auto``."""
ELASTIC = "sglang.srt.elastic_ep.elastic_ep"
"""Where SGLang keeps which ranks are alive; asked only if SGLang has loaded it."""


def rebalance_experts(
    tokens_per_expert: Any,
    num_physical_experts: int,
    num_local_physical_experts: int,
    num_groups: int | None,
    num_nodes: int,
    algorithm: Any = "auto",
    *,
    current: Any = None,
    active_ranks: Any = None,
    options: Options | None = None,
) -> Maps:
    """Replicas of experts and the slot of each.

    Parameters
    ----------
    tokens_per_expert
        (T, L, E) counts of T steps, or (L, E).
    num_physical_experts, num_local_physical_experts
        Slots in all, and of a GPU.
    num_groups, num_nodes
        Used where `algorithm` is hierarchical, or ``auto``.
    algorithm
        A member of SGLang's enum, or its name.
    current
        (L, S) the map that runs, or a function that gives it.
    active_ranks
        (G,) whether each GPU is alive, for ``elasticity_aware``.

    Raises
    ------
    NoRoom
        A ``ValueError``: the map asked for is too large for the memory, and none runs. There is no other exception.

    >>> counts = [[[3, 1, 1, 1]], [[4, 2, 1, 1]]]
    >>> [table.shape for table in rebalance_experts(counts, 6, 3, None, 1, "deepseek")]
    [(1, 6), (1, 4, 2), (1, 4)]
    """
    asked = Asked("sglang", tokens_per_expert, num_physical_experts, num_groups, num_nodes, None, current)
    return guarded(
        "sglang",
        options,
        lambda chosen: _planned(asked, num_local_physical_experts, algorithm, active_ranks, chosen),
        lambda _: maps(in_order(_summed(tokens_per_expert), num_physical_experts, current), None),
    )


def _planned(asked: Asked, local: Any, algorithm: Any, active_ranks: Any, options: Options) -> Maps:
    given, slots, per_gpu = asked.loads, size(asked.slots), size(local)
    name = _name(algorithm)
    loads = _summed(given)
    gpus = slots // per_gpu if per_gpu else 0
    grouped = name in ALGORITHMS and ("hierarchical" in name or name == "auto")
    alive: np.ndarray | None = None
    aside: tuple[str, ...] = ()
    if name not in ALGORITHMS:
        aside = (f"algorithm {name!r} is not known, planned flat: use {', '.join(ALGORITHMS)}",)
    elif name.startswith("elasticity_aware") and gpus * per_gpu == slots:
        alive, fault = _alive(active_ranks, gpus)
        aside = (fault,) if fault else ()
    asked = replace(asked, loads=loads, groups=asked.groups if grouped else None, gpus=gpus, aside=aside)
    if alive is None or alive.all():
        held = answer(asked, options).held
        width = max(held.shape[1] - _experts(loads), 0) + 1 if name.startswith("deepseek_vec") else None
        return maps(held, given, width)
    return _on_survivors(asked, alive, per_gpu, given, options)


def _on_survivors(asked: Asked, alive: np.ndarray, per_gpu: int, given: Any, options: Options) -> Maps:
    """A flat plan on the GPUs that are alive; slots of the dead ones hold expert 0 and are in no list."""
    living = np.repeat(alive, per_gpu)
    old, fault = _living_part(asked.old, living)
    left = replace(
        asked, slots=int(living.sum()), groups=None, nodes=1, gpus=int(alive.sum()), old=old, old_fault=fault
    )
    held = answer(left, options).held
    _, lists, counts = maps(held, asked.loads if isinstance(asked.loads, np.ndarray) else None)
    slots = np.flatnonzero(living)
    table: Ints = np.zeros((len(held), len(living)), dtype=np.int64)
    table[:, slots] = held
    first, second, third = (alike(form, given) for form in (table, np.where(lists >= 0, slots[lists], -1), counts))
    return first, second, third


def _summed(counts: Any) -> Any:
    """(L, E) counts of all steps, in 64 bits; what cannot be summed is left for the guard to refuse."""
    try:
        table = as_numpy(counts)
        if table.ndim != 3:
            return table
        return table.sum(axis=0, dtype=np.int64 if table.dtype.kind in "iub" else np.float64)
    except Exception:
        return counts


def _name(algorithm: Any) -> str:
    try:
        return str(getattr(algorithm, "name", algorithm))
    except Exception:
        return type(algorithm).__name__


def _experts(loads: Any) -> int:
    return int(loads.shape[-1]) if isinstance(loads, np.ndarray) and loads.ndim else 1


def _living_part(current: Any, living: np.ndarray) -> tuple[Any, str]:
    """What the GPUs that are alive hold of the map that runs, or why that cannot be said."""
    table, fault = given_map(current)
    if table is None:
        return None, fault
    if table.ndim != 2 or table.shape[1] != len(living):
        return None, f"its shape is {table.shape}, not (layers, {len(living)})"
    return table[:, living], ""


def _alive(active_ranks: Any, gpus: int) -> tuple[np.ndarray | None, str]:
    """(G,) which GPUs are alive, ``None`` where nobody says so; and why what was said is of no use."""
    try:
        if active_ranks is None and ELASTIC in sys.modules:
            active_ranks = sys.modules[ELASTIC].get_elastic_ep_state().active_ranks
        if active_ranks is None:
            return None, ""
        alive = as_numpy(active_ranks).astype(bool)
    except Exception as error:
        return None, f"active_ranks cannot be read, all count as alive: {why(error)}"
    if alive.shape != (gpus,):
        return None, f"active_ranks has shape {alive.shape}, not ({gpus},): all count as alive"
    return (alive, "") if alive.any() else (None, "active_ranks names no rank: all count as alive")


def configure(*, current: Callable[[], Any] | None = None, **options: Any) -> Callable[..., Maps]:
    """`rebalance_experts` with options bound, and a function that tells which map runs.

    Raises
    ------
    InstanceError
        An option out of range.
    """
    chosen = Options(**options)

    def configured(
        tokens_per_expert: Any,
        num_physical_experts: int,
        num_local_physical_experts: int,
        num_groups: int | None,
        num_nodes: int,
        algorithm: Any = "auto",
    ) -> Maps:
        return rebalance_experts(
            *(tokens_per_expert, num_physical_experts, num_local_physical_experts, num_groups, num_nodes, algorithm),
            current=current,
            options=chosen,
        )

    configured.__doc__ = rebalance_experts.__doc__
    return configured


__all__ = ["Answer", "Options", "configure", "rebalance_experts"]
