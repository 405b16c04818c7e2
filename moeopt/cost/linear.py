"""Linear attention: a state that every token changes, one after another in decoding, by chunks over a prompt."""

from __future__ import annotations

from moeopt.cost.attention_sizes import kv_copies
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, whole
from moeopt.cost.roofline import BF16, Numerics, Work
from moeopt.errors import Violations
from moeopt.llm.attention_counts import counted
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind
from moeopt.llm.memory import state_bytes

CHUNK = {"gated_delta": 64, "kda": 64, "lightning": 256}
"""Tokens of a chunk in public kernels (flash-linear-attention and transformers; vLLM for lightning attention)."""
DELTA_RULE = ("gated_delta", "kda")
LINEAR = LayerKind(linear=True)


@checked
def linear_decode(
    facts: LlmFacts, *, sequences: Number, queries: Number = 1, tp: int = 1, numerics: Numerics = BF16
) -> Work:
    """One linear layer for the next tokens of each sequence, whatever their context.

    Parameters
    ----------
    facts
        An LLM with linear layers.
    sequences, queries
        Sequences of this group of GPUs, and tokens of each: drafts that are checked, and one more.
    tp, numerics
        GPUs over which heads are split, and formats.

    Returns
    -------
    Work
        Of one GPU: ``B q (2 P + u g/t k w)`` operations, u = 7 for the delta rule and 5 without correction; weights,
        and the state read once and written once a query, since drafts may be refused.

    Raises
    ------
    InstanceError
        An LLM without linear layers, a size that is not known, `tp` that does not divide their heads.

    Notes
    -----
    Strength: model, a floor. Source: transformers, ``torch_recurrent_gated_delta_rule``: decay 1, what the key recalls,
    the update and the answer 2 operations each an element of the state.

    >>> from moeopt.llm import find
    >>> qwen = find("qwen3.5-397b-a17b")
    >>> one, two = (linear_decode(qwen, sequences=n) for n in (1, 2))
    >>> two.bytes - one.bytes == 2 * (64 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 64 * 128) * 2)
    True
    """
    check = Violations()
    not_negative(check, sequences=sequences, queries=queries)
    weights = _weights(facts, tp, check)
    states = float(sequences) * (1 + float(queries)) * state_bytes(facts, numerics.kv) / tp
    each = 7 if facts.attention.linear_kind in DELTA_RULE else 5
    flops = float(sequences) * float(queries) * (2 * weights + each * _elements(facts) / tp)
    return Work(flops, weights * numerics.weight_bytes + states, numerics.attention)


@checked
def linear_prefill(
    facts: LlmFacts, *, new_tokens: Number, sequences: int = 1, tp: int = 1, numerics: Numerics = BF16
) -> Work:
    """One linear layer over a prompt, or a part of one: linear in its tokens, whatever is cached.

    Parameters
    ----------
    facts, tp, numerics
        As in `linear_decode`.
    new_tokens, sequences
        Tokens of each of so many sequences.

    Notes
    -----
    Strength: model, a floor; raises as `linear_decode`. In chunks of C tokens a head takes, for each of them, products
    with the state, products within the chunk, and for the delta rule a triangular solve: ``6 k w + 2 C (3 k + 2 w) +
    2 C^2/3``, without correction ``4 k w + 2 C (k + w)``. Source: S. Yang et al., arXiv 2406.06484, and transformers,
    ``torch_chunk_gated_delta_rule``; Lightning Attention-2, arXiv 2401.04658.

    >>> from moeopt.llm import find
    >>> qwen = find("qwen3.5-397b-a17b")
    >>> one, two = (linear_prefill(qwen, new_tokens=tokens).flops for tokens in (4096, 8192))
    >>> two == 2 * one
    True
    """
    check = Violations()
    not_negative(check, new_tokens=new_tokens)
    whole(check, sequences=sequences)
    weights = _weights(facts, tp, check)
    at = facts.attention
    heads, key, value = int(at.linear_heads or 0) / tp, int(at.linear_key_dim or 0), int(at.linear_value_dim or 0)
    chunk = CHUNK[str(at.linear_kind)]
    if at.linear_kind in DELTA_RULE:
        one = 6 * key * value + 2 * chunk * (3 * key + 2 * value) + 2 * chunk**2 / 3
    else:
        one = 4 * key * value + 2 * chunk * (key + value)
    states = 2 * state_bytes(facts, numerics.kv) / tp if new_tokens else 0.0
    flops = float(new_tokens) * (2 * weights + heads * one)
    return Work(sequences * flops, weights * numerics.weight_bytes + sequences * states, numerics.attention)


def _weights(facts: LlmFacts, tp: int, check: Violations) -> float:
    if not facts.attention.linear:
        check.add("attention", facts.attention.kind, rule="has no linear layers", fix="Use another form")
    with check.within():
        kv_copies(facts, tp)
    check.raise_if_any()
    found = counted(facts, LINEAR)
    return found.split / tp + found.copied


def _elements(facts: LlmFacts) -> int:
    """Elements of a layer's state."""
    at = facts.attention
    return int(at.linear_heads or 0) * int(at.linear_key_dim or 0) * int(at.linear_value_dim or 0)
