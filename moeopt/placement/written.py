"""The instance as its document; what reads it back is in `moeopt.placement.document`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from moeopt.placement.instance import SCHEMA

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


def to_document(instance: PlacementInstance, *, with_loads: bool = True) -> dict[str, Any]:
    """See `PlacementInstance.to_dict`."""
    document: dict[str, Any] = {"schema": SCHEMA, "name": instance.name}
    if with_loads:
        document["loads"] = instance.given_loads.tolist()
    document |= {
        "layers": list(instance.layers),
        "steps": list(instance.window_steps) if len(instance.window_steps) > 1 else instance.steps,
        "floor_tokens": instance.floor_tokens,
        "floor_rule": instance.floor_rule,
        "split": instance.split,
        "fill": instance.fill,
        "distinct": instance.distinct,
        "slots": list(instance.given_slots),
        "speed": list(instance.given_speed),
        "nodes": list(instance.node),
        "groups": None if instance.groups is None else list(instance.groups),
        "group_rule": instance.group_rule,
        "pin": [list(pair) for pair in instance.pin],
        "forbid": [list(pair) for pair in instance.forbid],
        "expert_bytes": instance.expert_bytes,
        "memory_bytes": None if instance.memory_bytes is None else list(instance.memory_bytes),
        "names": None if instance.names is None else list(instance.names[: instance.num_experts - instance.num_hosted]),
        "llm": copy.deepcopy(instance.llm),
        "phase": instance.phase,
        "engine": instance.engine,
    }
    return document | _further_rules(instance)


def _further_rules(instance: PlacementInstance) -> dict[str, Any]:
    """Document fields of rules that are in force."""
    table = None if instance.current is None else instance.current.tolist()
    rules_: dict[str, tuple[Any, Any]] = {  # value, and the value that means no such rule
        "combine": (instance.combine if instance.window_loads is not None else "worst", "worst"),
        "alpha": (instance.alpha if instance.window_loads is not None and instance.combine == "cvar" else 0.9, 0.9),
        "current": (table, None),
        "current_gpu": (None if table is None else list(instance.current_gpu or ()), None),
        "max_moves": (instance.max_moves, None),
        "max_moves_per_layer": (instance.max_moves_per_layer, None),
        "move_cost": (instance.move_cost, 0.0),
        "lost": (list(instance.lost), []),
        "retire": (list(instance.retire), []),
        "min_replicas": (list(instance.min_replicas), [1] * instance.num_experts),  # hosted ones included
        "survive_nodes": (instance.survive_nodes, 0),
        "c_slot": (instance.c_slot, None),
        "c_tok": (instance.c_tok, None),
        "token_bytes": (instance.token_bytes, None),
        "recv_bytes_per_s": (None if instance.recv_bytes_per_s is None else list(instance.recv_bytes_per_s), None),
        "shared": (instance.shared, None),
        "num_shared": (instance.num_shared, 1),
        "top_k": (instance.top_k, None),
        "batch_tokens": (instance.batch_tokens, None),
    }
    return {key: value for key, (value, absent) in rules_.items() if value != absent}
