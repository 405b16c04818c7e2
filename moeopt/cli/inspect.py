"""Inspect files: what they are, their shape, the hottest experts, and what any plan could reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Json, Shape
from moeopt.cli.say import Say, count, few, ranges
from moeopt.cli.verb import DONE, verb

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.workload import LoadTable

EXAMPLE = """Example:

moeopt inspect loads.csv

moeopt inspect loads.csv --gpus 16 --slots 80"""

FEW_LAYERS = 8


@verb
def inspect(
    say: Say,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Loads, instances or plans; - is stdin.")],
    shape: Shape,
    json: Json,
) -> int:
    """Say what each file is, and with a shape, the imbalance now and the best that any plan could reach."""
    from moeopt.cli.inputs import from_loads, read_any

    found = []
    for path in files:
        what, content = read_any(path)
        facts: dict[str, Any] = {"file": path, "what": what}
        instance = content if what == "instance" else None
        if what == "plan":
            facts |= _plan_facts(path, content)
        else:
            facts |= _load_facts(content)
        if what == "loads" and (shape.gpus is not None or shape.slots is not None or shape.memory_bytes is not None):
            instance = from_loads(content, path, shape, say)
        if instance is not None:
            facts |= _reach(instance)
        found.append(facts)
        if not json.json:
            _show(facts, say)
    if json.json:
        say.document({"files": found})
    return DONE


def _load_facts(content: LoadTable | PlacementInstance) -> dict[str, Any]:
    from moeopt.workload import LoadTable

    loads = content.loads
    layers, experts = loads.shape
    totals = loads.sum(axis=1, dtype=float)
    order = (-loads).argsort(axis=1, kind="stable")[:, :3]
    mean = [total / experts for total in totals.tolist()]
    return {
        "layers": layers,
        "experts": experts,
        "layer_ids": list(content.layers),
        "steps": sum(content.steps) if isinstance(content.steps, tuple) else content.steps,
        "tokens": float(totals.sum()),
        "zero_cells": int((loads == 0).sum()),
        "hottest": [
            {
                "layer": layer,
                "experts": row.tolist(),
                "times_mean": [round(float(cells[e]) / average, 3) if average else 1.0 for e in row.tolist()],
            }
            for layer, row, cells, average in zip(content.layers, order, loads, mean, strict=True)
        ],
        "notes": list(content.notes),
        "name": content.source if isinstance(content, LoadTable) else content.name,
    }


def _reach(instance: PlacementInstance) -> dict[str, Any]:
    """Imbalance of experts in order, and the floor that no plan gets below."""
    from moeopt.errors import NotApplicable
    from moeopt.placement import PROBLEM, bounds

    try:
        now = PROBLEM.solve(instance, method="contiguous")
        why = ""
    except NotApplicable as error:
        now, why = None, str(error)
    if now is not None and now.solution is None:
        return {"conflicts": [dict(conflict) for conflict in now.conflicts]}
    if now is None:
        floors = [float(bound.value) for bound in bounds.cheap(instance)]
    else:
        assert now.solution is not None
        floors = [layer["lower_bound"] for layer in now.solution["layers"]]
    ideal = [float(value) for value in instance.par]
    best = [floor / even if even else 1.0 for floor, even in zip(floors, ideal, strict=True)]
    rows: list[dict[str, Any]] = [
        {"layer": layer, "now": None, "best_possible": value}
        for layer, value in zip(instance.layers, best, strict=True)
    ]
    reach: dict[str, Any] = {
        "gpus": instance.num_gpus,
        "slots": instance.num_slots,
        "per_layer": rows,
        "best_possible_mean": sum(best) / len(best),
        "best_possible_total": sum(floors) / sum(ideal) if sum(ideal) else 1.0,
        "now_mean": None,
        "now_total": None,
        "why_not_now": why,
    }
    if now is not None and now.solution is not None:
        for row, layer in zip(rows, now.solution["layers"], strict=True):
            row["now"] = layer["imbalance"]
        reach["now_mean"] = now.solution["imbalance_mean"]
        reach["now_total"] = now.solution["imbalance_total"]
    return reach


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
        }
    return facts


def _show(facts: dict[str, Any], say: Say) -> None:
    from moeopt.cli.tables import percent, tokens

    lines = [f"{facts['file']}: {facts['what']}"]
    if facts["what"] == "plan":
        if "layers" in facts:
            lines.append(f"  shape      {count(facts['layers'], 'layer')}, {count(facts['experts'], 'expert')}, "
                         f"{count(facts['slots'], 'slot')}, {count(facts['gpus'], 'GPU')}")  # fmt: skip
            lines.append(f"  imbalance  mean {facts['imbalance_mean']:.4f}")
        lines.append(f"  method     {facts['method']}, {facts['status']}, stopped by {facts['stop']}")
        lines.append(f"  gap        {percent(facts['gap'])}, worst layer {percent(facts['gap_worst_layer'])}")
        lines.append(f"  structure  {'ok' if not facts['faults'] else '; '.join(few(facts['faults'], say.verbose))}")
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
    say.show("\n".join(lines))
    if facts["what"] != "plan":
        say.show(_layer_table(facts, say.verbose))
    if "now_mean" in facts:
        now = f"{facts['now_mean']:.4f}" if facts["now_mean"] is not None else f"unknown ({facts['why_not_now']})"
        say.show(
            f"  {count(facts['gpus'], 'GPU')}, {count(facts['slots'], 'slot')}: imbalance with experts in order {now}; "
            f"no plan gets below {facts['best_possible_mean']:.4f} (means over layers)"
        )
    for conflict in facts.get("conflicts", ()):
        say.show(f"  infeasible: {conflict['message']}")


def _layer_table(facts: dict[str, Any], everything: bool) -> Any:
    from moeopt.cli.tables import table

    reach = facts.get("per_layer")
    made = table("", "layer", "hottest experts (times the mean)", *(("now", "best possible") if reach else ()))
    made.columns[1].justify = "left"
    shown = facts["hottest"] if everything else facts["hottest"][:FEW_LAYERS]
    for index, row in enumerate(shown):
        hot = ", ".join(f"{e} ({times:.2f})" for e, times in zip(row["experts"], row["times_mean"], strict=True))
        cells = []
        if reach:
            now = reach[index]["now"]
            cells = ["-" if now is None else f"{now:.4f}", f"{reach[index]['best_possible']:.4f}"]
        made.add_row(str(row["layer"]), hot, *cells)
    rest = len(facts["hottest"]) - len(shown)
    if rest:
        made.add_row(
            "...",
            f"{count(rest, 'more layer')}, -v shows {'it' if rest == 1 else 'them'}",
            *([""] * (2 if reach else 0)),
        )
    return made
