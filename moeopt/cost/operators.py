"""What the operators of one layer do on one GPU: attention, FFN, experts, and the head of the LLM.

Counted are matrix products, attention scores and values, weights and caches. Not counted: activations between
operators, norms, rotary embeddings, softmax, routing itself: some per cent at the batches of serving.
"""

from __future__ import annotations

from moeopt.cost.attention_sizes import attention_sizes
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, not_negative, whole
from moeopt.cost.pairs import causal_pairs
from moeopt.cost.roofline import BF16, Numerics, Work
from moeopt.cost.touched import touched_experts
from moeopt.errors import Violations
from moeopt.llm.attention_counts import latent_parameters
from moeopt.llm.facts import LlmFacts


@checked
def attention_decode(
    facts: LlmFacts,
    *,
    sequences: Number,
    context_tokens: Number,
    tp: int = 1,
    kvp: int = 1,
    out_tp: int | None = None,
    numerics: Numerics = BF16,
) -> Work:
    """Full attention of one layer for one new token of each sequence: projections, and the cache read once.

    Parameters
    ----------
    facts
        MHA, GQA, MQA or MLA; sizes as in `moeopt.llm`. For layers by their kind, an index included: `layer_decode`.
    sequences, context_tokens
        Sequences of this group of GPUs, and tokens that each attends to (at most the window, in layers with one).
    tp, kvp, out_tp
        GPUs over which heads, the sequence dimension of the cache, and the output projection are split; the last is
        `tp` unless given. Query, key and value projections are repeated over `kvp` (Helix, section 2.1).
    numerics
        Formats.

    Returns
    -------
    Work
        Of one GPU. ``flops = B (2 P + 4 heads/tp head_dim S/kvp)``, for MLA in latent space
        ``2 heads/tp (2 kv_rank + rope_dim) S/kvp``; ``bytes = P w + B S/kvp max(1, kv_heads/tp) 2 head_dim b``, for MLA
        ``(kv_rank + rope_dim) b`` whatever the `tp`. P are the weights of this GPU.

    Raises
    ------
    InstanceError
        A size not known, attention of another kind, degrees that do not divide the heads, negative numbers.

    Notes
    -----
    Strength: model, a floor. Sources: DeepSeek-V2 report, section 2.1 (MLA with absorbed projections); Helix (arXiv
    2507.07120), appendix A, for bytes with `tp` and `kvp`.

    >>> from moeopt.llm import find
    >>> work = attention_decode(find("mixtral-8x22b"), sequences=1, context_tokens=1024, tp=8)
    >>> work.bytes == (6144 * 128 * (48 + 8) * 2 * 2 + 1024 * 2 * 8 * 128 * 2) / 8
    True
    """
    check = Violations()
    not_negative(check, sequences=sequences, context_tokens=context_tokens)
    with check.within():
        sizes = attention_sizes(facts, tp=tp, kvp=kvp, out_tp=out_tp)
    check.raise_if_any()
    tokens, attended = float(sequences), float(context_tokens) / kvp
    flops = tokens * (2 * sizes.weights + sizes.decode_flops_a_pair * attended)
    moved = sizes.weights * numerics.weight_bytes + tokens * attended * sizes.kv_elements * numerics.kv_bytes
    return Work(flops, moved, numerics.attention)


@checked
def attention_prefill(
    facts: LlmFacts,
    *,
    new_tokens: Number,
    cached_tokens: Number = 0,
    sequences: int = 1,
    tp: int = 1,
    window: int | None = None,
    numerics: Numerics = BF16,
) -> Work:
    """Causal attention of one layer over a prompt, or over a chunk of one behind cached tokens.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    new_tokens, cached_tokens, sequences
        Tokens computed and tokens already cached, of each of so many sequences.
    window
        Tokens a query sees at most, itself included, in layers with a window.
    facts, tp, numerics
        As in `attention_decode`.

    Returns
    -------
    Work
        Of one GPU: ``2 P n + 4 heads/tp head_dim pairs`` operations, where each new token pairs with all before it and
        itself: ``pairs = n c + n (n + 1) / 2``. MLA works on expanded heads, ``2 heads/tp (nope + rope + v) pairs``,
        and expands cached latents again. Bytes: weights once, cached keys and values read and new ones written once.

    Notes
    -----
    Strength: model, a floor: kernels read keys again for each block of queries when they do not fit on chip.
    Source: FlashAttention (Dao et al. 2022) for traffic; DeepSeek-V2 report, section 2.1, for MLA.

    >>> from moeopt.llm import find
    >>> whole_prompt = attention_prefill(find("mixtral-8x22b"), new_tokens=2048)
    >>> halves = [attention_prefill(find("mixtral-8x22b"), new_tokens=1024, cached_tokens=c) for c in (0, 1024)]
    >>> whole_prompt.flops == halves[0].flops + halves[1].flops
    True
    """
    check = Violations()
    not_negative(check, new_tokens=new_tokens, cached_tokens=cached_tokens)
    whole(check, sequences=sequences)
    if window is not None:
        whole(check, window=window)
    with check.within():
        sizes = attention_sizes(facts, tp=tp)
    check.raise_if_any()
    new, cached = float(new_tokens), float(cached_tokens)
    pairs = causal_pairs(new, cached, None if window is None else float(window))
    seen = cached if window is None else min(cached, float(window))
    flops = 2 * sizes.weights * new + sizes.prefill_flops_a_pair * pairs + sizes.expand_flops * seen
    moved = (seen + new) * sizes.kv_elements * numerics.kv_bytes
    return Work(sequences * flops, sizes.weights * numerics.weight_bytes + sequences * moved, numerics.attention)


