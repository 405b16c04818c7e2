"""Degrees that a part of an LLM can be split by, and the reason for each that it cannot: heads, widths, blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import lcm

from moeopt.cost.checks import whole
from moeopt.cost.roofline import Numerics
from moeopt.errors import Violations
from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.llm.precision import FORMATS

MOST_DEGREE = 1 << 20
"""Degrees beyond this are refused before anything is searched."""


@dataclass(frozen=True)
class Degrees:
    """Degrees that are possible, and why each of the others is not."""

    allowed: tuple[int, ...]
    refused: Mapping[int, str]


@lru_cache(maxsize=1024)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, rising.

    >>> divisors(144)
    (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 36, 48, 72, 144)
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return (*small, *(number // d for d in reversed(small) if d * d != number))


def formats_of(llm: LlmFacts, numerics: Numerics | None) -> tuple[str | None, str | None]:
    """Formats outside and inside routed experts, as they are served; ``None`` where they are not known.

    Numerics name bytes; where the checkpoint has as many, it is served as it is, with its blocks of scales.

    >>> from moeopt.cost import BF16, FP8
    >>> from moeopt.llm import find
    >>> formats_of(find("deepseek-v3"), FP8), formats_of(find("deepseek-v3"), BF16), formats_of(find("kimi-k3"), None)
    (('fp8_block', 'fp8_block'), ('bf16', 'bf16'), ('bf16', 'mxfp4'))
    """
    if numerics is None:
        return llm.weight_format, llm.expert_format
    wanted = numerics.weights
    alike = [
        own if own in FORMATS and FORMATS[own].bits == FORMATS[wanted].bits else wanted
        for own in (llm.weight_format, llm.expert_format)
    ]
    return alike[0], alike[1]


def block_of(form: str | None) -> int:
    """What the width of a part must be a multiple of, so that no block of scales is cut in two.

    >>> block_of("fp8_block"), block_of("mxfp4"), block_of("fp8"), block_of("bf16")
    (128, 32, 1, 1)
    """
    block = FORMATS[form].block if form is not None else None
    return lcm(*(side for side in block if side)) if block is not None else 1


def allowed_tp(llm: LlmFacts, *, gpus: int, numerics: Numerics | None = None) -> Degrees:
    """Which divisors of so many GPUs attention heads can be split over.

    >>> from moeopt.llm import find
    >>> allowed_tp(find("llama-3.1-405b"), gpus=6)
    Degrees(allowed=(1, 2), refused={3: '128 heads do not divide by 3', 6: '128 heads do not divide by 6'})
    """
    return _degrees(gpus, lambda tp: tp_reasons(llm, tp, numerics))


def allowed_moe_tp(llm: LlmFacts, *, gpus: int, numerics: Numerics | None = None) -> Degrees:
    """Which divisors of so many GPUs one expert can be split over; what is left of the GPUs is EP.

    >>> from moeopt.llm import find
    >>> found = allowed_moe_tp(find("qwen3-30b-a3b"), gpus=8, numerics=Numerics("fp8_block"))
    >>> found.allowed, found.refused[4]
    ((1, 2), 'the 192 of 768 columns of an expert would cut blocks of 128')
    """
    return _degrees(gpus, lambda degree: moe_tp_reasons(llm, degree, numerics))


def nearest(value: int, options: Iterable[int]) -> str:
    """The next ones below and above, in words.

    >>> nearest(3, (1, 2, 4, 8)), nearest(9, (1, 2)), nearest(5, ())
    ('Use 2 or 4', 'Use 2', 'No value does')
    """
    listed = sorted(options)
    below = [option for option in listed if option < value][-1:]
    above = [option for option in listed if option > value][:1]
    words = " or ".join(map(str, below + above))
    return f"Use {words}" if words else "No value does"


def _degrees(gpus: int, reasons: Callable[[int], tuple[str, ...]]) -> Degrees:
    check = Violations()
    whole(check, gpus=gpus)
    if not check.found and gpus > MOST_DEGREE:
        check.add("gpus", gpus, rule=f"is above {MOST_DEGREE:,}", fix="Use fewer")
    check.raise_if_any()
    said = {degree: "; ".join(reasons(degree)) for degree in divisors(int(gpus))}
    return Degrees(
        tuple(degree for degree, why in said.items() if not why), {degree: why for degree, why in said.items() if why}
    )


@lru_cache(maxsize=4096)
def tp_reasons(llm: LlmFacts, tp: int, numerics: Numerics | None) -> tuple[str, ...]:
    """Why attention cannot be split over so many GPUs."""
    if tp == 1:
        return ()
    at, said = llm.attention, []
    if at.heads is None:
        return ("the number of heads is not known",)
    if at.heads % tp:
        return (f"{at.heads} heads do not divide by {tp}",)
    if at.kind in GROWING:
        if at.kv_heads is None:
            said.append("the number of KV heads is not known")
        elif at.kv_heads % tp and tp % at.kv_heads:
            said.append(f"{at.kv_heads} KV heads neither divide by {tp} nor divide it")
    if at.linear:
        for name, heads in (("linear heads", at.linear_heads), ("linear key heads", at.linear_key_heads)):
            if heads is None:
                said.append(f"the number of {name} is not known")
            elif heads % tp:
                said.append(f"{heads} {name} do not divide by {tp}")
    if at.kind == "compressed":
        if at.out_groups is None:
            said.append("the number of groups of outputs is not known")
        elif at.out_groups % tp:
            said.append(f"{at.out_groups} groups of outputs do not divide by {tp}")
    block = block_of(formats_of(llm, numerics)[0])
    if not said and block > 1:
        said += [
            f"the {part} rows or columns of {name} on one GPU would cut blocks of {block}"
            for name, part in _projected(llm, tp)
            if part % block
        ]
    return tuple(said)


def cp_reasons(llm: LlmFacts, cp: int) -> tuple[str, ...]:
    """Why the tokens of a prompt cannot be split over so many GPUs.

    >>> from moeopt.llm import find
    >>> cp_reasons(find("qwen3.5-397b-a17b"), 2), cp_reasons(find("deepseek-v3.2"), 2)
    (('linear layers pass a state along the prompt: splitting it has no closed form here',), ())
    """
    if cp == 1:
        return ()
    if llm.attention.linear:
        return ("linear layers pass a state along the prompt: splitting it has no closed form here",)
    if llm.attention.kind == "compressed":
        return ("compressed entries are made of neighbours: splitting them has no closed form here",)
    return ()


def kvp_reasons(llm: LlmFacts, kvp: int) -> tuple[str, ...]:
    """Why the tokens of a cache cannot be split over so many GPUs.

    >>> from moeopt.llm import find
    >>> kvp_reasons(find("deepseek-v3.2"), 2), kvp_reasons(find("deepseek-v3"), 2)
    (('an index selects among all tokens of a sequence, so each GPU keeps them all',), ())
    """
    if kvp == 1:
        return ()
    if llm.attention.index_layers:
        return ("an index selects among all tokens of a sequence, so each GPU keeps them all",)
    if llm.attention.kind == "compressed":
        return ("compressed entries are not dealt out over GPUs",)
    return ()


def _projected(llm: LlmFacts, tp: int) -> list[tuple[str, int]]:
    """Widths of one GPU's parts of the projections that heads split."""
    return _projected_full(llm, tp) + _projected_linear(llm, tp)


