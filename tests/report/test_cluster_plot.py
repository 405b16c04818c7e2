"""Drawings of clusters: every kind is drawn, names are safe, and the same comes out each time."""

from __future__ import annotations

import re
from itertools import pairwise

import networkx as nx
import pytest

from moeopt.cluster import Cluster, parse_topology, read_topology, reference
from moeopt.report.plots.cluster import cluster_plot, cluster_png, cluster_svg, said
from moeopt.report.plots.cluster_layout import place
from moeopt.report.plots.cluster_parts import parts_of
from tests.cluster.data import FOLDER

NAMES = [
    "h100",
    "2x8-h100",
    "gb200-nvl72",
    "pcie-gen5",
    "dgx1-v100",
    "2xaws-p5",
    "16x8-h100",
    "2xgb200-nvl72",
    "64x8-h100",
]
FILES = ["slurm_tree.conf", "slurm_block.yaml", "ib_rails.txt", "ib_isolated.txt", "k8s_aws.json", "nccl_amd_mi100.xml",
         "smi_glued.txt", "smi_far_port.txt", "nccl_two_hosts.xml", "slurm_ring.conf"]  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, *FILES])
def test_everything_is_drawn_in_its_place(name: str) -> None:
    what = reference(name) if name in NAMES else read_topology(FOLDER / name)
    parts = parts_of(what)
    found = place(parts, 10.0)
    drawn = {one for one, kind in parts.graph.nodes(data="kind")}
    assert drawn <= set(found.boxes)
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in found.boxes.values():
        rows.setdefault(round(box.y, 6), []).append((box.x - box.width / 2, box.x + box.width / 2))
    for row in rows.values():
        row.sort()
        assert all(left[1] <= right[0] + 1e-9 for left, right in pairwise(row)), "boxes overlap"
    svg = cluster_svg(what)
    assert svg == cluster_svg(what)
    assert svg.count("<path") > len(found.boxes) / 2


def test_faults_are_drawn_red_and_said() -> None:
    graph = nx.DiGraph(reference("2x8-h100").graph)
    sound = cluster_svg(Cluster("sound", graph))
    graph["nic0.2"]["leaf2"]["bytes_per_s"] = 0.0
    broken = Cluster("broken", graph)
    assert "#d03a1e" in cluster_svg(broken) and "#d03a1e" not in sound
    assert "1 fault: the link from nic0.2 to leaf2 has 0 bytes/s." in said(broken)


def test_png_is_two_thousand_points_wide() -> None:
    head = cluster_png(reference("h100"))[:24]
    assert head.startswith(b"\x89PNG") and int.from_bytes(head[16:20], "big") == 2000


def test_plot_for_a_page_has_words() -> None:
    plot = cluster_plot(reference("2x8-h100"), "p")
    assert plot.alt.startswith("Links of 2x8-h100. 16 GPUs in 2 nodes; NVLink joins 8 at 450 GB/s a GPU")
    assert "xlink" not in plot.svg


def test_names_from_files_do_no_harm() -> None:
    text = "SwitchName=<script> Nodes=$a[1-2],&amp;\nSwitchName=top Switches=<script>\n"
    svg = cluster_svg(parse_topology(text.encode(), "x<b>&.conf"))
    assert "<script>" not in svg and not re.search(r"x<b>", svg)


def test_large_clusters_say_what_is_not_drawn() -> None:
    assert "not drawn" in cluster_svg(reference("64x8-h100"))
    hosts = parse_topology(b"SwitchName=a Nodes=n[1-500]\n", "large.conf")
    assert "360 hosts not drawn" in cluster_svg(hosts)
