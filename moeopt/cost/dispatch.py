"""How many copies of a token travel, by chance: one a pair, one a GPU, or one a node that passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from numbers import Integral

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, not_negative, positive, top_k_of, whole
from moeopt.cost.exact import times
from moeopt.errors import Violations

MERGES = ("none", "gpu", "rail", "node")
"""What a transport merges. ``none``: every (token, expert) pair travels straight to its GPU (DeepEP low latency).
``gpu``: one copy a GPU. ``rail``: every pair, over the network to the GPU of the same index in the node, then by NVLink
(messages are fewer, bytes are not). ``node``: one copy a node over the network, there one a GPU (DeepEP normal).
Combine takes the same ways back with as many copies, if results are added up where copies were split."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Mean copies of one token that cross the network, and that cross the fast fabric of a node."""

    nic: Fraction
    nvlink: Fraction

    def nic_bytes(self, tokens: Number, token_bytes: Number) -> Number:
        """What the NIC of a GPU with so many tokens sends, bytes; on average it receives as much."""
        return _bytes(self.nic, tokens, token_bytes)

    def nvlink_bytes(self, tokens: Number, token_bytes: Number) -> Number:
        """What such a GPU sends within its node, its own tokens and those it passes on, bytes."""
        return _bytes(self.nvlink, tokens, token_bytes)


def _bytes(copies: Fraction, tokens: Number, token_bytes: Number) -> Number:
    check = Violations()
    not_negative(check, tokens=tokens, token_bytes=token_bytes)
    check.raise_if_any()
    return times(tokens, copies, token_bytes)


