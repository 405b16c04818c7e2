"""From the options of ``moeopt mesh``, or from an instance document, to a `MeshInstance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_fleet import gpus_of, sides_of
from moeopt.cli.mesh_options import Asked, Choice, Fleet, given
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.llm import LlmFacts
    from moeopt.mesh import Demand, GpuType, Imbalance, MeshInstance, Workload
    from moeopt.mesh.calibrated import Band

MOST_WHOLE = 1e18
"""Up to which a number with an exponent is taken as a whole one."""
INPUT, OUTPUT = 4000, 1000
"""Lengths where nothing is said: those that planners of the field compare by."""
LISTS = {
    "pools": ("prefill", "decode"),
    "all": ("colocated", "prefill", "decode", "apart", "long"),
}
"""Words of ``--families`` that stand for several."""


OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in ("input_tokens", "output_tokens", "cached", "objective", "gpu",
                                                        "families", "most_pp", "most_batch", "redundant", "engine",
                                                        "transport", "drafts", "price", "llm", "node_gpus")},
    "rate_per_s": "--rate",
    "ttft_s": "--ttft",
    "tpot_s": "--tpot",
    "stock": "--gpus",
    "gpus": "--gpu",
    "kv_formats": "--kv",
    "reserve_bytes": "--reserve",
    "sides": "--roles",
    "usable_memory": "--usable",
}  # fmt: skip
"""Fields of an instance, and the options that set them."""


@dataclass(frozen=True)
class Question:
    """An instance, and what was assumed to make it."""

    instance: MeshInstance
    notes: tuple[str, ...] = ()
    band: Band | None = None


def from_document(path: str) -> Question:
    """An instance document."""
    from moeopt.documents import read_bytes, read_json
    from moeopt.mesh.document import read_instance

    return Question(read_instance(read_json(read_bytes(path), path, allow_nan=True), path))


def from_options(which: WhichLlm, fleet: Fleet, asked: Asked, choice: Choice) -> Question:
    """An instance from options; every violation at once."""
    from moeopt.mesh import Demand, MeshInstance, Slo, Workload

    check = Violations()
    notes: list[str] = []
    llm = None
    with check.within():
        llm = which.facts()
        if llm is None:
            check.add("--llm", "missing", rule="there must be an LLM", fix="Give --llm NAME or --hf-config FILE")
        else:
            _known_attention(llm, check)
    gpus: list[GpuType] = []
    with check.within():
        gpus = gpus_of(fleet, notes)
    ttft = None if asked.ttft is None else units.seconds("--ttft", asked.ttft, check)
    tpot = None if asked.tpot is None else units.seconds("--tpot", asked.tpot, check)
    workload, slo = None, None
    with check.within():
        workload = _workload(asked, notes)
    with check.within():
        slo = Slo(ttft, tpot)
    rest = _choices(choice, fleet, llm, check)
    numerics = rest.pop("numerics")
    objective: Any = asked.objective or _objective(asked, gpus)
    band, instance = None, None
    if llm is not None and gpus:  # what is wrong already has a stand-in, so that all is said at once
        demand = Demand(llm, workload or Workload(1, 1, rate_per_s=1.0), slo or Slo(), numerics)
        with check.within():
            if fleet.calibration is not None:
                gpus, rest["overhead_s"], band = _calibrated(fleet.calibration, gpus, demand, notes)
        with check.within():
            instance = MeshInstance((demand,), tuple(gpus), objective, name=llm.name, **rest)
    if check.found:
        raise InstanceError([_as_typed(one) for one in check.found])
    assert instance is not None
    return Question(instance, tuple(notes), band)


def _known_attention(llm: LlmFacts, check: Violations) -> None:
    """Refuse an LLM whose attention no closed form covers, before the work."""
    from moeopt.llm.counts import parts_of

    try:
        parts_of(llm)
    except InstanceError as error:
        for one in error.violations:
            if one.field == "family":
                fix = "Its mesh cannot be modelled; moeopt info llms lists the attention of others"
                check.add("--llm", llm.name, rule=one.rule, fix=fix)


def _as_typed(violation: Violation) -> Violation:
    """The same of the option that sets the field."""
    name, bracket, rest = violation.field.partition("[")
    option = OPTIONS.get(name)
    return violation if option is None else replace(violation, field=f"{option}{bracket}{rest}")


def question(path: str | None, which: WhichLlm, fleet: Fleet, asked: Asked, choice: Choice) -> Question:
    """From a document or from options, not both."""
    if path is None:
        return from_options(which, fleet, asked, choice)
    options = given(which, fleet, asked, choice)
    if options:
        rule = "is an instance document, which says everything itself"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(options)}, or the document")])
    return from_document(path)


def _calibrated(
    path: str, gpus: list[GpuType], demand: Demand, notes: list[str]
) -> tuple[list[GpuType], float, Band | None]:
    """GPUs with measured constants, seconds of launches of a layer, and the band of answers: the widest."""
    from moeopt.calibrate import read_calibration
    from moeopt.mesh.calibrated import calibrated
    from moeopt.mesh.step.numerics import served

    constants = read_calibration(path)
    check = Violations()
    if not constants.kernels and not constants.collectives:
        has = "has constants of whole steps alone" if constants.steps else "has no constants"
        rule = f"{has}, which change no answer: a mesh is made of expert kernels and collectives"
        fix = (
            "Give moeopt calibrate a table of tokens, hidden, width, experts, top_k, time; or of op, ranks, bytes, time"
        )
        check.add("--calibration", path, rule=rule, fix=fix)
        check.raise_if_any()
    if constants.steps:
        labels = ", ".join(dict.fromkeys(step.config or "of no name" for step in constants.steps))
        notes.append(f"step constants ({labels}) of {path} are not used: a mesh is made of kernels and collectives")
    width = demand.llm.expert_width or demand.llm.dense_width or 1
    made = []
    for gpu in gpus:
        numerics = served(demand.llm, gpu.machine, demand.numerics)
        made.append(calibrated(gpu, constants, expert_width=width, numerics=numerics))
        notes += made[-1].notes
    band = max((one.band for one in made), key=lambda band: band.high / band.low)
    return [one.gpu for one in made], max(one.overhead_s for one in made), band


def _objective(asked: Asked, gpus: list[GpuType]) -> str:
    if asked.rate is None:
        return "goodput"
    if all(gpu.price is not None for gpu in gpus):
        return "price"
    return "gpus"


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
        said = f"prompts of {INPUT:,} tokens" + (f" and answers of {OUTPUT:,}" if asked.output_tokens is None else "")
        notes.append(f"{said} are assumed: --input-tokens, --output-tokens")
    check.raise_if_any()
    assert tokens is not None
    return Workload(tokens, output, asked.cached, asked.rate)


def _choices(choice: Choice, fleet: Fleet, llm: LlmFacts | None, check: Violations) -> dict[str, Any]:
    from moeopt.cost.roofline import BF16, FP4, FP8

    found: dict[str, Any] = {"numerics": None}
    if choice.dtype is not None:
        known = {"bf16": BF16, "fp8": FP8, "fp4": FP4}
        if choice.dtype not in known:
            check.add("--dtype", choice.dtype, rule="must be bf16, fp8 or fp4", fix="Use one of these")
        found["numerics"] = known.get(choice.dtype)
    if choice.families is not None:
        names = [name for part in choice.families.split(",") for name in LISTS.get(part.strip(), (part.strip(),))]
        found["families"] = tuple(dict.fromkeys(names))
    if choice.kv is not None:
        found["kv_formats"] = tuple(part.strip() for part in choice.kv.split(","))
    for option in ("most_pp", "most_batch", "engine", "transport"):
        if getattr(choice, option) is not None:
            found[option] = getattr(choice, option)
    if choice.redundant is not None:
        found["redundant"] = tuple(_whole(part, check) for part in choice.redundant.split(","))
    if choice.drafts is not None:
        found["drafts"] = tuple(units.numbers("--drafts", choice.drafts, check))
    if fleet.reserve is not None:
        found["reserve_bytes"] = units.size("--reserve", fleet.reserve, check) or 0.0
    if fleet.roles is not None:
        found["sides"] = sides_of(fleet.roles, check)
    with check.within():
        uneven = _imbalance(choice, llm)
        if uneven is not None:
            found["imbalance"] = uneven
    return found


def _whole(part: str, check: Violations) -> int:
    """A number of redundant experts; 1e3 is one as well, and what is too large is said by its limit."""
    try:
        return int(part)
    except ValueError:
        value = units.numbers("--redundant", part, Violations())[0]
        if not (0 <= value <= MOST_WHOLE and value.is_integer()) or not part.strip()[:1].isdecimal():
            rule = "must be a whole number >= 0"
            check.add("--redundant", part.strip() or "''", rule=rule, fix="Write 0,32: one or several numbers")
            return 0
        return int(value)


def _imbalance(choice: Choice, llm: LlmFacts | None) -> Imbalance | None:
    """How uneven ranks are, where that is asked."""
    from moeopt.mesh import Imbalance

    check = Violations()
    if choice.imbalance is not None and choice.loads is not None:
        check.add("--imbalance", choice.imbalance, rule="says the same as --loads", fix="Give one of them")
        check.raise_if_any()
    if choice.loads is not None:
        from moeopt.report.imbalance import imbalance_table
        from moeopt.workload import read_loads

        table = read_loads(choice.loads)
        return imbalance_table(table.loads, source=choice.loads, experts=None if llm is None else llm.experts)
    if choice.imbalance is None:
        return None
    if choice.imbalance == "even":
        return Imbalance.even()
    if choice.imbalance in ("mixed", "one-domain"):
        return Imbalance.shipped(choice.imbalance)
    try:
        ratio = float(choice.imbalance)
    except ValueError:
        ratio = 0.0
    most = (0 if llm is None else llm.experts) or float("inf")  # where one rank has all tokens of all experts
    if not 1 <= ratio < float("inf") or ratio > most:
        fix = "Write 1.2, even, mixed or one-domain"
        rule = "must be a number >= 1, or the name of shipped loads"
        if ratio > most:
            rule = f"must be at most the number of experts, {most}"
        check.add("--imbalance", choice.imbalance, rule=rule, fix=fix)
        check.raise_if_any()
    return Imbalance(f"{ratio:g}, as asked", ((2, 0, ratio),))
