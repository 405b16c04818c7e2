"""``place --slots-curve``: how many redundant experts pay, as a table and a plot, and one memory budget over layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.header import header
from moeopt.cli.options import Output, Shape, Solving
from moeopt.cli.say import Say, complain, count
from moeopt.cli.verb import DONE, INFEASIBLE
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.placement.budgets import BudgetPlan
    from moeopt.placement.curve import SlotsCurve

PANEL = "How many redundant experts"


@dataclass(frozen=True)
class Curve:
    """Options of the curve."""

    slots_curve: Annotated[
        bool,
        typer.Option(
            "--slots-curve",
            help="Instead of a plan: imbalance and memory for every feasible number of redundant experts; -o takes "
            ".svg, .png, .html, .csv or .json.",
            rich_help_panel=PANEL,
        ),
    ] = False
    max_redundant: Annotated[
        int | None,
        typer.Option("--max-redundant", min=0, help="Look at no larger number than this.", rich_help_panel=PANEL),
    ] = None
    memory_budget: Annotated[
        str | None,
        typer.Option(
            "--memory-budget",
            help="Memory of a GPU for the experts of all layers, as 20GB: another number on each layer.",
            rich_help_panel=PANEL,
        ),
    ] = None


def check(curve: Curve, shape: Shape, output: Output) -> None:
    """What does not go together is said before any work."""
    found = Violations()
    if not curve.slots_curve:
        for name, value in (("--max-redundant", curve.max_redundant), ("--memory-budget", curve.memory_budget)):
            if value is not None:
                found.add(name, value, rule="belongs to the curve", fix="Add --slots-curve")
        found.raise_if_any()
        return
    for name, given in (("--slots", shape.slots), ("--slots-per-gpu", shape.slots_per_gpu)):
        if given is not None:
            found.add(name, given, rule="is what the curve runs over", fix="Leave it out; --max-redundant ends it")
    for name, given in (("--current", shape.current), ("--lost", shape.lost), ("--retire", shape.retire)):
        if given is not None:
            found.add(name, given, rule="has no meaning for a curve", fix="Leave it out")
    if shape.memory_bytes is not None:
        fix = "Leave it out; --memory-budget says what a GPU has for all layers"
        found.add("--memory-bytes", shape.memory_bytes, rule="gives the slots that the curve runs over", fix=fix)
    if curve.memory_budget is not None and shape.expert_bytes is None:
        found.add(
            "--expert-bytes", "missing", rule="is needed beside --memory-budget", fix="Give the size of an expert"
        )
    found.raise_if_any()
    if output.output is not None:
        from moeopt.cli.target import STDOUT, check_target
        from moeopt.report.curve import FORMATS

        if output.output != STDOUT:
            check_target(output.output, tuple(FORMATS), output.force, what="a curve")


def run(paths: list[str], shape: Shape, curve: Curve, method: str, solving: Solving, output: Output, say: Say) -> int:
    """Make the curve, show it and write it."""
    from moeopt.cli import units
    from moeopt.cli.ask import ask
    from moeopt.cli.target import STDOUT
    from moeopt.placement.budgets import memory_budget
    from moeopt.placement.curve import feasible_redundant, slots_curve
    from moeopt.report.curve import write_curve

    found = Violations()
    size = None if shape.expert_bytes is None else units.size("--expert-bytes", shape.expert_bytes, found)
    budget = None if curve.memory_budget is None else units.size("--memory-budget", curve.memory_budget, found)
    found.raise_if_any()
    instance = _instance(paths, replace(shape, expert_bytes=None, llm=None), say)
    said = say.kept()
    wanted = None
    if curve.max_redundant is not None:
        feasible = feasible_redundant(instance, uneven=shape.uneven_slots)
        wanted = [extra for extra in feasible if extra <= curve.max_redundant]
        if not wanted:
            rule = f"is below the least number that fills {instance.num_gpus} GPUs evenly"
            fix = f"Use {feasible[0]} or more"
            raise InstanceError([Violation("--max-redundant", "", str(curve.max_redundant), rule, fix)])
    with say.progress(f"{instance.name}: slots curve") as listener:
        made = ask(
            slots_curve,
            instance,
            redundant=wanted,
            uneven=shape.uneven_slots,
            expert_bytes=size,
            method=method,
            limits=solving.limits(),
            seed=solving.seed,
            on_progress=listener,
        )
    plan = None if budget is None or size is None else memory_budget(made, budget, size)
    if output.json or output.output == STDOUT:
        noted = made.to_dict()
        noted["notes"] = [*said, *noted["notes"]]
        say.document({**noted, "memory_budget": None if plan is None else plan.to_dict()})
    else:
        _show(made, say)
        if plan is not None and plan.fits:
            _show_budget(made, plan, bool(instance.windows), say)
    for note in (*said, *instance.notes, *made.notes):
        say.note(note)
    if output.output is not None and output.output != STDOUT:
        write_curve(output.output, made, header(solving.seed, said), force=output.force)
        say.note(f"curve: {output.output}")
    if plan is not None:
        say.note(plan.note)
        if not plan.fits:
            complain(
                f"{instance.name}: infeasible: one replica of each expert on every layer takes "
                f"{plan.least_bytes / 1e9:.4g} GB of a GPU, --memory-budget has {plan.budget_bytes / 1e9:.4g} GB"
            )
            return INFEASIBLE
    return DONE


def _instance(paths: list[str], shape: Shape, say: Say) -> PlacementInstance:
    """Loads on the fewest slots that hold every expert, or a document's own instance."""
    from moeopt.cli.accepting import guarded
    from moeopt.cli.inputs import experts_of, from_loads, read_any
    from moeopt.cli.windows import joined, name_of_windows

    found: Any
    path, name = ", ".join(paths), None
    if len(paths) > 1:
        what, found, name = "loads", joined(paths, say, shape.steps, shape=shape), name_of_windows(paths)
    else:
        what, found = read_any(path, shape.layers, experts_of(shape))
    if what == "plan":
        rule = "is a plan, not loads or an instance"
        raise InstanceError([Violation("input", "", path, rule, "Give the loads")])
    if what == "instance":
        given = [option for option in shape.given() if option != "--uneven-slots"]
        if given:
            rule = "is an instance document, which has its own shape"
            raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(given)}")])
        instance: PlacementInstance = found
        return instance
    if len(paths) == 1:
        found = guarded(found, path, shape, say)
    shared = max(shape.num_shared or 1, 1)
    experts = found.loads.shape[-1] + (shared if shape.shared == "hosted" else 0)
    if shape.gpus is not None and shape.gpus > 0:
        each = -(-experts // shape.gpus) + (shared if shape.shared == "fused" else 0)
        shape = replace(shape, slots=str(each * shape.gpus))
    return from_loads(found, path, shape, say, name)


def _show(curve: SlotsCurve, say: Say) -> None:
    from moeopt.cli.tables import duration, table
    from moeopt.report.curve import marks, said

    known = curve.points[0].gpu_bytes is not None
    price = ("memory a GPU",) if known else ()
    rows = table("", "redundant", "slots a GPU", *price, "imbalance mean", "worst layer", "bound on the mean", "")
    rows.columns[-1].justify = "left"
    for place, point in enumerate(curve.points):
        cost = [f"{(point.gpu_bytes or 0) / 1e9:,.2f} GB"] if known else []
        figures = [f"{value:.4f}" for value in (point.imbalance_mean, point.imbalance_worst, point.bound_mean)]
        cells = [str(point.redundant), str(point.slots_per_gpu), *cost, *figures, ", ".join(marks(curve, place))]
        rows.add_row(*cells, style="bold green" if place == curve.within else None)
    say.show(rows)
    same = f"the same number on all {count(len(curve.layers), 'layer')}" if len(curve.layers) > 1 else "one layer"
    say.show(f"{said(curve)}\n{same}; time {duration(curve.runtime_s)}")


def _show_budget(curve: SlotsCurve, plan: BudgetPlan, windows: bool, say: Say) -> None:
    from moeopt.cli.tables import table, tokens
    from moeopt.workload.table import id_ranges

    chosen: dict[int, list[int]] = {}
    for layer, redundant in zip(curve.layers, plan.redundant, strict=True):
        chosen.setdefault(redundant, []).append(layer)
    rows = table("", "redundant", "layers", "which")
    rows.columns[-1].justify = "left"
    for redundant, layers in sorted(chosen.items()):
        rows.add_row(str(redundant), str(len(layers)), id_ranges(layers))
    say.show(rows)
    used = f"{(plan.gpu_bytes or 0) / 1e9:,.2f} GB of {plan.budget_bytes / 1e9:,.2f} GB a GPU"

    def worth(value: float | None) -> str:
        value = value or 0.0
        return f"mean imbalance {value / len(curve.layers):.4f}" if windows else f"objective {tokens(value)} tokens"

    text = f"another number on each layer: {used}, {worth(plan.objective)}, the least there is"
    if plan.uniform_redundant is None:
        say.show(f"{text}; no number fits on all layers alike")
        return
    one = f"{count(plan.uniform_redundant, 'redundant expert')} on every layer: {worth(plan.uniform_objective)}"
    say.show(f"{text}; {one}")
