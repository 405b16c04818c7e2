"""Laws of clusters, and readers on broken bytes."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cluster import Cluster, parse_topology, reference
from moeopt.cluster.readers.reading import is_topology
from moeopt.documents import to_json
from moeopt.errors import InstanceError
from tests.cluster.data import FOLDER

JUNK = [
    *(b"\x1b[4m", b"\x00", b"\xff", b"\r", b"[", b"]", b"<", b"&", b"\t", b"  ", b"-", b":", b"\n", b"'", b'"'),
    *(b"9" * 40, b"NV18", b"GPU0", b"X", b"e9999"),
]
SAMPLES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".md")


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Links between GPUs, or boxes of the catalogue with some links changed."""
    if draw(st.booleans()):
        gpus = draw(st.integers(1, 7))
        ends = st.integers(0, gpus - 1)
        links = draw(st.lists(st.tuples(ends, ends, st.integers(0, 4).map(lambda n: n * 25e9)), max_size=14))
        nodes = draw(st.lists(st.integers(0, 2), min_size=gpus, max_size=gpus))
        return Cluster.from_links(gpus, links, nodes=nodes, both_ways=draw(st.booleans()))
    name = draw(st.sampled_from(["2x4-h100", "4-a100", "2x2-aws-p4d", "dgx1-v100", "8-gb200-nvl72"]))
    graph = nx.DiGraph(reference(name).graph)
    edges = sorted(graph.edges)
    for src, dst in draw(st.lists(st.sampled_from(edges), max_size=3)):
        graph[src][dst]["bytes_per_s"] *= draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
        graph[src][dst]["healthy"] = draw(st.booleans())
    return Cluster(name, graph)


@given(clusters())
def test_document_round_trip_is_identity(cluster: Cluster) -> None:
    document = json.loads(to_json(cluster.to_dict()))
    again = Cluster.from_dict(document)
    assert again.to_dict() == cluster.to_dict()
    assert (again.bytes_per_s() == cluster.bytes_per_s()).all()


@given(clusters())
def test_tiers_nest_and_cover(cluster: Cluster) -> None:
    inner = [{gpu} for gpu in range(cluster.num_gpus)]
    for tier in cluster.tiers():
        groups = [set(group) for group in tier.groups]
        assert sorted(gpu for group in groups for gpu in group) == list(range(cluster.num_gpus))
        assert all(any(part <= group for group in groups) for part in inner)
        assert len(groups) < len(inner)
        assert tier.bytes_per_s >= 0
        inner = groups


@given(clusters(), st.randoms(use_true_random=False))
def test_permuting_gpus_permutes(cluster: Cluster, random: object) -> None:
    order = list(range(cluster.num_gpus))
    random.shuffle(order)  # type: ignore[attr-defined]
    names = {gpu: f"gpu{order[index]}" for index, gpu in enumerate(cluster.gpus)}
    graph = nx.relabel_nodes(nx.DiGraph(cluster.graph), {gpu: f"new {name}" for gpu, name in names.items()})
    for index in range(cluster.num_gpus):
        graph.nodes[f"new gpu{order[index]}"]["index"] = order[index]
    moved = Cluster("moved", graph)
    place = np.array(order)
    assert (moved.bytes_per_s()[np.ix_(place, place)] == cluster.bytes_per_s()).all()
    assert (moved.node_of[place] == cluster.node_of).all()
    before = {(tier.name, tier.bytes_per_s, frozenset(frozenset(order[gpu] for gpu in group) for group in tier.groups))
              for tier in cluster.tiers()}  # fmt: skip
    after = {(tier.name, tier.bytes_per_s, frozenset(map(frozenset, tier.groups))) for tier in moved.tiers()}
    assert after == before
    kinds = sorted(fault.kind for fault in cluster.faults())
    assert sorted(fault.kind for fault in moved.faults()) == kinds


