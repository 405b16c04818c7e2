"""Formats to compute in, where an instance names none: the checkpoint's, as far as a GPU has them."""

from __future__ import annotations

from moeopt.cost.roofline import Machine, Numerics
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts
from moeopt.llm.precision import FORMATS


def served(llm: LlmFacts, machine: Machine, numerics: Numerics | None = None, kv: str | None = None) -> Numerics:
    """Numerics of times: `numerics` if given, else weights as stored, FFNs in their arithmetic if the GPU has it.

    Weights of 8 bits are multiplied in FP8 (integers in INT8), those of 4 bits in FP4, then FP8, whatever the GPU has;
    else in BF16 after unpacking. Attention computes in BF16, and its cache is BF16 unless `kv` says otherwise.

    Raises
    ------
    InstanceError
        The format of the experts (of a dense LLM: of its weights) is not known.

    >>> from moeopt.llm import find
    >>> served(find("deepseek-v3"), Machine.of("H800"))
    Numerics(weights='fp8_block', kv='bf16', attention='bf16', ffn='fp8')
    >>> served(find("gpt-oss-120b"), Machine.of("A100")).ffn, served(find("gpt-oss-120b"), Machine.of("B200")).ffn
    ('bf16', 'fp4')
    """
    if numerics is not None:
        kept = numerics.kv if kv is None else kv
        return Numerics(numerics.weights, kept, numerics.attention, numerics.ffn)
    stored = llm.weight_format if llm.dense else llm.expert_format
    if stored not in FORMATS:
        check = Violations(llm.name)
        rule = "is not known, so neither are the bytes of its weights"
        check.add("numerics", stored, rule=rule, fix="Give the demand's numerics")
        check.raise_if_any()
    name, bits = str(stored), FORMATS[str(stored)].bits
    wanted = {4: ("fp4", "fp8"), 8: ("int8",) if name.startswith("int") else ("fp8",)}.get(bits, ())
    if name.startswith("int4"):
        wanted = ()  # engines unpack integers of 4 bits
    ffn = next((dtype for dtype in wanted if dtype in machine.flops_per_s), "bf16")
    return Numerics(name, kv or "bf16", "bf16", ffn)