@checked
def token_bytes(
    hidden: int, bytes_per_element: Number, *, scale_block: int | None = None, scale_bytes: Number = 4, meta: Number = 0
) -> Number:
    """Bytes of one copy of a token: elements, a scale for every block of them, and what else the message carries.

    Parameters
    ----------
    hidden, bytes_per_element
        Elements and bytes of each: 1 for FP8, 2 for BF16, 0.5 for FP4.
    scale_block, scale_bytes
        Elements that share a scale, and bytes of it; ``None`` has no scales.
    meta
        Bytes of indices and weights.

    Raises
    ------
    InstanceError
        Sizes below 1, bytes that are negative or not above 0.

    Notes
    -----
    Strength: exact. Combine is the same dispatch the other way round, with its own bytes of an element.

    >>> token_bytes(7168, 1, scale_block=128), token_bytes(7168, 2)
    (7392, 14336)
    """
    check = Violations()
    whole(check, hidden=hidden)
    positive(check, bytes_per_element=bytes_per_element)
    not_negative(check, scale_bytes=scale_bytes, meta=meta)
    if scale_block is not None:
        whole(check, scale_block=scale_block)
    check.raise_if_any()
    scales = -(-int(hidden) // int(scale_block)) if scale_block is not None else 0
    return times(hidden, bytes_per_element) + times(scales, scale_bytes) + times(1, meta)


@checked
def unit_probability(
    *, experts: int, top_k: int, units: int, groups: int | None = None, top_groups: int | None = None
) -> Fraction:
    """Chance that a token selects an expert of one given GPU or node, exactly, when all choices are equally likely.

    Parameters
    ----------
    experts, top_k
        ``E`` experts of which a token selects ``k`` distinct ones.
    units
        ``U`` GPUs or nodes with ``E/U`` experts each, in order.
    groups, top_groups
        Node-limited routing: experts form groups, a token first selects `top_groups` of them, then its experts within
        those. Units must cut groups evenly, or hold whole ones.

    Returns
    -------
    Fraction
        ``1 - C(E - E/U, k) / C(E, k)`` without groups; times U it is the expected number of units touched.

    Raises
    ------
    InstanceError
        ``top_k`` above ``experts`` or above what the selected groups hold; numbers that do not divide; one of `groups`
        and `top_groups` alone.

    Notes
    -----
    Strength: exact for uniform routing, an expectation for a batch; real routing touches fewer units where experts that
    are selected together share one. Groups: DeepSeek-V3 report, 2.1.2 (4 of 8 nodes).

    >>> p = 8 * unit_probability(experts=256, top_k=8, units=8)
    >>> limited = 8 * unit_probability(experts=256, top_k=8, units=8, groups=8, top_groups=4)
    >>> round(float(p), 3), round(float(limited), 3)
    (5.295, 3.629)
    """
    check = Violations()
    _check_routing(check, experts, top_k, groups, top_groups)
    _check_units(check, "units", units, experts, groups)
    check.raise_if_any()
    experts, top_k, units = int(experts), int(top_k), int(units)
    groups, top_groups = (1, 1) if groups is None or top_groups is None else (int(groups), int(top_groups))
    size, held = experts // groups, experts // units
    open_experts = top_groups * size
    if held <= size:  # a unit lies within one group
        touched = 1 - Fraction(comb(open_experts - held, top_k), comb(open_experts, top_k))
        return Fraction(top_groups, groups) * touched
    whole_groups, missed = held // size, Fraction(0)
    for inside in range(min(whole_groups, top_groups) + 1):
        ways = comb(whole_groups, inside) * comb(groups - whole_groups, top_groups - inside)
        missed += ways * Fraction(comb(open_experts - inside * size, top_k), comb(open_experts, top_k))
    return 1 - missed / comb(groups, top_groups)


def _check_routing(check: Violations, experts: int, top_k: int, groups: int | None, top_groups: int | None) -> None:
    top_k_of(check, experts=experts, top_k=top_k)
    if (groups is None) != (top_groups is None):
        rule = "groups and top_groups belong together"
        check.add("groups, top_groups", (groups, top_groups), rule=rule, fix="Give both or neither")
    if groups is None or top_groups is None:
        return
    before = len(check.found)
    whole(check, groups=groups, top_groups=top_groups)
    divides(check, "groups", groups, "experts", experts)
    if len(check.found) > before:
        return
    if top_groups > groups:
        check.add("top_groups", top_groups, rule=f"there are only groups = {groups}", fix=f"Use at most {groups}")
    elif isinstance(top_k, Integral) and isinstance(experts, Integral) and top_k > top_groups * (experts // groups):
        rule = f"the selected groups hold {top_groups * (experts // groups)} experts"
        check.add("top_k", top_k, rule=rule, fix="Use fewer, or more groups")


def _check_units(check: Violations, name: str, units: int, experts: int, groups: int | None) -> None:
    before = len(check.found)
    whole(check, **{name: units})
    divides(check, name, units, "experts", experts)
    if len(check.found) == before and isinstance(groups, Integral) and groups > 0 and units % groups and groups % units:
        rule = f"must cut the groups = {groups} evenly, or hold whole ones"
        check.add(name, units, rule=rule, fix=f"Use a divisor or a multiple of {groups}")


@checked
def expected_copies(
    *,
    experts: int,
    top_k: int,
    gpus: int,
    nodes: int = 1,
    merge: str = "none",
    groups: int | None = None,
    top_groups: int | None = None,
) -> Copies:
    """Mean copies of a token that leave GPUs, by what the transport merges; exact under uniform routing.

    Parameters
    ----------
    experts, top_k, groups, top_groups
        As in `unit_probability`.
    gpus, nodes
        ``P`` GPUs with equal numbers of experts on ``n`` nodes of ``g``; each token starts on any GPU alike.
    merge
        One of `MERGES`.

    Returns
    -------
    Copies
        With ``p_gpu`` and ``p_node`` of `unit_probability`, over the network and within nodes:

        ====== ==================== =============================================
        none   ``k (n-1)/n``        ``k (g-1)/P``
        gpu    ``(P-g) p_gpu``      ``(g-1) p_gpu``
        rail   ``k (n-1)/n``        ``k (g-1)/g``
        node   ``(n-1) p_node``     ``n (g-1) p_gpu``
        ====== ==================== =============================================

    Raises
    ------
    InstanceError
        As in `unit_probability`; an unknown `merge`; nodes that do not divide GPUs.

    Notes
    -----
    Strength: exact expectation for routing independent of the home GPU. The sums hold for one token; the mean rank of a
    batch sends its tokens times these, the busiest one more (`moeopt.cost.busiest_rank`). With ``rail`` and ``node`` a
    copy lands on the GPU of the sender's index in the other node, as in DeepEP (deepseek-ai/DeepEP, README).

    >>> both = [expected_copies(experts=256, top_k=8, gpus=64, merge=merge).nvlink for merge in ("none", "gpu")]
    >>> [round(float(128 * copies), 1) for copies in both]
    [1008.0, 967.1]
    """
    check = Violations()
    _check_routing(check, experts, top_k, groups, top_groups)
    _check_units(check, "gpus", gpus, experts, groups)
    whole(check, nodes=nodes)
    divides(check, "nodes", nodes, "gpus", gpus)
    if merge not in MERGES:
        check.add("merge", merge, rule=f"is not one of {', '.join(MERGES)}", fix="Use one of these")
    if not check.found and merge == "node":
        _check_units(check, "nodes", nodes, experts, groups)
    check.raise_if_any()
    top_k, gpus, nodes = int(top_k), int(gpus), int(nodes)
    p_gpu = unit_probability(experts=experts, top_k=top_k, units=gpus, groups=groups, top_groups=top_groups)
    p_node = Fraction(0)
    if merge == "node":
        p_node = unit_probability(experts=experts, top_k=top_k, units=nodes, groups=groups, top_groups=top_groups)
    g, away = gpus // nodes, Fraction(nodes - 1, nodes)
    return {
        "none": Copies(top_k * away, Fraction(top_k * (g - 1), gpus)),
        "gpu": Copies((gpus - g) * p_gpu, (g - 1) * p_gpu),
        "rail": Copies(top_k * away, Fraction(top_k * (g - 1), g)),
        "node": Copies((nodes - 1) * p_node, nodes * (g - 1) * p_gpu),
    }[merge]
