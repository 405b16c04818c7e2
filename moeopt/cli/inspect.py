"""Inspect files: what they are, their shape, the hottest experts, and what any plan could reach."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import inspect_cluster as topologies
from moeopt.cli.inspect_cluster import Topology
from moeopt.cli.microbatch_files import INSTANCE_SAID, PLAN_SAID, read_file
from moeopt.cli.microbatch_files import facts as microbatch_facts
from moeopt.cli.microbatch_files import show as show_microbatch
from moeopt.cli.options import OF_FINDINGS, Json, Shape
from moeopt.cli.say import Common, Say, count, few, ranges
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.engines.base import ExpertMap
    from moeopt.placement import PlacementInstance
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.workload import LoadTable

EXAMPLE = """Example:

moeopt inspect loads.csv

moeopt inspect loads.csv --gpus 16 --slots 80

moeopt inspect loads.csv --gpus 16 --slots 80 --current plan.json

moeopt inspect monday.csv tuesday.csv --gpus 16 --slots 80 --combine worst

moeopt inspect trace.npz --drop dummy-rows --gpus 4 --slots 64

moeopt inspect topo.txt -o topo.svg

moeopt inspect topology.conf --machine h100

moeopt inspect 4x8-h100"""

FEW_LAYERS = 8

HOW = {"worst": "the worst", "mean": "the mean", "cvar": "the mean of the worst (CVaR)"}
"""How windows become one figure a layer."""


@verb
def inspect(
    say: Say,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Loads, dumps or maps of an engine, instances, plans, topologies; - is stdin."
        ),
    ],
    shape: Shape,
    json: Json,
    topology: Topology,
) -> int:
    """Say what each file is and what is wrong with it; with a shape, the imbalance now and the best of any plan.

    Loads are held against named laws. A finding that matters is refused by place and compare until it is accepted there
    with --accept NAME; --drop dummy-rows leaves out what an engine ran on made-up tokens.

    Several loads with a shape are also looked at together, as the windows that place makes one plan for. Now is the
    running plan with --current, else experts in order.

    Topologies are nvidia-smi topo -m, NCCL and hwloc XML, Slurm's topology.conf and topology.yaml, ibnetdiscover, node
    labels of Kubernetes, rank-cost matrices, documents, and names of reference clusters: GPUs, NVLink domains, ports,
    tiers and faults are shown, -o draws the graph.
    """
    from moeopt.cli.accepting import check_names
    from moeopt.cli.inputs import experts_of, sources
    from moeopt.cli.windows import refuse_window_options

    if shape.accept:
        rule, fix = "is for plans, and here every finding is shown", "Leave it out"
        raise InstanceError([Violation("--accept", "", ", ".join(shape.accept), rule, fix)])
    check_names(shape.accept, shape.drop)
    files = sources(files, say)
    experts = experts_of(shape)
    read = [(path, *_read(path, shape, experts)) for path in files]
    topologies.check_options(topology, [what for _, what, _ in read])
    loads = [(path, content) for path, what, content in read if what == "loads"]
    if shape.given() and not loads:
        others = dict.fromkeys(topologies.SAID, "a topology")
        is_one = {"plan": "a plan", PLAN_SAID: "a plan", "map": "a map of an engine", **others}.get(
            read[0][1], "an instance document"
        )
        rule = f"is {is_one}, and options are for loads"
        fix = f"Leave out {', '.join(shape.given())}, or give the loads"
        raise InstanceError([Violation("input", "", files[0], rule, fix)])
    if len(loads) == 1 and loads[0][1].windows is None:
        refuse_window_options(shape)
    found = []
    for path, what, content in read:
        if what in topologies.SAID:
            what, content = topologies.on_machine(content, topology)
        facts: dict[str, Any] = {"file": path, "what": what}
        if what in topologies.SAID:
            facts |= topologies.facts(what, content)
            if topology.output is not None:
                topologies.write(content, topology)
        elif what == "plan":
            facts |= _plan_facts(path, content)
        elif what == "map":
            facts |= _map_facts(path, content)
        elif what in (INSTANCE_SAID, PLAN_SAID):
            facts |= microbatch_facts(path, what, content)
        elif what == "instance":
            facts |= _load_facts(content) | _reach(content)
        else:
            facts |= _loads(path, content, shape, say)
        found.append(facts)
        if not json.json:
            _show(facts, say)
    together = None
    if len(loads) > 1 and _wants_instance(shape):
        together = _together([path for path, _ in loads], [table for _, table in loads], shape)
        if not json.json:
            _show_reach(together, say)
    if json.json:
        say.document({"files": found} if together is None else {"files": found, "together": together})
    return DONE


def _read(path: str, shape: Shape, experts: int | None) -> tuple[str, Any]:
    """What a file is, and its content."""
    from moeopt.cli.inputs import read_any

    found = topologies.read_file(path) or read_file(path) or _map(path)
    return found or read_any(path, shape.layers, experts, topologies=True)


def _map(path: str) -> tuple[str, Any] | None:
    """A map that an engine loads, or ``None`` for anything else."""
    from moeopt.engines.kinds import MAPS, what_is
    from moeopt.engines.reading import read_map

    return ("map", read_map(path)) if path != "-" and what_is(path) in MAPS else None


def _map_facts(path: str, found: ExpertMap) -> dict[str, Any]:
    """What can be said of a map without loads."""
    import numpy as np

    from moeopt.engines.kinds import what_is

    experts = found.known_experts
    counts = np.stack([np.bincount(row[row >= 0], minlength=experts) for row in found.slot_expert])
    kind = what_is(path)
    return {
        "engine": found.engine,
        "form": "" if kind is None else kind[1],
        "layers": len(found.layers),
        "layer_ids": list(found.layers),
        "slots": found.slot_expert.shape[1],
        "empty_slots": int((found.slot_expert < 0).sum()),
        "gpus": None if found.slots is None else len(found.slots),
        "experts": experts,
        "experts_said": found.num_experts is not None,
        "replicas_max": int(counts.max()),
        "absent": int((counts == 0).sum()),
        "notes": list(found.notes),
    }


def _wants_instance(shape: Shape) -> bool:
    """Whether more was given than which layers to look at."""
    return any(option not in ("--layers", *OF_FINDINGS) for option in shape.given())


def _loads(path: str, table: LoadTable, shape: Shape, say: Say) -> dict[str, Any]:
    """One file of loads by itself."""
    from moeopt.cli.accepting import dropped, findings_of
    from moeopt.cli.inputs import from_loads, layer_ids

    table = dropped(table, shape.drop)
    rows = None
    if shape.layers is not None:
        check = Violations(path)
        wanted = layer_ids(shape.layers, table, check)
        check.raise_if_any()
        rows = [table.layers.index(layer) for layer in wanted]
    facts = _load_facts(table, rows)
    facts["findings"] = [asdict(finding) for finding in findings_of(table, shape)]
    if _wants_instance(shape):
        # how windows count is said for all files together, and one file need not have several
        alone = shape if table.windows is not None else replace(shape, combine=None, alpha=None)
        facts |= _reach(from_loads(replace(table, notes=()), path, alone, say))  # its notes are shown already
    return facts


def _together(files: list[str], tables: list[LoadTable], shape: Shape) -> dict[str, Any]:
    """What any plan could reach for all files as windows, or why they are none."""
    from moeopt.cli.accepting import dropped
    from moeopt.cli.inputs import from_loads
    from moeopt.cli.windows import joined, name_of_windows

    said_before = Say(Common(quiet=True))
    try:
        table = joined(files, said_before, shape.steps, [dropped(table, shape.drop) for table in tables])
    except InstanceError as error:
        return {"why_not": [str(violation) for violation in error.violations]}
    instance = from_loads(table, ", ".join(files), shape, said_before, name_of_windows(files))
    return {"windows": len(instance.windows), "combine": instance.combine, **_reach(instance)}


def _load_facts(content: LoadTable | PlacementInstance, rows: list[int] | None = None) -> dict[str, Any]:
    """What can be said of loads alone, or of some rows of them."""
    from moeopt.workload import LoadTable

    rows = list(range(len(content.layers))) if rows is None else rows
    loads, ids = content.loads[rows], [content.layers[row] for row in rows]
    layers, experts = loads.shape
    totals = loads.sum(axis=1, dtype=float)
    order = (-loads).argsort(axis=1, kind="stable")[:, :3]
    mean = [total / experts for total in totals.tolist()]
    return {
        "layers": layers,
        "experts": experts,
        "layer_ids": ids,
        "steps": sum(content.steps) if isinstance(content.steps, tuple) else content.steps,
        "tokens": float(totals.sum()),
        "zero_cells": int((loads == 0).sum()),
        "hottest": [
            {
                "layer": layer,
                "experts": row.tolist(),
                "times_mean": [round(float(cells[e]) / average, 3) if average else 1.0 for e in row.tolist()],
            }
            for layer, row, cells, average in zip(ids, order, loads, mean, strict=True)
        ],
        "notes": list(content.notes),
        "name": content.source if isinstance(content, LoadTable) else content.name,
    }


def _reach(instance: PlacementInstance) -> dict[str, Any]:
    """Imbalance of the running plan, or of experts in order, and the floor that no plan gets below."""
    from moeopt.placement import PROBLEM, bounds

    conflicts = PROBLEM.conflicts(instance)
    if conflicts:
        return {"conflicts": [dict(conflict) for conflict in conflicts]}
    judged, why = _now(instance)
    floors = [float(bound.value) for bound in bounds.cheap(instance)]
    ideal = [float(value) for value in instance.par]
    best = [floor / even if even else 1.0 for floor, even in zip(floors, ideal, strict=True)]
    now = [None] * len(best) if judged is None else list(judged.imbalance)
    return {
        "gpus": instance.num_gpus,
        "slots": instance.num_slots,
        "now_is": "with experts in order" if instance.current is None else "of the running plan",
        "per_layer": [
            {"layer": layer, "now": value, "best_possible": least}
            for layer, value, least in zip(instance.layers, now, best, strict=True)
        ],
        "best_possible_mean": sum(best) / len(best),
        "best_possible_total": sum(floors) / sum(ideal) if sum(ideal) else 1.0,
        "now_mean": None if judged is None else judged.imbalance_mean,
        "now_total": None if judged is None else judged.imbalance_total,
        "why_not_now": why,
    }


def _now(instance: PlacementInstance) -> tuple[Any, str]:
    """The referee on the running plan, or where none runs on experts in order; or why that cannot be said."""
    from moeopt.errors import NotApplicable, PlanError
    from moeopt.placement import PROBLEM
    from moeopt.placement.replanning.parts import without_budgets
    from moeopt.placement.replanning.report import running_plan

    free = without_budgets(instance)
    try:
        if instance.current is not None:
            return PROBLEM.evaluate(free, running_plan(instance)), ""
        found = PROBLEM.solve(free, method="contiguous")
    except PlanError as error:
        return None, f"it breaks today's rules: {error.faults[0]}"
    except NotApplicable as error:
        return None, str(error)
    return PROBLEM.evaluate(free, found.plan), ""


def _plan_facts(path: str, content: Any) -> dict[str, Any]:
    from moeopt.placement.load_plan import document_faults, read_result

    document: ResultDocument = read_result(content, path)
    facts: dict[str, Any] = {
        "name": document.instance.name,
        "method": document.method,
        "status": document.status,
        "stop": document.stop,
        "objective": document.objective,
        "gap": document.gap,
        "gap_worst_layer": document.gap_worst_layer,
        "notes": document.notes,
        "faults": document_faults(document),
    }
    if document.solution is not None:
        first = document.solution.layers[0]
        facts |= {
            "layers": len(document.solution.layers),
            "experts": len(first.replicas),
            "slots": len(first.slot_expert),
            "gpus": document.solution.ep_size,
            "imbalance_mean": document.solution.imbalance_mean,
            "moves": document.solution.moves,
            "imbalance_now": document.solution.imbalance_now,
            "gpus_without_slots": sorted({*range(document.solution.ep_size)} - {*document.solution.gpu_of_slot}),
        }
    return facts


def _show(facts: dict[str, Any], say: Say) -> None:
    from moeopt.cli.tables import percent, tokens

    if facts["what"] in (INSTANCE_SAID, PLAN_SAID):
        show_microbatch(facts, say)
        return
    if facts["what"] in topologies.SAID:
        topologies.show(facts, say)
        return
    lines = [f"{facts['file']}: {facts['what']}"]
    if facts["what"] == "plan":
        if "layers" in facts:
            lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}, "
                         f"{count(facts['slots'], 'slot')}, {count(facts['gpus'], 'GPU')}")  # fmt: skip
            lines.append(f"  imbalance  mean {facts['imbalance_mean']:.4f}")
            if facts["moves"] is not None:
                now = facts["imbalance_now"]
                before = "which could not stay" if now is None else f"which had imbalance {now:.4f} over all layers"
                lines.append(f"  moves      {count(facts['moves'], 'slot')} new against the plan that ran, {before}")
            if facts["gpus_without_slots"]:
                lines.append(f"  GPUs       without slots: {ranges(facts['gpus_without_slots'])}")
        lines.append(f"  method     {facts['method']}, {facts['status']}, stopped by {facts['stop']}")
        lines.append(f"  gap        {percent(facts['gap'])}, worst layer {percent(facts['gap_worst_layer'])}")
        lines.append(f"  structure  {'ok' if not facts['faults'] else '; '.join(few(facts['faults'], say.verbose))}")
    elif facts["what"] == "map":
        lines[0] += f" of {facts['engine']} ({facts['form']})"
        gpus = "GPUs not said" if facts["gpus"] is None else count(facts["gpus"], "GPU")
        said = "" if facts["experts_said"] else " (the largest id and one)"
        lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}{said}, "
                     f"{count(facts['slots'], 'slot')}, {gpus}; layer ids {ranges(facts['layer_ids'])}")  # fmt: skip
        empty = f"; {count(facts['empty_slots'], 'slot')} left empty" if facts["empty_slots"] else ""
        lost = f"; {facts['absent']} times an expert has no slot in a layer" if facts["absent"] else ""
        lines.append(f"  replicas   at most {facts['replicas_max']} of an expert{empty}{lost}")
    else:
        ids, cells = facts["layer_ids"], facts["layers"] * facts["experts"]
        steps = "" if facts["steps"] is None else f", {count(facts['steps'], 'step')}"
        lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}{steps}; "
                     f"layer ids {ranges(ids)}")  # fmt: skip
        lines.append(
            f"  tokens     {tokens(facts['tokens'])} selections in all, "
            f"{facts['zero_cells']:,} of {count(cells, 'cell')} {'is' if facts['zero_cells'] == 1 else 'are'} 0"
        )
    lines.extend(f"  note       {note}" for note in facts["notes"])
    for finding in facts.get("findings", ()):
        lines.append(f"  {finding['severity']:<10} {finding['name']}: {finding['text']}")
    say.show("\n".join(lines))
    if facts["what"] not in ("plan", "map"):
        say.show(_layer_table(facts, say.verbose))
    _show_reach(facts, say)


def _show_reach(facts: dict[str, Any], say: Say) -> None:
    """One line on the imbalance now and at best."""
    if "why_not" in facts:
        say.show("\n".join(["not windows of one plan:", *(f"  {line}" for line in facts["why_not"])]))
    if "windows" in facts:
        say.show(f"together, as {count(facts['windows'], 'window')} of which {HOW[facts['combine']]} counts")
    if "now_mean" in facts:
        now = f"unknown, as {facts['why_not_now']}" if facts["now_mean"] is None else f"{facts['now_mean']:.4f}"
        shape = f"{count(facts['gpus'], 'GPU')}, {count(facts['slots'], 'slot')}"
        least = f"no plan gets below {facts['best_possible_mean']:.4f} (means over layers)"
        say.show(f"  {shape}: imbalance {facts['now_is']} {now}; {least}")
    for conflict in facts.get("conflicts", ()):
        say.show(f"  infeasible: {conflict['message']}")


def _layer_table(facts: dict[str, Any], everything: bool) -> Any:
    from moeopt.cli.tables import table

    reach = {row["layer"]: row for row in facts.get("per_layer", ())}
    made = table("", "layer", "hottest experts (times the mean)", *(("now", "best possible") if reach else ()))
    made.columns[1].justify = "left"
    shown = facts["hottest"] if everything else facts["hottest"][:FEW_LAYERS]
    for row in shown:
        hot = ", ".join(f"{e} ({times:.2f})" for e, times in zip(row["experts"], row["times_mean"], strict=True))
        cells = []
        if reach:
            judged = reach.get(row["layer"])  # none for a layer without loads
            now = None if judged is None else judged["now"]
            best = "-" if judged is None else f"{judged['best_possible']:.4f}"
            cells = ["-" if now is None else f"{now:.4f}", best]
        made.add_row(str(row["layer"]), hot, *cells)
    rest = len(facts["hottest"]) - len(shown)
    if rest:
        made.add_row(
            "...",
            f"{count(rest, 'more layer')}, -v shows {'it' if rest == 1 else 'them'}",
            *([""] * (2 if reach else 0)),
        )
    return made
