"""Chunked prefill: rounds of a prompt beside running decodes, and the chunk with the least time under a TBT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, positive, whole
from moeopt.errors import Violations


@checked
def chunk_rounds(prompt: int, *, budget: int, decode: int = 0) -> int:
    """Steps until a prompt is read, when every step has a budget of tokens and decodes come first.

    Parameters
    ----------
    prompt
        Tokens of the prompt.
    budget, decode
        Tokens of a step, and those of them that decodes take in each.

    Returns
    -------
    int
        ``ceil(prompt / (budget - decode))``.

    Raises
    ------
    InstanceError
        Negative or broken counts, a budget that decodes use up.

    Notes
    -----
    Strength: exact while as many sequences decode. Sarathi-Serve (Agrawal et al., arXiv 2403.02310); chapter on
    multi-node inference, 2.4.

    >>> chunk_rounds(32768, budget=2048, decode=256)
    19
    """
    check = Violations()
    whole(check, 0, prompt=prompt, decode=decode)
    whole(check, budget=budget)
    if not check.found and budget <= decode:
        rule = f"decodes take {decode} tokens of each step, nothing is left for the prompt"
        check.add("budget", budget, rule=rule, fix=f"Use at least {decode + 1}")
    check.raise_if_any()
    return -(-int(prompt) // (int(budget) - int(decode)))


@dataclass(frozen=True, slots=True)
class ChunkChoice:
    """The best chunk: its tokens, steps until the prompt is read, seconds of all of them and of the longest."""

    chunk: int
    rounds: int
    prefill_s: float
    longest_s: float


@checked
def best_chunk(
    prompt: int,
    *,
    step_s: Callable[[int, int], float],
    tbt_s: Number,
    multiple_of: int = 128,
    most: int | None = None,
) -> ChunkChoice:
    """The chunk that reads a prompt soonest while no step is longer than the time between tokens allows.

    Parameters
    ----------
    prompt
        Tokens of the prompt, at least 1.
    step_s
        Seconds of one step with so many prompt tokens after so many that are read, ``step_s(tokens, before)``, running
        decodes included; it grows with both.
    tbt_s
        Longest step allowed: the TBT of sequences that decode meanwhile.
    multiple_of, most
        Chunks tried: multiples, up to `most` or to the whole prompt.

    Returns
    -------
    ChunkChoice
        The largest chunk of equal seconds.

    Raises
    ------
    InstanceError
        Counts below 1, a TBT that is not above 0, a function that returns no finite number >= 0; a TBT below the
        shortest that any chunk can keep, which is then named.

    Notes
    -----
    Strength: exact minimum over the chunks tried, of one size for the whole prompt, the last one what is left. Small
    chunks read weights and caches more often, so the largest allowed is the usual answer, and not always: the last
    chunk of a large one may be nearly empty.

    >>> step = lambda tokens, before: 0.010 + 20e-6 * tokens + 1e-7 * before
    >>> best_chunk(8192, step_s=step, tbt_s=0.040)
    ChunkChoice(chunk=1408, rounds=6, prefill_s=0.225952, longest_s=0.0387232)
    >>> best_chunk(8192, step_s=step, tbt_s=0.012)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: tbt_s = 0.012: no chunk keeps it; the shortest possible is 0.0133664 s, with 128 tokens. Allow that, or move prefill to other GPUs.
    """  # noqa: E501
    check = Violations()
    whole(check, prompt=prompt, multiple_of=multiple_of)
    positive(check, tbt_s=tbt_s)
    if most is not None:
        whole(check, most=most)
    check.raise_if_any()
    prompt, multiple_of = int(prompt), int(multiple_of)
    top = prompt if most is None else min(prompt, int(most))
    sizes = [*range(multiple_of, top, multiple_of), top]
    found: list[ChunkChoice] = []
    for size in sizes:
        steps = [_asked(check, step_s, min(size, prompt - before), before) for before in range(0, prompt, size)]
        found.append(ChunkChoice(size, len(steps), sum(steps), max(steps)))
    kept = [choice for choice in found if choice.longest_s <= tbt_s]
    if not check.found and not kept:
        least = min(found, key=lambda choice: choice.longest_s)
        rule = f"no chunk keeps it; the shortest possible is {least.longest_s:.6g} s, with {least.chunk} tokens"
        check.add("tbt_s", tbt_s, rule=rule, fix="Allow that, or move prefill to other GPUs")
    check.raise_if_any()
    return min(kept, key=lambda choice: (choice.prefill_s, -choice.chunk))


def _asked(check: Violations, step_s: Callable[[int, int], float], tokens: int, before: int) -> float:
    value = step_s(tokens, before)
    if is_number(value) and value >= 0:
        return float(value)
    where, rule = f"{tokens}, {before}", "must return finite seconds >= 0"
    check.add("step_s", value, rule=rule, fix="Repair the function", where=where)
    return 0.0
