"""Check a shape: which slot totals work near by, and what a slot costs in memory; solves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.options import Json
from moeopt.cli.say import Say, complain
from moeopt.cli.verb import BAD_USAGE, DONE, verb
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance

EXAMPLE = """Example:

moeopt check --experts 256 --slots 288 --gpus 72 --nodes 9

moeopt check --experts 256 --slots 288 --gpus 72 --expert-bytes 42MiB --layers 58"""

NEAR = 3
"""How many feasible slot totals are listed on each side."""


@verb
def check(
    say: Say,
    json: Json,
    experts: Annotated[int, typer.Option("--experts", min=1, max=1_000_000, help="E, experts of a layer.")],
    slots: Annotated[int, typer.Option("--slots", help="S, slots of all GPUs.")],
    gpus: Annotated[int, typer.Option("--gpus", help="G, number of GPUs.")],
    nodes: Annotated[int, typer.Option("--nodes", help="N equal nodes.")] = 1,
    groups: Annotated[int | None, typer.Option("--groups", help="Q groups of experts, each kept on one node.")] = None,
    expert_bytes: Annotated[
        str | None, typer.Option("--expert-bytes", help="Size of one expert in one layer, as 42MiB.")
    ] = None,
    layers: Annotated[int, typer.Option("--layers", min=1, help="L, MoE layers.")] = 1,
    gpu_mem: Annotated[str | None, typer.Option("--gpu-mem", help="Memory a GPU has for experts, as 80GB.")] = None,
) -> int:
    """Say whether a shape can hold a placement: all violations at once, with the nearest values that work."""
    found = Violations()
    each = None if expert_bytes is None else units.size("--expert-bytes", expert_bytes, found)
    memory = None if gpu_mem is None else units.size("--gpu-mem", gpu_mem, found)
    if memory is not None and expert_bytes is None:
        found.add("--expert-bytes", "missing", rule="is needed beside --gpu-mem", fix="Give the size of an expert")
    found.raise_if_any()
    violations = _violations(experts, slots, gpus, nodes, groups)
    per_gpu = slots / gpus if gpus > 0 else 0.0
    facts: dict[str, Any] = {
        "ok": not violations,
        "violations": [str(violation) for violation in violations],
        "redundant_experts": slots - experts,
        "slots_per_gpu": per_gpu,
        "feasible_slots": _feasible(experts, slots, gpus) if gpus > 0 else [],
    }
    if each is not None:
        facts |= {"slot_bytes": each * layers, "gpu_bytes": each * layers * per_gpu}
    if each is not None and memory is not None:
        most = int(memory // (each * layers)) if each else 0
        facts["slots_that_fit"] = most
        if per_gpu > most:
            rule = f"{per_gpu:g} slots of {_bytes(each * layers)} each do not fit"
            violation = Violation(
                "--gpu-mem", "", gpu_mem or "", rule, f"At most {most} slots a GPU, {most * gpus} in all"
            )
            facts["ok"] = False
            facts["violations"].append(str(violation))
    if json.json:
        say.document(facts)
    else:
        _show(facts, experts, gpus, layers, say)
        for violation in facts["violations"]:
            complain(violation)
    return DONE if facts["ok"] else BAD_USAGE


def _violations(experts: int, slots: int, gpus: int, nodes: int, groups: int | None) -> list[Violation]:
    """What the instance itself would refuse; a shape may break several rules that are looked at in turn."""
    import numpy as np

    from moeopt.placement import PlacementInstance

    def build(**fields: Any) -> PlacementInstance:
        rule = {} if groups is None else {"groups": groups, "group_rule": "hierarchical"}
        return PlacementInstance(
            np.ones((1, experts)), **{"gpus": gpus, "slots": slots, "nodes": nodes, **rule, **fields}
        )

    try:
        build()
        return []
    except InstanceError as error:
        found = list(error.violations)
    fields = {violation.field for violation in found}
    if "slots" not in fields and "gpus" not in fields:  # what is wrong elsewhere must not hide the slots
        try:
            build(nodes=1, groups=None, group_rule="auto")
        except InstanceError as error:
            found.extend(error.violations)
    elif "nodes" not in fields and "groups" not in fields and "gpus" not in fields:
        try:
            build(slots=-(-experts // gpus) * gpus)
        except InstanceError as error:
            found.extend(violation for violation in error.violations if violation.field != "slots")
    return list(dict.fromkeys(found))


def _feasible(experts: int, slots: int, gpus: int) -> list[dict[str, int]]:
    """Multiples of G near S that hold every expert and leave no GPU more slots than there are experts."""
    low, high = -(-experts // gpus), experts
    middle = min(max(round(slots / gpus), low), high)
    return [
        {"slots": each * gpus, "slots_per_gpu": each, "redundant_experts": each * gpus - experts}
        for each in range(max(low, middle - NEAR), min(high, middle + NEAR) + 1)
    ]


def _show(facts: dict[str, Any], experts: int, gpus: int, layers: int, say: Say) -> None:
    from moeopt.cli.tables import table

    memory = "slot_bytes" in facts
    made = table("", "slots", "slots a GPU",
                 "redundant experts", *(("memory a GPU",) if memory else ()))  # fmt: skip
    for row in facts["feasible_slots"]:
        cells = [_bytes(facts["slot_bytes"] * row["slots_per_gpu"])] if memory else []
        made.add_row(str(row["slots"]), str(row["slots_per_gpu"]), str(row["redundant_experts"]), *cells)
    if facts["ok"]:
        each, more = facts["slots_per_gpu"], facts["redundant_experts"]
        say.show(f"ok: {each:g} slots a GPU, {more} redundant experts")
    say.show(f"slot totals that work for {experts} experts on {gpus} GPUs:")
    say.show(made)
    if memory:
        say.show(
            f"a slot costs {_bytes(facts['slot_bytes'])} on its GPU over {layers} layers; "
            f"this shape {_bytes(facts['gpu_bytes'])} a GPU"
        )


def _bytes(count: float) -> str:
    """Both families of units, as they differ by 7 % at a billion.

    >>> _bytes(2.38 * 2**30)
    '2.56 GB (2.38 GiB)'
    """
    for decimal, binary, power in (("TB", "TiB", 4), ("GB", "GiB", 3), ("MB", "MiB", 2), ("kB", "KiB", 1)):
        if count >= 1000**power:
            return f"{count / 1000**power:.2f} {decimal} ({count / 1024**power:.2f} {binary})"
    return f"{count:g} B"
