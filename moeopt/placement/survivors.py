"""The instance that is left when GPUs are lost or retired: the same problem on the other GPUs, numbered anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance


def survivors(instance: PlacementInstance) -> PlacementInstance:
    """The instance without GPUs that are gone; itself where none is.

    What its bounds prove holds for the whole: on GPUs that are gone nothing lies.

    >>> from moeopt.placement.instance import PlacementInstance
    >>> survivors(PlacementInstance([[3, 1]], gpus=3, slots=3, lost=[1])).slots
    (1, 1)
    """
    gone = {*instance.lost, *instance.retire}
    if not gone:
        return instance
    left = [gpu for gpu in range(instance.num_gpus) if gpu not in gone]
    number = {gpu: place for place, gpu in enumerate(left)}
    changed: dict[str, Any] = {
        "pin": tuple((expert, number[gpu]) for expert, gpu in instance.pin if gpu in number),
        "forbid": tuple((expert, number[gpu]) for expert, gpu in instance.forbid if gpu in number),
        "lost": (),
        "retire": (),
        "current": None,
        "current_gpu": None,
        "max_moves": None,
        "max_moves_per_layer": None,
        "move_cost": 0.0,
    }
    for field in ("slots", "slots_before", "speed", "given_speed", "node", "memory_bytes", "recv_bytes_per_s"):
        values = getattr(instance, field)
        changed[field] = None if values is None else tuple(values[gpu] for gpu in left)
    changed["slots_before"] = changed["slots"]
    return instance.changed(**changed)
