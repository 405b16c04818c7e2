"""Draft length of speculative decoding: the one with the least time per token, and what verifying costs an MoE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moeopt.cost.accepted import check_lengths
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, not_negative, positive, top_k_of, whole
from moeopt.cost.touched import expert_bytes_read
from moeopt.errors import Violations


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """The best draft length, and every length beside it.

    Parameters
    ----------
    length
        Drafted tokens of a round with the least time per token; 0 is plain decoding.
    token_s
        Seconds per token then.
    speedup
        Plain decoding's seconds per token over these.
    tokens_s
        Seconds per token for k = 0, 1, 2, ...
    """

    length: int
    token_s: float
    speedup: float
    tokens_s: tuple[float, ...]


@checked
def best_draft_length(
    lengths: Sequence[Number],
    *,
    draft_s: Number | Callable[[int], float],
    verify_s: Callable[[int], float],
    overhead_s: Number = 0.0,
) -> DraftChoice:
    """The draft length with the least ``(draft + verify(k) + overhead) / tokens``; not drafting at all competes too.

    Parameters
    ----------
    lengths
        Mean tokens of a round for k = 1, 2, ...: measured, or `accepted_lengths`.
    draft_s
        Seconds of one drafted token, or a function of k for all k of them (a tree, or heads that draft at once).
    verify_s
        Seconds of the target's step that checks k drafted tokens of every sequence; ``verify_s(0)`` is plain decoding.
        For MoE it grows with k even where dense LLMs do not feel it: more tokens touch more experts, see
        `moeopt.cost.verify_step_s`.
    overhead_s
        Seconds of sampling and scheduling that a round adds when it drafts.

    Returns
    -------
    DraftChoice
        The shortest of equal lengths.

    Raises
    ------
    InstanceError
        Lengths outside ``[1, k + 1]``, negative times, a function that returns no finite number >= 0, a plain step of
        0 seconds.

    Notes
    -----
    Strength: exact minimum over the given lengths. The batch stays the same for all k: that drafted tokens need cache
    and memory is the caller's to check.

    >>> curve = [1.79, 2.27, 2.49, 2.54, 2.55]  # DeepSeek-V4-Pro's own drafter, coding
    >>> choice = best_draft_length(curve, draft_s=0.001, verify_s=lambda k: 0.020 + 0.002 * k)
    >>> choice.length, round(choice.speedup, 2)
    (2, 1.75)
    """
    check_lengths(lengths)
    check = Violations()
    not_negative(check, overhead_s=overhead_s)
    if not callable(draft_s):
        not_negative(check, draft_s=draft_s)
    check.raise_if_any()
    seconds = []
    for length, brought in enumerate([1, *lengths]):
        step = _asked(check, "verify_s", verify_s, length)
        drafting = _asked(check, "draft_s", draft_s, length) if callable(draft_s) else length * float(draft_s)
        extra = drafting + float(overhead_s) if length else 0.0
        seconds.append((step + extra) / float(brought))
    if not check.found and seconds[0] == 0:
        check.add("verify_s", seconds[0], rule="plain decoding takes time", fix="Return seconds", where="0")
    check.raise_if_any()
    length = min(range(len(seconds)), key=seconds.__getitem__)
    speedup = seconds[0] / seconds[length] if seconds[length] else float("inf")
    return DraftChoice(length, seconds[length], speedup, tuple(seconds))


def _asked(check: Violations, name: str, function: Callable[[int], float], length: int) -> float:
    value = function(length)
    if not is_number(value) or value < 0:
        check.add(name, value, rule="must return finite seconds >= 0", fix="Repair the function", where=str(length))
        return 0.0
    return float(value)


@checked
def verify_step_s(
    length: int,
    *,
    batch: int,
    experts: int,
    top_k: int,
    expert_bytes: Number,
    layers: int,
    bytes_per_s: Number,
    fixed_s: Number = 0.0,
    token_s: Number = 0.0,
) -> float:
    """Seconds of the target's step when it is bound by memory: weights of all experts that the drafted tokens touch.

    Parameters
    ----------
    length, batch
        Drafted tokens of a sequence, and sequences: ``batch (length + 1)`` tokens are checked.
    experts, top_k, expert_bytes, layers
        Experts of a layer, how many a token selects, bytes of one, layers with experts; the part that one GPU holds if
        `bytes_per_s` is that of one GPU.
    bytes_per_s
        Memory bandwidth that is reached.
    fixed_s, token_s
        Seconds of all else: of the step (other weights, collectives), and of each checked token (caches, arithmetic).

    Raises
    ------
    InstanceError
        Counts below 1, ``top_k`` above ``experts``, negative sizes or times, a bandwidth that is not above 0.

    Notes
    -----
    Strength: expectation under uniform, independent routing, ``E (1 - (1 - k/E)^n)`` experts touched; tokens of one
    sequence select alike, so it is an upper estimate.

    >>> llm = dict(experts=256, top_k=8, expert_bytes=44e6, layers=58, bytes_per_s=2.7e12)
    >>> [round(verify_step_s(length, batch=4, **llm) * 1e3, 1) for length in (0, 4)]  # milliseconds
    [28.9, 113.7]
    """
    check = Violations()
    whole(check, 0, length=length)
    whole(check, batch=batch, layers=layers)
    top_k_of(check, experts=experts, top_k=top_k)
    positive(check, bytes_per_s=bytes_per_s)
    not_negative(check, expert_bytes=expert_bytes, fixed_s=fixed_s, token_s=token_s)
    check.raise_if_any()
    tokens = int(batch) * (int(length) + 1)
    shape = {"experts": int(experts), "top_k": int(top_k), "layers": int(layers)}
    read = expert_bytes_read(**shape, tokens=tokens, bytes_per_expert=expert_bytes)
    return float(fixed_s) + tokens * float(token_s) + read / float(bytes_per_s)
