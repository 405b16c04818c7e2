"""A plan or a map made ready to be written: facts of the LLM found, layers matched, and what an engine cannot bear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.engines.base import ExpertMap
from moeopt.engines.job import Job
from moeopt.engines.layers import LayerFacts, Rows, rows_of
from moeopt.engines.map_faults import map_faults
from moeopt.engines.rules import BY_POSITION, RULES
from moeopt.errors import Violations
from moeopt.workload.table import id_ranges

if TYPE_CHECKING:
    from moeopt.placement.plan_document import ResultDocument

SHOWN = 5
"""How many faults of a map are named before the rest is counted."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A plan or a map, read for writing; what is wrong with its form is in `check` already."""

    map: ExpertMap
    split: str | None
    llm: Any
    routed: bool


def subject_of(plan: ResultDocument | ExpertMap, check: Violations) -> Subject | None:
    """Take a plan document or a map as a table of experts in slots; ``None`` where the form is broken."""
    if isinstance(plan, ExpertMap):
        return Subject(plan, None, None, True)
    if plan.solution is None:
        check.add("plan", plan.status, rule="is the status of a document without a plan", fix="Place again")
        return None
    solution = plan.solution
    rows = [layer.slot_expert for layer in solution.layers]
    width = len(solution.gpu_of_slot)
    for layer in solution.layers:
        if len(layer.slot_expert) != width:
            rule = f"must be as many as gpu_of_slot has, {width}"
            check.add(
                "slot_expert",
                f"{len(layer.slot_expert)} slots",
                rule=rule,
                fix="Verify the plan",
                where=str(layer.layer),
            )
    gpus = np.asarray(solution.gpu_of_slot, dtype=np.int64)
    ordered = bool((np.diff(gpus) >= 0).all()) if width else False
    if not ordered or gpus[0] < 0 or gpus[-1] >= solution.ep_size:
        rule = f"must be GPUs from 0 to {solution.ep_size - 1} in ascending order"
        check.add("gpu_of_slot", solution.gpu_of_slot, rule=rule, fix="Verify the plan")
    ids = tuple(layer.layer for layer in solution.layers)
    if len(set(ids)) < len(ids):
        check.add("layers", list(ids), rule="must differ", fix="Verify the plan")
    if check.found:
        return None
    slots = tuple(np.bincount(gpus, minlength=solution.ep_size).tolist())
    table = np.asarray(rows, dtype=np.int64).clip(-(2**31), 2**31 - 1).astype(np.int32)
    found = ExpertMap("moeopt", table, ids, slots, len(solution.layers[0].replicas))
    routed = plan.instance.document.model_dump().get("shared") != "hosted"
    return Subject(found, solution.split, solution.llm, routed)


def missing_facts(subject: Subject, to: str, facts: LayerFacts, gpus: int | None) -> list[tuple[str, str, str]]:
    """Field, why it is needed, and how to give it, of everything that is not known and has to be."""
    rules, found = RULES[to], []
    if rules.rows != "given":
        why = (
            f"{rules.title} wants a row for every layer, dense ones included"
            if rules.rows == "every"
            else f"{rules.title} wants a row for each MoE layer and finds it by its "
            + ("place among them" if rules.numbering == "position" else "layer id")
        )
        if facts.layers is None:
            fix = "Give the LLM's config (--hf-config config.json), or the number of all layers (--layers-total)"
            found.append(("llm.layers", why, fix))
        if facts.dense is None:
            fix = "Give the LLM's config (--hf-config config.json), or the ids (--dense 0,1,2, or --dense none)"
            found.append(("llm.dense_layers", why, fix))
    if rules.needs_gpus and subject.map.slots is None and gpus is None:
        why = f"the map does not say how many GPUs there are, and {rules.title} has to be started with as many"
        found.append(("gpus", why, "Give their number (--gpus)"))
    return found


def job_of(
    plan: ResultDocument | ExpertMap, to: str, path: str, llm: Any, gpus: int | None, source: str = ""
) -> tuple[Job, list[str]]:
    """Make a job of a plan and the facts of an LLM, with warnings; everything that is in the way is said at once.

    Raises
    ------
    InstanceError
        Facts are missing, layers do not fit the LLM, or the engine cannot bear the plan.
    """
    check = Violations(source)
    subject = subject_of(plan, check)
    facts = LayerFacts()
    with check.within():
        facts = LayerFacts.of(llm if llm is not None or subject is None else subject.llm)
    if subject is None:
        check.raise_if_any()
        raise AssertionError("a broken form has a violation")
    for name, why, fix in missing_facts(subject, to, facts, gpus):
        check.add(name, "missing", rule=f"is needed: {why}", fix=fix)
    found, warnings = subject.map, list(subject.map.notes)
    slots = _slots(found, gpus, check)
    experts = _experts(subject, facts, to, check, warnings)
    rows = Rows(tuple(range(len(found.layers))))
    if RULES[to].rows != "given" and facts.layers is not None and facts.dense is not None:
        rows = rows_of(found.layers, facts, check, by_position=found.engine in BY_POSITION)
        warnings += rows.notes
    _bearable(replace(found, slots=slots), to, experts, check, is_map=isinstance(plan, ExpertMap))
    check.raise_if_any()
    table = found.slot_expert
    given = RULES[to].rows == "given"
    return Job(
        path,
        np.ascontiguousarray(table[list(rows.moe)]),
        found.layers if given else facts.moe,
        facts,
        slots,
        experts,
        subject.split,
        {layer: table[row] for layer, row in rows.dense.items()},
        {number: table[row] for number, row in rows.mtp.items()},
    ), warnings


