"""Handing the KV cache from prefill to decode: bytes, seconds, and when two pools can be worth it at all."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, fraction, is_number, not_negative, positive, whole
from moeopt.cost.exact import times
from moeopt.errors import Violations

LEAST_BYTES_PER_S = 1e6
"""Below this a bandwidth is taken for GB/s or Gb/s by mistake: no link that carries caches is as slow."""


@checked
def handoff_bytes(tokens: int, *, bytes_per_token: Number, cached_tokens: int = 0) -> Number:
    """Cache of a prompt that has to move; exact if the bytes of a token are.

    Parameters
    ----------
    tokens
        Tokens of the prompt.
    bytes_per_token
        All layers together, `moeopt.llm.kv_bytes_per_token`; for LLMs with windows or states use `moeopt.llm.kv_bytes`.
    cached_tokens
        Leading tokens that the decode side has already.

    Raises
    ------
    InstanceError
        Counts or bytes below 0, more cached tokens than there are.

    Notes
    -----
    Strength: exact. MLA caches are the same on all ranks of a tensor group: they move once.

    >>> handoff_bytes(2048, bytes_per_token=4_500_000)  # OPT-175B, DistServe (arXiv 2401.09670)
    9216000000
    """
    check = Violations()
    whole(check, 0, tokens=tokens, cached_tokens=cached_tokens)
    not_negative(check, bytes_per_token=bytes_per_token)
    if not check.found and cached_tokens > tokens:
        check.add("cached_tokens", cached_tokens, rule=f"there are tokens = {tokens}", fix=f"Use at most {tokens}")
    check.raise_if_any()
    return times(int(tokens) - int(cached_tokens), bytes_per_token)


@dataclass(frozen=True, slots=True)
class Handoff:
    """Seconds of one hand-off: the fixed part, the bytes, both, and both at the 95th percentile."""

    fixed_s: float
    transfer_s: float
    time_s: float
    p95_s: float


@checked
def handoff_s(
    size_bytes: Number,
    *,
    bytes_per_s: Number,
    links: int = 1,
    efficiency: float = 1.0,
    fixed_s: Number = 0.0,
    p95_factor: Number = 1.0,
) -> Handoff:
    """Seconds of moving a cache: ``fixed + bytes / (links x bytes/s x efficiency)``.

    Parameters
    ----------
    size_bytes
        Bytes to move, all links together. ``GB`` is 1e9 and ``GiB`` is 2**30: mixing them is 7 % of error.
    bytes_per_s
        Line rate of one link in one direction, **bytes** a second.
    links
        Links that carry parts of it at once: those of the smaller side, when meshes differ.
    efficiency
        Part of the line rate that is reached; 1 is the ideal.
    fixed_s
        Decision, exchange of addresses, synchronisation and first byte, seconds; no loading of models.
    p95_factor
        95th percentile over the mean of the whole, measured; 1 says nothing of tails.

    Raises
    ------
    InstanceError
        Negative bytes or times, no links, an efficiency outside (0, 1], a factor below 1, a bandwidth that is not above
        0 or below 1 MB/s: that is a slip of units.

    Notes
    -----
    Strength: model. DistServe (Zhong et al., arXiv 2401.09670) and the chapter on multi-node inference, 2.3,
    which prints 17.6 ms for the example below: 9,216 MB taken for 9.0 GiB, and those for 9.0 GB.

    >>> round(handoff_s(9_216_000_000, bytes_per_s=64e9, links=8).time_s * 1e3, 6)  # milliseconds
    18.0
    """
    check = Violations()
    not_negative(check, size_bytes=size_bytes, fixed_s=fixed_s)
    positive(check, bytes_per_s=bytes_per_s)
    if is_number(bytes_per_s) and 0 < bytes_per_s < LEAST_BYTES_PER_S:
        rule = "is below 1 MB/s: a bandwidth is in bytes a second here"
        check.add("bytes_per_s", bytes_per_s, rule=rule, fix="Multiply GB/s by 1e9, Gb/s by 1.25e8")
    whole(check, links=links)
    fraction(check, efficiency=efficiency)
    if not is_number(p95_factor) or p95_factor < 1:
        check.refuse("p95_factor", p95_factor, rule="must be a finite number >= 1", fix="Give 1, or measure it")
    check.raise_if_any()
    transfer = float(size_bytes) / (int(links) * float(bytes_per_s) * float(efficiency))
    total = float(fixed_s) + transfer
    return Handoff(float(fixed_s), transfer, total, total * float(p95_factor))


@dataclass(frozen=True, slots=True)
class Separation:
    """Whether separate pools can shorten the path of a request, and every term of that, seconds.

    Parameters
    ----------
    possible
        ``gain_s > 0``: necessary, not sufficient.
    gain_s
        What is won less what is added.
    terms_s
        Each term by name, those that are added as negative numbers; they sum up to `gain_s`.
    """

    possible: bool
    gain_s: float
    terms_s: dict[str, float]


@checked
def separation_gain(
    *, interference_s: Number, handoff_s: Number, scheduling_s: Number = 0.0, queueing_s: Number = 0.0
) -> Separation:
    """Prefill and decode apart can pay only if interference exceeds hand-off, scheduling and queueing together.

    Parameters
    ----------
    interference_s
        Seconds that a request loses to the other phase when both share GPUs.
    handoff_s
        Seconds of the hand-off, `moeopt.cost.handoff_s`; its 95th percentile where the SLO is one.
    scheduling_s, queueing_s
        Seconds that two pools add for deciding and for waiting.

    Raises
    ------
    InstanceError
        A negative time.

    Notes
    -----
    Strength: necessary condition on the latency of one request. Second copies of weights, stranded memory and upkeep
    are not seconds: compare goodput by GPU for those. Chapter on multi-node inference, 2.3.

    >>> found = separation_gain(interference_s=0.030, handoff_s=0.018, scheduling_s=0.002, queueing_s=0.005)
    >>> found.possible, round(found.gain_s, 6)
    (True, 0.005)
    """
    check = Violations()
    not_negative(check, interference_s=interference_s, handoff_s=handoff_s)
    not_negative(check, scheduling_s=scheduling_s, queueing_s=queueing_s)
    check.raise_if_any()
    terms = {
        "interference": float(interference_s),
        "handoff": -float(handoff_s),
        "scheduling": -float(scheduling_s),
        "queueing": -float(queueing_s),
    }
    gain = float(interference_s) - (float(handoff_s) + float(scheduling_s) + float(queueing_s))
    return Separation(gain > 0, gain, terms)
