"""Bytes that every rank sends in one layer: tensor, sequence and expert parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, whole
from moeopt.cost.exact import plain, times
from moeopt.errors import Violations


@checked
def activation_bytes(tokens: Number, *, hidden: int, bytes_per_element: Number) -> Number:
    """Bytes of the activations of so many tokens, ``tokens hidden bytes``; exact if all three are.

    Raises
    ------
    InstanceError
        Negative tokens, a hidden size below 1, bytes that are not above 0.

    >>> activation_bytes(4096, hidden=8192, bytes_per_element=2) // 2**20
    64
    """
    check = Violations()
    not_negative(check, tokens=tokens)
    whole(check, hidden=hidden)
    positive(check, bytes_per_element=bytes_per_element)
    check.raise_if_any()
    return times(tokens, hidden, bytes_per_element)


@dataclass(frozen=True, slots=True)
class Passes:
    """Bytes a rank sends in one layer, forward and backward; inference has the first only."""

    forward_bytes: Number
    backward_bytes: Number

    @property
    def total_bytes(self) -> Number:
        """Both together."""
        return plain(self.forward_bytes + self.backward_bytes)


@checked
def tp_volume(boundary_bytes: Number, *, tp: int) -> Passes:
    """Tensor parallelism: two all-reduces a layer forward, after attention and after the FFN, and two backward.

    Parameters
    ----------
    boundary_bytes
        ``S``, bytes of the activations between blocks: batch x sequence x hidden x bytes of an element.
    tp
        Ranks of the group.

    Returns
    -------
    Passes
        ``4 (p-1)/p S`` each way; exact if `boundary_bytes` is.

    Raises
    ------
    InstanceError
        Negative bytes, a degree below 1.

    Notes
    -----
    Strength: exact for ring algorithms (`moeopt.cost.collective_schedule`), one row-parallel product a block.
    Megatron-LM (Shoeybi et al., arXiv 1909.08053). Gradients of weights over data parallelism are not counted.

    >>> tp_volume(8 * 1024, tp=8)
    Passes(forward_bytes=28672, backward_bytes=28672)
    """
    part = _part(boundary_bytes, tp)
    return Passes(times(4, part), times(4, part))


@checked
def sp_volume(boundary_bytes: Number, *, tp: int, regather: bool = True) -> Passes:
    """Tensor with sequence parallelism: each all-reduce becomes a reduce-scatter and an all-gather, of the same bytes.

    Parameters
    ----------
    boundary_bytes, tp
        As in `tp_volume`; the sequence is cut over the same group, so it is no factor of the world size.
    regather
        Training keeps only its own part of the input and gathers it again, in attention and in the FFN, for the
        gradients of weights: two more all-gathers backward, 25 % more in all. With frozen weights there are none.

    Notes
    -----
    Strength: exact for ring algorithms. Korthikanti et al., "Reducing activation recomputation in large transformer
    models" (arXiv 2205.05198), figure 5; the regather is that of Megatron Core. Errors as in `tp_volume`.

    >>> sp_volume(8 * 1024, tp=8).total_bytes / tp_volume(8 * 1024, tp=8).total_bytes
    1.25
    """
    part = _part(boundary_bytes, tp)
    return Passes(times(4, part), times(6 if regather else 4, part))


def _part(boundary_bytes: Number, tp: int) -> Number:
    check = Violations()
    not_negative(check, boundary_bytes=boundary_bytes)
    whole(check, tp=tp)
    check.raise_if_any()
    return times(boundary_bytes, Fraction(int(tp) - 1, int(tp)))


@dataclass(frozen=True, slots=True)
class EpVolume:
    """Expert parallelism in one layer: bytes of the whole group both ways, and what leaves its rank.

    Parameters
    ----------
    dispatch_bytes, combine_bytes
        Logical payload of the group: every (token, expert) pair, those on their own rank included.
    remote_share
        Part of it that leaves its rank, ``(P-1)/P``.
    ranks
        ``P``.
    """

    dispatch_bytes: Number
    combine_bytes: Number
    remote_share: Fraction
    ranks: int

    @property
    def logical_bytes(self) -> Number:
        """Both directions, all pairs."""
        return plain(self.dispatch_bytes + self.combine_bytes)

    @property
    def remote_dispatch_bytes(self) -> Number:
        """Dispatch that leaves its rank, whole group."""
        return times(self.dispatch_bytes, self.remote_share)

    @property
    def remote_bytes(self) -> Number:
        """Both directions, what leaves its rank, whole group."""
        return times(self.logical_bytes, self.remote_share)

    @property
    def rank_bytes(self) -> Number:
        """Both directions, what the mean rank sends."""
        return times(self.remote_bytes, Fraction(1, self.ranks))

    @property
    def peer_dispatch_bytes(self) -> Number:
        """Dispatch from one rank to one other, mean."""
        return times(self.dispatch_bytes, Fraction(1, self.ranks**2))


@checked
def ep_volume(
    tokens: Number, *, top_k: int, hidden: int, ranks: int, dispatch_bytes: Number = 1, combine_bytes: Number = 2
) -> EpVolume:
    """What an MoE layer sends: ``T k H`` elements to the experts and as many back.

    Parameters
    ----------
    tokens
        ``T``, tokens of the whole group in this layer.
    top_k, hidden
        Experts a token selects; elements of what is sent (the dispatched width, where it is not the hidden size).
    ranks
        ``P``, ranks over which the experts are spread.
    dispatch_bytes, combine_bytes
        Bytes of an element each way; by default FP8 out and BF16 back (DeepSeek-V3). Many texts use one for both.

    Raises
    ------
    InstanceError
        Negative tokens, counts below 1, bytes that are not above 0.

    Notes
    -----
    Strength: exact for the payload; the remote part is the mean under uniform routing without replicas. It counts every
    pair: `moeopt.cost.expected_copies` has what merging saves. No metadata, scales, padding or backward pass.
    Chapter on multi-node inference, 3.4, and note on MoE systems; DeepSeek-V3 report (arXiv 2412.19437), 3.4.

    >>> both = ep_volume(4096, top_k=2, hidden=8192, ranks=8, dispatch_bytes=2, combine_bytes=2)
    >>> both.dispatch_bytes // 2**20, both.remote_dispatch_bytes // 2**20, both.rank_bytes // 2**20
    (128, 112, 28)
    """
    check = Violations()
    not_negative(check, tokens=tokens)
    whole(check, top_k=top_k, hidden=hidden, ranks=ranks)
    positive(check, dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes)
    check.raise_if_any()
    elements = times(tokens, top_k, hidden)
    share = Fraction(int(ranks) - 1, int(ranks))
    return EpVolume(times(elements, dispatch_bytes), times(elements, combine_bytes), share, int(ranks))
