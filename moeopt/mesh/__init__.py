"""Parallel mesh: what fits, what is best, what to buy; see ``models/mesh.md``.

>>> from moeopt import mesh
>>> from moeopt.llm import find
>>> h100 = mesh.GpuType.of("H100", stock=32)
>>> demand = mesh.demand_of(find("mixtral-8x7b"), (1024, 256))
>>> pools = [
...     mesh.Config(0, "prefill", mesh.Shape("prefill", "H100", tp=8), 1, {"H100": 8}, prefill_per_s=10, name="P"),
...     mesh.Config(0, "decode", mesh.Shape("decode", "H100", tp=2), 64, {"H100": 2}, decode_per_s=10, name="D"),
... ]
>>> measured = mesh.MeshInstance([demand], [h100], "goodput", families=("prefill", "decode"), configs=pools)
>>> result = mesh.solve(measured)
>>> [(pool["label"], pool["replicas"]) for pool in result.solution["pools"]], result.solution["idle_gpus"]
([('P', 3), ('D', 3)], {'H100': 2})
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.mesh.public import *  # noqa: F403

__all__ = [
    "METHODS",
    "PROBLEM",
    "ApartShape",
    "Config",
    "Demand",
    "Evaluation",
    "GpuType",
    "Imbalance",
    "Memory",
    "MeshInstance",
    "MeshPlan",
    "Pool",
    "Shape",
    "Slo",
    "SloPoint",
    "Workload",
    "bound",
    "compare",
    "demand_of",
    "evaluate",
    "faults",
    "recheck",
    "register",
    "slo_curve",
    "solve",
]


__getattr__ = exports(__name__, __all__)
