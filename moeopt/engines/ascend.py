"""vLLM-Ascend: the expert map that ``expert_map_path`` names and ``expert_map_record_path`` writes.

Layout: ``vllm_ascend/eplb/adaptor/vllm_adaptor.py`` and ``examples/eplb/eplb_strategy.py``. Layer ids count MoE layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moeopt.engines.base import ExpertMap
from moeopt.engines.bounds import RANKS_MAX, within
from moeopt.engines.counting import expert_map
from moeopt.errors import Violations

ENGINE, FORM = "vllm-ascend", "expert map"
LAYER_COUNT, LAYERS = "moe_layer_count", "layer_list"


def is_map(value: Any) -> bool:
    """Whether a JSON value is an expert map."""
    return isinstance(value, Mapping) and (LAYERS in value or LAYER_COUNT in value)


def read_map(path: str, document: Mapping[str, Any]) -> ExpertMap:
    """The map: every layer with its devices, every device with equally many experts.

    Raises
    ------
    InstanceError
        Counts that are not those of the lists, devices or layers that are missing or stand twice, text for numbers.
    """
    check = Violations(path)
    listed = document.get(LAYERS)
    count = _whole(document, LAYER_COUNT, "", check)
    for key in document:
        if key not in (LAYER_COUNT, LAYERS):
            check.add(key, "present", rule="is not a key of an expert map", fix=f"Known are {LAYER_COUNT}, {LAYERS}")
    if not isinstance(listed, list) or not listed:
        check.add(LAYERS, listed, rule="must list the layers", fix="Write the map again")
        check.raise_if_any()
        raise AssertionError
    if count is not None and count != len(listed):
        rule = f"must be the length of {LAYERS}, {len(listed)}"
        check.add(LAYER_COUNT, count, rule=rule, fix="The engine reads that many layers")
    rows: dict[int, list[Any]] = {}
    devices: dict[int, tuple[int, ...]] = {}
    for index, layer in enumerate(listed):
        where = f"{LAYERS} {index}"
        number = _whole(layer, "layer_id", where, check)
        parts = _devices(layer, where, check)
        if number is None or parts is None:
            continue
        if number in rows:
            check.add("layer_id", number, rule="the layer stands twice", fix="Give every layer once", where=where)
        rows[number] = [expert for part in parts for expert in part]
        devices[number] = tuple(map(len, parts))
    check.raise_if_any()
    ids = sorted(rows)
    first = devices[ids[0]]
    for number in ids:
        sizes = devices[number]
        if len(sizes) != len(first):
            rule = f"must have as many devices as layer {ids[0]}, {len(first)}"
            check.add("device_list", len(sizes), rule=rule, fix="Repair the file", where=f"layer {number}")
        elif sizes != (first[0],) * len(first):
            rule = f"every device of every layer must have as many experts as the first one, {first[0]}"
            check.add("device_expert", max(sizes, key=lambda size: size != first[0]), rule=rule, fix="Repair the file",
                      where=f"layer {number}")  # fmt: skip
    check.raise_if_any()
    return expert_map(ENGINE, [rows[i] for i in ids], check, layers=ids, slots=first, field="device_expert")


def _devices(layer: Any, where: str, check: Violations) -> list[list[Any]] | None:
    listed = layer.get("device_list") if isinstance(layer, Mapping) else None
    if not isinstance(listed, list) or not listed:
        check.add("device_list", listed, rule="must list the devices", fix="Write the map again", where=where)
        return None
    count = _whole(layer, "device_count", where, check)
    if count is not None and count != len(listed):
        rule = f"must be the length of device_list, {len(listed)}"
        check.add("device_count", count, rule=rule, fix="Repair the file", where=where)
    parts: dict[int, list[Any]] = {}
    for index, device in enumerate(listed):
        place = f"{where}, device_list {index}"
        number = _whole(device, "device_id", place, check)
        experts = device.get("device_expert") if isinstance(device, Mapping) else None
        if not isinstance(experts, list) or not experts:
            check.add("device_expert", experts, rule="must list ids of experts", fix="Write the map again", where=place)
        elif number is not None and number in parts:
            check.add("device_id", number, rule="the device stands twice", fix="Give every device once", where=place)
        elif number is not None:
            parts[number] = experts
    if len(parts) != len(listed):
        return None
    if sorted(parts) != list(range(len(parts))):
        rule = f"devices are numbered 0 to {len(parts) - 1}"
        check.add("device_id", max(parts), rule=rule, fix="Repair the file", where=where)
        return None
    return [parts[number] for number in sorted(parts)]


def _whole(value: Any, key: str, where: str, check: Violations) -> int | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    if type(found) is int and found >= 0:
        return found if within(found, key, RANKS_MAX, check, where=where) else None
    quoted = isinstance(found, str)
    rule = "must be a whole number >= 0" + (", not text in quotes" if quoted else "")
    check.add(key, repr(found), rule=rule, fix="Take the quotes away" if quoted else "Write the map again", where=where)
    return None
