"""Seconds of collectives and all-to-alls as lines in the tokens of a rank: a fixed part, and one a token."""

from __future__ import annotations

from functools import lru_cache

from moeopt.cost.collectives import lines_of
from moeopt.cost.decode import ACTIVATION_BYTES
from moeopt.cost.dispatch import Copies, expected_copies, token_bytes
from moeopt.cost.helix import merge_bytes
from moeopt.cost.links import Link
from moeopt.cost.roofline import Numerics
from moeopt.mesh.hardware import NODE_GPUS, GpuType
from moeopt.mesh.step.table import Floats, Ints, Setting, Table

SCALE_BLOCK = 128
"""Elements that share a scale in FP8 dispatch (DeepEP)."""
MERGES = {"deepep-ll": "none", "deepep-normal": "node"}
"""What a transport merges over nodes; within one domain one copy a GPU travels."""


@lru_cache(maxsize=4096)
def nodes_of(gpus: int, domain: int) -> int:
    """Fewest equal parts of so many GPUs that each fit a domain.

    >>> nodes_of(8, 8), nodes_of(144, 8), nodes_of(96, 72)
    (1, 18, 2)
    """
    return next(parts for parts in range(1, gpus + 1) if gpus % parts == 0 and gpus // parts <= domain)


def line_of(gpu: GpuType, op: str, ranks: int) -> tuple[float, float]:
    """A collective on so many GPUs: seconds fixed, and a byte of its vector.

    Rings within a server, levels of rings over servers. In a rack of more than a server's GPUs one fixed time, the
    link's latency, serves a whole collective of the least bytes (`moeopt.cost.NVL72_COLLECTIVE_S`).
    """
    if ranks == 1:
        return 0.0, 0.0
    parts = nodes_of(ranks, gpu.domain_gpus)
    if parts > 1:
        inside = gpu.scale_up or gpu.link(ranks)
        return _line(op, "hierarchical", ranks, parts, inside, gpu.link(ranks))
    link = gpu.link(ranks)
    fixed, slope = _line(op, None, ranks, 1, link, None)
    return (link.alpha_s if gpu.domain_gpus > NODE_GPUS else fixed), slope


@lru_cache(maxsize=4096)
def _line(
    op: str, algorithm: str | None, ranks: int, nodes: int, link: Link, outer: Link | None
) -> tuple[float, float]:
    (line,) = lines_of(op, 0, algorithm, ranks=ranks, link=link, nodes=nodes, outer=outer)
    return line


def vector_bytes(setting: Setting) -> int:
    """Bytes of one token between operators."""
    return int(setting.llm.hidden or 0) * ACTIVATION_BYTES


def around(table: Table, inner: Ints) -> Floats:
    """Between attention and an FFN that is split over `inner` GPUs, both ways: (2, S), fixed and a token of the rank.

    Two all-reduces where both are split alike, one where the FFN is whole on every GPU; else outputs are scattered over
    the one group and gathered over the other.
    """
    gpu, one = table.setting.gpu, vector_bytes(table.setting)

    def lines(group: int, ffn: int, cp: int, dp: int, stage: int) -> tuple[float, float]:
        fixed, slope = line_of(gpu, "all_reduce", group)
        if ffn == group and cp == 1:
            return 2 * fixed, 2 * slope * one
        gather, scatter = line_of(gpu, "all_gather", ffn), line_of(gpu, "reduce_scatter", ffn)
        gathered = ffn * dp / stage  # tokens of so many GPUs, for one of a rank
        return fixed + gather[0] + scatter[0], slope * one / cp + (gather[1] + scatter[1]) * one * gathered

    return table.gather(lines, table.out, inner, table.cp, table.dp, table.ffn_stage, key="around")


def merge(table: Table) -> Floats:
    """All-to-all of partial attention over the GPUs that split the cache (`moeopt.cost.merge_s`): (2, S) as above."""
    llm, gpu = table.setting.llm, table.setting.gpu
    at = llm.attention
    width = int(at.heads or 0) * int((at.v_dim if at.kind == "mla" else at.head_dim) or 0)

    def lines(tp: int, kvp: int) -> tuple[float, float]:
        if kvp == 1:
            return 0.0, 0.0
        link = gpu.link(tp * kvp)
        return link.alpha_s, merge_bytes(sequences=1, width=width, tpa=tp, kvp=kvp) / link.bytes_per_s

    return table.gather(lines, table.tp, table.kvp, key="merge")


def exchange(table: Table, *, prefill: bool) -> Floats:
    """Dispatch and combine of one layer together, the larger of two lines: (4, S), fixed and a token over the network,
    then within the domain.

    Low latency sends every pair straight, all posted at once; normal kernels send one copy a node, passed on there,
    both fabrics at once with a latency for every peer (`moeopt.cost.staged_all_to_all_s` in the limit of many chunks).
    Within one domain a copy a GPU travels, with a latency for every peer in a server (`moeopt.cost.flat_all_to_all_s`)
    and one in a rack. The busiest port receives `load` times the mean. Zeros where experts are not
    spread over all GPUs of the stage.
    """
    setting = table.setting
    merge = MERGES.get(setting.transport, "node" if prefill else "none")
    width = int(setting.llm.dispatch_width or 0)
    each = sum(float(size) for size in bytes_of(width, setting.numerics))

    def lines(ep: int, held: int, moe_tp: int, dp: int) -> tuple[float, float, float, float]:
        if ep == 1 or moe_tp > 1:
            return 0.0, 0.0, 0.0, 0.0
        parts = nodes_of(ep, setting.gpu.domain_gpus)
        way = merge if parts > 1 else "gpu"
        copies = copies_of(setting, held, ep, parts, way)
        own = dp / ep
        fast = setting.gpu.link(ep // parts) if ep > parts else setting.gpu.link(ep)
        server = setting.gpu.domain_gpus <= NODE_GPUS
        steps = {"node": (parts - 1, ep // parts - 1), "gpu": (1, ep - 1 if server else 1)}.get(way, (1, 1))
        found = []
        for link, mean, step in ((setting.gpu.link(ep), copies.nic, steps[0]), (fast, copies.nvlink, steps[1])):
            there = float(mean) > 0
            found += [2 * step * link.alpha_s * there, float(mean) * own * each / link.bytes_per_s]
        return found[0], found[1], found[2], found[3]

    found = table.gather(lines, table.ep, table.held, table.moe_tp, table.dp, key=("exchange", merge))
    found[[1, 3]] *= table.load
    return found


@lru_cache(maxsize=64)
def bytes_of(width: int, numerics: Numerics) -> tuple[float, float]:
    """Bytes of a vector sent to experts, FP8 with scales where they compute in it or in less, and of one sent back.

    >>> bytes_of(7168, Numerics("fp8", "bf16", "bf16", "fp8"))
    (7392.0, 14336.0)
    """
    if numerics.ffn == "bf16":
        return float(token_bytes(width, 2)), float(token_bytes(width, 2))
    return float(token_bytes(width, 1, scale_block=SCALE_BLOCK)), float(token_bytes(width, 2))


def copies_of(setting: Setting, held: int, ep: int, nodes: int, merge: str) -> Copies:
    """Mean copies of a token; the router's limit on groups counts where slots cut its groups evenly."""
    llm = setting.llm
    groups, top = llm.groups, llm.top_groups
    even = groups and top and not held % groups and all(not u % groups or not groups % u for u in (ep, nodes))
    return _copies(held, int(llm.top_k or 0), ep, nodes, merge, *((groups, top) if even else (None, None)))


@lru_cache(maxsize=4096)
def _copies(
    held: int, top_k: int, ep: int, nodes: int, merge: str, groups: int | None, top_groups: int | None
) -> Copies:
    return expected_copies(
        experts=held, top_k=top_k, gpus=ep, nodes=nodes, merge=merge, groups=groups, top_groups=top_groups
    )
