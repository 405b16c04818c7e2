"""Collectives, volumes of parallelism, all-to-all over GPUs and nodes, payload of padded buffers."""

from __future__ import annotations

from fractions import Fraction

from moeopt.cost.buffers import payload_bound
from moeopt.cost.collectives import collective_bytes, collective_s
from moeopt.cost.constants import IB_ALPHA_S, Efficiency
from moeopt.cost.dispatch import expected_copies
from moeopt.cost.links import Link, usable_bytes_per_s
from moeopt.cost.two_stage import Fabric
from moeopt.cost.volumes import EpVolume, activation_bytes, ep_volume, sp_volume, tp_volume
from tests.reference import ENTRIES, Inputs, reproduces

MIB = 2**20
UNIT = Fraction(8, 7)
"""Bytes of which ``(p-1)/p`` is 1 for eight ranks: volumes come out in the source's unit."""
DEEPSEEK_V3 = {"experts": 256, "top_k": 8}
HIDDEN = 7168


def infiniband() -> Link:
    """A 400 Gb/s port as the lecture on MoE inference takes it."""
    return Link(IB_ALPHA_S, usable_bytes_per_s(400e9, efficiency=Efficiency().network))


@reproduces("col-ar")
def ring_all_reduce(inputs: Inputs) -> object:
    return collective_bytes("all_reduce", inputs["S"], "ring", ranks=inputs["p"])


@reproduces("col-tp-layer")
def tensor_parallel_layer(_: Inputs) -> object:
    volume = tp_volume(UNIT, tp=8)
    return volume.forward_bytes, volume.backward_bytes, volume.total_bytes


@reproduces("col-sp-regather")
def sequence_parallel_layer(_: Inputs) -> object:
    volume, plain = sp_volume(UNIT, tp=8), tp_volume(UNIT, tp=8)
    more = Fraction(volume.total_bytes) / Fraction(plain.total_bytes) - 1
    return volume.forward_bytes, volume.backward_bytes, volume.total_bytes, more


@reproduces("a2a-ex3-vectors")
def vectors_of_exercise_3(inputs: Inputs) -> object:
    copies = expected_copies(experts=256, top_k=inputs["k"], gpus=inputs["D"])
    return copies.nvlink_bytes(inputs["n"], 1)  # one fabric: what crosses it, counted in vectors


@reproduces("a2a-ex3-bytes")
def bytes_of_exercise_3(inputs: Inputs) -> object:
    sizes = [activation_bytes(inputs["vectors"], hidden=inputs["h"], bytes_per_element=b) for b in inputs["bytes"]]
    return [size / 1e6 for size in sizes]


@reproduces("a2a-ex3-58layers")
def layers_of_exercise_3(inputs: Inputs) -> object:
    other = ENTRIES["a2a-ex3-bytes"].inputs
    sizes = [activation_bytes(other["vectors"], hidden=other["h"], bytes_per_element=b) for b in other["bytes"]]
    return inputs["layers"] * sum(infiniband().time_s(size) for size in sizes) * 1e3


@reproduces("a2a-ib-eff")
def infiniband_reached(inputs: Inputs) -> object:
    return usable_bytes_per_s(inputs["gbps"] * 1e9, efficiency=Efficiency().network) / 1e9


@reproduces("a2a-07ms")
def two_all_to_alls(inputs: Inputs) -> object:
    def both_ms(ranks: int, tokens: int) -> float:
        sizes = [activation_bytes(tokens * DEEPSEEK_V3["top_k"], hidden=HIDDEN, bytes_per_element=b) for b in (1, 2)]
        link = infiniband()
        return 1e3 * sum(collective_s("all_to_all", size, "direct", ranks=ranks, link=link) for size in sizes)

    return [both_ms(ranks, tokens) for ranks, tokens in zip(inputs["D"], inputs["n"], strict=True)]


@reproduces("a2a-padding-bound")
def padded_payload(inputs: Inputs) -> object:
    return payload_bound(top_k=inputs["k"], devices=inputs["D"])


@reproduces("hier-messages")
def messages_between_nodes(inputs: Inputs) -> object:
    nodes, each = inputs["nodes"], inputs["gpus_per_node"]
    fabric = Fabric(nodes * each, nodes, nic=infiniband(), nvlink=Link(0.0, 1e9))
    return fabric.flat_messages, fabric.staged_messages


def _chapter(inputs: Inputs, ranks: int = 8) -> EpVolume:
    both = {"dispatch_bytes": inputs["b"], "combine_bytes": inputs["b"]}
    return ep_volume(inputs["T"], top_k=inputs["k"], hidden=inputs["H"], ranks=ranks, **both)


@reproduces("epv-logical")
def logical_dispatch(inputs: Inputs) -> object:
    return Fraction(_chapter(inputs).dispatch_bytes) / MIB


@reproduces("epv-remote")
def remote_bytes(inputs: Inputs) -> object:
    volume = _chapter(ENTRIES["epv-logical"].inputs, inputs["P"])
    return Fraction(volume.remote_dispatch_bytes) / MIB, Fraction(volume.remote_bytes) / MIB


@reproduces("epv-004")
def logical_both_ways(inputs: Inputs) -> object:
    s = inputs["s"]
    hidden, tokens = inputs["H"], inputs["N_t"]
    volume = ep_volume(tokens, top_k=inputs["k"], hidden=hidden, ranks=1, dispatch_bytes=s, combine_bytes=s)
    return volume.logical_bytes
