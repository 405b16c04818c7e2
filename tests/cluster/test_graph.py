"""Link graphs: what is refused, what a link carries, costs, documents."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
import numpy as np
import pytest

from moeopt.cluster import Cluster, add_link, add_node, max_flow, rank_cost, reference
from moeopt.cluster.costs import NAMED, check_costs, nodes_of_costs
from moeopt.cluster.readers.matrices import MOST_FAULTS, read_costs, read_csv
from moeopt.documents import to_json
from moeopt.errors import InstanceError


def _box(links: list[tuple[str, str, float]], **more: Any) -> nx.DiGraph:
    graph = nx.DiGraph()
    for gpu in range(2):
        add_node(graph, f"gpu{gpu}", "gpu", index=gpu, node=0)
    for src, dst, speed in links:
        add_link(graph, src, dst, speed, "link", 1e-6, both_ways=False, **more)
    return graph


def test_disconnected_pairs_name_gpus_and_components() -> None:
    pairs = Cluster.from_links(4, [(0, 1, 400e9), (2, 3, 400e9)])
    with pytest.raises(InstanceError, match="GPU 0 to GPU 2") as caught:
        pairs.link(0, 2)
    assert "{0, 1} and {2, 3}" in str(caught.value)
    with pytest.raises(InstanceError, match=r"\{0, 1\} and \{2, 3\}"):
        pairs.rank_cost()
    assert pairs.bytes_per_s()[0].tolist() == [np.inf, 400e9, 0, 0]
    assert [tier.sizes for tier in pairs.tiers()] == [(2, 2)]


def test_flow_takes_fractions_and_ends() -> None:
    edges = {("s", "a"): 0.1, ("s", "b"): 0.2, ("s", "c"): 0.3, ("a", "t"): 0.2, ("b", "t"): 0.2, ("c", "t"): 0.2}
    assert max_flow(edges, "s", "t") == pytest.approx(0.5, rel=1e-9)


def test_flow_refuses_negative_capacities_by_name() -> None:
    with pytest.raises(InstanceError, match=r"a to t\] = -1") as caught:
        max_flow({("s", "a"): 5, ("a", "t"): -1}, "s", "t")
    assert "a to t" in str(caught.value)


def test_flow_over_nothing_is_zero() -> None:
    assert max_flow({("s", "t"): 0}, "s", "t") == 0
    assert max_flow({}, "s", "t") == 0


def test_flow_agrees_with_networkx() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        graph = nx.gnp_random_graph(8, 0.4, seed=int(random.integers(1 << 30)), directed=True)
        capacities = {(str(u), str(v)): int(random.integers(0, 20)) for u, v in graph.edges}
        graph = nx.DiGraph()
        graph.add_nodes_from("07")
        graph.add_edges_from((u, v, {"capacity": room}) for (u, v), room in capacities.items())
        assert max_flow(capacities, "0", "7") == nx.maximum_flow_value(graph, "0", "7")


@pytest.mark.parametrize("speed", [-1, float("nan"), float("inf"), "fast", None, True])
def test_bandwidth_that_is_no_number_is_refused_with_its_link(speed: Any) -> None:
    graph = _box([("gpu0", "gpu1", 1.0)])
    graph["gpu0"]["gpu1"]["bytes_per_s"] = speed
    with pytest.raises(InstanceError, match=r"bytes_per_s\[gpu0 to gpu1\]"):
        Cluster("broken", graph)


def test_all_violations_are_named_at_once() -> None:
    graph = _box([("gpu0", "gpu1", -1.0), ("gpu1", "gpu0", 1.0)])
    graph["gpu1"]["gpu0"]["alpha_s"] = -1
    graph["gpu1"]["gpu0"]["kind"] = "string"
    graph.nodes["gpu1"]["index"] = 0
    with pytest.raises(InstanceError) as caught:
        Cluster("broken", graph)
    assert len(caught.value.violations) == 4


def test_gpus_are_numbered_without_gaps() -> None:
    graph = _box([])
    graph.nodes["gpu1"]["index"] = 7
    with pytest.raises(InstanceError, match="GPUs are numbered 0 to G-1, and 1 is missing"):
        Cluster("gap", graph)


def test_the_callers_graph_is_copied_and_ours_is_frozen() -> None:
    graph = _box([("gpu0", "gpu1", 1e9)])
    cluster = Cluster("box", graph)
    graph.remove_node("gpu1")
    assert cluster.num_gpus == 2
    with pytest.raises(nx.NetworkXError):
        cluster.graph.add_edge("a", "b")
    with pytest.raises(ValueError, match="read-only"):
        cluster.node_of[0] = 1


def test_route_takes_nvlink_then_the_nearest_port_and_the_spine() -> None:
    two = reference("2x8-h100")
    inside, rail, across = two.link(0, 7), two.link(0, 8), two.link(0, 9)
    assert (inside.bytes_per_s, inside.alpha_s) == (450e9, 2e-6)
    assert (rail.bytes_per_s, rail.alpha_s) == (50e9, 5e-6)
    assert (across.bytes_per_s, across.alpha_s) == (50e9, 6e-6)


def test_ports_of_one_gpu_are_added_and_shared_ports_are_not_multiplied() -> None:
    assert reference("2xaws-p5").link(0, 8).bytes_per_s == 50e9  # four ports of 12.5
    assert reference("2xaws-p4d").link(0, 8).bytes_per_s == 12.5e9
    assert reference("2xaws-p4d").tiers()[-1].bytes_per_s == 6.25e9  # two GPUs send over one port


def test_gpus_do_not_forward_over_nvlink() -> None:
    mesh = reference("dgx1-v100")
    assert mesh.link(0, 3).bytes_per_s == 50e9
    assert mesh.link(0, 5).bytes_per_s == 16e9


def test_links_of_one_port_share_its_bandwidth() -> None:
    graph = _box([])
    for name in ("leaf0", "leaf1"):
        add_node(graph, name, "leaf")
        add_link(graph, "gpu0", name, 10.0, "nic", 1e-6, port="p0")
        add_link(graph, "gpu1", name, 10.0, "nic", 1e-6)
    assert Cluster("shared", graph).link(0, 1).bytes_per_s == 10.0
    assert Cluster("shared", graph).tiers()[0].bytes_per_s == 10.0
    assert Cluster("shared", graph).link(1, 0).bytes_per_s == 10.0


def test_rank_cost_keeps_directions_apart() -> None:
    graph = _box([("gpu0", "gpu1", 40e9), ("gpu1", "gpu0", 10e9)])
    cost = rank_cost(Cluster("lopsided", graph))
    assert cost.tolist() == [[0, 1], [4, 0]]
    traffic = np.array([[60, 40], [20, 5]])  # [expert's source GPU, expert]
    asymmetric = np.array([[0, 1], [10, 0]])
    price = [sum(traffic[s, e] * asymmetric[s, gpu] for s in range(2) for e, gpu in enumerate(order))
             for order in ((0, 1), (1, 0))]  # fmt: skip
    assert min(price) == 110 and price[1] == 110


def test_rank_cost_in_seconds_of_a_message() -> None:
    cost = reference("2x8-h100").rank_cost(message_bytes=7_225_344)
    assert cost[0, 8] == pytest.approx(5e-6 + 7_225_344 / 50e9)
    assert (np.diagonal(cost) == 0).all()


@pytest.mark.parametrize(("rows", "text"), [
    ([[0, 1, 2]] * 4, "4 rows of 3 numbers"),
    ([[0, 1], [1]], r"cost\[row 1\] = 1 numbers: row 0 has 2"),
    ([[0, -1], [1, 0]], r"rank 0 to rank 1\] = -1"),
    ([[0, float("nan")], [1, 0]], r"rank 0 to rank 1\] = nan"),
    ([[0, "x"], [1, 0]], r"rank 0 to rank 1\] = 'x'|rank 0 to rank 1\] = x"),
    ([], "a rank-cost matrix is square"),
    ([1, 2], "a rank-cost matrix is square"),
    ({}, "a rank-cost matrix is square"),
    (np.zeros((2, 2, 2)), "a rank-cost matrix is square"),
])  # fmt: skip
def test_cost_matrix_faults_are_named(rows: Any, text: str) -> None:
    with pytest.raises(InstanceError, match=text):
        check_costs(rows)


def test_cost_matrix_of_other_size_names_both() -> None:
    with pytest.raises(InstanceError, match="2 ranks: there are 4 ranks"):
        check_costs([[0, 1], [1, 0]], ranks=4)


def test_document_goes_round_through_json() -> None:
    for name in ("2x8-h100", "dgx1-v100", "gb200-nvl72"):
        cluster = reference(name)
        document = json.loads(to_json(cluster.to_dict()))
        again = Cluster.from_dict(document)
        assert again.to_dict() == cluster.to_dict()
        assert (again.domain_of == cluster.domain_of).all()


@pytest.mark.parametrize(("change", "text"), [
    ({"schema": "moeopt/cluster/2"}, "must be moeopt/cluster/1"),
    ({"colour": "red"}, "Extra inputs are not permitted"),
    ({"links": [["gpu0", "gpu9", "link", 1.0, 0.0, None, True]]}, "gpu9: is no node of the document"),
    ({"links": [["gpu0", "gpu1", "link", -1.0, 0.0, None, True]]}, r"gpu0 to gpu1\] = -1.0"),
    ({"links": [["gpu0", "gpu1", "link"]]}, "Field required"),
    ({"links": 3}, "links = 3"),
    ({"link_fields": ["src"]}, "link_fields"),
])  # fmt: skip
def test_document_faults_are_named(change: dict[str, Any], text: str) -> None:
    document = Cluster.from_links(2, [(0, 1, 1e9)]).to_dict() | change
    with pytest.raises(InstanceError, match=text):
        Cluster.from_dict(document)


def test_derated_says_so() -> None:
    cluster = reference("2x8-h100").derated({"nvlink": 0.8, "nic": 0.9})
    assert (cluster.link(0, 1).bytes_per_s, cluster.link(0, 8).bytes_per_s) == (360e9, 45e9)
    assert "nvlink 0.8, nic 0.9" in cluster.notes[-1]


def test_port_of_links_without_a_common_node_is_refused() -> None:
    graph = nx.DiGraph(reference("h100").graph)
    graph["gpu0"]["pcie0.0"]["port"] = graph["gpu1"]["pcie0.1"]["port"] = "p"
    with pytest.raises(InstanceError, match="port = p: is shared by links that have no node in common"):
        Cluster("torn", graph)


def test_cost_matrix_of_nested_rows_is_refused() -> None:
    with pytest.raises(InstanceError, match=r"rank 0 to rank 1\] = \[1\]"):
        check_costs([[0, [1]], [1, 0]])


def test_a_cost_that_is_no_number_is_not_taken_for_a_name() -> None:
    for text in ("0,1,x\n1,0,2\n2,1,0\n", "0,1,2\nx,0,2\n2,1,0\n", "y,1,2\n1,0,2\nx,1,0\n"):
        with pytest.raises(InstanceError, match=r"rank \d to rank \d\] = [xy]: costs are finite numbers"):
            read_csv(text, "", "")
    for text in ("a,b\n0,4\n4,0\n", ",a,b\na,0,4\nb,4,0\n", "rank,0,1\n0,0,4\n1,4,0\n", "0,4\n4,0\n"):
        assert read_csv(text, "", "").cost.tolist() == [[0, 4], [4, 0]]


def test_a_large_measured_matrix_is_read_without_a_fault_for_every_pair() -> None:
    rng, near = np.random.default_rng(0), np.kron(np.eye(100), np.ones((8, 8)))
    cost = np.where(near, 1.0, 8.0) * (1 + 0.05 * rng.random((800, 800)))
    cost[3, 700] = 99.0
    np.fill_diagonal(cost, 0.0)
    found = read_costs(cost, "", "measured")
    assert found.facts["pairs_that_differ_by_direction"] == 800 * 799 // 2
    assert found.found[0].text.startswith("rank 3 to rank 700 costs 99, and back 8")
    assert len(found.found) == MOST_FAULTS and "319,600 pairs" in found.notes[0]
    nodes = nodes_of_costs(np.where(cost == 99.0, 8.0, cost))
    assert nodes is not None and nodes.tolist() == (np.arange(800) // 8).tolist()
    cost[:, 5] = np.nan
    with pytest.raises(InstanceError, match=r"cost = 800 pairs: have this fault in all") as refused:
        read_costs(cost, "", "measured")
    assert len(refused.value.violations) == NAMED + 1


def test_costs_of_which_no_double_is_the_factor_are_compared() -> None:
    found = read_costs([[0, 1e-308, 1], [8, 0, 1], [2, 1, 0]], "", "far apart")
    assert [fault.where for fault in found.found] == [("rank 0", "rank 1"), ("rank 0", "rank 2")]