def _projected_linear(llm: LlmFacts, tp: int) -> list[tuple[str, int]]:
    at = llm.attention
    if not at.linear:
        return []
    return [
        ("linear values", int(at.linear_heads or 0) // tp * int(at.linear_value_dim or 0)),
        ("linear keys", int(at.linear_key_heads or 0) // tp * int(at.linear_key_dim or 0)),
    ]


def _projected_full(llm: LlmFacts, tp: int) -> list[tuple[str, int]]:
    at = llm.attention
    heads = int(at.heads or 0) // tp
    if at.kind == "compressed":
        outputs = int(at.out_groups or 0) // tp * int(at.out_rank or 0)
        return [("queries", heads * int(at.head_dim or 0)), ("the output", outputs)]
    if at.kind == "mla":
        nope, rope, value = int(at.nope_dim or 0), int(at.rope_dim or 0), int(at.v_dim or 0)
        return [
            ("queries", heads * (nope + rope)),
            ("expanded keys and values", heads * (nope + value)),
            ("the output", heads * value),
        ]
    if at.kind in GROWING:
        dim = int(at.head_dim or 0)
        return [("queries", heads * dim), ("keys", max(1, int(at.kv_heads or 0) // tp) * dim)]
    return []


@lru_cache(maxsize=4096)
def moe_tp_reasons(llm: LlmFacts, moe_tp: int, numerics: Numerics | None) -> tuple[str, ...]:
    """Why one expert cannot be split over so many GPUs."""
    if moe_tp == 1:
        return ()
    if llm.dense:
        return ("there are no experts",)
    return _width_reasons(llm.expert_width, moe_tp, block_of(formats_of(llm, numerics)[1]), "an expert")


def _width_reasons(width: int | None, degree: int, block: int, whose: str) -> tuple[str, ...]:
    if width is None:
        return (f"the width of {whose} is not known",)
    if width % degree:
        return (f"the {width} columns of {whose} do not divide by {degree}",)
    if width // degree % block:
        return (f"the {width // degree} of {width} columns of {whose} would cut blocks of {block}",)
    return ()


@lru_cache(maxsize=4096)
def dense_reasons(llm: LlmFacts, degree: int, numerics: Numerics | None) -> tuple[str, ...]:
    """Why dense layers and shared experts cannot be split over so many GPUs."""
    if degree == 1:
        return ()
    said: tuple[str, ...] = ()
    block = block_of(formats_of(llm, numerics)[0])
    if llm.dense_layers:
        said = _width_reasons(llm.dense_width, degree, block, "a dense layer")
    if llm.shared_experts and llm.moe_layers:
        width = llm.shared_width * llm.shared_experts if llm.shared_width is not None else None
        said += _width_reasons(width, degree, block, "the shared experts")
    return said
