"""Troubles that users have met with traces, links and costs, each as an input of its own through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt import collocation
from moeopt.cli import main
from moeopt.cluster import Cluster, rank_cost
from moeopt.collocation import CollocationInstance, Transport, verify
from moeopt.documents import to_json
from tests.collocation.test_cases import BY_NODE

Capsys = pytest.CaptureFixture[str]


def trace_of(folder: Path, traffic: list[tuple[int, int, int]], experts: int, name: str = "trace.npz") -> str:
    """A trace of (source GPU, expert, tokens)."""
    rows = [(expert, gpu) for gpu, expert, tokens in traffic for _ in range(tokens)]
    ids, source = np.array(rows).T
    path = folder / name
    np.savez(path, topk_ids=ids[None, :, None], layers=np.array([0]), num_experts=experts, source=source)
    return str(path)


def cluster_of(folder: Path, cluster: Cluster) -> str:
    path = folder / "cluster.json"
    path.write_text(to_json(cluster.to_dict()))
    return str(path)


def refused(capsys: Capsys, *words: str) -> str:
    """What is said on standard error of a run that ends as bad input, without a traceback."""
    capsys.readouterr()
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err and "Warning" not in said.err
    return said.err


# --- where tokens come from -------------------------------------------------------------------------------------------


def test_experts_are_put_on_the_node_of_their_tokens_and_the_plan_stands_up(tmp_path: Path, capsys: Capsys) -> None:
    """Same balance, 200 of 800 tokens cross instead of the 360 of experts dealt out in turn."""
    traffic = [(2 * node, expert, many) for node, row in enumerate(BY_NODE) for expert, many in enumerate(row)]
    trace, plan = trace_of(tmp_path, traffic, 8), tmp_path / "plan.json"
    words = ["--nodes", "2", "--gpus", "4", "--held-out", "0", "--transport", "deepep-ll", "--max-imbalance", "1.0"]
    assert main(["collocate", trace, *words, "-o", str(plan), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["objective"], found["lower_bound"], found["status"]) == (200, 200, "OPTIMAL")
    assert main(["verify", str(plan), trace]) == 0
    assert main(["route", str(plan), trace, "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["objective"] == 200  # tokens of the busiest GPU: all have as many


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("merge", ["none", "node", "gpu"])
def test_costs_of_both_directions_are_kept_apart(tmp_path: Path, merge: str) -> None:
    """Ten times as dear one way as the other: 110 to send; with the mean of both, or the transpose, it would be 240."""
    cluster = Cluster.from_links(2, [(0, 1, 10e9), (1, 0, 1e9)], nodes=[0, 1], both_ways=False)
    cost = rank_cost(cluster)
    assert cost.tolist() == [[0, 1], [10, 0]]
    traffic = [(0, 0, 60), (0, 1, 40), (1, 0, 20), (1, 1, 5)]
    with np.load(trace_of(tmp_path, traffic, 2)) as trace:
        ids, source = trace["topk_ids"], trace["source"]
    out_alone = Transport("dispatch alone", merge, dispatch_bytes=2.0, combine_bytes=1e-9)
    instance = CollocationInstance(ids, experts=2, cluster=cluster, source=source, transport=out_alone)
    result = collocation.solve(instance)
    assert result.plan.slot_expert.tolist() == [[1, 0]]
    price = {plan: (verify.count(instance, 0, np.array(plan)).pairs * cost).sum() for plan in ((1, 0), (0, 1))}
    assert price == {(1, 0): 110, (0, 1): 240}


@pytest.mark.parametrize("transport", ["deepep-ll", "deepep-normal", "nvl-domain"])
@pytest.mark.parametrize("method", ["id_order", "auto"])
def test_gpus_that_no_link_joins_are_named_with_their_parts(
    tmp_path: Path, capsys: Capsys, transport: str, method: str
) -> None:
    """Not an endless search, an infinite time or a warning of numpy."""
    trace = trace_of(tmp_path, [(0, 2, 1)], 4)
    cluster = cluster_of(tmp_path, Cluster.from_links(4, [(0, 1, 400e9), (2, 3, 400e9)], nodes=[0, 0, 1, 1]))
    words = ("--transport", transport, "--held-out", "0", "--method", method)
    said = refused(capsys, "collocate", trace, "--cluster", cluster, *words)
    assert "from GPU 0 to GPU 2" in said and "{0, 1} and {2, 3}" in said
    assert main(["inspect", cluster]) == 0
    assert "disconnected: GPUs {0, 1} and {2, 3}" in capsys.readouterr().out


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.npz", "trace.json"])
def test_an_empty_trace_is_called_empty_with_its_name(tmp_path: Path, capsys: Capsys, name: str) -> None:
    path = tmp_path / name
    path.touch()
    for words in (["collocate", str(path), "--nodes", "2", "--gpus", "4"], ["inspect", str(path)]):
        assert f"{path}: input = '': the file is empty" in refused(capsys, *words)


def test_a_trace_cut_short_names_file_line_and_column(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"type": "route", "layer": 0, "topk_ids": [1, 2')
    said = refused(capsys, "collocate", str(path), "--nodes", "2", "--gpus", "4")
    assert said.startswith(f"error: {path}: line[1]") and "line 1 column 48" in said and len(said.splitlines()) == 1


def test_loads_in_place_of_a_trace_are_refused_in_one_line(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "loads.csv"
    path.write_bytes(b"\xef\xbb\xbflayer_id,expert_id,count\r\n0,0,10\r\n0,1,30\r\n")
    said = refused(capsys, "collocate", str(path), "--nodes", "2", "--gpus", "4")
    assert said.startswith(f"error: {path}: ") and len(said.splitlines()) == 1
    assert "is no line of a routing trace" in said and "loads have lost which experts" in said
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["files"][0]
    assert (found["layers"], found["experts"]) == (1, 2)


@pytest.mark.parametrize(("name", "content", "texts"), [
    ("cost.csv", "0,1,2\n1,0,2\n1,2,0\n1,1,1\n", ["cost = 4 rows of 3 numbers", "square"]),
    ("cost.json", "[[0,1,2],[1,0,2],[1,2,0],[1,1,1]]", ["cost = 4 rows of 3 numbers", "square"]),
    ("topo.txt", "", ["the file is empty"]),
    ("topo.json", '{"gpus": [', ["is no topology that is known"]),
])  # fmt: skip
def test_a_cluster_that_cannot_be_is_refused_with_its_file(
    tmp_path: Path, capsys: Capsys, name: str, content: str, texts: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    said = refused(capsys, "collocate", trace_of(tmp_path, [(0, 1, 5)], 4), "--cluster", str(path))
    assert said.startswith(f"error: {path}: ") and len(said.splitlines()) == 1
    assert all(text in said for text in texts)


def test_one_token_of_one_layer_is_not_ambiguous(tmp_path: Path, capsys: Capsys) -> None:
    trace = trace_of(tmp_path, [(0, 2, 1)], 4)
    assert main(["collocate", trace, "--nodes", "2", "--gpus", "4", "--held-out", "0", "--method", "id_order"]) == 0
    assert capsys.readouterr().out


def test_the_nodes_of_a_rank_cost_matrix_are_taken_and_no_time_is_told(tmp_path: Path, capsys: Capsys) -> None:
    """It was refused: only a link graph was a cluster."""
    trace, costs = tmp_path / "trace.npz", tmp_path / "costs.csv"
    np.savez(trace, topk_ids=np.array([[[0, 2], [1, 3], [0, 2], [1, 3]]]), layers=[0], num_experts=4)
    costs.write_text("0,1,9,9.5\n1.1,0,9,9\n9,9,0,1\n9,9,1,0\n")
    given = ["collocate", str(trace), "--slots", "4", "--held-out", "0", "--cluster", str(costs)]
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == 2  # pairs 0 2 and 1 3 each fill a node: half of the tokens go to the other, once
    assert any("its 2 nodes of 2 GPUs are counted, and no time" in note for note in found["notes"])
    assert "says nodes and gpus itself" in refused(capsys, *given, "--nodes", "2")
    costs.write_text("0,1,1\n1,0,1\n1,1,0\n")
    assert "is a rank-cost matrix that shows no nodes" in refused(capsys, *given)
