"""Deployment shapes that published systems run, as sizes only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one deployment.

    Parameters
    ----------
    layers, experts, top_k
        MoE layers of the LLM (dense ones not counted), routed experts per layer, experts a token selects.
    slots, gpus, nodes
        Places for replicas per layer over all GPUs, GPUs, and nodes; slots divide evenly over the GPUs.
    groups
        Expert groups of the router where experts of one group are to share a node, else ``None``.

    >>> SHAPES["dsv3_288_g32"].slots - SHAPES["dsv3_288_g32"].experts
    32
    """

    layers: int
    experts: int
    top_k: int
    slots: int
    gpus: int
    nodes: int
    groups: int | None = None


SHAPES: dict[str, Shape] = {
    "dsv3_288_g32": Shape(58, 256, 8, 288, 32, 4, 8),
    "dsv3_320_g64": Shape(58, 256, 8, 320, 64, 8, 8),
    "dsv3_288_g72": Shape(58, 256, 8, 288, 72, 9),
    "dsv3_288_g144": Shape(58, 256, 8, 288, 144, 18),
    "dsv3_320_g320": Shape(58, 256, 8, 320, 320, 40),
    "qwen3_144_g16": Shape(94, 128, 8, 144, 16, 2),
    "qwen3_160_g32": Shape(94, 128, 8, 160, 32, 4),
    "gptoss_136_g8": Shape(36, 128, 4, 136, 8, 1),
    "kimik2_416_g32": Shape(60, 384, 8, 416, 32, 4),
    "kimik3_1024_g128": Shape(92, 896, 16, 1024, 128, 16),
    "mixtral_12_g4": Shape(32, 8, 2, 12, 4, 1),
}
"""Shapes by name, ``<LLM>_<slots>_g<GPUs>``, on nodes of eight GPUs (Mixtral: four).

==================== ================================================================================================
``dsv3_288_g32``     DeepSeek-V3 or R1, prefill: 32 redundant experts, 9 slots a GPU; 8 groups allow the two-level rule
``dsv3_320_g64``     the same LLM on twice the GPUs: 64 redundant experts, 5 slots a GPU; two-level rule allowed
``dsv3_288_g72``     the same LLM, decode on nine nodes: 4 slots a GPU; groups do not divide over nine nodes
``dsv3_288_g144``    the same LLM, wide decode: 2 slots a GPU
``dsv3_320_g320``    the same LLM, one replica a GPU: only the choice of the 64 copies is left
``qwen3_144_g16``    Qwen3-235B-A22B on two nodes: 16 redundant experts, 9 slots a GPU
``qwen3_160_g32``    the same LLM on four nodes: 32 redundant experts, 5 slots a GPU
``gptoss_136_g8``    gpt-oss-120b on one node: 8 redundant experts, 17 slots a GPU
``kimik2_416_g32``   Kimi K2: 384 experts, 32 redundant ones, 13 slots a GPU
``kimik3_1024_g128`` Kimi K3: 896 experts, 128 redundant ones, 8 slots a GPU, the largest of the set
``mixtral_12_g4``    Mixtral 8x7B on four GPUs: 4 redundant experts, 3 slots a GPU, small enough to prove optima
==================== ================================================================================================
"""
