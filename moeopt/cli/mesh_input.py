"""From the options of ``moeopt mesh``, or from an instance document, to a `MeshInstance`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moeopt.cli import units
from moeopt.cli.llms import WhichLlm
from moeopt.cli.mesh_options import Asked, Choice, Fleet, given
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.llm import LlmFacts
    from moeopt.mesh import Demand, GpuType, Imbalance, MeshInstance, Workload
    from moeopt.mesh.calibrated import Band

INPUT, OUTPUT = 4000, 1000
"""Lengths where nothing is said: those that planners of the field compare by."""
LISTS = {
    "pools": ("prefill", "decode"),
    "all": ("colocated", "prefill", "decode", "apart", "long"),
}
"""Words of ``--families`` that stand for several."""


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
    from moeopt.mesh import Demand, MeshInstance, Slo

    check = Violations()
    notes: list[str] = []
    llm = None
    with check.within():
        llm = which.facts()
        if llm is None:
            check.add("--llm", "missing", rule="there must be an LLM", fix="Give --llm NAME or --hf-config FILE")
    gpus: list[GpuType] = []
    with check.within():
        gpus = _gpus(fleet, notes)
    ttft = None if asked.ttft is None else units.seconds("--ttft", asked.ttft, check)
    tpot = None if asked.tpot is None else units.seconds("--tpot", asked.tpot, check)
    workload, slo = None, None
    with check.within():
        workload = _workload(asked, notes)
    with check.within():
        slo = Slo(ttft, tpot)
    rest: dict[str, Any] = {}
    with check.within():
        rest = _choices(choice, fleet, llm)
    check.raise_if_any()
    assert llm is not None and workload is not None and slo is not None
    numerics = rest.pop("numerics")
    objective: Any = asked.objective or _objective(asked, gpus)
    demand = Demand(llm, workload, slo, numerics)
    band = None
    if fleet.calibration is not None:
        gpus, rest["overhead_s"], band = _calibrated(fleet.calibration, gpus, demand, notes)
    return Question(MeshInstance((demand,), tuple(gpus), objective, name=llm.name, **rest), tuple(notes), band)


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

    output = OUTPUT if asked.output_tokens is None else asked.output_tokens
    check = Violations()
    tokens = asked.input_tokens
    if asked.context is not None:
        if asked.input_tokens is not None:
            check.add("--context", asked.context, rule="says the same as --input-tokens", fix="Give one of them")
        tokens = asked.context - output // 2
        if tokens < 1:
            rule = f"is not more than half of the answer, {output:,} tokens"
            check.add("--context", asked.context, rule=rule, fix="Give --output-tokens too")
        elif asked.output_tokens is None:
            notes.append(f"a context of {asked.context:,} tokens is taken as a prompt of {tokens:,} and half of an "
                         f"answer of {output:,}")  # fmt: skip
        else:
            notes.append(f"a context of {asked.context:,} tokens is a prompt of {tokens:,} and half of the answer")
    elif tokens is None:
        tokens = INPUT
        said = f"prompts of {INPUT:,} tokens" + (f" and answers of {OUTPUT:,}" if asked.output_tokens is None else "")
        notes.append(f"{said} are assumed: --input-tokens, --output-tokens")
    check.raise_if_any()
    return Workload(tokens, output, asked.cached, asked.rate)


def _gpus(fleet: Fleet, notes: list[str]) -> list[GpuType]:
    from moeopt.cost.constants import Efficiency
    from moeopt.mesh import GpuType

    check = Violations()
    prices = _prices(fleet, check)
    efficiency = None
    if fleet.usable is not None:
        with check.within():
            efficiency = Efficiency(usable_memory=fleet.usable)
    if fleet.cluster is not None:
        if fleet.gpu:
            check.add("--cluster", fleet.cluster, rule="has its GPUs, and --gpu names some too", fix="Give one of them")
        check.raise_if_any()
        return [_of_cluster(fleet, prices, efficiency, notes)]
    if not fleet.gpu:
        check.add(
            "--gpu", "missing", rule="there must be a type of GPU", fix="Give --gpu h800 --gpus 320, or --cluster"
        )
    found: list[GpuType] = []
    for text in fleet.gpu or ():
        name, *rest = text.split(":")
        stock, price = None, prices.get(name.lower(), prices.get(""))
        if len(rest) > 2:
            check.add("--gpu", text, rule="must be NAME, NAME:COUNT or NAME:COUNT:PRICE", fix="Write h20:64:1.85")
            continue
        if rest and rest[0]:
            if rest[0].isdecimal():
                stock = int(rest[0])
            else:
                check.add("--gpu", text, rule="must have a whole count", fix=f"Write {name}:64")
        if len(rest) == 2:
            listed = units.numbers("--gpu", rest[1], check)
            if price is not None:
                check.add("--price", price, rule=f"{name} has one with --gpu", fix="Give it once")
            price = listed[0]
        if fleet.gpus is not None and len(fleet.gpu or ()) == 1:
            if stock is not None:
                check.add("--gpus", fleet.gpus, rule="says the same as --gpu", fix="Give it once")
            stock = fleet.gpus
        with check.within():
            found.append(GpuType.of(name, stock=stock, price=price, efficiency=efficiency, node_gpus=fleet.node_gpus))
    if fleet.gpus is not None and len(fleet.gpu or ()) > 1:
        check.add("--gpus", fleet.gpus, rule="is for one type of GPU", fix="Write --gpu h20:64 --gpu l40s:64")
    if fleet.gpus is not None and fleet.gpus < 1:
        check.add("--gpus", fleet.gpus, rule="must be a whole number >= 1", fix="Leave it out for any number")
    for name in prices:
        if name and name not in {gpu.split(":")[0].lower() for gpu in fleet.gpu or ()}:
            check.add("--price", name, rule="is no type of GPU given with --gpu", fix="Give --gpu too")
    check.raise_if_any()
    return found


def _prices(fleet: Fleet, check: Violations) -> dict[str, float]:
    """Price by name in small letters; the empty name is that of every type."""
    found: dict[str, float] = {}
    for part in (fleet.price or "").split(",") if fleet.price else ():
        name, equals, value = part.rpartition("=")
        number = units.numbers("--price", value, check)[0]
        if not number >= 0:
            check.add("--price", part, rule="must be a number >= 0", fix="Write h20=1.85")
        found[name.strip().lower() if equals else ""] = number
    return found


def _of_cluster(fleet: Fleet, prices: dict[str, float], efficiency: Any, notes: list[str]) -> GpuType:
    """One type of GPU with the links of a cluster: bandwidths of its tiers times the network efficiency."""
    from collections import Counter

    from moeopt.cli.collocate_options import find_cluster
    from moeopt.cost.constants import Efficiency
    from moeopt.cost.links import Link
    from moeopt.mesh import GpuType

    assert fleet.cluster is not None
    cluster = find_cluster(fleet.cluster)
    kind = _gpu_name(fleet.cluster)
    base = GpuType.of(kind, price=prices.get(kind.lower(), prices.get("")), efficiency=efficiency)
    part = (efficiency or Efficiency()).network
    inside = Counter(Counter(cluster.domain_of.tolist()).values()).most_common(1)[0][0]
    node = Counter(Counter(cluster.node_of.tolist()).values()).most_common(1)[0][0]
    tiers = cluster.tiers()
    within = next((tier for tier in tiers if max(tier.sizes) <= inside), None)
    beyond = next((tier for tier in tiers if max(tier.sizes) > inside), None)
    notes.append(f"{cluster.num_gpus} GPUs of {cluster.name}, links of its tiers times {part:g}")
    return replace(
        base,
        node_gpus=node,
        domain_gpus=inside,
        scale_up=Link(within.alpha_s, within.bytes_per_s * part) if within is not None else None,
        network=Link(beyond.alpha_s, beyond.bytes_per_s * part) if beyond is not None else None,
        stock=cluster.num_gpus,
    )


def _gpu_name(cluster: str) -> str:
    """The GPU of a reference cluster such as ``4x8-h100``."""
    from moeopt.cluster.catalogue import find_machine

    name = cluster.rpartition("-")[2] if "x" in cluster.partition("-")[0] else cluster
    try:
        found = find_machine(name).gpu
    except InstanceError:
        found = None
    if found is None:
        rule = "does not say which GPUs these are"
        fix = "Name a reference cluster (moeopt info clusters), or give --gpu and --gpus"
        raise InstanceError([Violation("--cluster", "", cluster, rule, fix)])
    return str(found)


def _choices(choice: Choice, fleet: Fleet, llm: LlmFacts | None) -> dict[str, Any]:
    from moeopt.cost.roofline import BF16, FP4, FP8

    check = Violations()
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
        listed = units.count("--redundant", choice.redundant, check)
        found["redundant"] = tuple(listed) if isinstance(listed, list) else (listed,)
    if choice.drafts is not None:
        found["drafts"] = tuple(units.numbers("--drafts", choice.drafts, check))
    if fleet.reserve is not None:
        found["reserve_bytes"] = units.size("--reserve", fleet.reserve, check) or 0.0
    if fleet.roles is not None:
        found["sides"] = _sides(fleet.roles, check)
    with check.within():
        uneven = _imbalance(choice, llm)
        if uneven is not None:
            found["imbalance"] = uneven
    check.raise_if_any()
    return found


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
    ratio = units.numbers("--imbalance", choice.imbalance, check)[0]
    check.raise_if_any()
    return Imbalance(f"{ratio:g}, as asked", ((2, 0, ratio),))


def _sides(text: str, check: Violations) -> dict[str, str]:
    """``attention=h20,experts=l40s`` with the names that GPUs have here."""
    from moeopt.llm.gpus import find_gpu

    found = {}
    for part in text.split(","):
        side, equals, name = part.partition("=")
        if not equals:
            check.add("--roles", part, rule="must be PART=GPU", fix="Write attention=h20,experts=l40s")
            continue
        with check.within():
            found[side.strip()] = find_gpu(name.strip(), "--roles").name
    return found
