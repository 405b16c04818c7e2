"""What travels where: costs of two directions, links that are missing, flows over awkward capacities."""

from __future__ import annotations

from typing import Any

import numpy as np

from moeopt import collocation
from moeopt.cluster import Cluster, max_flow, rank_cost
from moeopt.collocation import Transport, verify
from moeopt.documents import to_json
from tests.cases.case import Case, Desk, Refusal, Run, refusing


def trace(desk: Desk, tokens: dict[tuple[int, int], int], experts: int) -> Any:
    """A routing trace of one layer: so many tokens of (source GPU, expert)."""
    rows = [(expert, gpu) for (gpu, expert), many in tokens.items() for _ in range(many)]
    ids, source = np.array(rows).T
    file = desk.folder / "trace.npz"
    np.savez(file, topk_ids=ids[None, :, None], layers=np.array([0]), num_experts=experts, source=source)
    return file


def cheapest(desk: Desk, traffic: list[list[int]], cost: list[list[float]]) -> dict[str, Any]:
    """Of two experts on two GPUs; a link carries the tenth where it costs ten times as much."""
    links = [(a, b, 10e9 / cost[a][b]) for a in range(2) for b in range(2) if a != b]
    cluster = Cluster.from_links(2, links, nodes=[0, 1], both_ways=False)
    assert rank_cost(cluster).tolist() == cost
    tokens = {(gpu, expert): many for gpu, row in enumerate(traffic) for expert, many in enumerate(row)}
    with np.load(trace(desk, tokens, 2)) as read:
        ids, source = read["topk_ids"], read["source"]
    out_alone = Transport("dispatch alone", "none", dispatch_bytes=2.0, combine_bytes=1e-9)
    instance = collocation.CollocationInstance(ids, experts=2, cluster=cluster, source=source, transport=out_alone)

    def price(plan: list[int]) -> float:
        return float((verify.count(instance, 0, np.array(plan)).pairs * cost).sum())

    (plan,) = collocation.solve(instance).plan.slot_expert.tolist()
    gpu_of_expert = [plan.index(expert) for expert in range(2)]
    return {"cost": price(plan), "gpu of expert": gpu_of_expert, "the other way": price(plan[::-1])}


def no_square(desk: Desk, rows: int, columns: int) -> Run:
    cost = [[float(a != b) for b in range(columns)] for a in range(rows)]
    tokens = {(0, 0): 1, (1, 1): 1}
    words = ("collocate", trace(desk, tokens, rows), "--cluster", desk.write("cost.json", {"cost": cost}))
    return desk.moeopt(*words, "--nodes", 2, "--gpus", rows)


def parted(desk: Desk, gpus: int, links: list[tuple[int, int, float]], sends: tuple[int, int]) -> Run:
    nodes = [link for gpu in range(gpus) for link, (a, b, _) in enumerate(links) if gpu in (a, b)]
    cluster = Cluster.from_links(gpus, links, nodes=nodes)
    file = desk.write("cluster.json", to_json(cluster.to_dict()))
    words = ("--transport", "deepep-ll", "--held-out", 0, "--method", "id_order")
    return desk.moeopt("collocate", trace(desk, {sends: 1}, gpus), "--cluster", file, *words)


def by_node(desk: Desk, traffic: list[list[int]], gpus: int) -> dict[str, float]:
    """Tokens that leave their node under our plan, and where nodes take experts in turn."""
    nodes, experts = len(traffic), len(traffic[0])
    each = gpus // nodes
    tokens = {(each * node, expert): many for node, row in enumerate(traffic) for expert, many in enumerate(row)}
    words = ["collocate", trace(desk, tokens, experts), "--nodes", nodes, "--gpus", gpus, "--held-out", 0]
    found = desk.moeopt(*words, "--transport", "deepep-ll", "--max-imbalance", "1.0", "--json").document
    in_turn = sum(traffic[1 - expert % nodes][expert] for expert in range(experts))
    return {
        "cross": found["objective"],
        "of": sum(map(sum, traffic)),
        "in turn": in_turn,
        "imbalance": found["solution"]["imbalance"],
    }


def flow(desk: Desk, edges: list[tuple[str, str, float]]) -> float | Run:
    with refusing() as told:
        return max_flow({(a, b): room for a, b, room in edges}, "s", "t")
    return told[0]


CASES = [
    Case(
        "cost-matrix-asymmetric",
        "The way out is not the way back: the mean of both, or the transpose, gives the dear plan.",
        {"traffic": [[60, 40], [20, 5]], "cost": [[0, 1], [10, 0]]},
        {"cost": 110, "gpu of expert": [1, 0], "the other way": 240},
        cheapest,
    ),
    Case(
        "cost-matrix-not-square",
        "A pasted table has lost a column.",
        {"rows": 4, "columns": 3},
        Refusal(2, ("cost = 4 rows of 3 numbers", "square", "loses a column")),
        no_square,
    ),
    Case(
        "disconnected-link-graph",
        "A switch is missing in the file, and a search goes on for ever or a time is infinite.",
        {"gpus": 4, "links": [(0, 1, 400e9), (2, 3, 400e9)], "sends": (0, 2)},
        Refusal(2, ("GPU 0 to GPU 2", "{0, 1} and {2, 3}")),
        parted,
    ),
    Case(
        "node-locality",
        "At the same balance, 44 % fewer tokens cross than where nodes take experts in turn.",
        {"traffic": [[90, 80, 70, 60, 40, 30, 20, 10], [10, 20, 30, 40, 60, 70, 80, 90]], "gpus": 4},
        {"cross": 200, "of": 800, "in turn": 360, "imbalance": 1.0},
        by_node,
    ),
    Case(
        "flow-float-capacities",
        "Fractions that are no binary ones made flow algorithms go on for ever.",
        {
            "edges": [
                *(("s", n, c) for n, c in zip("abc", (0.1, 0.2, 0.3), strict=True)),
                *((n, "t", 0.2) for n in "abc"),
            ]
        },
        0.5,
        flow,
    ),
    Case(
        "flow-negative-capacity",
        "Some libraries drop such an edge and say nothing.",
        {"edges": [("s", "a", 5), ("a", "t", -1)]},
        Refusal(2, ("-1", "a", "t")),
        flow,
    ),
    Case("flow-zero-capacity", "No room is no flow, and no error.", {"edges": [("s", "t", 0)]}, 0, flow),
]
