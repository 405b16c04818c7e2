"""Sizes of meshes, and places of experts in checkpoints."""

from __future__ import annotations

from moeopt.cost.collectives import collective_s
from moeopt.cost.expert_ids import expert_place
from moeopt.cost.links import Link, domain_bytes_per_s
from moeopt.cost.mesh_sizes import best_tp, experts_per_rank, striped_positions, world_size
from tests.reference import ENTRIES, Inputs, reproduces


@reproduces("mesh-64", "mesh-world-004")
def world_with_experts_as_a_factor(inputs: Inputs) -> object:
    return world_size(**{name.lower(): degree for name, degree in inputs.items()}, ep_overlaps=False)


@reproduces("mesh-experts")
def experts_and_gpus(inputs: Inputs) -> object:
    one = {name.lower(): degree for name, degree in ENTRIES["mesh-64"].inputs.items()}
    both = world_size(**{**one, "dp": inputs["DP"]}, ep_overlaps=False)
    return experts_per_rank(inputs["E"], ep=inputs["EP"]), both


@reproduces("mesh-dp-cards")
def two_replicas(_: Inputs) -> object:
    return world_size(tp=8, dp=2, ep_overlaps=False)


@reproduces("mesh-nvl72")
def nvl72(_: Inputs) -> object:
    return domain_bytes_per_s("GB200") / 1e12


@reproduces("mesh-striped")
def stripes(inputs: Inputs) -> object:
    return striped_positions(inputs["n"], ranks=inputs["C"])


@reproduces("mesh-tp-opt")
def where_tensor_parallelism_stops_paying(inputs: Inputs) -> object:
    link = Link(inputs["alpha_us"] * 1e-6, inputs["bw"])
    size = inputs["batch"] * inputs["h"] * inputs["bytes"]

    def reduce_s(tp: int) -> float:
        return inputs["allreduces"] * collective_s("all_reduce", size, "ring", ranks=tp, link=link)

    return best_tp(inputs["T_us"] * 1e-6, degrees=(1, 2, 4, 8, 16), communicate_s=reduce_s).tp


@reproduces("ckpt-map")
def places_of_an_expert(inputs: Inputs) -> object:
    return [expert_place(inputs["id"], experts=inputs["E"], ep=ep) for ep in inputs["EP"]]
