"""What `moeopt.cluster` offers."""

from __future__ import annotations

from moeopt.cluster.catalogue import Machine, machines, reference
from moeopt.cluster.costs import nodes_of_costs, rank_cost
from moeopt.cluster.described import Described
from moeopt.cluster.faults import Fault
from moeopt.cluster.graph import Cluster, add_link, add_node
from moeopt.cluster.paths import max_flow
from moeopt.cluster.readers.reading import parse_topology, read_topology
from moeopt.cluster.tiers import Tier

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
    "nodes_of_costs",
    "parse_topology",
    "rank_cost",
    "read_topology",
    "reference",
]
