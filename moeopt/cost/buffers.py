"""Buffers that a transport reserves for the worst case, and how little of padded ones is payload."""

from __future__ import annotations

from fractions import Fraction

from moeopt.cost.checked import checked
from moeopt.cost.checks import divides, top_k_of, whole
from moeopt.cost.dispatch import unit_probability
from moeopt.errors import Violations

MESSAGE_HEAD_BYTES, SCALE_BLOCK, SCALE_BYTES, ALIGNMENT_BYTES = 16, 128, 4, 128
"""DeepEP's low-latency layout: head of a dispatch message, elements to a scale, bytes of a scale, alignment."""
NODE_PEERS, RDMA_WINDOW, TOKEN_META_BYTES = 8, 128, 8 + 128 * (8 + 4 + 4)
"""DeepEP's normal mode: GPUs of a node, tokens of a window between nodes, and what a token has beside its elements:
where it comes from, and for 128 places an expert's id, its weight and a scale."""
NVL_WINDOWS = ((8, 256), (64, 288), (96, 480), (128, 560), (1 << 62, 720))
"""Ranks at most, and tokens of a window within the node."""


@checked
def low_latency_buffer_bytes(*, max_tokens: int, hidden: int, experts: int, ranks: int) -> int:
    """Memory that DeepEP's low-latency mode registers on every rank.

    Parameters
    ----------
    max_tokens
        Most tokens that a rank dispatches in one call.
    hidden
        Elements of a token; DeepEP's compiled sizes are multiples of 128.
    experts, ranks
        Physical experts of the group, redundant ones included, and its ranks; ranks divide experts.

    Returns
    -------
    int
        Bytes. Twice, for even and odd calls: a send buffer, a receive buffer of ``experts x max_tokens`` messages (an
        expert reserves room for all tokens of all ranks: ``E/ranks x ranks``), and signals.

    Raises
    ------
    InstanceError
        Counts below 1, ranks that do not divide experts.

    Notes
    -----
    Strength: exact for ``get_low_latency_rdma_size_hint`` of deepseek-ai/DeepEP, csrc/config.hpp, V1 with scales in
    combine messages (1.5 % less in versions without; V2 sizes its buffers otherwise). A dispatch
    message has ``16 + max(2 H, H + 4 H/128)`` bytes, a combine message ``2 H + 4 H/128``: receive buffers are sized for
    BF16 even where FP8 is sent. It does not depend on ranks beyond the experts they bring.

    >>> low_latency_buffer_bytes(max_tokens=128, hidden=7168, experts=288, ranks=144) / 1e9
    2.146961792
    """
    check = Violations()
    whole(check, max_tokens=max_tokens, hidden=hidden, experts=experts, ranks=ranks)
    divides(check, "ranks", ranks, "experts", experts)
    check.raise_if_any()
    max_tokens, hidden, experts = int(max_tokens), int(hidden), int(experts)
    scales = hidden // SCALE_BLOCK * SCALE_BYTES
    dispatch, combine = MESSAGE_HEAD_BYTES + max(2 * hidden, hidden + scales), 2 * hidden + scales
    send = max_tokens * max(dispatch, experts * combine)
    receive = experts * max_tokens * max(dispatch, combine)
    signals = -(-experts * 4 // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    total = 2 * (send + receive + signals)
    return (total + ALIGNMENT_BYTES) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


@checked
def receive_tensor_bytes(*, local_experts: int, max_tokens: int, ranks: int, copy_bytes: int) -> int:
    """The tensor that holds received tokens, expert by expert, with room for all tokens of all ranks in each.

    Parameters
    ----------
    local_experts
        Experts, and redundant ones, on the rank.
    max_tokens, ranks
        Most tokens that a rank dispatches; ranks of the group.
    copy_bytes
        Bytes of a token with its scales, see `moeopt.cost.token_bytes`.

    Returns
    -------
    int
        ``local_experts x max_tokens x ranks x copy_bytes``: no routing overflows it, and with even routing a part
        ``top_k / experts`` of it is filled.

    Raises
    ------
    InstanceError
        Counts or bytes below 1.

    Notes
    -----
    Strength: exact worst case. The output of DeepEP's low-latency dispatch has this shape; it is allocated beside
    `low_latency_buffer_bytes`.

    >>> receive_tensor_bytes(local_experts=2, max_tokens=128, ranks=144, copy_bytes=7392) / 1e6
    272.498688
    """
    check = Violations()
    whole(check, local_experts=local_experts, max_tokens=max_tokens, ranks=ranks, copy_bytes=copy_bytes)
    check.raise_if_any()
    return int(local_experts) * int(max_tokens) * int(ranks) * int(copy_bytes)


@checked
def payload_bound(*, top_k: int, devices: int) -> Fraction:
    """Most that can be payload when every device reserves, for each other one, room for all of its tokens.

    Parameters
    ----------
    top_k, devices
        Experts a token selects; devices ``D`` of the all-to-all.

    Returns
    -------
    Fraction
        ``min(1, k/(D-1))``; 1 for one device, which sends nothing.

    Raises
    ------
    InstanceError
        Counts below 1.

    Notes
    -----
    Strength: upper bound for any routing: a token reaches at most k of the D-1 others, and all of them have room for
    it. FlashMoE (Aimuyo, Oh, Singh, 2025); lecture notes on MoE inference, section 6.

    >>> payload_bound(top_k=8, devices=64)
    Fraction(8, 63)
    """
    check = Violations()
    whole(check, top_k=top_k, devices=devices)
    check.raise_if_any()
    return min(Fraction(1), Fraction(int(top_k), int(devices) - 1)) if devices > 1 else Fraction(1)


@checked
def expected_payload(*, experts: int, top_k: int, devices: int, merged: bool = True) -> Fraction:
    """What is payload in such buffers on average under uniform routing.

    Parameters
    ----------
    experts, top_k, devices
        ``E`` experts evenly on ``D`` devices.
    merged
        A token travels once to a device, ``1 - C(E - E/D, k)/C(E, k)`` of the room; else once a pair, and the room is
        sized for that: ``min(k, E/D)`` copies a token, of which ``k/D`` are used.

    Raises
    ------
    InstanceError
        As in `moeopt.cost.unit_probability`.

    Notes
    -----
    Strength: exact expectation. Topics that cluster move both ways: what one pair of devices fills, others leave empty.

    >>> round(float(expected_payload(experts=256, top_k=8, devices=64)), 4)
    0.1199
    """
    check = Violations()
    top_k_of(check, experts=experts, top_k=top_k)
    whole(check, devices=devices)
    divides(check, "devices", devices, "experts", experts)
    check.raise_if_any()
    experts, top_k, devices = int(experts), int(top_k), int(devices)
    if devices == 1:
        return Fraction(1)
    if merged:
        return unit_probability(experts=experts, top_k=top_k, units=devices)
    return Fraction(top_k, devices * min(top_k, experts // devices))


@checked
def normal_buffer_bytes(*, hidden: int, ranks: int, sms: int = 20) -> int:
    """Memory that DeepEP's normal mode reserves on every rank, whatever the batch: tokens pass through it in chunks.

    Parameters
    ----------
    hidden
        Elements of a token, reserved in BF16 even where FP8 is sent.
    ranks
        Ranks of the group: up to 8 in one node, else whole nodes of 8.
    sms
        Streaming multiprocessors that communicate; two share a channel.

    Returns
    -------
    int
        Bytes: for every channel and NVLink peer a window of received tokens, and beyond one node, for every channel
        and node, two of 128.

    Raises
    ------
    InstanceError
        Counts below 1, ranks beyond a node that are no whole nodes.

    Notes
    -----
    Strength: exact for ``get_nvl_buffer_size_hint`` and ``get_rdma_buffer_size_hint`` of deepseek-ai/DeepEP,
    csrc/config.hpp, V1, with the windows of ``Buffer.get_dispatch_config``: 256 tokens in a node, 288 up
    to 64 ranks, then 480, 560 and 720; group sizes that it does not list take the next larger one's.

    >>> [round(normal_buffer_bytes(hidden=7168, ranks=ranks) / 1e6) for ranks in (8, 32, 144)]
    [336, 546, 1700]
    """
    check = Violations()
    whole(check, hidden=hidden, ranks=ranks, sms=sms)
    if not check.found and ranks > NODE_PEERS and ranks % NODE_PEERS:
        low = ranks // NODE_PEERS * NODE_PEERS
        rule = f"beyond {NODE_PEERS} must be a multiple of {NODE_PEERS}"
        check.add("ranks", ranks, rule=rule, fix=f"Use {low} or {low + NODE_PEERS}")
    check.raise_if_any()
    hidden, ranks = int(hidden), int(ranks)
    channels, nodes, peers = max(int(sms) // 2, 1), max(ranks // NODE_PEERS, 1), min(ranks, NODE_PEERS)
    token = 2 * hidden + TOKEN_META_BYTES
    window = next(tokens for most, tokens in NVL_WINDOWS if ranks <= most)
    total = _aligned(channels * peers * ((2 * nodes + 3) * 4 + window * token))
    if ranks > NODE_PEERS:
        total += _aligned(channels * nodes * 2 * ((2 * NODE_PEERS + 2) * 4 + RDMA_WINDOW * token))
    return total


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
