"""What `moeopt.cluster` offers."""

from __future__ import annotations

from moeopt.cluster.faults import Fault
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.cluster.paths import max_flow
from moeopt.cluster.tiers import Tier

__all__ = [
    "Cluster",
    "Fault",
    "Tier",
    "add_link",
    "add_node",
    "max_flow",
]
