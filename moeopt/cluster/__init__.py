"""Clusters as link graphs: reference machines, readers of topology files, tiers, faults.

>>> from moeopt import cluster
>>> pairs = cluster.Cluster.from_links(4, [(0, 1, 400e9), (2, 3, 400e9), (1, 2, 50e9)])
>>> [tier.sizes for tier in pairs.tiers()]
[(2, 2), (4,)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.cluster.public import (
        Cluster,
        Described,
        Fault,
        Machine,
        Tier,
        add_link,
        add_node,
        machines,
        max_flow,
        parse_topology,
        rank_cost,
        read_topology,
        reference,
    )

__all__ = [
    "Cluster",
    "Described",
    "Fault",
    "Machine",
    "Tier",
    "add_link",
    "add_node",
    "machines",
    "max_flow",
    "parse_topology",
    "rank_cost",
    "read_topology",
    "reference",
]

__getattr__ = exports(__name__, __all__)
