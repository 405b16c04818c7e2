"""Check a shape: which slot totals work near by, what a slot costs in memory, what engines take; solves nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.llms import WhichLlm, expected, facts_document, show_facts
from moeopt.cli.options import Json
from moeopt.cli.prices import engines_said, fits, in_bytes, of_llm, only_llm, show_engines, slot_price, too_little
from moeopt.cli.say import Say, complain, count
from moeopt.cli.spoken import spoken_violation
from moeopt.cli.verb import BAD_USAGE, DONE, verb
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance

EXAMPLE = """Example:

moeopt check --experts 256 --slots 288 --gpus 72 --nodes 9

moeopt check --experts 256 --slots 288 --gpus 72 --expert-bytes 42MiB --layers 58

moeopt check --hf-config config.json --slots 288 --gpus 72 --nodes 9 --memory-budget 40GB

moeopt check --llm deepseek-v3"""

NEAR = 3
"""How many feasible slot totals are listed on each side."""
MOST_SLOTS = 2**24
"""More slots no instance has."""
MOST_EXPERTS = MOST_LAYERS = 1_000_000
MOST_BYTES = 2**1000
"""More are surely a slip, and no double counts them."""
MEMORY = "--memory-budget"
LEAST_MEMORY = 1e5
"""Fewer bytes without a unit are surely meant to be gigabytes."""


@verb
def check(
    say: Say,
    json: Json,
    which: WhichLlm,
    experts: Annotated[
        int | None, typer.Option("--experts", min=1, max=MOST_EXPERTS, help="E, experts of a layer (as the LLM has).")
    ] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="S, slots of all GPUs.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="G, number of GPUs.")] = None,
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
    number: Annotated[
        str | None, typer.Option("--layers", metavar="L", help="L, number of MoE layers (as the LLM has, or 1).")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--memory-budget", "--gpu-mem", help="Memory of a GPU for the experts of all layers, as 80GB."),
    ] = None,
    expert_dtype: Annotated[
        str | None,
        typer.Option("--expert-dtype", help="Format of experts, as fp8_block (as the LLM has).", rich_help_panel="LLM"),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option(
            "--params", help="Parameters you expect, as 671B,37B: shown beside the computed.", rich_help_panel="LLM"
        ),
    ] = None,
) -> int:
    """Say whether a shape can hold a placement: all violations at once, with the nearest values that work.

    With an LLM (--hf-config or --llm) its experts, layers and the size of an expert are known; without a shape its
    facts are shown. Exit 2 for a shape that place refuses too, 3 where the memory cannot hold one replica of each
    expert. There is no --show-python, as no one call of the library says all this: in Python, PlacementInstance of
    moeopt.placement refuses what this does.
    """
    found = Violations()
    llm = which.facts()
    layers = None if number is None else units.layers(number, found)
    each = None if expert_bytes is None else units.size("--expert-bytes", expert_bytes, found)
    memory = None if budget is None else units.size(MEMORY, budget, found)
    about = None
    if memory is not None and 0 < memory < LEAST_MEMORY and (budget or "").replace(".", "", 1).isdigit():
        fix = f"Write {budget}GB for gigabytes"
        found.add(MEMORY, budget or "", rule=f"is {in_bytes(memory)} a GPU", fix=fix)
    if llm is not None:
        about = facts_document(llm, expected(params, found), expert_dtype)
        shaped = not (experts is None and slots is None and gpus is None)
        experts, layers, each = of_llm(llm, experts, layers, each, expert_dtype, shaped, budget is not None, found)
    else:
        for option, value in (("--expert-dtype", expert_dtype), ("--params", params)):
            if value is not None:
                found.add(option, value, rule="is about an LLM, and none is named", fix="Give --hf-config or --llm")
    if memory is not None and each is None and llm is None:
        found.add(
            "--expert-bytes", "missing", rule="is needed beside --memory-budget", fix="Give the size of an expert"
        )
    if (experts or 1) > MOST_EXPERTS:
        found.add("experts", experts or 1, rule=f"must be at most {MOST_EXPERTS:,}", fix="Check what the LLM says")
    if (layers or 1) > MOST_LAYERS:
        found.add("--layers", layers or 1, rule=f"must be at most {MOST_LAYERS}", fix="Check the number")
    elif each is not None and each > MOST_BYTES:
        found.add("--expert-bytes", expert_bytes or "", rule="is more than can be counted", fix="Check the unit")
    if llm is not None and not shaped:
        found.raise_if_any()
        return only_llm(about, each, layers, json.json, say)
    for option, size in (("--experts", experts), ("--slots", slots), ("--gpus", gpus)):
        if size is None and not (option == "--experts" and llm is not None):
            fix = "Give it, or an LLM: --hf-config, --llm" if option == "--experts" else "Give it"
            found.add(option, "missing", rule="is needed", fix=fix)
    found.raise_if_any()
    assert experts is not None and slots is not None and gpus is not None
    layers = layers or 1
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
    if gpus > 0 and nodes > 0:
        facts["engines"] = engines_said(experts, slots, gpus, nodes, groups, llm)
    if each is not None:
        facts |= {"slot_bytes": each * layers, "gpu_bytes": each * layers * math.ceil(per_gpu)}
        if slots >= experts:
            facts["redundant_bytes"] = each * layers * (slots - experts)
    if each is not None and memory is not None and gpus > 0:
        facts |= fits(each * layers, memory, slots, gpus)
        if not facts["fits"]:
            fault, why = too_little(facts, experts, gpus, budget or "")
            code = code or why
            facts["ok"] = False
            facts["violations"].append(fault)
    if about is not None:
        facts["llm"] = about
    if json.json:
        say.document(facts)
        return code
    if about is not None:
        show_facts(about, say)
    _show(facts, experts, gpus, layers, say)
    for note in notes:
        say.note(note)
    for violation in facts["violations"]:
        complain(violation)
    return code


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
        cells = [in_bytes(facts["slot_bytes"] * row["slots_per_gpu"])] if memory else []
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
        price = slot_price(facts["slot_bytes"], layers, facts.get("llm"))
        fullest = "a GPU" if facts["slots_per_gpu"] == int(facts["slots_per_gpu"]) else "on its fullest GPU"
        say.show(f"{price}; this shape {in_bytes(facts['gpu_bytes'])} {fullest}")
        if facts.get("redundant_bytes"):
            more = facts["redundant_experts"]
            share = in_bytes(facts["redundant_bytes"] / gpus)
            said = f"{count(more, 'redundant expert')} cost {in_bytes(facts['redundant_bytes'])}"
            say.show(f"{said} in all, {share} a GPU")
    if "fits" in facts:
        most = facts["slots_that_fit"]
        say.show(
            f"{in_bytes(facts['gpu_memory_bytes'])} a GPU holds {count(most, 'slot')}, {most * gpus:,} in all: "
            f"this shape {'fits' if facts['fits'] else 'does not fit'}"
        )
    if facts.get("engines"):
        show_engines(facts["engines"], say)
