"""What each engine's map looks like and what it can bear: the layer table, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EngineRules:
    """The rules of one engine's map.

    Parameters
    ----------
    title
        How people call the engine.
    endings
        Endings a file may have, the usual one first; engines refuse others.
    rows
        Which layers have a row: ``every`` layer with the dense ones, the ``moe`` layers, or ``given``, as they come.
    numbering
        How a row is found: by the ``absolute`` layer id, or by its ``position`` among the MoE layers.
    mtp
        What the engine does for draft layers (multi-token prediction).
    uniform
        All GPUs have the same number of slots.
    empty
        A slot may be empty.
    doubles
        Two replicas of an expert on one GPU: ``refused``, ``wasted`` (loaded, but only one is used) or ``fine``.
    needs_gpus
        The file, or the options beside it, say how many GPUs there are.
    """

    title: str
    endings: tuple[str, ...]
    rows: Literal["every", "moe", "given"]
    numbering: Literal["absolute", "position"]
    mtp: str
    uniform: bool
    empty: bool
    doubles: Literal["refused", "wasted", "fine"]
    needs_gpus: bool


RULES: dict[str, EngineRules] = {
    "sglang": EngineRules(
        "SGLang", (".json",), "every", "absolute", "the draft layer uses row 0", True, False, "wasted", True
    ),
    "vllm-ascend": EngineRules(
        "vLLM-Ascend", (".json",), "moe", "position", "not in the file, starts in order", True, False, "refused", True
    ),
    "trtllm": EngineRules(
        "TensorRT-LLM",
        (".yaml", ".yml"),
        "moe",
        "absolute",
        "has rows of its own after the last layer, and the engine stops without them",
        True,
        False,
        "wasted",
        True,
    ),
    "omni": EngineRules(
        "omni-infer", (".npy",), "moe", "position", "not in the file, starts in order", False, True, "refused", True
    ),
    "eplb": EngineRules("EPLB", (".npz",), "given", "position", "as given", True, False, "fine", False),
    "moeopt": EngineRules("moeopt", (".json",), "given", "absolute", "as given", False, True, "fine", False),
}
"""By name of the target; ``every`` and ``moe`` need to know the layers of the LLM."""

TARGETS = tuple(RULES)
"""Names of the systems whose maps are written."""

BY_POSITION = tuple(name for name, rules in RULES.items() if rules.rows == "moe" and rules.numbering == "position")
"""Engines whose layers are counted among the MoE layers."""
