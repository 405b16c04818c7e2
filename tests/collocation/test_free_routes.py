"""Free routes: against every simple path of tiny graphs, against fixed paths, and on damaged fabrics."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from moeopt import collocation
from moeopt.cli import main
from moeopt.cluster import Cluster, reference
from moeopt.collocation.free_routes import free_routes
from moeopt.collocation.paths import Paths
from moeopt.errors import InstanceError


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[Cluster, Any]:
    """A connected graph of direct links in both directions, and copies of at most three pairs."""
    gpus = draw(st.integers(2, 5))
    links = [(gpu - 1, gpu) for gpu in range(1, gpus)]
    links += draw(st.lists(st.sampled_from([(a, b) for a in range(gpus) for b in range(a + 1, gpus)]), max_size=4))
    speeds = draw(st.lists(st.integers(1, 9), min_size=len(links), max_size=len(links)))
    both = [(a, b, float(speed)) for (a, b), speed in zip(links, speeds, strict=True)]
    copies = np.zeros((gpus, gpus), dtype=np.int64)
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.integers(0, gpus - 1)), draw(st.integers(0, gpus - 1))
        copies[a, b] += 0 if a == b else draw(st.integers(1, 20))
    return Cluster.from_links(gpus, both), copies


def ways(cluster: Cluster, copies: Any) -> list[tuple[int, list[list[tuple[str, str]]]]]:
    """Copies of each pair, and every simple path they could take."""
    found = []
    for a, b in np.argwhere(copies):
        paths = nx.all_simple_edge_paths(cluster.graph, cluster.gpus[a], cluster.gpus[b])
        found.append((int(copies[a, b]), [list(path) for path in paths]))
    return found


def by_paths(cluster: Cluster, copies: Any) -> tuple[float, float]:
    """The least busiest link if copies are split over simple paths, and if each pair takes one: path by path."""
    pairs = ways(cluster, copies)
    edges = {edge: place for place, edge in enumerate(cluster.graph.edges)}
    speed = np.array([cluster.graph.edges[edge]["bytes_per_s"] for edge in edges])
    width = sum(len(paths) for _, paths in pairs)
    limits, equal = np.zeros((len(edges), width + 1)), np.zeros((len(pairs), width + 1))
    limits[:, -1] = -speed
    column = 0
    for row, (_, paths) in enumerate(pairs):
        for path in paths:
            equal[row, column] = 1
            for edge in path:
                limits[edges[edge], column] = 1
            column += 1
    cost = np.r_[np.zeros(width), 1]
    need = [amount for amount, _ in pairs]
    split = linprog(cost, A_ub=limits, b_ub=np.zeros(len(edges)), A_eq=equal, b_eq=need).fun if pairs else 0.0
    single = np.inf
    for choice in product(*(paths for _, paths in pairs)):
        loads = np.zeros(len(edges))
        for (amount, _), path in zip(pairs, choice, strict=True):
            for edge in path:
                loads[edges[edge]] += amount
        single = min(single, float((loads / speed).max()))
    return float(split), single


@settings(deadline=None, max_examples=80)
@given(fabrics())
def test_free_routes_are_those_of_all_simple_paths(given: tuple[Cluster, Any]) -> None:
    cluster, copies = given
    found = free_routes(cluster, copies)
    assert found is not None
    split, single = by_paths(cluster, copies)
    assert found.seconds == pytest.approx(split, rel=1e-6, abs=1e-12)
    assert found.lower_bound == pytest.approx(split, rel=1e-6, abs=1e-12)
    assert found.seconds <= single * (1 + 1e-9)
    fixed = Paths(cluster)
    loads = fixed.loads(copies)
    assert found.seconds <= float((loads / np.array(fixed.bytes_per_s)).max(initial=0.0)) * (1 + 1e-9)


def damaged(cluster: Cluster, ends: set[str], **change: Any) -> Cluster:
    document = json.loads(json.dumps(cluster.to_dict()))
    fields = document["link_fields"]
    for link in document["links"]:
        if {link[0], link[1]} == ends:
            for key, value in change.items():
                link[fields.index(key)] = value
    return Cluster.from_dict(document)


def network_of(cluster: Cluster, each: int = 8) -> Any:
    """Copies from each GPU to the GPU of its index in every other node."""
    copies = np.zeros((cluster.num_gpus, cluster.num_gpus), dtype=np.int64)
    for source in range(cluster.num_gpus):
        copies[source, source % each :: each] = 100 + source
    np.fill_diagonal(copies, 0)
    return copies


@pytest.mark.parametrize("name", ["2x8-h100", "4x8-a100"])
def test_on_a_whole_fabric_free_routes_are_the_fixed_paths(name: str) -> None:
    """With one cable from a GPU to its rail there is no other way, unless GPUs pass on."""
    cluster = reference(name)
    copies = network_of(cluster)
    paths = Paths(cluster)
    fixed = float((paths.loads(copies) / np.array(paths.bytes_per_s)).max())
    found = free_routes(cluster, copies)
    assert found is not None and found.seconds == pytest.approx(fixed, rel=1e-6)
    assert found.lower_bound == pytest.approx(fixed, rel=1e-6)


def test_a_slow_uplink_is_gone_around() -> None:
    """Two spines, one uplink at a quarter: the fixed split waits for it, free routes put a fifth on it."""
    import networkx as nx

    from moeopt.cluster import add_link, add_node

    graph = nx.DiGraph()
    for place in range(2):
        add_node(graph, f"gpu{place}", "gpu", index=place, node=place)
        add_node(graph, f"leaf{place}", "leaf")
        add_link(graph, f"gpu{place}", f"leaf{place}", 100.0, "nic", 0.0)
    for spine in ("spine0", "spine1"):
        add_node(graph, spine, "spine")
        for leaf in ("leaf0", "leaf1"):
            slow = spine == "spine1" and leaf == "leaf1"
            add_link(graph, leaf, spine, 1.0 if slow else 4.0, "uplink", 0.0)
    cluster = Cluster("two spines", graph)
    copies = np.array([[0, 40], [0, 0]])
    paths = Paths(cluster)
    assert (paths.loads(copies) / np.array(paths.bytes_per_s)).max() == 20.0
    found = free_routes(cluster, copies)
    assert found is not None and found.seconds == pytest.approx(8.0) and found.lower_bound == pytest.approx(8.0)
    assert found.loads["spine1 > leaf1"] == pytest.approx(8.0)


def test_gpus_that_pass_on_go_around_a_slow_port() -> None:
    cluster = damaged(reference("2x8-h100"), {"leaf0", "nic0.0"}, bytes_per_s=5e9)
    copies = network_of(cluster)
    alone, passed = free_routes(cluster, copies), free_routes(cluster, copies, forwarding=True)
    assert alone is not None and alone.seconds == pytest.approx(108 / 5e9, rel=1e-6)
    assert passed is not None and passed.seconds < alone.seconds / 5
    assert passed.lower_bound == pytest.approx(passed.seconds, rel=1e-6)


@pytest.fixture
def tokens() -> Any:
    rng = np.random.default_rng(5)
    return np.array([[rng.choice(16, size=3, replace=False) for _ in range(40)]])


def test_a_result_on_a_damaged_fabric_says_both_and_verify_holds_it(
    tokens: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, cluster, plan = tmp_path / "trace.npz", tmp_path / "cluster.json", tmp_path / "plan.json"
    np.savez(trace, topk_ids=tokens, layers=np.array([0]), num_experts=16)
    slow = damaged(reference("2x8-h100"), {"leaf0", "nic0.0"}, bytes_per_s=5e9)
    cluster.write_text(json.dumps(slow.to_dict()))
    words = ["collocate", str(trace), "--cluster", str(cluster), "--method", "load_only"]
    assert main([*words, "--explain", "-o", str(plan)]) == 0
    out = capsys.readouterr().out
    for text in ("fixed paths", "free routes", "forwarding", "degraded", "GPUs pass nothing on", "cut around unit"):
        assert text in out
    found = json.loads(plan.read_text())
    routes = found["solution"]["free_routes"]
    assert routes["free_s"] == pytest.approx(routes["fixed_s"], rel=1e-6)
    assert routes["forwarding_s"] < routes["fixed_s"] / 2 and len(routes["damage"]) == 2
    assert main(["verify", str(plan), str(trace)]) == 0
    for key in ("fixed_s", "free_s", "forwarding_s", "free_lower_bound_s"):
        other = json.loads(json.dumps(found))
        other["solution"]["free_routes"][key] *= 1.001
        plan.write_text(json.dumps(other))
        assert main(["verify", str(plan), str(trace)]) == 5
    capsys.readouterr()
    assert main([*words, "--explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["explain"]
    assert told["cuts"][0] == found["solution"]["weakest_cut"]
    assert told["links"][:12] == found["solution"]["links"]["rows"]
    assert max(row["free_s"] for row in told["free_routes"]["links"]) > 0


def test_a_whole_fabric_is_not_said_to_be_damaged(tokens: Any) -> None:
    instance = collocation.CollocationInstance(tokens, experts=16, cluster=reference("2x8-h100"))
    result = collocation.solve(instance, method="load_only")
    assert "free_routes" not in result.solution
    found = collocation.explain(instance, result.plan)
    assert found["free_routes"]["damage"] == []
    assert found["free_routes"]["free_s"] <= found["free_routes"]["fixed_s"] * (1 + 1e-9)
    with pytest.raises(InstanceError, match="is no layer"):
        collocation.explain(instance, result.plan, layer=9)
    plain = collocation.CollocationInstance(tokens, experts=16, nodes=2, gpus=16)
    with pytest.raises(InstanceError, match="is needed to explain"):
        collocation.explain(plain, result.plan)


def test_a_port_that_is_down_has_no_path_and_says_so(tokens: Any) -> None:
    cluster = damaged(reference("2x8-h100"), {"leaf0", "nic0.0"}, healthy=False)
    instance = collocation.CollocationInstance(tokens, experts=16, cluster=cluster)
    with pytest.raises(InstanceError, match="no path leads from GPU 0 to GPU"):
        collocation.solve(instance, method="id_order")
