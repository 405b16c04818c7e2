"""All-to-all over nodes, straight or in two stages: messages, seconds, and the batch from which two stages pay."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, not_negative, whole
from moeopt.cost.constants import Efficiency
from moeopt.cost.dispatch import Copies
from moeopt.cost.links import Link
from moeopt.errors import Violations
from moeopt.llm.gpus import find_gpu


@dataclass(frozen=True)
class Fabric:
    """GPUs in nodes, and what one GPU has of each fabric.

    Parameters
    ----------
    gpus, nodes
        ``P`` and ``n``; nodes divide GPUs, ``g`` to a node.
    nic, nvlink
        The network, and the fabric within a node.

    Raises
    ------
    InstanceError
        Counts below 1, nodes that do not divide GPUs.
    """

    gpus: int
    nodes: int
    nic: Link
    nvlink: Link

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, gpus=self.gpus, nodes=self.nodes)
        divides(check, "nodes", self.nodes, "gpus", self.gpus)
        check.raise_if_any()
        object.__setattr__(self, "gpus", int(self.gpus))
        object.__setattr__(self, "nodes", int(self.nodes))

    @classmethod
    def of(cls, gpu: str, gpus: int, *, efficiency: Efficiency | None = None) -> Fabric:
        """So many GPUs of the table in full scale-up domains, with its links at their default latencies.

        Raises
        ------
        InstanceError
            An unknown GPU or one without confirmed links, a number that is neither within one domain nor several full
            ones.

        >>> Fabric.of("H800", 32).nodes, Fabric.of("H800", 4).nodes
        (4, 1)
        """
        row = find_gpu(gpu)
        check = Violations(row.name)
        whole(check, gpus=gpus)
        if row.domain is None:
            check.add("domain", "not known", rule="no source confirms it", fix="Build a Fabric from your own figures")
        elif not check.found and gpus > row.domain and gpus % row.domain:
            low = gpus // row.domain * row.domain
            rule = f"must fill domains of {row.domain} GPUs"
            check.add("gpus", gpus, rule=rule, fix=f"Use {low} or {low + row.domain}")
        check.raise_if_any()
        assert row.domain is not None
        nic, fast = Link.nic(gpu, efficiency=efficiency), Link.scale_up(gpu, efficiency=efficiency)
        return cls(gpus, max(1, gpus // row.domain), nic=nic, nvlink=fast)

    @property
    def local_peers(self) -> int:
        """Other GPUs of a node."""
        return self.gpus // self.nodes - 1

    @property
    def flat_messages(self) -> int:
        """Messages of a GPU to other nodes when each goes to its target: ``(n-1) g``."""
        return (self.nodes - 1) * (self.gpus // self.nodes)

    @property
    def staged_messages(self) -> int:
        """Messages of a GPU to other nodes when each node gets one: ``n-1``.

        >>> fabric = Fabric(32, 4, nic=Link(5e-6, 40e9), nvlink=Link(1e-6, 360e9))
        >>> fabric.flat_messages, fabric.staged_messages
        (24, 3)
        """
        return self.nodes - 1


@checked
def flat_all_to_all_s(tokens: Number, *, fabric: Fabric, copies: Copies, token_bytes: Number) -> float:
    """Seconds of sending every copy straight to its GPU, a latency for every peer, both fabrics at once.

    Parameters
    ----------
    tokens
        Tokens on each GPU.
    fabric
        Sizes and links.
    copies
        Copies of a token by `moeopt.cost.expected_copies` with ``none`` or ``gpu``, or measured means.
    token_bytes
        Bytes of one copy.

    Returns
    -------
    float
        ``max((n-1) g alpha + nic bytes / B, (g-1) alpha + nvlink bytes / B)``.

    Raises
    ------
    InstanceError
        Negative tokens or bytes.

    Notes
    -----
    Strength: model of the mean rank; messages of a GPU start one after another. For a transport that posts all at once
    give links with the latency divided by its peers, or use ``all_to_all`` ``direct`` of `moeopt.cost.collective_s`.

    >>> from fractions import Fraction
    >>> fabric = Fabric(16, 2, nic=Link(5e-6, 50e9), nvlink=Link(1e-6, 450e9))
    >>> time = flat_all_to_all_s(256, fabric=fabric, copies=Copies(Fraction(1), Fraction(7, 4)), token_bytes=2**14)
    >>> round(time * 1e6, 3)  # 40 us of latencies
    123.886
    """
    return _largest(_flat(fabric, copies, _unit(tokens, token_bytes)), tokens)


@checked
def staged_all_to_all_s(
    tokens: Number, *, fabric: Fabric, copies: Copies, token_bytes: Number, chunks: int = 1, chunk_s: float = 0.0
) -> float:
    """Seconds of two stages: one message a node over the network, then within the node.

    Parameters
    ----------
    tokens, fabric, token_bytes
        As in `flat_all_to_all_s`.
    copies
        Copies of a token by `moeopt.cost.expected_copies` with ``rail`` or ``node``, or measured means.
    chunks, chunk_s
        Parts in which the two stages overlap, and what each part after the first costs, seconds.

    Returns
    -------
    float
        ``a + b`` with one chunk, else ``max(a, b) + min(a, b)/chunks + (chunks-1) chunk_s``, for the stages' times
        ``a = (n-1) alpha + nic bytes / B`` and ``b = (g-1) alpha + nvlink bytes / B``.

    Raises
    ------
    InstanceError
        Negative tokens, bytes or times, chunks below 1.

    Notes
    -----
    Strength: model, as in `flat_all_to_all_s`. DeepSpeed-MoE (Rajbhandari et al., arXiv 2201.05596), figure 8, and
    HierMoE (arXiv 2508.09591), which adds what is merged.

    >>> from fractions import Fraction
    >>> fabric = Fabric(16, 2, nic=Link(5e-6, 50e9), nvlink=Link(1e-6, 450e9))
    >>> copies = Copies(Fraction(1, 2), Fraction(7, 4))  # both experts of a token share a node: one copy of 16 KiB
    >>> round(staged_all_to_all_s(256, fabric=fabric, copies=copies, token_bytes=2**14) * 1e6, 3)
    70.254
    """
    check = Violations()
    whole(check, chunks=chunks)
    not_negative(check, chunk_s=chunk_s)
    unit = 0.0
    with check.within():
        unit = _unit(tokens, token_bytes)
    check.raise_if_any()
    first, second = (fixed + slope * float(tokens) for fixed, slope in _stages(fabric, copies, unit))
    chunks = int(chunks)
    return max(first, second) + min(first, second) / chunks + (chunks - 1) * float(chunk_s)


@checked
def flat_range(
    *, fabric: Fabric, flat: Copies, staged: Copies, token_bytes: Number
) -> tuple[float, float | None] | None:
    """Tokens on a GPU for which sending straight is at least as quick as two stages, without overlap of the stages.

    Parameters
    ----------
    fabric, token_bytes
        As in `flat_all_to_all_s`.
    flat, staged
        Copies of a token of the two ways.

    Returns
    -------
    tuple or None
        From and to, ``None`` for no upper end; ``None`` alone: two stages are always quicker. Outside of the range two
        stages pay: with few tokens they save latencies, with many they save bytes if they merge enough.

    Raises
    ------
    InstanceError
        Bytes of a token that are negative.

    Notes
    -----
    Strength: exact for the model. The straight way is the larger of two lines in the tokens and the other way is one
    line, so their difference is convex, and where it is not above 0 is one range.

    >>> from moeopt.cost.dispatch import expected_copies
    >>> fabric = Fabric(32, 4, nic=Link(5e-6, 40e9), nvlink=Link(1e-6, 360e9))
    >>> shape = dict(experts=256, top_k=8, gpus=32, nodes=4)
    >>> straight, by_rail = expected_copies(**shape), expected_copies(**shape, merge="rail")
    >>> low, high = flat_range(fabric=fabric, flat=straight, staged=by_rail, token_bytes=7168)
    >>> round(low), high  # nothing is merged: two stages save 21 messages, and pay with bytes on NVLink
    (703, None)
    >>> merged = expected_copies(**shape, merge="node")
    >>> flat_range(fabric=fabric, flat=straight, staged=merged, token_bytes=7168) is None
    True
    """
    unit = _unit(0, token_bytes)
    stages = _stages(fabric, staged, unit)
    fixed, slope = sum(line[0] for line in stages), sum(line[1] for line in stages)
    low, high = 0.0, float("inf")
    for start, rise in _flat(fabric, flat, unit):  # start + rise t <= fixed + slope t
        room, steeper = fixed - start, rise - slope
        if steeper > 0:
            high = min(high, room / steeper)
        elif steeper < 0:
            low = max(low, room / steeper)
        elif room < 0:
            return None
    if low > high or high < 0:
        return None
    return low, None if high == float("inf") else high


def _unit(tokens: Number, token_bytes: Number) -> float:
    check = Violations()
    not_negative(check, tokens=tokens, token_bytes=token_bytes)
    check.raise_if_any()
    return float(token_bytes)


def _flat(fabric: Fabric, copies: Copies, unit: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds on the network and within the node, each fixed and a token."""
    nic, nvlink = _slopes(fabric, copies, unit)
    return (fabric.flat_messages * fabric.nic.alpha_s, nic), (fabric.local_peers * fabric.nvlink.alpha_s, nvlink)


def _stages(fabric: Fabric, copies: Copies, unit: float) -> tuple[tuple[float, float], tuple[float, float]]:
    nic, nvlink = _slopes(fabric, copies, unit)
    return (fabric.staged_messages * fabric.nic.alpha_s, nic), (fabric.local_peers * fabric.nvlink.alpha_s, nvlink)


def _slopes(fabric: Fabric, copies: Copies, unit: float) -> tuple[float, float]:
    return (
        float(copies.nic) * unit / fabric.nic.bytes_per_s,
        float(copies.nvlink) * unit / fabric.nvlink.bytes_per_s,
    )


def _largest(lines: tuple[tuple[float, float], ...], tokens: Number) -> float:
    return max(fixed + slope * float(tokens) for fixed, slope in lines)
