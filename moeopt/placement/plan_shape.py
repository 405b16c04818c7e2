"""The shape that a plan document holds, for an instance of other loads: GPUs, slots, nodes, groups, speeds, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moeopt.placement.document import InstanceDocument
from moeopt.placement.load_plan import instance_of
from moeopt.placement.plan_document import ResultDocument

SHAPE = ("gpus", "slots", "nodes", "groups", "group_rule", "speed", "expert_bytes", "memory_bytes", "lost")
"""Arguments of an instance that say what is placed on what; all other rules are those of a question."""
RULES = (
    *("split", "fill", "distinct", "uneven_slots", "floor_tokens", "floor_rule", "pin", "forbid", "min_replicas"),
    *("survive_nodes", "c_slot", "c_tok", "shared"),
)
"""Rules of a question that the next one about the same GPUs may well ask again."""


def plan_shape(document: ResultDocument) -> dict[str, Any]:
    """Arguments of `PlacementInstance` that give other loads the shape of this plan.

    What is alike everywhere is one number, and what an instance has anyway is left out. A GPU whose slots are all out
    of the plan was lost before, or retired, and counts as lost.

    Raises
    ------
    InstanceError
        The instance in the document breaks its own rules.
    """
    if document.solution is None:
        return {}
    instance = instance_of(document)
    slots, speed, memory = instance.given_slots, instance.given_speed, instance.memory_bytes
    used = set(document.solution.gpu_of_slot)
    groups = document.instance.document.model_dump().get("groups")
    found: dict[str, Any] = {
        "gpus": instance.num_gpus,
        "slots": sum(slots) if len(set(slots)) == 1 else list(slots),
        "nodes": _dealt(instance.node),
        "groups": _dealt(groups) if isinstance(groups, list) else groups,
        "group_rule": instance.group_rule,
        "speed": None if set(speed) == {1.0} else list(speed),
        "expert_bytes": instance.expert_bytes,
        "memory_bytes": memory if memory is None else memory[0] if len(set(memory)) == 1 else list(memory),
        "lost": [gpu for gpu, count in enumerate(slots) if count and gpu not in used],
    }
    usual = {"nodes": 1, "group_rule": "auto", "lost": []}
    return {name: value for name, value in found.items() if value is not None and value != usual.get(name)}


def plan_rules(document: ResultDocument) -> dict[str, Any]:
    """What the question of this plan had of `RULES`, as arguments of `PlacementInstance`."""
    asked = document.instance.document.model_dump()
    usual = {name: InstanceDocument.model_fields[name].get_default(call_default_factory=True) for name in RULES}
    return {name: asked[name] for name in RULES if name in asked and asked[name] != usual[name]}


def _dealt(ids: Sequence[int]) -> int | list[int]:
    """The number of equal parts where ids are dealt in order, else the ids.

    >>> _dealt([0, 0, 1, 1]), _dealt([0, 1, 0, 1])
    (2, [0, 1, 0, 1])
    """
    count = len(set(ids))
    return count if list(ids) == [place * count // len(ids) for place in range(len(ids))] else list(ids)
