"""Bytes that every rank sends in one layer under context parallelism, where a sequence is cut over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, not_negative, whole
from moeopt.cost.exact import plain, times
from moeopt.errors import Violations


@dataclass(frozen=True, slots=True)
class CpVolume:
    """Context parallelism in one layer, forward.

    Parameters
    ----------
    sent_bytes
        What every rank sends.
    rounds
        Exchanges one after another, each with a latency.
    kv_peak_bytes
        Keys and values that a rank holds at once; a ring holds the block it uses and the one on its way.
    """

    sent_bytes: Number
    rounds: int
    kv_peak_bytes: Number


@checked
def cp_volume(
    *,
    query_bytes: Number,
    kv_bytes: Number,
    ring: int = 1,
    ulysses: int = 1,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> CpVolume:
    """Ring attention, Ulysses, or both: ``C = U R`` ranks, all-to-all within U, keys and values around R.

    Parameters
    ----------
    query_bytes, kv_bytes
        Bytes of one layer for the whole sequence: queries (``tokens heads head_dim b``; the output is as large), and
        keys and values (``2 tokens kv_heads head_dim b``).
    ring, ulysses
        ``R`` and ``U``; 1 leaves a scheme out.
    heads, kv_heads
        If given, `ulysses` must divide both.

    Returns
    -------
    CpVolume
        ``(U-1)/U (2 query + kv)/C + (R-1) kv/C`` sent; exact if the bytes are. The same for stripes, which only change
        which tokens a rank holds.

    Raises
    ------
    InstanceError
        Negative bytes, degrees below 1, heads that U does not divide.

    Notes
    -----
    Strength: exact counts, forward only. Ring: Liu et al., arXiv 2310.01889 (R - 1 of the R steps send). Ulysses:
    Jacobs et al., arXiv 2309.14509. Both: USP, Fang and Zhao, arXiv 2405.07719.

    >>> cp_volume(query_bytes=816, kv_bytes=160, ring=8).sent_bytes, cp_volume(query_bytes=816, kv_bytes=160, ulysses=8)
    (140, CpVolume(sent_bytes=196, rounds=2, kv_peak_bytes=20))
    """
    check = Violations()
    not_negative(check, query_bytes=query_bytes, kv_bytes=kv_bytes)
    whole(check, ring=ring, ulysses=ulysses)
    for name, value in (("heads", heads), ("kv_heads", kv_heads)):
        if value is not None:
            whole(check, **{name: value})
            divides(check, "ulysses", ulysses, name, value)
    check.raise_if_any()
    ring, ulysses, query_bytes, kv_bytes = int(ring), int(ulysses), plain(query_bytes), plain(kv_bytes)
    ranks = ring * ulysses
    turned = times(plain(2 * query_bytes + kv_bytes), Fraction(ulysses - 1, ulysses * ranks))
    around = times(kv_bytes, Fraction(ring - 1, ranks))
    peak = times(kv_bytes, Fraction(min(ring, 2), ranks))
    return CpVolume(plain(turned + around), (2 if ulysses > 1 else 0) + ring - 1, peak)


@checked
def cp_gather_volume(kv_bytes: Number, *, ranks: int) -> CpVolume:
    """Context parallelism that gathers all keys and values: the bytes of a ring in one exchange, all of them held.

    Parameters
    ----------
    kv_bytes
        Keys and values of one layer for the whole sequence, bytes.
    ranks
        ``C``.

    Raises
    ------
    InstanceError
        Negative bytes, ranks below 1.

    Notes
    -----
    Strength: exact for a ring or one-shot all-gather. Megatron Core, ``cp_comm_type = all_gather``.

    >>> cp_gather_volume(160, ranks=8)
    CpVolume(sent_bytes=140, rounds=1, kv_peak_bytes=160)
    """
    check = Violations()
    not_negative(check, kv_bytes=kv_bytes)
    whole(check, ranks=ranks)
    check.raise_if_any()
    ranks = int(ranks)
    return CpVolume(times(kv_bytes, Fraction(ranks - 1, ranks)), min(ranks - 1, 1), plain(kv_bytes))
