"""Readers of map files that share nothing with the package: what an engine would find in each, as it indexes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np


def sglang(path: Path) -> dict[int, list[int]]:
    """Row number -> experts in slots; the engine indexes rows by layer id."""
    document = json.loads(path.read_text())
    assert list(document) == ["physical_to_logical_map"]  # it becomes keyword arguments
    return dict(enumerate(document["physical_to_logical_map"]))


def ascend(path: Path) -> dict[int, list[list[int]]]:
    """Place among the MoE layers -> experts by device; devices must be alike to become one tensor."""
    document = json.loads(path.read_text())
    found = {}
    for place in range(document["moe_layer_count"]):
        layer = document["layer_list"][place]
        assert layer["layer_id"] == place and layer["device_count"] == len(layer["device_list"])
        assert [device["device_id"] for device in layer["device_list"]] == list(range(layer["device_count"]))
        found[place] = np.array([device["device_expert"] for device in layer["device_list"]]).tolist()
    assert len(document["layer_list"]) == document["moe_layer_count"]
    return found


def trtllm(path: Path) -> tuple[int, dict[int, list[int]], int]:
    """Slots, layer id -> experts in slots, updates an iteration."""
    number, layers = {}, {}
    inside = False
    for line in path.read_text().splitlines():
        if match := re.fullmatch(r"  (\d+): (\[.*\])", line):
            assert inside
            layers[int(match[1])] = json.loads(match[2])
        elif line == "initial_global_assignments:":
            inside = True
        else:
            key, value = re.fullmatch(r"(\w+): (\d+)", line).groups()
            number[key] = int(value)
    assert set(number) == {"num_slots", "layer_updates_per_iter"}
    return number["num_slots"], layers, number["layer_updates_per_iter"]


def omni(path: Path) -> np.ndarray:
    """(devices, layers, experts) of 0 and 1."""
    cube = np.load(path, allow_pickle=False)
    assert cube.dtype == np.int32 and cube.ndim == 3 and set(np.unique(cube)) <= {0, 1}
    return cube


def eplb(path: Path) -> dict[str, np.ndarray]:
    """The tensors by name."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
