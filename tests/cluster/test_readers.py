"""Every sample is read as what it is, or refused with the true reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moeopt.cluster import Cluster, Described, parse_topology, read_topology
from moeopt.cluster.nearest import nics_per_gpu
from moeopt.cluster.readers.yaml_lists import read_lists
from moeopt.errors import InstanceError
from tests.cluster.data import FOLDER, read

# file: GPUs, NVLink domains, ports, ports a GPU, tiers as (name, sizes, GB/s), kinds of faults
WHOLE: dict[str, tuple[int, list[int], int, float, list[tuple[str, tuple[int, ...], float]], set[str]]] = {
    "smi_nvswitch_rails.txt": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "smi_hash_prefix.txt": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "smi_log_prefix.txt": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "smi_crlf_bom.txt": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "smi_ansi.txt": (2, [2], 2, 1.0, [("NVLink", (2,), 300.0)], set()),
    "smi_glued.txt": (8, [8], 10, 1.0, [("NVLink", (8,), 300.0)], set()),
    "smi_pcie.txt": (8, [1] * 8, 0, 0.0, [("socket", (4, 4), 32.0), ("host", (8,), 4.0)], set()),
    "smi_first_label_alone.txt": (8, [1] * 8, 0, 0.0, [("socket", (4, 4), 32.0), ("host", (8,), 4.0)], set()),
    "smi_old_words.txt": (4, [1] * 4, 0, 0.0, [("PCIe switch", (2, 2), 32.0), ("host", (4,), 8.0)], set()),
    "smi_pairs.txt": (4, [2, 2], 0, 0.0, [("NVLink", (2, 2), 300.0), ("host", (4,), 16.0)], set()),
    "smi_grace.txt": (4, [4], 8, 1.0, [("NVLink", (4,), 900.0)], set()),
    "smi_far_port.txt": (8, [1] * 8, 2, 0.25, [("host", (8,), 16.0)], set()),
    "smi_dgx1_v100.txt": (8, [8], 4, 0.5, [("NVLink", (8,), 150.0)], set()),
    "smi_one_gpu_down.txt": (8, [7, 1], 8, 1.0, [("NVLink", (7, 1), 450.0), ("socket", (8,), 64 / 7)], {"missing"}),
    "smi_fewer_links.txt": (8, [8], 8, 1.0, [("NVLink", (8,), 400.0)], {"degraded"}),
    "smi_asymmetric.txt": (4, [4], 0, 0.0, [("NVLink", (4,), 250.0)], {"asymmetric"}),
    "nccl_h100_a.xml": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "nccl_fragment.xml": (8, [8], 8, 1.0, [("NVLink", (8,), 450.0)], set()),
    "nccl_two_hosts.xml": (16, [8, 8], 16, 1.0, [("NVLink", (8, 8), 450.0), ("leaf", (16,), 50.0)], set()),
    "nccl_aws_p4d.xml": (8, [8], 4, 0.5, [("NVLink", (8,), 300.0)], set()),
    "nccl_azure_ndv4.xml": (8, [1] * 8, 8, 1.0, [("PCIe switch", (2,) * 4, 31.52), ("host", (8,), 8.0)], set()),
    "nccl_amd_mi100.xml": (8, [4, 4], 1, 0.125, [("xGMI", (4, 4), 72.0), ("socket", (8,), 15.76)], set()),
    "nccl_no_speed.xml": (2, [1, 1], 1, 0.5, [("socket", (2,), 31.52)], set()),
    "nccl_self_target.xml": (2, [1, 1], 0, 0.0, [("socket", (2,), 31.52)], {"self-loop"}),
    "hwloc_two_gpus.xml": (2, [2], 1, 0.5, [("NVLink", (2,), 300.0)], set()),
}

DESCRIBED: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "slurm_tree.conf": ("Slurm topology.conf, tree", {"hosts": 96, "switches": 19}, set()),
    "slurm_tree.yaml": ("Slurm topology.yaml, tree", {"hosts": 8, "switches": 3}, set()),
    "slurm_blocks.conf": ("Slurm topology.conf, blocks", {"hosts": 36, "block_sizes": [18, 36]}, set()),
    "slurm_block.yaml": ("Slurm topology.yaml, block", {"hosts": 8, "blocks": 6}, {"disconnected"}),
    "slurm_defects.conf": ("Slurm topology.conf, tree", {"hosts": 9}, {"duplicate", "disconnected"}),
    "slurm_ring.conf": ("Slurm topology.conf, tree", {"hosts": 2}, {"ring", "self-loop"}),
    "topograph_model.yaml": ("topograph model", {"hosts": 72, "nvlink_domains": 4}, set()),
    "ib_rails.txt": ("ibnetdiscover", {"hosts": 4, "nics": 8, "nics_per_host": [2], "cables": 12}, set()),
    "ib_isolated.txt": ("ibnetdiscover", {"hosts": 1, "nics": 1, "cables": 0}, {"disconnected"}),
    "ib_slow_cable.txt": ("ibnetdiscover", {"cable_speeds": {"50 GB/s": 11, "25 GB/s": 1}}, {"degraded"}),
    "ib_half_cable.txt": ("ibnetdiscover", {"cables": 12}, {"one-way"}),
    "k8s_aws.json": ("Kubernetes node labels", {"hosts": 3, "labels": "AWS"}, set()),
    "k8s_gcp.json": ("Kubernetes node labels", {"hosts": 4, "gpus": 32, "gpus_per_host": [8]}, set()),
    "k8s_topograph.yaml": ("Kubernetes node labels", {"hosts": 4, "nvlink_domains": 2, "gpus": 16}, set()),
    "k8s_not_nested.json": ("Kubernetes node labels", {"hosts": 4}, {"duplicate", "disconnected"}),
    "smi_p2p.txt": ("nvidia-smi topo -p2p", {"gpus": 4, "pairs_with_access": 12}, set()),
    "smi_p2p_blocked.txt": ("nvidia-smi topo -p2p", {"pairs_with_access": 9}, {"disconnected", "one-way"}),
    "cost_2x2.csv": ("rank-cost matrix", {"ranks": 4, "symmetric": True, "costs": 2}, set()),
    "cost_names.csv": ("rank-cost matrix", {"ranks": 2, "most": 4.0}, set()),
    "cost_asymmetric.json": ("rank-cost matrix", {"ranks": 2, "symmetric": False}, {"asymmetric"}),
}

REFUSED = {
    "smi_failed.txt": "Failed to run topology matrix: nvidia-smi gave this message in place of the matrix",
    "smi_cut_row.txt": r"rows\[line 9, row GPU7\] = GPU7: has 7 of 16 cells",
    "smi_cut_rows.txt": "rows = GPU5, GPU6, GPU7: no rows are there for them",
    "smi_row_twice.txt": "GPU2: stands twice",
    "smi_header_only.txt": "rows = GPU0, GPU1, GPU2: no rows are there",
    "nccl_cut.xml": r"line 51, column 4\] = <: broken XML .* Was the file cut short",
    "nccl_entities.xml": "entities and DTDs of a document are not read",
    "nccl_external.xml": "entities and DTDs of a document are not read",
    "nccl_azure_ncv4_graph.xml": "is a result of NCCL's search",
    "nccl_no_gpu.xml": "has no GPU, by tag or by PCI class",
    "hwloc_no_gpu.xml": "has no GPU: lstopo was built without",
    "slurm_bad.conf": r"(?s)n\[1-2: brackets do not match.*runs backwards.*stands twice.*100,000 hosts.*Partition=gpu",
    "slurm_bad.yaml": "anchors of YAML are not read",
    "k8s_no_labels.json": "no label says where a node is",
    "cost_not_square.json": "4 rows of 3 numbers: a rank-cost matrix is square",
    "cost_ragged.csv": r"cost\[row 1\] = 2 numbers: row 0 has 3",
    "cost_negative_nan.json": r"(?s)rank 0 to rank 1\] = -1.*rank 1 to rank 0\] = nan",
    "unknown.txt": "hello world: is no topology that is known",
    "unknown.xml": "is no topology that is known",
}


def test_every_sample_has_an_expectation() -> None:
    samples = {path.name for path in FOLDER.iterdir()} - {"PROVENANCE.md"}
    assert samples == {*WHOLE, *DESCRIBED, *REFUSED, "nccl_h100_b.xml"}


@pytest.mark.parametrize("name", WHOLE)
def test_sample_is_read_as_a_cluster(name: str) -> None:
    gpus, domains, ports, each, tiers, faults = WHOLE[name]
    found = read(name)
    assert isinstance(found, Cluster)
    assert found.num_gpus == gpus
    assert sorted(np.bincount(found.domain_of).tolist(), reverse=True) == domains
    assert len(found.nics) == ports
    assert nics_per_gpu(found) == each
    assert [(tier.name, tier.sizes) for tier in found.tiers()] == [tier[:2] for tier in tiers]
    assert [tier.bytes_per_s / 1e9 for tier in found.tiers()] == pytest.approx([tier[2] for tier in tiers])
    assert {fault.kind for fault in found.faults()} == faults


@pytest.mark.parametrize("name", DESCRIBED)
def test_sample_is_described(name: str) -> None:
    form, facts, faults = DESCRIBED[name]
    found = read(name)
    assert isinstance(found, Described)
    assert found.form == form
    assert {key: found.facts[key] for key in facts} == facts
    assert {fault.kind for fault in found.faults()} == faults


@pytest.mark.parametrize("name", REFUSED)
def test_sample_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(InstanceError, match=REFUSED[name]) as caught:
        read(name)
    assert name in str(caught.value)


def test_kind_is_told_by_content_not_by_name() -> None:
    for name in (*WHOLE, *DESCRIBED):
        data = (FOLDER / name).read_bytes()
        assert type(parse_topology(data, "file")) is type(read(name))


def test_dgx1_has_the_links_of_its_matrix() -> None:
    found = read("smi_dgx1_v100.txt")
    assert found.graph["gpu0"]["gpu3"]["bytes_per_s"] == 50e9
    assert found.graph["gpu0"]["gpu1"]["bytes_per_s"] == 25e9
    assert not found.graph.has_edge("gpu0", "gpu5")
    assert found.link(0, 5).bytes_per_s == 16e9
    assert {found.graph.nodes[nic]["label"] for nic in found.nics} == {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}


def test_notes_say_what_was_assumed() -> None:
    assert any("B200 twice as much" in note for note in read("smi_nvswitch_rails.txt").notes)
    assert any("beside Grace" in note for note in read("smi_grace.txt").notes)
    assert any("NIC8, NIC9" in note for note in read("smi_glued.txt").notes)
    assert any("taken to be behind NVSwitch" in note for note in read("nccl_aws_p4d.xml").notes)
    assert any("the file has no NVLink" in note for note in read("nccl_azure_ndv4.xml").notes)


def test_several_nccl_files_are_servers_on_rails() -> None:
    found = read_topology([FOLDER / "nccl_h100_a.xml", FOLDER / "nccl_h100_b.xml"])
    assert isinstance(found, Cluster)
    assert (found.num_gpus, found.num_nodes) == (16, 2)
    assert [(tier.name, tier.bytes_per_s) for tier in found.tiers()] == [("NVLink", 450e9), ("leaf", 50e9)]
    assert any("port i of every server is put on switch i" in note for note in found.notes)


def test_several_matrices_have_no_path_between_them() -> None:
    found = read_topology([FOLDER / "smi_nvswitch_rails.txt"] * 2)
    assert isinstance(found, Cluster)
    assert [fault.kind for fault in found.faults()] == ["disconnected"]
    with pytest.raises(InstanceError, match="no path leads from GPU 0 to GPU 8"):
        found.link(0, 8)


def test_files_of_different_kinds_are_not_joined() -> None:
    with pytest.raises(InstanceError, match="only NCCL topologies and nvidia-smi topo come one a server"):
        read_topology([FOLDER / "slurm_tree.conf", FOLDER / "smi_pcie.txt"])


@pytest.mark.parametrize(("name", "gpus", "tiers"), [
    ("slurm_tree.conf", 768, [(8,) * 96, (64,) * 12, (128,) * 6, (768,)]),
    ("ib_rails.txt", 32, [(8,) * 4, (32,)]),
    ("k8s_gcp.json", 32, [(8,) * 4, (16, 16), (32,)]),
])  # fmt: skip
def test_hosts_and_a_machine_make_a_cluster(name: str, gpus: int, tiers: list[tuple[int, ...]]) -> None:
    found = read(name, machine="h100")
    assert found.num_gpus == gpus
    assert [tier.sizes for tier in found.tiers()] == tiers


def test_labels_of_nvlink_domains_join_hosts() -> None:
    found = read("topograph_model.yaml", machine="h100")
    assert found.num_gpus == 576
    trays = read("k8s_topograph.yaml", machine="h100")
    assert sorted(np.bincount(trays.domain_of).tolist()) == [8, 24]


def test_oversubscription_thins_uplinks() -> None:
    wide, thin = (read("slurm_tree.yaml", machine="h100", oversubscription=times) for times in (1.0, 4.0))
    assert wide.tiers()[-1].bytes_per_s == 50e9
    assert thin.tiers()[-1].bytes_per_s == 12.5e9


def test_machine_is_refused_beside_gpus() -> None:
    with pytest.raises(InstanceError, match="has GPUs and links of its own"):
        read("smi_pcie.txt", machine="h100")
    with pytest.raises(InstanceError, match="is for files that name hosts, and this is a rank-cost matrix"):
        read("cost_2x2.csv", machine="h100")


def test_npy_is_a_matrix_and_never_unpickled(tmp_path: Any) -> None:
    np.save(tmp_path / "cost.npy", np.array([[0, 2], [3, 0]]))
    found = read_topology(tmp_path / "cost.npy")
    assert isinstance(found, Described) and found.cost is not None
    assert found.cost.tolist() == [[0, 2], [3, 0]]
    np.save(tmp_path / "objects.npy", np.array([[None, 1], [2, 3]], dtype=object), allow_pickle=True)
    with pytest.raises(InstanceError, match=r"is no \.npy file that can be read"):
        read_topology(tmp_path / "objects.npy")


def test_nvlink_that_one_row_has_alone_is_a_one_way_link() -> None:
    text = b"     GPU0 GPU1 GPU2\nGPU0 X NV4 SYS\nGPU1 SYS X SYS\nGPU2 SYS SYS X\n"
    found = parse_topology(text, "topo.txt")
    assert found.faults()[0].text == "gpu0 has a link to gpu1, and none comes back"


def test_nvlink_of_a_gpu_to_itself_is_left_out() -> None:
    found = parse_topology(b"     GPU0 GPU1\nGPU0 NV4 SYS\nGPU1 SYS X\n", "topo.txt")
    assert isinstance(found, Cluster) and [tier.name for tier in found.tiers()] == ["host"]


@pytest.mark.parametrize("text", ["a: 1\nb:\n\tc: 2\n", "a: >\n  text\n\tb: 1\n"])
def test_yaml_that_tabs_indent_is_refused_and_not_read_as_other_levels(text: str) -> None:
    with pytest.raises(InstanceError, match=r"line [23]\] = \w: [12]: lines are indented with blanks, not tabs"):
        read_lists(text, "x.yaml")
    assert read_lists("a: |\n  one\n  \ttwo\nb: 1\n", "x.yaml") == {"a": "one\ntwo", "b": 1}
