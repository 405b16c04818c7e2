"""A drop-in for DeepSeek's EPLB: the same call, the same three answers, better maps.

Plug it in
----------
Wherever ``eplb.py`` is imported or has been copied to, import this instead; arguments, by name or by place, shapes and
dtypes are the same::

    from moeopt.engines import eplb

    eplb.warm_up()                       # once, at start-up
    phy2log, log2phy, logcnt = eplb.rebalance_experts(weight, 288, 8, 4, 32)

``weight`` (L, E) may be a numpy array, nested lists or a tensor of any framework on any device; the answers are of
the same kind on the same device, int64. torch is never imported: the tensor itself is asked.

With options, bind them once and pass the function on, or give them by keyword::

    rebalance_experts = eplb.configure(max_moves=8, keep=0.02, time_limit_s=2, logger=my_logger)
    phy2log, log2phy, logcnt = rebalance_experts(weight, 288, 8, 4, 32, current=phy2log)

``current`` (L, num_replicas), which EPLB does not have, is the map that runs: then few experts move, and those that
stay keep their slots. See `Options` for the others.

What you can rely on
--------------------
* Every map has the shape asked for, every expert and no empty slot, whatever is asked and whatever goes wrong, where
  there are as many slots as experts. That goes before `max_moves`.
* Never two replicas of an expert on one GPU, where the published rule often has them. Where ``current`` has them,
  they are mended first; what `max_moves` is too small for stays, and the log warns with numbers.
* Without ``current``, no layer's busiest GPU is above that of the published rule (doubles swapped away), to 1e-9;
  with it and no ``max_moves``, not by more than the part ``keep``, or 3 % over what swaps can give where only a layer
  filled anew, most of whose experts move, would do better; and by nothing with ``keep=0``. A limit too short to
  get to a layer leaves it as it runs.
* Unchanged loads, and loads for which another map would only be the same one under other names, give ``current`` back.
* Groups stay on one node each where ``num_groups % num_nodes == 0``, as published; else, and with 0 groups, the map
  is flat and the log says why, also where the published rule ends in an assertion.
* No exception but one: where more slots are asked for than memory holds, the map that runs stays, whatever its shape,
  and where none does there is a ``NoRoom``, a ``ValueError``. Loads that are NaN, infinite, negative or all zero,
  arguments that cannot be read, shapes no map fits, a limit that passes and our own bugs give ``current`` back, or
  experts in order where nothing runs, and one line in the log with the reason. Where ``current`` lacks experts or has
  no form on the GPUs of today, what fits stays and the rest is filled by the fewest moves. A ``current`` that is no map
  of this shape is a warning, and the plan begins from nothing.
* One line a call in the log ``moeopt.engines``: imbalance before, after and the bound, moves, milliseconds; of layers
  that have loads. It is a warning wherever something was not as asked for.
* Ranks that plan for themselves find the same map: the clock does not decide how far the search goes. Where one
  process plans for all, ``steady=False`` lets it; ``agree`` takes a broadcast.

Before `warm_up` has loaded compiled code, large shapes get the published rule without doubles, as compiling would
break the time limit; the log says so. Nothing is kept between calls, and any number of threads may call.

Source of the signature: DeepSeek-AI, EPLB, 2025, ``eplb.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moeopt.engines.policies.case import Asked
from moeopt.engines.policies.guard import answer, in_order
from moeopt.engines.policies.last import NoRoom, alike, fits, guarded
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.ready import warm_up
from moeopt.engines.policies.shape import Ints, replicas, slots_of_experts

Maps = tuple[Any, Any, Any]


def rebalance_experts(
    weight: Any,
    num_replicas: int,
    num_groups: int,
    num_nodes: int,
    num_gpus: int,
    *,
    current: Any = None,
    options: Options | None = None,
) -> Maps:
    """Replicas of experts and the slot of each.

    Parameters
    ----------
    weight
        (L, E) load of each expert.
    num_replicas, num_gpus
        S slots on G GPUs, equally many on each.
    num_groups, num_nodes
        Experts of a group stay on one node where the groups divide over the nodes.
    current
        (L, S) the map that runs, or a function that gives it; with as many slots on each GPU, of more GPUs or fewer.

    Returns
    -------
    (phy2log, log2phy, logcnt)
        (L, S) expert in each slot, GPU after GPU; (L, E, X) slots of each expert, padded with -1; (L, E) replicas.

    Raises
    ------
    NoRoom
        A ``ValueError``: the map asked for is too large for the memory, and none runs. There is no other exception.

    Examples
    --------
    The example of EPLB's own page, where the published map has 156 and 179.5 tokens on its busiest GPUs:

    >>> import numpy as np
    >>> weight = [[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    ...           [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]]
    >>> phy2log, log2phy, logcnt = rebalance_experts(weight, 16, 4, 2, 8)
    >>> phy2log.shape, log2phy.shape, logcnt.shape, str(phy2log.dtype)
    ((2, 16), (2, 12, 3), (2, 12), 'int64')
    >>> size = (np.array(weight) / logcnt)[[[0], [1]], phy2log]
    >>> size.reshape(2, 8, 2).sum(axis=2).max(axis=1).tolist()
    [151.0, 179.5]
    """
    asked = Asked("eplb", weight, num_replicas, num_groups, num_nodes, num_gpus, current)
    return guarded(
        "eplb",
        options,
        lambda chosen: maps(answer(asked, chosen).held, weight),
        lambda _: maps(in_order(weight, num_replicas, current), None),
    )


def maps(held: Ints, given: Any, width: int | None = None) -> Maps:
    """The map, its reverse of at least `width` places an expert, and the counts, as what was `given`.

    Experts that hold no slot are listed where the loads name them and the list is not too large for the memory.
    """
    needed = max(int(held.max(initial=-1)) + 1, 1)
    most = int(replicas(held, needed).max(initial=0))
    num_experts = max(_experts(given), needed)
    if not fits(len(held), num_experts, max(most, width or 0)):
        num_experts, width = needed, None
    if not fits(len(held), num_experts, most):
        raise NoRoom(f"a list of {len(held):,} x {num_experts:,} x {most:,} slots has no room in memory")
    forms = held, slots_of_experts(held, num_experts, width), replicas(held, num_experts)
    first, second, third = (alike(form, given) for form in forms)
    return first, second, third


def _experts(given: Any) -> int:
    """E, of the loads where they have a shape."""
    try:
        shape = getattr(given, "shape", None)
        return int(shape[-1] if shape is not None else len(given[0]))
    except Exception:
        return 0


def configure(**options: Any) -> Callable[..., Maps]:
    """`rebalance_experts` with options bound; `warm_up` is left to the caller.

    Raises
    ------
    InstanceError
        An option out of range.

    >>> plan = configure(seed=1)
    >>> plan([[3, 1]], 2, 1, 1, 2)[0].tolist()
    [[0, 1]]
    """
    chosen = Options(**options)

    def configured(
        weight: Any, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int, *, current: Any = None
    ) -> Maps:
        return rebalance_experts(weight, num_replicas, num_groups, num_nodes, num_gpus, current=current, options=chosen)

    configured.__doc__ = rebalance_experts.__doc__
    return configured


__all__ = ["NoRoom", "Options", "configure", "rebalance_experts", "warm_up"]
