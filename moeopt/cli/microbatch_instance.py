"""The instance that the options of ``moeopt microbatch`` make: every fault at once, by the option's name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moeopt.cli.microbatch_options import STAGES, Choices, StageTimes, Wanted
from moeopt.cli.microbatch_sizes import OUTSIDE, kept, listed
from moeopt.cli.microbatch_sizes import Asked as AskedM
from moeopt.cli.modelled_rest import limited
from moeopt.errors import Violation, Violations

if TYPE_CHECKING:
    from moeopt.cli.modelled_rest import Dense
    from moeopt.cli.modelled_times import Modelled
    from moeopt.llm import LlmFacts
    from moeopt.microbatch import MicrobatchInstance, Table

FIELDS = {
    "layers": "--layers",
    "pattern": "--pattern",
    "m": "--m",
    "batches": "--batch",
    "micro_batch": "--micro-batch",
    "uneven": "--uneven",
    "latency": "--latency",
    "tbt_slo_s": "--tbt",
    "bytes_per_sequence": "--kv-bytes",
    "memory_bytes": "--memory",
    "objective": "--objective",
    "name": "--name",
}
"""The option of each field of an instance."""
MODELS = {
    "facts": "--llm",
    "llm": "--llm",
    "gpu": "--gpu",
    "tp": "--tp-a",
    "tp_a": "--tp-a",
    "tp_e": "--tp-e",
    "ep": "--ep",
    "context_tokens": "--context",
    "nodes": "--attention-nodes",
    "sequences": "--attention-nodes",
}
"""The option of each argument of a cost model."""
SAID = {
    r"\bor set uneven\b": "or give --uneven",
    r"\bor say extend\b": "or give --extend",
    r"bytes_per_sequence": "--kv-bytes",
    r"memory_bytes": "--memory",
    r"tbt_slo_s": "--tbt",
}
"""What the library says, and what the command line says instead."""


@dataclass(frozen=True)
class Asked:
    """What the options ask: the instance, notes on it, and the dense layers that it leaves out."""

    instance: MicrobatchInstance
    notes: tuple[str, ...] = ()
    dense: Dense | None = None
    memory: str = "--memory"
    tbt_s: float | None = None


def from_options(stages: StageTimes, choices: Choices, wanted: Wanted, modelled: Modelled, unit: str) -> Asked:
    """The instance, and what its times rest on; raises `InstanceError` with every fault of every option."""
    from moeopt.microbatch import MicrobatchInstance

    check = Violations()
    arguments = choices.arguments(check) | wanted.arguments(unit, check)
    times, said = stages.models(choices.pattern, unit, check)
    layers, notes, dense = stages.layers, list[str](), None
    if modelled.given():
        inner = Violations()
        with inner.within():
            found = modelled.model(choices.pattern)
            times = {stage: times.get(stage, model) for stage, model in found.times.items()}
            moe = len(found.facts.moe_layers)
            layers = moe if layers is None else layers
            dense = found.dense if layers == moe else None
            notes = [found.note]
            if found.dense is not None and dense is None:
                notes.append(f"--layers {layers}: all with experts; the {found.dense.said} of the LLM are left out")
            notes += _remember(arguments, choices.pattern, wanted, modelled, found.facts)
        check.found += [replace(one, field=MODELS.get(one.field, one.field)) for one in inner.found]
        check.raise_if_any()
    elif layers is None:
        check.add("--layers", "missing", rule="is needed", fix="Give the layers of the LLM, as --layers 61")
    inner = Violations()
    if not check.found:
        notes += kept(_wanted(choices, arguments), _tables(stages, times), str(stages.times), arguments, check)

    def build(**changed: Any) -> MicrobatchInstance:
        return MicrobatchInstance(times, layers=1 if layers is None else layers, **{**arguments, **changed})

    made = None
    with inner.within():
        if dense is None or "tbt_slo_s" not in arguments:
            made = build()
        else:
            tbt_s = arguments["tbt_slo_s"]
            made, more = limited(lambda **changed: build(**{"tbt_slo_s": None, **changed}), dense, tbt_s)
            notes += more
    ours = any(one.field in ("--times", "--batch") for one in check.found)
    rest = [one for one in inner.found if not (ours and one.rule.startswith(OUTSIDE))]
    check.found.extend(dict.fromkeys(spoken(one, choices.pattern, said) for one in rest))
    check.raise_if_any()
    assert made is not None
    memory = "--memory" if wanted.memory is not None else "the room beside the weights"
    return Asked(made, tuple(notes), dense, memory, arguments.get("tbt_slo_s"))


def _wanted(choices: Choices, arguments: Mapping[str, Any]) -> AskedM:
    """The m that are tried, and those that were listed."""
    from moeopt.microbatch.instance import DEFAULT_M

    if choices.m is not None:
        return AskedM(arguments["m"], listed(choices.m))
    return AskedM(arguments.get("m", DEFAULT_M), frozenset())


def _tables(stages: StageTimes, times: Mapping[str, Any]) -> dict[str, Table]:
    """Measured times that end somewhere, of stages that take a micro-batch."""
    from moeopt.microbatch import Table

    if stages.times is None or stages.extend:
        return {}
    return {stage: model for stage, model in times.items() if isinstance(model, Table) and stage != "rest"}


def _remember(
    arguments: dict[str, Any], pattern: str, wanted: Wanted, modelled: Modelled, facts: LlmFacts
) -> list[str]:
    """Add the memory that the LLM and its GPUs leave, where it was not given, and say what was assumed."""
    if wanted.memory is None:
        room = modelled.room(pattern, facts)
        arguments["memory_bytes"] = room.memory_bytes
        arguments.setdefault("bytes_per_sequence", room.bytes_per_sequence)
        return [room.note if wanted.kv_bytes is None else room.note_without_cache]
    if wanted.kv_bytes is None:
        from moeopt.llm import kv_bytes

        arguments["bytes_per_sequence"] = kv_bytes(facts, int(modelled.context or 0))
    return []


def option_of(stage: str, pattern: str, said: Collection[str] = ("td", "tb")) -> str:
    """The option that sets a stage's time; where neither --td nor --tb was given, that of both transfers.

    >>> option_of("attention", "ping-pong"), option_of("dispatch", "chunks"), option_of("exchange", "hop-b")
    ('--ta', '--tc', '--tc')
    """
    if stage in ("dispatch", "exchange") or (stage == "combine" and "tb" not in said):
        return "--tc"
    return next((f"--{name}" for name, one in STAGES.items() if one == stage), stage)


def spoken(violation: Violation, pattern: str, said: Collection[str] = ("td", "tb")) -> Violation:
    """A violation of the library under the option's name."""
    rule, fix = _said(violation.rule), _said(violation.fix)
    if violation.field == "times":
        stage = violation.where.split(",")[0]
        option = option_of(stage, pattern, said)
        if violation.value == "missing":
            fix = f"Give {option} 0.4, or {option} 0.1+0.002n with n tokens"
        return replace(violation, field=option, where="" if option != stage else violation.where, rule=rule, fix=fix)
    field = FIELDS.get(violation.field, violation.field)
    value = "missing" if violation.value == "None" else violation.value
    return replace(violation, field=field, value=value, rule=rule, fix=fix)


def _said(text: str) -> str:
    for pattern, words in SAID.items():
        text = re.sub(pattern, words, text)
    return text
