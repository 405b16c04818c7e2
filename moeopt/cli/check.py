"""Check a shape: which slot totals work near by, and what a slot costs in memory; solves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.options import Json
from moeopt.cli.say import Say, complain, count
from moeopt.cli.spoken import spoken_violation
from moeopt.cli.verb import BAD_USAGE, DONE, INFEASIBLE, verb
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance

EXAMPLE = """Example:

moeopt check --experts 256 --slots 288 --gpus 72 --nodes 9

moeopt check --experts 256 --slots 288 --gpus 72 --expert-bytes 42MiB --layers 58"""

NEAR = 3
"""How many feasible slot totals are listed on each side."""
MOST_SLOTS = 2**24
"""More slots no instance has."""
MOST_LAYERS, MOST_BYTES = 1_000_000, 2**1000
"""More are surely a slip, and no double counts them."""


@verb
def check(
    say: Say,
    json: Json,
    experts: Annotated[int, typer.Option("--experts", min=1, max=1_000_000, help="E, experts of a layer.")],
    slots: Annotated[int, typer.Option("--slots", help="S, slots of all GPUs.")],
    gpus: Annotated[int, typer.Option("--gpus", help="G, number of GPUs.")],
    nodes: Annotated[int, typer.Option("--nodes", help="N equal nodes.")] = 1,
    groups: Annotated[int | None, typer.Option("--groups", help="Q groups of experts, each kept on one node.")] = None,
    group_rule: Annotated[
        str | None,
        typer.Option(
            "--group-rule", help="auto: groups that do not divide over the nodes are ignored; hierarchical: refused."
        ),
    ] = None,
    uneven_slots: Annotated[bool, typer.Option("--uneven-slots", help="GPUs may differ by one slot.")] = False,
    allow_doubles: Annotated[
        bool, typer.Option("--allow-doubles", help="Two replicas of an expert on one GPU are fine.")
    ] = False,
    expert_bytes: Annotated[
        str | None, typer.Option("--expert-bytes", help="Size of one expert in one layer, as 42MiB.")
    ] = None,
    layers: Annotated[int, typer.Option("--layers", min=1, help="L, MoE layers.")] = 1,
    gpu_mem: Annotated[str | None, typer.Option("--gpu-mem", help="Memory a GPU has for experts, as 80GB.")] = None,
) -> int:
    """Say whether a shape can hold a placement: all violations at once, with the nearest values that work.

    Exit 2 for a shape that place refuses too, 3 where the memory cannot hold one replica of each expert.
    """
    found = Violations()
    each = None if expert_bytes is None else units.size("--expert-bytes", expert_bytes, found)
    memory = None if gpu_mem is None else units.size("--gpu-mem", gpu_mem, found)
    if memory is not None and expert_bytes is None:
        found.add("--expert-bytes", "missing", rule="is needed beside --gpu-mem", fix="Give the size of an expert")
    if layers > MOST_LAYERS:
        found.add("--layers", layers, rule=f"must be at most {MOST_LAYERS}", fix="Check the number")
    elif each is not None and each > MOST_BYTES:
        found.add("--expert-bytes", expert_bytes or "", rule="is more than can be counted", fix="Check the unit")
    found.raise_if_any()
    rules: dict[str, Any] = {"nodes": nodes, "uneven_slots": uneven_slots, "distinct": not allow_doubles}
    rules |= {} if groups is None else {"groups": groups}
    rules |= {} if group_rule is None else {"group_rule": group_rule}
    violations, notes = _violations(experts, slots, gpus, rules)
    per_gpu = slots / gpus if gpus > 0 else 0.0
    facts: dict[str, Any] = {
        "ok": not violations,
        "violations": [str(spoken_violation(violation)) for violation in violations],
        "notes": list(notes),
        "redundant_experts": slots - experts if slots >= experts else None,
        "slots_per_gpu": per_gpu,
        "feasible_slots": _feasible(experts, slots, gpus, rules, violations) if gpus > 0 else [],
    }
    code = BAD_USAGE if violations else DONE
    if each is not None:
        facts |= {"slot_bytes": each * layers, "gpu_bytes": each * layers * per_gpu}
    if each is not None and memory is not None and gpus > 0:
        facts |= _memory(each * layers, memory, slots, gpus)
        if not facts["fits"]:
            fault, why = _too_little(facts, experts, gpus, gpu_mem or "")
            code = code or why
            facts["ok"] = False
            facts["violations"].append(fault)
    if json.json:
        say.document(facts)
        return code
    _show(facts, experts, gpus, layers, say)
    for note in notes:
        say.note(note)
    for violation in facts["violations"]:
        complain(violation)
    return code


def _memory(slot_bytes: float, memory: float, slots: int, gpus: int) -> dict[str, Any]:
    """How many slots the memory of a GPU holds, against the most that one has."""
    most = int(memory // slot_bytes) if slot_bytes else slots
    on_a_gpu = -(-slots // gpus)
    return {"slots_that_fit": most, "most_on_a_gpu": on_a_gpu, "gpu_memory_bytes": memory, "fits": on_a_gpu <= most}


def _too_little(facts: dict[str, Any], experts: int, gpus: int, gpu_mem: str) -> tuple[str, int]:
    """What the memory cannot hold, and the exit code: 3 where no number of slots would help."""
    most = facts["slots_that_fit"]
    if most * gpus < experts:
        holds = f"{_bytes(facts['gpu_memory_bytes'])} a GPU holds {count(most, 'slot')}"
        return f"infeasible: {holds}, {most * gpus:,} in all, fewer than {count(experts, 'expert')}", INFEASIBLE
    rule = f"{count(facts['most_on_a_gpu'], 'slot')} of {_bytes(facts['slot_bytes'])} each: too much for a GPU"
    fix = f"At most {count(most, 'slot')} a GPU, {most * gpus:,} in all"
    return str(Violation("--gpu-mem", "", gpu_mem, rule, fix)), BAD_USAGE


def _build(experts: int, slots: int, gpus: int, rules: dict[str, Any]) -> PlacementInstance:
    """The instance that place would make; raises what place would say."""
    import numpy as np

    from moeopt.placement import PlacementInstance

    return PlacementInstance(np.ones((1, experts)), gpus=gpus, slots=slots, **rules)


def _violations(experts: int, slots: int, gpus: int, rules: dict[str, Any]) -> tuple[list[Violation], tuple[str, ...]]:
    """What the instance itself would refuse, and its notes; a shape may break rules that are looked at in turn."""
    try:
        return [], _build(experts, slots, gpus, rules).notes
    except InstanceError as error:
        found = list(error.violations)
    fields = {violation.field for violation in found}
    if "slots" not in fields and "gpus" not in fields:  # what is wrong elsewhere must not hide the slots
        found += _refused(experts, slots, gpus, _slot_rules(rules))
    elif "nodes" not in fields and "groups" not in fields and "gpus" not in fields:
        fitting = _refused(experts, -(-experts // gpus) * gpus, gpus, rules)
        found += [violation for violation in fitting if violation.field != "slots"]
    if 0 < slots < experts and gpus > 0:  # the fault that no rounding mends leads, and says what would
        least = -(-experts // gpus) * gpus
        rule = f"must hold each of {count(experts, 'expert')} once"
        fix = f"Use {least:,} ({least // gpus:,} a GPU) or more"
        found = [violation for violation in found if violation.field != "slots"]
        found.insert(0, Violation("slots", "", f"{slots} in all", rule, fix))
    return list(dict.fromkeys(found)), ()


def _refused(experts: int, slots: int, gpus: int, rules: dict[str, Any]) -> list[Violation]:
    try:
        _build(experts, slots, gpus, rules)
    except InstanceError as error:
        return list(error.violations)
    return []


def _slot_rules(rules: dict[str, Any]) -> dict[str, Any]:
    return {key: rules[key] for key in ("uneven_slots", "distinct")}


def _feasible(
    experts: int, slots: int, gpus: int, rules: dict[str, Any], violations: list[Violation]
) -> list[dict[str, int]]:
    """Multiples of G near S that place would take; nodes and groups that are wrong themselves are left aside."""
    if {violation.field for violation in violations} & {"nodes", "groups", "group_rule"}:
        rules = _slot_rules(rules)
    low = -(-experts // gpus)
    if low * gpus > MOST_SLOTS or _refused(experts, low * gpus, gpus, rules):
        return []
    first = _build(experts, low * gpus, gpus, rules)
    own = experts // len(first.node_ids) if first.hierarchical else experts
    high = own if first.distinct else MOST_SLOTS // gpus
    middle = min(max(round(slots / gpus), low), high)
    return [
        {"slots": each * gpus, "slots_per_gpu": each, "redundant_experts": each * gpus - experts}
        for each in range(max(low, middle - NEAR), min(high, middle + NEAR) + 1)
        if not _refused(experts, each * gpus, gpus, rules)
    ]


def _show(facts: dict[str, Any], experts: int, gpus: int, layers: int, say: Say) -> None:
    from moeopt.cli.tables import table

    memory = "slot_bytes" in facts
    made = table("", "slots", "slots a GPU",
                 "redundant experts", *(("memory a GPU",) if memory else ()))  # fmt: skip
    for row in facts["feasible_slots"]:
        cells = [_bytes(facts["slot_bytes"] * row["slots_per_gpu"])] if memory else []
        made.add_row(f"{row['slots']:,}", f"{row['slots_per_gpu']:,}", f"{row['redundant_experts']:,}", *cells)
    if facts["ok"]:
        each, more = facts["slots_per_gpu"], facts["redundant_experts"]
        say.show(f"ok: {each:g} {'slot' if each == 1 else 'slots'} a GPU, {count(more, 'redundant expert')}")
    where = f"{count(experts, 'expert')} on {count(gpus, 'GPU')}"
    if facts["feasible_slots"]:
        say.show(f"slot totals that work for {where}:")
        say.show(made)
    else:
        say.show(f"no equal number of slots a GPU works for {where}")
    if memory:
        say.show(
            f"a slot costs {_bytes(facts['slot_bytes'])} on its GPU over {count(layers, 'layer')}; "
            f"this shape {_bytes(facts['gpu_bytes'])} a GPU"
        )
    if "fits" in facts:
        most = facts["slots_that_fit"]
        say.show(
            f"{_bytes(facts['gpu_memory_bytes'])} a GPU holds {count(most, 'slot')}, {most * gpus:,} in all: "
            f"this shape {'fits' if facts['fits'] else 'does not fit'}"
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
