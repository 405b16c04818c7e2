"""Inspect on topology files, and the catalogue of machines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt.cluster import machines, read_topology

DATA = Path(__file__).parents[1] / "data" / "topologies"


def test_inspect_describes_a_matrix(moeopt):
    run = moeopt("inspect", DATA / "smi_glued.txt")
    assert run.code == 0
    for text in (
        "8 in 1 node; 1 NVLink domain of 8",
        "10 ports, 1 a GPU",
        "NVLink: groups of 8, 300 GB/s",
        "none found",
    ):
        assert text in run.out


def test_inspect_names_faults(moeopt):
    run = moeopt("inspect", DATA / "smi_one_gpu_down.txt")
    assert run.code == 0 and "missing: gpu3 has no link to nvswitch0" in run.out
    assert moeopt("inspect", DATA / "ib_slow_cable.txt").out.count("fault") == 2


def test_ports_that_all_lie_across_sockets_are_called_so(moeopt):
    """Beside the note that no GPU is near any of them."""
    found = moeopt("inspect", DATA / "smi_grace.txt").out
    assert "1 a GPU (the nearest, across sockets)" in found and "no GPU is near" in found
    assert "NIC0, NIC1, NIC4, NIC5 count as the nearest, with the fewest switches" in found
    assert "for storage or management" not in found
    assert "(the nearest)" in moeopt("inspect", DATA / "smi_nvswitch_rails.txt").out


def test_a_matrix_that_lost_its_column_names_is_still_known_as_one(moeopt, tmp_path):
    lines = (DATA / "smi_nvswitch_rails.txt").read_text().split("\n")
    place = next(place for place, line in enumerate(lines) if "GPU1" in line)
    (tmp_path / "topo.txt").write_text("\n".join(lines[place + 1 :]))
    run = moeopt("inspect", tmp_path / "topo.txt")
    assert run.code == 2 and "no line of column names" in run.err and len(run.err.splitlines()) == 1


def test_a_column_name_that_is_missing_is_named(moeopt, tmp_path):
    (tmp_path / "topo.txt").write_text("\tGPU0\tNIC0\nGPU0\t X \tNV12\tSYS\nGPU1\tNV12\t X \tSYS\nNIC0\tSYS\tSYS\t X\n")
    run = moeopt("inspect", tmp_path / "topo.txt")
    assert run.code == 2 and "GPU1: has no column of its name" in run.err
    (tmp_path / "topo.txt").write_text("\tGPU1\tGPU0\nGPU0\t X \tNV12\nGPU1\tNV12\t X\n")
    run = moeopt("inspect", tmp_path / "topo.txt")
    assert run.code == 2 and "row GPU0] = GPU0: has X in the column of GPU1, and not in its own" in run.err
    (tmp_path / "topo.txt").write_text("\tGPU0\tNIC0\nGPU0\t X \tNV12\nNIC0\tNV12\t X\n")
    assert "1 in 1 node; no NVLink" in moeopt("inspect", tmp_path / "topo.txt").out


def test_inspect_explains_the_message_in_place_of_the_matrix(moeopt):
    run = moeopt("inspect", DATA / "smi_failed.txt")
    assert run.code == 2 and "rdma link delete" in run.err


@pytest.mark.parametrize(
    "name", ["smi_pcie.txt", "nccl_two_hosts.xml", "slurm_tree.conf", "k8s_aws.json", "cost_2x2.csv"]
)
def test_inspect_takes_files_by_pipe(moeopt, name):
    piped = moeopt("inspect", "-", "--json", stdin=(DATA / name).read_bytes())
    named = moeopt("inspect", DATA / name, "--json")
    assert piped.code == named.code == 0
    drop = ("file", "name")
    rows = [
        {key: value for key, value in run.document["files"][0].items() if key not in drop} for run in (piped, named)
    ]
    assert rows[0] == rows[1]


def test_inspect_json_has_everything(moeopt):
    found = moeopt("inspect", DATA / "nccl_two_hosts.xml", "--json").document["files"][0]
    assert found["gpus"] == 16 and found["nvlink_domains"] == [8, 8] and found["nics_per_gpu"] == 1
    assert [(tier["tier"], tier["bytes_per_s"]) for tier in found["tiers"]] == [("NVLink", 450e9), ("leaf", 50e9)]


def test_inspect_takes_names_and_machines(moeopt):
    assert "32 in 4 nodes" in moeopt("inspect", "4x8-h100").out
    assert "768 in 96 nodes" in moeopt("inspect", DATA / "slurm_tree.conf", "--machine", "h100").out
    assert moeopt("inspect", "9-h100").code == 2


def test_loads_stay_loads(moeopt, tiny, tmp_path):
    assert "selections in all" in moeopt("inspect", tiny).out
    square = tmp_path / "square.csv"
    square.write_text("5,1,0\n2,4,1\n1,1,9\n")
    assert moeopt("inspect", square).out.startswith(f"{square}: loads")
    np.save(tmp_path / "square.npy", np.array([[3, 1], [1, 4]]))
    assert "loads" in moeopt("inspect", tmp_path / "square.npy").out.splitlines()[0]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_graph_is_drawn(moeopt, tmp_path, ending):
    target = tmp_path / f"graph.{ending}"
    assert moeopt("inspect", DATA / "smi_nvswitch_rails.txt", "-o", target).code == 0
    head = target.read_bytes()[:200]
    assert b"<?xml" in head if ending == "svg" else head.startswith(b"\x89PNG")
    again = moeopt("inspect", DATA / "smi_nvswitch_rails.txt", "-o", target)
    assert again.code == 2 and "exists" in again.err
    assert moeopt("inspect", DATA / "smi_nvswitch_rails.txt", "-o", target, "--force").code == 0


def test_cluster_and_costs_are_written_and_read_back(moeopt, tmp_path):
    document, costs = tmp_path / "cluster.json", tmp_path / "cost.csv"
    assert moeopt("inspect", "2x8-h100", "-o", document).code == 0
    assert read_topology(document).to_dict() == json.loads(document.read_text())
    assert moeopt("inspect", document, "-o", costs).code == 0
    assert read_topology(costs).cost[0].tolist() == [0] + [1] * 7 + [9] * 8


@pytest.mark.parametrize(("words", "text"), [
    (("2x8-h100", "-o", "graph.pdf"), ".svg, .png, .json or .csv"),
    ((DATA / "cost_2x2.csv", "-o", "graph.svg"), "has no links to draw"),
    ((DATA / "slurm_tree.conf", "-o", "cluster.json"), "Name its hosts' machine with --machine"),
    (("2x8-h100", "4x8-h100", "-o", "graph.svg"), "is for one topology, and these are 2"),
    ((DATA / "smi_pcie.txt", "--machine", "h100"), "is for topologies without GPUs"),
    ((DATA / "smi_pcie.txt", "--gpus", "8"), "is a topology, and options are for loads"),
    ((DATA / "nccl_entities.xml",), "entities and DTDs"),
    ((DATA / "unknown.xml",), "is no topology that is known"),
])  # fmt: skip
def test_what_cannot_be_is_refused(moeopt, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    run = moeopt("inspect", *words)
    assert run.code == 2 and text in run.err
    assert list(tmp_path.iterdir()) == []


def test_info_lists_machines(moeopt):
    assert all(name in moeopt("info", "clusters").out for name in machines())
    assert moeopt("info", "clusters", "--json").document["h100"]["source"]
    assert "moeopt/cluster/1" in moeopt("info", "schema").document