def _slots(found: ExpertMap, gpus: int | None, check: Violations) -> tuple[int, ...] | None:
    """Slots of each GPU, from the map or from the number of GPUs."""
    total = found.slot_expert.shape[1]
    if found.slots is not None:
        if gpus is not None and gpus != len(found.slots):
            rule = f"contradicts the map, which is for {len(found.slots)}"
            check.add("gpus", gpus, rule=rule, fix="Leave it out (--gpus)")
        return found.slots
    if gpus is None:
        return None
    if gpus < 1 or total % gpus:
        near = ", ".join(str(one) for one in range(1, total + 1) if total % one == 0 and one >= gpus / 2)[:60]
        check.add("gpus", gpus, rule=f"does not divide the {total} slots of the map", fix=f"{near or total} would")
        return None
    return (total // gpus,) * gpus


def _experts(subject: Subject, facts: LayerFacts, to: str, check: Violations, warnings: list[str]) -> int:
    """E, as the plan, the facts or the largest id says."""
    found, said = subject.map, subject.map.num_experts
    if to == "moeopt":
        return found.known_experts
    if not subject.routed:
        rule = "are in the slots of this plan, and a map of an engine has routed experts alone"
        check.add(
            "shared", "hosted", rule=rule, fix="Plan with --shared replicated or fused, as the engine serves them"
        )
        return found.known_experts
    if said is None:
        said = facts.experts
        if said is None:
            said = found.known_experts
            warnings.append(f"the map does not say how many experts there are: taken to be {said}, by the largest id")
    elif facts.experts is not None and facts.experts != said:
        rule = f"are not the {facts.experts} of {facts.name or 'the LLM'}"
        check.add("experts", said, rule=rule, fix="Give the config of the LLM this plan is for")
    return said


def _bearable(found: ExpertMap, to: str, experts: int, check: Violations, *, is_map: bool) -> None:
    """What the engine cannot load: broken layers, empty slots, doubles, GPUs of different sizes."""
    rules = RULES[to]
    if not rules.empty and (found.slot_expert == -1).any():
        hollow = np.argwhere(found.slot_expert == -1)
        row, slot = hollow[0]
        slots = "1 empty slot" if len(hollow) == 1 else f"{len(hollow):,} empty slots"
        first = f"layer {found.layers[row]}, slot {slot}" + (" the first" if len(hollow) > 1 else "")
        fix = "Plan with --fill all"
        if is_map:
            fix = "Fill them: moeopt place LOADS --current MAP --fill all -o plan.json, and convert that"
        check.add("slot_expert", slots, rule=f"{rules.title} loads an expert into each", fix=fix, where=first)
    faults = map_faults(
        found.slot_expert,
        found.layers,
        experts,
        found.slots,
        doubles=rules.doubles != "refused",
        empty=True,
        most=SHOWN,
    )
    fix = "moeopt verify MAP lists what is wrong with it" if is_map else "Repair the plan"
    for fault in faults:
        where, _, what = fault.partition(": ")
        if fault.startswith("..."):
            rule = f"{rules.title} cannot load them"
            check.add("slot_expert", fault.removeprefix("... and ").split(":")[0], rule=rule, fix=fix)
        else:
            check.add("slot_expert", what, rule=f"cannot be loaded by {rules.title}", fix=fix, where=where)
    if found.slots is not None and len(set(found.slots)) > 1 and (rules.uniform or (0 in found.slots and to == "omni")):
        _say_uneven(found.slots, rules.title, check)


def _say_uneven(slots: Sequence[int], title: str, check: Violations) -> None:
    gone = [gpu for gpu, count in enumerate(slots) if count == 0]
    if gone:
        rule = f"{'has' if len(gone) == 1 else 'have'} no slots, and {title} expects experts on every GPU"
        fix = f"Plan for the {len(slots) - len(gone)} GPUs that are left, and start the engine on them"
        check.add("slots", f"GPU{'s' * (len(gone) > 1)} {id_ranges(gone)}", rule=rule, fix=fix)
    else:
        rule = f"a GPU: {title} gives every GPU as many"
        check.add(
            "slots", f"{min(slots)} to {max(slots)}", rule=rule, fix="Plan with a total that the GPUs divide, evenly"
        )
