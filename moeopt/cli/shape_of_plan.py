"""The shape of a plan where the command line leaves it out: as if its options had been given, and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.say import count, ranges
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.cli.options import Shape

OF_GPUS = {"slots": "slots", "nodes": "nodes", "speed": "speeds", "memory_bytes": "memory", "lost": "lost GPUs"}
"""Options with an entry a GPU, which say nothing of another number of GPUs."""


def inherited(shape: Shape, known: Mapping[str, Any], whose: str) -> tuple[Shape, tuple[str, ...]]:
    """The options with those added that a plan says and nobody gave, and notes of what was taken.

    `known` is from `placement.plan_shape`, `whose` names the plan in a sentence. Slots are not taken beside a memory
    that sets them, nor are GPUs lost that ``--gpus`` names; of another number of GPUs only groups and bytes are known.
    """
    left = {name: value for name, value in known.items() if getattr(shape, name) is None}
    if shape.slots_per_gpu is not None or shape.memory_bytes is not None:
        left.pop("slots", None)
    if shape.groups is not None:
        left.pop("group_rule", None)
    if shape.gpus is not None:
        left.pop("lost", None)
    elif "lost" in known:
        typed = [] if shape.lost is None else units.ids("--lost", shape.lost, Violations())
        left["lost"] = [gpu for gpu in known["lost"] if gpu not in typed]
    notes, other = [], shape.gpus is not None and shape.gpus != known.get("gpus")
    if other:
        dropped = [said for name, said in OF_GPUS.items() if left.pop(name, None) is not None and name != "slots"]
        if dropped:
            has = f"has {count(known['gpus'], 'GPU')}, --gpus says {shape.gpus}"
            notes.append(f"{' and '.join(dropped)} of {whose} are not taken over: it {has}")
    words = words_of(left)
    if words:
        whole = {"gpus", "slots"} <= set(left)
        gone = left.get("lost", [])
        lost = f"; GPUs {ranges(gone)} have no slot in it and count as lost" if gone else ""
        head = f"the shape is that of {whose}" if whole else f"taken from {whose}"
        notes.append(f"{head}: {', '.join(words)}{lost}")
    return replace(shape, **{name: _typed(name, value, shape) for name, value in left.items()}), tuple(notes)


SAID = {
    "split": "split {}",
    "fill": "fill {}",
    "distinct": "doubles allowed",
    "uneven_slots": "uneven slots",
    "floor_tokens": "a floor of {} tokens",
    "floor_rule": "floor rule {}",
    "min_replicas": "at least {}",
    "survive_nodes": "survives the loss of {}",
    "c_slot": "a price of a slot",
    "c_tok": "a price of a token",
    "shared": "shared experts {}",
}


def dropped_rules(rules: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """A note of the rules that a running plan was made under and nobody asks for now.

    >>> dropped_rules({"split": "random", "pin": [(0, 1)], "fill": "at_most"}, {"fill": "all"})
    ['the running plan was made under rules that are not asked for now, so that this one may break them: split random, 1 pin']
    """  # noqa: E501
    words = [_rule(name, value) for name, value in rules.items() if name not in asked]
    head = "the running plan was made under rules that are not asked for now, so that this one may break them"
    return [f"{head}: {', '.join(words)}"] if words else []


def _rule(name: str, value: Any) -> str:
    if name in ("pin", "forbid"):
        return count(len(value), "pin" if name == "pin" else "ban")
    if name == "min_replicas":
        each = isinstance(value, list)
        value = f"{max(value)} replicas of some experts" if each else f"{value} replicas of each expert"
    if name == "survive_nodes":
        value = count(value, "node")
    return SAID[name].format(value)


def words_of(left: Mapping[str, Any]) -> list[str]:
    """What is taken, in words.

    >>> words_of({"gpus": 72, "slots": 288, "nodes": 9, "groups": 8})
    ['72 GPUs', 'slots 288', '9 nodes', '8 groups of experts']
    """
    found = []
    for name, value in left.items():
        if name == "gpus":
            found.append(count(value, "GPU"))
        elif name == "slots":
            most = f"slots {value}" if isinstance(value, int) else f"slots {min(value)} to {max(value)} a GPU"
            found.append(most)
        elif name in ("nodes", "groups"):
            noun = "node" if name == "nodes" else "group"
            number = value if isinstance(value, int) else len(set(value))
            dealt = "" if isinstance(value, int) else ", as they lie there"
            found.append(f"{count(number, noun)}{' of experts' if name == 'groups' else ''}{dealt}")
        elif name == "group_rule":
            found.append(f"group rule {value}")
        elif name == "speed":
            found.append(f"speeds {min(value):g} to {max(value):g}")
        elif name == "expert_bytes":
            found.append(f"{value:,.0f} bytes an expert")
        elif name == "memory_bytes":
            least = min(value) if isinstance(value, list) else value
            found.append(f"{'at least ' if isinstance(value, list) else ''}{least:,.0f} bytes of memory a GPU")
    return found


def _typed(name: str, value: Any, shape: Shape) -> Any:
    """The value as its option would be typed."""
    if name == "lost":
        return ",".join([*([] if shape.lost is None else [shape.lost]), *map(str, value)]) or None
    if name in ("gpus", "group_rule"):
        return value
    return ",".join(map(repr, value)) if isinstance(value, list) else repr(value)
