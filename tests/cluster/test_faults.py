"""Each fault is found where it was made, named, and nothing is found in a sound cluster."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest

from moeopt.cluster import Cluster, add_link, reference


def _zero(graph: nx.DiGraph) -> None:
    graph["nic0.2"]["leaf2"]["bytes_per_s"] = 0.0


def _down(graph: nx.DiGraph) -> None:
    graph["nic0.2"]["leaf2"]["healthy"] = False


def _one_way(graph: nx.DiGraph) -> None:
    graph.remove_edge("leaf2", "nic0.2")


def _loop(graph: nx.DiGraph) -> None:
    add_link(graph, "leaf2", "leaf2", 1e9, "uplink", 0.0)


def _asymmetric(graph: nx.DiGraph) -> None:
    graph["gpu0"]["pcie0.0"]["bytes_per_s"] = 80e9


def _degraded(graph: nx.DiGraph) -> None:
    for src, dst in (("nic0.2", "leaf2"), ("leaf2", "nic0.2")):
        graph[src][dst]["bytes_per_s"] = 25e9


def _missing(graph: nx.DiGraph) -> None:
    graph.remove_edges_from([("gpu5", "nvswitch0"), ("nvswitch0", "gpu5")])


def _disconnected(graph: nx.DiGraph) -> None:
    graph.remove_nodes_from([one for one, kind in graph.nodes(data="kind") if kind == "leaf"])


MADE: dict[str, tuple[Callable[[nx.DiGraph], None], str, set[str]]] = {
    "zero-bandwidth": (_zero, "nic0.2 to leaf2 has 0 bytes/s", set()),
    "down": (_down, "nic0.2 to leaf2 is down", set()),
    "one-way": (_one_way, "nic0.2 has a link to leaf2, and none comes back", set()),
    "self-loop": (_loop, "leaf2 has a link to itself", set()),
    "asymmetric": (_asymmetric, "gpu0 to pcie0.0 has 80 GB/s, and back 64 GB/s", set()),
    "degraded": (_degraded, "nic0.2 to leaf2 has 25 GB/s, most links from nic to leaf", set()),
    "missing": (_missing, "gpu5 has no link to nvswitch0", set()),
    "disconnected": (_disconnected, "{0, 1, 2, 3, 4, 5, 6, 7} and {8, 9, 10", set()),
}


@pytest.mark.parametrize("kind", MADE)
def test_fault_is_found_and_named(kind: str) -> None:
    make, text, others = MADE[kind]
    graph = nx.DiGraph(reference("2x8-h100").graph)
    make(graph)
    faults = Cluster("broken", graph).faults()
    assert {fault.kind for fault in faults} == {kind, *others}
    assert any(text in fault.text for fault in faults)
    assert all(fault.fix and fault.where for fault in faults)


@pytest.mark.parametrize(
    "name", ["h100", "2x8-h100", "dgx1-v100", "gb200-nvl72", "2xaws-p5", "pcie-gen5", "azure-ncv4"]
)
def test_sound_cluster_has_no_faults(name: str) -> None:
    assert reference(name).faults() == []


def test_all_faults_are_found_together() -> None:
    graph = nx.DiGraph(reference("2x8-h100").graph)
    for make in (_zero, _loop, _asymmetric, _missing):
        make(graph)
    kinds = [fault.kind for fault in Cluster("broken", graph).faults()]
    assert kinds == ["zero-bandwidth", "self-loop", "asymmetric", "missing"]


def test_reached_in_one_direction_only_is_said() -> None:
    one_way = Cluster.from_links(2, [(0, 1, 1e9)], both_ways=False)
    assert [fault.kind for fault in one_way.faults()] == ["one-way", "disconnected"]
    assert "one direction at most" in one_way.faults()[1].text


def test_broken_links_carry_nothing() -> None:
    graph = nx.DiGraph(reference("2x8-h100").graph)
    _zero(graph)
    cluster = Cluster("broken", graph)
    assert cluster.link(8, 0).bytes_per_s == 50e9  # towards the broken port nothing changes
    assert cluster.bytes_per_s()[2, 10] == 0.0  # the box has no other way to its ports
