"""A drop-in policy for vLLM's expert-parallel load balancer.

Plug it in
----------
vLLM looks its policy up in a table by the name in ``--eplb-config`` and knows only ``default``, so the entry is
replaced before the engine is built, in every worker process. A general plug-in is loaded in each of them; its function
is::

    def register():                                    # entry point of the group "vllm.general_plugins"
        from vllm.distributed.eplb import policy
        from moeopt.engines.policies import vllm, warm_up

        warm_up()
        policy.EPLB_POLICIES["default"] = vllm.configure(max_moves=16, time_limit_s=2)

and the engine is started as before: ``vllm serve MODEL --enable-expert-parallel --enable-eplb``.

The class has what ``AbstractEplbPolicy`` asks for: the class method ``rebalance_experts(weight, num_replicas,
num_groups, num_nodes, num_ranks, old_global_expert_indices=None)``, by place or by name. ``weight`` is (layers,
experts); the answer is one int64 tensor (layers, num_replicas), as in release 0.33.0; earlier releases also took the
reverse map and the counts from it, which `moeopt.engines.eplb.rebalance_experts` still gives.

``old_global_expert_indices`` is (layers, num_replicas), whatever its name says: the map that runs. The default policy
uses it to keep slots inside a GPU; here the plan starts from it. At a drift of 5 % on 288 slots and 32 GPUs one in ten
replicas moves where the default moves nine in ten. Experts that stay keep their slots. In an elastic deployment, where
the number of GPUs has changed, what fits of it is used.

What you can rely on
--------------------
* Every map has every expert and no empty slot, whatever `max_moves` says, also where the number of GPUs has changed.
* Never two replicas of an expert on one GPU; where the map that runs has them, they are mended first. Where `max_moves`
  is too small for that, the rest stays and the log warns with numbers.
* Unchanged loads give the old map back, and so does a gain below `keep`; vLLM then copies nothing.
* The profile run before serving, warm-up batches and requests that have not come yet mean loads of zero: the old map
  comes back, with the reason in the log, as it does for NaN, infinite and negative loads and for our own bugs; made
  full by the fewest moves where it lacks experts, or has no form on the GPUs of today.
* All ranks call the policy by themselves and must agree, or weights are sent to nobody. So the clock never decides how
  far a search goes, only sizes do, unless ``agree`` shares one rank's map, for example::

      def agree(slots):
          box = [slots]
          torch.distributed.broadcast_object_list(box, src=ranks[0], group=get_ep_group().cpu_group)
          return box[0]

  Should the limit pass nevertheless, on a stalled machine, the old map comes back on that rank and the log says so.
* ``num_groups`` is used as in the default policy: groups stay on one node where they divide over the nodes.

Source of the signature: vllm-project/vllm, ``vllm/distributed/eplb/policy`` and ``eplb_state.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from moeopt.engines.policies.case import Asked
from moeopt.engines.policies.guard import answer, in_order
from moeopt.engines.policies.last import alike, guarded
from moeopt.engines.policies.options import Options


class EplbPolicy:
    """The policy; `configure` gives one with other options.

    >>> EplbPolicy.rebalance_experts([[3, 1, 1, 1]], 4, 1, 1, 2, old_global_expert_indices=[[3, 2, 1, 0]]).tolist()
    [[3, 2, 1, 0]]
    """

    options: ClassVar[Options] = Options()

    @classmethod
    def rebalance_experts(
        cls,
        weight: Any,
        num_replicas: int,
        num_groups: int,
        num_nodes: int,
        num_ranks: int,
        old_global_expert_indices: Any = None,
    ) -> Any:
        """The expert in each slot.

        Parameters
        ----------
        weight
            (L, E) load of each expert.
        num_replicas, num_ranks
            S slots on so many GPUs, equally many on each.
        num_groups, num_nodes
            Experts of a group stay on one node where the groups divide over the nodes.
        old_global_expert_indices
            (L, S) the map that runs.

        Returns
        -------
        phy2log
            (L, S) of int64, of the kind and on the device of `weight`.

        Raises
        ------
        NoRoom
            A ``ValueError``: the map asked for is too large for the memory, and none runs. There is no other exception.
        """
        asked = Asked("vllm", weight, num_replicas, num_groups, num_nodes, num_ranks, old_global_expert_indices)
        return guarded(
            "vllm",
            cls.options,
            lambda options: alike(answer(asked, options).held, weight),
            lambda _: in_order(weight, num_replicas, old_global_expert_indices),
        )


def configure(**options: Any) -> type[EplbPolicy]:
    """A policy class with options bound; see `Options`.

    Raises
    ------
    InstanceError
        An option out of range.

    >>> configure(max_moves=4).options.max_moves
    4
    """
    return type("EplbPolicy", (EplbPolicy,), {"options": Options(**options), "__module__": __name__})


__all__ = ["EplbPolicy", "Options", "configure"]
