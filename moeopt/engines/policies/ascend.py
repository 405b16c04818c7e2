"""A drop-in policy for vLLM-Ascend's dynamic expert balancing.

Plug it in
----------
vLLM-Ascend builds its policy in a process of its own by ``PolicyFactory.generate_policy(policy_type)``. Replace the
factory's method before that process is forked, for example in a general plug-in of vLLM::

    def register():                                    # entry point of the group "vllm.general_plugins"
        from vllm_ascend.eplb.core.policy import policy_factory
        from moeopt.engines.policies import ascend, warm_up

        make = ascend.configure(max_moves=16, time_limit_s=5)
        policy_factory.PolicyFactory.generate_policy = staticmethod(lambda *kind_and_config: make())
        warm_up()

with the engine as before: ``DYNAMIC_EPLB=true`` and ``additional_config={"eplb_config": {"dynamic_eplb": true}}``.
Leave ``eplb_policy_type`` at 1 or 2: type 3 hands over loads stage by stage, which are summed here.

The call is the engine's own: ``rebalance_experts(current_expert_table, expert_workload)``, both (layers, NPUs, slots
of an NPU), tensors or lists; loads are those of slots, and are summed to experts by the table. It returns ``(change,
priority, table)``: 1 if the table has changed and 0 if not, the layers by how much they gain with the most first, and
the new table as nested lists. Some releases use the table whatever ``change`` says; without a change it is the current
one, so that nothing moves. An expert that stays on its NPU keeps its slot, which the engine checks.

Elastic scaling calls ``set_new_ep_size(n)`` first; the next table then has n NPUs with as many slots each.

What you can rely on
--------------------
* Every table has every expert and no empty slot, also after scaling and whatever `max_moves` says.
* Never two replicas of an expert on one NPU, which the engine refuses or, where it does not look, pays for in accuracy;
  where the table has them and `max_moves` is too small to mend that, the rest stays and the log warns.
* More redundant experts than NPUs, near-uniform loads and one very hot expert are plain inputs here.
* Dummy runs that leave loads of zero or NaN hotness give the current table back, ``change`` 0 and the reason in the
  log; so does any error of ours, and a size that no memory holds: there is no exception. Slots of -1 are filled, and
  tables that lack experts made full, by the fewest moves.
* `max_moves` limits the transfers of a layer; below the part `keep` a layer is left alone.
* Every rank's process plans for itself and finds the same table; see `Options.steady`.

Source of the signature: vllm-project/vllm-ascend, ``vllm_ascend/eplb/core/policy`` and ``eplb_worker.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moeopt.engines.policies.arrays import as_numpy
from moeopt.engines.policies.case import Asked
from moeopt.engines.policies.guard import Answer, answer
from moeopt.engines.policies.last import guarded, usable, warn, why
from moeopt.engines.policies.options import Options
from moeopt.engines.policies.shape import Ints, Refused

Table = list[list[list[int]]]


class EplbPolicy:
    """The policy; takes the factory's configuration object and ignores it.

    >>> table = [[[0, 1], [2, 3]]]
    >>> EplbPolicy().rebalance_experts(table, [[[8, 4], [2, 2]]])
    (1, array([0]), [[[2, 1], [0, 3]]])
    """

    def __init__(self, config: Any = None, *, options: Options | None = None) -> None:
        self.config = config
        self.options = usable(options)
        self._new_ep_size: int | None = None

    def set_new_ep_size(self, new_ep_size: int) -> None:
        """The number of NPUs of the next table, where the deployment grows or shrinks."""
        self._new_ep_size = new_ep_size

    def rebalance_experts(self, current_expert_table: Any, expert_workload: Any) -> tuple[int, Ints, Table]:
        """A new table.

        Parameters
        ----------
        current_expert_table
            (L, G, s) expert in each slot.
        expert_workload
            (L, G, s) load of each slot; or (T, L, G, s), which is summed.

        Returns
        -------
        (change, priority, table)
            1 or 0; (L,) layers, those that gain most first; L lists of G lists of experts.
        """
        new_size, self._new_ep_size = self._new_ep_size, None
        try:
            return guarded(
                "vllm-ascend",
                self.options,
                lambda options: self._rebalanced(current_expert_table, expert_workload, new_size, options),
                lambda _: (0, np.arange(len(current_expert_table)), _listed(current_expert_table)),
            )
        except Exception as error:  # not even a length
            warn(Options(), "moeopt vllm-ascend: gave the table back as it was: %s", why(error))
            return 0, np.arange(0), current_expert_table

    def _rebalanced(self, given: Any, workload: Any, new_size: Any, options: Options) -> tuple[int, Ints, Table]:
        table = as_numpy(given).astype(np.int64)
        num_layers, num_gpus, per_gpu = table.shape
        gpus = int(new_size or num_gpus)
        old = table.reshape(num_layers, -1)
        if not num_layers:
            return 0, np.arange(0), []
        highest = int(old.max(initial=-1))
        if not 0 <= highest < old.shape[1]:
            raise Refused(f"the table holds experts up to {highest} in {old.shape[1]} slots")
        num_experts, fault = highest + 1, ""
        try:
            loads = _of_experts(old, workload, num_experts)
        except Exception as error:
            loads, fault = np.zeros((num_layers, num_experts)), f"loads cannot be used: {why(error)}"
        asked = Asked("vllm-ascend", loads, gpus * per_gpu, None, 1, gpus, old, fault)
        found = answer(asked, options)
        changed = not np.array_equal(found.held, old)
        return int(changed), _priority(found, num_layers), found.held.reshape(num_layers, gpus, per_gpu).tolist()


def _of_experts(old: Ints, workload: Any, num_experts: int) -> np.ndarray:
    """(L, E) loads of experts, from those of slots; NaN where a slot of no expert, -1, has a load."""
    table = as_numpy(workload)
    kind = np.int64 if table.dtype.kind in "iub" else np.float64
    if table.ndim == 4:
        table = table.sum(axis=0, dtype=kind)
    slots = table.reshape(old.shape).astype(kind)
    filled = old >= 0
    out: np.ndarray = np.zeros((len(old), num_experts), dtype=kind)
    rows = np.broadcast_to(np.arange(len(old))[:, None], old.shape)
    np.add.at(out, (rows[filled], old[filled]), slots[filled])
    if (slots[filled] < 0).any():
        raise ValueError("loads are negative")
    return out


def _priority(found: Answer, num_layers: int) -> Ints:
    """(L,) layers by cost after over cost before."""
    if found.plan is None or found.plan.before is None:
        return np.arange(num_layers)
    before = np.where(found.plan.before > 0, found.plan.before, 1.0)
    ratio = np.where(found.plan.before > 0, found.plan.top / before, 1.0)
    return np.argsort(ratio, kind="stable")


def _listed(table: Any) -> Table:
    listed: Table = table.tolist() if hasattr(table, "tolist") else table
    return listed


def configure(**options: Any) -> Callable[..., EplbPolicy]:
    """A maker of policies with options bound; see `Options`.

    Raises
    ------
    InstanceError
        An option out of range.

    >>> configure(keep=0.05)().options.keep
    0.05
    """
    chosen = Options(**options)

    def make(config: Any = None) -> EplbPolicy:
        return EplbPolicy(config, options=chosen)

    return make


__all__ = ["EplbPolicy", "Options", "configure"]
