"""What is asked of ``moeopt mesh``: one LLM by options, or several demands, each by a ``--demand``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_options import Asked
from moeopt.errors import Violation, Violations, did_you_mean

if TYPE_CHECKING:
    from moeopt.cost.roofline import Numerics
    from moeopt.llm import LlmFacts
    from moeopt.mesh import Demand, Workload

INPUT, OUTPUT = 4000, 1000
"""Lengths where nothing is said: those that planners of the field compare by."""
OF_LLM = ("llm", "hf_config")
NUMBERS = ("cached", "rate")
TEXTS = ("input_tokens", "output_tokens", "context", "ttft", "tpot")
KEYS = tuple(name.replace("_", "-") for name in (*OF_LLM, "rate", *TEXTS, "cached", "dtype"))
"""What a ``--demand`` may say, by the names of the options that say it of all."""


@dataclass(frozen=True)
class One:
    """One demand as options say it."""

    which: WhichLlm
    asked: Asked
    dtype: str | None


def demands_of(which: WhichLlm, asked: Asked, dtype: str | None, notes: list[str], check: Violations) -> list[Demand]:
    """Demands with stand-ins for what is wrong, which `check` notes; empty where an LLM is."""
    if not asked.demand:
        found = _demand(One(which, asked, dtype), notes, check)
        return [] if found is None else [found]
    made: list[Demand | None] = []
    for place, text in enumerate(asked.demand, 1):
        own, said = Violations(), list[str]()
        found = _demand(_one(text, which, asked, dtype, own), said, own)
        check.found += [_placed(one, place) for one in own.found]
        notes += [f"demand {place}: {note}" for note in said]
        made.append(found)
    return [] if None in made else [one for one in made if one is not None]


def _placed(violation: Violation, place: int) -> Violation:
    from moeopt.cli.mesh_input import as_typed

    return replace(violation, field=f"--demand {place}: {as_typed(violation).field.removeprefix('--')}")


def _one(text: str, which: WhichLlm, asked: Asked, dtype: str | None, check: Violations) -> One:
    """What a ``--demand`` says, and of the rest what is said of all."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        name = key.lower().replace("_", "-")
        if not equals or not value:
            check.add(
                f"--{key}" if key else "''",
                value or "''",
                rule="must be KEY=VALUE",
                fix="Write llm=mixtral-8x7b,rate=5,ttft=2s",
            )
        elif name not in KEYS:
            rule = f"is not one of {', '.join(KEYS)}"
            check.add(f"--{key}", value, rule=rule, fix=did_you_mean(name, KEYS, "Use one of these"))
        elif name.replace("-", "_") in values:
            check.add(name, value, rule="is given twice", fix="Give it once")
        else:
            values[name.replace("-", "_")] = value
    for name in NUMBERS:
        if name in values:
            values[name] = units.numbers(f"--{name}", values[name], check)[0]
    if {"input_tokens", "context"} & set(values):  # either of them takes the place of both
        asked = replace(asked, input_tokens=None, context=None)
    own = {name: values.pop(name) for name in OF_LLM if name in values}
    dtype = values.pop("dtype", dtype)
    return One(WhichLlm(**own) if own else which, replace(asked, **values), dtype)


def _demand(one: One, notes: list[str], check: Violations) -> Demand | None:
    from moeopt.mesh import Demand, Slo, Workload

    llm, workload, slo = None, None, None
    with check.within():
        llm = one.which.facts()
        if llm is None:
            check.add("--llm", "missing", rule="there must be an LLM", fix="Give --llm NAME or --hf-config FILE")
        else:
            _known_sizes(llm, check)
    ttft, tpot = (
        None if text is None else units.seconds(name, text, check)
        for name, text in (("--ttft", one.asked.ttft), ("--tpot", one.asked.tpot))
    )
    with check.within():
        workload = _workload(one.asked, notes)
    with check.within():
        slo = Slo(ttft, tpot)
    numerics = _numerics(one.dtype, check)
    if llm is not None and one.dtype is None:
        _known_format(llm, check)
    if llm is None:
        return None
    return Demand(llm, workload or Workload(1, 1, rate_per_s=1.0), slo or Slo(), numerics)


def _known_format(llm: LlmFacts, check: Violations) -> None:
    """Refuse an LLM whose weights have a format that nobody tells, before the work."""
    from moeopt.llm.precision import FORMATS

    if (llm.weight_format if llm.dense else llm.expert_format) not in FORMATS:
        rule = "is missing, and the configuration does not say the format of its weights"
        check.add("--dtype", "missing", rule=rule, fix="Give bf16, fp8 or fp4")


def _numerics(dtype: str | None, check: Violations) -> Numerics | None:
    from moeopt.cost.roofline import BF16, FP4, FP8

    known = {"bf16": BF16, "fp8": FP8, "fp4": FP4}
    if dtype is not None and dtype not in known:
        check.add("--dtype", dtype, rule="must be bf16, fp8 or fp4", fix="Use one of these")
    return None if dtype is None else known.get(dtype)


def _known_sizes(llm: LlmFacts, check: Violations) -> None:
    """Refuse an LLM of which a size is not known, before the work; every such size by its name."""
    from moeopt.cost import attended
    from moeopt.llm.counts import parts_of

    before = len(check.found)
    experts = () if llm.dense else ("experts", "top_k", "expert_width", "dispatch_width")
    with check.within():
        llm.need("hidden", "vocab", "attention.heads", *experts, why="to plan a mesh")
    if len(check.found) == before:
        with check.within():
            attended(llm, 1.0)
        with check.within():
            parts_of(llm)


def _workload(asked: Asked, notes: list[str]) -> Workload:
    from moeopt.mesh import Workload

    check = Violations()
    texts = (
        ("--input-tokens", asked.input_tokens),
        ("--output-tokens", asked.output_tokens),
        ("--context", asked.context),
    )
    tokens, output, context = (None if text is None else units.tokens(name, text, check) for name, text in texts)
    check.raise_if_any()
    output = OUTPUT if output is None else output
    if context is not None:
        if asked.input_tokens is not None:
            check.add("--context", asked.context, rule="says the same as --input-tokens", fix="Give one of them")
        tokens = context - output // 2
        if tokens < 1:
            rule = f"is not more than half of the answer, {output:,} tokens"
            check.add("--context", asked.context, rule=rule, fix="Give --output-tokens too")
        elif asked.output_tokens is None:
            notes.append(f"a context of {context:,} tokens is taken as a prompt of {tokens:,} and half of an "
                         f"answer of {output:,}")  # fmt: skip
        else:
            notes.append(f"a context of {context:,} tokens is a prompt of {tokens:,} and half of the answer")
    elif tokens is None:
        tokens = INPUT
        both = asked.output_tokens is None
        said = f"prompts of {INPUT:,} tokens" + (f" and answers of {OUTPUT:,}" if both else "")
        notes.append(f"{said} are assumed: --input-tokens" + (", --output-tokens" if both else ""))
    check.raise_if_any()
    assert tokens is not None
    return Workload(tokens, output, asked.cached, asked.rate)