@checked
def dense_ffn(*, tokens: Number, hidden: int, width: int, tp: int = 1, numerics: Numerics = BF16) -> Work:
    """A gated dense FFN of one layer on one of `tp` GPUs: three matrices, ``6 n h w / tp`` operations.

    Strength: model, a floor. Raises `InstanceError` for counts below 1 and negative tokens.

    >>> dense_ffn(tokens=10, hidden=4, width=8, tp=2)
    Work(flops=960.0, bytes=96.0, dtype='bf16')
    """
    check = Violations()
    not_negative(check, tokens=tokens)
    whole(check, hidden=hidden, width=width, tp=tp)
    check.raise_if_any()
    weights = 3 * hidden * width / tp
    return Work(2 * float(tokens) * weights, weights * numerics.weight_bytes, numerics.ffn)


@checked
def moe_ffn(
    facts: LlmFacts,
    *,
    tokens: Number,
    ep: int = 1,
    tp: int = 1,
    load: float = 1.0,
    touched: float | None = None,
    router: bool = True,
    numerics: Numerics = BF16,
) -> Work:
    """Routed and shared experts of one layer on one GPU, as one grouped matrix product.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    facts
        An MoE model with its sizes.
    tokens
        Tokens of the whole EP group in one pass; each GPU has ``tokens / ep`` of its own, for which it computes the
        shared experts and the router.
    ep, tp
        GPUs over which experts, and the inner width of each expert, are split.
    load
        Selections of this GPU over the mean; the busiest GPU sets the pace of the layer.
    touched
        Distinct experts read on this GPU; ``None`` takes the expectation ``E/ep (1 - (1 - k/E)^n)``.
    router
        Whether the router's weights and operations count, and those of projections into the space of routed experts
        and back, where it is not the token's; both are copied over `tp`.

    Returns
    -------
    Work
        ``flops = 2 (n k / ep / tp load P + n / ep / tp P_shared + n / ep h E)``, and each touched expert, the shared
        ones and the router read once.

    Notes
    -----
    Strength: expectation for uniform selections, a floor: tiles padded to full blocks are not counted.
    Source: lecture notes on MoE inference, sections 2.1 to 2.3.

    >>> from moeopt.llm import find
    >>> work = moe_ffn(find("mixtral-8x22b"), tokens=1000, tp=8, router=False)  # all eight experts are read
    >>> round(work.bytes) == 8 * 3 * 6144 * 16384 * 2 // 8
    True
    """
    facts.need_experts("experts of a layer")
    facts.need("experts", "top_k", "dispatch_width", "expert_width", "hidden", why="for the roofline of its experts")
    if facts.shared_experts:
        facts.need("shared_width", why="for the roofline of its shared experts")
    experts, top_k, hidden = int(facts.experts or 0), int(facts.top_k or 0), int(facts.hidden or 0)
    check = Violations()
    not_negative(check, tokens=tokens, load=load)
    whole(check, ep=ep, tp=tp)
    if touched is not None:
        not_negative(check, touched=touched)
    elif is_number(ep) and ep > experts:
        rule = f"there are {experts} experts to spread, so some GPUs hold copies"
        check.add("ep", ep, rule=rule, fix="Give touched, the experts that this GPU reads")
    check.raise_if_any()
    if touched is None:
        touched = touched_experts(experts=experts, top_k=top_k, tokens=tokens) / ep
    one = 3 * int(facts.dispatch_width or 0) * int(facts.expert_width or 0) / tp
    shared = int(facts.shared_experts or 0) * 3 * hidden * int(facts.shared_width or 0) / tp
    gate = experts * hidden + latent_parameters(facts) if router else 0
    own = float(tokens) / ep
    flops = 2 * own * (top_k * load * one + shared + gate)
    return Work(flops, (touched * one + shared + gate) * numerics.weight_bytes, numerics.ffn)


@checked
def lm_head(facts: LlmFacts, *, tokens: Number, tp: int = 1, numerics: Numerics = BF16) -> Work:
    """The projection onto the vocabulary, split over `tp` GPUs: ``2 n h V / tp`` operations.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    >>> from moeopt.llm import find
    >>> lm_head(find("mixtral-8x22b"), tokens=1).flops
    393216000.0
    """
    facts.need("hidden", "vocab", why="for the roofline of its head")
    check = Violations()
    not_negative(check, tokens=tokens)
    whole(check, tp=tp)
    check.raise_if_any()
    weights = int(facts.hidden or 0) * int(facts.vocab or 0) / tp
    return Work(2 * float(tokens) * weights, weights * numerics.weight_bytes, numerics.attention)
