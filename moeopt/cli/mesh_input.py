"""From the options of ``moeopt mesh``, or from an instance document, to a `MeshInstance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_demands import demands_of
from moeopt.cli.mesh_fleet import gpus_of, sides_of
from moeopt.cli.mesh_options import Asked, Choice, Fleet, given
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.mesh import Demand, GpuType, Imbalance, MeshInstance
    from moeopt.mesh.calibrated import Band

MOST_WHOLE = 1e18
"""Up to which a number with an exponent is taken as a whole one."""
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
    from moeopt.mesh import MeshInstance

    check = Violations()
    notes: list[str] = []
    demands = demands_of(which, asked, choice.dtype, notes, check)
    gpus: list[GpuType] = []
    with check.within():
        gpus = gpus_of(fleet, notes)
    rest = _choices(choice, fleet, demands, check)
    objective: Any = asked.objective or _objective(demands, gpus)
    band, instance = None, None
    if demands and gpus:  # what is wrong already has a stand-in, so that all is said at once
        with check.within():
            if fleet.calibration is not None:
                gpus, rest["overhead_s"], band = _calibrated(fleet.calibration, gpus, demands, notes)
        name = ", ".join(dict.fromkeys(demand.llm.name for demand in demands))
        with check.within():
            instance = MeshInstance(tuple(demands), tuple(gpus), objective, name=name, **rest)
    if check.found:
        raise InstanceError([as_typed(one) for one in check.found])
    assert instance is not None
    return Question(instance, tuple(notes), band)


def as_typed(violation: Violation) -> Violation:
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
    path: str, gpus: list[GpuType], demands: list[Demand], notes: list[str]
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
    demand = demands[0]
    if any((one.llm, one.numerics) != (demand.llm, demand.numerics) for one in demands):
        rule = "holds for the experts of one LLM, and the demands are of several"
        check.add("--calibration", path, rule=rule, fix="Leave it out, or plan each LLM by itself")
        check.raise_if_any()
    width = demand.llm.expert_width or demand.llm.dense_width or 1
    made = []
    for gpu in gpus:
        numerics = served(demand.llm, gpu.machine, demand.numerics)
        made.append(calibrated(gpu, constants, expert_width=width, numerics=numerics))
        notes += made[-1].notes
    band = max((one.band for one in made), key=lambda band: band.high / band.low)
    return [one.gpu for one in made], max(one.overhead_s for one in made), band


def _objective(demands: list[Demand], gpus: list[GpuType]) -> str:
    if all(demand.workload.rate_per_s is None for demand in demands):
        return "goodput"
    if all(gpu.price is not None for gpu in gpus):
        return "price"
    return "gpus"


def _choices(choice: Choice, fleet: Fleet, demands: list[Demand], check: Violations) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
        uneven = _imbalance(choice, demands)
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


def _imbalance(choice: Choice, demands: list[Demand]) -> Imbalance | None:
    """How uneven ranks are, where that is asked."""
    from moeopt.mesh import Imbalance

    check = Violations()
    llms = {demand.llm.name: demand.llm for demand in demands}
    experts = min((llm.experts for llm in llms.values() if llm.experts is not None), default=None)
    if choice.loads is not None and len(llms) > 1:
        rule = f"are of one LLM, and the demands of {len(llms)}: {', '.join(llms)}"
        check.add("--loads", choice.loads, rule=rule, fix="Leave it out, or plan each LLM by itself")
        check.raise_if_any()
    if choice.imbalance is not None and choice.loads is not None:
        check.add("--imbalance", choice.imbalance, rule="says the same as --loads", fix="Give one of them")
        check.raise_if_any()
    if choice.loads is not None:
        from moeopt.report.imbalance import imbalance_table
        from moeopt.workload import read_loads

        table = read_loads(choice.loads)
        return imbalance_table(table.loads, source=choice.loads, experts=experts)
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
    most = experts or float("inf")  # where one rank has all tokens of all experts
    if not 1 <= ratio < float("inf") or ratio > most:
        fix = "Write 1.2, even, mixed or one-domain"
        rule = "must be a number >= 1, or the name of shipped loads"
        if ratio > most:
            rule = f"must be at most the number of experts, {most}"
        check.add("--imbalance", choice.imbalance, rule=rule, fix=fix)
        check.raise_if_any()
    return Imbalance(f"{ratio:g}, as asked", ((2, 0, ratio),))