@given(clusters())
def test_faulty_links_are_all_named(cluster: Cluster) -> None:
    named = {(fault.kind, fault.where) for fault in cluster.faults()}
    for src, dst, data in cluster.graph.edges(data=True):
        if src == dst:
            assert ("self-loop", (src, dst)) in named
        elif not data["healthy"]:
            assert ("down", (src, dst)) in named
        elif data["bytes_per_s"] == 0:
            assert ("zero-bandwidth", (src, dst)) in named
        elif not cluster.graph.has_edge(dst, src):
            assert ("one-way", (src, dst)) in named
    reach = cluster.bytes_per_s()
    if (reach > 0).all():
        assert not any(kind == "disconnected" for kind, _ in named)


@given(clusters())
def test_a_pair_carries_no_more_than_a_cut(cluster: Cluster) -> None:
    found = cluster.bytes_per_s()
    for row, gpu in enumerate(cluster.gpus):
        out = sum(data["bytes_per_s"] for _, _, data in cluster.graph.out_edges(gpu, data=True) if data["healthy"])
        others = np.delete(found[row], row)
        assert (others <= out * (1 + 1e-12)).all()


@given(clusters(), st.sampled_from([2.0, 0.25]))
def test_scaling_bandwidths_scales_what_is_derived(cluster: Cluster, times: float) -> None:
    kinds = {data["kind"] for _, _, data in cluster.graph.edges(data=True)}
    scaled = cluster.derated(dict.fromkeys(kinds, times))
    before, after = cluster.bytes_per_s(), scaled.bytes_per_s()
    assert (after == np.where(np.isinf(before), before, before * times)).all()
    assert [tier.groups for tier in scaled.tiers()] == [tier.groups for tier in cluster.tiers()]
    assert [tier.bytes_per_s for tier in scaled.tiers()] == pytest.approx(
        [tier.bytes_per_s * times for tier in cluster.tiers()], rel=1e-5
    )


def _is_read_or_refused(data: bytes) -> None:
    is_topology(data)
    try:
        found = parse_topology(data, "file")
        found.faults()
    except InstanceError as error:
        assert str(error).startswith("file: ")


@given(st.sampled_from(SAMPLES), st.data())
def test_cut_files_are_read_or_refused(path: object, data: st.DataObject) -> None:
    whole = path.read_bytes()  # type: ignore[attr-defined]
    _is_read_or_refused(whole[: data.draw(st.integers(0, len(whole)))])


@given(st.sampled_from(SAMPLES), st.data())
def test_spoilt_files_are_read_or_refused(path: object, data: st.DataObject) -> None:
    whole = bytearray(path.read_bytes())  # type: ignore[attr-defined]
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
        junk = data.draw(st.sampled_from(JUNK))
        whole[at : at + data.draw(st.integers(0, 30))] = junk
    _is_read_or_refused(bytes(whole))


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    _is_read_or_refused(data)


@given(st.text(alphabet="GPUNIC0123 X\tSYSNV<>/=\"'[]{}-,:\n#|&*!abc", max_size=200))
def test_text_that_looks_alike_is_read_or_refused(text: str) -> None:
    _is_read_or_refused(text.encode())


@pytest.mark.parametrize("make", [
    lambda: b"<system>" * 100_000,
    lambda: b"<a>" + b"<b/>" * 1_100_000 + b"</a>",
    lambda: b"[" * 100_000,
    lambda: b"- " * 50_000 + b"topology: x",
    lambda: b"GPU0 GPU1\n" * 50_000,
    lambda: b"SwitchName=a Nodes=" + b"n[1-9]" * 2_000,
    lambda: b"vendid=0x1\n" + b"[1] \"S-1\"[1]\n" * 50_000,
    lambda: b"apiVersion: v1\nlabels: {" + b"a: {" * 5_000,
    lambda: b",,,,; \t" * 50_000 + b"1!",
])  # fmt: skip
def test_hostile_files_end_quickly(make: object) -> None:
    _is_read_or_refused(make())  # type: ignore[operator]
