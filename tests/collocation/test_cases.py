"""Traffic by node, links that do not reach, servers of one file each, matrices that are no link graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cli import main
from moeopt.cluster import Cluster
from moeopt.collocation import CollocationInstance
from moeopt.errors import InstanceError

DATA = Path(__file__).parents[1] / "data" / "topologies"
BY_NODE = [[90, 80, 70, 60, 40, 30, 20, 10], [10, 20, 30, 40, 60, 70, 80, 90]]


def by_node(**fields: object) -> CollocationInstance:
    """Every expert has 100 tokens, so that any four on a node are in balance; sources are the nodes' first GPUs."""
    rows = [(expert, 2 * node) for node, counts in enumerate(BY_NODE) for expert, many in enumerate(counts)
            for _ in range(many)]  # fmt: skip
    ids, source = np.array(rows).T
    return CollocationInstance(ids[:, None], experts=8, nodes=2, gpus=4, source=source, **fields)


@pytest.mark.parametrize("method", ["greedy", "search", "exact"])
def test_experts_go_to_the_node_of_their_tokens(method: str) -> None:
    """200 of 800 tokens cross; dealt out in turn, 360 do."""
    instance = by_node(transport="deepep-ll", max_imbalance=1.0)
    result = collocation.solve(instance, method=method)
    assert result.objective == 200 and result.lower_bound == 200 and str(result.status) == "OPTIMAL"
    assert result.solution["imbalance"] == 1.0
    in_turn = [0, 4, 1, 5, 2, 6, 3, 7]
    assert collocation.evaluate(instance, [in_turn]).objective == sum(
        BY_NODE[1 - node][expert] for slot, expert in enumerate(in_turn) for node in [slot // 4]
    )


def test_links_that_do_not_reach_name_gpus_and_parts() -> None:
    parts = Cluster.from_links(4, [(0, 1, 400e9), (2, 3, 400e9)], nodes=[0, 0, 1, 1])
    instance = CollocationInstance([[0], [1], [2], [3]], cluster=parts, source=[2, 1, 0, 3], transport="deepep-ll")
    with pytest.raises(InstanceError, match=r"GPU \d to GPU \d: GPUs \{0, 1\} and \{2, 3\} have no path"):
        collocation.solve(instance, method="id_order")


def trace_of(folder: Path, experts: int = 16) -> str:
    rng = np.random.default_rng(1)
    ids = np.array([[rng.choice(experts, size=2, replace=False) for _ in range(20)]])
    path = folder / "trace.npz"
    np.savez(path, topk_ids=ids, layers=np.array([0]), num_experts=experts)
    return str(path)


@pytest.mark.parametrize("how", ["commas", "repeated"])
def test_servers_of_one_file_each_are_one_cluster(tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(DATA / "nccl_h100_a.xml"), str(DATA / "nccl_h100_b.xml")]
    where = ["--cluster", ",".join(files)] if how == "commas" else [w for file in files for w in ("--cluster", file)]
    assert main(["collocate", trace_of(tmp_path), *where, "--method", "id_order", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["solution"]["ep_size"] == 16
    assert found["solution"]["weakest_cut"]["bytes_per_s"] == 400e9


def test_inspect_looks_at_servers_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(DATA / "nccl_h100_a.xml"), str(DATA / "nccl_h100_b.xml")]
    target = tmp_path / "cluster.json"
    assert main(["inspect", *files, "-o", str(target)]) == 0
    out = capsys.readouterr().out
    assert "together, 2 servers" in out and "16 in 2 nodes; 2 NVLink domains of 8" in out
    assert main(["inspect", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["files"]) == 2 and found["together"]["gpus"] == 16
    assert main(["collocate", trace_of(tmp_path), "--cluster", str(target), "--method", "id_order", "-q"]) == 0
    picture = tmp_path / "both.svg"
    assert main(["inspect", *files, "-o", str(picture)]) == 0 and picture.stat().st_size > 5_000


def test_matrices_of_servers_have_no_cable_between_and_files_of_two_kinds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smi, nccl = str(DATA / "smi_ansi.txt"), str(DATA / "nccl_h100_a.xml")
    trace = trace_of(tmp_path)
    for cluster, text in (
        (f"{smi},{smi}", "have no path between them"),
        (f"{smi},{nccl}", "are files of different kinds"),
        (f"{nccl},4x8-h100", "is no file, and several are one of each server"),
        (str(DATA / "cost_asymmetric.json"), "shows no nodes. Say them: gpus=2 and nodes (--gpus, --nodes), without"),
        (str(DATA / "cost_not_square.json"), "square"),
        (str(DATA / "slurm_tree.conf"), f"moeopt inspect {DATA / 'slurm_tree.conf'} --machine h100 -o c.json"),
        (str(DATA / "smi_failed.txt"), "exit status was 255"),
    ):
        capsys.readouterr()
        assert main(["collocate", trace, "--cluster", cluster, "--method", "id_order"]) == 2
        assert text in capsys.readouterr().err, cluster
    assert main(["inspect", smi, nccl]) == 0
    assert "together" not in capsys.readouterr().out
    assert main(["inspect", smi, smi]) == 0
    assert "together, 2 servers" in capsys.readouterr().out
