"""Formats of weights: bits of an element and bytes of the scales beside it; and what a configuration says it uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Format:
    """How a matrix is stored.

    Parameters
    ----------
    bits
        Of one element.
    block
        Rows and columns that share a scale; 0 stands for the whole side. ``None``: no scales.
    scale_bytes
        Of one scale, with its zero point where there is one.
    """

    bits: int
    block: tuple[int, int] | None = None
    scale_bytes: float = 0.0

    def matrix_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix with its scales; blocks that stick out count whole.

        >>> FORMATS["fp8_block"].matrix_bytes(2048, 7168) - 2048 * 7168
        3584
        """
        total = rows * columns * self.bits / 8
        if self.block is not None:
            across, down = (
                math.ceil(side / (size or side)) for side, size in zip((rows, columns), self.block, strict=True)
            )
            total += across * down * self.scale_bytes
        return math.ceil(total)


FORMATS: dict[str, Format] = {
    "fp32": Format(32),
    "bf16": Format(16),
    "fp16": Format(16),
    "fp8": Format(8, (0, 0), 4),
    "fp8_block": Format(8, (128, 128), 4),
    "mxfp8": Format(8, (1, 32), 1),
    "int8": Format(8, (1, 0), 4),
    "fp4": Format(4),
    "mxfp4": Format(4, (1, 32), 1),
    "nvfp4": Format(4, (1, 16), 1),
    "int4_g32": Format(4, (1, 32), 2),
    "int4_g128": Format(4, (1, 128), 2.5),
}
"""Formats by name.

============= ==========================================================================================================
``fp8``       one 4-byte scale a matrix
``fp8_block`` one 4-byte scale for 128 x 128 elements (DeepSeek-V3 report, section 3.3.2)
``mxfp8``     one byte for 32 elements of a row, as ``mxfp4`` (OCP Microscaling Formats 1.0)
``int8``      one 4-byte scale a row
``fp4``       without scales: a floor, no stored format
``nvfp4``     one byte for 16 elements of a row; the single 4-byte scale of a matrix is left out
``int4_g32``  a 2-byte scale for 32 elements of a row (compressed-tensors); ``int4_g128`` AWQ, GPTQ: with a zero point
============= ==========================================================================================================
"""

_PLAIN = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8_block"}


def formats_of(
    config: Mapping[str, Any], beside: Mapping[str, Any] | None = None
) -> tuple[str | None, str | None, list[str]]:
    """Formats of weights outside and inside routed experts, with notes; ``None`` where they cannot be told.

    Parameters
    ----------
    config
        The configuration: ``torch_dtype`` or ``dtype``, ``quantization_config``, ``expert_dtype``.
    beside
        What ``hf_quant_config.json`` beside it holds, where there is one: it decides.

    >>> aside = ["model.layers.*.self_attn"]
    >>> formats_of({"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": aside}})[:2]
    ('bf16', 'mxfp4')
    """
    told = config.get("torch_dtype") or config.get("dtype")
    plain = _PLAIN.get(str(told).removeprefix("torch.")) if told is not None else "bf16"
    notes = []
    if told is None and not config.get("quantization_config"):
        notes.append("the configuration names no dtype: bf16 is assumed")
    quantization = config.get("quantization_config") or {}
    if isinstance(beside, Mapping) and isinstance(beside.get("quantization"), Mapping):
        quantization = {"quant_method": "modelopt", **beside["quantization"]}
    if not isinstance(quantization, Mapping) or not quantization:
        weights = experts = plain
    else:
        found = _quantized(quantization)
        if found is None:
            method = quantization.get("quant_algo") or quantization.get("quant_method") or quantization.get("format")
            notes.append(f"the size of weights quantized by {method} is not known: give --expert-dtype")
        aside = _strings(quantization, "modules_to_not_convert", "ignore", "exclude_modules")
        routed_aside = any("experts" in name and "shared" not in name for name in aside)
        attention_aside = any("attn" in name or "attention" in name for name in aside)
        experts = plain if routed_aside else found
        weights = plain if attention_aside else found
    if config.get("expert_dtype") == "fp4":
        experts = "mxfp4"
    elif config.get("expert_dtype") is not None:
        experts = _PLAIN.get(str(config["expert_dtype"]))
    return weights, experts, notes


def _quantized(quantization: Mapping[str, Any]) -> str | None:
    method = str(quantization.get("quant_algo") or quantization.get("quant_method") or "").lower()
    if method == "fp8":
        block = quantization.get("weight_block_size")
        return "fp8" if block is None else {"[128, 128]": "fp8_block", "[1, 32]": "mxfp8"}.get(str(block))
    if method in ("fp8_pb_wo", "fp8_block_scales"):
        return "fp8_block"
    if method in ("mxfp4", "mxfp8", "nvfp4"):
        return method
    if method in ("awq", "gptq"):
        plain = quantization.get("bits", 4) == 4 and quantization.get("group_size", 128) == 128
        return "int4_g128" if plain else None
    if method == "compressed-tensors":
        return _compressed(quantization)
    return None


def _compressed(quantization: Mapping[str, Any]) -> str | None:
    groups = quantization.get("config_groups")
    group: Any = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    group = group if isinstance(group, Mapping) else {}
    form = str(group.get("format") or quantization.get("format") or "")
    weights = group.get("weights")
    weights = weights if isinstance(weights, Mapping) else {}
    for name in ("mxfp4", "nvfp4", "mxfp8"):
        if name in form:
            return name
    kind, bits, size = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    if kind == "float" and bits == 8:
        return "fp8_block" if weights.get("block_structure") in ([128, 128], "128x128") else "fp8"
    known = {"int 4 32": "int4_g32", "int 4 128": "int4_g128", "int 8 None": "int8"}
    return known.get(f"{kind} {bits} {size}")


def _strings(quantization: Mapping[str, Any], *keys: str) -> list[str]:
    found: list[str] = []
    for key in keys:
        value = quantization.get(key)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, str)]
    return found
